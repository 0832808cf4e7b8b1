//! Calls of a client with a session that go on by another request to a server without: with what the client answers, or
//! when it is time to look at a task again.
//!
//! To the client it is one call, and a cancel ends all of it: what the client is being asked, or the round that the server
//! has. Each round is a request of its own, with an id of its own (MCP-I02). Where a result asks for input it is sent when
//! everything was answered; where a task does, each answer is a request of its own, and the task is looked at meanwhile.

use core::time::Duration;
use std::collections::BTreeMap;

use super::Stateless;
use crate::{
    bridge::{
        CANCELLED,
        calls::{self, Asked, Asks, Call, Form},
        filter::PLACE,
        kind::{Kind, Kinds},
        rewrite::{self, Style},
        task::{self, GET, Step, TaskId, UPDATE},
        traffic::{GONE, Traffic},
    },
    dialect::mcp,
    error_code,
    frame::{Request, ResponseBody},
    id::RequestId,
    json, message,
    time::Instant,
    timer_queue::{TimerKey, TimerQueue},
};

/// Rounds that wait, and those of tasks that are being looked at.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    /// By the id that the next request is to have, or has.
    pub(super) rounds: BTreeMap<i64, Round>,
    /// Which round each question belongs to, by its id.
    questions: BTreeMap<i64, i64>,
    /// When the server is called again that asks nothing.
    pub(super) timers: TimerQueue<i64>,
    /// Bytes of memory that all of these hold, nearly.
    pub(super) bytes: usize,
}

/// One round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) inputs: Vec<Input>,
    aim: Aim,
    timer: TimerKey,
}

/// What a round waits for.
#[derive(Clone, Debug, Hash)]
enum Aim {
    /// Everything that is asked, to call the server again.
    Input {
        /// The state that the server gets back, as JSON.
        state: Option<Box<[u8]>>,
        /// The server wants a notification if no other request comes.
        is_abandonable: bool,
    },
    /// The end of this task. The server has the request, unless the timer is armed.
    Task(TaskId),
}

/// Something that the server wants to know.
#[derive(Clone, Debug, Hash)]
pub(super) struct Input {
    /// The id of the question.
    id: i64,
    kind: Kind,
    /// Its name for the server, as JSON.
    key: Box<[u8]>,
    /// It was answered, with this if that waits for others.
    answer: Option<Box<[u8]>>,
}

/// How often a server may answer one call with that it wants to know something: as often as the SDKs' clients let it.
const MOST_ROUNDS: u8 = 10;

/// How many things it may want to know at once.
const MOST_INPUTS: usize = 16;

/// The wait before a server is called again that asks nothing.
const PAUSE: Duration = Duration::from_millis(250);

const NO_INPUT: &str = "the server asks for input, which cannot be asked of this client here";
const NOTHING_ASKED: &str = "the server asks for input and does not say for which";
const UNDECLARED: &str = "the server asks for input of a kind that this client does not give";
const TOO_OFTEN: &str = "the server asks for input again and again";
const TOO_MUCH: &str = "the server asks for more input than is passed on at once";
const REFUSED: &str = "the server asked for input, which the client refused";

impl Default for Rounds {
    fn default() -> Self {
        Self { rounds: BTreeMap::new(), questions: BTreeMap::new(), timers: TimerQueue::new(), bytes: 0 }
    }
}

impl Rounds {
    /// Takes one out.
    pub(super) fn take(&mut self, own: i64) -> Option<Round> {
        let round = self.rounds.remove(&own)?;
        self.bytes -= round.held();
        self.timers.disarm(round.timer);
        for input in &round.inputs {
            self.questions.remove(&input.id);
        }
        Some(round)
    }

    /// Puts one in, for a call that goes on at `due`, if it is known when.
    pub(super) fn put(&mut self, own: i64, mut round: Round, due: Option<Instant>) {
        self.bytes += round.held();
        round.timer = due.map_or(TimerKey::NOT, |due| self.timers.arm(due, own));
        self.questions.extend(round.inputs.iter().map(|input| (input.id, own)));
        self.rounds.insert(own, round);
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        for Round { inputs, aim, timer } in self.rounds.values() {
            (aim, inputs.len(), timer.is_armed().then(|| timer.at.since(now))).hash(state);
            inputs.iter().for_each(|input| (&input.key, &input.answer).hash(state));
        }
    }

