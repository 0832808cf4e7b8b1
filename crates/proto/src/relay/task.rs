//! Requests that became tasks (D38), and the tasks at work (D56).
//!
//! A task is known by the handle that answers its request, and is followed from then on as an entry of its own: in flight
//! until a message shows that it is over. What requester and server exchange about it passes and is read on the way. Its
//! cancel is a request, of the requester or of the relay; the answer to one of the relay's own goes no further.
//!
//! A request that was cancelled before its handle came holds its cancel until then. Its requester never learns of the task,
//! so the relay cancels that, once, and the receipt of the one is that of the other.

use super::{
    Core, Followup, Relay, Settled, Step, TaskNews, Timer,
    exchange::{Down, Exchange, Rare, Up},
    link::{Part, Tag},
    task_work::{LEAST_BETWEEN_LOOKS, MAX_LOOKS, MAX_WAITS, TaskAsk, TaskPart, TaskReport, TaskSeen, TaskWork},
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::{Dialect, TaskForm},
    frame::ResponseBody,
    id::RequestId,
    json,
    link::RequestKey,
    message,
    receipt::{Answer, Outcome},
    side::Side,
    slab::Key,
    task::{TaskEnd, TaskStatus},
    time::Instant,
    timer_queue::TimerKey,
};

/// What the entry of a task is called.
const TASK: &str = "task";

impl Core {
    /// The task that a request is about, if that is known here.
    pub(super) fn about_task(
        &self,
        from: Side,
        dialect: &Dialect,
        method: &str,
        params: Option<&[u8]>,
    ) -> Option<TaskPart> {
        let tasks = &self.tasks[from];
        let form = dialect.tasks.filter(|_| tasks.len() > 0)?;
        let ask = TaskAsk::of(&form, method)?;
        Some(TaskPart::About(tasks.find(json::member(params?, "taskId")?)?, ask))
    }
}

