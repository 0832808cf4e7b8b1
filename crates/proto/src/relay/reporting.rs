//! What is reported: events for the driver, counts, and which requests have changed.

use std::collections::VecDeque;

use super::{
    Core, Emit, Hop, KEPT_RECORDS, Relay, RelayConfig, RelayEvent, Settled, Step, StuckSign, TaskNews,
    batch::Allowance,
    exchange::{Down, Exchange},
    exchanges::Exchanges,
    link::{Part, Tag},
    tally::{Tally, count},
};
use crate::{
    cause::CauseCode,
    family::MAX_MEMBERS,
    id::RequestId,
    json,
    link::{CancelNotice, ChildKey, LateKind, Rejected, RequestKey, Verdict},
    rule::Rule,
    side::{Side, Sides},
    time::Instant,
};

/// How much of a rejected message an event keeps.
const EXCERPT: usize = 256;

/// Keys that wait at most; an observer that asks so rarely starts again.
const MAX_CHANGES: usize = 1 << 18;

/// Messages of our own that are kept at most.
const MAX_OWN_MESSAGES: usize = 256;

/// Keys of what has ended that wait at most, of requests and of children. A link remembers fewer requests.
const MAX_ENDED: usize = 1 << 14;

/// Longer ones are not: ids and sessions in them are the peers', of any length.
const MAX_FRAME: usize = 16 << 10;

/// The most bytes that the notes for an observer hold; a queue has room for twice what is in it.
pub(super) const MAX_HELD: usize = 2 * MAX_CHANGES * size_of::<RequestKey>()
    + 4 * MAX_MEMBERS * size_of::<ChildKey>()
    + MAX_OWN_MESSAGES * (MAX_FRAME + 2 * size_of::<OwnMessage>());

#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    pub(super) events: VecDeque<RelayEvent>,
    pub(super) emit: Emit,
    pub(super) tally: Tally,
    /// What has changed since the observer last asked; absent where there is none.
    pub(super) changes: Option<Changes>,
    /// Children whose cancelled work has ended, since the driver last asked.
    stopped_children: VecDeque<ChildKey>,
    /// What has ended since the driver last asked.
    ended: Ended,
    /// What may still be reported and refused of the batch that is being read.
    pub(super) allowance: Option<Allowance>,
}

/// Which requests have changed, for an observer.
///
/// A change is noted by its request's key, once until it is asked for, whatever happened in between: so a busy link costs
/// an observer one entry a request, and a link that is not observed a look at an absent queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    keys: VecDeque<RequestKey>,
    children: VecDeque<ChildKey>,
    lost: bool,
    own_messages: VecDeque<OwnMessage>,
}

/// What has ended since the driver last asked, or had ended when more was learnt of its cancel.
#[derive(Clone, Debug, Default)]
struct Ended {
    requests: VecDeque<RequestKey>,
    children: VecDeque<ChildKey>,
    /// How many requests had no room.
    unkept: u64,
}

/// A message of the relay's own about a request: a cancel that went to one side, an answer that went to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnMessage {
    /// The request.
    pub request: RequestKey,
    /// Who received it.
    pub to: Side,
    /// When its last byte was written.
    pub at: Instant,
    /// The message with its framing.
    pub frame: Box<[u8]>,
}

impl Reports {
    pub(super) fn new(config: &RelayConfig) -> Self {
        let tally = Tally { limited: config.limits.counts(), ..Tally::default() };
        Self { emit: config.emit, tally, ..Self::default() }
    }

    pub(super) fn emit(&mut self, event: RelayEvent) {
        self.events.push_back(event);
    }

    /// Emits an event about what passed, if such events are wanted and the batch that it is about has not had its share.
    fn remark(&mut self, event: impl FnOnce() -> RelayEvent) {
        if self.emit.notices && self.allowance.as_mut().is_none_or(Allowance::allows_remark) {
            self.events.push_back(event());
        }
    }

    /// Notes that a request has changed, for an observer.
    #[inline]
    pub(super) fn mark_changed(&mut self, request: RequestKey, exchange: &mut Exchange) {
        if let Some(changes) = &mut self.changes
            && !core::mem::replace(&mut exchange.changed, true)
        {
            changes.note(request);
        }
    }

