//! Ends this process as the server ended (D45).

use std::process::ExitCode;

use rescind::relay::LinkEnd;
use rescind_proto::relay::End;
use rustix::process::{Resource, Rlimit};

use super::OWN_FAILURE;

/// Gives the server's exit code, or does not return: this process dies of the signal that the server died of. Where a
/// signal cannot end it (process 1 of a container), the code is the one that a shell would give, 128 and the signal.
/// A success of the server is a failure of this process where its client has lost the rest.
pub(super) fn as_the_server(end: &LinkEnd) -> ExitCode {
    let code = match &end.server {
        End::Exited(0) if end.is_output_lost => OWN_FAILURE.into(),
        End::Exited(code) => *code,
        End::Signalled(signal) => {
            die_of(*signal);
            128 + signal
        }
        End::Closed => OWN_FAILURE.into(),
    };
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(OWN_FAILURE))
}

/// Returns where the signal has no effect. The core that there is to dump is the server's, not this process's.
fn die_of(signal: i32) {
    // The kernel ignores what process 1 sends itself, and the fallback would be an abort.
    if rustix::process::getpid().is_init() {
        return;
    }
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(Resource::Core, none);
    // A core that is piped to a program disregards the limit.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}
