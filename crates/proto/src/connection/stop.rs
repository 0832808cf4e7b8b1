//! What ends the peer's requests early: its cancel, a deadline, an operator, the end (D21–D25, D27).

use core::time::Duration;

use super::{
    Connection, ConnectionEvent, IncomingKey, Stopped,
    config::Limit,
    incoming::{Incoming, IncomingMut, ResponseState, Stop, Work},
    link::{Link, Timer},
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::{CancelResult, Disconnect, IdReuse},
    link::Verdict,
    receipt::Ending,
    slab::Key,
    time::Instant,
    timer_queue::{NEVER, TimerKey},
};

/// Who asked for a stop: only the peer's own cancel changes what it is sent (D25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The peer, of a request.
    Peer,
    /// The peer, of work that goes on without a request: the answer has nothing to say of that (ACP-51).
    Session,
    Us,
}

impl Connection {
    /// Stops one of the peer's requests for a reason of our own: an operator, a policy, a timeout.
    ///
    /// Its token fires, and it is answered in every dialect when its handler has ended (D24). `false` if it is
    /// over, or shielded.
    pub fn stop(&mut self, now: Instant, key: IncomingKey, cause: Cause) -> bool {
        self.step(now, |this| this.stop_request(key.0, cause, By::Us) == Verdict::Accepted)
    }

    /// Stops a handler whose peer says that it does not make the next request of a call in rounds (D48), and reports
    /// that as the cancel that it is ([`ConnectionEvent::Cancel`]).
    pub fn abandon(&mut self, now: Instant, key: IncomingKey) {
        self.step(now, |this| this.stop_and_report(key.0, CauseCode::Caller, By::Us));
    }

    /// Shields a handler: from now on a cancel leaves it alone, so that it runs to its end and is answered as if none
    /// came (D22, MCP-C07), or in silence where nothing may be sent after a cancel (MCP-H04).
    ///
    /// `false` if its token has fired already. [`unshield`](Self::unshield) ends it.
    pub fn shield(&mut self, key: IncomingKey) -> bool {
        let Some(mut request) = self.incoming.get_mut(key.0) else { return false };
        let may_shield = request.work == Work::Running;
        request.is_shielded |= may_shield;
        may_shield
    }

    /// Ends a [`shield`](Self::shield): the next cancel fires the token; one that came meanwhile stays refused.
    pub fn unshield(&mut self, key: IncomingKey) {
        if let Some(mut request) = self.incoming.get_mut(key.0) {
            request.is_shielded = false;
        }
    }

    /// Sets how long this handler may take to stop, by default as configured for whatever asks it to; before its token
    /// fires (D22).
    pub fn set_grace(&mut self, key: IncomingKey, grace: Limit) {
        if let Some(mut request) = self.incoming.get_mut(key.0) {
            request.rare().grace = grace;
        }
    }

    /// Gives this request no more time than `limit` from now on (MCP-C14); what serves it inherits that (D17).
    ///
    /// Its token fires then with [`CauseCode::Timeout`]. Nothing changes if its time is shorter, or its token has fired.
    pub fn limit(&mut self, now: Instant, key: IncomingKey, limit: Duration) {
        self.step(now, |this| {
            let due = now + limit;
            let is_longer = |request: &IncomingMut<'_>| request.work == Work::Running && request.limit > due;
            if let Some(mut request) = this.incoming.get_mut(key.0).filter(is_longer) {
                request.limit = due;
                this.link.arm_deadline(&mut this.incoming, key.0);
            }
        });
    }

    /// Sets a cancellation result of its own for this request, in place of its dialect's (D23).
    pub fn set_cancel_result(&mut self, key: IncomingKey, result: &'static CancelResult) {
        if let Some(mut request) = self.incoming.get_mut(key.0) {
            request.rare().cancel_result = Some(result);
        }
    }

