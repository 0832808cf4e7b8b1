//! A store in memory.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex},
};

use crate::{
    cursor,
    dialect::TaskDialect,
    error::TaskError,
    followed::lock,
    id::TaskId,
    limits::StoreLimits,
    owner::Owner,
    revision::TaskRevision,
    step::{Access, Acquired, Effect, Step},
    store::{Run, StoreFuture, SummaryPage, Swept, TaskStore},
    subscribers::{Subscribers, TaskUpdate},
    task::{NewTask, Task},
    time::{SystemClock, WallClock},
};

/// A store in memory, which ends with its process. Clones share the same store.
///
/// Dropping the last clone drops every task. Each run holds a clone.
#[derive(Clone)]
pub struct MemoryStore(Arc<Shared>);

struct Shared {
    tables: Mutex<Tables>,
    subscribers: Arc<Subscribers>,
    limits: StoreLimits,
    clock: Arc<dyn WallClock>,
    name: Arc<str>,
}

#[derive(Default)]
struct Tables {
    tasks: HashMap<TaskId, (u64, Task)>,
    /// The tasks of each owner in the order of creation. No entry is empty.
    owners: HashMap<Owner, BTreeMap<u64, TaskId>>,
    created: u64,
}

impl MemoryStore {
    /// Creates an empty store that uses the clock of the machine.
    #[must_use]
    pub fn new(limits: StoreLimits) -> Self {
        Self::with_clock(limits, Arc::new(SystemClock))
    }

    /// Creates an empty store that uses this clock.
    #[must_use]
    pub fn with_clock(limits: StoreLimits, clock: Arc<dyn WallClock>) -> Self {
        let (tables, subscribers) = (Mutex::default(), Arc::default());
        Self(Arc::new(Shared { tables, subscribers, limits, clock, name: "memory".into() }))
    }

    fn run(&self, task: Task) -> Run {
        let signal = self.0.subscribers.add_run(&task.summary.id, task.attempt);
        Run::new(task, Arc::new(self.clone()), signal)
    }

    fn apply_now(
        &self,
        access: &Access,
        id: &TaskId,
        expected: Option<TaskRevision>,
        step: &Step,
    ) -> Result<(Task, Effect), TaskError> {
        let shared = &*self.0;
        let now = shared.clock.now();
        let mut tables = lock(&shared.tables);
        let (_, task) = tables.tasks.get_mut(id).ok_or(TaskError::NotFound)?;
        let effect = task.apply(access, expected, step, now, &shared.limits)?;
        // Under the lock, so that the updates of a task keep the order of its changes.
        shared.subscribers.publish(&TaskUpdate::from(&*task));
        Ok((task.clone(), effect))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(StoreLimits::default())
    }
}

