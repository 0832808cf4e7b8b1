//! Ends processes: politely, then not, and never a later process with the same number.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    snapshot::{Process, Snapshot},
    system::{self, NotAllowed, Order, identity::ProcessId},
};

/// How long processes are looked for and killed that others start meanwhile.
const KILLING: Duration = Duration::from_secs(5);

/// How often they are looked for.
const ROUND: Duration = Duration::from_millis(50);

/// A process that was to end, and how it did.
#[derive(Clone, Debug)]
pub struct Reaped {
    /// The process as it was found.
    pub process: Process,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How it ended.
    pub how: Ending,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// After SIGTERM, or by itself.
    Terminated,
    /// After SIGKILL.
    Killed,
    /// Not at all: this user may not send it a signal.
    NotAllowed,
    /// Not within five seconds after SIGKILL.
    Left,
}

impl Ending {
    /// Whether the process has ended.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Terminated | Self::Killed)
    }

    /// The words for it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Terminated => "ended",
            Self::Killed => "killed",
            Self::NotAllowed => "not ended: it belongs to another user",
            Self::Left => "not ended: it has survived SIGKILL for five seconds",
        }
    }
}

/// A process that is being ended.
#[derive(Debug)]
struct Held {
    process: Process,
    arguments: Vec<String>,
    handle: system::Held,
    ending: Option<Ending>,
    sent: Option<Order>,
}

/// Ends the processes that `choose` names, and those that it names later because the first have started them: SIGTERM,
/// and SIGKILL to those that are left after `grace`. It returns when all have ended, or five seconds after the first
/// SIGKILL. It blocks.
pub fn reap(grace: Duration, mut choose: impl FnMut(&Snapshot) -> Vec<ProcessId>) -> Vec<Reaped> {
    let mut all: BTreeMap<ProcessId, Held> = BTreeMap::new();
    let polite = Instant::now() + grace;
    let last = polite + KILLING;
    loop {
        let is_new = add(&mut all, &mut choose);
        let now = Instant::now();
        let is_polite = now < polite;
        for held in all.values_mut().filter(|held| held.ending.is_none()) {
            held.signal(is_polite);
        }
        let next = if is_polite { polite.min(now + ROUND) } else { now + ROUND };
        wait(&mut all, next);
        let is_done = all.values().all(|held| held.ending.is_some());
        // What ended may have started another before.
        if (is_done && !is_new && !add(&mut all, &mut choose)) || last < Instant::now() {
            break;
        }
    }
    let reaped = all.into_values().map(|held| Reaped {
        how: held.ending.unwrap_or(Ending::Left),
        process: held.process,
        arguments: held.arguments,
    });
    reaped.collect()
}

/// Takes hold of the processes that `choose` names and that are new; `true` if there were any.
fn add(all: &mut BTreeMap<ProcessId, Held>, choose: &mut impl FnMut(&Snapshot) -> Vec<ProcessId>) -> bool {
    let snapshot = Snapshot::take();
    let before = all.len();
    for id in choose(&snapshot) {
        if all.contains_key(&id) {
            continue;
        }
        if let Some((process, handle)) = snapshot.get(id).cloned().zip(system::Held::of(id)) {
            let arguments = process.arguments();
            all.insert(id, Held { process, arguments, handle, ending: None, sent: None });
        }
    }
    all.len() > before
}

impl Held {
    /// Asks it to end, once, or kills it.
    fn signal(&mut self, is_polite: bool) {
        let order = if is_polite { Order::Terminate } else { Order::Kill };
        if self.sent.replace(order) == Some(order) {
            return;
        }
        if let Err(NotAllowed) = self.handle.send(order) {
            self.ending = Some(Ending::NotAllowed);
        }
    }
}

/// Waits until one more has ended, or `until`.
fn wait(all: &mut BTreeMap<ProcessId, Held>, until: Instant) {
    loop {
        let mut open: Vec<&mut Held> = all.values_mut().filter(|held| held.ending.is_none()).collect();
        if open.is_empty() {
            return;
        }
        let left = until.saturating_duration_since(Instant::now());
        let ended = system::wait(&open.iter().map(|held| &held.handle).collect::<Vec<_>>(), left);
        for (held, _) in open.iter_mut().zip(ended).filter(|(_, ended)| *ended) {
            held.ending = Some(if held.sent == Some(Order::Kill) { Ending::Killed } else { Ending::Terminated });
        }
        if left.is_zero() {
            return;
        }
    }
}
