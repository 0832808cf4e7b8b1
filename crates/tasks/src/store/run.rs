//! The right to run the work of a task.

use std::{fmt, future::Future, sync::Arc};

use tokio::sync::watch;

use crate::{
    error::TaskError,
    json::Json,
    outcome::TaskOutcome,
    revision::TaskRevision,
    step::{Access, Effect, Step},
    store::{FinishEffect, TaskStore},
    task::{CancelRecord, Task},
};

/// The right to run the work of a task, and the way to it: receives the cancel, reports status and outcome.
///
/// There is one run for each [`attempt`](Task::attempt). Once a later run has taken the task over, the earlier one
/// receives a cancel, and each of its steps is rejected as [`Superseded`](TaskError::Superseded).
///
/// # Dropping it
///
/// A run that is dropped before its end fails the task; a cancelled task becomes `cancelled`. The store records that in
/// the background. For a process that dies, see [`TaskStore::recover`].
pub struct Run {
    task: Task,
    store: Arc<dyn TaskStore>,
    signal: watch::Receiver<Option<CancelRecord>>,
    is_over: bool,
}

impl Run {
    /// Creates the run of `task`, for stores. `signal` carries the cancel.
    #[must_use]
    pub fn new(task: Task, store: Arc<dyn TaskStore>, signal: watch::Receiver<Option<CancelRecord>>) -> Self {
        Self { task, store, signal, is_over: false }
    }

    /// Returns the task as of the last step of this run.
    #[must_use]
    pub const fn task(&self) -> &Task {
        &self.task
    }

    /// Whether the work was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.signal.borrow().is_some()
    }

    /// Returns the cancel, if there is one.
    #[must_use]
    pub fn cancel(&self) -> Option<CancelRecord> {
        self.signal.borrow().clone()
    }

    /// Returns a receiver of the cancel that does not hold the run.
    #[cfg(feature = "server")]
    pub(crate) fn signal(&self) -> watch::Receiver<Option<CancelRecord>> {
        self.signal.clone()
    }

    /// Waits for the cancel, from any process. Returns at once if it has come, and never if the run ends without one:
    /// race it against the work.
    ///
    /// The cause [`Disconnect`](crate::CauseCode::Disconnect) at time 0 means that another process took this one for
    /// dead and runs the task now. No cancel is recorded then.
    pub fn cancelled(&self) -> impl Future<Output = CancelRecord> + Send + use<> {
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

    /// Sets the status to `working`, with a status message.
    ///
    /// # Errors
    ///
    /// [`Ended`](TaskError::Ended) if it was cancelled (2025-11-25), [`Superseded`](TaskError::Superseded),
    /// [`Store`](TaskError::Store).
    pub async fn set_working(&mut self, message: Option<&str>) -> Result<(), TaskError> {
        self.step(Step::SetWorking { message: message.map(Arc::from) }).await.map(drop)
    }

    /// Asks the client. The task is `input_required` until every question is answered, or until
    /// [`set_working`](Self::set_working).
    ///
    /// # Errors
    ///
    /// Those of [`set_working`](Self::set_working), and [`TooLarge`](TaskError::TooLarge).
    pub async fn ask_input(&mut self, message: Option<&str>, inputs: Vec<(String, Json)>) -> Result<(), TaskError> {
        self.step(Step::AskInput { message: message.map(Arc::from), inputs }).await.map(drop)
    }

    /// Waits until the task has changed since the last step of this run, for example by an answer. Then
    /// [`task`](Self::task) returns the changed task.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound) once its ttl has expired, [`Store`](TaskError::Store).
    pub async fn changed(&mut self) -> Result<&Task, TaskError> {
        let seen: TaskRevision = self.task.revision;
        self.task = self.store.changed(&self.task.owner, &self.task.summary.id, seen).await?;
        Ok(&self.task)
    }

    /// Ends the work with this outcome, and the task unless a cancel has won. After an error the run goes on, and can
    /// finish otherwise.
    ///
    /// # Errors
    ///
    /// [`TooLarge`](TaskError::TooLarge), [`NotCancelled`](TaskError::NotCancelled), [`Superseded`](TaskError::Superseded),
    /// [`Store`](TaskError::Store).
    pub async fn finish(&mut self, outcome: TaskOutcome, message: Option<&str>) -> Result<FinishEffect, TaskError> {
        let effect = self.step(Step::Finish { outcome, message: message.map(Arc::from) }).await?;
        self.is_over = true;
        Ok(match effect {
            Effect::Changed | Effect::Unchanged => FinishEffect::Won(self.task.summary.status),
            Effect::Kept | Effect::TooLate => FinishEffect::Kept,
        })
    }

    /// Releases the work to a process that [recovers](TaskStore::recover) it, at an orderly shutdown for example.
    ///
    /// # Errors
    ///
    /// [`Superseded`](TaskError::Superseded), [`Store`](TaskError::Store). The run is dropped then.
    pub async fn release(mut self) -> Result<(), TaskError> {
        self.step(Step::Release).await?;
        self.is_over = true;
        Ok(())
    }

    /// Makes dropping the run do nothing, for stores that did not create the task.
    pub fn disarm(&mut self) {
        self.is_over = true;
    }

    async fn step(&mut self, step: Step) -> Result<Effect, TaskError> {
        let access = Access::Run(self.task.attempt);
        let done = self.store.apply(access, &self.task.summary.id, None, step).await;
        if matches!(done, Err(TaskError::Superseded)) {
            self.is_over = true;
        }
        let (task, effect) = done?;
        self.task = task;
        Ok(effect)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.is_over {
            self.store.fail(&self.task.summary.id, self.task.attempt);
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("task", &self.task).field("is_over", &self.is_over).finish_non_exhaustive()
    }
}
