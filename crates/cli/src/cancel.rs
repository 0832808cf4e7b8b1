//! `rescind cancel SESSION/ID…`: cancels requests and prints their receipts.

pub(crate) mod choice;
pub(crate) mod receipt;
mod target;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    time::Duration,
};

use clap::Args;
use rescind_feed::{Cancel, Outcome, Request};
use rescind_operator::Shim;
use rescind_proto::{
    cause::{MAX_REASON, cut},
    dialect::Dialect,
};
use tokio::sync::mpsc;

use crate::{
    completion::Completion,
    duration,
    failure::Failure,
    fleet::{self, Selection, report},
    question,
    screen::clean,
    turns::{self, Cancelled, LeftByRequest},
};
use choice::Chosen;
use receipt::{Learnt, News, Plan, Reach};
use target::Target;

/// News of sessions that wait to be printed.
const NEWS: usize = 64;

/// Cancel requests behind `rescind run`, and print the outcome.
///
/// The side that works on a request gets a cancel. The side that waits for it gets the answer that its protocol prescribes
/// for a cancelled request; MCP prescribes none, so there it gets error -31003. Then each change of the outcome is
/// printed, until nothing more can be learnt or the time of --wait is over. The outcome claims only what was observed:
/// `sent` does not mean that the work stopped.
///
/// The client of an ACP prompt waits until its agent has ended the turn, 30 s at most. Cancel the prompt again, and the
/// client is answered at once (`released; not confirmed`), while the agent may work on. If the first cancel was the
/// client's own, that takes two of yours: the first one leaves the agent its time.
///
/// Exit code: 0 if every cancel was accepted, which does not mean that the work stopped; 1 if one was not: its request is
/// not in flight, its session does not exist, its protocol does not allow it to be cancelled, its ID matches several
/// requests, or you declined the confirmation; also 1 if --all, --method or --older-than finds nothing left to cancel; 2
/// if something failed, or a session that may have the request did not answer.
#[derive(Debug, Args)]
#[command(override_usage = "rescind cancel [OPTIONS] SESSION/ID...\n       rescind cancel [OPTIONS] --all\n       \
                            rescind cancel [OPTIONS] --method METHOD\n       rescind cancel [OPTIONS] --older-than DURATION")]
pub(crate) struct Arguments {
    /// A request as `rescind ps` lists it: 4711/17, '4711/"a b"', or 4711/server:3 for one that the server sent to its
    /// client. SESSION/ may be left out if only one request in flight has this ID
    #[arg(value_name = "SESSION/ID", value_parser = Target::parse, conflicts_with_all = ["method", "older_than", "all"])]
    targets: Vec<Target>,

    #[command(flatten)]
    selection: Selection,

    /// Cancel every request in flight: in all sessions, or in the one that --session names. --session alone selects
    /// nothing: add an ID, --all, --method or --older-than
    #[arg(long)]
    all: bool,

    /// The reason, cut at 1 KiB. Server and client get it if their protocol has a field for it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Cancel only the turn of a prompt, and leave the subagents of its session alone; of Codex only the turn, and not the
    /// agents and terminals that outlive it. Otherwise those are cancelled, too, as far as their agent allows that
    #[arg(long)]
    turn_only: bool,

    /// Cancel more than one request without asking
    #[arg(long, short)]
    yes: bool,

    /// How long to wait for the outcome
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse, allow_hyphen_values = true)]
    wait: Duration,

    /// Print only whether the cancel was accepted
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
}

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    fleet::block_on(run(arguments))
}

async fn run(arguments: &Arguments) -> Result<Completion, Failure> {
    let (chosen, completion) = choose(arguments).await?;
    if chosen.is_empty() {
        return Ok(completion);
    }
    if chosen.len() > 1 && !arguments.yes && !agreed(&chosen)? {
        report("nothing was cancelled");
        return Ok(Completion::Partial);
    }
    let reason = arguments.reason.as_deref().map(|reason| {
        if reason.len() > MAX_REASON {
            report("note: the reason is cut at 1 KiB");
        }
        cut(reason, MAX_REASON)
    });
    let until = (!arguments.no_wait && !arguments.wait.is_zero()).then(|| receipt::after(arguments.wait));
    let turn_only = arguments.turn_only;
    let plan = Plan { reason: reason.map(str::to_owned), turn_only, until, reach: Reach::Chosen };
    Ok(completion.max(cancel(chosen, plan).await))
}

