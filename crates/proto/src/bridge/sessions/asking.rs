//! Questions of a server with sessions to a client without: the result of the call that may ask has them, and the client's
//! retry has the answers (D42).
//!
//! To the server it is one call, and it waits for its answers. To the client it is several, one after the other, and
//! between them it has nothing in flight. A question belongs to the only call in flight that may ask; where there are
//! several, or one was cancelled a moment ago, its call is not known, and it is refused. A call may ask from when it has
//! left, and a cancelled one may have asked until a minute after its cancel has left.

use super::{
    Sessions,
    questions::{MOST, Questions},
    write_cancel,
};
use crate::{
    bridge::{
        NO_QUESTIONS,
        calls::{self, Asks, Call},
        envelope::Envelope,
        kept::{Held, Kept},
        kind::{Kind, Kinds},
        rewrite, task,
        traffic::Traffic,
    },
    dialect::mcp,
    frame::{self, Notification, Request, ResponseBody},
    hash::Seed,
    id::RequestId,
    json,
    link::Departure,
    message,
    time::Instant,
};

/// What is asked, and what was answered between rounds.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    seed: Seed,
    /// How many rounds there were.
    rounds: u64,
    /// The call that the server asks questions for.
    pub(super) asker: Option<Asker>,
    /// Calls whose client has been answered, and is to call again.
    pub(super) pauses: Kept<Pause>,
}

/// A call that the server asks questions for.
#[derive(Clone, Debug, Hash)]
pub(super) struct Asker {
    own: i64,
    pub(super) questions: Questions,
    /// The token under which the client receives progress now.
    token: Option<RequestId>,
}

/// Time in which a client is to call again.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    /// The request that was answered last, unless its id names another by now.
    pub(super) client_id: Option<RequestId>,
    /// Its method.
    method: &'static str,
    state: Box<str>,
    /// What the server has answered meanwhile; until then the call is the one that asks.
    answered: Option<(Call, Answer)>,
}

/// An answer that is kept.
#[derive(Clone, Debug, Hash)]
struct Answer {
    is_error: bool,
    body: Box<[u8]>,
}

const NOBODY: &str = "no call is in flight that may ask something of this client";
const AMBIGUOUS: &str = "several calls are in flight, and which of them asks is not known";
const CANCELLED_LATELY: &str = "a call was cancelled a moment ago, and may be the one that asks";
pub(super) const UNDECLARED: &str = "the client has not declared that it answers this";
pub(super) const TOO_MUCH: &str = "too much is asked at once";
pub(super) const GIVEN_UP: &str = "the call was cancelled, and nobody answers";

impl Asking {
    pub(super) fn new(seed: Seed) -> Self {
        Self { seed, rounds: 0, asker: None, pauses: Kept::default() }
    }

    /// Bytes that the questions of a call take.
    pub(super) fn of_asker(&self) -> usize {
        self.asker.as_ref().map_or(0, |asker| asker.questions.held())
    }

    /// Whether the client of the call that asks is to call again.
    fn is_paused(&self) -> bool {
        self.pauses.find(Pause::is_at_server).is_some()
    }

    /// The state of the next round. It reveals nothing, is good once, and cannot be guessed.
    fn state(&mut self) -> Box<str> {
        self.rounds += 1;
        format!("{}.{:016x}", self.rounds, self.seed.hash(&self.rounds)).into()
    }

    /// A client uses an id for another request: a cancel of that is none of a call that was answered.
    pub(super) fn id_is_taken(&mut self, client_id: &RequestId) {
        let is_it = |pause: &Pause| pause.client_id.as_ref() == Some(client_id);
        while self.pauses.edit(is_it, |pause| pause.client_id = None).is_some() {}
    }

    /// Panics if it does not agree with itself.
    pub(super) fn check(&self, is_in_flight: impl Fn(i64) -> bool) {
        self.pauses.check();
        let Some(asker) = &self.asker else { return };
        assert!(is_in_flight(asker.own), "invariant 6: a question outlives its call");
        assert!(self.is_paused() || asker.questions.is_empty(), "invariant 6: a question is not asked");
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        self.asker.as_ref().map(|asker| (&asker.questions, &asker.token)).hash(state);
        for (due, pause) in self.pauses.iter() {
            let answer = pause.answered.as_ref().map(|(_, answer)| answer);
            (answer, &pause.client_id, due.since(now)).hash(state);
        }
    }
}

impl Pause {
    const fn is_at_server(&self) -> bool {
        self.answered.is_none()
    }
}

impl Held for Pause {
    fn held(&self) -> usize {
        self.answered.as_ref().map_or(0, |(_, answer)| answer.body.len())
    }
}

