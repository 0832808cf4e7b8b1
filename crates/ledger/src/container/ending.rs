//! Ends what a session has left in containers: SIGTERM, a second, SIGKILL.
//!
//! The command, `docker run`, ends first. It may be killed between two of its requests to the engine, which may still be
//! doing the last one: so a container can appear after a look that found none, and can start after one that found it
//! not started. Neither can happen once the engine is done, so after a killed command a look that finds nothing to do is
//! repeated half a second later, and only the second counts.

use std::time::{Duration, Instant};

use super::{
    command::{Action, ContainerCommand},
    engine::{COMMAND_LIMIT, Engine, EngineError, limit},
    listing::Container,
};

/// From SIGTERM to SIGKILL, as for a process.
const TERMINATE: Duration = Duration::from_secs(1);

/// Between a look that found nothing and the one that counts.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// How long an engine is asked again that has not shown the processes in a container once.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// Between two looks at what was told to end.
const ROUND: Duration = Duration::from_millis(50);

/// After this time no other attempt is made; the one that has begun gets [`COMMAND_LIMIT`] more.
pub const ENDING_LIMIT: Duration = Duration::from_secs(10);

/// What one session runs in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InContainer {
    engine: Engine,
    action: Action,
    mark: String,
    /// The one container that is meant, in full; otherwise all with the mark.
    only: Option<String>,
}

/// What is known of the command when what it has started is to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandEnd {
    /// It has passed SIGTERM on, and time enough is over: the next rung is SIGKILL.
    pub passed_on_sigterm: bool,
    /// A signal ended it, in the middle of whatever it did.
    pub was_killed: bool,
}

/// Why something in a container may still run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndingError {
    /// The engine did not answer, or refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Processes in a container can only be found by a shell in it.
    #[error("there is no shell in the container {container} to end the process with: {said}")]
    NoShell {
        /// The container.
        container: String,
        /// What the engine said.
        said: String,
    },
    /// Its session runs: ending it is the session's matter.
    #[error("session {session} is still running")]
    Live {
        /// The session's name.
        session: String,
    },
    /// It was killed and did not end.
    #[error("{what} has not ended within {} s", ENDING_LIMIT.as_secs())]
    Left {
        /// A container, or processes in one.
        what: String,
    },
}

impl InContainer {
    /// What the command of a session with this mark has started.
    #[must_use]
    pub fn of(command: &ContainerCommand, mark: &str) -> Self {
        Self { engine: command.engine.clone(), action: command.action.clone(), mark: mark.to_owned(), only: None }
    }

    /// A container that was listed.
    #[must_use]
    pub fn listed(container: &Container) -> Self {
        let Container { engine, id, mark, .. } = container.clone();
        Self { engine, action: Action::Run, mark, only: Some(id) }
    }

    /// Ends it. A container with `--rm` is gone then; another one stays, stopped, as its owner wanted. It blocks, for
    /// [`ENDING_LIMIT`] and one command at most.
    ///
    /// # Errors
    ///
    /// When something may still run.
    pub fn end(&self, after: CommandEnd) -> Result<(), EndingError> {
        let begun = Instant::now();
        match &self.action {
            Action::Run => self.end_containers(after, begun),
            Action::Exec { container, user } => self.end_processes(container, user.as_deref(), after, begun),
        }
    }