impl Step<'_> {
    /// Notes whether the answer is a handle; then the request is a task from now on (MCP-C13). Whether it is.
    #[inline]
    pub(super) fn note_task(&mut self, body: &ResponseBody<'_>) -> bool {
        let form = self.exchange.upstream_dialect.tasks.filter(|form| self.exchange.is_task || !form.asked);
        let (Some(form), ResponseBody::Result(result)) = (form, body) else { return false };
        let Some(task) = form.handle(result) else { return false };
        let seen = TaskSeen::in_handle(&form, result);
        self.exchange.is_task = true;
        self.exchange.rare().task = Some(TaskPart::Became(task.into()));
        self.mark_changed();
        self.core.report_task(self.request, self.exchange.id.clone(), task, TaskNews::Made);
        if !seen.status.is_over() {
            self.core.followups.push(Followup::TaskMade(self.request, seen));
        }
        true
    }

    /// Reads what the answer shows of a task. Whether it is the answer to a request of ours: then it goes no further.
    pub(super) fn note_about_task(&mut self, body: &ResponseBody<'_>) -> bool {
        let (is_ours, of, ask, task) = match self.exchange.task() {
            Some(TaskPart::About(key, ask)) => (false, RequestKey { from: self.request.from, key: *key }, *ask, None),
            Some(TaskPart::Cancels(of, task)) => (true, *of, TaskAsk::Cancel, Some(task.clone())),
            Some(TaskPart::Gets(of)) => (true, *of, TaskAsk::Status, None),
            Some(TaskPart::Became(_) | TaskPart::WaitedFor(_)) | None => return false,
            // Nothing was ever sent under this id.
            Some(TaskPart::Work(_)) => return true,
        };
        let is_first = self.exchange.up.may_be_answered();
        if let Some(form) = self.exchange.upstream_dialect.tasks.filter(|_| is_first) {
            let report = TaskReport::of_answer(&form, ask, body).at_server(self.core.task_at_server);
            // Of a wait that its requester gave up only what the task led to counts.
            if self.exchange.cancel.is_none() || matches!(body, ResponseBody::Result(_)) {
                self.core.followups.push(Followup::TaskReported(of, ask, report));
            }
            if let Some(task) = task {
                let after = self.now.since(self.exchange.asked);
                self.core.followups.push(Followup::TaskCancelled(of, task, learnt(report, after)));
            }
        }
        if is_ours && is_first {
            self.exchange.up = Up::Answered;
            self.let_own_go();
        }
        is_ours && is_first
    }

    /// A request of our own has left, or never will: from now on it is remembered as long as its answer may come (D8).
    pub(super) fn let_own_go(&mut self) {
        if self.exchange.down == Down::Ours {
            self.core.unsent_own[self.request.from] -= 1;
            self.retire(Settled::Silent);
        }
    }

    /// A request about a task never leaves: no cancel does with it.
    pub(super) fn note_task_cancel_withdrawn(&mut self) {
        if let Some(&TaskPart::About(key, TaskAsk::Cancel)) =
            self.exchange.task().filter(|_| self.exchange.up == Up::Never)
        {
            let task = RequestKey { from: self.request.from, key };
            self.core.followups.push(Followup::TaskCancelWithdrawn(task));
        }
    }

    /// A request about a task has left: with it a cancel.
    pub(super) fn note_task_cancel_left(&mut self) {
        let of = match self.exchange.task() {
            Some(TaskPart::About(key, TaskAsk::Cancel)) => RequestKey { from: self.request.from, key: *key },
            Some(TaskPart::Cancels(of, _)) => *of,
            Some(TaskPart::About(..) | TaskPart::WaitedFor(_) | TaskPart::Became(_)) => return,
            Some(TaskPart::Work(_) | TaskPart::Gets(_)) | None => return,
        };
        self.core.followups.push(Followup::TaskCancelLeft(of));
    }

    /// Whether the request waits for the handle of its task, which alone can be cancelled.
    pub(super) fn holds_its_cancel(&self) -> bool {
        let exchange = &*self.exchange;
        exchange.is_task && exchange.task_work().is_none() && self.lets_tasks_be_cancelled()
    }

    /// Whether the other side lets tasks be cancelled (TASK-11).
    pub(super) fn lets_tasks_be_cancelled(&self) -> bool {
        let form = self.exchange.upstream_dialect.tasks;
        form.is_some_and(|form| !form.asked || self.core.negotiation.cancels_tasks(self.request.from.other()))
    }

    /// The task at work that it is.
    pub(super) fn work(&mut self) -> Option<&mut TaskWork> {
        self.exchange.task_work_mut()
    }

    /// The end of the grace of a task's cancel. Whether there is more to be learnt yet.
    pub(super) fn task_grace_due(&mut self) -> bool {
        let Some(work) = self.work() else { return false };
        match work.delivered {
            Some(answer) => self.work_over(answer, false),
            None if !work.is_last_look => {
                work.is_last_look = true;
                self.stop_looks();
                self.core.followups.push(Followup::CheckTask(self.request));
                self.start_grace(self.grace());
            }
            None => return false,
        }
        true
    }

    fn task_reported(&mut self, ask: TaskAsk, report: TaskReport) {
        if !self.exchange.is_waiting() {
            return;
        }
        let now = self.now;
        let is_cancelled = self.exchange.cancel.as_deref().is_some_and(|cancel| !cancel.stuck);
        // Where its requester cancelled it, that one asks.
        let is_ours = self.exchange.has_origin()
            || self.exchange.cancel.as_deref().is_some_and(|cancel| cancel.receipt.cause.code != CauseCode::Caller);
        let Some(work) = self.work() else { return };
        if let TaskReport::Status(seen) = report {
            (work.status, work.reported) = (seen.status, now);
            work.look_after = seen.look_after.or(work.look_after);
        }
        let (looks, is_last_look) = (work.looks, work.is_last_look);
        match (ask, report) {
            (_, TaskReport::Status(seen)) if seen.status.is_over() => {
                let answer = if seen.status == TaskStatus::Failed { Answer::Error } else { Answer::Result };
                return self.work_over(answer, seen.status == TaskStatus::Cancelled);
            }
            // Another session knows nothing of it, which shows nothing.
            (TaskAsk::Cancel, TaskReport::Gone) if work.is_of_lost_session => return self.work_lost(),
            (TaskAsk::Cancel, TaskReport::Gone) => return self.work_was_over(),
            (_, TaskReport::Gone) => return self.work_over(Answer::Error, false),
            // The answer to the cancel shows how it ended.
            (_, TaskReport::Delivered(answer)) if is_cancelled => work.delivered = Some(answer),
            (_, TaskReport::Delivered(answer)) => return self.work_over(answer, false),
            // Only the status shows more.
            (_, TaskReport::Acknowledged) if is_ours && looks == 0 => {
                work.looks = 1;
                self.core.followups.push(Followup::CheckTask(self.request));
            }
            (TaskAsk::Cancel, TaskReport::Denied | TaskReport::Status(_)) if work.delivered.is_some() => {
                let answer = work.delivered.unwrap_or(Answer::Result);
                return self.work_over(answer, false);
            }
            (TaskAsk::Cancel, TaskReport::Denied) => self.cancel_unheeded(),
            (TaskAsk::Status, TaskReport::Denied | TaskReport::Status(_)) if is_cancelled && is_last_look => {
                self.cancel_unheeded();
            }
            // It has the grace to end. Of who cancelled it, an answer that is not the last word is no reason to ask again.
            (TaskAsk::Cancel | TaskAsk::Status, TaskReport::Status(_))
                if is_cancelled && (is_ours || ask == TaskAsk::Cancel || looks > 0) =>
            {
                self.look_again();
            }
            (_, TaskReport::Acknowledged | TaskReport::Denied | TaskReport::Status(_)) => {}
        }
        self.mark_changed();
    }

    /// Asks for the status of a cancelled task once more when its server wants to be asked, if that is within the grace.
    fn look_again(&mut self) {
        let Some(cancel) = self.exchange.cancel.as_deref().filter(|cancel| cancel.grace.is_armed()) else { return };
        let ends = cancel.grace.at;
        let (now, request) = (self.now, self.request);
        let Some(work) = self.work().filter(|work| work.looks < MAX_LOOKS && !work.next_look.is_armed()) else {
            return;
        };
        let Some(wait) = work.look_after.map(|wait| wait.max(LEAST_BETWEEN_LOOKS)) else { return };
        if wait < ends.since(now) {
            let next_look = self.core.timers.arm(now + wait, Timer::AskAgain(request));
            self.work().into_iter().for_each(|work| work.next_look = next_look);
        }
    }

    /// The task is with nobody who could be asked: what becomes of it is not learnt any more.
    fn work_lost(&mut self) {
        self.exchange.up = Up::Lost;
        self.stop_grace();
        self.learn(Outcome::Unknown);
        self.settle(Settled::Gone);
    }

    pub(super) fn look_due(&mut self) {
        let Some(work) = self.work() else { return };
        (work.next_look, work.looks) = (TimerKey::NOT, work.looks + 1);
        self.core.followups.push(Followup::CheckTask(self.request));
    }

    /// Its status is not asked for any more before the end of the grace.
    pub(super) fn stop_looks(&mut self) {
        if let Some(work) = self.exchange.task_work_mut() {
            self.core.timers.stop(&mut work.next_look);
        }
    }

    /// The task is over, and with it what waited for it (TASK-06).
    pub(super) fn note_task_over(&mut self, end: TaskEnd) {
        let from = self.request.from;
        self.stop_looks();
        let Some(work) = self.work() else { return };
        work.ended = Some(end);
        for key in core::mem::take(&mut work.waits) {
            self.core.followups.push(Followup::WaitOver(RequestKey { from, key }, end));
        }
    }

    /// It was cancelled: if it waits for what a task leads to, that task's end is its end, too.
    pub(super) fn note_wait_cancelled(&mut self) {
        if let Some(&TaskPart::About(task, TaskAsk::Result)) = self.exchange.task() {
            self.core.followups.push(Followup::WaitCancelled(self.request, task));
        }
    }

    /// The task that it waited for is over.
    fn wait_over(&mut self, end: TaskEnd) {
        if matches!(self.exchange.task(), Some(TaskPart::About(..))) && self.exchange.up.may_be_answered() {
            self.exchange.rare().task = Some(TaskPart::WaitedFor(end));
            self.mark_changed();
        }
    }

    /// Notes for the request that the task is cancelled for what has become of that.
    pub(super) fn tell_origin(&mut self) {
        let Some(cancel) = self.exchange.cancel.as_deref() else { return };
        let (written, outcome) = (cancel.receipt.written, cancel.receipt.outcome);
        let from = self.request.from;
        if let Some(key) = self.work().and_then(|work| work.origin) {
            self.core.followups.push(Followup::TaskLearnt(RequestKey { from, key }, written, outcome));
        }
    }
}

