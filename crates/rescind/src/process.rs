//! Processes that this one starts: their groups, their terminal, and the steps in which they are ended.

#[cfg(feature = "admin")]
pub(crate) mod container;
#[cfg(not(feature = "admin"))]
#[path = "process/no_container.rs"]
pub(crate) mod container;
pub(crate) mod ended_by;
pub(crate) mod group;
pub mod launch;
pub(crate) mod shutdown;
pub(crate) mod terminal;
