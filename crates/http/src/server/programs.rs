//! What is known of the programs behind: which era they speak, and when they are started.

mod back_off;
pub(crate) mod era;
pub(crate) mod modern_only;
pub(crate) mod starts;
