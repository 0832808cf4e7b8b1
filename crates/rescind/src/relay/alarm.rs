//! One timer for everything that can become due.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use rescind_proto::time::Instant;
use tokio::time::Sleep;

/// Wakes the drive loop. Moving it costs more than a needless wake-up, so it is moved to an earlier time only.
#[derive(Debug)]
pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    armed: Option<Instant>,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(std::time::Duration::MAX)), armed: None }
    }

    /// Ready when `due` has come, or earlier. `origin` is the start of the clock that `due` is on.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, origin: std::time::Instant, due: Option<Instant>) -> Poll<()> {
        let Some(due) = due else { return Poll::Pending };
        if self.armed.is_none_or(|armed| due < armed) {
            self.sleep.as_mut().reset((origin + due.since_origin()).into());
            self.armed = Some(due);
        }
        let fired = self.sleep.as_mut().poll(cx);
        if fired.is_ready() {
            self.armed = None;
        }
        fired
    }
}
