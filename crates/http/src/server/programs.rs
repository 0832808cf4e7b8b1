//! What is known of the programs behind: which era they speak, and when they are started.

mod back_off;
mod era;
mod modern_only;
mod starts;

pub(crate) use era::{Era, Held, Question, Shared};
pub(crate) use modern_only::{MAX_LIST, ModernOnly};
pub(crate) use starts::Starts;
