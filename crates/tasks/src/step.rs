//! What can happen to a task: the one place that decides it, without I/O.
//!
//! The race of a cancel and the end of the work is decided here by order alone: a store applies one step at a time to
//! one task, and whichever comes second meets a terminal status.

use std::sync::Arc;

use rescind_proto::cause::{Cause, CauseCode};

use crate::{
    error::TaskError,
    input::Inputs,
    json::Json,
    limits::Limits,
    outcome::Outcome,
    owner::Owner,
    status::Status,
    task::{Cancel, Dialect, Revision, Task},
    time::Timestamp,
};

/// In whose name a step is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// A client's, who finds its own tasks only (TASK-08).
    Owner(Owner),
    /// That of the work's: of the run with this [`attempt`](Task::attempt), and void once there is a later one.
    Run(u32),
    /// That of whoever runs the machine: an operator, the expiry.
    Operator,
}

impl Access {
    /// Whether such a step is theirs to take.
    #[must_use]
    pub const fn may(&self, step: &Step) -> bool {
        match step {
            Step::Work { .. } | Step::AskInput { .. } | Step::Finish { .. } | Step::Abandon | Step::Leave => {
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
pub enum Step {
    /// The work goes on, and says so in words.
    Work {
        /// The status in words.
        message: Option<Arc<str>>,
    },
    /// The work asks the client, besides what it asked already.
    AskInput {
        /// The status in words.
        message: Option<Arc<str>>,
        /// The questions; none, where they travel as requests of their own (2025-11-25).
        inputs: Vec<(String, Json)>,
    },
    /// The client answers. Unknown and answered keys are ignored; with the last answer the task is `working` again.
    Answer {
        /// The answers by key, raw.
        responses: Vec<(String, Json)>,
    },
    /// Somebody cancels: TASK-03 in 2025-11-25, TASK-21 in the extension.
    Cancel {
        /// Who and why.
        cause: Cause,
    },
    /// The work has ended.
    Finish {
        /// With what.
        outcome: Outcome,
        /// The status in words.
        message: Option<Arc<str>>,
    },
    /// The work was given up without an end: the task has failed.
    Abandon,
    /// The work is left for somebody else to take up: the task stays as it is.
    Leave,
    /// Its ttl is over: what has not ended is cancelled, in both dialects.
    Expire,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The task has changed.
    Changed,
    /// Nothing: what was asked was so already.
    Unchanged,
    /// Nothing: a cancel of a task that has ended (TASK-02, TASK-22).
    TooLate,
    /// A cancel had won; what the work came to is kept beside it (TASK-04, D38).
    Kept,
}

/// What became of a task that was found without a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Its work is to be taken up, or given up, by the one who claimed it.
    Resumed,
    /// Nothing is left to do: it was cancelled, or its ttl is over.
    Settled,
}

impl Task {
    /// Takes one step, or refuses it and changes nothing.
    ///
    /// With `expected`, only if the task has not changed since that revision.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound) for an owner who has no such task, [`Lost`](TaskError::Lost) for a run that
    /// is void, [`NotTheirs`](TaskError::NotTheirs), [`Conflict`](TaskError::Conflict), [`Ended`](TaskError::Ended),
    /// [`NotCancelled`](TaskError::NotCancelled), [`TooLarge`](TaskError::TooLarge).
    pub fn apply(
        &mut self,
        access: &Access,
        expected: Option<Revision>,
        step: &Step,
        now: Timestamp,
        limits: &Limits,
    ) -> Result<Effect, TaskError> {
        match access {
            Access::Owner(owner) if !self.is_found_by(owner, now) => return Err(TaskError::NotFound),
            Access::Run(attempt) if self.runner.is_none() || self.attempt != *attempt => return Err(TaskError::Lost),
            Access::Owner(_) | Access::Run(_) | Access::Operator => {}
        }
        if !access.may(step) {
            return Err(TaskError::NotTheirs);
        }
        if expected.is_some_and(|expected| expected != self.revision) {
            return Err(TaskError::Conflict { found: self.revision });
        }
        let effect = match step {
            Step::Work { message } => self.work(message.clone())?,
            Step::AskInput { message, inputs } => self.ask(message.clone(), inputs, limits)?,
            Step::Answer { responses } => self.answer(responses, limits)?,
            Step::Cancel { cause } => self.cancel(cause, now),
            Step::Finish { outcome, message } => self.finish(outcome, message.clone(), limits)?,
            Step::Abandon => self.abandon(),
            Step::Leave => self.leave(),
            Step::Expire => self.expire(now),
        };
        match effect {
            Effect::Changed | Effect::Kept => self.touch(now),
            Effect::Unchanged | Effect::TooLate => {}
        }
        Ok(effect)
    }

    /// Hands the task to `runner`, since whoever ran it is gone.
    pub(crate) fn claim(&mut self, runner: &Arc<str>, now: Timestamp) -> Claim {
        let expired = self.summary.is_expired(now);
        if expired {
            self.expire(now);
        }
        if self.cancel.is_some() && !self.summary.status.is_terminal() {
            self.enter(Status::Cancelled);
        }
        self.touch(now);
        if self.summary.status.is_terminal() {
            self.runner = None;
            return Claim::Settled;
        }
        self.runner = Some(Arc::clone(runner));
        self.attempt = self.attempt.saturating_add(1);
        Claim::Resumed
    }

    fn work(&mut self, message: Option<Arc<str>>) -> Result<Effect, TaskError> {
        self.go_on()?;
        self.enter(Status::Working);
        self.summary.message = message;
        Ok(Effect::Changed)
    }

    fn ask(
        &mut self,
        message: Option<Arc<str>>,
        asked: &[(String, Json)],
        limits: &Limits,
    ) -> Result<Effect, TaskError> {
        self.go_on()?;
        let mut inputs = self.inputs.clone();
        inputs.ask(asked);
        within(inputs.size(), limits)?;
        self.inputs = inputs;
        self.enter(Status::InputRequired);
        self.summary.message = message;
        Ok(Effect::Changed)
    }

    fn answer(&mut self, responses: &[(String, Json)], limits: &Limits) -> Result<Effect, TaskError> {
        self.go_on()?;
        let mut inputs = self.inputs.clone();
        if !inputs.answer(responses) {
            return Ok(Effect::Unchanged);
        }
        within(inputs.size(), limits)?;
        self.inputs = inputs;
        if self.inputs.pending().next().is_none() {
            self.enter(Status::Working);
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
        self.cancel = Some(Cancel { cause: cause.clone(), at: now });
        // Without anybody who runs it there is no work that could end otherwise.
        match self.summary.dialect {
            Dialect::November2025 => self.enter(Status::Cancelled), // TASK-03
            Dialect::Extension if self.runner.is_none() => self.enter(Status::Cancelled),
            Dialect::Extension => {} // TASK-21
        }
        Effect::Changed
    }

    fn finish(&mut self, outcome: &Outcome, message: Option<Arc<str>>, limits: &Limits) -> Result<Effect, TaskError> {
        if *outcome == Outcome::Stopped && self.cancel.is_none() {
            return Err(TaskError::NotCancelled); // D25
        }
        within(outcome.json().map_or(0, Json::size), limits)?;
        let effect = match self.summary.status {
            Status::Working | Status::InputRequired => {
                self.enter(outcome.status(self.summary.dialect));
                self.summary.message = message;
                Effect::Changed
            }
            Status::Cancelled => Effect::Kept, // TASK-04
            Status::Completed | Status::Failed => return Err(TaskError::Lost),
        };
        self.outcome = Some(outcome.clone());
        self.runner = None;
        Ok(effect)
    }

    fn abandon(&mut self) -> Effect {
        self.runner = None;
        match self.summary.status {
            Status::Working | Status::InputRequired if self.cancel.is_some() => self.enter(Status::Cancelled),
            Status::Working | Status::InputRequired => {
                self.enter(Status::Failed);
                self.summary.message = Some("its work was given up".into());
            }
            Status::Completed | Status::Failed | Status::Cancelled => {}
        }
        Effect::Changed
    }

    fn leave(&mut self) -> Effect {
        self.runner = None;
        if self.cancel.is_some() && !self.summary.status.is_terminal() {
            self.enter(Status::Cancelled);
        }
        Effect::Changed
    }

    fn expire(&mut self, now: Timestamp) -> Effect {
        if !self.summary.is_expired(now) || self.summary.status.is_terminal() {
            return Effect::Unchanged;
        }
        self.cancel.get_or_insert_with(|| Cancel { cause: Cause::new(CauseCode::Timeout), at: now });
        self.enter(Status::Cancelled);
        Effect::Changed
    }

    /// Steps of the work go only on from a status that is not terminal.
    const fn go_on(&self) -> Result<(), TaskError> {
        let status = self.summary.status;
        if status.is_terminal() { Err(TaskError::Ended { status }) } else { Ok(()) }
    }

    /// The one place where a status changes (TASK-01).
    fn enter(&mut self, next: Status) {
        let status = self.summary.status;
        debug_assert!(status == next || status.may_become(next), "{status:?} to {next:?}");
        self.summary.status = next;
        if next.is_terminal() {
            self.inputs = Inputs::default();
            self.summary.message = None;
        }
    }

    fn touch(&mut self, now: Timestamp) {
        self.revision.0 += 1;
        self.summary.updated = self.summary.updated.max(now);
    }
}

const fn within(bytes: usize, limits: &Limits) -> Result<(), TaskError> {
    let limit = limits.outcome_bytes;
    if bytes > limit { Err(TaskError::TooLarge { bytes, limit }) } else { Ok(()) }
}
