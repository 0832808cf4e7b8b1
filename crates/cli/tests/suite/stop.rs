//! `rescind stop`.

mod questions;
mod released;
mod scripted;
mod servers;
