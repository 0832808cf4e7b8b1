//! The thread that writes, and its jobs.
//!
//! It writes all waiting jobs as one transaction and then answers them. So callers share the wait for the disk, and an
//! answered change is durable (TASK-23).

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc::Receiver},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use tokio::sync::watch;

use crate::{
    error::{StoreFault, StoreFaultKind, TaskError},
    id::TaskId,
    revision::TaskRevision,
    sqlite::{Core, database::kind, rows, runners::RETRY_INTERVAL},
    step::{Access, Acquired, Effect, Step},
    store::Swept,
    subscribers::TaskUpdate,
    task::{CancelRecord, Task},
    time::Timestamp,
};

/// The most jobs in one transaction. It bounds a caller's wait for the jobs of others.
const BATCH: usize = 256;

/// The result of work in a transaction. An error of SQLite undoes the transaction; a [`TaskError`] has changed nothing.
pub(super) type Written<T> = rusqlite::Result<Result<T, TaskError>>;

/// A change to write, and where its result goes.
pub(super) trait Job: Send {
    /// Makes the change, in a transaction. Called anew if the transaction fails because of another job.
    fn write(&mut self, changes: &mut Changes<'_>) -> rusqlite::Result<()>;

    /// Sends the result, which is durable, or the fault of the store, after which nothing has changed.
    fn answer(self: Box<Self>, fault: Option<StoreFault>);
}

/// A job of two functions: one makes the change, one sends its result.
pub(super) struct Change<T, W, A> {
    pub(super) work: W,
    pub(super) answer: A,
    /// Of `work`, once that was done.
    pub(super) result: Option<Result<T, TaskError>>,
}

impl<T, W, A> Job for Change<T, W, A>
where
    T: Send,
    W: FnMut(&mut Changes<'_>) -> Written<T> + Send,
    A: FnOnce(Result<T, TaskError>) + Send,
{
    fn write(&mut self, changes: &mut Changes<'_>) -> rusqlite::Result<()> {
        self.result = Some((self.work)(changes)?);
        Ok(())
    }

    fn answer(self: Box<Self>, fault: Option<StoreFault>) {
        // A transaction that did not fail has written every job.
        if let Some(result) = fault.map(|fault| Err(fault.into())).or(self.result) {
            (self.answer)(result);
        }
    }
}

pub(super) struct Writer {
    core: Arc<Core>,
    database: Connection,
}

impl Writer {
    pub(super) fn new(core: Arc<Core>, database: Connection) -> rusqlite::Result<Self> {
        // `begin` waits instead.
        database.busy_timeout(Duration::ZERO)?;
        Ok(Self { core, database })
    }

    /// Writes until the store is dropped and every job is done.
    pub(super) fn write(self, jobs: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = jobs.recv() {
            let mut batch = vec![first];
            batch.extend(jobs.try_iter().take(BATCH - 1));
            self.write_batch(batch);
        }
    }

    fn write_batch(&self, mut batch: Vec<Box<dyn Job>>) {
        match self.commit(&mut batch) {
            Ok(()) => batch.into_iter().for_each(|job| job.answer(None)),
            // One of them failed, or all were too much together: each gets a transaction of its own.
            Err(error) if batch.len() > 1 && kind(&error) != StoreFaultKind::Busy => {
                for job in batch {
                    self.write_batch(vec![job]);
                }
            }
            Err(error) => {
                let (kind, words) = (kind(&error), error.to_string());
                for job in batch {
                    job.answer(Some(StoreFault::new(kind, words.clone())));
                }
            }
        }
    }

    /// Writes all jobs or none.
    fn commit(&self, batch: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
        let now = self.core.clock.now();
        let transaction = self.core.runners.in_turn(|| self.begin())?;
        let mut changes = Changes::begin(&self.core, &transaction, now)?;
        let written =
            batch.iter_mut().try_for_each(|job| job.write(&mut changes)).and_then(|()| changes.write_owners());
        let Changes { updates, new_runs, .. } = changes;
        let committed = written.and_then(|()| transaction.commit());
        if committed.is_err() {
            for (id, attempt) in &new_runs {
                self.core.subscribers.remove_run(id, *attempt);
            }
            return committed;
        }
        for update in &updates {
            self.core.subscribers.publish(update);
        }
        if !updates.is_empty() {
            self.core.runners.wake_others();
        }
        committed
    }

    /// Begins a transaction that holds the lock of the file. Retries at short intervals, since SQLite's own grow long.
    fn begin(&self) -> rusqlite::Result<Transaction<'_>> {
        let until = Instant::now() + self.core.busy_timeout;
        loop {
            match Transaction::new_unchecked(&self.database, TransactionBehavior::Immediate) {
                Err(error) if kind(&error) == StoreFaultKind::Busy && Instant::now() < until => {
                    thread::sleep(RETRY_INTERVAL)
                }
                result => return result,
            }
        }
    }
}

/// A transaction: what its jobs change, and the effects beside its rows.
pub(super) struct Changes<'a> {
    core: &'a Core,
    database: &'a Connection,
    now: Timestamp,
    last: i64,
    updates: Vec<TaskUpdate>,
    /// Runs that begin if it commits.
    new_runs: Vec<(TaskId, u32)>,
    /// The number of tasks of owners that were looked at, as in the file and as of now.
    owners: BTreeMap<String, (i64, i64)>,
}

