//! Answers to the peer's requests, and the end of their handlers (D12, D23, D24).

use super::{
    Connection, ConnectionEvent, IncomingKey,
    incoming::{Caused, Incoming, IncomingMut, ResponseState, Work},
    link::{Link, Tag},
    part::Part,
    turn,
};
use crate::{
    cause::CauseCode,
    dialect::{CancelReply, CancelResult, ErrorText},
    error_code,
    link::cancel,
    message,
    receipt::Ending,
    side::Side,
    slab::Key,
    time::Instant,
    timer_queue::NEVER,
};

/// What a handler answers.
///
/// It never grows: a handler answers with a result or an error; a program writes it and never reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A result, as JSON.
    Result(&'a [u8]),
    /// An error.
    Error {
        /// Its code.
        code: i32,
        /// Its message.
        message: &'a str,
        /// Its data, as JSON.
        data: Option<&'a [u8]>,
    },
}

impl<'a> Reply<'a> {
    /// An error without data.
    #[must_use]
    pub const fn error(code: i32, message: &'a str) -> Self {
        Self::Error { code, message, data: None }
    }
}

/// How a handler ended.
///
/// It never grows: a program says how its handler ended and never reads it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerEnd<'a> {
    /// With an answer. After a cancel that its dialect wants answered, this is the answer (partial results
    /// included); where silence is wanted it is withheld (D23).
    Returned(Reply<'a>),
    /// With nothing more to send: it answered through [`Connection::respond`].
    Answered,
    /// By its token.
    Cancelled,
    /// It cancelled itself: its own timeout, a leaked cancellation (D24).
    GaveUp,
    /// It was dropped before it ended.
    Dropped,
    /// It panicked; the panic was contained.
    Panicked,
}

impl Connection {
    /// Answers a request whose handler goes on: it still has to [end](Self::ended).
    ///
    /// `false` if nothing is sent: it was answered before, cancelled where that demands silence, or the link is dead.
    pub fn respond(&mut self, now: Instant, key: IncomingKey, reply: Reply<'_>) -> bool {
        self.link.now = now;
        let Some(mut request) = self.incoming.get_mut(key.0).filter(|request| request.may_answer()) else {
            return false;
        };
        self.link.reply(&mut request, reply);
        self.finish();
        !self.link.phase.write_closed
    }

    /// Answers a request whose handler waits for another request of the peer to go on (D48).
    ///
    /// Its requester does not wait any more, so its deadline is void, and its slot is free until its token fires or it is
    /// [resumed](Self::resume). The handler still has to [end](Self::ended), and its driver bounds how many wait, and how
    /// long.
    ///
    /// `false` if nothing is sent, as with [`respond`](Self::respond), or if its token has fired or no other request can
    /// come; then nothing else changes either.
    pub fn suspend(&mut self, now: Instant, key: IncomingKey, reply: Reply<'_>) -> bool {
        if self.is_stopping(key) || !self.is_open() || !self.respond(now, key, reply) {
            return false;
        }
        if let Some(mut request) = self.incoming.get_mut(key.0) {
            request.deadline = NEVER;
            request.suspend();
        }
        self.offer_next();
        self.finish();
        true
    }

    /// Puts a suspended handler to work again: it waits for no other request any more.
    pub fn resume(&mut self, key: IncomingKey) {
        if let Some(mut request) = self.incoming.get_mut(key.0) {
            request.resume();
        }
    }

