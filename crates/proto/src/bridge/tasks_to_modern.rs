//! Tasks of a server with sessions, for clients without one (D38).
//!
//! There a request asks to become a task; here the server decides. So the bridge decides: a call becomes one if its client
//! takes tasks and the server has listed the tool as one that can. There a result is fetched by a request of its own, and
//! while that waits the server asks what it wants to know; here `tasks/get` has both.

use std::collections::{BTreeSet, VecDeque};

use super::{
    Asked, Bridge, NO_TASKS, Stage, Style,
    asking::{self, Question},
    calls::{Asks, Call, Form},
    envelope::Envelope,
    kind::Kinds,
    rewrite,
    task::{self, CALL, CANCEL, GET, RESULT, Status, Step, TASK, TaskId, UPDATE},
};
use crate::{
    error_code,
    frame::{Request, ResponseBody},
    id::RequestId,
    json, message,
    time::Instant,
};

/// What is known of the tasks of a server with sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct TasksToModern {
    /// Tools that it runs as tasks if it is asked to, as it has listed them.
    tools: BTreeSet<Box<str>>,
    tools_bytes: usize,
    /// Tasks that want to know something, the one that was looked at last at the end.
    asking: VecDeque<AskingTask>,
    /// Bytes of what they want to know.
    bytes: usize,
}

/// A task that wants to know something.
#[derive(Clone, Debug)]
struct AskingTask {
    task: TaskId,
    /// Our `tasks/result`, while the server has it.
    fetch: Option<i64>,
    questions: VecDeque<Question>,
    /// How many there were.
    asked: u32,
    /// When it counts as abandoned by its client.
    due: Instant,
}

/// Tasks that want to know something at once.
const MOST: usize = 64;

/// Bytes of the names of tools.
const MOST_NAMES: usize = 256 * 1024;

const NOT_NAMED: &str = "`taskId` is missing, or no task's";
const CANNOT_CANCEL: &str = "the server cannot cancel tasks";
const TOO_LARGE: &str = "what the server says of the task is too large to be kept until its result is there";
const UNDECLARED: &str = "the client did not declare the tasks extension";
const NEEDS_EXTENSION: &[u8] = br#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;

impl TasksToModern {
    /// Bytes of memory that it holds, nearly.
    pub(super) fn held(&self) -> usize {
        self.tools_bytes + self.bytes + self.asking.capacity() * size_of::<AskingTask>()
    }

    /// Bytes that messages take in it.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tasks that want to know something.
    pub(super) fn len(&self) -> usize {
        self.asking.len()
    }

    /// When the next task counts as abandoned by its client.
    pub(super) fn due(&self) -> Option<Instant> {
        self.asking.front().map(|asking| asking.due)
    }

    /// Panics if it does not agree with itself.
    pub(super) fn check(&self, is_in_flight: impl Fn(i64) -> bool) {
        let held = self.asking.iter().map(AskingTask::held).sum::<usize>();
        assert_eq!(held, self.bytes, "invariant 8: the count of what tasks ask is off");
        let fetches = self.asking.iter().filter_map(|asking| asking.fetch);
        assert!(fetches.into_iter().all(is_in_flight), "invariant 6: a task's result is awaited and not asked for");
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        self.tools.hash(state);
        for asking in &self.asking {
            (&asking.task, asking.fetch.is_some(), &asking.questions, asking.due.since(now)).hash(state);
        }
    }

    fn take(&mut self, task: &[u8]) -> Option<AskingTask> {
        let at = self.asking.iter().position(|asking| *asking.task == *task)?;
        let asking = self.asking.remove(at)?;
        self.bytes -= asking.held();
        Some(asking)
    }

    fn put(&mut self, asking: AskingTask) {
        self.bytes += asking.held();
        self.asking.push_back(asking);
    }
}

impl AskingTask {
    fn held(&self) -> usize {
        self.task.len() + self.questions.iter().map(Question::held).sum::<usize>()
    }
}

/// Whether a server that greets so runs calls of tools as tasks.
pub(super) fn are_offered(greeting: &[u8]) -> bool {
    json::lookup(greeting, &["capabilities", "tasks", "requests", "tools", "call"]).is_some()
}

/// Whether a server that greets so lets its tasks be cancelled.
fn can_be_cancelled(greeting: &[u8]) -> bool {
    json::lookup(greeting, &["capabilities", "tasks", "cancel"]).is_some()
}

