//! Tasks of a server with sessions, for clients without one (D38).
//!
//! There a request asks to become a task; here the server decides. So the bridge decides: a call becomes one if its client
//! takes tasks and the server has listed the tool as one that can. There a result is fetched by a request of its own, and
//! while that waits the server asks what it wants to know; here `tasks/get` has both.

use std::collections::BTreeSet;

use super::{
    Sessions, answer,
    asking::{GIVEN_UP, TOO_MUCH, UNDECLARED as UNDECLARED_KIND},
    questions::Questions,
};
use crate::{
    bridge::{
        NO_TASKS,
        calls::{Asked, Call, Form},
        envelope::Envelope,
        filter::weight,
        kept::{Held, Kept},
        kind::Kinds,
        rewrite::{self, COMPLETE, Style},
        task::{self, CALL, CANCEL, GET, NOT_NAMED, RESULT, Status, Step, TASK, TaskId, UPDATE},
        traffic::Traffic,
    },
    error_code,
    frame::{Request, ResponseBody},
    id::RequestId,
    json, message,
    time::Instant,
};

/// What is known of the tasks of a server with sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    /// Tools that it runs as tasks if it is asked to, as it has listed them.
    tools: BTreeSet<Box<str>>,
    pub(super) tools_bytes: usize,
    /// Tasks that want to know something, the one that was looked at last at the end.
    pub(super) asking: Kept<AskingTask>,
}

/// A task that wants to know something, until it counts as abandoned by its client.
#[derive(Clone, Debug)]
pub(super) struct AskingTask {
    task: TaskId,
    /// Our `tasks/result`, while the server has it.
    fetch: Option<i64>,
    questions: Questions,
}

/// Tasks that want to know something at once.
const MOST: usize = 64;

/// Bytes of the names of tools.
const MOST_NAMES: usize = 256 * 1024;

const CANNOT_CANCEL: &str = "the server cannot cancel tasks";
const TOO_LARGE: &str = "what the server says of the task is too large to be kept until its result is there";
const UNDECLARED: &str = "the client did not declare the tasks extension";
const NEEDS_EXTENSION: &[u8] = br#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;

impl Tasks {
    /// Panics if it does not agree with itself.
    pub(super) fn check(&self, is_in_flight: impl Fn(i64) -> bool) {
        self.asking.check();
        let mut fetches = self.asking.iter().filter_map(|(_, asking)| asking.fetch);
        assert!(fetches.all(is_in_flight), "invariant 6: a task's result is awaited and not asked for");
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        self.tools.hash(state);
        for (due, AskingTask { task, fetch, questions }) in self.asking.iter() {
            (task, fetch.is_some(), questions, due.since(now)).hash(state);
        }
    }

    /// Takes out what is known of a task that wants to know something.
    fn take(&mut self, task: &[u8]) -> AskingTask {
        let fresh = || AskingTask { task: task.into(), fetch: None, questions: Questions::default() };
        self.asking.take(|asking| *asking.task == *task).unwrap_or_else(fresh)
    }
}

impl AskingTask {
    fn is_over(&self) -> bool {
        self.fetch.is_none() && self.questions.is_empty()
    }
}

impl Held for AskingTask {
    fn held(&self) -> usize {
        self.task.len() + self.questions.held()
    }
}

impl Sessions {
    /// Notes which tools the server runs as tasks, if it runs any.
    pub(super) fn learn_tools(&mut self, result: &[u8]) {
        let is_offered = task::are_offered_in_session(&self.greeting);
        let listed = json::member(result, "tools").filter(|_| is_offered).and_then(json::elements);
        let Tasks { tools, tools_bytes, .. } = &mut self.tasks;
        for tool in listed.into_iter().flatten().map_while(Result::ok) {
            let Some(name) = json::member(tool, "name").and_then(json::text) else { continue };
            let support = json::lookup(tool, &["execution", "taskSupport"]).and_then(json::text);
            let can_be = matches!(support.as_deref(), Some("optional" | "required"));
            let weight = weight(&name);
            if !can_be && tools.remove(&*name) {
                *tools_bytes -= weight;
            } else if can_be && *tools_bytes + weight <= MOST_NAMES && tools.insert((*name).into()) {
                *tools_bytes += weight;
            }
        }
    }