/// What the answer to a cancel of ours shows.
const fn learnt(report: TaskReport, after: core::time::Duration) -> Outcome {
    match report {
        // An acknowledgement is the receipt of a wish.
        TaskReport::Acknowledged => Outcome::Sent,
        TaskReport::Status(TaskSeen { status, .. }) => match status {
            TaskStatus::Cancelled => Outcome::Confirmed { after },
            TaskStatus::Failed => Outcome::AnsweredAfter { after, answer: Answer::Error },
            TaskStatus::Completed => Outcome::AnsweredAfter { after, answer: Answer::Result },
            // It goes on.
            TaskStatus::Working | TaskStatus::InputRequired | TaskStatus::Unknown => Outcome::Sent,
        },
        TaskReport::Denied | TaskReport::Delivered(Answer::Error) => {
            Outcome::AnsweredAfter { after, answer: Answer::Error }
        }
        TaskReport::Delivered(Answer::Result) => Outcome::AnsweredAfter { after, answer: Answer::Result },
        TaskReport::Gone => Outcome::CompletedFirst,
    }
}

impl Relay {
    /// The answer to a request was the handle of a task: it is followed from now on, if there is room.
    pub(super) fn begin_task(&mut self, now: Instant, request: RequestKey, seen: TaskSeen) {
        let from = request.from;
        let Some(of) = self.tables[from].get(request.key) else { return };
        let Some(TaskPart::Became(task)) = of.task() else { return };
        let Some(id) = RequestId::from_json(task) else { return };
        let like = if of.id.is_string() { RequestId::string("") } else { RequestId::integer(0) };
        let (task, asked, dialect, upstream_dialect, name) =
            (task.clone(), of.asked, of.dialect, of.upstream_dialect, of.name);
        let tasks = &mut self.core.tasks[from];
        if tasks.find(&task).is_some() {
            return;
        }
        if !tasks.has_room(&task) {
            return;
        }
        let table = &mut self.tables[from];
        let own = loop {
            let name = tasks.next_name();
            // A requester may have chosen it, too.
            if table.by_upstream(&name).is_none() {
                break name;
            }
        };
        let work = TaskWork::new(task.clone(), request.key, seen, now, like);
        let exchange = Exchange {
            // Nothing is ever sent under this id.
            renamed: Some(own),
            // No requester calls it by its id.
            replaced: true,
            rare: Some(Box::new(Rare { task: Some(TaskPart::Work(Box::new(work))), ..Rare::default() })),
            up: Up::Sent,
            is_task: true,
            name,
            ..Exchange::new(id, dialect, upstream_dialect, asked, self.core.methods.intern(TASK))
        };
        let key = table.insert(table.hash(&exchange.id), exchange);
        self.core.tasks[from].insert(&task, key);
        self.pass_arguments_on(request, RequestKey { from, key });
        self.step(now, RequestKey { from, key }, |step| step.count_opened());
    }

