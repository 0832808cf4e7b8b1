//! Tasks of a server without sessions, for clients with one (D38).
//!
//! Here a client asks for a task, and gets one: if the server answers at once, the answer is kept for it as a task that has
//! ended. `tasks/result` waits here, and the server is looked at as often as it wants to be. A cancelled task stays so
//! (TASK-04), although the server only promises to try.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    Asked, Bridge, NO_TASKS, Stage, Style,
    asking::Answer,
    calls::{Call, Form},
    fulfilling::{self, GONE},
    kind::{Kind, Kinds},
    moment, rewrite,
    task::{self, CALL, CANCEL, EXTENSION, GET, RESULT, Status, Step, TASK, TaskId, UPDATE},
};
use crate::{
    error_code,
    frame::{Request, ResponseBody},
    hash::Seed,
    id::RequestId,
    json, message,
    time::Instant,
};

/// What is under way of the tasks of a server without sessions.
#[derive(Clone, Debug)]
pub(super) struct TasksToLegacy {
    seed: Seed,
    /// Requests for a task's result, by their number.
    waits: BTreeMap<u64, Wait>,
    /// When tasks without a request at the server are looked at.
    looks: BTreeSet<(Instant, u64)>,
    /// Tasks that were reported to their client as cancelled; the one to be forgotten first in front.
    cancelled: VecDeque<(Instant, TaskId)>,
    /// Tasks that the server knows nothing of.
    made: VecDeque<Made>,
    /// The number of the next of either.
    next: u64,
    /// Bytes of what is kept of all these.
    bytes: usize,
}

/// A request for the result of a task.
#[derive(Clone, Debug, Hash)]
struct Wait {
    task: TaskId,
    /// Our `tasks/get`, which the server has or is to have.
    own: i64,
    /// When it is sent, if it was not.
    due: Option<Instant>,
    inputs: Vec<Input>,
}

/// A question of a task that was passed to its client.
#[derive(Clone, Debug, Hash)]
struct Input {
    /// The id of the question.
    id: i64,
    kind: Kind,
    /// Its name for the server, as JSON.
    key: Box<[u8]>,
    is_answered: bool,
}

/// A task that had ended when it was made: the server answered at once.
#[derive(Clone, Debug)]
struct Made {
    task: TaskId,
    status: Status,
    created: Duration,
    answer: Answer,
    due: Instant,
}

/// Tasks that are kept of each kind.
const MOST: usize = 256;

/// How long it is remembered that a task was cancelled, whatever its server reports.
const REMEMBERED: Duration = Duration::from_secs(30 * 60);

/// Milliseconds between two looks at a task whose server sets none.
const LOOK_AFTER: u64 = 1000;

/// The shortest and the longest time between two looks, in milliseconds, whatever the server wants.
const BETWEEN: (u64, u64) = (50, 60_000);

const NOT_NAMED: &str = "`taskId` is missing, or no task's";
const NO_LIST: &str = "the server has no list of tasks";
const ENDED: &str = "the task has ended already";
const CANCELLED: &str = "Task cancelled";
const NO_OUTCOME: &str = "the task has ended without a result or an error";
const TOO_LARGE: &str = "the result is too large to be kept for a task";

impl TasksToLegacy {
    pub(super) const fn new(seed: Seed) -> Self {
        Self {
            seed,
            waits: BTreeMap::new(),
            looks: BTreeSet::new(),
            cancelled: VecDeque::new(),
            made: VecDeque::new(),
            next: 0,
            bytes: 0,
        }
    }

    /// Bytes of memory that it holds, nearly.
    pub(super) fn held(&self) -> usize {
        let places = self.cancelled.capacity() * size_of::<(Instant, TaskId)>();
        self.bytes + places + self.made.capacity() * size_of::<Made>()
    }

    /// Bytes that messages take in it.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Requests that wait, and tasks that are remembered.
    pub(super) fn len(&self) -> usize {
        self.waits.len() + self.cancelled.len() + self.made.len()
    }

    /// When a task is looked at or forgotten.
    pub(super) fn due(&self) -> Option<Instant> {
        let looks = self.looks.first().map(|(due, _)| *due);
        let cancelled = self.cancelled.front().map(|(due, _)| *due);
        looks.into_iter().chain(cancelled).chain(self.made.front().map(|made| made.due)).min()
    }