impl TaskStore for MemoryStore {
    fn create(&self, new: NewTask) -> StoreFuture<'_, Run> {
        Box::pin(async move {
            let shared = &*self.0;
            let (limits, now) = (&shared.limits, shared.clock.now());
            new.check(limits)?;
            let id = TaskId::random()?;
            let task = Task::begun(new, id.clone(), Arc::clone(&shared.name), now, limits);
            let mut tables = lock(&shared.tables);
            if tables.is_full(&task.owner, limits) {
                tables.delete(|old| old.owner == task.owner && old.summary.is_expired(now));
                if tables.is_full(&task.owner, limits) {
                    return Err(TaskError::TooMany { limit: limits.tasks_per_owner });
                }
            }
            // Before the task can be found, so that no cancel is missed.
            let run = self.run(task.clone());
            tables.insert(task);
            Ok(run)
        })
    }

    fn task<'a>(&'a self, owner: &'a Owner, id: &'a TaskId) -> StoreFuture<'a, Task> {
        Box::pin(async move {
            let now = self.0.clock.now();
            let tables = lock(&self.0.tables);
            let task = tables.tasks.get(id).map(|(_, task)| task).filter(|task| task.is_found_by(owner, now));
            task.cloned().ok_or(TaskError::NotFound)
        })
    }

    fn list<'a>(
        &'a self,
        owner: &'a Owner,
        dialect: TaskDialect,
        cursor: Option<&'a str>,
        at_most: usize,
    ) -> StoreFuture<'a, SummaryPage> {
        Box::pin(async move {
            let after = cursor::read(cursor)?;
            let (now, at_most) = (self.0.clock.now(), at_most.clamp(1, self.0.limits.page.max(1)));
            let tables = lock(&self.0.tables);
            let theirs =
                tables.owners.get(owner).into_iter().flat_map(|theirs| theirs.range(after.saturating_add(1)..));
            let mut found = theirs
                .filter_map(|(number, id)| tables.tasks.get(id).map(|(_, task)| (*number, &task.summary)))
                .filter(|(_, summary)| summary.dialect == dialect && !summary.is_expired(now));
            let first: Vec<_> = found.by_ref().take(at_most).collect();
            let last = first.last().map(|(number, _)| *number);
            let next = last.filter(|_| found.next().is_some()).map(cursor::write);
            Ok(SummaryPage { tasks: first.into_iter().map(|(_, summary)| summary.clone()).collect(), next })
        })
    }

    fn apply<'a>(
        &'a self,
        access: Access,
        id: &'a TaskId,
        expected: Option<TaskRevision>,
        step: Step,
    ) -> StoreFuture<'a, (Task, Effect)> {
        Box::pin(async move { self.apply_now(&access, id, expected, &step) })
    }

    fn changed<'a>(&'a self, owner: &'a Owner, id: &'a TaskId, seen: TaskRevision) -> StoreFuture<'a, Task> {
        Box::pin(async move { self.0.subscribers.change(id, seen, || {}, || self.task(owner, id)).await })
    }

    fn recover(&self) -> StoreFuture<'_, Vec<Run>> {
        Box::pin(async move {
            let shared = &*self.0;
            let now = shared.clock.now();
            let mut tables = lock(&shared.tables);
            let mut runs = Vec::new();
            for (_, task) in tables.tasks.values_mut().filter(|(_, task)| task.runner.is_none() && !task.is_settled()) {
                if task.acquire(&shared.name, now) == Acquired::Resumed {
                    runs.push(self.run(task.clone()));
                }
                shared.subscribers.publish(&TaskUpdate::from(&*task));
            }
            Ok(runs)
        })
    }

    fn sweep(&self) -> StoreFuture<'_, Swept> {
        Box::pin(async move {
            let shared = &*self.0;
            let now = shared.clock.now();
            let mut tables = lock(&shared.tables);
            let deleted = tables.delete(|task| task.summary.is_expired(now));
            let mut swept = Swept { deleted, ..Swept::default() };
            for (_, task) in tables.tasks.values_mut() {
                if matches!(
                    task.apply(&Access::Operator, None, &Step::Expire, now, &shared.limits),
                    Ok(Effect::Changed)
                ) {
                    swept.cancelled += 1;
                    shared.subscribers.publish(&TaskUpdate::from(&*task));
                }
                let expires = task.summary.expires().filter(|expires| *expires > now);
                swept.next = [swept.next, expires].into_iter().flatten().min();
            }
            Ok(swept)
        })
    }

    fn fail(&self, id: &TaskId, attempt: u32) {
        self.0.subscribers.remove_run(id, attempt);
        // Rejected only if the run is void already.
        let _ = self.apply_now(&Access::Run(attempt), id, None, &Step::Fail);
    }
}

impl Tables {
    fn is_full(&self, owner: &Owner, limits: &StoreLimits) -> bool {
        let has = self.owners.get(owner).map_or(0, BTreeMap::len);
        has >= usize::try_from(limits.tasks_per_owner).unwrap_or(usize::MAX)
    }

    fn insert(&mut self, task: Task) {
        self.created += 1;
        let id = task.summary.id.clone();
        self.owners.entry(task.owner.clone()).or_default().insert(self.created, id.clone());
        self.tasks.insert(id, (self.created, task));
    }

    /// Deletes the settled tasks that `is_old` selects, and returns how many.
    fn delete(&mut self, is_old: impl Fn(&Task) -> bool) -> usize {
        let Self { tasks, owners, .. } = self;
        let before = tasks.len();
        tasks.retain(|_, (number, task)| {
            let stays = !(task.is_settled() && is_old(task));
            if !stays && let Some(theirs) = owners.get_mut(&task.owner) {
                theirs.remove(number);
                if theirs.is_empty() {
                    owners.remove(&task.owner);
                }
            }
            stays
        });
        before - tasks.len()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}
