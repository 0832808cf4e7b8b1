//! Detects, without writing a byte, that the client is gone (D44).

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "here it is only tested"))]
mod other;

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    task::{Context, Poll, ready},
};

#[cfg(target_os = "linux")]
use linux::{ParentSign, ReaderSign};
#[cfg(not(target_os = "linux"))]
use other::{ParentSign, ReaderSign};

use crate::process::ended_by::EndReason;

/// Detects that the client is gone. It holds a copy of the client's output, and so keeps that open.
#[derive(Debug)]
pub(crate) struct Presence {
    sign: Option<Sign>,
    /// The reader of its output cannot be observed.
    is_blind: bool,
}

/// What tells that the client is gone.
#[derive(Debug)]
enum Sign {
    /// The reader of the client's output.
    Reader(ReaderSign),
    /// The process that started this one.
    Parent(ParentSign),
}

impl Presence {
    /// Observes the reader of `output`, if it can have one: a pipe, a socket, a terminal.
    pub(crate) fn of(output: &OwnedFd) -> io::Result<Self> {
        let sign = ReaderSign::of(output.as_fd())?.map(Sign::Reader);
        Ok(Self { is_blind: sign.is_none(), sign })
    }

    /// Handles the end of the client's input. If its output is a file or nothing, observes the parent process from now on.
    pub(crate) fn end_input(&mut self) {
        if self.is_blind && self.sign.is_none() {
            self.sign = ParentSign::begin().map(Sign::Parent);
        }
    }

    /// Ready once, when the client is gone.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        let reason = match &mut self.sign {
            None => return Poll::Pending,
            Some(Sign::Reader(reader)) => {
                ready!(reader.poll_gone(cx));
                EndReason::ReaderGone
            }
            Some(Sign::Parent(parent)) => {
                ready!(parent.poll_gone(cx));
                EndReason::ParentGone
            }
        };
        self.sign = None;
        Poll::Ready(reason)
    }
}
