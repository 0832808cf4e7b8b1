//! The state machine of a task, without I/O.
//!
//! A store applies the steps of a task one at a time. So the order of a cancel and the end of the work decides their
//! race: the second meets a terminal status.

use std::sync::Arc;

use rescind_proto::cause::{Cause, CauseCode};

use crate::{
    dialect::TaskDialect,
    error::TaskError,
    input::Inputs,
    json::Json,
    limits::StoreLimits,
    outcome::TaskOutcome,
    owner::Owner,
    revision::TaskRevision,
    status::Status,
    task::{CancelRecord, Task},
    time::Timestamp,
};

/// The caller of a step.
///
/// It never grows: a store that did not know who asks would have to let it pass or refuse it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// A client, which finds only its own tasks (TASK-08).
    Owner(Owner),
    /// The run with this [`attempt`](Task::attempt). It is void once there is a later one.
    Run(u32),
    /// The host of the store: an operator, or the expiry of the ttl.
    Operator,
}

impl Access {
    /// Whether this caller may perform the step.
    #[must_use]
    pub const fn permits(&self, step: &Step) -> bool {
        match step {
            Step::SetWorking { .. } | Step::AskInput { .. } | Step::Finish { .. } | Step::Fail | Step::Release => {
                matches!(self, Self::Run(_))
            }
            Step::Answer { .. } => matches!(self, Self::Owner(_)),
            Step::Cancel { .. } => matches!(self, Self::Owner(_) | Self::Operator),
            Step::Expire => matches!(self, Self::Operator),
        }
    }
}

/// Something that happens to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The work sets the status to `working`.
    SetWorking {
        /// The status message.
        message: Option<Arc<str>>,
    },
    /// The work asks the client, in addition to its open questions.
    AskInput {
        /// The status message.
        message: Option<Arc<str>>,
        /// The questions by key. Empty in 2025-11-25, where each is a request of its own.
        inputs: Vec<(String, Json)>,
    },
    /// The client answers. Unknown and answered keys are ignored. After the last answer the task is `working` again.
    Answer {
        /// The answers by key, raw.
        responses: Vec<(String, Json)>,
    },
    /// A client or operator cancels: TASK-03 in 2025-11-25, TASK-21 in the extension.
    Cancel {
        /// Who asked, and why.
        cause: Cause,
    },
    /// The work has ended.
    Finish {
        /// Its outcome.
        outcome: TaskOutcome,
        /// The status message.
        message: Option<Arc<str>>,
    },
    /// The work was dropped without an outcome. The task fails.
    Fail,
    /// The work is released for another run. The status does not change.
    Release,
    /// The ttl has expired. A task that has not ended is cancelled, in both dialects.
    Expire,
}

/// The effect of a step.
///
/// It never grows: a store saves what changed and must know whether anything has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The task has changed.
    Changed,
    /// None: the task was already in that state.
    Unchanged,
    /// None: the cancelled task had ended (TASK-02, TASK-22).
    TooLate,
    /// A cancel had won. The outcome of the work is kept beside it (TASK-04, D38).
    Kept,
}

/// The result of acquiring a task without a living runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The new runner has to resume or fail the work.
    Resumed,
    /// Nothing is left to do: the task was cancelled, or its ttl has expired.
    Settled,
}

impl Task {
    /// Performs one step, or rejects it and changes nothing.
    ///
    /// With `expected`, it is rejected if the task has changed since that revision.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound) for a task of another owner, [`Superseded`](TaskError::Superseded) for a run that
    /// is void, [`NotPermitted`](TaskError::NotPermitted), [`Conflict`](TaskError::Conflict), [`Ended`](TaskError::Ended),
    /// [`NotCancelled`](TaskError::NotCancelled), [`TooLarge`](TaskError::TooLarge).
    pub fn apply(
        &mut self,
        access: &Access,
        expected: Option<TaskRevision>,
        step: &Step,
        now: Timestamp,
        limits: &StoreLimits,
    ) -> Result<Effect, TaskError> {
        match access {
            Access::Owner(owner) if !self.is_found_by(owner, now) => return Err(TaskError::NotFound),
            Access::Run(attempt) if self.runner.is_none() || self.attempt != *attempt => {
                return Err(TaskError::Superseded);
            }
            Access::Owner(_) | Access::Run(_) | Access::Operator => {}
        }
        if !access.permits(step) {
            return Err(TaskError::NotPermitted);
        }
        if expected.is_some_and(|expected| expected != self.revision) {
            return Err(TaskError::Conflict { found: self.revision });
        }
        let effect = match step {
            Step::SetWorking { message } => self.set_working(message.clone())?,
            Step::AskInput { message, inputs } => self.ask(message.clone(), inputs, limits)?,
            Step::Answer { responses } => self.answer(responses, limits)?,
            Step::Cancel { cause } => self.cancel(cause, now),
            Step::Finish { outcome, message } => self.finish(outcome, message.clone(), limits)?,
            Step::Fail => self.fail(),
            Step::Release => self.release(),
            Step::Expire => self.expire(now),
        };
        match effect {
            Effect::Changed | Effect::Kept => self.mark_changed(now),
            Effect::Unchanged | Effect::TooLate => {}
        }
        Ok(effect)
    }

