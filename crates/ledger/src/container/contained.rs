//! What sessions have in containers.

use super::{
    command::{Action, ContainerCommand},
    ending::{CommandEnd, EndingError, InContainer},
    engine::{Engine, EngineError},
    listing::{self, Container},
};
use crate::{
    record::Record,
    system::mark::{Mark, Place},
};

/// What is looked for, and which engines are asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope<'a> {
    /// What ended sessions have left, those without a record included: all engines that are installed are asked.
    Left,
    /// What the sessions with a record have, or the one with this name: only the engines that their commands name are
    /// asked, so none where no session works in a container.
    Recorded(Option<&'a str>),
}

/// What was found in containers.
#[derive(Debug, Default)]
pub struct ContainerScan {
    /// One entry a container, or a command that may have something in one.
    pub all: Vec<Contained>,
    /// The engines that were asked.
    pub engines: Vec<Engine>,
    /// Those that did not say what they have, and why.
    pub silent: Vec<EngineError>,
    /// Refusals of engines that are installed and that no session with a record has used: usually they do not run.
    pub idle: Vec<EngineError>,
    /// Marks of ended sessions that have left nothing in any container.
    pub clean: Vec<Mark>,
}

/// Something that a session has in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contained {
    /// The session's mark.
    pub mark: Mark,
    /// The session's name.
    pub session: String,
    /// Whether the session runs.
    pub standing: Standing,
    /// What it is.
    pub what: What,
}

/// Whether the session runs that something in a container belongs to.
///
/// It never grows: a session runs or it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It runs.
    Live,
    /// Its shim has ended, and has left this.
    Left,
}

/// A container, or what was started in one.
///
/// It never grows: each is ended in its own way, and what is listed must be possible to end.
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

impl ContainerScan {
    /// Asks the engines, all at once; each has ten seconds at most.
    #[must_use]
    pub fn of(records: &[Record], place: Place, scope: Scope<'_>) -> Self {
        let is_asked_for = |record: &Record| match scope {
            Scope::Left => Standing::of(record.mark) == Standing::Left,
            Scope::Recorded(session) => session.is_none_or(|session| record.session == session),
        };
        let here = records.iter().filter(|record| record.mark.place == place && is_asked_for(record));
        let commands: Vec<(&Record, ContainerCommand)> =
            here.filter_map(|record| Some((record, record.container_command()?))).collect();
        let mut engines = match scope {
            Scope::Left => Engine::installed(),
            Scope::Recorded(_) => Vec::new(),
        };
        for (_, command) in &commands {
            if !engines.contains(&command.engine) {
                engines.push(command.engine.clone());
            }
        }
        let (containers, errors) = listing::list(&engines, None);
        let used: Vec<&Engine> = commands.iter().map(|(_, command)| &command.engine).collect();
        let (idle, silent): (Vec<_>, Vec<_>) = errors.into_iter().partition(|error| error.is_refusal_beside(&used));
        let own = containers.into_iter().filter_map(|container| {
            let mark: Mark = container.mark.parse().ok().filter(|mark: &Mark| mark.place == place)?;
            Contained::of(records, mark, container)
        });
        let execs = commands.iter().filter_map(|(record, command)| Contained::of_exec(record, command));
        let mut all: Vec<Contained> = own.chain(execs).collect();
        if scope == Scope::Left {
            all.retain(|one| one.standing == Standing::Left);
        }
        let is_clean = |mark: &Mark| {
            silent.is_empty()
                && idle.is_empty()
                && Standing::of(*mark) == Standing::Left
                && all.iter().all(|one| one.mark != *mark)
        };
        let clean = commands.iter().map(|(record, _)| record.mark).filter(is_clean).collect();
        Self { all, engines, silent, idle, clean }
    }
}

impl Contained {
    /// A container with this mark; `None` if its session has ended and nothing of it is left.
    fn of(records: &[Record], mark: Mark, container: Container) -> Option<Self> {
        let standing = Standing::of(mark);
        let is_shown = match standing {
            Standing::Live => true,
            // What was made and never started would be removed at its end, which never comes.
            Standing::Left => container.is_running() || (container.is_removed_at_end && container.state == "created"),
        };
        let record = records.iter().find(|record| record.mark == mark);
        let session = record.map_or_else(|| mark.shim.pid.to_string(), |record| record.session.clone());
        is_shown.then_some(Self { mark, session, standing, what: What::Container(container) })
    }

    /// What the command of a session has started in a container that is not its own.
    fn of_exec(record: &Record, command: &ContainerCommand) -> Option<Self> {
        let Action::Exec { container, .. } = &command.action else { return None };
        let what = What::Processes { command: command.clone(), container: container.clone() };
        Some(Self { mark: record.mark, session: record.session.clone(), standing: Standing::of(record.mark), what })
    }

    /// Ends it. It blocks, for some fifteen seconds at most.
    ///
    /// # Errors
    ///
    /// When something may still run, or its session does.
    pub fn end(&self) -> Result<(), EndingError> {
        if Standing::of(self.mark) == Standing::Live {
            return Err(EndingError::Live { session: self.session.clone() });
        }
        let within = match &self.what {
            What::Container(container) => InContainer::listed(container),
            What::Processes { command, .. } => InContainer::of(command, &self.mark.to_string()),
        };
        within.end(CommandEnd::default())
    }

    /// The container: its id, or its name as `exec` has it.
    #[must_use]
    pub fn container(&self) -> &str {
        match &self.what {
            What::Container(container) => &container.id,
            What::Processes { container, .. } => container,
        }
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

impl Standing {
    /// What a session with this mark is now. One that has ended stays so.
    #[must_use]
    pub fn of(mark: Mark) -> Self {
        if mark.shim.is_alive() { Self::Live } else { Self::Left }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn what_a_live_session_has_is_not_ended() {
        let mark = Mark::next().unwrap();
        let words: Vec<OsString> = ["docker-that-is-not-there/docker", "exec", "house", "sh"].map(Into::into).into();
        let command = ContainerCommand::recognise(&words).unwrap();
        let what = What::Processes { command, container: "house".into() };
        let mut contained = Contained { mark, session: "50".into(), standing: Standing::Left, what };
        assert!(matches!(contained.end(), Err(EndingError::Live { session }) if session == "50"));
        contained.mark.shim.start -= 1;
        assert!(matches!(contained.end(), Err(EndingError::Engine(EngineError::Start { .. }))));
    }
}
