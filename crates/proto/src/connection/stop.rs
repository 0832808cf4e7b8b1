//! What ends the peer's requests early: its cancel, a deadline, an operator, the end (D21–D25, D27).

use core::time::Duration;

use super::{Connection, ConnectionEvent, IncomingKey, Stopped, Timer};
use crate::{
    cause::{Cause, CauseCode},
    connection::incoming::{Grace, Incoming, ResponseState, Stop, Work},
    dialect::{CancelResult, Dialect, Disconnect, IdReuse},
    early_cancels::{EarlyCancel, Hold},
    id::RequestId,
    link::{CancelNotice, Verdict},
    method::Method,
    receipt::Ending,
    slab::Key,
    time::Instant,
    timer_queue::{NEVER, TimerKey},
};

/// Who asked for a stop: only the peer's own cancel changes what it is told (D25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Peer,
    Us,
}

impl Connection {
    /// Stops one of the peer's requests for a reason of our own: an operator, a policy, a timeout.
    ///
    /// Its token fires, and it is answered in every dialect when its handler has ended (D24). `false` if it is
    /// over, or shielded.
    pub fn stop(&mut self, now: Instant, key: IncomingKey, cause: Cause) -> bool {
        self.now = now;
        let verdict = self.stop_request(now, key.0, cause, By::Us);
        self.finish(now);
        verdict == Verdict::Accepted
    }

    /// From now on a cancel leaves this handler alone: it runs to its end and is answered as if none came
    /// (D22, MCP-C07), or in silence where nothing may be sent after a cancel (MCP-H04).
    ///
    /// `false` if its token has fired already. [`unshield`](Self::unshield) ends it.
    pub fn shield(&mut self, key: IncomingKey) -> bool {
        let Some(request) = self.incoming.get_mut(key.0) else { return false };
        let calm = matches!(request.work, Work::Running);
        request.shielded |= calm;
        calm
    }

    /// The next cancel finds the handler unprotected; one that came meanwhile stays refused.
    pub fn unshield(&mut self, key: IncomingKey) {
        if let Some(request) = self.incoming.get_mut(key.0) {
            request.shielded = false;
        }
    }

    /// How long this handler may take to stop; before its token fires.
    pub fn set_grace(&mut self, key: IncomingKey, grace: Grace) {
        if let Some(request) = self.incoming.get_mut(key.0) {
            request.rare().grace = grace;
        }
    }

    /// Gives this request no more time than `limit` from now on (MCP-C14); what serves it inherits that (D17).
    /// Its token fires then with [`CauseCode::Timeout`]. Nothing changes if its time is shorter, or its token has fired.
    pub fn limit(&mut self, now: Instant, key: IncomingKey, limit: Duration) {
        self.now = now;
        let due = now + limit;
        let Some(request) = self.incoming.get_mut(key.0).filter(|request| request.limit > due) else { return };
        if matches!(request.work, Work::Running) {
            request.limit = due;
            self.arm_deadline(key.0);
        }
        self.finish(now);
    }

    /// A cancellation result of its own for this request, in place of its dialect's (D23).
    pub fn set_cancel_result(&mut self, key: IncomingKey, result: &'static CancelResult) {
        if let Some(request) = self.incoming.get_mut(key.0) {
            request.set_own(Some(result));
        }
    }

