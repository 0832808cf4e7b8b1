//! Tasks, as far as the link shows them (D56): from their handle until a status is terminal, and a while longer.

use std::borrow::Cow;

use super::Monitor;
use crate::{
    cause::cut,
    dialect::{Dialect, TaskForm},
    json,
    link::RequestKey,
    method::Method,
    side::Side,
    task::TaskStatus,
    time::Instant,
};

/// Tasks that are kept at most. The oldest that is over gives way.
const MAX_TASKS: usize = 1024;

/// The longest ids that are kept, as JSON in bytes.
const MAX_ID: usize = 512;

/// In `_meta`, whose task a result is (TASK-10).
const RELATED: [&str; 3] = ["_meta", "io.modelcontextprotocol/related-task", "taskId"];

/// A task of a link, at one moment.
#[derive(Clone, Debug)]
pub struct ObservedTask<'a> {
    /// The request that became it, which may be forgotten.
    pub request: RequestKey,
    /// Its id, chosen by its server: untrusted.
    pub id: Cow<'a, str>,
    /// The tool that it runs: untrusted.
    pub name: Option<Cow<'a, str>>,
    /// When the request passed.
    pub since: Instant,
    /// Its status, as it was reported last.
    pub status: TaskStatus,
    /// When that was reported.
    pub reported: Instant,
    /// Whether it is known to be over: by a terminal status, by what it has led to, or by the end of its server.
    pub is_over: bool,
}

/// The tasks of a link, in the order of their handles.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    kept: Vec<Task>,
    unkept: u64,
}

#[derive(Clone, Debug)]
struct Task {
    id: Box<[u8]>,
    request: RequestKey,
    name: Method,
    since: Instant,
    status: TaskStatus,
    reported: Instant,
    is_over: bool,
}

impl Tasks {
    fn insert(&mut self, task: Task) {
        let from = task.request.from;
        if self.kept.iter().any(|known| known.id == task.id && known.request.from == from) {
            return;
        }
        if self.kept.len() >= MAX_TASKS
            && let Some(spare) = self.kept.iter().position(|task| task.is_over)
        {
            self.kept.remove(spare);
        }
        if task.id.len() > MAX_ID || self.kept.len() >= MAX_TASKS {
            self.unkept += 1;
        } else {
            self.kept.push(task);
        }
    }

    /// Notes what a message shows of a task that a request of `from` became; `None` for a result of its own.
    fn see(&mut self, now: Instant, from: Side, id: &[u8], status: Option<TaskStatus>) {
        let is_it = |task: &&mut Task| task.request.from == from && *task.id == *id && !task.is_over;
        if let Some(task) = self.kept.iter_mut().find(is_it) {
            task.status = status.unwrap_or(task.status);
            task.reported = now;
            task.is_over = status.is_none_or(TaskStatus::is_over);
        }
    }
}

impl Monitor {
    /// The tasks that are kept, in the order of their handles, at most 1,024: those at work, and the last that are over.
    pub fn tasks(&self) -> impl Iterator<Item = ObservedTask<'_>> {
        self.tasks.kept.iter().map(|task| ObservedTask {
            request: task.request,
            id: json::text(&task.id).unwrap_or_default(),
            name: (task.name != Method::OTHER).then(|| json::text(self.names.name(task.name).as_bytes())).flatten(),
            since: task.since,
            status: task.status,
            reported: task.reported,
            is_over: task.is_over,
        })
    }

    /// How many tasks had no room.
    #[must_use]
    pub const fn unkept_tasks(&self) -> u64 {
        self.tasks.unkept
    }

    /// The answer to a request is the handle of this task, whose id is JSON.
    pub(super) fn note_task(&mut self, now: Instant, request: RequestKey, form: &TaskForm, id: &[u8], result: &[u8]) {
        let max_text = self.config.max_text;
        let Some(observed) = self.observed_mut(request) else { return };
        observed.is_task = true;
        observed.task = json::text(id).map(|id| cut(&id, max_text).into());
        let (name, since) = (observed.name, observed.since);
        let status = status(json::lookup(result, form.status));
        let is_over = status.is_over();
        self.tasks.insert(Task { id: id.into(), request, name, since, status, reported: now, is_over });
        self.events.push_back(super::MonitorEvent::Task { request });
    }

    /// A request of `from` by this method had this result, which may be about a task.
    pub(super) fn note_about_task(
        &mut self,
        now: Instant,
        from: Side,
        dialect: &Dialect,
        method: Method,
        result: &[u8],
    ) {
        let Some(form) = dialect.tasks.filter(|_| !self.tasks.kept.is_empty()) else { return };
        let method = self.methods.name(method);
        let (id, status) = if method == form.get || method == form.cancel {
            // An acknowledgement shows nothing (TASK-21).
            let Some(seen) = json::member(result, "status") else { return };
            (json::member(result, "taskId"), Some(status(Some(seen))))
        } else if form.result == Some(method) {
            (json::lookup(result, &RELATED), None)
        } else {
            return;
        };
        if let Some(id) = id {
            self.tasks.see(now, from, id, status);
        }
    }

    /// Whether a notification of `from` is about a task, which is noted.
    pub(super) fn note_pushed_task(
        &mut self,
        now: Instant,
        from: Side,
        form: &TaskForm,
        method: &str,
        params: &[u8],
    ) -> bool {
        if method != form.pushed {
            return false;
        }
        if let (Some(id), Some(seen)) = (json::member(params, "taskId"), json::member(params, "status")) {
            self.tasks.see(now, from.other(), id, Some(status(Some(seen))));
        }
        true
    }

    /// The server has ended, and with it its tasks.
    pub(super) fn lose_tasks(&mut self) {
        let of_client = self.tasks.kept.iter_mut().filter(|task| task.request.from == Side::Client);
        of_client.for_each(|task| task.is_over = true);
    }
}

fn status(word: Option<&[u8]>) -> TaskStatus {
    TaskStatus::of(word.and_then(json::text).as_deref())
}
