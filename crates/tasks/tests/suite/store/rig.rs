//! A store of each kind, a clock in the test's hands, and work that says when it stops.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rescind_tasks::{
    Access, CancelRecord, Cause, CauseCode, Json, MemoryStore, NewTask, Owner, Run, SqliteOptions, SqliteStore, Status,
    StoreLimits, Task, TaskDialect, TaskError, TaskId, TaskOutcome, TaskRequest, TaskStore, Timestamp, WallClock,
};
use tokio::sync::oneshot;

/// When every test begins.
pub(crate) const START: Timestamp = Timestamp(1_764_000_000_000);

pub(crate) const DIALECTS: [TaskDialect; 2] = [TaskDialect::November2025, TaskDialect::Extension];

#[derive(Default)]
pub(crate) struct HandClock(AtomicU64);

impl WallClock for HandClock {
    fn now(&self) -> Timestamp {
        START.after(Duration::from_millis(self.0.load(Ordering::SeqCst)))
    }
}

pub(crate) struct Rig {
    pub(crate) store: Arc<dyn TaskStore>,
    pub(crate) clock: Arc<HandClock>,
    limits: StoreLimits,
    folder: Option<tempfile::TempDir>,
}

impl Rig {
    pub(crate) fn pass(&self, span: Duration) {
        self.clock.0.fetch_add(u64::try_from(span.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// The same tasks as another process has them, as far as the store can have any.
    pub(crate) fn elsewhere(&self) -> Arc<dyn TaskStore> {
        match &self.folder {
            Some(folder) => Arc::new(open(folder, self.limits, &self.clock)),
            None => Arc::clone(&self.store),
        }
    }

    pub(crate) async fn begin(&self, dialect: TaskDialect) -> Run {
        self.store.create(new(dialect)).await.unwrap()
    }

    pub(crate) async fn task(&self, id: &TaskId) -> Task {
        self.store.task(&Owner::NONE, id).await.unwrap()
    }

    pub(crate) async fn status(&self, id: &TaskId) -> Status {
        self.task(id).await.summary.status
    }
}

/// Runs a test on a store of each kind.
pub(crate) fn on_every_store(test: impl AsyncFn(Rig)) {
    with_limits(StoreLimits::default(), test);
}

pub(crate) fn with_limits(limits: StoreLimits, test: impl AsyncFn(Rig)) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let clock = Arc::<HandClock>::default();
    let store = Arc::new(MemoryStore::with_clock(limits, Arc::clone(&clock) as _));
    runtime.block_on(test(Rig { store, clock, limits, folder: None }));

    let (clock, folder) = (Arc::<HandClock>::default(), tempfile::tempdir().unwrap());
    let store = Arc::new(open(&folder, limits, &clock));
    runtime.block_on(test(Rig { store, clock, limits, folder: Some(folder) }));
}

fn open(folder: &tempfile::TempDir, limits: StoreLimits, clock: &Arc<HandClock>) -> SqliteStore {
    // Whoever has to wake does by the doorbell, or never.
    let slow_check = Duration::from_secs(3600);
    let options = SqliteOptions { limits, clock: Arc::clone(clock) as _, slow_check, ..SqliteOptions::default() };
    SqliteStore::open(folder.path().join("tasks.db"), options).unwrap()
}

pub(crate) fn new(dialect: TaskDialect) -> NewTask {
    let params = Json::parse(r#"{"name":"build","arguments":{"target":"all"}}"#).unwrap();
    NewTask {
        owner: Owner::NONE,
        dialect,
        request: TaskRequest { method: "tools/call".into(), params: Some(params), meta: None },
        ttl: None,
        poll_interval: Some(Duration::from_secs(2)),
        message: Some("begun".into()),
    }
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn result() -> TaskOutcome {
    TaskOutcome::Result(json(r#"{"content":[]}"#))
}

pub(crate) fn stop() -> Cause {
    Cause::new(CauseCode::Caller).with_text("user pressed Stop")
}

pub(crate) const ANYBODY: Access = Access::Owner(Owner::NONE);

/// Work that goes on until it is cancelled, and says so by its own word.
pub(crate) struct Work {
    pub(crate) id: TaskId,
    stopped: oneshot::Receiver<CancelRecord>,
}

impl Work {
    /// Work that ends its task as `outcome` says, once it has stopped.
    pub(crate) fn begin(mut run: Run, outcome: TaskOutcome) -> Self {
        let (tell, stopped) = oneshot::channel();
        let id = run.task().summary.id.clone();
        tokio::spawn(async move {
            let cancel = run.cancelled().await;
            run.finish(outcome, None).await.unwrap();
            tell.send(cancel).unwrap();
        });
        Self { id, stopped }
    }

    /// Until it has stopped; why.
    pub(crate) async fn stopped(self) -> CancelRecord {
        self.stopped.await.unwrap()
    }

    pub(crate) fn goes_on(&mut self) -> bool {
        self.stopped.try_recv().is_err()
    }
}

pub(crate) fn is_missing<T>(found: Result<T, TaskError>) -> bool {
    matches!(found, Err(TaskError::NotFound))
}