impl<'a> Changes<'a> {
    fn begin(core: &'a Core, database: &'a Connection, now: Timestamp) -> rusqlite::Result<Self> {
        let last = rows::last_change(database)?;
        let (updates, new_runs, owners) = (Vec::new(), Vec::new(), BTreeMap::new());
        Ok(Self { core, database, now, last, updates, new_runs, owners })
    }

    pub(super) fn create(&mut self, task: &Task) -> Written<()> {
        let (owner, limit) = (rows::owner_text(&task.owner), self.core.limits.tasks_per_owner);
        if *self.tasks_of(&owner)? >= i64::from(limit) {
            self.delete()?;
        }
        let tasks = self.tasks_of(&owner)?;
        if *tasks >= i64::from(limit) {
            return Ok(Err(TaskError::TooMany { limit }));
        }
        *tasks += 1;
        self.last += 1;
        rows::insert(self.database, self.last, task)?;
        Ok(Ok(()))
    }

    pub(super) fn apply(
        &mut self,
        access: &Access,
        id: &TaskId,
        expected: Option<TaskRevision>,
        step: &Step,
    ) -> Written<(Task, Effect)> {
        let Some((number, mut task)) = rows::load(self.database, id)? else { return Ok(Err(TaskError::NotFound)) };
        let had_runner = task.runner.is_some();
        let applied = task.apply(access, expected, step, self.now, &self.core.limits);
        if matches!(applied, Ok(Effect::Changed | Effect::Kept)) {
            self.save(number, &task, had_runner != task.runner.is_some())?;
        }
        Ok(applied.map(|effect| (task, effect)))
    }

    /// Acquires the tasks without a living runner, with the signals of their new runs.
    pub(super) fn recover(&mut self) -> Written<Vec<(Task, watch::Receiver<Option<CancelRecord>>)>> {
        let Core { runners, subscribers, .. } = self.core;
        let mut select = self.database.prepare_cached("SELECT DISTINCT runner FROM task WHERE runner IS NOT NULL")?;
        let names = select.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        let mut found = self.ids(
            "SELECT id FROM task WHERE runner IS NULL AND status IN ('working', 'input_required') ORDER BY number",
            (),
        )?;
        for dead in names.iter().filter(|name| runners.is_dead(name)) {
            found.extend(self.ids("SELECT id FROM task WHERE runner = ?1 ORDER BY number", [dead])?);
        }
        let mut resumed = Vec::new();
        for id in &found {
            let Some((number, mut task)) = rows::load(self.database, id)? else { continue };
            let acquired = task.acquire(runners.name(), self.now);
            self.save(number, &task, true)?;
            if acquired == Acquired::Resumed {
                // Before the run can be found elsewhere, so that no cancel is missed.
                let signal = subscribers.add_run(id, task.attempt);
                self.core.wake_watcher();
                self.new_runs.push((id.clone(), task.attempt));
                resumed.push((task, signal));
            }
        }
        Ok(Ok(resumed))
    }

