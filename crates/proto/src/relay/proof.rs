//! For those who check the machine: its invariants, and a canonical hash of its state.

use core::hash::{Hash, Hasher};

use super::{
    Relay, RelayEvent,
    exchange::{Down, Exchange, ThreadPart, Up},
    task_work::{TaskPart, TaskWork},
};
use crate::{
    framing::Decoder, link::RequestKey, receipt::Outcome, side::Side, slab::Key, time::Instant, timer_queue::TimerKey,
};

impl Relay {
    /// Panics, naming the invariant by its number in the architecture page, if the state breaks one.
    ///
    /// Costs time in proportion to everything in flight and remembered.
    pub fn check_invariants(&self) {
        for side in Side::BOTH {
            let table = &self.tables[side];
            for (key, exchange) in table.iter() {
                let request = RequestKey { from: side, key };
                if let Some(cancel) = &exchange.cancel {
                    let outcome = cancel.receipt.outcome;
                    assert!(
                        outcome != Outcome::NeverSent || cancel.frame.is_none() && cancel.receipt.written.is_none(),
                        "invariant 2: a cancel goes out for {request:?}, which was withdrawn"
                    );
                    assert!(
                        cancel.receipt.written.is_none()
                            || !matches!(exchange.up, Up::Assembling | Up::Held | Up::Queued(_) | Up::Handed),
                        "invariant 1: the cancel of {request:?} left before the request"
                    );
                }
                if let Down::Answering(Some(ticket), _) = exchange.down {
                    assert!(
                        self.core.links[side].write_closed || self.core.links[side].outbox.holds(ticket),
                        "invariant 3: {request:?} waits for an answer that is not queued"
                    );
                }
                assert!(
                    (exchange.clocks.is_none() && !exchange.is_closing()) || exchange.down == Down::Waiting,
                    "invariant 6: a clock runs for {request:?}, which is over"
                );
            }
            for (key, exchange) in table.iter() {
                let Some(session) = exchange.session() else { continue };
                let method = self.core.methods.name(exchange.method);
                let is_in_updates = match exchange.is_work() {
                    true => exchange.is_foreground(),
                    false => exchange.dialect.turn.is_some_and(|turn| turn.is_in_updates(method)),
                };
                let (of_session, is_part) = match side {
                    Side::Client => (&self.core.turns, is_in_updates),
                    Side::Server => (&self.core.cards, exchange.is_question()),
                };
                let known = of_session.of(session).any(|part| part == key);
                let due = is_part && exchange.is_live();
                assert_eq!(known, due, "invariant 6: a turn, load or card is known while it is in flight");
            }
            for (key, exchange) in table.iter() {
                let is_known =
                    exchange.session().is_some_and(|session| self.core.held.of(session).any(|held| held == key));
                let is_kept = exchange.rare.as_deref().is_some_and(|rare| rare.held.is_some());
                assert!(
                    exchange.is_held() == is_kept && is_kept == (is_known && side == Side::Client),
                    "invariant 6: a prompt waits and is not known to, or is lost: {key:?}"
                );
            }
            let questions = table.iter().filter(|(_, ex)| ex.is_question() && ex.is_live()).count();
            assert_eq!(
                questions,
                self.core.questions[side.other()].holders(),
                "invariant 6: a clock stands still for nothing"
            );
            table.check(Exchange::is_live);
            assert!(
                self.early_cancels[side].len() <= self.core.config.early_cancels[side].most,
                "invariant 8: too many early cancels"
            );
            let outbox = &self.core.links[side].outbox;
            assert!(
                outbox.held() <= outbox.bound(),
                "invariant 8: {} bytes are held for a backlog of {}",
                outbox.held(),
                outbox.backlog()
            );
        }
        self.core.children.check();
        for (key, child) in self.core.children.iter() {
            let frame = child.cancel.as_deref().and_then(|cancel| cancel.frame);
            let is_queued = frame.is_some_and(|frame| self.core.links[Side::Server].outbox.holds(frame));
            assert!(
                !is_queued || child.can_cancel && child.state.is_open(),
                "invariant 1: a cancel waits for the child {key:?}, which may not be cancelled"
            );
        }
        for side in Side::BOTH {
            let at_work = self.tables[side].iter().filter(|(_, ex)| ex.is_live() && ex.task_work().is_some());
            let known = at_work
                .filter(|(key, ex)| ex.task_work().and_then(|w| self.core.tasks[side].find(&w.task)) == Some(*key));
            let all = self.tables[side].iter().filter(|(_, ex)| ex.is_live() && ex.task_work().is_some()).count();
            let count = self.core.tasks[side].len();
            assert_eq!((known.count(), all), (count, count), "invariant 6: a task is known while it is at work");
        }
        for side in Side::BOTH {
            let unsent = self.tables[side].iter().filter(|(_, ex)| ex.down == Down::Ours).count();
            assert_eq!(unsent, self.core.unsent_own[side], "invariant 8: the count of our own requests is off");
        }
        if let Some(arguments) = self.core.arguments.as_deref() {
            let of = |side: Side| self.tables[side].iter().map(move |(key, ex)| (RequestKey { from: side, key }, ex));
            let live = Side::BOTH.into_iter().flat_map(of).filter(|(_, ex)| ex.is_live());
            let known = live.filter(|(request, _)| arguments.has(*request)).count();
            assert_eq!(known, arguments.len(), "invariant 6: arguments are kept of what is over");
        }
        self.core.threads.iter().for_each(|threads| threads.check());
        let is_part = |ex: &Exchange| ex.thread().is_some_and(ThreadPart::is_work);
        for key in self.core.followed_work() {
            let is_at_work = self.tables.client.get(key).is_some_and(|ex| is_part(ex) && ex.is_live());
            assert!(is_at_work, "invariant 6: a turn or command is known while it is at work");
        }
        let at_work = self.tables.client.iter().filter(|(_, ex)| is_part(ex) && ex.is_live()).count();
        let known = self.core.followed_work().count();
        assert_eq!(at_work, known, "invariant 6: what is at work in a thread or a session is known");
        if let Some(bridge) = &self.bridge {
            bridge.check_invariants();
        }
    }