    pub(super) fn stop_request(&mut self, now: Instant, key: Key, cause: Cause, by: By) -> Verdict {
        let Some(request) = self.incoming.get(key) else { return Verdict::Completed };
        match request.work {
            Work::Ended => return self.cancel_answered(now, key, by),
            Work::Waiting(_) | Work::Offered(_) => {
                self.stop_unstarted(now, key, cause, by);
                return Verdict::Accepted;
            }
            Work::Running | Work::Stopping(_) | Work::Dropping => {}
        }
        if by == By::Peer && request.cancelled_by_peer() {
            return Verdict::Repeated;
        }
        // Its answer was taken back by a cancel before this one.
        if by == By::Peer && request.response == ResponseState::Silence && request.stop.is_none() {
            return Verdict::Repeated;
        }
        // Its handler answered and goes on: a cancel has nothing left to change, our own end has.
        if by == By::Peer && matches!(request.response, ResponseState::Answering(_) | ResponseState::Answered) {
            let is_suspended = request.is_suspended();
            let verdict = self.cancel_answered(now, key, by);
            let is_taken_back =
                self.incoming.get(key).is_some_and(|request| request.response == ResponseState::Silence);
            // Of a suspended handler the answer says how to go on with it: the peer will never know.
            if !(is_suspended && is_taken_back) {
                return verdict;
            }
        }
        let Some(request) = self.incoming.get(key) else { return Verdict::Completed };
        if request.shielded {
            return self.stop_shielded(now, key, cause, by);
        }
        if matches!(request.work, Work::Running) {
            self.fire(now, key, cause, by);
            return Verdict::Accepted;
        }
        self.hurry(now, key, cause.code);
        if by == By::Us {
            return Verdict::Repeated;
        }
        if let Some(stop) = self.incoming.get_mut(key).and_then(|request| request.stop.as_mut()) {
            stop.by_peer = true;
        }
        self.silence(key);
        Verdict::Accepted
    }

    /// Fires the token, starts the grace, cancels the children (D22, D26).
    fn fire(&mut self, now: Instant, key: Key, cause: Cause, by: By) {
        let Some(request) = self.incoming.get_mut(key) else { return };
        let by_peer = by == By::Peer;
        request.stop = Some(Box::new(Stop { cause: cause.clone(), asked: now, by_peer, refused: false }));
        if by_peer {
            self.silence(key);
        }
        let drop_at = self.drop_at(now, key, cause.code);
        self.disarm_work(key);
        self.incoming.resume(key);
        self.incoming.set_work(key, Work::Stopping(drop_at));
        self.arm_work(key, drop_at);
        let code = cause.code;
        self.tell(ConnectionEvent::Cancelled { request: IncomingKey(key), cause });
        self.cancel_children(now, key, Some(code));
    }

    /// Its token has fired; a shorter grace may have begun.
    fn hurry(&mut self, now: Instant, key: Key, code: CauseCode) {
        let drop_at = self.drop_at(now, key, code);
        let Some(Work::Stopping(current)) = self.incoming.get(key).map(|request| &request.work) else { return };
        if drop_at < *current {
            self.disarm_work(key);
            self.incoming.set_work(key, Work::Stopping(drop_at));
            self.arm_work(key, drop_at);
        }
    }

    fn drop_at(&self, now: Instant, key: Key, code: CauseCode) -> Instant {
        let config = match code {
            CauseCode::Disconnect | CauseCode::Shutdown => self.config.short_grace,
            CauseCode::Caller | CauseCode::Timeout | CauseCode::Parent | CauseCode::Operator | CauseCode::Policy => {
                self.config.grace
            }
        };
        match self.incoming.get(key).map(Incoming::grace) {
            Some(Grace::Never) => NEVER,
            Some(Grace::After(grace)) => now + grace,
            Some(Grace::Default) | None => now + config,
        }
    }

    /// Where its dialect demands it, nothing more is sent for a request; what was not begun is taken back.
    fn silence(&mut self, key: Key) {
        self.close_question(key);
        let Some(request) = self.incoming.get_mut(key) else { return };
        if !request.is_silent() || request.response != ResponseState::Nothing {
            return;
        }
        request.response = ResponseState::Silence;
        let batch = request.take_batch();
        self.take_back_frames(key);
        if let Some(batch) = batch {
            self.leave_batch(batch);
        }
    }

    /// Takes back what was written for a request and has not begun to leave.
    fn take_back_frames(&mut self, key: Key) {
        let rare = self.incoming.get_mut(key).and_then(|request| request.rare.as_mut());
        for frame in rare.map(|rare| core::mem::take(&mut rare.frames)).unwrap_or_default() {
            self.take_back_owed(frame);
        }
    }