    /// Has [`ConnectionEvent::Delivered`] say whether the answer to this request leaves: for work that outlives its
    /// request, and is an orphan if its requester never learns of it (D38). `false` if the request is over.
    pub fn watch_answer(&mut self, key: IncomingKey) -> bool {
        let is_open = |request: &IncomingMut<'_>| {
            request.runs() && !matches!(request.response, ResponseState::Answered | ResponseState::Lost)
        };
        let Some(mut request) = self.incoming.get_mut(key.0).filter(is_open) else { return false };
        request.rare().is_watched = true;
        true
    }

    /// Sends a notification that belongs to a request: progress, a log line, an update.
    ///
    /// `false` if it is withheld: the request was answered and is not work of its session (ACP-50), or cancelled where that
    /// demands silence (MCP-P03, MCP-H04); nothing is sent for it any more. `params` are JSON, or empty for none. It is queued
    /// however much the peer leaves unread: hold the handler back unless the connection [has room](Self::has_room).
    pub fn notify_for(&mut self, now: Instant, key: IncomingKey, method: &str, params: &[u8]) -> bool {
        let Self { incoming, link, .. } = self;
        link.now = now;
        let Some(mut request) = incoming.get_mut(key.0).filter(|request| request.may_report()) else { return false };
        if link.phase.write_closed {
            return false;
        }
        let ticket = link.queue(Tag::Caused, |out| message::raw_notification(method, params, out));
        let is_void_once_answered =
            request.dialect.progress.is_some_and(|form| form.active_only && form.method == method);
        let frames = &mut request.rare().frames;
        while frames.pop_front_if(|frame| link.outbox.has_begun(frame.ticket)).is_some() {}
        frames.push_back(Caused { ticket, is_void_once_answered });
        self.finish();
        true
    }

    /// Ends a handler, with everything it owned released: its slot is free, its children are cancelled, and the request
    /// is answered if it still is to be (D12, D23, D24).
    pub fn ended(&mut self, now: Instant, key: IncomingKey, end: HandlerEnd<'_>) {
        self.link.now = now;
        let key = key.0;
        let Some(request) = self.incoming.get(key).filter(|request| request.runs()) else { return };
        let root = request.stop.as_ref().map(|stop| stop.cause.code);
        self.cancel_children(key, root);
        let is_kept = matches!(end, HandlerEnd::Returned(Reply::Result(result)) if self.keep_close(key, result));
        let Self { incoming, link, .. } = self;
        let Some(mut request) = incoming.get_mut(key) else { return };
        let session = request.prompted_session();
        link.timers.stop(&mut request.timer);
        request.resume();
        request.set_work(Work::Ended);
        let ending = request.stop.as_ref().map(|stop| ending(now, &request, stop.asked, stop.is_refused, &end));
        if request.response == ResponseState::Nothing && !is_kept {
            link.answer_end(&mut request, &end);
            link.end_served_subscription(&mut request);
        }
        if let Some(ending) = ending {
            link.report_stopped(&request, ending);
        }
        self.report_work_over(key, &end);
        self.conclude(key);
        if let Some(session) = session {
            self.release_session(&session);
        }
        self.offer_next();
        self.finish();
    }

    /// Notes that the answer of a request has left, or never will.
    pub(super) fn end_answer(&mut self, key: Key, has_left: bool) {
        let Some(mut request) = self.incoming.get_mut(key) else {
            return debug_assert!(false, "a request was gone before its answer");
        };
        if matches!(request.response, ResponseState::Answering(_)) {
            request.response = if has_left { ResponseState::Answered } else { ResponseState::Lost };
        }
        self.conclude(key);
    }

    /// Removes a request whose handler has ended and for which nothing more is to be sent.
    pub(super) fn conclude(&mut self, key: Key) {
        let Self { incoming, turns, link, .. } = self;
        let is_over = |request: &Incoming| request.work == Work::Ended && !request.response.is_live();
        if !incoming.get(key).is_some_and(is_over) {
            return;
        }
        let removed = incoming.remove(key);
        let Some(request) = &removed else { return };
        if let Some(rare) = &request.rare {
            if let Some(batch) = rare.batch {
                link.leave_batch(batch);
            }
            if let Some(session) = &rare.session {
                turns.remove(&turn::name(request.part, session), key);
            }
            if rare.is_watched {
                let answered = request.response == ResponseState::Answered;
                link.emit(ConnectionEvent::Delivered { request: IncomingKey(key), answered });
            }
        }
        // An id that was taken over belongs to its new request.
        if !request.is_replaced {
            link.tombstones.remember(link.now, request.id.0.clone(), request.response.settled_as());
        }
    }
}

impl Link {
    /// Queues the answer of a request, or adds it to its batch.
    pub(super) fn reply(&mut self, request: &mut IncomingMut<'_>, reply: Reply<'_>) {
        self.note_broken(4, request.response != ResponseState::Nothing);
        // Unless it can be written.
        request.response = ResponseState::Lost;
        self.close_question(request);
        self.withdraw_progress(request);
        if let (Part::Handshake, Reply::Result(result)) = (request.part, reply) {
            self.negotiation.saw_initialize_result(result);
        }
        let batch = request.leave_batch();
        let id = &request.id.0;
        let write = |out: &mut Vec<u8>| match reply {
            Reply::Result(result) => message::result(id, result, out),
            Reply::Error { code, message, data } => message::error(Some(id), code, message, data, out),
        };
        if let Some(batch) = batch {
            self.add_to_batch(batch, write);
            request.response = ResponseState::Answered;
            self.leave_batch(batch);
        } else if !self.phase.write_closed {
            let frame = self.queue(Tag::Answer(request.key), write);
            request.response = ResponseState::Answering(frame);
        }
    }