    /// Stops a request for its requester or for this side, and returns the verdict on that.
    pub(super) fn stop_request(&mut self, key: Key, cause: Cause, by: By) -> Verdict {
        let Self { incoming, link, .. } = self;
        // One stop may end others of a list before their turn comes.
        let Some(mut request) = incoming.get_mut(key) else { return Verdict::Completed };
        match request.work {
            Work::Ended => {
                if by == By::Peer && link.silence(&mut request) {
                    self.conclude(key);
                }
                return Verdict::Completed;
            }
            Work::Held | Work::Waiting | Work::Offered => {
                let session = request.prompted_session();
                link.stop_unstarted(&mut request, cause, by);
                incoming.tidy_line();
                self.conclude(key);
                if let Some(session) = session {
                    self.release_session(&session);
                }
                self.offer_next();
                return Verdict::Accepted;
            }
            Work::Running | Work::Stopping | Work::Dropping => {}
        }
        let was_withdrawn = request.response == ResponseState::Silence && request.stop.is_none();
        if by != By::Us && (request.cancelled_by_peer() || was_withdrawn) {
            return Verdict::Repeated;
        }
        if by == By::Peer {
            // Its handler answered and goes on: a cancel has nothing left to change, our own end has. But of a suspended
            // handler the answer says how to go on with it: if that is withdrawn, the peer will never know.
            if matches!(request.response, ResponseState::Answering(_) | ResponseState::Answered | ResponseState::Lost)
                && !(link.silence(&mut request) && request.is_suspended())
            {
                return Verdict::Completed;
            }
        }
        if request.is_shielded {
            return link.refuse_stop(&mut request, cause, by);
        }
        if request.work == Work::Running {
            let code = cause.code;
            link.fire(&mut request, cause, by);
            self.cancel_children(key, Some(code));
            return Verdict::Accepted;
        }
        link.hasten(&mut request, cause.code);
        if by == By::Us {
            return Verdict::Repeated;
        }
        if let Some(stop) = &mut request.stop {
            stop.by_peer = true;
        }
        link.silence(&mut request);
        Verdict::Accepted
    }

    /// Stops those requests of the peer that `is_meant` picks.
    pub(super) fn stop_all(&mut self, code: CauseCode, is_meant: impl Fn(&Incoming) -> bool) {
        for key in self.incoming.keys(is_meant) {
            self.stop_request(key, Cause::new(code), By::Us);
        }
    }

    /// Stops every request that its dialect does not let outlive the connection's input (D27, MCP-H01).
    pub(super) fn stop_attached(&mut self) {
        self.stop_all(CauseCode::Disconnect, |request| request.dialect.disconnect == Disconnect::Cancels);
    }

    /// Handles the deadline of a request, or the end of its handler's grace.
    pub(super) fn handle_request_timer(&mut self, key: Key) {
        let Self { incoming, link, .. } = self;
        let Some(mut request) = incoming.get_mut(key) else {
            return debug_assert!(false, "a timer outlived its request");
        };
        request.timer = TimerKey::NOT;
        match request.work {
            Work::Waiting if request.limit <= link.now => self.refuse_waiting(key),
            Work::Held | Work::Waiting | Work::Offered | Work::Running
                if request.due(&link.our_questions) <= link.now =>
            {
                self.stop_request(key, Cause::new(CauseCode::Timeout), By::Us);
            }
            // A question of ours made it later, or holds it still.
            Work::Held | Work::Waiting | Work::Offered | Work::Running => link.arm_deadline(incoming, key),
            Work::Stopping => {
                request.set_work(Work::Dropping);
                link.emit(ConnectionEvent::DropHandler { request: IncomingKey(key) });
            }
            Work::Dropping | Work::Ended => {}
        }
    }
}

impl Link {
    /// Notes who stops a request. The peer that does may want silence from then on.
    fn note_stop(&mut self, request: &mut Incoming, cause: Cause, by: By) {
        let by_peer = by != By::Us;
        request.stop = Some(Box::new(Stop { cause, asked: self.now, by_peer, is_refused: false }));
        if by_peer {
            self.silence(request);
        }
    }

    /// Fires the token and starts the grace (D22).
    fn fire(&mut self, request: &mut IncomingMut<'_>, cause: Cause, by: By) {
        self.note_stop(request, cause.clone(), by);
        request.resume();
        request.set_work(Work::Stopping);
        self.timers.stop(&mut request.timer);
        self.hasten(request, cause.code);
        self.emit(ConnectionEvent::Cancelled { request: IncomingKey(request.key), cause });
    }