/// Cancels the requests of every session, and prints their receipts until the plan's time is over.
async fn cancel(chosen: Vec<Chosen>, plan: Plan) -> Completion {
    let mut sessions: BTreeMap<String, Vec<Chosen>> = BTreeMap::new();
    let mut shims: BTreeMap<String, Shim> = BTreeMap::new();
    for one in chosen {
        shims.entry(one.shim.name().to_owned()).or_insert_with(|| one.shim.clone());
        sessions.entry(one.shim.name().to_owned()).or_default().push(one);
    }
    let (sender, mut news) = mpsc::channel::<News>(NEWS);
    for chosen in sessions.into_values() {
        let Some(shim) = chosen.first().map(|one| one.shim.clone()) else { continue };
        let (plan, sender) = (plan.clone(), sender.clone());
        tokio::spawn(async move { receipt::cancel(&shim, 0, chosen, &plan, &sender).await });
    }
    drop(sender);
    let (mut completion, mut cancelled) = (Completion::Whole, Cancelled::default());
    let mut waiting = BTreeSet::new();
    while let Some(News { session, learnt }) = news.recv().await {
        if let (Learnt::Receipt(request), Some(shim)) = (&learnt, shims.get(&session)) {
            cancelled.note(shim, request);
        }
        if let Learnt::Receipt(request) | Learnt::NotCancelled(request) = &learnt {
            let name = format!("{session}/{}", clean(&request.label()));
            if request.may_be_released {
                waiting.insert(name)
            } else {
                waiting.remove(&name)
            };
        }
        completion = completion.max(print(&session, learnt));
    }
    if let Some(until) = plan.until {
        turns::left_by(cancelled, until).await.iter().flat_map(LeftByRequest::lines).for_each(|line| report(&line));
    }
    if let Some(name) = waiting.first() {
        let hint = format!("hint: its agent has not ended {name}, and its client waits; `rescind cancel {name}` again");
        report(&format!("{hint} answers the client now"));
    }
    completion
}

/// Prints what became known, and returns what it means for the exit code.
fn print(session: &str, learnt: Learnt) -> Completion {
    match learnt {
        Learnt::Receipt(request) => {
            let Some(cancel) = &request.cancel else { return Completion::Whole };
            print_receipt(session, &request, &words(&request, cancel));
            Completion::whole_if(cancel.outcome != Outcome::NotSendable)
        }
        Learnt::NotCancelled(request) => {
            let why = match (&request.settled, &request.cancel) {
                (Some(settled), None) => format!("no longer in flight: {}", settled.how.as_str()),
                (_, Some(cancel)) => format!("already cancelled: {}", clean(&cancel.words)),
                (None, None) => "not cancelled".into(),
            };
            print_receipt(session, &request, &why);
            Completion::Partial
        }
        Learnt::Began(_) => Completion::Whole,
        Learnt::Failed(why) => {
            report(&format!("error: {session}: {why}"));
            Completion::Failed
        }
        Learnt::Unheard(why) => {
            report(&format!("note: {session}: {why}"));
            Completion::Whole
        }
        Learnt::Ended(_) => {
            report(&format!("note: {session}: the session has ended"));
            Completion::Whole
        }
    }
}

/// The words of a receipt, for a person.
pub(crate) fn words(request: &Request, cancel: &Cancel) -> String {
    let is_card = Dialect::is_any_question(&request.method);
    format!("{}{}", clean(&cancel.words), cancel.remark(request, is_card))
}

/// Prints one line of a receipt.
fn print_receipt(session: &str, request: &Request, words: &str) {
    // A closed stdout does not change what was done.
    let _ = writeln!(io::stdout(), "{session}/{}: {words}", clean(&request.label()));
}

/// Finds the requests to cancel, and the status so far.
async fn choose(arguments: &Arguments) -> Result<(Vec<Chosen>, Completion), Failure> {
    let Arguments { targets, selection, all, .. } = arguments;
    if !targets.is_empty() {
        return choice::by_name(targets, selection.session.as_deref()).await;
    }
    if !all && selection.method.is_none() && selection.older_than.is_none() {
        let hint = match &selection.session {
            None => "name requests as `rescind ps` lists them (SESSION/ID), or use --method, --older-than or --all",
            Some(_) => "add --all for every request of the session, or --method or --older-than for some of them",
        };
        return Err(Failure::new("rescind cancel", "no request was named", hint));
    }
    choice::by_selection(selection, arguments.turn_only).await
}

/// Asks for confirmation.
fn agreed(chosen: &[Chosen]) -> Result<bool, Failure> {
    const SHOWN: usize = 20;
    let count = chosen.len();
    let hint = "use --yes, or name a single request";
    question::require_terminal("rescind cancel", format_args!("cancel {count} requests"), hint)?;
    chosen.iter().take(SHOWN).for_each(|one| report(&one.line()));
    if count > SHOWN {
        report(&format!("  and {} more", count - SHOWN));
    }
    question::ask(&format!("Cancel these {count} requests?"))
}
