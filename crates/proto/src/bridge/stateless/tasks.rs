//! Tasks of a server without sessions, for clients with one (D38).
//!
//! Here a client asks for a task, and gets one: if the server answers at once, the answer is kept for it as a task that has
//! ended. `tasks/result` waits here, and the server is looked at as often as it wants to be. A cancelled task stays so
//! (TASK-04), although the server only promises to try.

use core::time::Duration;

use super::{Stateless, rounds::Round};
use crate::{
    bridge::{
        NO_TASKS,
        calls::{Call, Form},
        kept::{Held, Kept},
        kind::Kinds,
        moment,
        rewrite::{self, Style},
        task::{self, CALL, CANCEL, GET, NOT_NAMED, RESULT, Status, Step, TASK, TaskId},
        traffic::Traffic,
    },
    error_code,
    frame::{Request, ResponseBody},
    hash::Seed,
    id::RequestId,
    json,
    time::Instant,
};

/// What is known of tasks that the server reports otherwise, or not at all.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    seed: Seed,
    /// Tasks that were reported to their client as cancelled.
    pub(super) cancelled: Kept<TaskId>,
    /// Tasks that the server knows nothing of.
    pub(super) made: Kept<Made>,
    /// The number of the last of these.
    number: u64,
}

/// A task that had ended when it was made: the server answered at once.
#[derive(Clone, Debug)]
pub(super) struct Made {
    task: TaskId,
    status: Status,
    created: Duration,
    result: Box<[u8]>,
}

/// Tasks that are kept of each kind.
const MOST: usize = 256;

/// How long it is remembered that a task was cancelled, whatever its server reports.
const REMEMBERED: Duration = Duration::from_secs(30 * 60);

/// Milliseconds between two looks at a task whose server sets none.
const LOOK_AFTER: u64 = 1000;

/// The shortest and the longest time between two looks, in milliseconds, whatever the server wants.
const BETWEEN: (u64, u64) = (50, 60_000);

const NO_LIST: &str = "the server has no list of tasks";
const ENDED: &str = "the task has ended already";
const CANCELLED: &str = "Task cancelled";
const NO_OUTCOME: &str = "the task has ended without a result or an error";
const TOO_LARGE: &str = "the result is too large to be kept for a task";

impl Tasks {
    pub(super) fn new(seed: Seed) -> Self {
        Self { seed, cancelled: Kept::default(), made: Kept::default(), number: 0 }
    }

    /// Forgets tasks that are too old, or too many.
    pub(super) fn forget(&mut self, now: Instant) {
        while self.cancelled.pop(now, MOST).is_some() {}
        while self.made.pop(now, MOST).is_some() {}
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        self.cancelled.iter().for_each(|(due, task)| (due.since(now), task).hash(state));
        self.made.iter().for_each(|(due, made)| (due.since(now), &made.result).hash(state));
    }

    fn is_cancelled(&self, task: &[u8]) -> bool {
        self.cancelled.find(|cancelled| **cancelled == *task).is_some()
    }

