//! The thread that writes, and what it is asked.
//!
//! It takes whatever waits, writes it as one transaction, and only then answers: so many callers share one wait for
//! the disk, and every answer is of something that lasts (TASK-23).

use std::{
    sync::{Arc, mpsc::Receiver},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use tokio::sync::{oneshot, watch};

use crate::{
    error::{Fault, FaultKind, TaskError},
    hub::News,
    id::TaskId,
    run::Run,
    sqlite::{Core, SqliteStore, database::kind, rows, runners::TURN},
    step::{Access, Claim, Effect, Step},
    store::{Swept, TaskStore},
    task::{Cancel, Revision, Task},
    time::Timestamp,
};

/// Jobs of one transaction at most: what a caller may have to wait for besides his own.
const BATCH: usize = 256;

/// Something to be written, and who wants to know.
pub(super) enum Job {
    Create {
        run: Run,
        reply: oneshot::Sender<Result<Run, TaskError>>,
    },
    Apply {
        access: Access,
        id: TaskId,
        expected: Option<Revision>,
        step: Step,
        /// Nobody, where a run was dropped.
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

/// What a job came to; told only once it lasts.
enum Done {
    Created,
    Applied(Box<(Task, Effect)>),
    Recovered(Vec<(Task, watch::Receiver<Option<Cancel>>)>),
    Swept(Swept),
    Refused(TaskError),
}

pub(super) struct Writer {
    core: Arc<Core>,
    database: Connection,
}

/// What a transaction has gathered beside its rows.
#[derive(Default)]
struct Gathered {
    change: i64,
    news: Vec<News>,
    /// Runs that begin with it, and never do if it fails.
    begun: Vec<(TaskId, u32)>,
}

impl Writer {
    pub(super) fn new(core: Arc<Core>, database: Connection) -> rusqlite::Result<Self> {
        // It waits by itself.
        database.busy_timeout(Duration::ZERO)?;
        Ok(Self { core, database })
    }

    /// Writes until nobody can ask any more, and all that was asked is done.
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
            // One of them, or all together, were too much: each for itself, so that none pays for another.
            Err(error) if batch.len() > 1 && kind(&error) != FaultKind::Busy => {
                for job in batch {
                    self.write_batch(vec![job]);
                }
            }
            Err(error) => {
                let (kind, words) = (kind(&error), error.to_string());
                for job in batch {
                    self.answer(job, Done::Refused(Fault::new(kind, words.clone()).into()));
                }
            }
        }
    }

    /// All of it, or nothing.
    fn commit(&self, batch: &[Job]) -> rusqlite::Result<Vec<Done>> {
        let mut gathered = Gathered::default();
        let done = self.transact(batch, &mut gathered);
        if done.is_err() {
            for (id, attempt) in &gathered.begun {
                self.core.hub.over(id, *attempt);
            }
            return done;
        }
        for news in &gathered.news {
            self.core.hub.tell(news);
        }
        if !gathered.news.is_empty() {
            self.core.runners.ring_others();
        }
        done
    }

    fn transact(&self, batch: &[Job], gathered: &mut Gathered) -> rusqlite::Result<Vec<Done>> {
        let now = self.core.clock.now();
        let transaction = self.core.runners.in_turn(|| self.begin())?;
        let before = rows::last_change(&transaction)?;
        gathered.change = before;
        let done = batch.iter().map(|job| self.core.execute(&transaction, job, now, gathered));
        let done = done.collect::<rusqlite::Result<Vec<_>>>()?;
        if gathered.change > before {
            transaction.prepare_cached("UPDATE counter SET change = ?1")?.execute([gathered.change])?;
        }
        transaction.commit()?;
        Ok(done)
    }

    /// A transaction that holds the lock of the file; waited for at short intervals, for SQLite's own become long.
    fn begin(&self) -> rusqlite::Result<Transaction<'_>> {
        let until = Instant::now() + self.core.busy_timeout;
        loop {
            match Transaction::new_unchecked(&self.database, TransactionBehavior::Immediate) {
                Err(error) if kind(&error) == FaultKind::Busy && Instant::now() < until => thread::sleep(TURN),
                begun => return begun,
            }
        }
    }

    /// Tells what lasts now. A run that nobody takes any more is dropped, and so its task is not left behind.
    fn answer(&self, job: Job, done: Done) {
        match (job, done) {
            (Job::Create { run, reply }, Done::Created) => drop(reply.send(Ok(run))),
            (Job::Create { mut run, reply }, Done::Refused(error)) => {
                run.disarm();
                self.core.hub.over(&run.task().summary.id, run.task().attempt);
                drop(reply.send(Err(error)));
            }
            (Job::Apply { reply: Some(reply), .. }, Done::Applied(done)) => drop(reply.send(Ok(*done))),
            (Job::Apply { reply: Some(reply), .. }, Done::Refused(error)) => drop(reply.send(Err(error))),
            (Job::Recover { store, reply }, Done::Recovered(begun)) => {
                let store: Arc<dyn TaskStore> = Arc::new(store);
                let runs = begun.into_iter().map(|(task, signal)| Run::new(task, Arc::clone(&store), signal)).collect();
                drop(reply.send(Ok(runs)));
            }
            (Job::Recover { reply, .. }, Done::Refused(error)) => drop(reply.send(Err(error))),
            (Job::Sweep { reply }, Done::Swept(swept)) => drop(reply.send(Ok(swept))),
            (Job::Sweep { reply }, Done::Refused(error)) => drop(reply.send(Err(error))),
            // Nobody asked, or another job's: there are none.
            (
                Job::Create { .. } | Job::Apply { .. } | Job::Recover { .. } | Job::Sweep { .. },
                Done::Created | Done::Applied(_) | Done::Recovered(_) | Done::Swept(_) | Done::Refused(_),
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
        gathered: &mut Gathered,
    ) -> rusqlite::Result<Done> {
        match job {
            // Who has gone away before anything was written made nothing.
            Job::Create { reply, .. } if reply.is_closed() => Ok(Done::Refused(TaskError::NotFound)),
            Job::Create { run, .. } => self.create(database, run.task(), now, gathered),
            Job::Apply { access, id, expected, step, .. } => {
                let Some((number, mut task)) = rows::load(database, id)? else {
                    return Ok(Done::Refused(TaskError::NotFound));
                };
                match task.apply(access, *expected, step, now, &self.limits) {
                    Ok(effect) => {
                        match effect {
                            Effect::Changed | Effect::Kept => gathered.save(database, number, &task)?,
                            Effect::Unchanged | Effect::TooLate => {}
                        }
                        Ok(Done::Applied(Box::new((task, effect))))
                    }
                    Err(error) => Ok(Done::Refused(error)),
                }
            }
            Job::Recover { .. } => self.recover(database, now, gathered),
            Job::Sweep { .. } => self.sweep(database, now, gathered),
        }
    }

    fn create(
        &self,
        database: &Connection,
        task: &Task,
        now: Timestamp,
        gathered: &mut Gathered,
    ) -> rusqlite::Result<Done> {
        let (owner, limit) = (rows::owner_text(&task.owner), self.limits.tasks_per_owner);
        let has = || {
            let mut select = database.prepare_cached("SELECT tasks FROM owner WHERE name = ?1")?;
            select.query_row([&owner], |row| row.get::<_, i64>(0)).optional()
        };
        if has()?.unwrap_or(0) >= i64::from(limit) {
            delete(database, now)?;
            if has()?.unwrap_or(0) >= i64::from(limit) {
                return Ok(Done::Refused(TaskError::TooMany { limit }));
            }
        }
        gathered.change += 1;
        rows::insert(database, gathered.change, task)?;
        database
            .prepare_cached("INSERT INTO owner VALUES (?1, 1) ON CONFLICT DO UPDATE SET tasks = tasks + 1")?
            .execute([&owner])?;
        Ok(Done::Created)
    }

    fn recover(&self, database: &Connection, now: Timestamp, gathered: &mut Gathered) -> rusqlite::Result<Done> {
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
            let claim = task.claim(self.runners.name(), now);
            gathered.save(database, number, &task)?;
            match claim {
                Claim::Resumed => {
                    // Before anybody else can know of the run, so that no cancel is missed.
                    let signal = self.hub.run(id, task.attempt);
                    self.stir();
                    gathered.begun.push((id.clone(), task.attempt));
                    resumed.push((task, signal));
                }
                Claim::Settled => {}
            }
        }
        Ok(Done::Recovered(resumed))
    }

    fn sweep(&self, database: &Connection, now: Timestamp, gathered: &mut Gathered) -> rusqlite::Result<Done> {
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
                gathered.save(database, number, &task)?;
                cancelled += 1;
            }
        }
        let mut select = database.prepare_cached("SELECT min(expires) FROM task WHERE expires > ?1")?;
        let next: Option<i64> = select.query_row([rows::whole(now.0)], |row| row.get(0))?;
        let next = next.map(|next| Timestamp(next.unsigned_abs()));
        Ok(Done::Swept(Swept { cancelled, deleted, next }))
    }
}

impl Gathered {
    fn save(&mut self, database: &Connection, number: i64, task: &Task) -> rusqlite::Result<()> {
        self.change += 1;
        rows::update(database, number, self.change, task)?;
        self.news.push(News::from(task));
        Ok(())
    }
}

fn ids(database: &Connection, select: &str, params: impl rusqlite::Params) -> rusqlite::Result<Vec<TaskId>> {
    let mut select = database.prepare_cached(select)?;
    let found = select.query_map(params, |row| Ok(TaskId::received(row.get_ref(0)?.as_str()?)))?;
    found.collect()
}

/// Deletes the settled tasks whose ttl is over, and says how many.
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

/// What is said when the threads of a store are gone, which only a panic of theirs brings about.
pub(super) fn closed<E>(_: E) -> TaskError {
    Fault::new(FaultKind::Closed, "its threads have ended").into()
}
