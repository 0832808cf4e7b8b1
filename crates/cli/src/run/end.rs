//! Ends this process the way the server ended (D45).

use std::process::ExitCode;

use rescind::relay::LinkEnd;
use rescind_proto::relay::End;

use super::OWN_FAILURE;

/// Returns the server's exit code, or dies of the signal that ended the server. If a signal cannot end this process
/// (process 1 of a container), the code is 128 plus the signal, as in a shell. A successful server whose client did not
/// read all of its output counts as a failure.
pub(super) fn as_the_server(end: &LinkEnd) -> ExitCode {
    let code = match &end.server {
        End::Exited(0) if end.is_output_lost => OWN_FAILURE.into(),
        End::Exited(code) => *code,
        End::Signalled(signal) => {
            die_of(*signal);
            128 + signal
        }
        End::Closed => OWN_FAILURE.into(),
        _ => OWN_FAILURE.into(),
    };
    #[cfg(unix)]
    return ExitCode::from(u8::try_from(code & 0xff).unwrap_or(OWN_FAILURE));
    // A code has 32 bits there, and `ExitCode` eight.
    #[cfg(windows)]
    std::process::exit(code);
}

/// Nothing here ends of a signal.
#[cfg(windows)]
const fn die_of(_: i32) {}

/// Returns only if the signal has no effect. Leaves no core dump: only the server's is of interest.
#[cfg(unix)]
fn die_of(signal: i32) {
    use rustix::process::{Resource, Rlimit};
    // The kernel ignores signals that process 1 sends itself, and the fallback would be an abort.
    if rustix::process::getpid().is_init() {
        return;
    }
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(Resource::Core, none);
    // A core that is piped to a program ignores the limit.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}
