//! What becomes of the work of a client over HTTP that is gone: killed, or by its polite end.

use super::http_cancel::every_client;
use super::http_table::Behaviour;

/// Case 45: by SIGKILL, with one call in flight of which nothing was seen yet, or one with progress.
#[test]
fn a_client_that_is_killed_stops_its_work_in_2026_07_28_and_not_in_a_session() {
    every_client(Behaviour::HangUp);
}

/// Case 47: a session is deleted, and in 2026-07-28 its streams are closed.
#[test]
fn a_client_that_ends_politely_stops_its_work() {
    every_client(Behaviour::Closing);
}
