//! A store in a SQLite file that processes share.
//!
//! Three threads for a file: one writes, one reads, one sleeps until its doorbell rings and then reads the changes since its
//! last check. A subscriber registers before it loads its task, and a run before its task can be found, so no change is
//! missed in between. The next `attempt` voids every step of an earlier run, should that be alive after all.
//!
//! Writers take turns. SQLite's lock is not fair, and its retries become rarer: beside a process that writes without a
//! pause, a cancel waited for up to a second. So the process that writes next holds a lock of ours, and tries every 0.3 ms
//! to get SQLite's. The wait for that turn is limited to 100 ms, so that a process stopped in a debugger keeps no other out.

mod database;
mod doorbell;
mod reader;
mod rows;
mod runners;
mod watcher;
mod writer;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use self::{
    reader::Read,
    runners::Runners,
    watcher::Watcher,
    writer::{Change, Changes, Job, Writer, Written, closed},
};
use crate::{
    cursor,
    dialect::TaskDialect,
    error::{StoreFault, TaskError},
    followed::lock,
    id::TaskId,
    limits::StoreLimits,
    owner::Owner,
    revision::TaskRevision,
    step::{Access, Effect, Step},
    store::{Run, StoreFuture, SummaryPage, Swept, TaskStore},
    subscribers::Subscribers,
    task::{NewTask, Task},
    time::{SystemClock, WallClock},
};

/// How a [`SqliteStore`] is opened.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The limits of the store. Processes that share a file should agree on them.
    pub limits: StoreLimits,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// How long another program may hold the database before a step fails as
    /// [`Busy`](crate::StoreFaultKind::Busy). By default 5 s.
    pub busy_timeout: Duration,
    /// Most bytes of the file, without the write-ahead log. A step that needs more fails as
    /// [`Full`](crate::StoreFaultKind::Full). By default 4 GiB.
    pub file_bytes: u64,
    /// How often to check for changes of other processes while a task is run or waited for here. It only matters when a
    /// doorbell message is lost. By default 1 s.
    pub slow_check: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            limits: StoreLimits::default(),
            clock: Arc::new(SystemClock),
            busy_timeout: Duration::from_secs(5),
            file_bytes: 4 << 30,
            slow_check: Duration::from_secs(1),
        }
    }
}

/// A store in a SQLite file, for any number of processes of one user on one machine. Clones share the same store.
///
/// # Durability
///
/// A result is returned once its change is on the disk (write-ahead log, synchronised at each commit), and survives
/// `kill -9` and a power cut. Concurrent callers share one commit. A rejected step has changed nothing.
///
/// # Other processes
///
/// Beside the file is a folder, `NAME.runners`, that only its user can enter. In it each process has a locked file, by
/// which the others see that it is alive, and a socket, by which they wake it. So a cancel reaches the process that runs
/// the work at once, and a process that waits for nothing does nothing. Network file systems are not supported.
///
/// # Dropping it
///
/// Each [`Run`] holds a clone. Dropping the last clone waits until every step is written, as long as the disk takes, and
/// ends three threads.
#[derive(Clone)]
pub struct SqliteStore(Arc<Shared>);

struct Shared {
    core: Arc<Core>,
    /// `None` once the store is being dropped.
    queues: Option<Queues>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Queues {
    jobs: mpsc::Sender<Box<dyn Job>>,
    reads: mpsc::Sender<Read>,
}

/// What the threads share.
struct Core {
    subscribers: Arc<Subscribers>,
    runners: Runners,
    limits: StoreLimits,
    clock: Arc<dyn WallClock>,
    busy_timeout: Duration,
    slow_check: Duration,
    path: PathBuf,
    /// The watcher sleeps until it is woken, since there are no subscribers.
    asleep: AtomicBool,
    closing: AtomicBool,
}

impl SqliteStore {
    /// Opens the store at `path`, and creates it if needed; its folder must exist. Blocks while the disk is read.
    ///
    /// Interrupted tasks stay as they are until [`recover`](TaskStore::recover).
    ///
    /// # Errors
    ///
    /// The [kind](StoreFault::kind) says what is wrong with the file or its folder. Nothing is changed then.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreFault> {
        let SqliteOptions { limits, clock, busy_timeout, file_bytes, slow_check } = options;
        let path = database::locate(path.as_ref())?;
        let connect = || database::open(&path, busy_timeout, file_bytes);
        let (runners, connections) = Runners::join(&path, || Ok([connect()?, connect()?, connect()?]))?;
        let [for_writing, for_reading, for_watching] = connections;
        let subscribers = Arc::<Subscribers>::default();
        let (asleep, closing) = (AtomicBool::new(false), AtomicBool::new(false));
        let core =
            Arc::new(Core { subscribers, runners, limits, clock, busy_timeout, slow_check, path, asleep, closing });

        let writer = Writer::new(Arc::clone(&core), for_writing).map_err(database::fault)?;
        let watcher = Watcher::new(Arc::clone(&core), for_watching).map_err(database::fault)?;
        let (jobs, asked) = mpsc::channel();
        let (reads, wanted) = mpsc::channel();
        let threads = vec![
            start("tasks-write", move || writer.write(&asked))?,
            start("tasks-read", move || wanted.iter().for_each(|read: Read| read(&for_reading)))?,
            start("tasks-watch", move || watcher.watch())?,
        ];
        Ok(Self(Arc::new(Shared { core, queues: Some(Queues { jobs, reads }), threads: Mutex::new(threads) })))
    }

