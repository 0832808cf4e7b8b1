//! The right to run the work of a task.

use std::{fmt, future::Future, sync::Arc};

use tokio::sync::watch;

use crate::{
    error::TaskError,
    json::Json,
    outcome::Outcome,
    step::{Access, Effect, Step},
    store::{Finished, TaskStore},
    task::{Cancel, Revision, Task},
};

/// Held by whoever runs the work of a task: hears of its cancel, says how far it is and how it ended.
///
/// There is one for each [`attempt`](Task::attempt); once the task was handed to somebody else, every step of an
/// earlier one is refused as [`Lost`](TaskError::Lost), and the earlier one hears a cancel.
///
/// # Dropping it
///
/// before its end gives the work up: the task has failed, or, if it was cancelled, is `cancelled`. That is written
/// without anybody waiting for it. If the process dies instead, see [`TaskStore::recover`].
pub struct Run {
    task: Task,
    store: Arc<dyn TaskStore>,
    signal: watch::Receiver<Option<Cancel>>,
    over: bool,
}

impl Run {
    /// For stores: the run of `task` by whoever will hold it; `signal` carries its cancel.
    #[must_use]
    pub fn new(task: Task, store: Arc<dyn TaskStore>, signal: watch::Receiver<Option<Cancel>>) -> Self {
        Self { task, store, signal, over: false }
    }

    /// The task as it was after the last step of this run.
    #[must_use]
    pub const fn task(&self) -> &Task {
        &self.task
    }

    /// Whether the work is to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.signal.borrow().is_some()
    }

    /// The cancel, once there is one.
    #[must_use]
    pub fn cancel(&self) -> Option<Cancel> {
        self.signal.borrow().clone()
    }

    /// Carries the cancel to whoever holds no run.
    #[cfg(feature = "server")]
    pub(crate) fn signal(&self) -> watch::Receiver<Option<Cancel>> {
        self.signal.clone()
    }

    /// Waits for the cancel, from whatever process; at once, if it came before. Never ends if none comes, nor if the
    /// run ends before it: to be raced against the work.
    ///
    /// A cause [`Disconnect`](crate::CauseCode::Disconnect) at time 0 is on no record: this process was taken for dead,
    /// and the task was handed to another.
    pub fn cancelled(&self) -> impl Future<Output = Cancel> + Send + use<> {
        let mut signal = self.signal.clone();
        async move {
            loop {
                if let Some(cancel) = signal.borrow_and_update().clone() {
                    return cancel;
                }
                if signal.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Says in words how far the work is; the task is `working`.
    ///
    /// # Errors
    ///
    /// [`Ended`](TaskError::Ended) if it was cancelled (2025-11-25), [`Lost`](TaskError::Lost),
    /// [`Store`](TaskError::Store).
    pub async fn work(&mut self, message: Option<&str>) -> Result<(), TaskError> {
        self.step(Step::Work { message: message.map(Arc::from) }).await.map(drop)
    }

    /// Asks the client: the task is `input_required`, until all is answered or the work [goes on](Self::work).
    ///
    /// # Errors
    ///
    /// Those of [`work`](Self::work), and [`TooLarge`](TaskError::TooLarge).
    pub async fn ask_input(&mut self, message: Option<&str>, inputs: Vec<(String, Json)>) -> Result<(), TaskError> {
        self.step(Step::AskInput { message: message.map(Arc::from), inputs }).await.map(drop)
    }

    /// Waits until the task has changed since the last step of this run, by an answer say; then
    /// [`task`](Self::task) shows it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound) once its ttl is over, [`Store`](TaskError::Store).
    pub async fn changed(&mut self) -> Result<&Task, TaskError> {
        let seen: Revision = self.task.revision;
        self.task = self.store.changed(&self.task.owner, &self.task.summary.id, seen).await?;
        Ok(&self.task)
    }

    /// Ends the task with that, unless a cancel has won; after a refusal the run goes on, and can end otherwise.
    ///
    /// # Errors
    ///
    /// [`TooLarge`](TaskError::TooLarge), [`NotCancelled`](TaskError::NotCancelled), [`Lost`](TaskError::Lost),
    /// [`Store`](TaskError::Store).
    pub async fn finish(&mut self, outcome: Outcome, message: Option<&str>) -> Result<Finished, TaskError> {
        let effect = self.step(Step::Finish { outcome, message: message.map(Arc::from) }).await?;
        self.over = true;
        Ok(match effect {
            Effect::Changed | Effect::Unchanged => Finished::Won(self.task.summary.status),
            Effect::Kept | Effect::TooLate => Finished::Kept,
        })
    }

    /// Leaves the work to whoever [recovers](TaskStore::recover) it: at an orderly shutdown, say.
    ///
    /// # Errors
    ///
    /// [`Lost`](TaskError::Lost), [`Store`](TaskError::Store); the work is given up then.
    pub async fn leave(mut self) -> Result<(), TaskError> {
        self.step(Step::Leave).await?;
        self.over = true;
        Ok(())
    }

    /// For stores: the task was never made, or as it is now; no step follows from dropping this.
    pub fn disarm(&mut self) {
        self.over = true;
    }

    async fn step(&mut self, step: Step) -> Result<Effect, TaskError> {
        let access = Access::Run(self.task.attempt);
        let done = self.store.apply(access, &self.task.summary.id, None, step).await;
        if matches!(done, Err(TaskError::Lost)) {
            self.over = true;
        }
        let (task, effect) = done?;
        self.task = task;
        Ok(effect)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.over {
            self.store.abandon(&self.task.summary.id, self.task.attempt);
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("task", &self.task).field("over", &self.over).finish_non_exhaustive()
    }
}
