//! The events of a console, which Windows has in place of signals.

use std::{
    io,
    task::{Context, Poll},
};

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

use crate::process::signals::{Listeners, SignalEvent};

/// An event of a console, by the number that C's library has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(i32);

impl Signal {
    /// CTRL+C.
    pub(crate) const INT: Self = Self(2);
    /// No event: the end of the job.
    pub(crate) const KILL: Self = Self(9);
    /// The console is closed, or the system is shut down.
    pub(crate) const TERM: Self = Self(15);
    /// CTRL+BREAK.
    const BREAK: Self = Self(21);

    pub(crate) const fn as_raw(self) -> i32 {
        self.0
    }
}

/// One kind of event.
#[derive(Debug)]
pub(crate) enum SignalStream {
    C(CtrlC),
    Break(CtrlBreak),
    Close(CtrlClose),
    Shutdown(CtrlShutdown),
}

impl SignalStream {
    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        match self {
            Self::C(stream) => stream.poll_recv(cx),
            Self::Break(stream) => stream.poll_recv(cx),
            Self::Close(stream) => stream.poll_recv(cx),
            Self::Shutdown(stream) => stream.poll_recv(cx),
        }
    }
}

pub(crate) fn listen() -> io::Result<Listeners> {
    let polled = vec![
        (SignalEvent::AsksForEnd(Signal::INT), SignalStream::C(ctrl_c()?)),
        (SignalEvent::AsksForEnd(Signal::BREAK), SignalStream::Break(ctrl_break()?)),
        (SignalEvent::AsksForEnd(Signal::TERM), SignalStream::Close(ctrl_close()?)),
        (SignalEvent::AsksForEnd(Signal::TERM), SignalStream::Shutdown(ctrl_shutdown()?)),
    ];
    Ok(Listeners { polled, held: None })
}

/// The end of a child is not an event: see [`Group::poll_exit`](super::group::Group::poll_exit).
pub(crate) const fn of_children() -> io::Result<Listeners> {
    Ok(Listeners { polled: Vec::new(), held: None })
}