    /// Panics if it does not agree with itself.
    pub(super) fn check(&self, is_in_flight: impl Fn(i64) -> bool) {
        assert_eq!(self.rounds.values().map(Round::held).sum::<usize>(), self.bytes, "invariant 8: the count is off");
        assert!(self.rounds.keys().all(|own| is_in_flight(*own)), "invariant 6: a round outlives its call");
        let inputs = self.rounds.values().map(|round| round.inputs.len()).sum::<usize>();
        assert_eq!(inputs, self.questions.len(), "invariant 6: a question outlives its round");
        let armed = self.rounds.values().filter(|round| round.timer.is_armed()).count();
        assert_eq!(armed, self.timers.len(), "invariant 6: a round does not go on when it is due");
    }
}

impl Round {
    /// One that waits for the end of a task.
    pub(super) const fn of_task(task: TaskId) -> Self {
        Self { inputs: Vec::new(), aim: Aim::Task(task), timer: TimerKey::NOT }
    }

    /// The task that it waits for.
    pub(super) fn task(&self) -> Option<&TaskId> {
        match &self.aim {
            Aim::Task(task) => Some(task),
            Aim::Input { .. } => None,
        }
    }

    /// When it goes on, if that is known.
    fn due(&self) -> Option<Instant> {
        self.timer.is_armed().then_some(self.timer.at)
    }

    /// Whether the server has no request for it.
    fn is_here(&self) -> bool {
        matches!(self.aim, Aim::Input { .. }) || self.timer.is_armed()
    }

    fn held(&self) -> usize {
        let inputs = self.inputs.iter().map(|input| {
            size_of::<Input>() + PLACE + input.key.len() + input.answer.as_ref().map_or(0, |answer| answer.len())
        });
        let aim = match &self.aim {
            Aim::Input { state, .. } => state.as_ref().map_or(0, |state| state.len()),
            Aim::Task(task) => task.len(),
        };
        size_of::<Self>() + PLACE + inputs.sum::<usize>() + aim
    }

    /// Asks the client what the server wants to know and is not asked yet, and withdraws what it wants to know no more.
    pub(super) fn ask(
        &mut self,
        traffic: &mut Traffic,
        room: usize,
        seen: &[u8],
        kinds: Kinds,
    ) -> Result<(), &'static str> {
        let wanted = json::member(seen, "inputRequests").and_then(json::members);
        let wanted: Vec<_> = wanted.into_iter().flatten().map_while(Result::ok).collect();
        if wanted.len() > MOST_INPUTS || seen.len() > room {
            return Err(TOO_MUCH);
        }
        // What the server wants to know no more it may want to know again under the same name.
        let is_wanted = |input: &Input| wanted.iter().any(|member| *member.key == *input.key);
        let (kept, gone): (Vec<_>, Vec<_>) = core::mem::take(&mut self.inputs).into_iter().partition(is_wanted);
        withdraw(traffic, &gone);
        self.inputs = kept;
        let known = self.inputs.len();
        let mut questions = Vec::new();
        for member in wanted {
            if self.inputs[..known].iter().any(|input| *input.key == *member.key) {
                continue;
            }
            let method = json::member(member.value, "method").and_then(json::text).unwrap_or_default();
            let params = json::member(member.value, "params");
            let kind = Kind::of(&method, params).filter(|kind| kinds.contain(*kind)).ok_or(UNDECLARED)?;
            let id = traffic.calls.number();
            self.inputs.push(Input { id, kind, key: member.key.into(), answer: None });
            questions.push(question(id, kind, params, self.task()));
        }
        questions.iter().for_each(|question| traffic.pass_to_client(question));
        Ok(())
    }

    /// Withdraws the questions that the client has not answered, and notifies the server if it wants that.
    pub(super) fn withdraw(&self, traffic: &mut Traffic) {
        if let Aim::Input { state: Some(state), is_abandonable: true } = &self.aim {
            abandon(traffic, state);
        }
        withdraw(traffic, &self.inputs);
    }
}

impl Stateless {
    /// What is kept of the request of a client with a session, if the server may ask for input. `params` are those that it
    /// gets.
    pub(super) fn asks(&self, traffic: &Traffic, request: &Request<'_>, params: &[u8]) -> Option<Box<Asks>> {
        let method = calls::asker(&request.method).filter(|_| traffic.config.may_ask)?;
        let fits = params.len() <= self.room(traffic);
        Some(Box::new(Asks { method, kinds: self.kinds, token: None, params: fits.then(|| params.into()), rounds: 0 }))
    }