    /// Cancels the task whose handle answered `request` and does not reach its requester, who has cancelled: nobody else
    /// can. Once: an answer of our own to the same request may be withdrawn later.
    pub(super) fn cancel_orphan(&mut self, now: Instant, request: RequestKey) {
        let (from, to) = (request.from, request.from.other());
        let Some(of) = self.tables[from].get_mut(request.key) else { return };
        let cancel = of.cancel.as_deref().map(|cancel| (cancel.receipt.cause.clone(), cancel.receipt.asked));
        let (Some((cause, asked)), Some(rare)) = (cancel, of.rare.as_deref_mut()) else { return };
        let Some(TaskPart::Became(task)) = rare.task.take_if(|task| matches!(task, TaskPart::Became(_))) else {
            return;
        };
        let Some(form) = of.upstream_dialect.tasks.filter(|_| !self.core.links[to].write_closed) else { return };
        let is_sendable = !form.asked || self.core.negotiation.cancels_tasks(to);
        if let Some(key) = self.core.tasks[from].find(&task) {
            self.step(now, RequestKey { from, key }, |step| {
                if let Some(work) = step.work() {
                    work.origin = Some(request.key);
                }
                if step.exchange.cancel.is_none() {
                    step.cancel_upstream(cause);
                    step.cancel().into_iter().for_each(|cancel| cancel.receipt.asked = asked);
                }
                step.tell_origin();
            });
        } else if is_sendable {
            self.ask_about(now, request, &form, TaskPart::Cancels(request, task.clone()));
        }
        self.report_orphan(request, &task, if is_sendable { Outcome::Asked } else { Outcome::NotSendable });
    }

