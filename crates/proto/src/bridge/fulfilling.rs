//! Results that ask for input, of a server without sessions, for a client with one: the client is asked as its era has it,
//! and the server is called again with the answers.
//!
//! To the client it is one call, and a cancel ends all of it: what the client is being asked, or the round that the server
//! has. Each round is a request of its own, with an id of its own (MCP-I02), and is sent when everything was answered.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::{
    Bridge, CANCELLED, Stage, Style,
    calls::{self, Asks, Call, Form},
    kind::{Kind, Kinds},
    rewrite,
    task::{self, Step},
};
use crate::{
    dialect::mcp,
    error_code,
    frame::{Request, ResponseBody},
    id::RequestId,
    json, message,
    time::Instant,
};

/// Rounds that wait for the client.
#[derive(Clone, Debug, Default)]
pub(super) struct Fulfilling {
    /// By the id that the next request is to have.
    rounds: BTreeMap<i64, Round>,
    /// Which round each question belongs to, by its id.
    questions: BTreeMap<i64, i64>,
    /// Rounds in which nothing is asked, by when the server is called again. Some may be over.
    pauses: VecDeque<(Instant, i64)>,
    /// Bytes of memory that all of these hold, nearly.
    bytes: usize,
}

/// One round.
#[derive(Clone, Debug, Default, Hash)]
struct Round {
    inputs: Vec<Input>,
    /// The state that the server gets back, as JSON.
    state: Option<Box<[u8]>>,
    /// The server wants a notification if no other request comes.
    is_abandonable: bool,
}

/// Something that the server wants to know.
#[derive(Clone, Debug, Hash)]
struct Input {
    /// The id of the question.
    id: i64,
    /// Its name for the server, as JSON.
    key: Box<[u8]>,
    answer: Option<Box<[u8]>>,
}

/// How often a server may answer one call with that it wants to know something: as often as the SDKs' clients let it.
const MOST_ROUNDS: u8 = 10;

/// How many things it may want to know at once.
pub(super) const MOST_INPUTS: usize = 16;

/// The wait before a server is called again that asks nothing.
const PAUSE: Duration = Duration::from_millis(250);

const NO_INPUT: &str = "the server asks for input, which cannot be asked of this client here";
const NOTHING_ASKED: &str = "the server asks for input and does not say for which";
pub(super) const UNDECLARED: &str = "the server asks for input of a kind that this client does not give";
const TOO_OFTEN: &str = "the server asks for input again and again";
pub(super) const TOO_MUCH: &str = "the server asks for more input than is passed on at once";
pub(super) const REFUSED: &str = "the server asked for input, which the client refused";

impl Fulfilling {
    /// Bytes of memory that it holds, nearly.
    pub(super) fn held(&self) -> usize {
        self.bytes + self.pauses.capacity() * size_of::<(Instant, i64)>()
    }

    /// Bytes that messages take in it.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.rounds.len()
    }

    /// When a server is called again that asks nothing.
    pub(super) fn due(&self) -> Option<Instant> {
        self.pauses.front().map(|(due, _)| *due)
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        for round in self.rounds.values() {
            (&round.state, round.inputs.len()).hash(state);
            round.inputs.iter().for_each(|input| (&input.key, &input.answer).hash(state));
        }
        self.pauses.iter().for_each(|(due, own)| (due.since(now), self.rounds.contains_key(own)).hash(state));
    }

    fn take(&mut self, own: i64) -> Option<Round> {
        let round = self.rounds.remove(&own)?;
        self.bytes -= round.held();
        for input in &round.inputs {
            self.questions.remove(&input.id);
        }
        Some(round)
    }

    fn put(&mut self, own: i64, round: Round) {
        self.bytes += round.held();
        self.questions.extend(round.inputs.iter().map(|input| (input.id, own)));
        self.rounds.insert(own, round);
    }

    /// Panics if it does not agree with itself.
    pub(super) fn check(&self, is_in_flight: impl Fn(i64) -> bool) {
        assert_eq!(self.rounds.values().map(Round::held).sum::<usize>(), self.bytes, "invariant 8: the count is off");
        assert!(self.rounds.keys().all(|own| is_in_flight(*own)), "invariant 6: a round outlives its call");
        let inputs = self.rounds.values().map(|round| round.inputs.len()).sum::<usize>();
        assert_eq!(inputs, self.questions.len(), "invariant 6: a question outlives its round");
    }
}