    /// Whether changes are noted for an observer.
    pub(super) const fn is_observed(&self) -> bool {
        self.changes.is_some()
    }

    /// Notes that a request is forgotten, for an observer that may have been shown it until now.
    #[cold]
    pub(super) fn mark_forgotten(&mut self, request: RequestKey, exchange: &Exchange) {
        if let Some(changes) = &mut self.changes
            && !exchange.changed
        {
            changes.note(request);
        }
    }

    /// The work of a child is over that was cancelled, alone or with its turn. The oldest are forgotten: no more are kept than
    /// there are children.
    pub(super) fn note_stopped_child(&mut self, child: ChildKey) {
        if self.emit.stopped_children {
            self.stopped_children.push_back(child);
            self.stopped_children.drain(..self.stopped_children.len().saturating_sub(MAX_MEMBERS));
        }
    }

    /// A request has ended, or more was learnt of the cancel of one that had.
    #[inline]
    fn note_ended(&mut self, request: RequestKey) {
        if self.emit.ends && self.ended.requests.back() != Some(&request) {
            self.ended.requests.push_back(request);
            if self.ended.requests.len() > MAX_ENDED {
                self.ended.requests.pop_front();
                self.ended.unkept += 1;
            }
        }
    }

    /// The work of a child has ended.
    pub(super) fn note_ended_child(&mut self, child: ChildKey) {
        if self.emit.ends {
            self.ended.children.push_back(child);
            self.ended.children.drain(..self.ended.children.len().saturating_sub(MAX_ENDED));
        }
    }

    /// A frame has left for `to`, whole. One of our own is kept for an observer.
    pub(super) fn note_written(&mut self, now: Instant, to: Side, tag: Tag, bytes: &[u8], tables: &Sides<Exchanges>) {
        if self.emit.frames {
            self.events.push_back(RelayEvent::Frame { hop: Hop::To(to), bytes: bytes.into() });
        }
        let is_answered_here = |request: RequestKey| {
            let exchange = tables[request.from].get(request.key);
            exchange.is_some_and(|ex| matches!(ex.down, Down::Answering(_, Settled::AnsweredHere { .. })))
        };
        if let (Some(changes), Tag::Of(request, part)) = (&mut self.changes, tag)
            && (part == Part::Cancel || part == Part::Answer && is_answered_here(request))
            && bytes.len() <= MAX_FRAME
        {
            if changes.own_messages.len() == MAX_OWN_MESSAGES {
                changes.own_messages.pop_front();
            }
            changes.own_messages.push_back(OwnMessage { request, to, at: now, frame: bytes.into() });
        }
    }
}

impl Changes {
    /// Notes a change; one too many, and none of those that wait is worth anything.
    pub(super) fn note(&mut self, request: RequestKey) {
        self.keys.push_back(request);
        if self.keys.len() > MAX_CHANGES {
            self.keys = VecDeque::new();
            self.lost = true;
        }
    }
}

impl Changes {
    /// Bytes of memory held, capacities included.
    pub(super) fn held(&self) -> usize {
        self.keys.capacity() * size_of::<RequestKey>()
            + self.children.capacity() * size_of::<ChildKey>()
            + self.own_messages.capacity() * size_of::<OwnMessage>()
            + self.own_messages.iter().map(|message| message.frame.len()).sum::<usize>()
    }

    /// Notes a change of a child. Children that come and go unobserved are worth no more than too many changes.
    pub(super) fn note_child(&mut self, child: ChildKey) {
        self.children.push_back(child);
        if self.children.len() > 2 * MAX_MEMBERS {
            self.children = VecDeque::new();
            self.lost = true;
        }
    }
}

impl Core {
    /// Reports a message that is not passed on.
    pub(super) fn reject(&mut self, from: Side, why: Rejected, bytes: &[u8]) {
        self.reports.tally.dropped += 1;
        let excerpt = &bytes[..bytes.len().min(EXCERPT)];
        self.reports.remark(|| RelayEvent::Rejected { from, why, excerpt: excerpt.into() });
    }

    pub(super) fn report_violation(&mut self, by: Side, rule: Rule, id: Option<RequestId>) {
        *self.reports.tally.violations[by].entry(rule).or_default() += 1;
        self.reports.remark(|| RelayEvent::Violation { by, rule, id });
    }

