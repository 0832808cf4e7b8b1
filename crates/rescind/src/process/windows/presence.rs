//! Detects that the client is gone (D44).
//!
//! A pipe does not tell, without a write, that its reader is gone. So the process that started this one is observed once
//! the client's input has ended. One that is killed ends before its pipe does, so it must be known from the start.

use std::{
    io,
    task::{Context, Poll, ready},
};

use super::parent::Parent;
use crate::{
    process::{ended_by::EndReason, parent::ParentWatch},
    stdio::Descriptor,
};

/// Detects that the client is gone.
#[derive(Debug)]
pub(crate) struct Presence {
    /// `None` if it had ended before this one observed it.
    parent: Option<Parent>,
    watch: Option<ParentWatch>,
}

impl Presence {
    #[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
    pub(crate) fn of(_output: &Descriptor) -> io::Result<Self> {
        Ok(Self { parent: Parent::now(), watch: None })
    }

    /// Handles the end of the client's input: observes the parent process from now on.
    pub(crate) fn end_input(&mut self) {
        if let Some(parent) = self.parent.take() {
            self.watch = Some(ParentWatch::of(parent));
        }
    }

    /// Ready once, when the client is gone.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        let Some(watch) = &mut self.watch else { return Poll::Pending };
        ready!(watch.poll_gone(cx));
        self.watch = None;
        Poll::Ready(EndReason::ParentGone)
    }
}