    /// The server wants to know something before it answers a call.
    pub(super) fn begin_round(&mut self, traffic: &mut Traffic, mut call: Call, result: &[u8]) {
        let Some(id) = call.client_id.clone() else { return };
        match self.next_round(traffic, &mut call, result) {
            Ok(round) => {
                let due = round.inputs.is_empty().then(|| traffic.now + PAUSE);
                let own = traffic.calls.open(call);
                self.rounds.put(own, round, due);
            }
            Err(words) => {
                abandonable(result).into_iter().for_each(|state| abandon(traffic, state));
                traffic.refuse(&id, error_code::INTERNAL_ERROR, words);
            }
        }
    }

    fn next_round(&self, traffic: &mut Traffic, call: &mut Call, result: &[u8]) -> Result<Round, &'static str> {
        let asks = call.asks.as_mut().filter(|asks| asks.params.is_some()).ok_or(NO_INPUT)?;
        asks.rounds += 1;
        if asks.rounds > MOST_ROUNDS {
            return Err(TOO_OFTEN);
        }
        let state = json::member(result, "requestState").map(Into::into);
        let is_stateless = state.is_none();
        let aim = Aim::Input { state, is_abandonable: abandonable(result).is_some() };
        let mut round = Round { inputs: Vec::new(), aim, timer: TimerKey::NOT };
        round.ask(traffic, self.room(traffic), result, asks.kinds)?;
        if round.inputs.is_empty() && is_stateless { Err(NOTHING_ASKED) } else { Ok(round) }
    }

    /// An answer of the client: `false` if we asked nothing under this id.
    pub(super) fn take_input(&mut self, traffic: &mut Traffic, id: &RequestId, body: &ResponseBody<'_>) -> bool {
        let Some(question) = id.as_integer() else { return false };
        let Some(own) = self.rounds.questions.get(&question).copied() else { return false };
        let Some(mut round) = self.rounds.take(own) else { return false };
        let (room, due) = (self.room(traffic), round.due());
        let Round { inputs, aim, .. } = &mut round;
        let Some(input) = inputs.iter_mut().find(|input| input.id == question) else { return false };
        let answer = match (&*aim, body) {
            (Aim::Input { .. }, ResponseBody::Result(answer)) if answer.len() > room => Err(TOO_MUCH),
            (_, ResponseBody::Result(answer)) => Ok(*answer),
            // As a dialog that the person has closed.
            (Aim::Task(_), ResponseBody::Error(_)) if matches!(input.kind, Kind::Form | Kind::Url) => {
                Ok(&br#"{"action":"cancel"}"#[..])
            }
            (_, ResponseBody::Error(_)) => Err(REFUSED),
        };
        match (answer, &*aim) {
            (Ok(answer), Aim::Task(task)) => {
                input.answer = Some(Box::default());
                self.give(traffic, task, &input.key, answer);
            }
            (Ok(answer), Aim::Input { .. }) => {
                input.answer = Some(answer.into());
                if inputs.iter().all(|input| input.answer.is_some()) {
                    send_round(traffic, own, &round);
                    return true;
                }
            }
            (Err(words), _) => {
                inputs.retain(|input| input.id != question);
                round.withdraw(traffic);
                give_up(traffic, own, &round, words);
                return true;
            }
        }
        self.rounds.put(own, round, due);
        true
    }

    /// Gives the server the answer to what a task wants to know.
    fn give(&self, traffic: &mut Traffic, task: &[u8], key: &[u8], answer: &[u8]) {
        let mut more = br#","inputResponses":{"#.to_vec();
        more.extend_from_slice(key);
        more.push(b':');
        more.extend_from_slice(answer);
        more.push(b'}');
        let own = traffic.calls.open(Call::own(Asked::Nothing));
        self.ask_about(traffic, own, UPDATE, task, &more);
    }

    /// Nothing is waited for any more by the call of this round: `false` if there is none, or the server has its request.
    pub(super) fn end_round(&mut self, traffic: &mut Traffic, own: i64) -> bool {
        let Some(round) = self.rounds.take(own) else { return false };
        round.withdraw(traffic);
        round.is_here()
    }

    /// Calls servers again that asked nothing, and looks at tasks.
    pub(super) fn send_due_rounds(&mut self, traffic: &mut Traffic) {
        while let Some(own) = self.rounds.timers.pop_due(traffic.now) {
            let Some(round) = self.rounds.rounds.get_mut(&own) else { continue };
            round.timer = TimerKey::NOT;
            if let Some(task) = round.task().cloned() {
                self.ask_about(traffic, own, GET, &task, b"");
            } else if let Some(round) = self.rounds.take(own) {
                send_round(traffic, own, &round);
            }
        }
    }

    /// Nothing can be sent to the server any more: calls end that it has no request for.
    pub(super) fn end_rounds(&mut self, traffic: &mut Traffic) {
        let here = self.rounds.rounds.iter().filter(|(_, round)| round.is_here());
        for own in here.map(|(own, _)| *own).collect::<Vec<_>>() {
            self.end_round(traffic, own);
            end_call(traffic, own, error_code::UPSTREAM_GONE, GONE);
        }
    }
}