    fn remember_cancelled(&mut self, now: Instant, task: TaskId) {
        if !self.is_cancelled(&task) {
            self.cancelled.push(now + REMEMBERED, task);
            self.forget(now);
        }
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

impl Held for TaskId {
    fn held(&self) -> usize {
        self.len()
    }
}

impl Held for Made {
    fn held(&self) -> usize {
        self.task.len() + self.result.len()
    }
}

impl Made {
    /// What 2025-11-25 shows of it.
    fn write(&self, ttl: Duration, out: &mut Vec<u8>) {
        let created = moment::text(self.created);
        let mut members = Vec::new();
        rewrite::raw_member("taskId", &self.task, &mut members);
        task::write_status(self.status, &mut members);
        for name in ["createdAt", "lastUpdatedAt"] {
            rewrite::text_member(name, &created, &mut members);
        }
        rewrite::member("ttl", &mut members);
        json::write_integer(&mut members, i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        rewrite::object(&members, None, &[], out);
    }
}

fn is_error(result: Option<&[u8]>) -> bool {
    result.and_then(|result| json::member(result, "isError")) == Some(b"true")
}

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

impl Stateless {
    /// Whether a request asks for a task that the server can make.
    pub(super) fn asks_for_task(&self, request: &Request<'_>) -> bool {
        let asks = || request.params.raw.is_some_and(|params| json::member(params, TASK).is_some());
        request.method == CALL && asks() && task::are_offered(&self.discovered)
    }

    /// A request of a client with a session about a task.
    pub(super) fn carry_task(&mut self, traffic: &mut Traffic, request: &Request<'_>) {
        let (id, method) = (&request.id, &*request.method);
        if !task::are_offered(&self.discovered) {
            return traffic.refuse(id, error_code::METHOD_NOT_FOUND, NO_TASKS);
        }
        if !matches!(method, GET | RESULT | CANCEL) {
            return traffic.refuse(id, error_code::METHOD_NOT_FOUND, NO_LIST);
        }
        let Some(task) = task::named(request.params.raw) else {
            return traffic.refuse(id, error_code::INVALID_PARAMS, NOT_NAMED);
        };
        self.tasks.forget(traffic.now);
        if let Some(made) = self.tasks.made.find(|made| made.task == task) {
            return say_made(traffic, id, method, made);
        }
        let (step, method) = match method {
            GET => (Step::Get(Kinds::default()), GET),
            CANCEL => (Step::Cancel(task.clone()), CANCEL),
            _ => (Step::Wait, GET),
        };
        let is_wait = step == Step::Wait;
        let own = traffic.calls.open(Call::about_task(request, Style::InSession, step));
        self.ask_about(traffic, own, method, &task, b"");
        if is_wait {
            self.rounds.put(own, Round::of_task(task), None);
        }
    }

    /// Sends a request about a task, with more members of its params.
    pub(super) fn ask_about(&self, traffic: &mut Traffic, own: i64, method: &str, task: &[u8], more: &[u8]) {
        traffic.send(own, method, |out| task::write_params(task, Some(&self.envelope_of_tasks), more, out));
    }

    /// The answer to a request about a task.
    pub(super) fn take_task_answer(&mut self, traffic: &mut Traffic, mut call: Call, body: &ResponseBody<'_>) {
        let (Some(id), Form::Task(step)) = (call.client_id.clone(), call.form.clone()) else { return };
        match (step, body) {
            (Step::Make, ResponseBody::Result(result)) => {
                if json::member(result, "resultType").and_then(json::text).as_deref() == Some("task") {
                    let status = Status::of(result);
                    traffic.say_result(&id, |out| write_handle(|out| write_task(result, status, out), out));
                } else {
                    self.keep_as_task(traffic, &id, result);
                }
            }
            (Step::Get(_), ResponseBody::Result(seen)) => {
                let status = self.tasks.status(seen, &task::named(Some(seen)).unwrap_or_default());
                traffic.say_result(&id, |out| write_task(seen, status, out));
                traffic.says_of_task(seen);
            }
            (Step::Cancel(task), ResponseBody::Result(_)) => {
                // TASK-03: the answer is the task.
                call.form = Form::Task(Step::AfterCancel(task.clone()));
                if let Some(own) = traffic.reopen(call) {
                    self.ask_about(traffic, own, GET, &task, b"");
                }
            }
            (Step::AfterCancel(task), ResponseBody::Result(seen)) => {
                // TASK-02: it had ended by itself, or by another cancel.
                let has_ended = matches!(Status::of(seen), Status::Completed | Status::Failed);
                if has_ended || self.tasks.is_cancelled(&task) {
                    traffic.refuse(&id, error_code::INVALID_PARAMS, ENDED);
                } else {
                    self.tasks.remember_cancelled(traffic.now, task);
                    traffic.say_result(&id, |out| write_task(seen, Status::Cancelled, out));
                }
                // It promised to try, and no more (TASK-21).
                traffic.says_of_task(seen);
            }
            (Step::Wait, ResponseBody::Result(seen)) => self.looked(traffic, call, seen),
            (Step::Wait, ResponseBody::Error(_)) => {
                self.end_round(traffic, call.own);
                self.answer(traffic, &call, body);
            }
            (Step::Make | Step::Get(_) | Step::Cancel(_) | Step::AfterCancel(_), ResponseBody::Error(_))
            | (Step::Fetch(_) | Step::AfterRefusal(_), _) => self.answer(traffic, &call, body),
        }
    }

    /// The server was looked at for a request that waits for the end of a task.
    fn looked(&mut self, traffic: &mut Traffic, call: Call, seen: &[u8]) {
        let (Some(id), Some(mut round)) = (call.client_id.clone(), self.rounds.take(call.own)) else { return };
        let Some(task) = round.task().cloned() else { return };
        let outcome = match self.tasks.status(seen, &task) {
            Status::Completed | Status::Failed => match (json::member(seen, "error"), json::member(seen, "result")) {
                (Some(error), _) => {
                    traffic.pass_answer(&id, &ResponseBody::Error(error));
                    Ok(())
                }
                (None, Some(result)) => {
                    say_outcome(traffic, &id, result, &task);
                    Ok(())
                }
                (None, None) => Err((error_code::INTERNAL_ERROR, NO_OUTCOME)),
            },
            Status::Cancelled => {
                traffic.refuse(&id, error_code::REQUEST_CANCELLED, CANCELLED);
                traffic.says_of_task(seen);
                Ok(())
            }
            Status::InputRequired => match round.ask(traffic, self.room(traffic), seen, self.kinds) {
                Ok(()) => return self.look_later(traffic, call, round, seen),
                Err(words) => Err((error_code::INTERNAL_ERROR, words)),
            },
            Status::Working => {
                round.withdraw(traffic);
                return self.look_later(traffic, call, Round::of_task(task), seen);
            }
        };
        round.withdraw(traffic);
        if let Err((code, words)) = outcome {
            traffic.refuse(&id, code, words);
        }
    }

    /// Looks again later.
    fn look_later(&mut self, traffic: &mut Traffic, call: Call, round: Round, seen: &[u8]) {
        let Some(own) = traffic.reopen(call) else { return round.withdraw(traffic) };
        let wanted = json::member(seen, "pollIntervalMs").and_then(json::integer);
        let wanted = wanted.and_then(|wanted| u64::try_from(wanted).ok()).unwrap_or(LOOK_AFTER);
        let due = traffic.now + Duration::from_millis(wanted.clamp(BETWEEN.0, BETWEEN.1));
        self.rounds.put(own, round, Some(due));
    }

    /// Keeps the answer of a call that was to become a task and did not, as a task that has ended.
    fn keep_as_task(&mut self, traffic: &mut Traffic, id: &RequestId, result: &[u8]) {
        if result.len() > self.room(traffic) {
            return traffic.refuse(id, error_code::TOO_LARGE, TOO_LARGE);
        }
        self.tasks.number += 1;
        let number = self.tasks.number;
        let mut task = Vec::new();
        json::write_string(&mut task, &format!("rescind-{number}-{:016x}", self.tasks.seed.hash(&number)));
        let made = Made {
            task: task.into(),
            status: if is_error(Some(result)) { Status::Failed } else { Status::Completed },
            created: traffic.config.started + traffic.now.since_origin(),
            result: result.into(),
        };
        let ttl = traffic.config.answer_within;
        traffic.say_result(id, |out| write_handle(|out| made.write(ttl, out), out));
        self.tasks.made.push(traffic.now + ttl, made);
        self.tasks.forget(traffic.now);
    }
}

/// Answers a request about a task that the server does not know.
fn say_made(traffic: &mut Traffic, id: &RequestId, method: &str, made: &Made) {
    let ttl = traffic.config.answer_within;
    match method {
        GET => traffic.say_result(id, |out| made.write(ttl, out)),
        RESULT => say_outcome(traffic, id, &made.result, &made.task),
        _ => traffic.refuse(id, error_code::INVALID_PARAMS, ENDED),
    }
}

/// Answers `tasks/result`.
fn say_outcome(traffic: &mut Traffic, id: &RequestId, result: &[u8], task: &[u8]) {
    let mut plain = Vec::new();
    rewrite::to_legacy(result, &mut plain);
    traffic.say_result(id, |out| task::write_related(&plain, task, out));
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