    /// Takes back the progress of a request that still waits to be written, since its answer is about to (D62).
    fn withdraw_progress(&mut self, request: &mut Incoming) {
        let Some(rare) = request.rare.as_deref_mut() else { return };
        rare.frames.retain(|frame| !(frame.is_void_once_answered && self.withdraw(frame.ticket)));
    }

    /// Ends a question of the peer, which is answered or waits for no answer any more: with the last, our calls' clocks
    /// go on (D49).
    pub(super) fn close_question(&mut self, request: &mut Incoming) {
        if core::mem::take(&mut request.is_open_question) {
            self.resumed.extend(self.their_questions.release(self.now));
        }
    }

    /// Answers for a handler that has ended, where nothing was sent before (D23, D24).
    fn answer_end(&mut self, request: &mut IncomingMut<'_>, end: &HandlerEnd<'_>) {
        // A method with a cancellation result of its own ends in that and in no error (ACP-08).
        let may_fail = request.own_cancellation().is_none();
        let reply = match *end {
            HandlerEnd::Returned(reply) if may_fail || matches!(reply, Reply::Result(_)) => reply,
            HandlerEnd::Panicked if may_fail => Reply::error(error_code::INTERNAL_ERROR, "the handler failed"),
            HandlerEnd::Returned(_)
            | HandlerEnd::Answered
            | HandlerEnd::Cancelled
            | HandlerEnd::GaveUp
            | HandlerEnd::Dropped
            | HandlerEnd::Panicked => return self.answer_cancelled(request),
        };
        self.reply(request, reply);
    }

    /// Answers a request that ended without an answer of its own, as its dialect says for the one who stopped it.
    pub(super) fn answer_cancelled(&mut self, request: &mut IncomingMut<'_>) {
        if let Some(own) = request.own_cancellation() {
            return self.reply(request, Reply::Result(own.json.as_bytes()));
        }
        let ErrorText { code, message } = request.dialect.gave_up;
        let stop = request.stop.as_ref().map(|stop| (stop.by_peer, stop.cause.code));
        let text;
        let reply = match (request.dialect.settlement, stop) {
            (CancelReply::Answered(error), Some((true, _))) => Reply::error(error.code, error.message),
            (CancelReply::Silent, Some((_, CauseCode::Operator))) => {
                Reply::error(error_code::STOPPED_BY_OPERATOR, CauseCode::Operator.phrase())
            }
            // D24: an answer that was not asked for says who stopped the request.
            (CancelReply::Silent | CancelReply::Answered(_), Some((false, cause))) => {
                text = format!("{message}: {}", cause.phrase());
                Reply::error(code, &text)
            }
            (CancelReply::Silent | CancelReply::Answered(_), _) => Reply::error(code, message),
        };
        self.reply(request, reply);
    }

    /// Ends a subscription that the server ends with a cancel, too, after its answer (MCP-M02).
    fn end_served_subscription(&mut self, request: &mut IncomingMut<'_>) {
        if request.part != Part::Subscription || self.role() == Side::Client || self.phase.write_closed {
            return;
        }
        let form = self.negotiation.cancel_form(self.peer(), request.dialect);
        let frame = self.queue(Tag::Caused, |out| cancel::write(form, &request.id.0, None, out));
        request.rare().frames.push_back(Caused { ticket: frame, is_void_once_answered: false });
    }
}

impl Incoming {
    /// The method's own cancellation result, if its requester has cancelled and is to be answered (D23).
    fn own_cancellation(&self) -> Option<&'static CancelResult> {
        self.cancel_result().filter(|_| self.cancelled_by_peer() && !self.dialect.is_silent())
    }

    /// Whether a handler's own answer says that it was cancelled.
    fn is_cancelled_by(&self, reply: &Reply<'_>) -> bool {
        match reply {
            Reply::Error { code, .. } => {
                matches!(self.dialect.settlement, CancelReply::Answered(error) if error.code == *code)
            }
            Reply::Result(result) => self.cancel_result().is_some_and(|own| own.is_in(result)),
        }
    }
}

/// What a cancel came to, now that the handler has ended (D28).
fn ending(now: Instant, request: &Incoming, asked: Instant, is_refused: bool, end: &HandlerEnd<'_>) -> Ending {
    let after = now.since(asked);
    match end {
        _ if is_refused => Ending::Refused,
        HandlerEnd::Dropped => Ending::Dropped { after },
        HandlerEnd::Cancelled | HandlerEnd::GaveUp | HandlerEnd::Panicked => Ending::Stopped { after },
        HandlerEnd::Returned(reply) if request.is_cancelled_by(reply) => Ending::Stopped { after },
        HandlerEnd::Returned(_) | HandlerEnd::Answered => Ending::RanOn,
    }
}