    pub(super) fn report_task(&mut self, request: RequestKey, id: RequestId, task: &[u8], news: TaskNews) {
        if self.config.emit.notices {
            let task = json::text(task).unwrap_or_default().into();
            self.reports.emit(RelayEvent::Task { request, id, task, news });
        }
    }
}

impl Relay {
    /// The next event.
    pub fn poll_event(&mut self) -> Option<RelayEvent> {
        let events = &mut self.core.reports.events;
        let event = events.pop_front();
        if event.is_none() && events.capacity() > KEPT_RECORDS {
            events.shrink_to(KEPT_RECORDS);
        }
        event
    }

    /// A child that was cancelled, alone or with its turn, and whose agent has reported that its work was
    /// [cancelled](crate::child::ChildEnd::Cancelled) since this last gave its key (with [`Emit::stopped_children`]).
    pub fn poll_stopped_child(&mut self) -> Option<ChildKey> {
        self.core.reports.stopped_children.pop_front()
    }

    /// A request or followed work that has ended, or of whose cancel more was learnt after that, since this last gave its key
    /// (with [`Emit::ends`]). How it ended is in [`view`](Self::view); one without a view is forgotten.
    #[inline]
    pub fn poll_ended(&mut self) -> Option<RequestKey> {
        self.core.reports.ended.requests.pop_front()
    }

    /// A child whose agent has reported the end of its work since this last gave its key (with [`Emit::ends`]): its
    /// [`child`](Self::child). The work of one whose parent was closed is not reported.
    #[inline]
    pub fn poll_ended_child(&mut self) -> Option<ChildKey> {
        self.core.reports.ended.children.pop_front()
    }

    /// How many ends were left out since the last call, for want of room.
    pub fn poll_unkept_ends(&mut self) -> u64 {
        core::mem::take(&mut self.core.reports.ended.unkept)
    }

    /// Reports a cancel that a side sent.
    pub(super) fn report_cancel(
        &mut self,
        from: Side,
        request: Option<RequestKey>,
        id: Option<RequestId>,
        reason: Option<Box<str>>,
        verdict: Verdict,
    ) {
        if verdict != Verdict::Accepted && verdict != Verdict::Held {
            count(&mut self.core.reports.tally.unheeded, verdict.as_str());
        }
        let Self { core: Core { reports, methods, .. }, tables, .. } = self;
        reports.remark(|| {
            let exchange = request.and_then(|request| tables[request.from].get(request.key));
            RelayEvent::Cancel(CancelNotice {
                from,
                id,
                method: exchange.map(|exchange| methods.shared(exchange.method)),
                cause: CauseCode::Caller,
                reason,
                verdict,
                in_flight: tables[from].live(),
            })
        });
    }

    /// Reports what a request or followed work is part of, if that is known.
    pub(super) fn report_part(&mut self, request: RequestKey) {
        if !self.core.config.emit.requests {
            return;
        }
        let Some(part) = self.exchange(request) else { return };
        let Some(parent) = part.parent_of(request.from) else { return };
        let Some(parent_id) = self.exchange(parent).map(|exchange| exchange.id.clone()) else { return };
        let (id, method) = (part.id.clone(), self.core.methods.shared(part.method));
        self.core.reports.emit(RelayEvent::PartOf { request, id, method, parent, parent_id });
    }

    /// Begins or ends noting which requests change. Off at first; turning it on again begins anew.
    ///
    /// A key that is noted costs 16 bytes, at most 262,144 of them.
    pub fn watch(&mut self, on: bool) {
        self.core.reports.changes = on.then(Changes::default);
        self.clear_changed();
    }

    /// A request that has changed since this last gave its key, or is forgotten that was stuck or released (D52). What became
    /// of it is in [`view`](Self::view); one without a view is over and forgotten.
    pub fn poll_changed(&mut self) -> Option<RequestKey> {
        let request = self.core.reports.changes.as_mut()?.keys.pop_front()?;
        if let Some(exchange) = self.tables[request.from].get_mut(request.key) {
            exchange.changed = false;
        }
        Some(request)
    }

