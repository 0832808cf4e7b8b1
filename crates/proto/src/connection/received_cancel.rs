//! The peer's cancels: read, judged, held for a request that they overtook (D9, D11, D29, D30).

use super::{Connection, ConnectionEvent, link::Link, part::Part, stop::By};
use crate::{
    cause::{Cause, CauseCode},
    dialect::{Cancellers, Dialect},
    early_cancels::{EarlyCancel, Hold},
    id::RequestId,
    link::{CancelNotice, Verdict, cancel},
    method::Method,
    rule::Rule,
    side::Side,
    slab::Key,
};

/// What was done with a cancel, and the method of its request, if that is known.
type Judged = (Option<Method>, Verdict);

impl Connection {
    /// Receives a cancel, which acts the moment it is parsed (D11).
    pub(super) fn receive_cancel(&mut self, dialect: &'static Dialect, method: &str, params: Option<&[u8]>) {
        let Self { link, .. } = self;
        link.counters.cancels_received += 1;
        let also: &[_] = if link.negotiation.is_settled() { &[] } else { &Dialect::ALL };
        let Some(cancel) = cancel::read(dialect, also, method, params) else {
            return self.report_cancel(CauseCode::Caller, None, None, None, Verdict::Malformed); // D29
        };
        link.counters.dropped_reasons += u64::from(cancel.reason_dropped);
        let cancel::Cancel { id, reason, form, .. } = cancel;
        let guess = (!link.negotiation.is_settled()).then(|| link.dialect());
        link.negotiation.saw_cancel(link.peer(), link.config.framing, form);
        if let Some(guess) = guess.filter(|_| link.negotiation.is_settled()) {
            self.revise_dialect(guess);
        }
        let (method, verdict) = self.judge_cancel(&id, reason.as_deref());
        if let Verdict::Forbidden(rule) = verdict {
            self.link.report_violation(rule, Some(id.clone())); // D30
        }
        self.report_cancel(CauseCode::Caller, Some(id), method, reason.as_deref(), verdict);
    }

    /// Corrects the dialect of every request of the peer that was taken to be in the one guessed: the spelling of a cancel
    /// has told which one was spoken all along (D2).
    fn revise_dialect(&mut self, guess: &Dialect) {
        let Self { incoming, link, .. } = self;
        let dialect = link.dialect();
        for key in incoming.keys(|request| request.dialect == guess) {
            let Some(mut request) = incoming.get_mut(key) else { continue };
            request.dialect = dialect;
            let result = dialect.cancel_result(link.methods.name(request.method));
            if result != request.cancel_result() {
                request.rare().cancel_result = result;
            }
        }
    }

    /// Carries a readable cancel out, or says why not.
    fn judge_cancel(&mut self, id: &RequestId, reason: Option<&str>) -> Judged {
        let Self { link, .. } = self;
        let (peer, current) = (link.peer(), link.dialect());
        if let Some(rule) = link.negotiation.forbids_cancel(peer, current) {
            return (None, Verdict::Forbidden(rule));
        }
        if let Some(judged) = self.judge_subscription(id, reason) {
            return judged;
        }
        let Self { incoming, link, .. } = self;
        let peer_may = |dialect: &Dialect| dialect.cancellers == Cancellers::Both || peer == Side::Client;
        if let Some(key) = incoming.by_id(id)
            && let Some(request) = incoming.get(key)
        {
            let method = Some(request.method);
            if !peer_may(request.dialect) {
                return (method, Verdict::Forbidden(Rule::McpM01));
            }
            if let Some(rule) = request.uncancellable {
                return (method, Verdict::Forbidden(rule));
            }
            return (method, self.stop_request(key, Cause::by(CauseCode::Caller, reason), By::Peer));
        }
        let verdict = if link.tombstones.settled_as(id).is_some() {
            Verdict::Completed
        } else if !peer_may(current) {
            Verdict::Forbidden(Rule::McpM01)
        } else if current.sticky && link.phase.is_open() {
            link.hold_cancel(id, reason)
        } else {
            Verdict::Unknown
        };
        (None, verdict)
    }

    /// Judges the one cancel that names a request of ours: the server ends our subscription (MCP-M02, invariant 5).
    fn judge_subscription(&mut self, id: &RequestId, reason: Option<&str>) -> Option<Judged> {
        let Self { outgoing, link, .. } = self;
        let ours = id.as_integer().filter(|id| outgoing.was_ours(*id))?;
        let is_server = link.peer() == Side::Server;
        let Some(key) = outgoing.by_id(&ours) else {
            // The empty result came first; the pages want both, in this order.
            let is_over = is_server && link.dialect().subscription.is_some();
            return is_over.then_some((None, Verdict::Completed));
        };
        let call = outgoing.get(key)?;
        let is_subscription = is_server && call.part == Part::Subscription;
        if !is_subscription {
            return None;
        }
        let method = Some(call.method);
        Some((method, self.end_subscription(key, reason)))
    }

    /// Carries an early cancel out, now that its request has arrived.
    pub(super) fn apply_early_cancel(&mut self, key: Key, early: EarlyCancel) {
        if let Some(rule) = self.incoming.get(key).and_then(|request| request.uncancellable) {
            self.link.report_violation(rule, Some(early.id.0));
            // It was kept back for the cancel, which does not count after all.
            return self.offer_next();
        }
        self.stop_request(key, Cause::by(CauseCode::Caller, early.reason.as_deref()), By::Peer);
    }

    /// Gives up early cancels whose request never came.
    pub(super) fn expire_early_cancels(&mut self) {
        while let Some(early) = self.link.early_cancels.expire(self.link.now) {
            let (id, reason) = (Some(early.id.0), early.reason.as_deref());
            self.report_cancel(CauseCode::Caller, id, None, reason, Verdict::Unknown);
        }
    }

    /// Stops a request of the peer without a cancel that names it, and reports that as the cancel that it is.
    pub(super) fn stop_and_report(&mut self, key: Key, cause: CauseCode, by: By) -> Verdict {
        let Some(request) = self.incoming.get(key) else { return Verdict::Completed };
        let (id, method) = (request.id.0.clone(), request.method);
        let verdict = self.stop_request(key, Cause::new(cause), by);
        self.report_cancel(cause, Some(id), Some(method), None, verdict);
        verdict
    }

    /// Reports a cancel of one of the peer's requests (D31).
    pub(super) fn report_cancel(
        &mut self,
        cause: CauseCode,
        id: Option<RequestId>,
        method: Option<Method>,
        reason: Option<&str>,
        verdict: Verdict,
    ) {
        let Self { incoming, link, .. } = self;
        link.counters.malformed_cancels += u64::from(verdict == Verdict::Malformed);
        link.counters.unknown_cancels += u64::from(verdict == Verdict::Unknown);
        if link.config.reports_cancels {
            let method = method.map(|method| link.methods.shared(method));
            let reason = reason.map(Into::into);
            let in_flight = incoming.len();
            let notice = CancelNotice { from: link.peer(), id, method, cause, reason, verdict, in_flight };
            link.emit(ConnectionEvent::Cancel(Box::new(notice)));
        }
    }
}

impl Link {
    /// Holds a cancel that names nothing known: it may be ahead of its request (D9).
    fn hold_cancel(&mut self, id: &RequestId, reason: Option<&str>) -> Verdict {
        match self.early_cancels.hold(self.now, id.clone(), reason.map(Into::into)) {
            Hold::Held => Verdict::Held,
            Hold::Repeated => Verdict::Repeated,
            Hold::Full => Verdict::Unknown,
        }
    }
}
