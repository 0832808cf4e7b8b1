//! What asks this process to end: signals, or the events of a console.

use std::io;

#[cfg(unix)]
use rescind::launch::is_ignored;
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
    /// None if it was ignored when this process started (`nohup`): then it stays ignored.
    #[cfg(unix)]
    hangup: Option<Signal>,
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
        let [interrupt, terminate] = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        let hangup = SignalKind::hangup();
        let hangup = (!is_ignored(hangup.as_raw_value())).then(|| signal(hangup)).transpose()?;
        Ok(Self { interrupt: interrupt?, terminate: terminate?, hangup })
    }

    #[cfg(windows)]
    fn new() -> io::Result<Self> {
        Ok(Self { interrupt: ctrl_c()?, terminate: ctrl_break()?, hangup: ctrl_close()? })
    }

    /// Waits for the next one.
    pub(crate) async fn recv(&mut self) {
        let Self { interrupt, terminate, hangup } = self;
        #[cfg(unix)]
        let hung_up = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        #[cfg(windows)]
        let hung_up = hangup.recv();
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hung_up => {}
        }
    }
}
