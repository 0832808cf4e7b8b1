//! Handles of Windows.
//!
//! A pipe that this process makes is read and written without blocking. What it has inherited may be anything, and mostly
//! cannot be: that is left to a thread.

mod input;
mod output;
pub(crate) mod pipe;
pub(super) mod turn;

pub(crate) use input::Input;
pub(crate) use output::Output;

/// An open file, pipe or console.
pub type Descriptor = std::os::windows::io::OwnedHandle;
