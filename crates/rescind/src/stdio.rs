//! Reading and writing of pipes and inherited descriptors.

mod threaded;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub use platform::Descriptor;
#[cfg(windows)]
pub(crate) use platform::pipe;
pub(crate) use platform::{Input, Output};
#[cfg(unix)]
use unix as platform;
#[cfg(windows)]
use windows as platform;

/// Copies of this process's standard input and output.
#[cfg(feature = "stdio")]
pub(crate) fn standard() -> std::io::Result<(Descriptor, Descriptor)> {
    #[cfg(unix)]
    use std::os::fd::AsFd as _;
    #[cfg(windows)]
    use std::os::windows::io::AsHandle as _;
    let (input, output) = (std::io::stdin(), std::io::stdout());
    #[cfg(unix)]
    let (input, output) = (input.as_fd().try_clone_to_owned(), output.as_fd().try_clone_to_owned());
    #[cfg(windows)]
    let (input, output) = (input.as_handle().try_clone_to_owned(), output.as_handle().try_clone_to_owned());
    Ok((input?, output?))
}
