//! What the system tells of processes, and how one of them is ended. Linux has all of it; elsewhere `sysinfo` reads what
//! there is.
//!
//! | | Linux | macOS | Windows |
//! | --- | --- | --- | --- |
//! | a process is told from a later one with its number by | clock ticks since the start of the system | seconds since 1970 | the same |
//! | in steps of | 10 ms | a second | a second |
//! | its group | yes | yes | no |
//! | its terminal | yes | no | no |
//! | whether its input is still open | yes | no | no |
//! | a polite end | SIGTERM | SIGTERM | no |
//! | a signal reaches no later process with its number | always | unless the number was given to another in the moment before | the same |

pub mod identity;
#[cfg(target_os = "linux")]
mod linux;
pub mod mark;
#[cfg(not(target_os = "linux"))]
mod other;
pub(crate) mod process;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;

/// A signal may not be sent: the process belongs to another user.
#[derive(Debug)]
pub(crate) struct NotAllowed;

/// How a process is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// SIGTERM, and SIGCONT to one that is stopped.
    Terminate,
    /// SIGKILL.
    Kill,
}
