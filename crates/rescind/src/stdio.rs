//! Reading and writing of inherited descriptors.
//!
//! An inherited descriptor shares its flags with every process that has it open. So `O_NONBLOCK` is never set on it if
//! there is another way: a pipe is opened a second time, a socket is told not to block call by call, and descriptors that
//! epoll refuses (files, `/dev/null`) or that belong to a person (a terminal) are left to a thread that may block.

mod descriptor;
mod input;
mod output;
mod polled;
mod threaded;

pub(crate) use input::Input;
pub(crate) use output::Output;