impl Answer {
    fn of(body: &ResponseBody<'_>) -> Self {
        let (ResponseBody::Result(bytes) | ResponseBody::Error(bytes)) = *body;
        Self { is_error: matches!(body, ResponseBody::Error(_)), body: bytes.into() }
    }

    const fn body(&self) -> ResponseBody<'_> {
        if self.is_error { ResponseBody::Error(&self.body) } else { ResponseBody::Result(&self.body) }
    }
}

impl Sessions {
    /// Takes in a question of the server.
    pub(super) fn ask(&mut self, traffic: &mut Traffic, request: &Request<'_>) {
        let kind = Kind::of(&request.method, request.params.raw);
        if let (Some(_), Some(task)) = (kind, task::related(request.params.meta)) {
            return self.ask_for_task(traffic, &task, request);
        }
        match asker_of(traffic, kind) {
            Err(words) => traffic.refuse_question(&request.id, words),
            Ok(own) => self.ask_for(traffic, own, request),
        }
    }

    fn ask_for(&mut self, traffic: &mut Traffic, own: i64, request: &Request<'_>) {
        let room = self.room(traffic);
        let fresh = || Asker { own, questions: Questions::default(), token: None };
        let mut asker = self.asking.asker.take().unwrap_or_else(fresh);
        let fits = asker.questions.push(room, request);
        let is_new = fits && !self.asking.is_paused();
        self.asking.asker = Some(asker).filter(|asker| asker.questions.asked > 0);
        if !fits {
            traffic.refuse_question(&request.id, TOO_MUCH);
        } else if is_new {
            self.pause(traffic);
        }
    }

    /// Answers the client's call with what the server asks.
    fn pause(&mut self, traffic: &mut Traffic) {
        let state = self.asking.state();
        let Some(asker) = &self.asking.asker else { return };
        let asks = traffic.calls.get(asker.own).and_then(|call| call.asks.as_ref());
        let Some(method) = asks.map(|asks| asks.method) else { return };
        let Some(client_id) = traffic.calls.rename(asker.own, None, None) else { return };
        let mut members = br#""resultType":"input_required""#.to_vec();
        asker.questions.write(&mut members);
        rewrite::text_member("requestState", &state, &mut members);
        let mut abandonable = Vec::new();
        rewrite::raw_member(mcp::ABANDONABLE, b"true", &mut abandonable);
        rewrite::meta(&abandonable, None, &[], &mut members);
        traffic.say_result(&client_id, |out| rewrite::object(&members, None, &[], out));
        let pause = Pause { client_id: Some(client_id), method, state, answered: None };
        self.asking.pauses.push(traffic.now + traffic.config.answer_within, pause);
    }

    /// The client calls again, with answers: `false` if it is not known to what.
    pub(super) fn retry(&mut self, traffic: &mut Traffic, request: &Request<'_>, envelope: &Envelope<'_>) -> bool {
        let params = request.params.raw.unwrap_or_default();
        let state = json::member(params, "requestState").and_then(json::text).unwrap_or_default();
        let is_its = |pause: &Pause| *pause.state == *state && pause.method == request.method;
        let Some(pause) = self.asking.pauses.take(is_its) else { return false };
        if let Some((call, answer)) = pause.answered {
            let call = Call { client_id: Some(request.id.clone()), ..call };
            self.take_answer(traffic, call, &answer.body());
            return true;
        }
        let Some(asker) = &mut self.asking.asker else { return false };
        asker.token = token_of(request);
        traffic.calls.rename(asker.own, Some(request.id.clone()), envelope.level);
        if let Some(asks) = traffic.calls.get_mut(asker.own).and_then(|call| call.asks.as_mut()) {
            asks.kinds = Kinds::of(envelope.capabilities);
        }
        // The server has the call, and a cancel of it goes there.
        traffic.departs(Departure::Request(request.id.clone()));
        // What came meanwhile, or was not answered, is asked again.
        let answered = asker.questions.take_answered(json::member(params, "inputResponses").unwrap_or(b"{}"));
        let is_over = asker.questions.is_empty();
        self.set_level(traffic, envelope.level);
        for (id, answer) in answered {
            traffic.write_line(|out| message::result(&id, answer, out));
        }
        if !is_over {
            self.pause(traffic);
        }
        true
    }

    /// The server has answered a call while its client has nothing in flight for it.
    pub(super) fn keep_answer(&mut self, traffic: &mut Traffic, call: Call, body: &ResponseBody<'_>) {
        if self.asking.asker.take_if(|asker| asker.own == call.own).is_none() {
            return self.cancel_unknown_task(traffic, &call, body);
        }
        let answered = Some((call, Answer::of(body)));
        self.asking.pauses.edit(Pause::is_at_server, |pause| pause.answered = answered);
        loop {
            let most = if self.asked_bytes(traffic) > traffic.config.max_held { 0 } else { MOST };
            let Some(pause) = self.asking.pauses.pop(traffic.now, most) else { return };
            self.end_pause(traffic, pause);
        }
    }

