//! `rescind reap --adopt`: what clients have started without a shim, and left.

use std::{collections::BTreeSet, time::Duration};

use rescind_feed::duration;
use rescind_ledger::{
    identity::ProcessId,
    reap::reap,
    snapshot::{Process, Snapshot},
    stray::Stray,
};
use rescind_wrap::entry::Launch;

use super::{agreed, told};
use crate::{
    completion::Completion,
    failure::Failure,
    fleet::report,
    ps::processes::command,
    run::own_words,
    wrap::files::{self, Target},
};

/// Ends what `named` has started, or the servers in the files of clients if it is empty.
pub(super) fn run(named: &[String], grace: Duration, is_dry: bool, yes: bool) -> Result<Completion, Failure> {
    let commands = if named.is_empty() { configured()? } else { vec![named.to_vec()] };
    let strays = Stray::find(&Snapshot::take(), &commands);
    let all: Vec<&Process> = strays.iter().flat_map(Stray::all).collect();
    if all.is_empty() {
        report(&format!("nothing is left of {} commands", commands.len()));
        return Ok(Completion::Whole);
    }
    for process in &all {
        let age = duration(u64::try_from(process.age.as_micros()).unwrap_or(u64::MAX));
        report(&format!("{}  {}  {age}", process.id.pid, command(process, &process.arguments())));
    }
    if is_dry {
        return Ok(Completion::Whole);
    }
    if !yes && !agreed(all.len())? {
        report("nothing was ended");
        return Ok(Completion::Partial);
    }
    let chosen: BTreeSet<ProcessId> = all.iter().map(|process| process.id).collect();
    Ok(told(&reap(grace, |snapshot| snapshot.with_descendants(&chosen))))
}

/// The commands of the servers in all files that are found, without the shims before them.
fn configured() -> Result<Vec<Vec<String>>, Failure> {
    let targets = files::targets(&[], &[])?.into_iter().chain(files::projects());
    let entries = targets.flat_map(|target: Target| {
        let read = files::read(&target).map_err(|failure| failure.report());
        read.map(|(_, config)| config.entries().to_vec()).unwrap_or_default()
    });
    let commands = entries.filter_map(|entry| match entry.launch {
        Launch::Command(command) => Some(bare(&command.words).to_vec()),
        Launch::Url(_) | Launch::Elsewhere | Launch::Unclear(_) => None,
    });
    Ok(commands.filter(|command| !command.is_empty()).collect())
}

/// A command without the shims before it.
fn bare(words: &[String]) -> &[String] {
    match words.split_first() {
        Some((program, rest)) if program.rsplit('/').next() == Some("rescind") => {
            own_words(rest).map_or(words, |own| bare(&rest[own..]))
        }
        _ => words,
    }
}
