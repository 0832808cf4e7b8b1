//! Questions of a server with sessions to a client without: the result of the call that may ask has them, and the client's
//! retry has the answers (D42).
//!
//! To the server it is one call, and it waits for its answers. To the client it is several, one after the other, and
//! between them it has nothing in flight. A question belongs to the only call in flight that may ask; where there are
//! several, or one was cancelled a moment ago, its call is not known, and it is refused.

use core::time::Duration;
use std::collections::VecDeque;

use super::{
    Bridge,
    calls::{self, Asks, Call, Cancelled},
    envelope::Envelope,
    kind::{Kind, Kinds},
    rewrite, task,
};
use crate::{
    dialect::mcp,
    error_code,
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
    /// The call that the server asks questions for.
    asker: Option<Asker>,
    /// Calls that the server answered while their client had nothing in flight.
    ended: VecDeque<Ended>,
    /// Bytes of memory that `asker` and `ended` hold.
    bytes: usize,
    /// How many rounds there were.
    rounds: u64,
    /// When the last cancel of a call that may ask was written, as far as it was.
    cancelled_at: Option<Instant>,
    /// Some of it may wait to be written.
    cancel_waits: bool,
}

/// A call that the server asks questions for.
#[derive(Clone, Debug, Hash)]
pub(super) struct Asker {
    own: i64,
    /// What the server waits for, in the order in which it asked.
    questions: VecDeque<Question>,
    /// How many it has asked.
    asked: u32,
    /// The token under which the client receives progress now.
    token: Option<RequestId>,
    /// Its client has been answered, and is to call again.
    pause: Option<Pause>,
}

/// Time in which the client is to call again.
#[derive(Clone, Debug, Hash)]
struct Pause {
    /// The request that was answered last, unless its id names another by now.
    client_id: Option<RequestId>,
    state: Box<str>,
    due: Instant,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Question {
    /// The id under which the server waits for the answer.
    pub(super) id: RequestId,
    pub(super) kind: Option<Kind>,
    /// Its name for the client.
    pub(super) key: Box<str>,
    /// The method and params, as a result has them.
    pub(super) body: Box<[u8]>,
}

/// A call that the server has answered, whose client is to call again.
#[derive(Clone, Debug)]
struct Ended {
    call: Call,
    pause: Pause,
    answer: Answer,
}

/// An answer that is kept.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Result(Box<[u8]>),
    Error(Box<[u8]>),
}

/// Questions of one call that wait at once, and answers that wait for a retry.
pub(super) const MOST: usize = 16;

/// After this time a server that has received a cancel asks nothing more for its request.
const HEARD_WITHIN: Duration = Duration::from_secs(60);

const NOBODY: &str = "no call is in flight that may ask something of this client";
const AMBIGUOUS: &str = "several calls are in flight, and which of them asks is not known";
const CANCELLED_LATELY: &str = "a call was cancelled a moment ago, and may be the one that asks";
pub(super) const UNDECLARED: &str = "the client has not declared that it answers this";
pub(super) const TOO_MUCH: &str = "too much is asked at once";
pub(super) const GIVEN_UP: &str = "the call was cancelled, and nobody answers";

impl Asking {
    pub(super) const fn new(seed: Seed) -> Self {
        Self { seed, asker: None, ended: VecDeque::new(), bytes: 0, rounds: 0, cancelled_at: None, cancel_waits: false }
    }

    /// Bytes of memory that it holds, nearly.
    pub(super) fn held(&self) -> usize {
        self.bytes + self.ended.capacity() * size_of::<Ended>()
    }

    /// Bytes that messages take in it.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// What waits for the client.
    pub(super) fn len(&self) -> usize {
        self.ended.len() + usize::from(self.asker.is_some())
    }

    /// When a client counts as one that does not call again.
    pub(super) fn due(&self) -> Option<Instant> {
        let pause = self.asker.as_ref().and_then(|asker| asker.pause.as_ref());
        pause.map(|pause| pause.due).into_iter().chain(self.ended.front().map(|ended| ended.pause.due)).min()
    }