    pub(super) fn sweep(&mut self) -> Written<Swept> {
        let (deleted, now) = (self.delete()?, rows::whole(self.now.0));
        let late =
            self.ids("SELECT id FROM task WHERE expires <= ?1 AND status IN ('working', 'input_required')", [now])?;
        let mut cancelled = 0;
        for id in &late {
            if let Ok((_, Effect::Changed)) = self.apply(&Access::Operator, id, None, &Step::Expire)? {
                cancelled += 1;
            }
        }
        let mut select = self.database.prepare_cached("SELECT min(expires) FROM task WHERE expires > ?1")?;
        let next: Option<i64> = select.query_row([now], |row| row.get(0))?;
        let next = next.map(|next| Timestamp(next.unsigned_abs()));
        Ok(Ok(Swept { cancelled, deleted, next }))
    }

    fn save(&mut self, number: i64, task: &Task, run_changed: bool) -> rusqlite::Result<()> {
        self.last += 1;
        rows::update(self.database, number, self.last, task)?;
        if run_changed {
            rows::update_run(self.database, number, task)?;
        }
        self.updates.push(TaskUpdate::from(task));
        Ok(())
    }

    /// Deletes the settled tasks whose ttl has expired, and returns how many.
    fn delete(&mut self) -> rusqlite::Result<usize> {
        let mut delete = self.database.prepare_cached(
            "DELETE FROM task
             WHERE expires <= ?1 AND runner IS NULL AND status NOT IN ('working', 'input_required')
             RETURNING number, owner",
        )?;
        let gone = delete.query_map([rows::whole(self.now.0)], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let gone = gone.collect::<Result<Vec<(i64, String)>, _>>()?;
        for (number, owner) in &gone {
            self.database.prepare_cached("DELETE FROM request WHERE number = ?1")?.execute([number])?;
            *self.tasks_of(owner)? -= 1;
        }
        if !gone.is_empty() {
            // The last change may have been that of a task that is gone.
            self.database.prepare_cached("UPDATE counter SET change = ?1")?.execute([self.last])?;
        }
        Ok(gone.len())
    }

    /// Returns the number of tasks of an owner.
    fn tasks_of(&mut self, owner: &str) -> rusqlite::Result<&mut i64> {
        if !self.owners.contains_key(owner) {
            let mut select = self.database.prepare_cached("SELECT tasks FROM owner WHERE name = ?1")?;
            let tasks = select.query_row([owner], |row| row.get(0)).optional()?.unwrap_or(0);
            self.owners.insert(owner.to_owned(), (tasks, tasks));
        }
        Ok(&mut self.owners.entry(owner.to_owned()).or_default().1)
    }

    /// Writes the numbers of tasks that have changed: once for a whole batch.
    fn write_owners(&self) -> rusqlite::Result<()> {
        for (owner, (before, tasks)) in &self.owners {
            if *tasks <= 0 {
                self.database.prepare_cached("DELETE FROM owner WHERE name = ?1")?.execute([owner])?;
            } else if tasks != before {
                let mut write = self.database.prepare_cached(
                    "INSERT INTO owner VALUES (?1, ?2) ON CONFLICT DO UPDATE SET tasks = excluded.tasks",
                )?;
                write.execute((owner, tasks))?;
            }
        }
        Ok(())
    }

    fn ids(&self, select: &str, params: impl rusqlite::Params) -> rusqlite::Result<Vec<TaskId>> {
        let mut select = self.database.prepare_cached(select)?;
        let found = select.query_map(params, |row| Ok(TaskId::received(row.get_ref(0)?.as_str()?)))?;
        found.collect()
    }
}

/// The error when a thread of the store has ended, which only a panic causes.
pub(super) fn closed<E>(_: E) -> TaskError {
    StoreFault::new(StoreFaultKind::Closed, "a thread of the store has ended").into()
}
