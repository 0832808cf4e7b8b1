//! Tasks that outlive their process, in one file shared by the processes of a machine.

mod database;
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

use tokio::sync::oneshot;

use self::{
    reader::Read,
    runners::Runners,
    watcher::Watcher,
    writer::{Job, Writer, closed},
};
use crate::{
    cursor,
    error::{Fault, TaskError},
    hub::{Hub, lock},
    id::TaskId,
    limits::Limits,
    owner::Owner,
    run::Run,
    step::{Access, Effect, Step},
    store::{Page, Reply, Swept, TaskStore},
    task::{Dialect, NewTask, Revision, Task},
    time::{Clock, SystemClock},
};

/// How a [`SqliteStore`] is opened.
#[derive(Clone)]
pub struct SqliteOptions {
    /// What the store holds at most; processes that share a file should agree on them.
    pub limits: Limits,
    /// Where it learns the time on the wall.
    pub clock: Arc<dyn Clock>,
    /// How long another program may hold the database before a step is refused as
    /// [`Busy`](crate::FaultKind::Busy). By default 5 s.
    pub busy_timeout: Duration,
    /// Bytes of the file at most, the write-ahead log apart; a step that needs more is refused as
    /// [`Full`](crate::FaultKind::Full). By default 4 GiB.
    pub file_bytes: u64,
    /// How often it looks by itself for what other processes did, as long as a task is run or waited for here. Only a
    /// lost doorbell makes anybody wait for that. By default 1 s.
    pub slow_check: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            clock: Arc::new(SystemClock),
            busy_timeout: Duration::from_secs(5),
            file_bytes: 4 << 30,
            slow_check: Duration::from_secs(1),
        }
    }
}

/// A store in a SQLite file, for any number of processes of one user on one machine. Clones are the same store.
///
/// # What lasts
///
/// Every reply is of something that is on the disk (write-ahead log, synchronised at each commit), and survives a
/// `kill -9` and a power cut. Callers that come together share one commit. A step that is refused has changed nothing.
///
/// # Other processes
///
/// Beside the file stands a folder, `NAME.runners`, which only its user can enter: a locked file for each process, by
/// which the others know that it lives, and a socket by which they wake it. So a cancel reaches the process that runs
/// the work at once, and a process that waits for nothing does nothing. A file system of the network will not do.
///
/// # Dropping it
///
/// The last clone (runs hold one each) waits until all that was asked is written, which takes as long as the disk
/// does, and ends three threads.
#[derive(Clone)]
pub struct SqliteStore(Arc<Shared>);

struct Shared {
    core: Arc<Core>,
    /// Present until the end.
    doors: Option<Doors>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Doors {
    jobs: mpsc::Sender<Job>,
    reads: mpsc::Sender<Read>,
}

/// What the threads share.
struct Core {
    hub: Arc<Hub>,
    runners: Runners,
    limits: Limits,
    clock: Arc<dyn Clock>,
    busy_timeout: Duration,
    slow_check: Duration,
    path: PathBuf,
    /// The watcher sleeps until its doorbell rings: there was nobody to be told of anything.
    asleep: AtomicBool,
    closing: AtomicBool,
}

impl SqliteStore {
    /// Opens the store at `path`, or makes it; its folder must exist. Blocks for as long as the disk does.
    ///
    /// Interrupted tasks are left alone until [`recover`](TaskStore::recover).
    ///
    /// # Errors
    ///
    /// The file or its folder cannot be reached or written, is damaged, of something else, or was written by a later
    /// version: the [kind](Fault::kind) says which. Nothing is changed then.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, Fault> {
        let SqliteOptions { limits, clock, busy_timeout, file_bytes, slow_check } = options;
        let path = database::settle(path.as_ref())?;
        let connect = || database::open(&path, busy_timeout, file_bytes);
        let (runners, connections) = Runners::join(&path, || Ok([connect()?, connect()?, connect()?]))?;
        let [for_writing, for_reading, for_watching] = connections;
        let hub = Arc::<Hub>::default();
        let (asleep, closing) = (AtomicBool::new(false), AtomicBool::new(false));
        let core = Arc::new(Core { hub, runners, limits, clock, busy_timeout, slow_check, path, asleep, closing });