    /// A request that has not started never will (D12).
    fn stop_unstarted(&mut self, now: Instant, key: Key, cause: Cause, by: By) {
        let by_peer = by == By::Peer;
        if let Some(request) = self.incoming.get_mut(key) {
            request.stop = Some(Box::new(Stop { cause, asked: now, by_peer, refused: false }));
        }
        self.disarm_work(key);
        self.incoming.set_work(key, Work::Ended);
        self.incoming.tidy_line();
        if by_peer {
            self.silence(key);
        }
        if self.incoming.get(key).is_some_and(|request| request.response == ResponseState::Nothing) {
            self.answer_cancelled(key);
        }
        self.report_stopped(key, Ending::NeverStarted);
        self.conclude(now, key);
        self.offer_next();
    }

    /// A cancel that comes after the answer: one of which no byte was written is taken back where the
    /// requester wants silence (D13).
    fn cancel_answered(&mut self, now: Instant, key: Key, by: By) -> Verdict {
        let Some(request) = self.incoming.get(key) else { return Verdict::Completed };
        if by == By::Peer && self.config.has(crate::bug::SeededBug::DoubleAnswer) && !request.is_silent() {
            self.answer_cancelled(key);
        } else if by == By::Peer
            && request.is_silent()
            && let ResponseState::Answering(ticket) = request.response
            && self.take_back_owed(ticket)
        {
            if let Some(request) = self.incoming.get_mut(key) {
                request.response = ResponseState::Silence;
            }
            self.take_back_frames(key);
            self.conclude(now, key);
        }
        Verdict::Completed
    }

    /// The handler is shielded: the cancel is noted and changes at most the answer (D22).
    fn stop_shielded(&mut self, now: Instant, key: Key, cause: Cause, by: By) -> Verdict {
        let Some(request) = self.incoming.get_mut(key) else { return Verdict::Completed };
        let was_refused = request.stop.is_some();
        if !was_refused {
            // Answered "as if no cancel came": so it is not recorded as the peer's, which would silence it.
            request.stop = Some(Box::new(Stop { cause, asked: now, by_peer: false, refused: true }));
        }
        if by == By::Peer && silences_shielded(request.dialect) {
            self.silence(key);
        }
        if was_refused && by == By::Peer { Verdict::Repeated } else { Verdict::Shielded }
    }

    /// A cancel names nothing we know: it may be ahead of its request (D9).
    pub(super) fn hold_cancel(&mut self, now: Instant, id: &RequestId, reason: Option<&str>) -> Verdict {
        match self.early_cancels.hold(now, id.clone(), reason.map(Into::into)) {
            Hold::Held => Verdict::Held,
            Hold::Repeated => Verdict::Repeated,
            Hold::Full => Verdict::Unknown,
        }
    }

    /// The request of a held cancel has arrived.
    pub(super) fn apply_held(&mut self, now: Instant, key: Key, held: EarlyCancel) {
        let Some(request) = self.incoming.get(key) else { return };
        if let Some(rule) = request.uncancellable {
            self.violated(rule, Some(held.id.0));
            // It was kept back for the cancel, which does not count after all.
            return self.offer_next();
        }
        let mut cause = Cause::new(CauseCode::Caller);
        if let Some(reason) = &held.reason {
            cause = cause.with_text(reason);
        }
        self.stop_request(now, key, cause, By::Peer);
    }

    pub(super) fn sticky_due(&mut self, now: Instant) {
        while let Some(held) = self.early_cancels.expire(now) {
            self.report_cancel(Some(held.id.0), None, held.reason.as_deref(), Verdict::Unknown);
        }
    }

    /// The deadline of a request, or the grace of its handler.
    pub(super) fn work_due(&mut self, now: Instant, key: Key) {
        let Some(request) = self.incoming.get_mut(key) else { return };
        request.armed = TimerKey::NOT;
        match request.work {
            Work::Waiting(_) | Work::Offered(_) | Work::Running if request.due(&self.asking) <= now => {
                self.stop_request(now, key, Cause::new(CauseCode::Timeout), By::Us);
            }
            // A question of ours made it later, or holds it still.
            Work::Waiting(_) | Work::Offered(_) | Work::Running => self.arm_deadline(key),
            Work::Stopping(_) => {
                self.incoming.set_work(key, Work::Dropping);
                self.tell(ConnectionEvent::DropHandler { request: IncomingKey(key) });
            }
            Work::Dropping | Work::Ended => {}
        }
    }

