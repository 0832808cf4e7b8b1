//! What asks this process to end: signals, or the events of a console.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlBreak, CtrlC, CtrlClose, ctrl_break, ctrl_c, ctrl_close};

use crate::failure::Failure;

/// Listens while it lives.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(unix)]
    hangup: Signal,
    #[cfg(windows)]
    interrupt: CtrlC,
    #[cfg(windows)]
    terminate: CtrlBreak,
    #[cfg(windows)]
    hangup: CtrlClose,
}

impl Interrupts {
    /// Listens from now on, for the command of this name.
    pub(crate) fn listen(command: &str) -> Result<Self, Failure> {
        Self::new().map_err(|_| Failure::new(command, "cannot listen for signals", "check the limit on open files"))
    }

    #[cfg(unix)]
    fn new() -> io::Result<Self> {
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Self { interrupt: interrupt?, terminate: terminate?, hangup: hangup? })
    }

    #[cfg(windows)]
    fn new() -> io::Result<Self> {
        Ok(Self { interrupt: ctrl_c()?, terminate: ctrl_break()?, hangup: ctrl_close()? })
    }

    /// Waits for the next one.
    pub(crate) async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
