//! Detects that the client is gone (D44).
//!
//! A pipe does not tell, without a write, that its reader is gone. So the process that started this one is observed once
//! the client's input has ended.

use std::{
    io,
    task::{Context, Poll, ready},
};

use crate::{
    process::{ended_by::EndReason, parent::ParentWatch},
    stdio::Descriptor,
};

/// Detects that the client is gone.
#[derive(Debug)]
pub(crate) struct Presence {
    parent: Option<ParentWatch>,
}

impl Presence {
    #[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
    pub(crate) const fn of(_output: &Descriptor) -> io::Result<Self> {
        Ok(Self { parent: None })
    }

    /// Handles the end of the client's input: observes the parent process from now on.
    pub(crate) fn end_input(&mut self) {
        if self.parent.is_none() {
            self.parent = ParentWatch::begin();
        }
    }

    /// Ready once, when the client is gone.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        let Some(parent) = &mut self.parent else { return Poll::Pending };
        ready!(parent.poll_gone(cx));
        self.parent = None;
        Poll::Ready(EndReason::ParentGone)
    }
}