    /// Whether this call is to become a task.
    pub(super) fn becomes_task(&self, request: &Request<'_>, envelope: &Envelope<'_>) -> bool {
        let name = || request.params.raw.and_then(|params| json::member(params, "name")).and_then(json::text);
        request.method == CALL && envelope.takes_tasks() && name().is_some_and(|name| self.tasks.tools.contains(&*name))
    }

    /// Whether the server lets its tasks be cancelled.
    fn cancels_tasks(&self) -> bool {
        json::lookup(&self.greeting, &["capabilities", "tasks", "cancel"]).is_some()
    }

    /// A call was answered whose client waits for nothing: no client learns its task, so the task is cancelled (D38).
    /// A relay does so itself for a request that it knows to be cancelled.
    pub(super) fn cancel_unknown_task(&self, traffic: &mut Traffic, call: &Call, body: &ResponseBody<'_>) {
        let ResponseBody::Result(result) = body else { return };
        let made = json::member(result, TASK).filter(|_| call.is_to_be_task() && self.cancels_tasks());
        if let Some(task) = task::named(made) {
            ask_about(traffic, Call::own(Asked::Nothing), CANCEL, &task);
        }
    }

    /// A request of a client without a session about a task.
    pub(super) fn carry_task(&mut self, traffic: &mut Traffic, request: &Request<'_>, envelope: &Envelope<'_>) {
        let (id, params, method) = (&request.id, request.params.raw, &*request.method);
        if !task::are_offered_in_session(&self.greeting) {
            return traffic.refuse(id, error_code::METHOD_NOT_FOUND, NO_TASKS);
        }
        if !matches!(method, GET | CANCEL | UPDATE) {
            return super::refuse_method(traffic, request);
        }
        if !envelope.takes_tasks() {
            let code = error_code::MISSING_CLIENT_CAPABILITY;
            return traffic.say(|out| message::error(Some(id), code, UNDECLARED, Some(NEEDS_EXTENSION), out));
        }
        let Some(task) = task::named(params) else {
            return traffic.refuse(id, error_code::INVALID_PARAMS, NOT_NAMED);
        };
        let (step, method) = match method {
            GET => (Step::Get(Kinds::of(envelope.capabilities)), GET),
            UPDATE => {
                let answers = params.and_then(|params| json::member(params, "inputResponses"));
                self.answer_task(traffic, &task, answers.unwrap_or(b"{}"));
                return acknowledge(traffic, id);
            }
            _ if !self.cancels_tasks() => {
                return traffic.refuse(id, error_code::METHOD_NOT_FOUND, CANNOT_CANCEL);
            }
            _ => {
                self.end_asking_task(traffic, &task);
                (Step::Cancel(task.clone()), CANCEL)
            }
        };
        ask_about(traffic, Call::about_task(request, Style::Enveloped, step), method, &task);
    }