    /// An operator's cancel of a request crossed the handle of its task: it is that of the task. Whether it is at work.
    pub(super) fn stop_made_task(&mut self, now: Instant, request: RequestKey, reason: Option<&str>) -> bool {
        let Some(exchange) = self.exchange(request).filter(|exchange| exchange.cancel.is_none()) else { return false };
        let Some(TaskPart::Became(task)) = exchange.task() else { return false };
        let Some(key) = self.core.tasks[request.from].find(task) else { return false };
        if self.tables[request.from].get(key).is_none_or(|task| task.cancel.is_some()) {
            return false;
        }
        self.step(now, request, |step| {
            step.begin_cancel(Cause::by(CauseCode::Operator, reason), Outcome::Asked, None);
            step.report_decided();
            step.core.followups.push(Followup::Orphaned(request));
        });
        true
    }

    /// Cancels a task at work by a request of our own.
    pub(super) fn cancel_task(&mut self, now: Instant, request: RequestKey) {
        let Some(exchange) = self.exchange(request) else { return };
        let (Some(work), Some(form)) = (exchange.task_work(), exchange.upstream_dialect.tasks) else { return };
        self.ask_about(now, request, &form, TaskPart::Cancels(request, work.task.clone()));
    }

    /// Asks for the status of a task that was cancelled.
    pub(super) fn check_task(&mut self, now: Instant, request: RequestKey) {
        let form = self.exchange(request).and_then(|exchange| exchange.upstream_dialect.tasks);
        if let Some(form) = form {
            self.ask_about(now, request, &form, TaskPart::Gets(request));
        }
    }