    /// Nothing is asked for this call any more.
    pub(super) fn end_asker(&mut self, own: i64) {
        if self.asking.asker.take_if(|asker| asker.own == own).is_some() {
            self.asking.pauses.take(Pause::is_at_server);
        }
    }

    /// The client reports that it does not call again ([`ABANDONED`](mcp::ABANDONED)).
    pub(super) fn handle_abandoned(&mut self, traffic: &mut Traffic, params: Option<&[u8]>) {
        let state = params.and_then(|params| json::member(params, "requestState")).and_then(json::text);
        let state = state.unwrap_or_default();
        self.give_up(traffic, |pause| *pause.state == *state);
    }

    /// Clients that have not called again in time do so no more.
    pub(super) fn stop_asking(&mut self, traffic: &mut Traffic) {
        while let Some(pause) = self.asking.pauses.pop(traffic.now, usize::MAX) {
            self.end_pause(traffic, pause);
        }
    }

    /// The client does not call again after such a pause.
    pub(super) fn give_up(&mut self, traffic: &mut Traffic, is_it: impl Fn(&Pause) -> bool) {
        while let Some(pause) = self.asking.pauses.take(&is_it) {
            self.end_pause(traffic, pause);
        }
    }

    /// No client calls again: the call is cancelled, or its answer dropped.
    fn end_pause(&mut self, traffic: &mut Traffic, pause: Pause) {
        if let Some((call, answer)) = pause.answered {
            return self.cancel_unknown_task(traffic, &call, &answer.body());
        }
        let Some(mut asker) = self.asking.asker.take() else { return };
        if traffic.calls.cancel_own(traffic.now, asker.own).is_some() {
            write_cancel(traffic, asker.own, None);
            // For a server that waits for them all the same.
            asker.questions.take().for_each(|id| traffic.refuse_question(&id, GIVEN_UP));
        }
    }

    /// The server wants no answer to a question any more.
    pub(super) fn question_cancelled(&mut self, params: Option<&[u8]>) {
        let id = params.and_then(|params| json::member(params, "requestId")).and_then(RequestId::from_json);
        let Some(id) = id else { return };
        self.task_question_cancelled(&id);
        self.asking.asker.iter_mut().for_each(|asker| asker.questions.withdraw(&id));
    }

    /// Progress of a call that has asked something is for the request that stands for it now.
    pub(super) fn pass_progress(&self, traffic: &mut Traffic, body: &[u8], notification: &Notification<'_>) {
        let named = notification.params.raw.and_then(|params| json::member(params, "progressToken"));
        let token = named.and_then(RequestId::from_json);
        let asker = self.asking.asker.as_ref();
        let is_its =
            |asker: &&Asker| token.is_some() && traffic.calls.get(asker.own).and_then(Call::token) == token.as_ref();
        let Some(asker) = asker.filter(is_its) else { return traffic.pass_to_client(body) };
        // The client has nothing in flight now, or did not ask for progress this time.
        let Some(now) = asker.token.as_ref().filter(|_| !self.asking.is_paused()) else { return };
        let Some(span) = named.and_then(|named| frame::span_of(body, named)) else { return };
        traffic.say(|out| frame::splice(body, span, now, out));
    }
}

/// The call that a question of this kind belongs to.
fn asker_of(traffic: &Traffic, kind: Option<Kind>) -> Result<i64, &'static str> {
    let (kind, calls) = (kind.ok_or(NO_QUESTIONS)?, &traffic.calls);
    if calls.askers() == 0 {
        return Err(NOBODY);
    }
    let call = calls.only_asker().ok_or(AMBIGUOUS)?;
    if !call.has_left {
        // The server cannot have read it.
        return Err(NOBODY);
    }
    if calls.may_ask_for_cancelled(traffic.now) {
        return Err(CANCELLED_LATELY);
    }
    let is_declared = call.asks.as_ref().is_some_and(|asks| asks.kinds.contain(kind));
    if is_declared { Ok(call.own) } else { Err(UNDECLARED) }
}

/// What is kept of a client's request, if the server may ask something for it.
pub(super) fn asks(traffic: &Traffic, request: &Request<'_>, envelope: Option<&Envelope<'_>>) -> Option<Box<Asks>> {
    let method = calls::asker(&request.method).filter(|_| traffic.config.may_ask)?;
    let (kinds, token) = (Kinds::of(envelope.and_then(|envelope| envelope.capabilities)), token_of(request));
    Some(Box::new(Asks { method, kinds, token, params: None, rounds: 0 }))
}

fn token_of(request: &Request<'_>) -> Option<RequestId> {
    RequestId::from_json(json::member(request.params.meta?, "progressToken")?)
}
