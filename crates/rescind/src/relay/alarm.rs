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
    /// Made when first armed: not before there is a runtime.
    sleep: Option<Pin<Box<Sleep>>>,
    armed: Option<Instant>,
}

impl Alarm {
    pub(crate) const fn new() -> Self {
        Self { sleep: None, armed: None }
    }

    /// Ready when `due` has come, or earlier. `origin` is the start of the clock that `due` is on.
    ///
    /// # Panics
    ///
    /// Something is due, and this is not polled in a runtime with a clock.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, origin: std::time::Instant, due: Option<Instant>) -> Poll<()> {
        let Some(due) = due else { return Poll::Pending };
        let at = || (origin + due.since_origin()).into();
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                if self.armed.is_none_or(|armed| due < armed) {
                    sleep.as_mut().reset(at());
                    self.armed = Some(due);
                }
                sleep
            }
            none => {
                self.armed = Some(due);
                none.insert(Box::pin(tokio::time::sleep_until(at())))
            }
        };
        let fired = sleep.as_mut().poll(cx);
        if fired.is_ready() {
            self.armed = None;
        }
        fired
    }
}