    /// The state of the next round. It reveals nothing, is good once, and cannot be guessed.
    fn state(&mut self) -> Box<str> {
        self.rounds += 1;
        format!("{}.{:016x}", self.rounds, self.seed.hash(&self.rounds)).into()
    }

    fn forget_ended(&mut self, at: usize) -> Option<Ended> {
        let ended = self.ended.remove(at)?;
        self.bytes -= ended.answer.bytes().len();
        Some(ended)
    }

    /// Panics if it does not agree with itself.
    pub(super) fn check(&self, is_in_flight: impl Fn(i64) -> bool) {
        let questions = self.asker.iter().flat_map(|asker| &asker.questions).map(Question::held);
        let answers = self.ended.iter().map(|ended| ended.answer.bytes().len());
        assert_eq!(
            questions.chain(answers).sum::<usize>(),
            self.bytes,
            "invariant 8: the count of what is asked is off"
        );
        let Some(asker) = &self.asker else { return };
        assert!(is_in_flight(asker.own), "invariant 6: a question outlives its call");
        assert!(asker.pause.is_some() || asker.questions.is_empty(), "invariant 6: a question is not asked");
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        if let Some(Asker { own: _, questions, asked, token, pause }) = &self.asker {
            let pause = pause.as_ref().map(|pause| (&pause.client_id, pause.due.since(now)));
            (questions, asked, token, pause).hash(state);
        }
        for ended in &self.ended {
            (ended.answer.bytes(), &ended.pause.client_id, ended.pause.due.since(now)).hash(state);
        }
        (self.cancel_waits, self.cancelled_at.map(|at| now.since(at).min(HEARD_WITHIN))).hash(state);
    }
}

impl Question {
    pub(super) fn new(number: u32, request: &Request<'_>) -> Self {
        let kind = Kind::of(&request.method, request.params.raw);
        Self { id: request.id.clone(), kind, key: number.to_string().into(), body: body_of(request) }
    }

    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        size_of::<Self>() + self.id.heap_bytes() + self.key.len() + self.body.len()
    }
}

impl Answer {
    pub(super) const fn bytes(&self) -> &[u8] {
        match self {
            Self::Result(bytes) | Self::Error(bytes) => bytes,
        }
    }

    const fn body(&self) -> ResponseBody<'_> {
        match self {
            Self::Result(result) => ResponseBody::Result(result),
            Self::Error(error) => ResponseBody::Error(error),
        }
    }
}

impl Bridge {
    /// What is kept of a client's request, if the server may ask something for it.
    pub(super) fn asks(&self, request: &Request<'_>, envelope: Option<&Envelope<'_>>) -> Option<Box<Asks>> {
        let method = calls::asker(&request.method).filter(|_| self.config.may_ask)?;
        let (kinds, token) = (Kinds::of(envelope.and_then(|envelope| envelope.capabilities)), token_of(request));
        Some(Box::new(Asks { method, kinds, token, params: None, rounds: 0 }))
    }

    /// Takes in a question of a server with sessions.
    pub(super) fn ask(&mut self, now: Instant, request: &Request<'_>) {
        let kind = Kind::of(&request.method, request.params.raw);
        if let (Some(_), Some(task)) = (kind, task::related(request.params.meta)) {
            return self.ask_for_task(now, &task, request);
        }
        match self.asker_of(now, kind) {
            Err(words) => self.refuse_question(&request.id, words),
            Ok(own) => self.ask_for(now, own, request),
        }
    }