    fn end_containers(&self, after: CommandEnd, begun: Instant) -> Result<(), EndingError> {
        let last = begun + ENDING_LIMIT + COMMAND_LIMIT;
        let mut kill_from = after.passed_on_sigterm.then_some(begun);
        let mut may_appear = after.was_killed;
        loop {
            let mut found = self.engine.containers(Some(&self.mark), last)?;
            found.retain(|one| self.only.as_ref().is_none_or(|id| one.id == *id));
            let running: Vec<&Container> = found.iter().filter(|one| one.is_running()).collect();
            // One that never started is not removed by its engine, and one that is being removed stays for a moment.
            let ended = found.iter().filter(|one| !one.is_running() && one.is_removed_at_end);
            let ended: Vec<&Container> = ended.collect();
            if running.is_empty() && ended.is_empty() {
                if !std::mem::take(&mut may_appear) {
                    return Ok(());
                }
                std::thread::sleep(SECOND_LOOK);
                continue;
            }
            if begun + ENDING_LIMIT <= Instant::now() {
                let what = found.first().map_or_else(String::new, |one| format!("the container {}", one.short_id()));
                return Err(EndingError::Left { what });
            }
            if !running.is_empty() {
                // It has begun, and one command begins one container.
                may_appear = false;
                match kill_from {
                    None => {
                        self.try_run(&["kill", "--signal", "TERM"], &running, limit(last))?;
                        kill_from = Some(Instant::now() + TERMINATE);
                        self.wait(&running, limit(last).min(TERMINATE))?;
                    }
                    Some(from) if Instant::now() < from => std::thread::sleep(ROUND),
                    Some(_) => {
                        self.try_run(&["kill", "--signal", "KILL"], &running, limit(last))?;
                        self.wait(&running, limit(last).min(TERMINATE))?;
                    }
                }
            }
            if !ended.is_empty() {
                self.try_run(&["rm", "--force"], &ended, limit(last))?;
            }
        }
    }

    /// Waits until the containers have ended, for this long at most.
    fn wait(&self, containers: &[&Container], limit: Duration) -> Result<(), EngineError> {
        match self.try_run(&["wait"], containers, limit) {
            Err(EngineError::Silent { .. }) => Ok(()),
            other => other,
        }
    }

