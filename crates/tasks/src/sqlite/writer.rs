//! The thread that writes, and its jobs.
//!
//! It writes all waiting jobs as one transaction and then answers them. So callers share the wait for the disk, and an
//! answered change is durable (TASK-23).

use std::{
    sync::{Arc, mpsc::Receiver},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use tokio::sync::{oneshot, watch};

use crate::{
    error::{StoreFault, StoreFaultKind, TaskError},
    id::TaskId,
    run::Run,
    sqlite::{Core, SqliteStore, database::kind, rows, runners::RETRY_INTERVAL},
    step::{Access, Acquired, Effect, Step},
    store::{Swept, TaskStore},
    subscribers::TaskUpdate,
    task::{CancelRecord, Task, TaskRevision},
    time::Timestamp,
};

/// The most jobs in one transaction. It bounds a caller's wait for the jobs of others.
const BATCH: usize = 256;

/// A change to write, and where its result goes.
pub(super) enum Job {
    Create {
        run: Run,
        reply: oneshot::Sender<Result<Run, TaskError>>,
    },
    Apply {
        access: Access,
        id: TaskId,
        expected: Option<TaskRevision>,
        step: Step,
        /// `None` for a dropped run.
        reply: Option<oneshot::Sender<Result<(Task, Effect), TaskError>>>,
    },
    Recover {
        store: SqliteStore,
        reply: oneshot::Sender<Result<Vec<Run>, TaskError>>,
    },
    Sweep {
        reply: oneshot::Sender<Result<Swept, TaskError>>,
    },
}

/// The result of a job, sent once it is durable.
enum JobResult {
    Created,
    Applied(Box<(Task, Effect)>),
    Recovered(Vec<(Task, watch::Receiver<Option<CancelRecord>>)>),
    Swept(Swept),
    Refused(TaskError),
}

pub(super) struct Writer {
    core: Arc<Core>,
    database: Connection,
}

/// The effects of a transaction beside its rows.
#[derive(Default)]
struct Changes {
    last: i64,
    updates: Vec<TaskUpdate>,
    /// Runs that begin if it commits.
    new_runs: Vec<(TaskId, u32)>,
}

impl Writer {
    pub(super) fn new(core: Arc<Core>, database: Connection) -> rusqlite::Result<Self> {
        // `begin` waits instead.
        database.busy_timeout(Duration::ZERO)?;
        Ok(Self { core, database })
    }

    /// Writes until the store is dropped and every job is done.
    pub(super) fn write(self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let mut batch = vec![first];
            batch.extend(jobs.try_iter().take(BATCH - 1));
            self.write_batch(batch);
        }
    }

    fn write_batch(&self, batch: Vec<Job>) {
        match self.commit(&batch) {
            Ok(done) => batch.into_iter().zip(done).for_each(|(job, done)| self.answer(job, done)),
            // One of them failed, or all were too much together: each gets a transaction of its own.
            Err(error) if batch.len() > 1 && kind(&error) != StoreFaultKind::Busy => {
                for job in batch {
                    self.write_batch(vec![job]);
                }
            }
            Err(error) => {
                let (kind, words) = (kind(&error), error.to_string());
                for job in batch {
                    self.answer(job, JobResult::Refused(StoreFault::new(kind, words.clone()).into()));
                }
            }
        }
    }

    /// Writes all jobs or none.
    fn commit(&self, batch: &[Job]) -> rusqlite::Result<Vec<JobResult>> {
        let mut changes = Changes::default();
        let done = self.transact(batch, &mut changes);
        if done.is_err() {
            for (id, attempt) in &changes.new_runs {
                self.core.subscribers.remove_run(id, *attempt);
            }
            return done;
        }
        for update in &changes.updates {
            self.core.subscribers.publish(update);
        }
        if !changes.updates.is_empty() {
            self.core.runners.wake_others();
        }
        done
    }

    fn transact(&self, batch: &[Job], changes: &mut Changes) -> rusqlite::Result<Vec<JobResult>> {
        let now = self.core.clock.now();
        let transaction = self.core.runners.in_turn(|| self.begin())?;
        let before = rows::last_change(&transaction)?;
        changes.last = before;
        let done = batch.iter().map(|job| self.core.execute(&transaction, job, now, changes));
        let done = done.collect::<rusqlite::Result<Vec<_>>>()?;
        if changes.last > before {
            transaction.prepare_cached("UPDATE counter SET change = ?1")?.execute([changes.last])?;
        }
        transaction.commit()?;
        Ok(done)
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

    /// Sends the result of a job. A run whose caller has gone is dropped, which fails its task.
    fn answer(&self, job: Job, done: JobResult) {
        match (job, done) {
            (Job::Create { run, reply }, JobResult::Created) => drop(reply.send(Ok(run))),
            (Job::Create { mut run, reply }, JobResult::Refused(error)) => {
                run.disarm();
                self.core.subscribers.remove_run(&run.task().summary.id, run.task().attempt);
                drop(reply.send(Err(error)));
            }
            (Job::Apply { reply: Some(reply), .. }, JobResult::Applied(done)) => drop(reply.send(Ok(*done))),
            (Job::Apply { reply: Some(reply), .. }, JobResult::Refused(error)) => drop(reply.send(Err(error))),
            (Job::Recover { store, reply }, JobResult::Recovered(acquired)) => {
                let store: Arc<dyn TaskStore> = Arc::new(store);
                let runs =
                    acquired.into_iter().map(|(task, signal)| Run::new(task, Arc::clone(&store), signal)).collect();
                drop(reply.send(Ok(runs)));
            }
            (Job::Recover { reply, .. }, JobResult::Refused(error)) => drop(reply.send(Err(error))),
            (Job::Sweep { reply }, JobResult::Swept(swept)) => drop(reply.send(Ok(swept))),
            (Job::Sweep { reply }, JobResult::Refused(error)) => drop(reply.send(Err(error))),
            // No reply wanted. Other pairs do not occur.
            (
                Job::Create { .. } | Job::Apply { .. } | Job::Recover { .. } | Job::Sweep { .. },
                JobResult::Created
                | JobResult::Applied(_)
                | JobResult::Recovered(_)
                | JobResult::Swept(_)
                | JobResult::Refused(_),
            ) => {}
        }
    }
}

impl Core {
    fn execute(
        &self,
        database: &Connection,
        job: &Job,
        now: Timestamp,
        changes: &mut Changes,
    ) -> rusqlite::Result<JobResult> {
        match job {
            // The caller has gone: nothing is created.
            Job::Create { reply, .. } if reply.is_closed() => Ok(JobResult::Refused(TaskError::NotFound)),
            Job::Create { run, .. } => self.create(database, run.task(), now, changes),
            Job::Apply { access, id, expected, step, .. } => {
                let Some((number, mut task)) = rows::load(database, id)? else {
                    return Ok(JobResult::Refused(TaskError::NotFound));
                };
                match task.apply(access, *expected, step, now, &self.limits) {
                    Ok(effect) => {
                        match effect {
                            Effect::Changed | Effect::Kept => changes.save(database, number, &task)?,
                            Effect::Unchanged | Effect::TooLate => {}
                        }
                        Ok(JobResult::Applied(Box::new((task, effect))))
                    }
                    Err(error) => Ok(JobResult::Refused(error)),
                }
            }
            Job::Recover { .. } => self.recover(database, now, changes),
            Job::Sweep { .. } => self.sweep(database, now, changes),
        }
    }

    fn create(
        &self,
        database: &Connection,
        task: &Task,
        now: Timestamp,
        changes: &mut Changes,
    ) -> rusqlite::Result<JobResult> {
        let (owner, limit) = (rows::owner_text(&task.owner), self.limits.tasks_per_owner);
        let has = || {
            let mut select = database.prepare_cached("SELECT tasks FROM owner WHERE name = ?1")?;
            select.query_row([&owner], |row| row.get::<_, i64>(0)).optional()
        };
        if has()?.unwrap_or(0) >= i64::from(limit) {
            delete(database, now)?;
            if has()?.unwrap_or(0) >= i64::from(limit) {
                return Ok(JobResult::Refused(TaskError::TooMany { limit }));
            }
        }
        changes.last += 1;
        rows::insert(database, changes.last, task)?;
        database
            .prepare_cached("INSERT INTO owner VALUES (?1, 1) ON CONFLICT DO UPDATE SET tasks = tasks + 1")?
            .execute([&owner])?;
        Ok(JobResult::Created)
    }

    fn recover(&self, database: &Connection, now: Timestamp, changes: &mut Changes) -> rusqlite::Result<JobResult> {
        let mut select = database.prepare_cached("SELECT DISTINCT runner FROM task WHERE runner IS NOT NULL")?;
        let runners = select.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        let mut found = ids(
            database,
            "SELECT id FROM task WHERE runner IS NULL AND status IN ('working', 'input_required') ORDER BY number",
            (),
        )?;
        for dead in runners.iter().filter(|runner| self.runners.is_dead(runner)) {
            found.extend(ids(database, "SELECT id FROM task WHERE runner = ?1 ORDER BY number", [dead])?);
        }
        let mut resumed = Vec::new();
        for id in &found {
            let Some((number, mut task)) = rows::load(database, id)? else { continue };
            let acquired = task.acquire(self.runners.name(), now);
            changes.save(database, number, &task)?;
            match acquired {
                Acquired::Resumed => {
                    // Before the run can be found elsewhere, so that no cancel is missed.
                    let signal = self.subscribers.add_run(id, task.attempt);
                    self.wake_watcher();
                    changes.new_runs.push((id.clone(), task.attempt));
                    resumed.push((task, signal));
                }
                Acquired::Settled => {}
            }
        }
        Ok(JobResult::Recovered(resumed))
    }

    fn sweep(&self, database: &Connection, now: Timestamp, changes: &mut Changes) -> rusqlite::Result<JobResult> {
        let deleted = delete(database, now)?;
        let late = ids(
            database,
            "SELECT id FROM task WHERE expires <= ?1 AND status IN ('working', 'input_required')",
            [rows::whole(now.0)],
        )?;
        let mut cancelled = 0;
        for id in &late {
            let Some((number, mut task)) = rows::load(database, id)? else { continue };
            if let Ok(Effect::Changed) = task.apply(&Access::Operator, None, &Step::Expire, now, &self.limits) {
                changes.save(database, number, &task)?;
                cancelled += 1;
            }
        }
        let mut select = database.prepare_cached("SELECT min(expires) FROM task WHERE expires > ?1")?;
        let next: Option<i64> = select.query_row([rows::whole(now.0)], |row| row.get(0))?;
        let next = next.map(|next| Timestamp(next.unsigned_abs()));
        Ok(JobResult::Swept(Swept { cancelled, deleted, next }))
    }
}

impl Changes {
    fn save(&mut self, database: &Connection, number: i64, task: &Task) -> rusqlite::Result<()> {
        self.last += 1;
        rows::update(database, number, self.last, task)?;
        self.updates.push(TaskUpdate::from(task));
        Ok(())
    }
}

fn ids(database: &Connection, select: &str, params: impl rusqlite::Params) -> rusqlite::Result<Vec<TaskId>> {
    let mut select = database.prepare_cached(select)?;
    let found = select.query_map(params, |row| Ok(TaskId::received(row.get_ref(0)?.as_str()?)))?;
    found.collect()
}

/// Deletes the settled tasks whose ttl has expired, and returns how many.
fn delete(database: &Connection, now: Timestamp) -> rusqlite::Result<usize> {
    let mut delete = database.prepare_cached(
        "DELETE FROM task
         WHERE expires <= ?1 AND runner IS NULL AND status NOT IN ('working', 'input_required')
         RETURNING number, owner",
    )?;
    let gone = delete.query_map([rows::whole(now.0)], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    let gone = gone.collect::<Result<Vec<_>, _>>()?;
    for (number, owner) in &gone {
        database.prepare_cached("DELETE FROM request WHERE number = ?1")?.execute([number])?;
        database.prepare_cached("UPDATE owner SET tasks = tasks - 1 WHERE name = ?1")?.execute([owner])?;
    }
    if !gone.is_empty() {
        database.prepare_cached("DELETE FROM owner WHERE tasks <= 0")?.execute([])?;
    }
    Ok(gone.len())
}

/// The error when a thread of the store has ended, which only a panic causes.
pub(super) fn closed<E>(_: E) -> TaskError {
    StoreFault::new(StoreFaultKind::Closed, "a thread of the store has ended").into()
}