    /// In debug builds, after every input, while the tables are small enough for that to be quick.
    pub(super) fn check(&self) {
        let entries = |side| self.tables[side].live() + self.remembered(side);
        let all = entries(Side::Client) + entries(Side::Server) + self.core.children.len();
        if cfg!(debug_assertions) && all < 64 {
            self.check_invariants();
        }
    }

    /// Bytes of memory held for messages and requests, capacities included.
    ///
    /// Costs time in proportion to everything in flight and remembered.
    #[must_use]
    pub fn held(&self) -> usize {
        let sides = Side::BOTH.into_iter().map(|side| {
            let link = &self.core.links[side];
            let decoder = link.decoder.as_deref().map_or(0, Decoder::held);
            decoder + link.outbox.held() + self.tables[side].held() + self.early_cancels[side].held()
        });
        let bridge = self.bridge.as_ref().map_or(0, |bridge| bridge.held());
        let limits = self.core.limits.as_ref().map_or(0, |limits| limits.held())
            + self.core.restart.as_ref().map_or(0, |restart| restart.held())
            + self.core.welcome.as_ref().map_or(0, |early| early.held())
            + self.core.arguments.as_ref().map_or(0, |arguments| arguments.held());
        let threads = self.core.threads.as_ref().map_or(0, |threads| threads.held());
        let sessions = self.core.sessions.as_ref().map_or(0, |sessions| sessions.held());
        let tasks = Side::BOTH.into_iter().map(|side| self.core.tasks[side].held()).sum::<usize>();
        let own = bridge + limits + threads + sessions + tasks + self.core.children.held() + self.core.turns.held();
        let own = own + self.core.reports.changes.as_ref().map_or(0, |changes| changes.held());
        sides.sum::<usize>() + own + self.core.reports.events.capacity() * size_of::<RelayEvent>()
    }

