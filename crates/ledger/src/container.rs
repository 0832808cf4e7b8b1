//! Containers of a session: marked, ended, listed (D47).
//!
//! A container is a child of its engine, not of `docker run`: a signal to that command may never reach it, and it
//! outlives the command. So the command is given the session's mark, which the container or the process in it keeps, and
//! the engine is asked to end what has that mark. There is no cid file: a container can exist before its file does, so the
//! engine would have to be asked all the same, and an engine in a sandbox (snap) may not write where we would like it to.

pub mod command;
pub mod contained;
pub mod ending;
pub mod engine;
pub mod listing;
pub mod seen;

/// The label of a container with the mark of its session.
pub const MARK_LABEL: &str = "rescind.mark";
