//! `rescind stop`.

mod everything;
mod questions;
mod released;
mod scripted;
mod servers;
