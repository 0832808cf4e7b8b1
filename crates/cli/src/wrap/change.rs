//! Changes one file.

use rescind_wrap::{
    config::{Change, Changed, Config},
    entry::{Entry, Launch},
    journal::Journal,
    verdict::Verdict,
};

use super::{
    files::{self, Found, Target},
    shown,
};
use crate::failure::Failure;

/// Attempts to change a file that another program keeps writing.
const ATTEMPTS: usize = 5;

/// A server of a file.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) entry: Entry,
    pub(super) verdict: Verdict,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Direction {
    Wrap {
        /// The absolute path of this program.
        program: String,
        run_flags: Vec<String>,
    },
    Unwrap,
}

impl Direction {
    /// Whether there is something to do with such a server.
    pub(super) const fn is_for(&self, verdict: Verdict) -> bool {
        matches!((self, verdict), (Self::Wrap { .. }, Verdict::Bare) | (Self::Unwrap, Verdict::Wrapped(_)))
    }

    /// Whether a person wants to know of such a server.
    pub(super) const fn mentions(&self, verdict: Verdict) -> bool {
        match self {
            Self::Wrap { .. } => true,
            Self::Unwrap => matches!(verdict, Verdict::Wrapped(_) | Verdict::WrappedByHand),
        }
    }

    pub(super) const fn verb(&self) -> &'static str {
        match self {
            Self::Wrap { .. } => "wrap",
            Self::Unwrap => "unwrap",
        }
    }

    pub(super) const fn question(&self) -> &'static str {
        match self {
            Self::Wrap { .. } => "Put the shim before",
            Self::Unwrap => "Take the shim away from",
        }
    }

    pub(super) const fn past(&self) -> &'static str {
        match self {
            Self::Wrap { .. } => "wrapped",
            Self::Unwrap => "unwrapped",
        }
    }

    /// The words that come before a server's own.
    fn words(&self, target: &Target) -> Vec<String> {
        match self {
            Self::Wrap { program, run_flags } => {
                let program = if target.is_shared { "rescind" } else { program };
                [&[program.to_owned(), "run".to_owned()], &**run_flags].concat()
            }
            Self::Unwrap => Vec::new(),
        }
    }
}

/// Changes these servers of a file as it is now, and returns how many it changed.
pub(super) fn change(
    found: &Found,
    paths: &[Vec<String>],
    direction: &Direction,
    managed: &[Vec<String>],
    journal: &mut Journal,
) -> Result<usize, Failure> {
    let target = &found.target;
    let closing = || match target.client {
        Some(client) if client.rewrites => {
            format!("close {}, which writes this file while it runs, and try again", client.name)
        }
        _ => "try again when no other program writes it".to_owned(),
    };
    let refused = |error: &dyn std::fmt::Display| Failure::new(shown(&target.path), error, closing());
    let words = direction.words(target);
    for _ in 0..ATTEMPTS {
        let (snapshot, config) = files::read(target)?;
        let file = snapshot.path().to_owned();
        let servers = files::servers(&config, managed);
        let meant: Vec<(usize, &Server)> = servers
            .iter()
            .enumerate()
            .filter(|(_, one)| paths.contains(&one.entry.path) && direction.is_for(one.verdict))
            .collect();
        if meant.is_empty() {
            return Ok(0);
        }
        let changes: Vec<(usize, Change<'_>)> = meant
            .iter()
            .map(|(place, Server { entry, verdict })| {
                let change = if let Verdict::Wrapped(words) = *verdict {
                    Change::TakeOff { words, added: journal.added(&file, &entry.path) }
                } else {
                    Change::Prepend(&words)
                };
                (*place, change)
            })
            .collect();
        let Changed { bytes, added } = config.changed(&changes);
        check(target, &config, &bytes, &meant.iter().map(|(place, _)| *place).collect::<Vec<_>>(), &words)?;
        let changed = meant.len();
        let servers = meant.iter().map(|(_, one)| one.entry.path.clone());
        if let Direction::Wrap { .. } = direction {
            let additions = servers.clone().zip(added).filter_map(|(server, text)| Some((server, text?)));
            journal.note(&file, additions).map_err(|error| refused(&error))?;
        }
        match snapshot.replace(&bytes) {
            Ok(true) => {
                if let Direction::Unwrap = direction {
                    let servers: Vec<Vec<String>> = servers.collect();
                    // What is left in it is looked at again before it is believed.
                    let _ = journal.forget(&file, servers.iter().map(Vec::as_slice));
                }
                return Ok(changed);
            }
            Ok(false) => {}
            Err(error) => return Err(refused(&error)),
        }
    }
    Err(refused(&rescind_wrap::file::FileError::Busy))
}

/// Reads the new content before it is written: the selected commands must have changed as planned, and no other server
/// may have changed.
fn check(target: &Target, before: &Config, bytes: &[u8], places: &[usize], words: &[String]) -> Result<(), Failure> {
    let wrong = |why: &str| {
        let hint = "nothing was changed; please report how this file is written";
        Failure::new(shown(&target.path), format_args!("would not be what it should be: {why}"), hint)
    };
    let after =
        Config::read(bytes, target.shape.syntax, target.shape.servers).map_err(|error| wrong(&error.to_string()))?;
    if after.entries().len() != before.entries().len() {
        return Err(wrong("it would have other servers"));
    }
    for (place, (old, new)) in before.entries().iter().zip(after.entries()).enumerate() {
        let is_right = match (&old.launch, &new.launch) {
            (Launch::Command(old), Launch::Command(new)) if places.contains(&place) => match words.is_empty() {
                true => old.words.ends_with(&new.words) && new.words.len() < old.words.len(),
                false => new.words == [words, &old.words].concat(),
            },
            (Launch::Command(old), Launch::Command(new)) => old.words == new.words,
            (Launch::Url(old), Launch::Url(new)) => old == new,
            (Launch::Elsewhere, Launch::Elsewhere) | (Launch::Unclear(_), Launch::Unclear(_)) => true,
            _ => false,
        };
        if !is_right || old.path != new.path {
            return Err(wrong(&format!("{} would be another server", new.name())));
        }
    }
    Ok(())
}