    /// Does something with each container. Engines refuse it for one that has ended or is gone; the next look shows.
    fn try_run(&self, words: &[&str], containers: &[&Container], limit: Duration) -> Result<(), EngineError> {
        let ids = containers.iter().map(|container| container.id.as_str());
        let words: Vec<&str> = words.iter().copied().chain(ids).collect();
        match self.engine.run(&words, limit) {
            Ok(_) | Err(EngineError::Failed { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn end_processes(
        &self,
        container: &str,
        user: Option<&str>,
        after: CommandEnd,
        begun: Instant,
    ) -> Result<(), EndingError> {
        let last = begun + ENDING_LIMIT + COMMAND_LIMIT;
        let mut kill_from = None;
        let mut may_appear = after.was_killed;
        loop {
            let signal = match kill_from {
                None => "TERM",
                Some(from) if Instant::now() < from => "0",
                Some(_) => "KILL",
            };
            let is_any_left = match self.signal_processes(container, user, signal, last) {
                // Engines fail or get stuck now and then, beside others or a busy disk, and the next look may not.
                Err(error) if Instant::now() < begun + asked_again(&error, kill_from.is_some()) => {
                    std::thread::sleep(ROUND);
                    continue;
                }
                looked => looked?,
            };
            if !is_any_left {
                if !std::mem::take(&mut may_appear) {
                    return Ok(());
                }
                std::thread::sleep(SECOND_LOOK);
                continue;
            }
            may_appear = false;
            if begun + ENDING_LIMIT <= Instant::now() {
                return Err(EndingError::Left { what: format!("a process in the container {container}") });
            }
            kill_from.get_or_insert_with(|| Instant::now() + TERMINATE);
            std::thread::sleep(ROUND);
        }
    }

    /// Sends a signal to all processes with the mark in this container; `true` if there were any. Whoever started them
    /// may end them, so it is done as the same user.
    fn signal_processes(
        &self,
        container: &str,
        user: Option<&str>,
        signal: &str,
        last: Instant,
    ) -> Result<bool, EndingError> {
        let mut words = vec!["exec"];
        words.extend(user.iter().flat_map(|user| ["--user", user]));
        words.extend([container, "sh", "-c", SIGNAL_SCRIPT, "sh", signal, &self.mark]);
        match self.engine.run(&words, limit(last)) {
            Ok(found) => match found.strip_suffix(LOOKED) {
                Some(found) => Ok(!found.is_empty()),
                // What a command prints can get lost on its way out of the container.
                None => {
                    let said = format!("only {found:?} was printed");
                    Err(EngineError::Failed { command: "exec".to_owned(), said, code: Some(0) }.into())
                }
            },
            Err(EngineError::Failed { command, said, code }) => {
                if !self.is_running(container, last)? {
                    return Ok(false);
                }
                Err(match code {
                    Some(126 | 127) => EndingError::NoShell { container: container.to_owned(), said },
                    _ => EngineError::Failed { command, said, code }.into(),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a container that was named runs.
    fn is_running(&self, container: &str, last: Instant) -> Result<bool, EngineError> {
        let words = ["inspect", "--type", "container", "--format", "{{.State.Running}}", container];
        match self.engine.run(&words, limit(last)) {
            Ok(said) => Ok(said.trim() == "true"),
            Err(EngineError::Failed { said, .. }) if said.to_ascii_lowercase().contains("no such") => Ok(false),
            // The engine is the one that fails.
            Err(error) => Err(error),
        }
    }
}

/// How long processes in a container are looked for again after this error; `has_worked` once some were found.
const fn asked_again(error: &EndingError, has_worked: bool) -> Duration {
    match error {
        _ if has_worked => ENDING_LIMIT,
        // It was killed, and may have sent its signal before.
        EndingError::Engine(EngineError::Silent { .. }) => ENDING_LIMIT,
        EndingError::Engine(EngineError::Failed { .. }) => FIRST_LOOK,
        EndingError::Engine(EngineError::Start { .. })
        | EndingError::NoShell { .. }
        | EndingError::Live { .. }
        | EndingError::Left { .. } => Duration::ZERO,
    }
}

/// The last line of [`SIGNAL_SCRIPT`]: it has looked at all processes.
const LOOKED: &str = "all\n";

/// Prints the processes whose environment has the mark, and sends them the signal; then `all`. Of a container's programs it needs none
/// but the shell. A zero byte is no part of a shell's text: what follows the mark is the next variable's name, or nothing.
const SIGNAL_SCRIPT: &str = r#"
for process in /proc/[0-9]*; do
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
      *"RESCIND_MARK=$2" | *"RESCIND_MARK=$2"[!0-9]*)
        kill -"$1" "${process#/proc/}" && echo "${process#/proc/}"
        break ;;
    esac
  done <"$process/environ"
done 2>/dev/null
echo all
"#;

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };

    use super::*;

    /// The script runs in any container, so it is tried with the shells that are here.
    #[test]
    fn the_script_finds_the_marked_process_and_no_other() {
        for shell in [&["sh"][..], &["bash"], &["busybox", "sh"]] {
            let run = |words: &[&str]| Command::new(shell[0]).args(&shell[1..]).args(words).output();
            if run(&["-c", ":"]).is_err() {
                continue;
            }
            let start = |mark: &str| {
                let words = ["-c", "trap '' TERM; echo up; exec sleep 100"];
                let mut command = Command::new("sh");
                command.args(words).env("RESCIND_MARK", mark).env("RESCINDING", "1\n2").stdout(Stdio::piped());
                let mut child = command.spawn().unwrap();
                BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
                child
            };
            let mark = format!("{}-1-2-1", std::process::id());
            let (mut one, mut other) = (start(&mark), start(&format!("{mark}2")));
            for signal in ["TERM", "KILL"] {
                let output = run(&["-c", SIGNAL_SCRIPT, "sh", signal, &mark]).unwrap();
                assert_eq!(
                    String::from_utf8(output.stdout).unwrap(),
                    format!("{}\nall\n", one.id()),
                    "{shell:?} {signal}"
                );
                assert_eq!(output.status.code(), Some(0));
            }
            one.wait().unwrap();
            let output = run(&["-c", SIGNAL_SCRIPT, "sh", "KILL", &mark]).unwrap();
            assert_eq!(output.stdout, b"all\n", "{shell:?}");
            assert!(other.try_wait().unwrap().is_none());
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
}
