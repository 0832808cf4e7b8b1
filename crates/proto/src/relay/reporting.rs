//! What is reported: events for the driver, counts, and which requests have changed.

use std::collections::VecDeque;

use super::{
    Core, Emit, Hop, KEPT_RECORDS, Relay, RelayEvent, Step, StuckSign, TaskNews,
    batch::Allowance,
    changes::Changes,
    exchanges::Exchanges,
    tag::Tag,
    tally::{Tally, count},
};
use crate::{
    cause::CauseCode,
    id::RequestId,
    json,
    link::{CancelNotice, LateKind, Rejected, RequestKey, Verdict},
    rule::{Rule, Violations},
    side::{Side, Sides},
    time::Instant,
};

/// How much of a rejected message an event keeps.
const EXCERPT: usize = 256;

#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    pub(super) events: VecDeque<RelayEvent>,
    pub(super) emit: Emit,
    /// By who broke them.
    pub(super) violations: Sides<Violations>,
    pub(super) tally: Tally,
    /// What has changed since the observer last asked; absent where there is none.
    pub(super) changes: Option<Changes>,
    /// What may still be reported and refused of the batch that is being read.
    pub(super) allowance: Option<Allowance>,
}

impl Reports {
    pub(super) fn emit(&mut self, event: RelayEvent) {
        self.events.push_back(event);
    }

    /// Emits an event about what passed, if such events are wanted and the batch that it is about has not had its share.
    fn remark(&mut self, event: impl FnOnce() -> RelayEvent) {
        if self.emit.notices && self.allowance.as_mut().is_none_or(Allowance::allows_remark) {
            self.events.push_back(event());
        }
    }

    /// A frame has left for `to`, whole.
    pub(super) fn note_written(&mut self, now: Instant, to: Side, tag: Tag, bytes: &[u8], tables: &Sides<Exchanges>) {
        if let Some(changes) = &mut self.changes {
            changes.note_written(now, to, tag, bytes, tables);
        }
        if self.emit.frames {
            self.events.push_back(RelayEvent::Frame { hop: Hop::To(to), bytes: bytes.into() });
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
        self.reports.violations[by].count(rule);
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
                method: exchange.map(|exchange| methods.name(exchange.method).into()),
                cause: CauseCode::Caller,
                reason,
                verdict,
                in_flight: tables[from].live(),
            })
        });
    }
}

impl Step<'_> {
    /// Notes that the request has changed, for an observer.
    #[inline]
    pub(super) fn mark_changed(&mut self) {
        if let Some(changes) = &mut self.core.reports.changes
            && !core::mem::replace(&mut self.exchange.changed, true)
        {
            changes.note(self.request);
        }
    }

    pub(super) fn report_opened(&mut self) {
        self.core.reports.tally.requests[self.request.from] += 1;
        self.mark_changed();
        if self.core.config.emit.requests {
            let (id, upstream) = (self.exchange.id.clone(), self.exchange.upstream().clone());
            let event = RelayEvent::Opened { request: self.request, id, upstream, method: self.method().into() };
            self.core.reports.emit(event);
        }
    }

    /// Reports something that came for the request after its end.
    #[cold]
    pub(super) fn report_late(&mut self, id: RequestId, what: LateKind) {
        let (now, from) = (self.now, self.request.from.other());
        count(&mut self.core.reports.tally.late, what.as_str());
        let late = &mut self.exchange.rare().late;
        late.at = now;
        match what {
            LateKind::Result | LateKind::Error => late.answers += 1,
            LateKind::Progress | LateKind::Subscription => {
                late.notices += 1;
                self.note_work();
            }
        }
        self.mark_changed();
        self.core.reports.remark(|| RelayEvent::Late { from, id, what });
    }

    /// Reports what is known of the cancel of the request.
    pub(super) fn report_receipt(&mut self) {
        if let Some(cancel) = &self.exchange.cancel {
            let method = self.core.methods.name(self.exchange.method);
            self.core.reports.remark(|| RelayEvent::Receipt {
                request: self.request,
                id: self.exchange.id.clone(),
                method: method.into(),
                receipt: cancel.receipt.clone(),
            });
        }
        self.mark_changed();
    }

    pub(super) fn report_stuck(&mut self, sign: StuckSign) {
        self.core.reports.tally.stuck += 1;
        self.mark_changed();
        let (id, method) = (self.exchange.id.clone(), self.method().into());
        self.core.reports.emit(RelayEvent::Stuck { request: self.request, id, method, sign });
    }

    /// Reports a cancel that was decided here rather than received.
    pub(super) fn report_decided(&mut self) {
        if let Some(cancel) = &self.exchange.cancel {
            let cause = &cancel.receipt.cause;
            let method = self.core.methods.name(self.exchange.method);
            let live = self.rings.live();
            self.core.reports.remark(|| {
                RelayEvent::Cancel(CancelNotice {
                    from: self.request.from,
                    id: Some(self.exchange.id.clone()),
                    method: Some(method.into()),
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