    /// Returns the canonical path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.core.path
    }

    /// Has `work` done in a transaction, and `answer` called with its result, without waiting.
    fn queue<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Changes<'_>) -> Written<T> + Send + 'static,
        answer: impl FnOnce(Result<T, TaskError>) + Send + 'static,
    ) {
        if let Some(queues) = &self.0.queues {
            // Fails only after a panic of the writer. Then the reply is dropped, which reports it.
            let _ = queues.jobs.send(Box::new(Change { work, answer, result: None }));
        }
    }

    /// Has `work` done in a transaction. What `finish` makes of its result is dropped if this future is.
    async fn write<T: Send + 'static, U: Send + 'static>(
        &self,
        work: impl FnMut(&mut Changes<'_>) -> Written<T> + Send + 'static,
        finish: impl FnOnce(Result<T, TaskError>) -> Result<U, TaskError> + Send + 'static,
    ) -> Result<U, TaskError> {
        let (reply, answer) = oneshot::channel();
        self.queue(work, move |result| drop(reply.send(finish(result))));
        answer.await.map_err(closed)?
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, TaskError> + Send + 'static,
    ) -> Result<T, TaskError> {
        let (reply, answer) = oneshot::channel();
        if let Some(queues) = &self.0.queues {
            // The caller may have gone.
            let _ = queues.reads.send(Box::new(move |database| drop(reply.send(read(database)))));
        }
        answer.await.map_err(closed)?
    }
}

impl Core {
    /// Wakes the watcher for a new subscriber.
    fn wake_watcher(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.runners.wake_self();
        }
    }
}

impl TaskStore for SqliteStore {
    fn create(&self, new: NewTask) -> StoreFuture<'_, Run> {
        Box::pin(async move {
            let core = &self.0.core;
            new.check(&core.limits)?;
            let id = TaskId::random()?;
            let runner = Arc::clone(core.runners.name());
            let task = Task::begun(new, id.clone(), runner, core.clock.now(), &core.limits);
            // Before the task can be found, so that no cancel is missed.
            let signal = core.subscribers.add_run(&id, task.attempt);
            core.wake_watcher();
            let mut run = Run::new(task.clone(), Arc::new(self.clone()), signal);
            let waiting = Arc::new(());
            let caller = Arc::downgrade(&waiting);
            let work = move |changes: &mut Changes<'_>| match caller.strong_count() {
                // The caller has gone: nothing is created.
                0 => Ok(Err(TaskError::NotFound)),
                _ => changes.create(&task),
            };
            let subscribers = Arc::clone(&core.subscribers);
            // If the caller goes now, the run is dropped, which fails its task.
            let created = self.write(work, move |created| {
                if created.is_err() {
                    run.disarm();
                    subscribers.remove_run(&run.task().summary.id, run.task().attempt);
                }
                created.map(|()| run)
            });
            let run = created.await;
            drop(waiting);
            run
        })
    }

    fn task<'a>(&'a self, owner: &'a Owner, id: &'a TaskId) -> StoreFuture<'a, Task> {
        let now = self.0.core.clock.now();
        let (owner, id) = (owner.clone(), id.clone());
        Box::pin(self.read(move |database| reader::task(database, &owner, &id, now)))
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
            let Core { limits, clock, .. } = &*self.0.core;
            let (now, at_most) = (clock.now(), at_most.clamp(1, limits.page.max(1)));
            let owner = owner.clone();
            self.read(move |database| reader::list(database, &owner, dialect, after, at_most, now)).await
        })
    }

    fn apply<'a>(
        &'a self,
        access: Access,
        id: &'a TaskId,
        expected: Option<TaskRevision>,
        step: Step,
    ) -> StoreFuture<'a, (Task, Effect)> {
        let id = id.clone();
        Box::pin(self.write(move |changes| changes.apply(&access, &id, expected, &step), |applied| applied))
    }

    fn changed<'a>(&'a self, owner: &'a Owner, id: &'a TaskId, seen: TaskRevision) -> StoreFuture<'a, Task> {
        Box::pin(async move {
            let core = &self.0.core;
            core.subscribers.change(id, seen, || core.wake_watcher(), || self.task(owner, id)).await
        })
    }

    fn recover(&self) -> StoreFuture<'_, Vec<Run>> {
        let store: Arc<dyn TaskStore> = Arc::new(self.clone());
        Box::pin(self.write(
            |changes| changes.recover(),
            move |acquired| {
                Ok(acquired?.into_iter().map(|(task, signal)| Run::new(task, Arc::clone(&store), signal)).collect())
            },
        ))
    }

    fn sweep(&self) -> StoreFuture<'_, Swept> {
        Box::pin(self.write(|changes| changes.sweep(), |swept| swept))
    }

    fn fail(&self, id: &TaskId, attempt: u32) {
        self.0.core.subscribers.remove_run(id, attempt);
        let id = id.clone();
        // Refused only if the run is void already.
        self.queue(move |changes| changes.apply(&Access::Run(attempt), &id, None, &Step::Fail), drop);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without their queues the writer and the reader end after the last job.
        self.queues = None;
        self.core.closing.store(true, Ordering::SeqCst);
        self.core.runners.wake_self();
        for thread in lock(&self.threads).drain(..) {
            // The writer itself may drop the last clone, which a job held.
            if thread.thread().id() != thread::current().id() {
                // A panic was reported to the callers that it concerned.
                let _ = thread.join();
            }
        }
    }
}

fn start(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreFault> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(body);
    started.map_err(|error| StoreFault::new(crate::error::StoreFaultKind::Io, error))
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limits, busy_timeout, file_bytes, slow_check, clock: _ } = self;
        let mut shown = f.debug_struct("SqliteOptions");
        shown.field("limits", limits).field("busy_timeout", busy_timeout);
        shown.field("file_bytes", file_bytes).field("slow_check", slow_check);
        shown.finish_non_exhaustive()
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.0.core.path).finish_non_exhaustive()
    }
}
