//! Observes the process that started this one, where the system does not tell of its end.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Sleep;

use super::platform::parent::Parent;

/// How often it is looked for. Only between the end of the client's input and that of the server.
const ROUND: Duration = Duration::from_millis(100);

/// Looks for the parent again and again.
#[derive(Debug)]
pub(crate) struct ParentWatch {
    parent: Parent,
    sleep: Pin<Box<Sleep>>,
}

impl ParentWatch {
    /// `None` if it has ended already: the process that adopted this one outlives it.
    ///
    /// # Panics
    ///
    /// Outside a runtime with a clock.
    #[cfg(unix)]
    pub(crate) fn begin() -> Option<Self> {
        Parent::now().map(Self::of)
    }

    /// # Panics
    ///
    /// Outside a runtime with a clock.
    pub(crate) fn of(parent: Parent) -> Self {
        Self { parent, sleep: Box::pin(tokio::time::sleep(ROUND)) }
    }

    /// Ready when it has ended.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.parent.is_alive() {
            ready!(self.sleep.as_mut().poll(cx));
            self.sleep.as_mut().reset(tokio::time::Instant::now() + ROUND);
        }
        Poll::Ready(())
    }
}
