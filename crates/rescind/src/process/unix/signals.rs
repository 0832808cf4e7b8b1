//! Which signals are listened for.

use std::io;

pub(crate) use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::process::signals::{Listeners, SignalEvent};

pub(crate) type SignalStream = tokio::signal::unix::Signal;

/// Signals that ask for an end.
const ASK_FOR_END: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// Signals that a server may give a meaning of its own, such as to reload its settings. Two of them would end this
/// process. SIGWINCH is sent to the terminal's foreground group, where the server is not.
const PASSED_ON: [Signal; 3] = [Signal::USR1, Signal::USR2, Signal::WINCH];

/// Signals that were ignored when this process started (`nohup`) stay ignored.
pub(crate) fn listen() -> io::Result<Listeners> {
    let ignored = ignored();
    let mut polled = Vec::new();
    let kinds = ASK_FOR_END.map(|kind| (kind, SignalEvent::AsksForEnd(kind)));
    for (kind, arrival) in kinds.into_iter().chain(PASSED_ON.map(|kind| (kind, SignalEvent::PassedOn(kind)))) {
        if !ignored.contains(kind) {
            polled.push((arrival, signal(SignalKind::from_raw(kind.as_raw()))?));
        }
    }
    // A write past the limit on file sizes is an error then, which ends a log or a recording. Else it would end the link.
    let too_large = (!ignored.contains(Signal::XFSZ)).then(|| signal(SignalKind::from_raw(Signal::XFSZ.as_raw())));
    let held = too_large.transpose()?;
    polled.push((SignalEvent::Continued, signal(SignalKind::from_raw(Signal::CONT.as_raw()))?));
    polled.push((SignalEvent::Child, signal(SignalKind::child())?));
    Ok(Listeners { polled, held })
}

pub(crate) fn of_children() -> io::Result<Listeners> {
    Ok(Listeners { polled: vec![(SignalEvent::Child, signal(SignalKind::child())?)], held: None })
}

/// A set of signals as the kernel prints it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mask(u64);

impl Mask {
    pub(super) fn contains(self, signal: Signal) -> bool {
        self.0 >> (signal.as_raw() - 1) & 1 == 1
    }
}

/// The signals that this process ignores; none if `/proc` does not say.
pub(super) fn ignored() -> Mask {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).map(Mask).unwrap_or_default()
}