    /// A child that has changed since this last gave its key. One without a [view](Self::child) is gone.
    pub fn poll_changed_child(&mut self) -> Option<ChildKey> {
        let core = &mut self.core;
        let child = core.reports.changes.as_mut()?.children.pop_front()?;
        if let Some(known) = core.children.get_mut(child.0) {
            known.changed = false;
        }
        Some(child)
    }

    /// Whether [`poll_changed`](Self::poll_changed), [`poll_changed_child`](Self::poll_changed_child) or
    /// [`poll_lost_changes`](Self::poll_lost_changes) has something to report.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        let changes = self.core.reports.changes.as_ref();
        changes.is_some_and(|changes| changes.lost || !changes.keys.is_empty() || !changes.children.is_empty())
    }

    /// Whether more changed than could be noted: then everything has to be looked at anew. Reported once.
    pub fn poll_lost_changes(&mut self) -> bool {
        let lost = self.core.reports.changes.as_mut().is_some_and(|changes| core::mem::take(&mut changes.lost));
        if lost {
            self.clear_changed();
        }
        lost
    }

    /// Messages of the relay's own about requests, the latest 256 since observing began, but for those beyond 16 KiB.
    pub fn own_messages(&self) -> impl Iterator<Item = &OwnMessage> {
        self.core.reports.changes.iter().flat_map(|changes| &changes.own_messages)
    }

    fn clear_changed(&mut self) {
        for side in Side::BOTH {
            self.tables[side].iter_mut().for_each(|exchange| exchange.changed = false);
        }
        self.core.children.iter_mut().for_each(|child| child.changed = false);
    }
}

impl Step<'_> {
    /// Notes that the request has changed, for an observer.
    #[inline]
    pub(super) fn mark_changed(&mut self) {
        self.core.reports.mark_changed(self.request, self.exchange);
    }

    /// Notes that the request has ended, or what was learnt of its cancel after that.
    #[inline]
    pub(super) fn note_ended(&mut self) {
        if !self.exchange.is_live() && self.exchange.is_theirs() {
            self.core.reports.note_ended(self.request);
        }
    }

    pub(super) fn count_opened(&mut self) {
        self.core.reports.tally.requests[self.request.from] += 1;
        self.mark_changed();
    }

    pub(super) fn report_opened(&mut self) {
        self.count_opened();
        if self.core.config.emit.requests {
            let ((request, id, method), upstream) = (self.named(), self.exchange.upstream().clone());
            self.core.reports.emit(RelayEvent::Opened { request, id, upstream, method });
        }
    }

    /// Reports something that came for the request after its end.
    #[cold]
    pub(super) fn report_late(&mut self, id: RequestId, what: LateKind) {
        let (now, from) = (self.now, self.request.from.other());
        count(&mut self.core.reports.tally.late, what.as_str());
        self.exchange.rare().late.count(now, what);
        if let LateKind::Progress | LateKind::Subscription = what {
            self.note_work();
        }
        self.mark_changed();
        self.core.reports.remark(|| RelayEvent::Late { from, id, what });
    }

    /// Reports what is known of the cancel of the request.
    pub(super) fn report_receipt(&mut self) {
        if let Some(cancel) = self.exchange.cancel.as_deref().filter(|_| !self.exchange.has_origin()) {
            let ((request, id, method), receipt) = (self.named(), cancel.receipt.clone());
            self.core.reports.remark(|| RelayEvent::Receipt { request, id, method, receipt });
        }
        self.mark_changed();
        self.note_ended();
    }

    pub(super) fn report_stuck(&mut self, sign: StuckSign) {
        self.core.reports.tally.stuck += 1;
        self.mark_changed();
        self.note_ended();
        let (request, id, method) = self.named();
        self.core.reports.emit(RelayEvent::Stuck { request, id, method, sign });
    }

    /// Reports a cancel that was decided here rather than received.
    pub(super) fn report_decided(&mut self) {
        if let Some(cancel) = &self.exchange.cancel {
            let cause = &cancel.receipt.cause;
            let (request, id, method) = self.named();
            let live = self.rings.live();
            self.core.reports.remark(|| {
                RelayEvent::Cancel(CancelNotice {
                    from: request.from,
                    id: Some(id),
                    method: Some(method),
                    cause: cause.code,
                    reason: cause.text().map(Into::into),
                    verdict: Verdict::Accepted,
                    in_flight: live,
                })
            });
        }
        self.report_receipt();
    }
}