    /// Acquires a task, whose runner is gone, for `runner`.
    pub(crate) fn acquire(&mut self, runner: &Arc<str>, now: Timestamp) -> Acquired {
        let expired = self.summary.is_expired(now);
        if expired {
            self.expire(now);
        }
        if self.cancel.is_some() && !self.summary.status.is_terminal() {
            self.set_status(Status::Cancelled);
        }
        self.mark_changed(now);
        if self.summary.status.is_terminal() {
            self.runner = None;
            return Acquired::Settled;
        }
        self.runner = Some(Arc::clone(runner));
        self.attempt = self.attempt.saturating_add(1);
        Acquired::Resumed
    }

    fn set_working(&mut self, message: Option<Arc<str>>) -> Result<Effect, TaskError> {
        self.check_not_ended()?;
        self.set_status(Status::Working);
        self.summary.message = message;
        Ok(Effect::Changed)
    }

    fn ask(
        &mut self,
        message: Option<Arc<str>>,
        asked: &[(String, Json)],
        limits: &StoreLimits,
    ) -> Result<Effect, TaskError> {
        self.check_not_ended()?;
        let mut inputs = self.inputs.clone();
        inputs.ask(asked);
        check_size(inputs.size(), limits)?;
        self.inputs = inputs;
        self.set_status(Status::InputRequired);
        self.summary.message = message;
        Ok(Effect::Changed)
    }

    fn answer(&mut self, responses: &[(String, Json)], limits: &StoreLimits) -> Result<Effect, TaskError> {
        self.check_not_ended()?;
        let mut inputs = self.inputs.clone();
        if !inputs.answer(responses) {
            return Ok(Effect::Unchanged);
        }
        check_size(inputs.size(), limits)?;
        self.inputs = inputs;
        if self.inputs.pending().next().is_none() {
            self.set_status(Status::Working);
        }
        Ok(Effect::Changed)
    }

    fn cancel(&mut self, cause: &Cause, now: Timestamp) -> Effect {
        if self.summary.status.is_terminal() {
            return Effect::TooLate;
        }
        if self.cancel.is_some() {
            return Effect::Unchanged;
        }
        self.cancel = Some(CancelRecord { cause: cause.clone(), at: now });
        // Without a runner no work can end otherwise.
        match self.summary.dialect {
            TaskDialect::November2025 => self.set_status(Status::Cancelled), // TASK-03
            TaskDialect::Extension if self.runner.is_none() => self.set_status(Status::Cancelled),
            TaskDialect::Extension => {} // TASK-21
        }
        Effect::Changed
    }

    fn finish(
        &mut self,
        outcome: &TaskOutcome,
        message: Option<Arc<str>>,
        limits: &StoreLimits,
    ) -> Result<Effect, TaskError> {
        if *outcome == TaskOutcome::Stopped && self.cancel.is_none() {
            return Err(TaskError::NotCancelled); // D25
        }
        check_size(outcome.json().map_or(0, Json::size), limits)?;
        let effect = match self.summary.status {
            Status::Working | Status::InputRequired => {
                self.set_status(outcome.status(self.summary.dialect));
                self.summary.message = message;
                Effect::Changed
            }
            Status::Cancelled => Effect::Kept, // TASK-04
            Status::Completed | Status::Failed => return Err(TaskError::Superseded),
        };
        self.outcome = Some(outcome.clone());
        self.runner = None;
        Ok(effect)
    }

    fn fail(&mut self) -> Effect {
        self.runner = None;
        match self.summary.status {
            Status::Working | Status::InputRequired if self.cancel.is_some() => self.set_status(Status::Cancelled),
            Status::Working | Status::InputRequired => {
                self.set_status(Status::Failed);
                self.summary.message = Some("the work ended without a result".into());
            }
            Status::Completed | Status::Failed | Status::Cancelled => {}
        }
        Effect::Changed
    }

    fn release(&mut self) -> Effect {
        self.runner = None;
        if self.cancel.is_some() && !self.summary.status.is_terminal() {
            self.set_status(Status::Cancelled);
        }
        Effect::Changed
    }

    fn expire(&mut self, now: Timestamp) -> Effect {
        if !self.summary.is_expired(now) || self.summary.status.is_terminal() {
            return Effect::Unchanged;
        }
        self.cancel.get_or_insert_with(|| CancelRecord { cause: Cause::new(CauseCode::Timeout), at: now });
        self.set_status(Status::Cancelled);
        Effect::Changed
    }

    const fn check_not_ended(&self) -> Result<(), TaskError> {
        let status = self.summary.status;
        if status.is_terminal() { Err(TaskError::Ended { status }) } else { Ok(()) }
    }

    /// Changes the status: the only place that does (TASK-01).
    fn set_status(&mut self, next: Status) {
        let status = self.summary.status;
        debug_assert!(status == next || status.may_become(next), "{status:?} to {next:?}");
        self.summary.status = next;
        if next.is_terminal() {
            self.inputs = Inputs::default();
            self.summary.message = None;
        }
    }

    fn mark_changed(&mut self, now: Timestamp) {
        self.revision.0 += 1;
        self.summary.updated = self.summary.updated.max(now);
    }
}

const fn check_size(bytes: usize, limits: &StoreLimits) -> Result<(), TaskError> {
    let limit = limits.outcome_bytes;
    if bytes > limit { Err(TaskError::TooLarge { bytes, limit }) } else { Ok(()) }
}
