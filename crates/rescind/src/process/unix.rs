//! Process groups, signals and terminals.

pub(crate) mod group;
pub mod launch;
#[cfg(feature = "peer")]
pub(crate) mod owned_process;
#[cfg(any(test, not(target_os = "linux")))]
pub(crate) mod parent;
pub(crate) mod presence;
pub(crate) mod signals;
pub(crate) mod terminal;
