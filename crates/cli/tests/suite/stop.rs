//! `rescind stop`.

mod scripted;
mod servers;
