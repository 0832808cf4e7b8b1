//! Reading and writing descriptors that came from elsewhere.
//!
//! A descriptor that was inherited shares its flags with every process that has
//! it open. So `O_NONBLOCK` is never set on it where there is another way: a pipe
//! is opened a second time, a socket is asked not to wait call by call, and what
//! epoll refuses (files, `/dev/null`) or a person looks at (a terminal) is left to a
//! thread that may block.

mod descriptor;
mod input;
mod output;
mod polled;
mod threaded;

pub(crate) use input::Input;
pub(crate) use output::Output;