        let writer = Writer::new(Arc::clone(&core), for_writing).map_err(database::fault)?;
        let watcher = Watcher::new(Arc::clone(&core), for_watching).map_err(database::fault)?;
        let (jobs, asked) = mpsc::channel();
        let (reads, wanted) = mpsc::channel();
        let threads = vec![
            start("tasks-write", move || writer.write(&asked))?,
            start("tasks-read", move || reader::read(&for_reading, &wanted))?,
            start("tasks-watch", move || watcher.watch())?,
        ];
        Ok(Self(Arc::new(Shared { core, doors: Some(Doors { jobs, reads }), threads: Mutex::new(threads) })))
    }

    /// The file, by its one true path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.core.path
    }

    fn ask(&self, job: Job) {
        if let Some(doors) = &self.0.doors {
            // Refused only after a panic of the writer: then the reply is dropped, which says so.
            let _ = doors.jobs.send(job);
        }
    }

    async fn read<T>(&self, read: impl FnOnce(oneshot::Sender<Result<T, TaskError>>) -> Read) -> Result<T, TaskError> {
        let (reply, answer) = oneshot::channel();
        if let Some(doors) = &self.0.doors {
            let _ = doors.reads.send(read(reply));
        }
        answer.await.map_err(closed)?
    }
}

impl Core {
    /// Somebody came to wait or to work: the watcher is not to sleep through it.
    fn stir(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.runners.ring_own();
        }
    }
}

impl TaskStore for SqliteStore {
    fn create(&self, new: NewTask) -> Reply<'_, Run> {
        Box::pin(async move {
            let core = &self.0.core;
            new.check(&core.limits)?;
            let id = TaskId::random()?;
            let runner = Arc::clone(core.runners.name());
            let task = Task::begun(new, id.clone(), runner, core.clock.now(), &core.limits);
            // Before anybody else can find the task, so that no cancel is missed.
            let signal = core.hub.run(&id, task.attempt);
            core.stir();
            let run = Run::new(task, Arc::new(self.clone()), signal);
            let (reply, answer) = oneshot::channel();
            self.ask(Job::Create { run, reply });
            answer.await.map_err(closed)?
        })
    }

    fn task<'a>(&'a self, owner: &'a Owner, id: &'a TaskId) -> Reply<'a, Task> {
        let now = self.0.core.clock.now();
        Box::pin(self.read(move |reply| Read::Task { owner: owner.clone(), id: id.clone(), now, reply }))
    }

    fn list<'a>(
        &'a self,
        owner: &'a Owner,
        dialect: Dialect,
        cursor: Option<&'a str>,
        at_most: usize,
    ) -> Reply<'a, Page> {
        Box::pin(async move {
            let after = cursor::read(cursor)?;
            let Core { limits, clock, .. } = &*self.0.core;
            let (now, at_most) = (clock.now(), at_most.clamp(1, limits.page.max(1)));
            self.read(move |reply| Read::List { owner: owner.clone(), dialect, after, at_most, now, reply }).await
        })
    }

    fn apply<'a>(
        &'a self,
        access: Access,
        id: &'a TaskId,
        expected: Option<Revision>,
        step: Step,
    ) -> Reply<'a, (Task, Effect)> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.ask(Job::Apply { access, id: id.clone(), expected, step, reply: Some(reply) });
            answer.await.map_err(closed)?
        })
    }

    fn changed<'a>(&'a self, owner: &'a Owner, id: &'a TaskId, seen: Revision) -> Reply<'a, Task> {
        Box::pin(async move {
            let listener = self.0.core.hub.listen(id);
            self.0.core.stir();
            listener.change(|| self.task(owner, id), seen).await
        })
    }

    fn recover(&self) -> Reply<'_, Vec<Run>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.ask(Job::Recover { store: self.clone(), reply });
            answer.await.map_err(closed)?
        })
    }

    fn sweep(&self) -> Reply<'_, Swept> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.ask(Job::Sweep { reply });
            answer.await.map_err(closed)?
        })
    }

    fn abandon(&self, id: &TaskId, attempt: u32) {
        self.0.core.hub.over(id, attempt);
        let access = Access::Run(attempt);
        self.ask(Job::Apply { access, id: id.clone(), expected: None, step: Step::Abandon, reply: None });
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without its doors the writer and the reader end once all that was asked is done.
        self.doors = None;
        self.core.closing.store(true, Ordering::SeqCst);
        self.core.runners.ring_own();
        for thread in lock(&self.threads).drain(..) {
            // The last clone may have been in a job of the writer's own.
            if thread.thread().id() != thread::current().id() {
                // A panic of theirs was told to whoever asked for something.
                let _ = thread.join();
            }
        }
    }
}

fn start(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Fault> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(body);
    started.map_err(|error| Fault::new(crate::error::FaultKind::Io, error))
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
