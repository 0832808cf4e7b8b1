//! Processes that this one starts: their groups, their terminal, and the steps in which they are ended.
//!
//! Each platform has one module, with the same contract:
//!
//! - `Group` starts the server and ends it with all that it has started (D47), politely or at once. It says how the server
//!   ended, and wakes the link when it has.
//! - `OwnedProcess` is a child of a program that uses the library, and `Leader` is what may end it with all that it has
//!   started.
//! - `Signals` are those to this process that concern the server, and `Signal` is one of them.
//!
//! | | Linux | macOS | Windows |
//! | --- | --- | --- | --- |
//! | polite end | SIGTERM to the process group | the same | CTRL_BREAK to the console group |
//! | hard end | SIGKILL to the group | the same | the end of the job |
//! | this process dies | the parent-death signal, and the group's watcher | the watcher | the job ends with its last handle |

#[cfg(feature = "admin")]
pub(crate) mod container;
#[cfg(not(feature = "admin"))]
#[path = "process/no_container.rs"]
pub(crate) mod container;
pub(crate) mod ended_by;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "another Unix needs it, and it is tested here"))]
pub(crate) mod parent;
pub(crate) mod restarts;
pub(crate) mod shutdown;
pub(crate) mod signals;
pub(crate) mod starter;
#[cfg(feature = "admin")]
pub(crate) mod turn_processes;
#[cfg(not(feature = "admin"))]
#[path = "process/no_turn_processes.rs"]
pub(crate) mod turn_processes;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(feature = "peer")]
pub(crate) use platform::owned_process;
pub(crate) use platform::{group, presence};
#[cfg(unix)]
use unix as platform;
#[cfg(unix)]
pub use unix::launch;
#[cfg(windows)]
use windows as platform;

use crate::stdio::{Input, Output};

/// Our ends of the pipes to a child.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: Output,
    pub(crate) stdout: Input,
    /// Of a child whose stderr is read, and not this process's own.
    pub(crate) stderr: Option<Input>,
}

/// How a server was suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspended {
    /// The name of the signal.
    pub(crate) name: &'static str,
    /// Its number.
    pub(crate) signal: i32,
}