    /// Starts the grace of a handler whose token has fired, or shortens it, if it is shorter for this cause.
    fn hasten(&mut self, request: &mut IncomingMut<'_>, code: CauseCode) {
        if request.work == Work::Stopping {
            let (drop_at, timer) = (self.drop_at(request, code), Timer::Request(request.key));
            self.timers.arm_by(&mut request.timer, drop_at, timer);
        }
    }

    /// When the handler of a request that is stopped now is dropped.
    pub(super) fn drop_at(&self, request: &Incoming, code: CauseCode) -> Instant {
        // A person still sees it, and can answer nobody.
        let is_dialog = self.is_question(request.dialect, self.methods.name(request.method));
        match request.rare.as_ref().map_or(Limit::Default, |rare| rare.grace) {
            Limit::Never => NEVER,
            Limit::After(grace) => self.now + grace,
            Limit::Default if matches!(code, CauseCode::Disconnect | CauseCode::Shutdown) => {
                self.now + self.config.short_grace
            }
            Limit::Default if is_dialog => self.now + self.config.grace.min(self.config.short_grace),
            Limit::Default => self.now + self.config.grace,
        }
    }

    /// Ends a request that has not started, and answers it if it still is to be (D12).
    fn stop_unstarted(&mut self, request: &mut IncomingMut<'_>, cause: Cause, by: By) {
        self.note_stop(request, cause, by);
        self.timers.stop(&mut request.timer);
        request.set_work(Work::Ended);
        request.remove_payload();
        if request.response == ResponseState::Nothing {
            self.answer_cancelled(request);
        }
        self.report_stopped(request, Ending::NeverStarted);
    }

    /// Notes a cancel of a shielded handler: it changes at most the answer (D22).
    fn refuse_stop(&mut self, request: &mut Incoming, cause: Cause, by: By) -> Verdict {
        let was_refused = request.stop.is_some();
        if !was_refused {
            // Answered "as if no cancel came": so it is not recorded as the peer's, which would silence it.
            request.stop = Some(Box::new(Stop { cause, asked: self.now, by_peer: false, is_refused: true }));
        }
        // Where a cancelled id counts as unanswered for ever, nothing may follow (MCP-H04, MCP-I03).
        let is_never_answered = request.dialect.is_silent() && request.dialect.reuse == IdReuse::AfterAnswer;
        if by == By::Peer && is_never_answered {
            self.silence(request);
        }
        if was_refused && by != By::Us { Verdict::Repeated } else { Verdict::Shielded }
    }

    /// Sends nothing more for a request where its dialect demands that, and withdraws what has not begun to leave (D13).
    /// `false` if its requester was answered, or still will be.
    fn silence(&mut self, request: &mut Incoming) -> bool {
        self.close_question(request);
        let is_silenced = match request.response {
            _ if !request.dialect.is_silent() => false,
            ResponseState::Nothing => true,
            ResponseState::Answering(frame) => self.withdraw(frame),
            ResponseState::Silence | ResponseState::Answered | ResponseState::Lost => false,
        };
        if is_silenced {
            request.response = ResponseState::Silence;
            for frame in request.rare.as_mut().map(|rare| core::mem::take(&mut rare.frames)).unwrap_or_default() {
                self.withdraw(frame.ticket);
            }
            if let Some(batch) = request.leave_batch() {
                self.leave_batch(batch);
            }
            if self.config.reports_silences {
                self.emit(ConnectionEvent::Silenced { id: request.id.clone() });
            }
        }
        is_silenced
    }

    pub(super) fn report_stopped(&mut self, request: &IncomingMut<'_>, ending: Ending) {
        if let Some(stop) = request.stop.as_ref().filter(|_| self.config.reports_cancels) {
            let stopped = Stopped {
                request: IncomingKey(request.key),
                id: request.id.clone(),
                method: self.methods.name(request.method).into(),
                cause: stop.cause.clone(),
                ending,
            };
            self.emit(ConnectionEvent::Stopped(Box::new(stopped)));
        }
    }
}