    /// Arms the timer of a request that has not been stopped. While we have a question open its requester's deadline is
    /// not due at all, and looked at again afterwards (D49).
    pub(super) fn arm_deadline(&mut self, key: Key) {
        let Self { incoming, asking, timers, .. } = self;
        let is_timed = |request: &&mut Incoming| request.stop.is_none() && !matches!(request.work, Work::Ended);
        let Some(request) = incoming.get_mut(key).filter(is_timed) else { return };
        let due = request.due(asking);
        if due < request.armed.at {
            timers.disarm(request.armed);
            request.armed = timers.arm(due, Timer::Work(key));
        }
        if request.deadline != NEVER && asking.is_held() {
            asking.park(key, incoming.len(), |key| incoming.get(key).is_some());
        }
    }

    pub(super) fn arm_work(&mut self, key: Key, due: Instant) {
        if due == NEVER {
            return;
        }
        if let Some(request) = self.incoming.get_mut(key) {
            request.armed = self.timers.arm(due, Timer::Work(key));
        }
    }

    pub(super) fn disarm_work(&mut self, key: Key) {
        if let Some(request) = self.incoming.get_mut(key) {
            self.timers.disarm(core::mem::replace(&mut request.armed, TimerKey::NOT));
        }
    }

    /// Stops every request of the peer.
    pub(super) fn stop_all(&mut self, now: Instant, code: CauseCode) {
        for key in self.incoming.keys() {
            self.stop_request(now, key, Cause::new(code), By::Us);
        }
    }

    /// Stops every request that its dialect does not let outlive the connection's input (D27, MCP-H01).
    pub(super) fn stop_attached(&mut self, now: Instant) {
        for key in self.incoming.keys() {
            if self.incoming.get(key).is_some_and(|request| request.dialect.disconnect == Disconnect::Cancels) {
                self.stop_request(now, key, Cause::new(CauseCode::Disconnect), By::Us);
            }
        }
    }

    pub(super) fn report_stopped(&mut self, key: Key, ending: Ending) {
        if !self.config.reports_cancels {
            return;
        }
        let Some(request) = self.incoming.get(key) else { return };
        let Some(stop) = &request.stop else { return };
        let stopped = Stopped {
            request: IncomingKey(key),
            id: request.id.clone(),
            method: self.methods.name(request.method).into(),
            cause: stop.cause.clone(),
            ending,
        };
        self.tell(ConnectionEvent::Stopped(Box::new(stopped)));
    }

    pub(super) fn report_cancel(
        &mut self,
        id: Option<RequestId>,
        method: Option<Method>,
        reason: Option<&str>,
        verdict: Verdict,
    ) {
        self.counters.malformed_cancels += u64::from(verdict == Verdict::Malformed);
        self.counters.unknown_cancels += u64::from(verdict == Verdict::Unknown);
        if !self.config.reports_cancels {
            return;
        }
        let method = method.map(|method| self.methods.name(method).into());
        let in_flight = self.incoming.len();
        let (cause, reason) = (CauseCode::Caller, reason.map(Into::into));
        let notice = CancelNotice { from: self.config.role.other(), id, method, cause, reason, verdict, in_flight };
        self.tell(ConnectionEvent::Cancel(Box::new(notice)));
    }
}

/// Whether even a shielded handler's answer is withheld once its requester cancelled: where a cancelled id
/// counts as unanswered for ever, nothing may follow (MCP-H04, MCP-I03).
const fn silences_shielded(dialect: &Dialect) -> bool {
    dialect.is_silent() && matches!(dialect.reuse, IdReuse::AfterAnswer)
}
