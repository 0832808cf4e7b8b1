//! Signals to this process that concern the server.

use std::{
    io,
    task::{Context, Poll},
};

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// The signals that are handed on to the server, and the news that a child has ended or was stopped, or that this
/// process was continued.
#[derive(Debug)]
pub(crate) struct Signals {
    handed_on: Vec<(Signal, tokio::signal::unix::Signal)>,
    child: tokio::signal::unix::Signal,
    continued: tokio::signal::unix::Signal,
    /// Held, never polled: listening to it makes a write beyond the limit on file sizes an error, which ends a
    /// log or a recording, instead of the end of the link.
    _too_large: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Listens from now on. What this process was started with as ignored (`nohup`) stays ignored.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let mut handed_on = Vec::new();
        for kind in [Signal::TERM, Signal::INT, Signal::HUP] {
            if !ignored.contains(kind) {
                handed_on.push((kind, signal(SignalKind::from_raw(kind.as_raw()))?));
            }
        }
        let too_large = (!ignored.contains(Signal::XFSZ)).then(|| signal(SignalKind::from_raw(Signal::XFSZ.as_raw())));
        let too_large = too_large.transpose()?;
        let continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
        Ok(Self { handed_on, child: signal(SignalKind::child())?, continued, _too_large: too_large })
    }

    /// The next signal that is to be handed on.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        for (kind, arrivals) in &mut self.handed_on {
            if arrivals.poll_recv(cx).is_ready() {
                return Poll::Ready(*kind);
            }
        }
        Poll::Pending
    }

    /// Ready when this process was continued: a shell may have given it the terminal.
    pub(crate) fn poll_continued(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.continued.poll_recv(cx).map(|_| ())
    }

    /// Ready when a child may have ended or been stopped.
    pub(crate) fn poll_child(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.child.poll_recv(cx).map(|_| ())
    }
}

/// A set of signals as the kernel prints it.
#[derive(Clone, Copy, Debug, Default)]
struct Mask(u64);

impl Mask {
    fn contains(self, signal: Signal) -> bool {
        self.0 >> (signal.as_raw() - 1) & 1 == 1
    }
}

/// The signals that this process ignores; none where the system does not say.
fn ignored() -> Mask {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).map(Mask).unwrap_or_default()
}