    /// Panics if it does not agree with itself.
    pub(super) fn check(&self, is_in_flight: impl Fn(i64) -> bool) {
        let waits = self.waits.values().map(Wait::held).sum::<usize>();
        let cancelled = self.cancelled.iter().map(|(_, task)| task.len()).sum::<usize>();
        let made = self.made.iter().map(Made::held).sum::<usize>();
        assert_eq!(waits + cancelled + made, self.bytes, "invariant 8: the count of what is kept of tasks is off");
        assert!(self.waits.values().all(|wait| is_in_flight(wait.own)), "invariant 6: a wait outlives its request");
        let looks: BTreeSet<_> = self.waits.iter().filter_map(|(number, wait)| Some((wait.due?, *number))).collect();
        assert_eq!(looks, self.looks, "invariant 6: a task is not looked at when it is due");
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        for wait in self.waits.values() {
            (&wait.task, wait.due.map(|due| due.since(now))).hash(state);
            wait.inputs.iter().for_each(|input| (&input.key, input.is_answered).hash(state));
        }
        self.cancelled.iter().for_each(|(due, task)| (due.since(now), task).hash(state));
        self.made.iter().for_each(|made| (made.due.since(now), made.answer.bytes()).hash(state));
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn take(&mut self, number: u64) -> Option<Wait> {
        let wait = self.waits.remove(&number)?;
        self.bytes -= wait.held();
        if let Some(due) = wait.due {
            self.looks.remove(&(due, number));
        }
        Some(wait)
    }

    fn put(&mut self, number: u64, wait: Wait) {
        self.bytes += wait.held();
        if let Some(due) = wait.due {
            self.looks.insert((due, number));
        }
        self.waits.insert(number, wait);
    }

    fn is_cancelled(&self, task: &[u8]) -> bool {
        self.cancelled.iter().any(|(_, cancelled)| **cancelled == *task)
    }

    fn remember_cancelled(&mut self, now: Instant, task: TaskId) {
        if self.is_cancelled(&task) {
            return;
        }
        if self.cancelled.len() == MOST {
            self.forget_cancelled();
        }
        self.bytes += task.len();
        self.cancelled.push_back((now + REMEMBERED, task));
    }

    fn forget_cancelled(&mut self) {
        self.bytes -= self.cancelled.pop_front().map_or(0, |(_, task)| task.len());
    }

    fn forget_made(&mut self) {
        self.bytes -= self.made.pop_front().map_or(0, |made| made.held());
    }

    /// The status of a task, by the server's description of it.
    fn status(&self, seen: &[u8], task: &[u8]) -> Status {
        let status = Status::of(seen);
        if self.is_cancelled(task) {
            Status::Cancelled
        } else if status == Status::Completed && is_error(json::member(seen, "result")) {
            // TASK-12, and the opposite of TASK-25.
            Status::Failed
        } else {
            status
        }
    }
}

impl Wait {
    fn held(&self) -> usize {
        /// More than a place in a map takes.
        const PLACE: usize = 64;
        let inputs = self.inputs.iter().map(|input| size_of::<Input>() + input.key.len());
        size_of::<Self>() + PLACE + self.task.len() + inputs.sum::<usize>()
    }
}

impl Made {
    fn held(&self) -> usize {
        self.task.len() + self.answer.bytes().len()
    }

