//! One timer for all deadlines of a drive.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use rescind_proto::time::Instant;
use tokio::time::Sleep;

/// Wakes the drive. Resetting a timer costs more than a needless wake-up, so it is reset only to an earlier time.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Created when first armed, which is in a runtime.
    sleep: Option<Pin<Box<Sleep>>>,
    armed: Option<Instant>,
}

impl Alarm {
    pub(crate) const fn new() -> Self {
        Self { sleep: None, armed: None }
    }

    /// Ready at `due`, or earlier. `origin` is the start of the clock of `due`.
    ///
    /// # Panics
    ///
    /// If there is a deadline, outside a runtime with a clock.
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