impl Bridge {
    /// Notes which tools the server runs as tasks, if it runs any.
    pub(super) fn learn_tools(&mut self, result: &[u8]) {
        let is_offered = matches!(&self.stage, Stage::Legacy { greeting } if are_offered(greeting));
        let listed = json::member(result, "tools").filter(|_| is_offered).and_then(json::elements);
        let TasksToModern { tools, tools_bytes, .. } = &mut self.tasks_to_modern;
        for tool in listed.into_iter().flatten().map_while(Result::ok) {
            let Some(name) = json::member(tool, "name").and_then(json::text) else { continue };
            let support = json::lookup(tool, &["execution", "taskSupport"]).and_then(json::text);
            let can_be = matches!(support.as_deref(), Some("optional" | "required"));
            let weight = super::listening::weight(&name);
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
        request.method == CALL
            && envelope.takes_tasks()
            && name().is_some_and(|name| self.tasks_to_modern.tools.contains(&*name))
    }

    /// Sends a call on that is to become a task. The extension has no progress of tasks, so none is asked for.
    pub(super) fn make_task(&mut self, request: &Request<'_>, envelope: &Envelope<'_>, asks: Option<Box<Asks>>) {
        let (raw, meta) = (request.params.raw, request.params.meta);
        let own = self.calls.open_task(request, Style::Enveloped, envelope.level, asks, Step::Make);
        let mut wanted = Vec::new();
        rewrite::member(TASK, &mut wanted);
        wanted.extend_from_slice(b"{}");
        self.send(own, |out| {
            rewrite::request(own, CALL, out, |out| {
                let write_meta =
                    |out: &mut Vec<u8>| rewrite::object(b"", meta, super::envelope::RESERVED_OR_TOKEN, out);
                rewrite::params_with(&wanted, raw, &[rewrite::META, TASK], write_meta, out);
            });
        });
    }

    /// Whether the server will name the task of this call.
    pub(super) fn is_to_be_task(&self, own: i64) -> bool {
        let form = self.calls.get(own).map(|call| &call.form);
        matches!((&self.stage, form), (Stage::Legacy { .. }, Some(Form::Task(Step::Make))))
    }

    /// A call was answered whose client waits for nothing: no client learns its task, so the task is cancelled (D38).
    /// A relay does so itself for a request that it knows to be cancelled.
    pub(super) fn cancel_unknown_task(&mut self, call: &Call, body: &ResponseBody<'_>) {
        let (Form::Task(Step::Make), ResponseBody::Result(result)) = (&call.form, body) else { return };
        let may_be = matches!(&self.stage, Stage::Legacy { greeting } if can_be_cancelled(greeting));
        if let Some(task) = task::named(json::member(result, TASK)).filter(|_| may_be) {
            let own = self.calls.ask(Asked::Nothing);
            self.write_about(own, CANCEL, &task, None);
        }
    }

    /// A request of a client without a session about a task.
    pub(super) fn carry_task_to_legacy(&mut self, now: Instant, request: &Request<'_>, envelope: &Envelope<'_>) {
        let Stage::Legacy { greeting } = &self.stage else { return };
        let (id, params, method) = (&request.id, request.params.raw, &*request.method);
        if !are_offered(greeting) {
            return self.refuse(id, error_code::METHOD_NOT_FOUND, NO_TASKS);
        }
        if !matches!(method, GET | CANCEL | UPDATE) {
            return self.refuse_method(request);
        }
        if !envelope.takes_tasks() {
            let code = error_code::MISSING_CLIENT_CAPABILITY;
            return self.say(|out| message::error(Some(id), code, UNDECLARED, Some(NEEDS_EXTENSION), out));
        }
        let cancels = can_be_cancelled(greeting);
        let Some(task) = task::named(params) else {
            return self.refuse(id, error_code::INVALID_PARAMS, NOT_NAMED);
        };
        match method {
            GET => {
                let step = Step::Get(Kinds::of(envelope.capabilities));
                let own = self.calls.open_task(request, Style::Enveloped, None, None, step);
                self.write_about(own, GET, &task, None);
            }
            CANCEL if cancels => {
                self.end_asking_task(now, &task);
                let own = self.calls.open_task(request, Style::Enveloped, None, None, Step::Cancel(task.clone()));
                self.write_about(own, CANCEL, &task, None);
            }
            UPDATE => {
                let answers = params.and_then(|params| json::member(params, "inputResponses"));
                self.answer_task(&task, answers.unwrap_or(b"{}"));
                self.acknowledge(id);
            }
            _ => self.refuse(id, error_code::METHOD_NOT_FOUND, CANNOT_CANCEL),
        }
    }

    /// The answer to a request about a task.
    pub(super) fn tell_task_to_modern(&mut self, now: Instant, mut call: Call, step: Step, body: &ResponseBody<'_>) {
        let Some(id) = call.client_id.clone() else { return };
        match (step, body) {
            (Step::Make, ResponseBody::Result(result)) => match json::member(result, TASK) {
                Some(task) if task.first() == Some(&b'{') => self.say(|out| {
                    rewrite::result(&id, out, |out| {
                        write_task(br#""resultType":"task""#, task, Status::of(task), b"", out)
                    });
                }),
                _ => self.answer(&call, body),
            },
            (Step::Get(kinds), ResponseBody::Result(seen)) => match (Status::of(seen), task::named(Some(seen))) {
                (Status::Completed | Status::Failed, Some(task)) => {
                    self.end_asking_task(now, &task);
                    let members = task::members(seen, Style::Enveloped);
                    if members.len() > self.room() {
                        return self.refuse(&id, error_code::TOO_LARGE, TOO_LARGE);
                    }
                    call.form = Form::Task(Step::Fetch(members.into()));
                    if let Some(own) = self.go_on(call) {
                        self.write_about(own, RESULT, &task, None);
                    }
                }
                (Status::InputRequired, Some(task)) if self.config.may_ask => {
                    let requests = self.ask_of_task(now, &task, kinds);
                    // What it wants to know is on its way.
                    let status = if requests.is_empty() { Status::Working } else { Status::InputRequired };
                    self.say_task(&id, seen, status, &requests);
                }
                // The client cannot be asked.
                (Status::InputRequired, _) => self.say_task(&id, seen, Status::Working, b""),
                (status, _) => self.say_task(&id, seen, status, b""),
            },
            (Step::Fetch(members), _) => {
                let mut members = members.into_vec();
                match body {
                    ResponseBody::Result(result) => {
                        task::write_status(Status::Completed, &mut members);
                        rewrite::next_member("result", &mut members);
                        let mut plain = Vec::new();
                        let meta = json::member(result, rewrite::META);
                        rewrite::params(
                            Some(result),
                            |out| rewrite::object(b"", meta, &[task::RELATED], out),
                            &mut plain,
                        );
                        rewrite::to_modern(&plain, false, &mut members);
                    }
                    ResponseBody::Error(error) => {
                        task::write_status(Status::Failed, &mut members);
                        rewrite::next_member("error", &mut members);
                        rewrite::error_to_modern(error, &mut members);
                    }
                }
                self.say(|out| rewrite::result(&id, out, |out| write_object(COMPLETE, &members, out)));
            }
            (Step::Cancel(_) | Step::AfterRefusal(_), ResponseBody::Result(_)) => self.acknowledge(&id),
            // It may have ended, which is not an error in the extension (TASK-22), or it may not exist.
            (Step::Cancel(task), ResponseBody::Error(error))
                if body.error_code() == Some(i64::from(error_code::INVALID_PARAMS)) && error.len() <= self.room() =>
            {
                call.form = Form::Task(Step::AfterRefusal((*error).into()));
                if let Some(own) = self.go_on(call) {
                    self.write_about(own, GET, &task, None);
                }
            }
            (Step::AfterRefusal(refusal), ResponseBody::Error(_)) => {
                self.say(|out| rewrite::error(&id, out, |out| out.extend_from_slice(&refusal)));
            }
            (Step::Make | Step::Get(_) | Step::Cancel(_), ResponseBody::Error(_))
            | (Step::AfterCancel(_) | Step::Wait(_), _) => self.answer(&call, body),
        }
    }

    fn say_task(&mut self, id: &RequestId, task: &[u8], status: Status, more: &[u8]) {
        self.say(|out| rewrite::result(id, out, |out| write_task(COMPLETE, task, status, more, out)));
    }

    fn acknowledge(&mut self, id: &RequestId) {
        self.say(|out| rewrite::result(id, out, |out| rewrite::object(COMPLETE, None, &[], out)));
    }

    /// What a task wants to know, as a member of `tasks/get`; nothing if that is not known yet.
    fn ask_of_task(&mut self, now: Instant, task: &[u8], kinds: Kinds) -> Vec<u8> {
        let mut asking = self.asking_task(now, task);
        if asking.fetch.is_none() {
            // The server asks while somebody waits for the result.
            let own = self.calls.ask(Asked::TaskResult);
            self.write_about(own, RESULT, task, None);
            asking.fetch = Some(own);
        }
        for question in core::mem::take(&mut asking.questions) {
            if question.kind.is_some_and(|kind| kinds.contain(kind)) {
                asking.questions.push_back(question);
            } else {
                self.refuse_question(&question.id, asking::UNDECLARED);
            }
        }
        let mut requests = Vec::new();
        for Question { key, body, .. } in &asking.questions {
            rewrite::next_member(key, &mut requests);
            requests.extend_from_slice(body);
        }
        self.put_asking_task(now, asking);
        let mut member = Vec::new();
        if !requests.is_empty() {
            rewrite::member("inputRequests", &mut member);
            rewrite::object(&requests, None, &[], &mut member);
        }
        member
    }

    /// Takes in a question of a task, for the client that looks at that task.
    pub(super) fn ask_for_task(&mut self, now: Instant, task: &[u8], request: &Request<'_>) {
        let room = self.room();
        let mut asking = self.asking_task(now, task);
        asking.asked += 1;
        let question = Question::new(asking.asked, request);
        let is_too_much = asking.questions.len() == asking::MOST || question.held() > room;
        if is_too_much {
            self.refuse_question(&request.id, asking::TOO_MUCH);
        } else {
            asking.questions.push_back(question);
        }
        self.put_asking_task(now, asking);
    }

    /// Takes out what is known of a task that wants to know something.
    fn asking_task(&mut self, now: Instant, task: &[u8]) -> AskingTask {
        let due = now + self.config.answer_within;
        let known = self.tasks_to_modern.take(task).map(|known| AskingTask { due, ..known });
        known.unwrap_or_else(|| AskingTask {
            task: task.into(),
            fetch: None,
            questions: VecDeque::new(),
            asked: 0,
            due,
        })
    }

    fn put_asking_task(&mut self, now: Instant, asking: AskingTask) {
        if asking.fetch.is_none() && asking.questions.is_empty() {
            return;
        }
        self.tasks_to_modern.put(asking);
        let first = self.tasks_to_modern.asking.front().filter(|_| self.tasks_to_modern.asking.len() > MOST);
        if let Some(task) = first.map(|asking| asking.task.clone()) {
            self.end_asking_task(now, &task);
        }
    }

    /// `tasks/update`: the client's answers. What is not asked is ignored.
    fn answer_task(&mut self, task: &[u8], answers: &[u8]) {
        let TasksToModern { asking, bytes, .. } = &mut self.tasks_to_modern;
        let Some(asking) = asking.iter_mut().find(|asking| *asking.task == *task) else { return };
        let answered = asking::take_answered(&mut asking.questions, answers);
        *bytes -= answered.iter().map(|(question, _)| question.held()).sum::<usize>();
        for (question, answer) in answered {
            self.write_line(|out| message::result(&question.id, answer, out));
        }
    }

    /// Our `tasks/result` was answered: the task asks nothing more.
    pub(super) fn task_result_came(&mut self, own: i64) {
        let Some(asking) = self.tasks_to_modern.asking.iter_mut().find(|asking| asking.fetch == Some(own)) else {
            return;
        };
        asking.fetch = None;
        if asking.questions.is_empty() {
            let task = asking.task.clone();
            self.tasks_to_modern.take(&task);
        }
    }

    /// The server wants no answer to this question of a task any more.
    pub(super) fn task_question_cancelled(&mut self, id: &RequestId) {
        let TasksToModern { asking, bytes, .. } = &mut self.tasks_to_modern;
        for asking in asking {
            if let Some(at) = asking.questions.iter().position(|question| question.id == *id) {
                *bytes -= asking.questions.remove(at).map_or(0, |question| question.held());
            }
        }
    }

    /// Refuses the questions of a task that has no client for them any more.
    fn end_asking_task(&mut self, now: Instant, task: &[u8]) {
        let Some(AskingTask { fetch, questions, .. }) = self.tasks_to_modern.take(task) else { return };
        for question in questions {
            self.refuse_question(&question.id, asking::GIVEN_UP);
        }
        let Some((own, cancelled)) = fetch.and_then(|own| Some((own, self.calls.cancel_own(now, own)?))) else {
            return;
        };
        if self.withdraw(cancelled.line) {
            self.calls.answered(own);
        } else {
            self.write_cancel(own, None);
        }
    }

    /// Ends the questions of tasks that their clients have abandoned.
    pub(super) fn stop_asking_for_tasks(&mut self, now: Instant) {
        while let Some(asking) = self.tasks_to_modern.asking.front().filter(|asking| asking.due <= now) {
            let task = asking.task.clone();
            self.end_asking_task(now, &task);
        }
    }

    /// Sends a request about a task.
    pub(super) fn write_about(&mut self, own: i64, method: &'static str, task: &[u8], meta: Option<&[u8]>) {
        self.send(own, |out| {
            message::request(&RequestId::integer(own), method, out, |out| task::write_params(task, meta, out));
        });
    }
}

const COMPLETE: &[u8] = br#""resultType":"complete""#;

/// Writes a task as a result of the extension has it.
fn write_task(first: &[u8], task: &[u8], status: Status, more: &[u8], out: &mut Vec<u8>) {
    let mut members = task::members(task, Style::Enveloped);
    task::write_status(status, &mut members);
    if !more.is_empty() {
        members.push(b',');
        members.extend_from_slice(more);
    }
    write_object(first, &members, out);
}

fn write_object(first: &[u8], members: &[u8], out: &mut Vec<u8>) {
    out.push(b'{');
    out.extend_from_slice(first);
    out.push(b',');
    out.extend_from_slice(members);
    out.push(b'}');
}
