//! Whoever shows what is in flight, told only what changed: is the copy true, and do the counts add up?

use std::collections::BTreeMap;

use rescind_proto::{
    link::{ChildKey, RequestKey},
    relay::{ChildView, Relay, RequestView, WordCounts},
    side::Side,
};

use super::world::{Broken, never};

/// A copy of all that a relay shows, kept in step by what it says has changed.
#[derive(Clone, Debug)]
pub struct Watcher {
    copy: BTreeMap<RequestKey, String>,
    children: BTreeMap<ChildKey, String>,
}

impl Watcher {
    /// Begins to watch.
    pub fn new(relay: &mut Relay) -> Self {
        relay.watch(true);
        let copy = all(relay).map(|view| (view.key, shown(&view))).collect();
        Self { copy, children: relay.children().map(|view| (view.key, child(&view))).collect() }
    }

    /// Takes over what has changed, and compares.
    ///
    /// # Errors
    ///
    /// A change that was not told, or counts that do not add up.
    pub fn follow(&mut self, relay: &mut Relay) -> Result<(), Broken> {
        while let Some(changed) = relay.poll_changed() {
            match relay.view(changed) {
                Some(view) => self.copy.insert(changed, shown(&view)),
                None => self.copy.remove(&changed),
            };
        }
        while let Some(changed) = relay.poll_changed_child() {
            match relay.child(changed) {
                Some(view) => self.children.insert(changed, child(&view)),
                None => self.children.remove(&changed),
            };
        }
        let children: BTreeMap<_, _> = relay.children().map(|view| (view.key, child(&view))).collect();
        never(self.children != children, || {
            format!("a change of a child was not told: known is {:?}, true {children:?}", self.children)
        })?;
        for view in all(relay) {
            let (known, now) = (self.copy.get(&view.key), shown(&view));
            never(known != Some(&now), || {
                format!("a change of {} was not told: known is {known:?}, true {now}", view.key)
            })?;
        }
        add_up(relay)
    }
}

fn all(relay: &Relay) -> impl Iterator<Item = RequestView<'_>> {
    Side::BOTH.into_iter().flat_map(|side| relay.summaries(side)).filter_map(|summary| relay.view(summary.key))
}

/// All of a view; of a dialect its name.
fn shown(view: &RequestView<'_>) -> String {
    let RequestView { key, id, upstream, method, name, parent, since, state, deadline, progress, .. } = view;
    let RequestView { is_task, task, at_work, is_held, cancel, works_on, children, is_stuck, is_released, .. } = view;
    let RequestView { upstream_dialect, ended, late, opened_by, held_until, .. } = view;
    let asked = (key, id, upstream, method, name, (parent, opened_by), (since, held_until));
    let goes_on = (state, deadline, progress, (is_task, task, at_work, is_held), upstream_dialect.name);
    let after_its_cancel = (cancel, works_on, is_stuck, is_released, children);
    format!("{:?}", (asked, goes_on, after_its_cancel, (ended, late)))
}

/// All of a child's view but its parent, which is shown as it is found.
fn child(view: &ChildView<'_>) -> String {
    let ChildView {
        key, session, title, state, can_cancel, since, reported, updates, updated, cancel, opened_by, ..
    } = view;
    format!("{:?}", ((key, session, title, state, can_cancel), opened_by, (since, reported, updates, updated), cancel))
}

/// Every request is in flight or has ended in one way, and every cancel has one outcome.
fn add_up(relay: &Relay) -> Result<(), Broken> {
    let tally = relay.tally();
    let sum = |counts: &WordCounts| counts.values().sum::<u64>();
    let opened = tally.requests.client + tally.requests.server;
    let in_flight = (relay.in_flight(Side::Client) + relay.in_flight(Side::Server)) as u64;
    let ended = tally.answered + tally.answered_here + tally.silent + tally.gone;
    never(opened != in_flight + ended, || {
        format!("{opened} requests came, {in_flight} are in flight, and {ended} have ended")
    })?;
    let (cancels, outcomes) = (sum(&tally.cancels), sum(&tally.outcomes));
    never(cancels != outcomes, || format!("{cancels} cancels have {outcomes} outcomes: {tally:?}"))?;
    let settled: u64 = tally.cancel_to_settled.counts.iter().sum();
    never(settled > cancels, || format!("{settled} cancelled requests have ended, of {cancels}"))
}
