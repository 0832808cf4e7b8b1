//! What a side sends, taken in: its bytes become messages, and each message is passed on, answered here, or swallowed.

use core::mem::replace;

use super::{
    End, Hop, Relay, RelayEvent, Step,
    exchange::Exchange,
    link::{Part, Passed, Tag},
};
use crate::{
    frame::{self, Frame, Notification, Piece},
    framing::{Chunk, Decoder, Framing, Leftover},
    id::RequestId,
    json,
    link::{LateKind, Rejected, RequestKey},
    rule::Rule,
    side::Side,
    time::Instant,
};

impl Relay {
    /// Takes in bytes that arrived from `side`.
    ///
    /// Any bytes are taken: what is malformed, over-long or unasked for becomes an event, and an answer where one is due
    /// (D36). Nothing is taken after [`handle_eof`](Self::handle_eof).
    pub fn handle_input(&mut self, now: Instant, side: Side, mut bytes: &[u8]) {
        if !self.core.links[side].ended
            && let Some(mut decoder) = self.core.links[side].decoder.take()
        {
            // Before the first message: what is written because of it is framed as it is.
            if let Some(framing) = decoder.detect(&mut bytes) {
                self.adopt_framing(framing);
            }
            while let Some(chunk) = decoder.decode(&mut bytes) {
                self.handle_chunk(now, side, chunk);
            }
            self.core.links[side].decoder = Some(decoder);
        }
        if self.core.welcome.is_some() {
            self.pursue_welcome(now);
        }
        for side in Side::BOTH {
            self.watch_backlog(now, side);
        }
        self.finish(now);
    }

    /// Records that `side` will send nothing more.
    ///
    /// The client's end cancels nothing (D27): what waits for it still flows. The server's end answers every request in
    /// flight with an error that says `how`, and cancels what the server had asked (D35). Afterwards nothing is pending
    /// for the server.
    pub fn handle_eof(&mut self, now: Instant, side: Side, how: &End) {
        if replace(&mut self.core.links[side].ended, true) {
            return;
        }
        self.receive_leftover(now, side);
        self.let_all_go(now);
        if side == Side::Client {
            self.open_early();
        }
        if side == Side::Server {
            self.core.server_end = Some(how.clone());
            self.handle_write_closed(now, Side::Server);
            self.server_gone(now);
            self.bridge = None;
        }
        self.finish(now);
    }

    fn handle_chunk(&mut self, now: Instant, from: Side, chunk: Chunk<'_>) {
        // Read in place, as is the message in it: moving what was just written field by field makes a processor wait.
        let framed = match &chunk {
            Chunk::Frame(framed) => framed,
            Chunk::Overlong(message) if self.bridge.is_some() && from == Side::Server => {
                return self.lose_overlong(now, message);
            }
            Chunk::Overlong(message) => return self.handle_overlong(now, from, message),
            Chunk::Broken(broken) if self.core.negotiation.is_opaque() => {
                return self.core.pass_bytes(from.other(), broken.raw);
            }
            Chunk::Broken(broken) => {
                return self.core.refuse_garbage(from, Rejected::Broken, broken.raw, "not a message");
            }
        };
        let body = framed.body();
        if self.bridge.is_some() && from == Side::Server {
            return self.hand_over(now, body);
        }
        if self.core.config.emit.frames {
            self.core.reports.emit(RelayEvent::Frame { hop: Hop::From(from), bytes: framed.raw().into() });
        }
        if let Some(passed) = &self.take(now, from, body)
            && let Chunk::Frame(framed) = chunk
        {
            self.pass(now, from.other(), framed, passed);
        }
    }

