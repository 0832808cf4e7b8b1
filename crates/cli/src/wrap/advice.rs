//! Timeouts that `wrap` proposes for the servers of clients that give up calls in silence.

use std::io::{self, IsTerminal as _};

use rescind_wrap::advice::{ADVICE, Advice};

use super::server::Server;
use crate::{failure::Failure, fleet::report, question, run::has_timeouts};

/// What becomes of the proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advising {
    /// One question for each client.
    Ask,
    /// They are taken, also for servers that have a shim without a timeout.
    Take,
    /// They are printed on one line, and not taken.
    Print,
    /// Nothing is proposed.
    Silent,
}

impl Advising {
    /// What becomes of them where these flags of `rescind run` were given.
    pub(super) fn of(takes: bool, silent: bool, asks: bool, run_flags: &[String]) -> Self {
        match (silent || has_timeouts(run_flags), takes) {
            (true, _) => Self::Silent,
            (false, true) => Self::Take,
            (false, false) if asks && io::stdin().is_terminal() => Self::Ask,
            (false, false) => Self::Print,
        }
    }

    /// The proposals that are taken without a question.
    pub(super) fn taken(self) -> Vec<&'static Advice> {
        match self {
            Self::Take => ADVICE.iter().collect(),
            Self::Ask | Self::Print | Self::Silent => Vec::new(),
        }
    }

    /// Asks about the proposals for these servers, which are to be wrapped, or prints them. Returns those that were taken.
    pub(super) fn settle(self, servers: &[&Server]) -> Result<Vec<&'static Advice>, Failure> {
        let mut open: Vec<&'static Advice> = Vec::new();
        for advice in servers.iter().filter_map(|server| server.advice) {
            if !open.contains(&advice) {
                open.push(advice);
            }
        }
        match self {
            Self::Take => Ok(self.taken()),
            Self::Silent => Ok(Vec::new()),
            Self::Print => {
                if !open.is_empty() {
                    let each: Vec<String> =
                        open.iter().map(|one| format!("{} (--timeout {})", one.why(), one.timeout)).collect();
                    let hint = "--take-advice sets these timeouts, --no-advice says nothing of them";
                    report(&format!("advice: {}; {hint}", each.join("; ")));
                }
                Ok(Vec::new())
            }
            Self::Ask => {
                let mut taken = Vec::new();
                for one in open {
                    let Advice { timeout, .. } = one;
                    if question::ask_unless_no(&format!("{}: have the shim end it after {timeout}?", one.why()))? {
                        taken.push(one);
                    }
                }
                Ok(taken)
            }
        }
    }
}