    /// The answer to a request about a task.
    pub(super) fn take_task_answer(&mut self, traffic: &mut Traffic, mut call: Call, body: &ResponseBody<'_>) {
        let (Some(id), Form::Task(step)) = (call.client_id.clone(), call.form.clone()) else { return };
        match (step, body) {
            (Step::Make, ResponseBody::Result(result)) => match json::member(result, TASK) {
                Some(task) if task.first() == Some(&b'{') => {
                    say_task(traffic, &id, br#""resultType":"task""#, task, Status::of(task));
                }
                _ => answer(traffic, &call, body),
            },
            (Step::Get(kinds), ResponseBody::Result(seen)) => match (Status::of(seen), task::named(Some(seen))) {
                (Status::Completed | Status::Failed, Some(task)) => {
                    self.end_asking_task(traffic, &task);
                    let members = task::members(seen, Style::Enveloped);
                    if members.len() > self.room(traffic) {
                        return traffic.refuse(&id, error_code::TOO_LARGE, TOO_LARGE);
                    }
                    call.form = Form::Task(Step::Fetch(members.into()));
                    go_on(traffic, call, RESULT, &task);
                }
                (Status::InputRequired, Some(task)) if traffic.config.may_ask => {
                    self.say_asking(traffic, &id, seen, &task, kinds);
                }
                // The client cannot be asked.
                (Status::InputRequired, _) => say_task(traffic, &id, COMPLETE, seen, Status::Working),
                (status, _) => say_task(traffic, &id, COMPLETE, seen, status),
            },
            (Step::Fetch(members), _) => {
                let mut members = members.into_vec();
                match body {
                    ResponseBody::Result(result) => {
                        task::write_status(Status::Completed, &mut members);
                        rewrite::member("result", &mut members);
                        let mut plain = Vec::new();
                        let meta = json::member(result, rewrite::META);
                        let write_meta = |out: &mut Vec<u8>| rewrite::object(b"", meta, &[task::RELATED], out);
                        rewrite::params(Some(result), write_meta, &mut plain);
                        rewrite::to_modern(&plain, false, &mut members);
                    }
                    ResponseBody::Error(error) => {
                        task::write_status(Status::Failed, &mut members);
                        rewrite::member("error", &mut members);
                        rewrite::error_to_modern(error, &mut members);
                    }
                }
                say_members(traffic, &id, COMPLETE, &members);
            }
            (Step::Cancel(_) | Step::AfterRefusal(_), ResponseBody::Result(_)) => acknowledge(traffic, &id),
            // It may have ended, which is not an error in the extension (TASK-22), or it may not exist.
            (Step::Cancel(task), ResponseBody::Error(error))
                if body.error_code() == Some(i64::from(error_code::INVALID_PARAMS))
                    && error.len() <= self.room(traffic) =>
            {
                call.form = Form::Task(Step::AfterRefusal((*error).into()));
                go_on(traffic, call, GET, &task);
            }
            (Step::AfterRefusal(refusal), ResponseBody::Error(_)) => {
                traffic.pass_answer(&id, &ResponseBody::Error(&refusal));
            }
            (Step::Make | Step::Get(_) | Step::Cancel(_), ResponseBody::Error(_))
            | (Step::AfterCancel(_) | Step::Wait, _) => answer(traffic, &call, body),
        }
    }

    /// Answers `tasks/get` with what a task wants to know, as far as that is known.
    fn say_asking(&mut self, traffic: &mut Traffic, id: &RequestId, seen: &[u8], task: &[u8], kinds: Kinds) {
        let mut asking = self.tasks.take(task);
        if asking.fetch.is_none() {
            // The server asks while somebody waits for the result.
            asking.fetch = Some(ask_about(traffic, Call::own(Asked::TaskResult), RESULT, task));
        }
        for question in asking.questions.take_undeclared(kinds) {
            traffic.refuse_question(&question, UNDECLARED_KIND);
        }
        let mut members = task::members(seen, Style::Enveloped);
        if asking.questions.is_empty() {
            // What it wants to know is on its way.
            task::write_status(Status::Working, &mut members);
        } else {
            task::write_status(Status::InputRequired, &mut members);
            asking.questions.write(&mut members);
        }
        self.put_asking_task(traffic, asking);
        say_members(traffic, id, COMPLETE, &members);
    }

    /// Takes in a question of a task, for the client that looks at that task.
    pub(super) fn ask_for_task(&mut self, traffic: &mut Traffic, task: &[u8], request: &Request<'_>) {
        let room = self.room(traffic);
        let mut asking = self.tasks.take(task);
        if !asking.questions.push(room, request) {
            traffic.refuse_question(&request.id, TOO_MUCH);
        }
        self.put_asking_task(traffic, asking);
    }

    fn put_asking_task(&mut self, traffic: &mut Traffic, asking: AskingTask) {
        if !asking.is_over() {
            self.tasks.asking.push(traffic.now + traffic.config.answer_within, asking);
            self.stop_asking_for_tasks(traffic, MOST);
        }
    }

    /// `tasks/update`: the client's answers. What is not asked is ignored.
    fn answer_task(&mut self, traffic: &mut Traffic, task: &[u8], answers: &[u8]) {
        let is_it = |asking: &AskingTask| *asking.task == *task;
        let answered = self.tasks.asking.edit(is_it, |asking| asking.questions.take_answered(answers));
        for (id, answer) in answered.into_iter().flatten() {
            traffic.write_line(|out| message::result(&id, answer, out));
        }
    }

    /// Our `tasks/result` was answered: the task asks nothing more.
    pub(super) fn task_result_came(&mut self, own: i64) {
        if self.tasks.asking.edit(|asking| asking.fetch == Some(own), |asking| asking.fetch = None).is_some() {
            while self.tasks.asking.take(AskingTask::is_over).is_some() {}
        }
    }

    /// The server wants no answer to this question of a task any more.
    pub(super) fn task_question_cancelled(&mut self, id: &RequestId) {
        let has_it = |asking: &AskingTask| asking.questions.contains(id);
        self.tasks.asking.edit(has_it, |asking| asking.questions.withdraw(id));
    }

    /// Refuses the questions of a task that has no client for them any more.
    fn end_asking_task(&mut self, traffic: &mut Traffic, task: &[u8]) {
        if let Some(asking) = self.tasks.asking.take(|asking| *asking.task == *task) {
            give_up(traffic, asking);
        }
    }

    /// Ends the questions of tasks that their clients have abandoned, and of the oldest if there are more than `most`.
    pub(super) fn stop_asking_for_tasks(&mut self, traffic: &mut Traffic, most: usize) {
        while let Some(asking) = self.tasks.asking.pop(traffic.now, most) {
            give_up(traffic, asking);
        }
    }
}

/// Sends a request about a task.
fn ask_about(traffic: &mut Traffic, call: Call, method: &str, task: &[u8]) -> i64 {
    traffic.request(call, method, |out| task::write_params(task, None, b"", out))
}

/// A request that the server has answered is followed by another.
fn go_on(traffic: &mut Traffic, call: Call, method: &str, task: &[u8]) {
    if let Some(own) = traffic.reopen(call) {
        traffic.send(own, method, |out| task::write_params(task, None, b"", out));
    }
}

/// Refuses the questions of a task, and waits no more for its result.
fn give_up(traffic: &mut Traffic, mut asking: AskingTask) {
    for question in asking.questions.take() {
        traffic.refuse_question(&question, GIVEN_UP);
    }
    let cancelled = asking.fetch.and_then(|own| traffic.calls.cancel_own(traffic.now, own));
    let Some((own, line)) = cancelled else { return };
    if traffic.withdraw(line) {
        traffic.calls.answered(own);
    } else {
        traffic.write_cancel(own, None);
    }
}

fn acknowledge(traffic: &mut Traffic, id: &RequestId) {
    traffic.say_result(id, |out| rewrite::object(COMPLETE, None, &[], out));
}

/// Shows a client a task as a result of the extension has it.
fn say_task(traffic: &mut Traffic, id: &RequestId, first: &[u8], task: &[u8], status: Status) {
    let mut members = task::members(task, Style::Enveloped);
    task::write_status(status, &mut members);
    say_members(traffic, id, first, &members);
}

fn say_members(traffic: &mut Traffic, id: &RequestId, first: &[u8], members: &[u8]) {
    let members = [first, b",", members].concat();
    traffic.say_result(id, |out| rewrite::object(&members, None, &[], out));
}
