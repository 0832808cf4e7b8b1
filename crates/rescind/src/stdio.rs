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