    /// Feeds everything that decides the machine's future into a hasher: times relative to `now`, and no
    /// generation or counter that only names things.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let left = |timer: TimerKey| timer.is_armed().then(|| timer.at.since(now));
        self.core.negotiation.hash_state(state);
        if let Some(bridge) = &self.bridge {
            bridge.hash_state(now, state);
        }
        if let Some(limits) = &self.core.limits {
            limits.hash_state(now, state);
        }
        if let Some(restart) = &self.core.restart {
            restart.hash_state(now, state);
        }
        if let Some(early) = &self.core.welcome {
            early.hash_state(now, state);
        }
        for side in Side::BOTH {
            let link = &self.core.links[side];
            (link.own_backlog, link.ended, link.write_closed, link.gated, left(link.stalled)).hash(state);
            link.decoder.as_deref().map(Decoder::buffered).hash(state);
            link.outbox.hash_state(state);
            for (key, ex) in self.tables[side].iter() {
                (key.index(), &ex.id, &ex.renamed, &ex.token, ex.partial(), ex.session(), ex.method).hash(state);
                (ex.dialect.name, ex.upstream_dialect.name, ex.is_handshake(), ex.is_task, ex.replaced).hash(state);
                (ex.rare.as_deref().map_or(0, |rare| rare.duplicates), ex.is_followed()).hash(state);
                if let Some(session) = ex.session() {
                    let of_session = match side {
                        Side::Client => &self.core.turns,
                        Side::Server => &self.core.cards,
                    };
                    of_session.of(session).position(|part| part == key).hash(state);
                }
                ex.rare.as_deref().and_then(|rare| left(rare.card)).hash(state);
                ex.rare.as_deref().and_then(|rare| left(rare.held.as_deref()?.due)).hash(state);
                match ex.task() {
                    Some(TaskPart::Became(task)) => (1_u8, task).hash(state),
                    Some(TaskPart::Cancels(of, task)) => (2_u8, of.from, of.key.index(), task).hash(state),
                    Some(TaskPart::Work(work)) => {
                        let TaskWork { task, status, origin, delivered, look_after, looks, is_last_look, .. } = &**work;
                        (3_u8, task, status, origin.map(Key::index), delivered).hash(state);
                        (look_after, looks, is_last_look, left(work.next_look)).hash(state);
                        (work.ended, work.is_of_lost_session).hash(state);
                        work.waits.iter().for_each(|wait| wait.index().hash(state));
                    }
                    Some(TaskPart::About(of, ask)) => (4_u8, of.index(), ask).hash(state),
                    Some(TaskPart::Gets(of)) => (5_u8, of.from, of.key.index()).hash(state),
                    Some(TaskPart::WaitedFor(end)) => (6_u8, end).hash(state),
                    None => 0_u8.hash(state),
                }
                ex.thread().map(ThreadPart::kind).hash(state);
                match ex.down {
                    Down::Waiting => 0_u8.hash(state),
                    Down::Answering(ticket, how) => {
                        (1_u8, ticket.map(|ticket| self.core.links[side].outbox.place(ticket)), how).hash(state);
                    }
                    Down::Ours => 3_u8.hash(state),
                    // When it was settled stands with the tombstones below.
                    Down::Done(how, _) => (2_u8, how).hash(state),
                }
                match ex.up {
                    Up::Queued(Some(ticket)) => self.core.links[side.other()].outbox.place(ticket).hash(state),
                    Up::Assembling
                    | Up::Held
                    | Up::Queued(None)
                    | Up::Handed
                    | Up::Sent
                    | Up::Answered
                    | Up::Never
                    | Up::Lost => {
                        core::mem::discriminant(&ex.up).hash(state);
                    }
                }
                if let Some(cancel) = &ex.cancel {
                    let receipt = &cancel.receipt;
                    (receipt.cause.code, core::mem::discriminant(&receipt.outcome)).hash(state);
                    // Whether we have written it tells what becomes of a card, too.
                    (receipt.written.is_some(), cancel.frame.is_some(), cancel.stuck, cancel.works_on).hash(state);
                    cancel.is_ordered.hash(state);
                    left(cancel.grace).hash(state);
                    let late = ex.rare.as_deref().filter(|_| cancel.works_on).map(|rare| now.since(rare.late.at));
                    late.hash(state);
                }
                if let Some(clocks) = &ex.clocks {
                    let reading = self.core.questions[side].reading(now);
                    for (running, now) in [(clocks.response, reading), (clocks.total, now)] {
                        running.map(|running| running.until.since(now)).hash(state);
                    }
                    left(clocks.timer).hash(state);
                }
            }
            self.core.tasks[side].hash_state(state);
            self.early_cancels[side].hash_state(now, state);
            self.core.questions[side].holders().hash(state);
            for (key, at) in self.tables[side].tombstones() {
                (key.index(), now.since(at)).hash(state);
            }
            self.tables[side].hash_names(state);
        }
        self.bundles.iter().for_each(|(_, members)| members.hash(state));
        self.core.threads.iter().for_each(|threads| threads.hash_state(state));
        self.core.sessions.iter().for_each(|sessions| sessions.hash_state(state));
        for (session, key) in &self.core.muted {
            (session, key.index()).hash(state);
        }
        self.core.children.hash_state(state);
        (left(self.tombstones_due), self.core.server_end.is_some()).hash(state);
    }

    /// How many entries all tables hold: requests in flight and remembered, their indexes, early cancels,
    /// turns, cards, muted sessions, timers. Zero once everything is over and the longest timer has passed (invariant 6).
    /// Children and tasks at work are not counted: they are kept until their session is closed, or they are known to be over.
    #[must_use]
    pub fn residue(&self) -> usize {
        let tables: usize =
            Side::BOTH.into_iter().map(|side| self.tables[side].residue() + self.early_cancels[side].len()).sum();
        // Each stands among the entries, in their index, and among those that are renamed.
        let at_work: usize = Side::BOTH.into_iter().map(|side| 3 * self.core.tasks[side].len()).sum();
        let bridge = self.bridge.as_ref().map_or(0, |bridge| bridge.residue());
        let work = self.core.followed_work().count();
        let turns = self.core.turns.len() + self.core.held.len() + self.core.cards.len();
        let sessions = turns + self.core.muted.len() + work;
        tables - at_work + bridge + sessions + self.core.timers.len() + self.bundles.len()
    }
}

#[cfg(test)]
mod tests;
