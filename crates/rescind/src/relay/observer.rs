//! What watches a link: the log, the recording, and the rule for stuck requests.

use std::task::{Context, Poll};

use rescind_proto::{
    relay::{End, Event},
    time::Instant,
};

/// Everything that is told what happens and changes nothing of it.
#[derive(Debug, Default)]
pub(crate) struct Observer {}

impl Observer {
    pub(crate) fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    pub(crate) fn kills_stuck(&self) -> bool {
        false
    }

    pub(crate) fn handle_event(&mut self, _now: Instant, _event: Event) {}

    pub(crate) fn handle_exit(&mut self, _now: Instant, _how: &End) {}

    pub(crate) fn handle_idle(&mut self) {}

    pub(crate) fn finish(&mut self, _now: Instant, _how: &End) {}
}