    /// What 2025-11-25 shows of it.
    fn write(&self, ttl: Duration, out: &mut Vec<u8>) {
        let created = moment::text(self.created);
        let mut members = Vec::new();
        task::write_params(&self.task, None, &mut members);
        task::write_status(self.status, &mut members);
        for name in ["createdAt", "lastUpdatedAt"] {
            rewrite::next_member(name, &mut members);
            json::write_string(&mut members, &created);
        }
        rewrite::next_member("ttl", &mut members);
        json::write_integer(&mut members, i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        rewrite::object(&members, None, &[], out);
    }
}

fn is_error(result: Option<&[u8]>) -> bool {
    result.and_then(|result| json::member(result, "isError")) == Some(b"true")
}

/// Whether a server with this description of itself makes tasks.
pub(super) fn are_offered(discovered: &[u8]) -> bool {
    json::lookup(discovered, &["capabilities", "extensions", EXTENSION]).is_some()
}

/// The capability of 2025-11-25 for such a server.
pub(super) const CAPABILITY: &[u8] = br#""tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}"#;

/// Writes a list of tools that can all be tasks if the client wants that.
pub(super) fn write_tools(result: &[u8], out: &mut Vec<u8>) {
    let mut listed = Vec::new();
    let tools = json::member(result, "tools").and_then(json::elements);
    for tool in tools.into_iter().flatten().map_while(Result::ok) {
        listed.extend_from_slice(if listed.is_empty() { br#""tools":["# } else { b"," });
        let says_nothing = json::member(tool, "execution").is_none();
        rewrite::object(if says_nothing { OPTIONAL } else { b"" }, Some(tool), &[], &mut listed);
    }
    if listed.is_empty() {
        return rewrite::to_legacy(result, out);
    }
    listed.push(b']');
    rewrite::object(&listed, Some(result), &rewrite::OF_RESULTS_OR_TOOLS, out);
}

const OPTIONAL: &[u8] = br#""execution":{"taskSupport":"optional"}"#;

impl Bridge {
    /// Whether the server makes tasks.
    pub(super) fn makes_tasks(&self) -> bool {
        matches!(&self.stage, Stage::Modern { discovered, .. } if are_offered(discovered))
    }

    /// Whether a request asks for a task that the server can make.
    pub(super) fn asks_for_task(&self, request: &Request<'_>) -> bool {
        let asks = || request.params.raw.is_some_and(|params| json::member(params, TASK).is_some());
        request.method == CALL && asks() && self.makes_tasks()
    }

    /// A request of a client with a session about a task.
    pub(super) fn carry_task_to_modern(&mut self, now: Instant, request: &Request<'_>) {
        let (id, method) = (&request.id, &*request.method);
        if !self.makes_tasks() {
            return self.refuse(id, error_code::METHOD_NOT_FOUND, NO_TASKS);
        }
        if !matches!(method, GET | RESULT | CANCEL) {
            return self.refuse(id, error_code::METHOD_NOT_FOUND, NO_LIST);
        }
        let Some(task) = task::named(request.params.raw) else {
            return self.refuse(id, error_code::INVALID_PARAMS, NOT_NAMED);
        };
        self.forget_tasks(now);
        if let Some(made) = self.tasks_to_legacy.made.iter().find(|made| made.task == task).cloned() {
            return self.tell_of_made(id, method, &made);
        }
        if method == CANCEL && self.tasks_to_legacy.is_cancelled(&task) {
            // TASK-02.
            return self.refuse(id, error_code::INVALID_PARAMS, ENDED);
        }
        let number = self.tasks_to_legacy.number();
        let (step, method) = match method {
            GET => (Step::Get(Kinds::default()), GET),
            CANCEL => (Step::Cancel(task.clone()), CANCEL),
            _ => (Step::Wait(number), GET),
        };
        let is_wait = step == Step::Wait(number);
        let own = self.calls.open_task(request, Style::InSession, None, None, step);
        if is_wait {
            let wait = Wait { task: task.clone(), own, due: None, inputs: Vec::new() };
            self.tasks_to_legacy.put(number, wait);
        }
        self.ask_modern_about(own, method, &task, b"");
    }

    /// Sends a request about a task, with more members of its params.
    fn ask_modern_about(&mut self, own: i64, method: &'static str, task: &[u8], more: &[u8]) {
        let Stage::Modern { envelope_of_tasks, .. } = &self.stage else { return };
        let mut params = Vec::new();
        task::write_params(task, Some(envelope_of_tasks), &mut params);
        params.extend_from_slice(more);
        self.send(own, |out| {
            message::request(&RequestId::integer(own), method, out, |out| out.extend_from_slice(&params));
        });
    }

    /// The answer to a request about a task.
    pub(super) fn tell_task_to_legacy(&mut self, now: Instant, mut call: Call, step: Step, body: &ResponseBody<'_>) {
        let Some(id) = call.client_id.clone() else { return };
        match (step, body) {
            (Step::Make, ResponseBody::Result(result)) => {
                if json::member(result, "resultType").and_then(json::text).as_deref() == Some("task") {
                    let status = Status::of(result);
                    self.say(|out| {
                        rewrite::result(&id, out, |out| write_handle(|out| write_task(result, status, out), out))
                    });
                } else {
                    self.keep_as_task(now, &id, result);
                }
            }
            (Step::Get(_), ResponseBody::Result(seen)) => {
                let status = self.tasks_to_legacy.status(seen, &task::named(Some(seen)).unwrap_or_default());
                self.say(|out| rewrite::result(&id, out, |out| write_task(seen, status, out)));
            }
            (Step::Cancel(task), ResponseBody::Result(_)) => {
                // TASK-03: the answer is the task.
                call.form = Form::Task(Step::AfterCancel(task.clone()));
                if let Some(own) = self.go_on(call) {
                    self.ask_modern_about(own, GET, &task, b"");
                }
            }
            // TASK-02: it had ended by itself, or by another cancel.
            (Step::AfterCancel(task), ResponseBody::Result(_)) if self.tasks_to_legacy.is_cancelled(&task) => {
                self.refuse(&id, error_code::INVALID_PARAMS, ENDED);
            }
            (Step::AfterCancel(task), ResponseBody::Result(seen)) => match Status::of(seen) {
                Status::Completed | Status::Failed => self.refuse(&id, error_code::INVALID_PARAMS, ENDED),
                Status::Working | Status::InputRequired | Status::Cancelled => {
                    self.tasks_to_legacy.remember_cancelled(now, task);
                    self.say(|out| rewrite::result(&id, out, |out| write_task(seen, Status::Cancelled, out)));
                }
            },
            (Step::Wait(number), ResponseBody::Result(seen)) => self.looked(now, call, number, seen),
            (Step::Wait(number), ResponseBody::Error(_)) => {
                self.end_wait(number);
                self.answer(&call, body);
            }
            (Step::Make | Step::Get(_) | Step::Cancel(_) | Step::AfterCancel(_), ResponseBody::Error(_))
            | (Step::Fetch(_) | Step::AfterRefusal(_), _) => self.answer(&call, body),
        }
    }

    /// The server was looked at for a request that waits for the end of a task.
    fn looked(&mut self, now: Instant, call: Call, number: u64, seen: &[u8]) {
        let Some(id) = call.client_id.clone() else { return };
        let Some(mut wait) = self.tasks_to_legacy.take(number) else { return };
        let status = self.tasks_to_legacy.status(seen, &wait.task);
        let outcome = match status {
            Status::Completed | Status::Failed => match (json::member(seen, "error"), json::member(seen, "result")) {
                (Some(error), _) => {
                    self.say(|out| rewrite::error(&id, out, |out| out.extend_from_slice(error)));
                    Ok(())
                }
                (None, Some(result)) => {
                    self.tell_result(&id, result, &wait.task);
                    Ok(())
                }
                (None, None) => Err((error_code::INTERNAL_ERROR, NO_OUTCOME)),
            },
            Status::Cancelled => Err((error_code::REQUEST_CANCELLED, CANCELLED)),
            Status::InputRequired => match self.ask_for_inputs(&mut wait, seen) {
                Ok(()) => return self.look_later(now, call, number, wait, seen),
                Err(words) => Err((error_code::INTERNAL_ERROR, words)),
            },
            Status::Working => {
                self.withdraw_inputs(core::mem::take(&mut wait.inputs));
                return self.look_later(now, call, number, wait, seen);
            }
        };
        self.withdraw_inputs(wait.inputs);
        if let Err((code, words)) = outcome {
            self.refuse(&id, code, words);
        }
    }

    /// Looks again later.
    fn look_later(&mut self, now: Instant, call: Call, number: u64, wait: Wait, seen: &[u8]) {
        let Some(own) = self.go_on(call) else { return self.withdraw_inputs(wait.inputs) };
        let wanted = json::member(seen, "pollIntervalMs").and_then(json::integer);
        let wanted = wanted.and_then(|wanted| u64::try_from(wanted).ok()).unwrap_or(LOOK_AFTER);
        let due = now + Duration::from_millis(wanted.clamp(BETWEEN.0, BETWEEN.1));
        self.tasks_to_legacy.put(number, Wait { own, due: Some(due), ..wait });
    }

    /// A request that the server has answered is followed by another: its id, unless nothing can be sent any more.
    pub(super) fn go_on(&mut self, call: Call) -> Option<i64> {
        if self.is_write_closed {
            let id = call.client_id?;
            self.refuse(&id, error_code::UPSTREAM_GONE, GONE);
            return None;
        }
        Some(self.calls.reopen(call))
    }

    /// Looks at the tasks that are due.
    pub(super) fn look_at_due(&mut self, now: Instant) {
        while let Some((due, number)) = self.tasks_to_legacy.looks.first().copied().filter(|(due, _)| *due <= now) {
            self.tasks_to_legacy.looks.remove(&(due, number));
            let Some(wait) = self.tasks_to_legacy.waits.get_mut(&number) else { continue };
            wait.due = None;
            let (own, task) = (wait.own, wait.task.clone());
            self.ask_modern_about(own, GET, &task, b"");
        }
    }

    /// Passes the questions of a task to the client, as long as its result is awaited.
    fn ask_for_inputs(&mut self, wait: &mut Wait, seen: &[u8]) -> Result<(), &'static str> {
        let Stage::Modern { kinds, .. } = self.stage else { return Ok(()) };
        let wanted = json::member(seen, "inputRequests").and_then(json::members);
        let wanted: Vec<_> = wanted.into_iter().flatten().map_while(Result::ok).collect();
        if wanted.len() > fulfilling::MOST_INPUTS || seen.len() > self.room() {
            return Err(fulfilling::TOO_MUCH);
        }
        // What the server wants to know no more it may want to know again under the same name.
        let is_wanted = |input: &Input| wanted.iter().any(|member| *member.key == *input.key);
        let (kept, gone): (Vec<_>, Vec<_>) = core::mem::take(&mut wait.inputs).into_iter().partition(is_wanted);
        self.withdraw_inputs(gone);
        wait.inputs = kept;
        let new: Vec<_> =
            wanted.into_iter().filter(|member| wait.inputs.iter().all(|input| *input.key != *member.key)).collect();
        let mut questions = Vec::new();
        for member in new {
            let method = json::member(member.value, "method").and_then(json::text).unwrap_or_default();
            let params = json::member(member.value, "params");
            let kind = Kind::of(&method, params).filter(|kind| kinds.contain(*kind));
            let kind = kind.ok_or(fulfilling::UNDECLARED)?;
            let id = self.calls.number();
            wait.inputs.push(Input { id, kind, key: member.key.into(), is_answered: false });
            questions.push(fulfilling::question(id, kind, params, Some(&wait.task)));
        }
        for question in questions {
            self.say(|out| out.extend_from_slice(&question));
        }
        Ok(())
    }

    /// An answer of the client to what a task wants to know: `false` if it is none.
    pub(super) fn handle_task_input(&mut self, now: Instant, id: i64, body: &ResponseBody<'_>) -> bool {
        let asked = |input: &Input| input.id == id && !input.is_answered;
        let mut waits = self.tasks_to_legacy.waits.iter_mut();
        let found = waits.find_map(|(number, wait)| {
            Some((*number, wait.task.clone(), wait.inputs.iter_mut().find(|input| asked(input))?))
        });
        let Some((number, task, input)) = found else { return false };
        input.is_answered = true;
        let (key, kind) = (input.key.clone(), input.kind);
        let answer = match body {
            ResponseBody::Result(answer) => *answer,
            // As a dialog that the person has closed.
            ResponseBody::Error(_) if matches!(kind, Kind::Form | Kind::Url) => br#"{"action":"cancel"}"#,
            ResponseBody::Error(_) => {
                self.give_up_wait(now, number, fulfilling::REFUSED);
                return true;
            }
        };
        let mut more = br#","inputResponses":{"#.to_vec();
        more.extend_from_slice(&key);
        more.push(b':');
        more.extend_from_slice(answer);
        more.push(b'}');
        let own = self.calls.ask(Asked::Nothing);
        self.ask_modern_about(own, UPDATE, &task, &more);
        true
    }

    /// Answers a request for a task's result with an error, whatever the server reports.
    fn give_up_wait(&mut self, now: Instant, number: u64, words: &str) {
        let Some(Wait { own, due, .. }) = self.end_wait(number) else { return };
        if due.is_some() {
            return self.end_call(own, error_code::INTERNAL_ERROR, words);
        }
        // The server answers at once, so that is not worth a cancel.
        if let Some(id) = self.calls.give_up(now, own) {
            self.refuse(&id, error_code::INTERNAL_ERROR, words);
        }
    }

    fn withdraw_inputs(&mut self, inputs: Vec<Input>) {
        for input in inputs.into_iter().filter(|input| !input.is_answered) {
            self.withdraw_question(input.id);
        }
    }

    /// A request for a task's result is over.
    fn end_wait(&mut self, number: u64) -> Option<Wait> {
        let mut wait = self.tasks_to_legacy.take(number)?;
        self.withdraw_inputs(core::mem::take(&mut wait.inputs));
        Some(wait)
    }

    /// The same, for whatever request this was.
    pub(super) fn end_wait_of(&mut self, call: &Call) {
        if let Form::Task(Step::Wait(number)) = call.form {
            self.end_wait(number);
        }
    }

    /// The client has cancelled this request: whether the server has none for it, because a task is to be looked at later.
    pub(super) fn stop_waiting(&mut self, own: i64) -> bool {
        let number = match self.calls.get(own).map(|call| &call.form) {
            Some(Form::Task(Step::Wait(number))) => *number,
            Some(Form::Task(_) | Form::Plain | Form::Kept | Form::Tools | Form::Listening) | None => return false,
        };
        self.end_wait(number).is_some_and(|wait| wait.due.is_some())
    }

    /// Nothing can be sent to the server any more: requests that are to look again end.
    pub(super) fn end_waits(&mut self) {
        while let Some((_, number)) = self.tasks_to_legacy.looks.first().copied() {
            if let Some(Wait { own, .. }) = self.end_wait(number) {
                self.end_call(own, error_code::UPSTREAM_GONE, GONE);
            }
        }
    }

    /// Keeps the answer of a call that was to become a task and did not, as a task that has ended.
    fn keep_as_task(&mut self, now: Instant, id: &RequestId, result: &[u8]) {
        if result.len() > self.room() {
            return self.refuse(id, error_code::TOO_LARGE, TOO_LARGE);
        }
        let tasks = &mut self.tasks_to_legacy;
        if tasks.made.len() == MOST {
            tasks.forget_made();
        }
        let number = tasks.number();
        let status = if is_error(Some(result)) { Status::Failed } else { Status::Completed };
        let mut task = Vec::new();
        json::write_string(&mut task, &format!("rescind-{number}-{:016x}", tasks.seed.hash(&number)));
        let made = Made {
            task: task.into(),
            status,
            created: self.config.started + now.since_origin(),
            answer: Answer::Result(result.into()),
            due: now + self.config.answer_within,
        };
        let ttl = self.config.answer_within;
        self.say(|out| rewrite::result(id, out, |out| write_handle(|out| made.write(ttl, out), out)));
        self.tasks_to_legacy.bytes += made.held();
        self.tasks_to_legacy.made.push_back(made);
    }

    /// Answers a request about a task that the server does not know.
    fn tell_of_made(&mut self, id: &RequestId, method: &str, made: &Made) {
        match method {
            GET => {
                let ttl = self.config.answer_within;
                self.say(|out| rewrite::result(id, out, |out| made.write(ttl, out)));
            }
            RESULT => self.tell_result(id, made.answer.bytes(), &made.task),
            _ => self.refuse(id, error_code::INVALID_PARAMS, ENDED),
        }
    }

    fn tell_result(&mut self, id: &RequestId, result: &[u8], task: &[u8]) {
        let mut plain = Vec::new();
        rewrite::to_legacy(result, &mut plain);
        self.say(|out| rewrite::result(id, out, |out| task::write_related(&plain, task, out)));
    }

    /// Forgets tasks that are too old.
    pub(super) fn forget_tasks(&mut self, now: Instant) {
        let tasks = &mut self.tasks_to_legacy;
        while tasks.cancelled.front().is_some_and(|(due, _)| *due <= now) {
            tasks.forget_cancelled();
        }
        while tasks.made.front().is_some_and(|made| made.due <= now) {
            tasks.forget_made();
        }
    }
}

/// Writes a task as 2025-11-25 has it.
fn write_task(task: &[u8], status: Status, out: &mut Vec<u8>) {
    let mut members = task::members(task, Style::InSession);
    task::write_status(status, &mut members);
    rewrite::object(&members, None, &[], out);
}

/// Writes the result that has a new task.
fn write_handle(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let mut first = Vec::new();
    rewrite::member(TASK, &mut first);
    write(&mut first);
    rewrite::object(&first, None, &[], out);
}
