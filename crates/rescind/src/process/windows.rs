//! Jobs and the events of consoles.

pub(crate) mod group;
mod job;
pub(crate) mod owned_process;
pub(crate) mod parent;
pub(crate) mod presence;
pub(crate) mod program;
pub(crate) mod signals;