    /// Asks the other side about a task, which `of` became or is.
    fn ask_about(&mut self, now: Instant, of: RequestKey, form: &TaskForm, part: TaskPart) {
        let (from, to) = (of.from, of.from.other());
        let Some(exchange) = self.exchange(of).filter(|_| !self.core.links[to].write_closed) else { return };
        let (task, method) = match (&part, exchange.task_work()) {
            (TaskPart::Cancels(_, task), _) => (task.clone(), form.cancel),
            (_, Some(work)) => (work.task.clone(), form.get),
            (_, None) => return,
        };
        let like = exchange.task_work().map_or(&exchange.id, |work| &work.like).clone();
        let (dialect, upstream_dialect) = (exchange.dialect, exchange.upstream_dialect);
        let id = self.tables[from].own_id(&like);
        let exchange = Exchange {
            renamed: Some(id.clone()),
            rare: Some(Box::new(Rare { task: Some(part), ..Rare::default() })),
            // No requester calls it by its id.
            replaced: true,
            // Its answer goes to no requester.
            down: Down::Ours,
            ..Exchange::new(id.clone(), dialect, upstream_dialect, now, self.core.methods.intern(method))
        };
        self.core.unsent_own[from] += 1;
        let table = &mut self.tables[from];
        let own = RequestKey { from, key: table.insert(table.hash(&id), exchange) };
        let extension = form.extension;
        self.step(now, own, |step| {
            let write = |out: &mut Vec<u8>| {
                message::request(&id, method, out, |out| {
                    out.extend_from_slice(br#""taskId":"#);
                    out.extend_from_slice(&task);
                    if let Some(extension) = extension {
                        out.extend_from_slice(br#","_meta":{"#);
                        upstream_dialect.write_date_in_meta(out);
                        out.extend_from_slice(br#","io.modelcontextprotocol/clientCapabilities":{"extensions":{"#);
                        json::write_string(out, extension);
                        out.extend_from_slice(b":{}}}}");
                    }
                });
            };
            step.exchange.up = Up::Queued(step.core.write(to, Tag::Of(own, Part::Request), write));
        });
    }

    /// The requester's own request to cancel a task counts as a cancel of it, and passes.
    pub(super) fn note_task_cancel(&mut self, now: Instant, request: RequestKey) {
        let Some(&TaskPart::About(key, TaskAsk::Cancel)) = self.exchange(request).and_then(Exchange::task) else {
            return;
        };
        self.step(now, RequestKey { from: request.from, key }, |step| {
            if step.exchange.cancel.is_none() && step.exchange.is_waiting() {
                step.begin_cancel(Cause::new(CauseCode::Caller), Outcome::Asked, None);
                step.start_grace(step.grace());
                step.report_decided();
            }
        });
    }

    /// The requester's own request to cancel a task was taken back: the task was not cancelled, and may be.
    pub(super) fn task_cancel_withdrawn(&mut self, now: Instant, task: RequestKey) {
        self.step(now, task, |step| {
            let is_asked = step.cancel().is_some_and(|cancel| {
                cancel.receipt.outcome == Outcome::Asked && cancel.receipt.cause.code == CauseCode::Caller
            });
            if is_asked {
                step.stop_grace();
                step.learn(Outcome::NeverSent);
            }
        });
    }

    /// A cancel of this task has left.
    pub(super) fn task_cancel_left(&mut self, now: Instant, task: RequestKey) {
        self.step(now, task, |step| {
            let is_asked = step.cancel().is_some_and(|cancel| cancel.receipt.outcome == Outcome::Asked);
            if is_asked {
                step.cancel_written();
            }
        });
    }

    /// Takes in what an answer shows of a task.
    pub(super) fn task_reported(&mut self, now: Instant, task: RequestKey, ask: TaskAsk, report: TaskReport) {
        self.step(now, task, |step| step.task_reported(ask, report));
    }

    /// Takes in a notification about a task, which passes.
    pub(super) fn task_pushed(&mut self, now: Instant, from: Side, params: &[u8]) {
        let from = from.other();
        let found = json::member(params, "taskId").and_then(|task| self.core.tasks[from].find(task));
        let Some(key) = found else { return };
        let form = self.tables[from].get(key).and_then(|task| task.upstream_dialect.tasks);
        let Some(seen) = form.map(|form| TaskSeen::in_task(&form, params)) else { return };
        self.task_reported(now, RequestKey { from, key }, TaskAsk::Result, TaskReport::Status(seen));
    }

    /// The MCP session has ended in which the tasks of `from` were made.
    pub(super) fn task_session_lost(&mut self, from: Side) {
        if self.core.tasks[from].len() == 0 {
            return;
        }
        let works = self.tables[from].iter_mut().filter_map(Exchange::task_work_mut);
        works.for_each(|work| work.is_of_lost_session = true);
    }

    /// A request that waited for what this task leads to was cancelled.
    pub(super) fn wait_cancelled(&mut self, now: Instant, wait: RequestKey, task: Key) {
        let Some(work) = self.tables[wait.from].get_mut(task).and_then(Exchange::task_work_mut) else { return };
        match work.ended {
            Some(end) => self.wait_over(now, wait, end),
            None if work.waits.len() < MAX_WAITS => work.waits.push(wait.key),
            None => {}
        }
    }

    /// The task that this cancelled request waited for is over.
    pub(super) fn wait_over(&mut self, now: Instant, wait: RequestKey, end: TaskEnd) {
        self.step(now, wait, |step| step.wait_over(end));
    }

    /// What has become of the cancel of a task, for the request that became it and holds that cancel.
    pub(super) fn task_learnt(&mut self, now: Instant, origin: RequestKey, written: Option<Instant>, outcome: Outcome) {
        self.step(now, origin, |step| {
            let Some(cancel) = step.cancel() else { return };
            cancel.receipt.written = cancel.receipt.written.or(written);
            if cancel.receipt.outcome != outcome && outcome != Outcome::Asked {
                step.learn(outcome);
            }
        });
    }

    /// The answer to our cancel of this task came: what it shows, for a log.
    pub(super) fn task_cancelled(&mut self, now: Instant, request: RequestKey, task: &[u8], outcome: Outcome) {
        let Some(exchange) = self.exchange(request) else { return };
        let is_kept = exchange.task_work().is_some();
        let origin = exchange.task_work().map_or(Some(request.key), |work| work.origin);
        if !is_kept {
            self.task_learnt(now, request, None, outcome);
        }
        if let Some(key) = origin {
            self.report_orphan(RequestKey { from: request.from, key }, task, outcome);
        }
    }

    fn report_orphan(&mut self, request: RequestKey, task: &[u8], outcome: Outcome) {
        if let Some(id) = self.exchange(request).map(|exchange| exchange.id.clone()) {
            self.core.report_task(request, id, task, TaskNews::Orphaned(outcome));
        }
    }

    /// How often a request became a task that had no room: those are neither listed nor cancelled by an operator.
    #[must_use]
    pub fn unkept_tasks(&self) -> u64 {
        Side::BOTH.into_iter().map(|side| self.core.tasks[side].unkept()).sum()
    }
}
