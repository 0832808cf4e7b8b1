//! `rescind cancel SESSION/ID…`: stop requests, and tell what is known of it.

mod choice;
mod receipt;
mod target;

use std::{
    collections::BTreeMap,
    io::{self, BufRead, IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use rescind_proto::cause::{MAX_REASON, cut};

use crate::{
    failure::Failure,
    fleet::{self, Selection, speak},
};
use choice::{Chosen, Verdict};
use target::Target;

/// Cancel requests behind `rescind run`, and tell what comes of it.
///
/// The side that works on a request is told to stop, and the side that waits for it gets the answer that its protocol
/// has for this. Then what is known of the cancel is printed, a line whenever that changes, until nothing more can be
/// learnt or the time of --wait is over. The words claim no more than was seen.
///
/// Exit code: 0 if everything was cancelled; 1 if something was not in flight (any more), an ID fits several requests,
/// or you were asked and said no; 2 if it could not be done, or a session that may have the request did not answer.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What `rescind ps` lists: 4711/17, 4711/server:3, '4711/"a b"'. The session may be left out where only one has
    /// such a request
    #[arg(value_name = "SESSION/ID", conflicts_with_all = ["method", "older_than", "all"])]
    targets: Vec<String>,

    #[command(flatten)]
    selection: Selection,

    /// Everything in flight, in every session or that of --session
    #[arg(long)]
    all: bool,

    /// Why, at most 1 KiB: the server is told where its protocol has a place for it, and so is the client
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Do not ask before more than one request is cancelled
    #[arg(long, short)]
    yes: bool,

    /// How long to wait for what becomes known
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = humantime::parse_duration)]
    wait: Duration,

    /// Only say whether the cancel was accepted
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
}

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    match fleet::block_on(run(&arguments)) {
        Ok(verdict) => ExitCode::from(verdict as u8),
        Err(failure) => {
            failure.say();
            ExitCode::from(Verdict::Failed as u8)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let (chosen, verdict) = choose(arguments).await?;
    if chosen.is_empty() {
        return Ok(verdict);
    }
    if chosen.len() > 1 && !arguments.yes && !agreed(&chosen)? {
        speak("nothing was cancelled");
        return Ok(Verdict::NotInFlight);
    }
    let reason = arguments.reason.as_deref().map(|reason| {
        if reason.len() > MAX_REASON {
            speak("note: the reason is cut at 1 KiB");
        }
        cut(reason, MAX_REASON)
    });
    let wait = if arguments.no_wait { Duration::ZERO } else { arguments.wait };
    let mut sessions: BTreeMap<String, Vec<Chosen>> = BTreeMap::new();
    for one in chosen {
        sessions.entry(one.shim.name().to_owned()).or_default().push(one);
    }
    let sessions = sessions.into_values().collect();
    Ok(verdict.max(receipt::cancel(sessions, reason, wait).await))
}

/// What is to be cancelled, and what is already to be said of the rest.
async fn choose(arguments: &Arguments) -> Result<(Vec<Chosen>, Verdict), Failure> {
    let Arguments { targets, selection, all, .. } = arguments;
    if !targets.is_empty() {
        let targets: Vec<Target> = targets.iter().map(|text| Target::parse(text)).collect();
        return choice::by_name(&targets, selection.session.as_deref()).await;
    }
    if !all && selection.method.is_none() && selection.older_than.is_none() {
        let hint = "name them as `rescind ps` does (SESSION/ID), or say --method, --older-than or --all";
        return Err(Failure::new("rescind cancel", "no requests are named", hint));
    }
    choice::by_selection(selection).await
}

/// Asks the person.
fn agreed(chosen: &[Chosen]) -> Result<bool, Failure> {
    const SHOWN: usize = 20;
    let count = chosen.len();
    if !io::stdin().is_terminal() {
        let cause = format_args!("{count} requests would be cancelled, and nobody can be asked");
        return Err(Failure::new("rescind cancel", cause, "say --yes, or name fewer"));
    }
    chosen.iter().take(SHOWN).for_each(|one| speak(&one.line()));
    if count > SHOWN {
        speak(&format!("  and {} more", count - SHOWN));
    }
    let mut stderr = io::stderr();
    let _ = write!(stderr, "Cancel these {count} requests? [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new("stdin", error, "say --yes"))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