impl Round {
    fn held(&self) -> usize {
        /// More than a place in a map takes.
        const PLACE: usize = 64;
        let inputs = self.inputs.iter().map(|input| {
            size_of::<Input>() + PLACE + input.key.len() + input.answer.as_ref().map_or(0, |answer| answer.len())
        });
        size_of::<Self>() + PLACE + inputs.sum::<usize>() + self.state.as_ref().map_or(0, |state| state.len())
    }
}

impl Bridge {
    /// What is kept of the request of a client with a session, if the server may ask for input. `params` are those that it
    /// gets.
    pub(super) fn keeps(&self, request: &Request<'_>, kinds: Kinds, params: &[u8]) -> Option<Box<Asks>> {
        let method = calls::asker(&request.method).filter(|_| self.config.may_ask)?;
        let fits = params.len() <= self.room();
        let params = fits.then(|| params.into());
        Some(Box::new(Asks { method, kinds, token: None, params, rounds: 0 }))
    }

    /// The server wants to know something before it answers a call.
    pub(super) fn fulfil(&mut self, now: Instant, call: Call, result: &[u8]) {
        let Some(id) = call.client_id.clone() else { return };
        if let Err(words) = self.begin_round(now, call, result) {
            self.abandon(abandonable(result));
            self.refuse(&id, error_code::INTERNAL_ERROR, words);
        }
    }

