//! What ended sessions have left in containers.

use std::ffi::OsString;

use super::{
    command::{Action, ContainerCommand},
    ending::{CommandEnd, EndingError, InContainer},
    engine::{Engine, EngineError},
    listing::{self, Container},
};
use crate::{
    mark::{Mark, Place},
    record::Record,
};

/// What sessions whose shim has ended have left in containers.
#[derive(Debug, Default)]
pub struct LeftInContainers {
    /// One entry a container, or a command that may have left something in one.
    pub all: Vec<Left>,
    /// Engines that did not say what they have.
    pub silent: Vec<EngineError>,
    /// Marks of sessions that have left nothing in any container.
    pub clean: Vec<Mark>,
}

/// Something that a session has left in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The session's mark.
    pub mark: Mark,
    /// The session's name.
    pub session: String,
    /// What it is.
    pub what: What,
}

/// A container, or what was started in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A container of the session's own.
    Container(Container),
    /// Whatever this `exec` has started in a container that is not the session's. Whether it still runs is known once it is ended.
    Processes {
        /// The command.
        command: ContainerCommand,
        /// The container.
        container: String,
    },
}

impl LeftInContainers {
    /// Asks the engines that are installed, and those that the records name.
    #[must_use]
    pub fn find(records: &[Record], place: Place) -> Self {
        let is_over = |mark: &Mark| mark.place == place && !mark.shim.is_alive();
        let over = records.iter().filter(|record| is_over(&record.mark));
        let commands: Vec<(&Record, ContainerCommand)> =
            over.filter_map(|record| Some((record, recognise(record)?))).collect();
        let mut engines = Engine::installed();
        for (_, command) in &commands {
            if !engines.contains(&command.engine) {
                engines.push(command.engine.clone());
            }
        }
        let (containers, silent) = listing::list(&engines, None);
        let name = |mark: &Mark| {
            let record = records.iter().find(|record| record.mark == *mark);
            record.map_or_else(|| mark.shim.pid.to_string(), |record| record.session.clone())
        };
        let of = |container: Container| {
            let mark: Mark = container.mark.parse().ok().filter(is_over)?;
            // What was made and never started would be removed at its end, which never comes.
            let is_left = container.is_running() || (container.is_removed_at_end && container.state == "created");
            is_left.then(|| Left { mark, session: name(&mark), what: What::Container(container) })
        };
        let mut all: Vec<Left> = containers.into_iter().filter_map(of).collect();
        for (record, command) in &commands {
            if let Action::Exec { container, .. } = &command.action {
                let what = What::Processes { command: command.clone(), container: container.clone() };
                all.push(Left { mark: record.mark, session: record.session.clone(), what });
            }
        }
        let is_clean = |mark: &Mark| silent.is_empty() && all.iter().all(|left| left.mark != *mark);
        let clean = commands.iter().map(|(record, _)| record.mark).filter(is_clean).collect();
        Self { all, silent, clean }
    }
}

impl Left {
    /// Ends it. It blocks, for some fifteen seconds at most.
    ///
    /// # Errors
    ///
    /// When something may still run.
    pub fn end(&self) -> Result<(), EndingError> {
        let within = match &self.what {
            What::Container(container) => InContainer::listed(container),
            What::Processes { command, .. } => InContainer::of(command, &self.mark.to_string()),
        };
        within.end(CommandEnd::default())
    }

    /// Its name for a person, who may use it as a target.
    #[must_use]
    pub fn id(&self) -> &str {
        match &self.what {
            What::Container(container) => container.short_id(),
            What::Processes { container, .. } => container,
        }
    }
}

/// The command of a session that works in a container.
pub(crate) fn recognise(record: &Record) -> Option<ContainerCommand> {
    let words: Vec<OsString> = record.command.iter().map(Into::into).collect();
    ContainerCommand::recognise(&words)
}