    /// Takes in what stood on one line or in one body, piece by piece.
    #[cold]
    fn take_apart(&mut self, now: Instant, from: Side, pieces: &[Piece<'_>]) {
        for piece in pieces {
            match piece {
                Piece::Noise(noise) => self.core.reject(from, Rejected::NotJson, noise),
                Piece::Message(body) => self.take_alone(now, from, body),
            }
        }
    }

    /// Takes in a message that is not passed on in the framing in which it came.
    pub(super) fn take_alone(&mut self, now: Instant, from: Side, body: &[u8]) {
        if let Some(passed) = self.take(now, from, body) {
            self.pass_alone(now, from.other(), body, passed);
        }
    }

    /// Takes in what is meant as a message. `None` unless it is to be passed on as it is: what was mended, and what stood in
    /// an array, has been passed on then.
    // Where it is called: what it returns would be moved once more, 33 instructions of each message.
    #[inline(always)]
    fn take(&mut self, now: Instant, from: Side, body: &[u8]) -> Option<Passed> {
        let mut message = frame::parse(body);
        if self.core.negotiation.is_opening() {
            self.open_link(from, body, &message);
        }
        match &mut message {
            message if self.core.negotiation.is_opaque() => return self.handle_opaque(now, from, body, message),
            Ok(Frame::Batch(batch)) => self.handle_batch(now, from, body, *batch),
            Ok(message) => return self.handle_message(now, from, body, message),
            Err(_) if let Some(pieces) = frame::apart(body) => self.take_apart(now, from, &pieces),
            Err(malformed) => {
                if let Some((body, passed)) = self.handle_unreadable(now, from, body, malformed) {
                    self.pass_alone(now, from.other(), &body, passed);
                }
            }
        }
        None
    }

    /// Takes in one message that is no batch; `body` is its text, in which spans count.
    pub(super) fn handle_message(
        &mut self,
        now: Instant,
        from: Side,
        body: &[u8],
        message: &mut Frame<'_>,
    ) -> Option<Passed> {
        match message {
            Frame::Request(request) => self.handle_request(now, from, body, request),
            Frame::Notification(notification) => self.handle_notification(now, from, body, notification),
            Frame::Response(response) => self.handle_response(now, from, response),
            // The caller has taken batches apart; a nested one is malformed.
            Frame::Batch(_) => None,
        }
    }

    /// Takes in the last bytes of an input that ended in the middle of something.
    pub(super) fn receive_leftover(&mut self, now: Instant, from: Side) {
        match self.core.links[from].decoder.as_deref_mut().and_then(Decoder::finish) {
            None => {}
            Some(Leftover::Line(bytes) | Leftover::Half(bytes)) if self.core.negotiation.is_opaque() => {
                self.core.pass_bytes(from.other(), &bytes);
            }
            // A last line without its line break is a message if it can be read as one: `printf '…' | server`.
            Some(Leftover::Line(mut line)) if frame::holds_message(&line) => {
                line.push(b'\n');
                let longest = self.core.config.max_message.saturating_add(1);
                let mut whole = Decoder::new(Some(Framing::Line), longest);
                if let Some(chunk) = whole.decode(&mut &line[..]) {
                    self.handle_chunk(now, from, chunk);
                }
            }
            Some(Leftover::Line(bytes)) if from == Side::Client => {
                self.core.refuse_garbage(from, Rejected::NotJson, &bytes, "not JSON");
            }
            Some(Leftover::Line(bytes) | Leftover::Half(bytes)) => {
                self.core.reject(from, Rejected::Unfinished, &bytes);
            }
            Some(Leftover::Overlong(message)) => self.handle_overlong(now, from, &message),
        }
    }

    /// Takes in a notification: a cancel ends here; progress, updates of a turn and messages of a subscription go on for a
    /// request that is not over; all others pass.
    fn handle_notification(
        &mut self,
        now: Instant,
        from: Side,
        body: &[u8],
        notification: &Notification<'_>,
    ) -> Option<Passed> {
        let dialect = self.core.spoken(from);
        let (method, params) = (&*notification.method, &notification.params);
        if self.core.negotiation.is_cancel(dialect, method) {
            self.handle_cancel(now, from, method, params.raw);
            return None;
        }
        if let Some(turn) = dialect.turn {
            if method == turn.cancel && from == Side::Client {
                return Some(self.handle_turn_cancel(now, params.session_id));
            }
            if method == turn.update && from == Side::Server {
                return self.handle_turn_update(now, turn, params).then_some(Passed::PLAIN);
            }
        }
        if let Some(form) = dialect.tasks
            && method == form.pushed
            && let Some(params) = params.raw
        {
            self.task_pushed(now, from, params);
        }
        if let Some(form) = dialect.progress
            && method == form.method
            && let Some(token) = params.raw.and_then(|params| json::member(params, form.token))
        {
            let token = RequestId::from_json(token);
            let found = token.as_ref().and_then(|token| self.tables[from.other()].by_token(token, Exchange::is_live));
            let (Some(token), Some(key)) = (&token, found) else {
                if !form.active_only || token.as_ref().is_some_and(|token| self.tables[from.other()].may_report(token))
                {
                    return Some(Passed::PLAIN);
                }
                self.core.report_violation(from, Rule::McpP01, token);
                return None;
            };
            let token = token.clone();
            return self.with(now, RequestKey { from: from.other(), key }, |step| step.progress(token, params.raw))?;
        }
        if from == Side::Client
            && let Some(early) = &mut self.core.welcome
        {
            early.saw_notification(method);
        }
        if from == Side::Client
            && let Some(restart) = &mut self.core.restart
        {
            return restart.saw_notification(method).map(|tag| Passed { tag, ..Passed::PLAIN });
        }
        if from == Side::Server && params.meta.is_some() {
            return self.handle_subscription(now, body, params.raw?);
        }
        Some(Passed::PLAIN)
    }

    /// A server's notification that may belong to a subscription: its id is mapped back, and those of a cancelled one
    /// are swallowed (D32, MCP-H04).
    fn handle_subscription(&mut self, now: Instant, body: &[u8], params: &[u8]) -> Option<Passed> {
        let form = self.core.spoken(Side::Client).subscription;
        let named = form.and_then(|form| json::lookup(params, form.path));
        let id = named.and_then(RequestId::from_json);
        let found = id.as_ref().and_then(|id| self.tables[Side::Client].by_upstream(id));
        let (Some(named), Some(id), Some(key)) = (named, id, found) else { return Some(Passed::PLAIN) };
        self.with(now, RequestKey { from: Side::Client, key }, |step| {
            if !step.exchange.is_waiting() {
                step.report_late(id, LateKind::Subscription);
                step.note_alive();
                return None;
            }
            let own = step.exchange.renamed.is_some().then(|| step.exchange.id.clone());
            let splice = own.and_then(|own| Some((frame::span_of(body, named)?, own)));
            Some(Passed { splice, tag: Tag::Of(step.request, Part::Notice), urgent: false })
        })?
    }
}

impl Step<'_> {
    /// Progress came under `token`. It goes on, but not for a request that is over (MCP-P03), and restarts the response
    /// clock of one that is not.
    fn progress(&mut self, token: RequestId, params: Option<&[u8]>) -> Option<Passed> {
        let is_partial = self.exchange.partial() == Some(&token);
        self.exchange.rare().progress.note(self.now, params.filter(|_| !is_partial));
        if self.exchange.keeps_token() {
            self.mark_changed();
            return Some(Passed::PLAIN);
        }
        // A cancelled request that still owes an answer may report until then (ACP-04, LSP-04).
        let passes = self.exchange.is_waiting();
        if passes {
            self.reset_response_clock();
            self.mark_changed();
        } else {
            self.report_late(token, LateKind::Progress);
        }
        self.note_alive();
        passes.then_some(Passed { tag: Tag::Of(self.request, Part::Notice), ..Passed::PLAIN })
    }
}