    fn begin_round(&mut self, now: Instant, mut call: Call, result: &[u8]) -> Result<(), &'static str> {
        let asks = call.asks.as_mut().filter(|asks| asks.params.is_some()).ok_or(NO_INPUT)?;
        asks.rounds += 1;
        if asks.rounds > MOST_ROUNDS {
            return Err(TOO_OFTEN);
        }
        let wanted = json::member(result, "inputRequests").and_then(json::members);
        let wanted: Vec<_> = wanted.into_iter().flatten().map_while(Result::ok).collect();
        let state = json::member(result, "requestState");
        if wanted.is_empty() && state.is_none() {
            return Err(NOTHING_ASKED);
        }
        if wanted.len() > MOST_INPUTS || result.len() > self.room() {
            return Err(TOO_MUCH);
        }
        let is_abandonable = abandonable(result).is_some();
        let mut round = Round { state: state.map(Into::into), is_abandonable, ..Round::default() };
        let mut questions = Vec::new();
        for member in &wanted {
            let method = json::member(member.value, "method").and_then(json::text).unwrap_or_default();
            let params = json::member(member.value, "params");
            let kind = Kind::of(&method, params).filter(|kind| asks.kinds.contain(*kind)).ok_or(UNDECLARED)?;
            let id = self.calls.number();
            round.inputs.push(Input { id, key: member.key.into(), answer: None });
            questions.push(question(id, kind, params, None));
        }
        let own = self.calls.reopen(call);
        if wanted.is_empty() {
            self.fulfilling.pauses.push_back((now + PAUSE, own));
        }
        self.fulfilling.put(own, round);
        for question in questions {
            self.say(|out| out.extend_from_slice(&question));
        }
        Ok(())
    }

    /// An answer of the client: `false` if we asked nothing under this id.
    pub(super) fn handle_input(&mut self, now: Instant, id: &RequestId, body: &ResponseBody<'_>) -> bool {
        let Some(question) = id.as_integer() else { return false };
        let Some(own) = self.fulfilling.questions.get(&question).copied() else {
            return self.handle_task_input(now, question, body);
        };
        let Some(mut round) = self.fulfilling.take(own) else { return false };
        match body {
            ResponseBody::Result(answer) if answer.len() <= self.room() => {
                let asked = round.inputs.iter_mut().find(|input| input.id == question);
                asked.into_iter().for_each(|input| input.answer = Some((*answer).into()));
                if round.inputs.iter().all(|input| input.answer.is_some()) {
                    self.send_round(own, &round);
                } else {
                    self.fulfilling.put(own, round);
                }
            }
            ResponseBody::Result(_) | ResponseBody::Error(_) => {
                round.inputs.retain(|input| input.id != question);
                self.withdraw_questions(&round);
                let words = if matches!(body, ResponseBody::Error(_)) { REFUSED } else { TOO_MUCH };
                self.end_call(own, error_code::INTERNAL_ERROR, words);
            }
        }
        true
    }

    /// Calls the server again.
    fn send_round(&mut self, own: i64, round: &Round) {
        let Some(asks) = self.calls.get(own).and_then(|call| call.asks.as_ref()) else { return };
        let mut first = Vec::new();
        for Input { key, answer, .. } in &round.inputs {
            first.extend_from_slice(if first.is_empty() { br#""inputResponses":{"# } else { b"," });
            first.extend_from_slice(key);
            first.push(b':');
            first.extend_from_slice(answer.as_deref().unwrap_or(b"null"));
        }
        if !first.is_empty() {
            first.push(b'}');
        }
        if let Some(state) = &round.state {
            first.extend_from_slice(if first.is_empty() { b"" } else { b"," });
            rewrite::member("requestState", &mut first);
            first.extend_from_slice(state);
        }
        let mut params = Vec::new();
        rewrite::object(&first, asks.params.as_deref(), &["inputResponses", "requestState"], &mut params);
        let method = asks.method;
        self.send(own, |out| rewrite::request(own, method, out, |out| out.extend_from_slice(&params)));
    }

    /// The client has cancelled the call of this round: `false` if it waits for no client.
    pub(super) fn end_round(&mut self, own: i64) -> bool {
        let Some(round) = self.fulfilling.take(own) else { return false };
        self.withdraw_questions(&round);
        true
    }

    /// Withdraws the questions that the client has not answered, and notifies the server if it wants that.
    fn withdraw_questions(&mut self, round: &Round) {
        self.abandon(round.state.as_deref().filter(|_| round.is_abandonable));
        for input in round.inputs.iter().filter(|input| input.answer.is_none()) {
            self.withdraw_question(input.id);
        }
    }

    /// Cancels a question at the client.
    pub(super) fn withdraw_question(&mut self, id: i64) {
        self.say(|out| {
            message::notification(CANCELLED, out, |out| {
                rewrite::member("requestId", out);
                json::write_integer(out, id);
            });
        });
    }

    /// Notifies the server that no request comes with this state.
    fn abandon(&mut self, state: Option<&[u8]>) {
        let Some(state) = state else { return };
        self.write_line(|out| {
            message::notification(mcp::ABANDONED, out, |out| {
                rewrite::member("requestState", out);
                out.extend_from_slice(state);
            });
        });
    }

    /// Calls servers again that asked nothing.
    pub(super) fn send_due_rounds(&mut self, now: Instant) {
        while let Some((_, own)) = self.fulfilling.pauses.pop_front_if(|(due, _)| *due <= now) {
            if let Some(round) = self.fulfilling.take(own) {
                self.send_round(own, &round);
            }
        }
    }

    /// Nothing can be sent to the server any more: calls that wait for input end.
    pub(super) fn end_rounds(&mut self) {
        while let Some(own) = self.fulfilling.rounds.first_key_value().map(|(own, _)| *own) {
            self.end_round(own);
            self.end_call(own, error_code::UPSTREAM_GONE, GONE);
        }
        self.fulfilling.pauses.clear();
    }

    pub(super) fn end_call(&mut self, own: i64, code: i32, words: &str) {
        let id = self.calls.answered(own).and_then(|call| call.client_id);
        id.into_iter().for_each(|id| self.refuse(&id, code, words));
    }

    /// Whether a result of a server without sessions asks for what its client can be asked.
    pub(super) fn is_to_be_fulfilled(&self, call: &Call, result: &[u8]) -> bool {
        let is_of_it = matches!(self.stage, Stage::Modern { .. }) && call.style == Style::InSession;
        // What a task asks is in what is seen of it.
        let is_about_task = matches!(&call.form, Form::Task(step) if *step != Step::Make);
        is_of_it && !is_about_task && !call.is_cancelled && rewrite::asks_for_input(result)
    }
}

pub(super) const GONE: &str = "the server can be told nothing any more";

/// The state of a result that asks for input, if the server wants to know that no other request comes.
fn abandonable(result: &[u8]) -> Option<&[u8]> {
    json::lookup(result, &["_meta", mcp::ABANDONABLE]).filter(|wants| *wants == b"true")?;
    json::member(result, "requestState")
}

/// A question as the older revisions have it, about this task if it is about one (TASK-10).
pub(super) fn question(id: i64, kind: Kind, params: Option<&[u8]>, task: Option<&[u8]>) -> Vec<u8> {
    let mut first = Vec::new();
    // They name the page, so that a notification can report later that it was opened.
    if kind == Kind::Url && params.is_none_or(|params| json::member(params, ELICITATION_ID).is_none()) {
        rewrite::member(ELICITATION_ID, &mut first);
        json::write_string(&mut first, &format!("rescind-{id}"));
    }
    let mut out = Vec::new();
    rewrite::request(id, kind.method(), &mut out, |out| match task {
        Some(task) => {
            let mut named = Vec::new();
            rewrite::object(&first, params, &[], &mut named);
            task::write_related(&named, task, out);
        }
        None => rewrite::object(&first, params, &[], out),
    });
    out
}

const ELICITATION_ID: &str = "elicitationId";
