//! The limit on open files, which connections count against.

use rescind_http::shell::client::Connections;

/// Of the connections to servers, those that are kept for what stops work: docs/http.md.
const RESERVED: usize = 64;

/// How many connections to servers there may be, if it is at most so many; and how many that is with those that are kept
/// for what stops work. Where there are few descriptors, one in eight is kept.
pub(crate) fn to_servers(most: usize) -> (Connections, usize) {
    let reserved = (most / 8).clamp(1, RESERVED);
    let open = most.saturating_sub(reserved).max(1);
    (Connections::new(open, reserved), open + reserved)
}

/// Allows this process as many open files as the system lets it have (the hard limit of `ulimit -n`), and returns how many
/// connections that makes.
#[cfg(unix)]
pub(crate) fn raise() -> usize {
    use rustix::process::{Resource, Rlimit};
    /// Descriptors that connections leave for everything else: server processes, files, the admin socket.
    const SPARE: u64 = 64;
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    let allowed = if rustix::process::setrlimit(Resource::Nofile, raised).is_ok() { maximum } else { current };
    let connections = allowed.map_or(u64::MAX, |allowed| allowed.saturating_sub(SPARE).max(1));
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// Windows has no such limit.
#[cfg(windows)]
pub(crate) const fn raise() -> usize {
    usize::MAX
}
