//! Who, in this process, is to be told of a task: those who wait for its changes, and the one who runs its work.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rescind_proto::cause::{Cause, CauseCode};
use tokio::sync::watch;

use crate::{
    error::TaskError,
    id::TaskId,
    store::Reply,
    task::{Cancel, Revision, Task},
};

/// Locks what a panic cannot have left half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ways out: a listener removes its entry when it is the last of its task, a worker is removed by the news that its
/// run is over, or that it never began.
#[derive(Debug, Default)]
pub(crate) struct Hub(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    listeners: HashMap<TaskId, watch::Sender<Revision>>,
    workers: HashMap<TaskId, Worker>,
}

#[derive(Debug)]
struct Worker {
    attempt: u32,
    signal: watch::Sender<Option<Cancel>>,
}

/// What is told of a task.
#[derive(Clone, Debug)]
pub(crate) struct News {
    pub(crate) id: TaskId,
    pub(crate) revision: Revision,
    pub(crate) attempt: u32,
    /// Somebody runs its work.
    pub(crate) runs: bool,
    pub(crate) cancel: Option<Cancel>,
}

impl From<&Task> for News {
    fn from(task: &Task) -> Self {
        Self {
            id: task.summary.id.clone(),
            revision: task.revision,
            attempt: task.attempt,
            runs: task.runner.is_some(),
            cancel: task.cancel.clone(),
        }
    }
}

impl Hub {
    /// Whether there is nobody to be told of anything.
    #[cfg(feature = "sqlite")]
    pub(crate) fn is_idle(&self) -> bool {
        let tables = lock(&self.0);
        tables.listeners.is_empty() && tables.workers.is_empty()
    }

    /// Listens for changes of a task, from now on: whoever looks at the task afterwards misses none.
    pub(crate) fn listen(self: &Arc<Self>, id: &TaskId) -> Listener {
        let mut tables = lock(&self.0);
        let sender = tables.listeners.entry(id.clone()).or_insert_with(|| watch::Sender::new(Revision(0)));
        Listener { receiver: Some(sender.subscribe()), id: id.clone(), hub: Arc::clone(self) }
    }

    /// A run of that task begins here; to be called before anybody else can know of the run, so that no cancel is
    /// missed.
    pub(crate) fn run(&self, id: &TaskId, attempt: u32) -> watch::Receiver<Option<Cancel>> {
        let (signal, receiver) = watch::channel(None);
        lock(&self.0).workers.insert(id.clone(), Worker { attempt, signal });
        receiver
    }

    /// That run is over, or never began.
    pub(crate) fn over(&self, id: &TaskId, attempt: u32) {
        let mut tables = lock(&self.0);
        if tables.workers.get(id).is_some_and(|worker| worker.attempt == attempt) {
            tables.workers.remove(id);
        }
    }

    /// Tells whoever is concerned. News may come twice, and late; never before what they tell has happened.
    pub(crate) fn tell(&self, news: &News) {
        let mut tables = lock(&self.0);
        if let Some(listeners) = tables.listeners.get(&news.id) {
            listeners.send_if_modified(|told| {
                let is_new = *told < news.revision;
                *told = (*told).max(news.revision);
                is_new
            });
        }
        let Some(worker) = tables.workers.get(&news.id) else { return };
        if news.attempt < worker.attempt {
            return;
        }
        // Somebody else runs it now, who took this process for dead: the work here is in vain.
        let lost = || Cancel { cause: Cause::new(CauseCode::Disconnect), at: crate::time::Timestamp::default() };
        let cancel = if news.attempt > worker.attempt { Some(lost()) } else { news.cancel.clone() };
        if cancel.is_some() {
            worker.signal.send_if_modified(|told| {
                let is_first = told.is_none();
                if is_first {
                    *told = cancel;
                }
                is_first
            });
        }
        if news.attempt > worker.attempt || !news.runs {
            tables.workers.remove(&news.id);
        }
    }
}

/// Hears of changes of one task.
#[derive(Debug)]
pub(crate) struct Listener {
    receiver: Option<watch::Receiver<Revision>>,
    id: TaskId,
    hub: Arc<Hub>,
}

impl Listener {
    /// The task, as `look` finds it, once it has a later revision than `seen` or nothing of it can change any more.
    /// Whoever looks has been listening before, and so misses no change between two looks.
    pub(crate) async fn change<'a>(
        mut self,
        look: impl Fn() -> Reply<'a, Task>,
        seen: Revision,
    ) -> Result<Task, TaskError> {
        loop {
            let task = look().await?;
            if task.revision > seen || task.is_settled() {
                return Ok(task);
            }
            self.heard().await;
        }
    }

    /// The next change after the last that was heard.
    async fn heard(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            // The hub keeps the sender as long as there is a listener.
            let _ = receiver.changed().await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut tables = lock(&self.hub.0);
        self.receiver = None;
        if tables.listeners.get(&self.id).is_some_and(|sender| sender.receiver_count() == 0) {
            tables.listeners.remove(&self.id);
        }
    }
}
