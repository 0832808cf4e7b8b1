//! `rescind stop`.

mod questions;
mod scripted;
mod servers;