/// Whether a result asks for what its client can be asked.
pub(super) fn asks_for_input(call: &Call, result: &[u8]) -> bool {
    // What a task asks is in what is seen of it.
    let is_about_task = matches!(&call.form, Form::Task(step) if *step != Step::Make);
    call.style == Style::InSession && !is_about_task && !call.is_cancelled() && rewrite::asks_for_input(result)
}

/// Calls the server again.
fn send_round(traffic: &mut Traffic, own: i64, round: &Round) {
    let Some(asks) = traffic.calls.get(own).and_then(|call| call.asks.as_ref()) else { return };
    let (mut responses, mut first) = (Vec::new(), Vec::new());
    for Input { key, answer, .. } in &round.inputs {
        responses.extend_from_slice(if responses.is_empty() { b"" } else { b"," });
        responses.extend_from_slice(key);
        responses.push(b':');
        responses.extend_from_slice(answer.as_deref().unwrap_or(b"null"));
    }
    if !responses.is_empty() {
        rewrite::member("inputResponses", &mut first);
        rewrite::object(&responses, None, &[], &mut first);
    }
    if let Aim::Input { state: Some(state), .. } = &round.aim {
        rewrite::raw_member("requestState", state, &mut first);
    }
    let mut params = Vec::new();
    rewrite::object(&first, asks.params.as_deref(), &["inputResponses", "requestState"], &mut params);
    let method = asks.method;
    traffic.send(own, method, |out| out.extend_from_slice(&params));
}

/// Answers a call with an error, although the server may have a request for it: that it answers at once, so it is not worth
/// a cancel.
fn give_up(traffic: &mut Traffic, own: i64, round: &Round, words: &str) {
    if round.is_here() {
        end_call(traffic, own, error_code::INTERNAL_ERROR, words);
    } else if let Some(id) = traffic.calls.rename(own, None, None) {
        _ = traffic.calls.cancel_own(traffic.now, own);
        traffic.refuse(&id, error_code::INTERNAL_ERROR, words);
    }
}

fn end_call(traffic: &mut Traffic, own: i64, code: i32, words: &str) {
    let id = traffic.calls.answered(own).and_then(|call| call.client_id);
    id.into_iter().for_each(|id| traffic.refuse(&id, code, words));
}

/// Cancels questions at the client that it has not answered.
fn withdraw(traffic: &mut Traffic, inputs: &[Input]) {
    for input in inputs.iter().filter(|input| input.answer.is_none()) {
        traffic.say(|out| {
            message::notification(CANCELLED, out, |out| {
                rewrite::member("requestId", out);
                json::write_integer(out, input.id);
            });
        });
    }
}

/// Notifies the server that no request comes with this state.
fn abandon(traffic: &mut Traffic, state: &[u8]) {
    traffic.write_line(|out| {
        message::notification(mcp::ABANDONED, out, |out| {
            rewrite::raw_member("requestState", state, out);
        });
    });
}

/// The state of a result that asks for input, if the server wants to know that no other request comes.
fn abandonable(result: &[u8]) -> Option<&[u8]> {
    json::lookup(result, &["_meta", mcp::ABANDONABLE]).filter(|wants| *wants == b"true")?;
    json::member(result, "requestState")
}

/// A question as the older revisions have it, about this task if it is about one (TASK-10).
fn question(id: i64, kind: Kind, params: Option<&[u8]>, task: Option<&TaskId>) -> Vec<u8> {
    let mut first = Vec::new();
    // They name the page, so that a notification can report later that it was opened.
    if kind == Kind::Url && params.is_none_or(|params| json::member(params, ELICITATION_ID).is_none()) {
        rewrite::text_member(ELICITATION_ID, &format!("rescind-{id}"), &mut first);
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
