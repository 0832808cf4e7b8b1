//! Process groups, signals and terminals.

pub(crate) mod group;
pub mod launch;
pub(crate) mod presence;
pub(crate) mod signals;
pub(crate) mod terminal;