    /// The call that a question of this kind belongs to.
    fn asker_of(&self, now: Instant, kind: Option<Kind>) -> Result<i64, &'static str> {
        let kind = kind.ok_or(super::NO_QUESTIONS)?;
        if self.calls.askers() == 0 {
            return Err(NOBODY);
        }
        let call = self.calls.only_asker().ok_or(AMBIGUOUS)?;
        if self.waits(call.own) {
            // The server cannot have read it.
            return Err(NOBODY);
        }
        let is_late = |at: Instant| now.since(at) < HEARD_WITHIN;
        if self.calls.has_unheard() || self.asking.cancel_waits || self.asking.cancelled_at.is_some_and(is_late) {
            return Err(CANCELLED_LATELY);
        }
        let is_declared = call.asks.as_ref().is_some_and(|asks| asks.kinds.contain(kind));
        if is_declared { Ok(call.own) } else { Err(UNDECLARED) }
    }

    fn ask_for(&mut self, now: Instant, own: i64, request: &Request<'_>) {
        let room = self.room();
        let Asking { asker, bytes, .. } = &mut self.asking;
        let asked = asker.as_ref().map_or(0, |asker| asker.asked) + 1;
        let question = Question::new(asked, request);
        let waiting = asker.as_ref().map_or(0, |asker| asker.questions.len());
        if waiting == MOST || question.held() > room {
            return self.refuse_question(&request.id, TOO_MUCH);
        }
        *bytes += question.held();
        let asker =
            asker.get_or_insert_with(|| Asker { own, questions: VecDeque::new(), asked: 0, token: None, pause: None });
        asker.asked = asked;
        asker.questions.push_back(question);
        if asker.pause.is_none() {
            self.pause(now);
        }
    }

    /// Answers the client's call with what the server asks.
    fn pause(&mut self, now: Instant) {
        let state = self.asking.state();
        let Some(asker) = &mut self.asking.asker else { return };
        let Some(client_id) = self.calls.pause(asker.own) else { return };
        let mut requests = Vec::new();
        for Question { key, body, .. } in &asker.questions {
            if !requests.is_empty() {
                requests.push(b',');
            }
            rewrite::member(key, &mut requests);
            requests.extend_from_slice(body);
        }
        let mut result = br#"{"resultType":"input_required","inputRequests":{"#.to_vec();
        result.extend_from_slice(&requests);
        result.extend_from_slice(br#"},"requestState":"#);
        json::write_string(&mut result, &state);
        result.push(b',');
        let mut abandonable = Vec::new();
        rewrite::member(mcp::ABANDONABLE, &mut abandonable);
        abandonable.extend_from_slice(b"true");
        rewrite::meta(&abandonable, None, &[], &mut result);
        result.push(b'}');
        asker.pause = Some(Pause { client_id: Some(client_id.clone()), state, due: now + self.config.answer_within });
        self.say(|out| message::result(&client_id, &result, out));
    }

    /// The client calls again, with answers: `false` if it is not known to what.
    pub(super) fn retry(&mut self, now: Instant, request: &Request<'_>, envelope: &Envelope<'_>) -> bool {
        let params = request.params.raw.unwrap_or_default();
        let state = json::member(params, "requestState").and_then(json::text).unwrap_or_default();
        let is_its = |pause: &Pause, call: &Call| {
            *pause.state == *state && call.asks.as_ref().is_some_and(|asks| asks.method == request.method)
        };
        let ended = self.asking.ended.iter().position(|ended| is_its(&ended.pause, &ended.call));
        if let Some(Ended { call, answer, .. }) = ended.and_then(|at| self.asking.forget_ended(at)) {
            self.take_answer(now, Call { client_id: Some(request.id.clone()), ..call }, &answer.body());
            return true;
        }
        let Some(asker) = &mut self.asking.asker else { return false };
        let call = self.calls.get(asker.own);
        if !asker.pause.as_ref().zip(call).is_some_and(|(pause, call)| is_its(pause, call)) {
            return false;
        }
        (asker.pause, asker.token) = (None, token_of(request));
        self.calls.resume(asker.own, request.id.clone(), envelope.level, Kinds::of(envelope.capabilities));
        // The server has the call, and a cancel of it goes there.
        self.departs(Departure::Request(request.id.clone()));
        self.set_level(envelope.level);
        self.give_answers(json::member(params, "inputResponses").unwrap_or(b"{}"));
        if self.asking.asker.as_ref().is_some_and(|asker| !asker.questions.is_empty()) {
            self.pause(now);
        }
        true
    }

    /// Gives the server the client's answers. What came meanwhile, or was not answered, is asked again.
    fn give_answers(&mut self, answers: &[u8]) {
        let Some(asker) = &mut self.asking.asker else { return };
        for (question, answer) in take_answered(&mut asker.questions, answers) {
            self.asking.bytes -= question.held();
            self.write_line(|out| message::result(&question.id, answer, out));
        }
    }

    /// The server has answered a call while its client has nothing in flight for it.
    pub(super) fn keep_answer(&mut self, call: Call, body: &ResponseBody<'_>) {
        let Some(Asker { pause: Some(pause), .. }) = self.end_asker(call.own) else {
            return self.cancel_unknown_task(&call, body);
        };
        let answer = match body {
            ResponseBody::Result(result) => Answer::Result((*result).into()),
            ResponseBody::Error(error) => Answer::Error((*error).into()),
        };
        if self.asking.ended.len() == MOST {
            self.drop_ended(0);
        }
        self.asking.bytes += answer.bytes().len();
        self.asking.ended.push_back(Ended { call, pause, answer });
        while self.is_overfull() && self.drop_ended(0) {}
    }

    /// No client comes for this answer.
    fn drop_ended(&mut self, at: usize) -> bool {
        let Some(Ended { call, answer, .. }) = self.asking.forget_ended(at) else { return false };
        self.cancel_unknown_task(&call, &answer.body());
        true
    }

    /// Nothing is asked for this call any more. Returns what was.
    pub(super) fn end_asker(&mut self, own: i64) -> Option<Asker> {
        let asker = self.asking.asker.take_if(|asker| asker.own == own)?;
        self.asking.bytes -= asker.questions.iter().map(Question::held).sum::<usize>();
        Some(asker)
    }

    /// Notes that a call is cancelled at the server.
    pub(super) fn asker_cancelled(&mut self, now: Instant, cancelled: Cancelled) {
        if cancelled.may_ask {
            // A cancel that is held back until the server names the call's task is not sent later.
            (self.asking.cancelled_at, self.asking.cancel_waits) = (Some(now), !self.pending().is_empty());
        }
        self.end_asker(cancelled.own);
    }

    /// Notes that something was written to the server.
    pub(super) fn cancel_written(&mut self, now: Instant) {
        if self.asking.cancel_waits {
            (self.asking.cancelled_at, self.asking.cancel_waits) = (Some(now), !self.pending().is_empty());
        }
    }

    /// The client has cancelled a request that was answered already. If that answer asked for input, no other comes: the
    /// call ends.
    pub fn handle_late_cancel(&mut self, now: Instant, client_id: &RequestId) {
        let asker = self.asking.asker.as_ref();
        let paused = asker.and_then(|asker| Some((asker.own, asker.pause.as_ref()?)));
        if let Some((own, _)) = paused.filter(|(_, pause)| pause.client_id.as_ref() == Some(client_id)) {
            self.give_up_asker(now, own);
        }
        let ended = self.asking.ended.iter().position(|ended| ended.pause.client_id.as_ref() == Some(client_id));
        if let Some(at) = ended {
            self.drop_ended(at);
        }
    }

    /// The client reports that it does not call again ([`ABANDONED`](mcp::ABANDONED)).
    pub(super) fn handle_abandoned(&mut self, now: Instant, params: Option<&[u8]>) {
        let state = params.and_then(|params| json::member(params, "requestState")).and_then(json::text);
        let state = state.unwrap_or_default();
        let asker = self.asking.asker.as_ref();
        let is_its = |asker: &&Asker| asker.pause.as_ref().is_some_and(|pause| *pause.state == *state);
        if let Some(own) = asker.filter(is_its).map(|asker| asker.own) {
            self.give_up_asker(now, own);
        }
        if let Some(at) = self.asking.ended.iter().position(|ended| *ended.pause.state == *state) {
            self.drop_ended(at);
        }
    }

    /// A client uses an id for another request: a cancel of that is none of a call that was answered.
    pub(super) fn id_is_taken(&mut self, client_id: &RequestId) {
        let asker = self.asking.asker.iter_mut().filter_map(|asker| asker.pause.as_mut());
        for pause in asker.chain(self.asking.ended.iter_mut().map(|ended| &mut ended.pause)) {
            pause.client_id.take_if(|known| known == client_id);
        }
    }

    /// Clients that have not called again in time do so no more.
    pub(super) fn stop_asking(&mut self, now: Instant) {
        while self.asking.ended.front().is_some_and(|ended| ended.pause.due <= now) {
            self.drop_ended(0);
        }
        let asker = self.asking.asker.as_ref();
        let due = asker.filter(|asker| asker.pause.as_ref().is_some_and(|pause| pause.due <= now));
        if let Some(own) = due.map(|asker| asker.own) {
            self.give_up_asker(now, own);
        }
    }

    /// Cancels a call whose client does not call again.
    fn give_up_asker(&mut self, now: Instant, own: i64) {
        let Some(cancelled) = self.calls.cancel_own(now, own) else { return };
        let questions = self.end_asker(own).map(|asker| asker.questions).unwrap_or_default();
        // MCP-C13: what becomes a task is cancelled once it is known which.
        if !self.is_to_be_task(own) {
            self.write_cancel(own, None);
        }
        self.asker_cancelled(now, cancelled);
        // For a server that waits for them all the same.
        for question in questions {
            self.refuse_question(&question.id, GIVEN_UP);
        }
    }

    /// The server wants no answer to a question any more.
    pub(super) fn question_cancelled(&mut self, params: Option<&[u8]>) {
        let id = params.and_then(|params| json::member(params, "requestId")).and_then(RequestId::from_json);
        id.iter().for_each(|id| self.task_question_cancelled(id));
        let Some(asker) = &mut self.asking.asker else { return };
        let at = asker.questions.iter().position(|question| Some(&question.id) == id.as_ref());
        if let Some(question) = at.and_then(|at| asker.questions.remove(at)) {
            self.asking.bytes -= question.held();
        }
    }

    /// Progress of a call that has asked something is for the request that stands for it now.
    pub(super) fn tell_progress(&mut self, body: &[u8], notification: &Notification<'_>) {
        let named = notification.params.raw.and_then(|params| json::member(params, "progressToken"));
        let token = named.and_then(RequestId::from_json);
        let asker = self.asking.asker.as_ref();
        let is_its =
            |asker: &&Asker| token.is_some() && self.calls.get(asker.own).and_then(Call::token) == token.as_ref();
        let Some(asker) = asker.filter(is_its) else { return self.pass_to_client(body) };
        // The client has nothing in flight now, or did not ask for progress this time.
        let Some(now) = asker.token.clone().filter(|_| asker.pause.is_none()) else { return };
        let Some(span) = named.and_then(|named| frame::span_of(body, named)) else { return };
        self.say(|out| frame::splice(body, span, &now, out));
    }

    pub(super) fn refuse_question(&mut self, id: &RequestId, words: &str) {
        self.write_line(|out| message::error(Some(id), error_code::METHOD_NOT_FOUND, words, None, out));
    }
}

/// Takes out the questions that are answered, with their answers.
pub(super) fn take_answered<'a>(questions: &mut VecDeque<Question>, answers: &'a [u8]) -> Vec<(Question, &'a [u8])> {
    let mut answered = Vec::new();
    for question in core::mem::take(questions) {
        match json::member(answers, &question.key).filter(|answer| answer.first() == Some(&b'{')) {
            Some(answer) => answered.push((question, answer)),
            None => questions.push_back(question),
        }
    }
    answered
}

fn token_of(request: &Request<'_>) -> Option<RequestId> {
    RequestId::from_json(json::member(request.params.meta?, "progressToken")?)
}

/// A question as a result has it. Of its params goes what only the older revisions have.
fn body_of(request: &Request<'_>) -> Box<[u8]> {
    let mut out = vec![b'{'];
    rewrite::member("method", &mut out);
    json::write_string(&mut out, &request.method);
    if let Some(params) = request.params.raw {
        out.push(b',');
        rewrite::member("params", &mut out);
        rewrite::object(b"", Some(params), &["_meta", "task", "elicitationId"], &mut out);
    }
    out.push(b'}');
    out.into()
}
