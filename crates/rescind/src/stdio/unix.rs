//! Descriptors of Unix.
//!
//! An inherited descriptor shares its flags with every process that has it open. So `O_NONBLOCK` is never set on it if
//! there is another way: a pipe is opened a second time, a socket is told not to block call by call, and descriptors that
//! epoll refuses (files, `/dev/null`) or that belong to a person (a terminal) are left to a thread that may block.

mod descriptor;
mod input;
mod output;
mod polled;
pub(super) mod turn;

pub(crate) use input::Input;
pub(crate) use output::Output;
/// An open file, pipe, socket or terminal.
pub type Descriptor = std::os::fd::OwnedFd;
