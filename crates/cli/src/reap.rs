//! `rescind reap`: ends what sessions have left behind.

mod adopt;

use std::{
    io::{self, Write},
    time::Duration,
};

use clap::Args;
use rescind_ledger::{
    choice::Choice,
    container::contained::{Contained, Scope},
    document::ReapedContainer,
    family::{Family, Kept, Member},
    identity::shares_input,
    reap::Reaped,
    turn::is_server,
};
use rescind_operator::Directories;

use crate::{
    completion::Completion,
    duration,
    failure::Failure,
    fleet::{self, report},
    ps::processes::{NOTHING_LEFT, command, families, in_containers, lines},
    question,
    screen::{Screen, clean},
    turns::{self, SessionTurns},
};

/// End the processes and containers that sessions have left behind, or the processes that you name.
///
/// A process is left behind if the `rescind run` that started it, or its ancestors, has ended: it went into a session of
/// its own, or `rescind run` was killed. Shows what it would end, and asks. Then each gets SIGTERM, and SIGKILL if it runs
/// on. A process is known by a mark in its environment and by when it started, so no other process is touched, not even
/// one with the same program or a reused number. What works on a terminal, and what started this command, is left unless it is named.
///
/// Of a session that is still running only what is named by its number ends, with its descendants, and never its server
/// (`rescind end` does that): for example what a cancelled turn has left, as `rescind ps --processes` lists it.
///
/// Exit code: 0 if nothing is left of what was selected; 1 if some is, or you declined; 2 if nothing was tried.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only what this session has left, this process and its descendants, or this container; `rescind ps --orphans` lists
    /// them, and `rescind ps --processes` what running sessions have started
    #[arg(value_name = "SESSION|PID|CONTAINER")]
    targets: Vec<String>,

    /// How long a process may take to end after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "2.5s", value_parser = duration::parse, allow_hyphen_values = true)]
    grace: Duration,

    /// In place of what sessions have left: what clients have started without `rescind run` and left without a parent and
    /// without anything that writes to its input, by its arguments. Those of the servers in the configuration files that
    /// `rescind wrap` knows, or COMMAND
    #[arg(long, conflicts_with = "targets")]
    adopt: bool,

    /// The server's command and its arguments, for --adopt
    #[arg(last = true, value_name = "COMMAND", requires = "adopt")]
    command: Vec<String>,

    /// Show what would be ended, and end nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,

    /// End processes without asking
    #[arg(long, short)]
    yes: bool,
}

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    let Arguments { adopt, command, grace, dry_run, yes, .. } = arguments;
    if *adopt {
        return adopt::run(command, *grace, *dry_run, *yes);
    }
    let targets = &arguments.targets;
    let (mut orphaned, mut left) = (families()?, in_containers(Scope::Left));
    check(&orphaned, &left, targets)?;
    let is_named = |family: &Family| {
        targets.iter().any(|target| target.parse().is_ok_and(|pid| family.branch(pid).next().is_some()))
    };
    left.retain(|left| {
        targets.is_empty() || targets.contains(&left.session) || targets.iter().any(|id| id == left.id())
    });
    // Of a session that runs only the processes that are named.
    orphaned.retain(|family| family.is_orphaned() || is_named(family));
    let mut choice = Choice::named(&orphaned, targets);
    let chosen = choice.follow(&orphaned);
    if chosen.is_empty() && left.is_empty() {
        report(if orphaned.is_empty() { NOTHING_LEFT } else { "nothing to end" });
        return Ok(Completion::Whole);
    }
    for family in &mut orphaned {
        let is_orphaned = family.is_orphaned();
        let is_kept = |kept: Option<Kept>| is_orphaned && kept.is_some();
        family.members.retain(|member| chosen.contains(&member.process.id) || is_kept(member.kept));
    }
    orphaned.retain(|family| !family.members.is_empty());
    lines(&orphaned, &left, &[], Screen::now()).iter().for_each(|line| report(line));
    if arguments.dry_run {
        return Ok(Completion::Whole);
    }
    if !arguments.yes && !agreed(chosen.len() + left.len())? {
        report("nothing was ended");
        return Ok(Completion::Partial);
    }
    let directories = Directories::of_this_user();
    let contained = end_in_containers(&directories, &left);
    Ok(contained.max(told(&directories.reap(arguments.grace, choice))))
}

/// Ends what is left in containers, and prints how.
fn end_in_containers(directories: &Directories, left: &[Contained]) -> Completion {
    let mut completion = Completion::Whole;
    for one in left {
        let ReapedContainer { ended, how, .. } = ReapedContainer::of(one, &directories.end_in_container(one));
        if !ended {
            completion = Completion::Partial;
        }
        let _ = writeln!(io::stdout(), "container {}  {}", clean(one.id()), clean(&how));
    }
    completion
}

/// Refuses a target that is neither a session nor a process of an ended session.
fn check(families: &[Family], left: &[Contained], targets: &[String]) -> Result<(), Failure> {
    let is_contained = |target: &&String| left.iter().any(|left| left.session == **target || left.id() == *target);
    for target in targets.iter().filter(|target| !is_contained(target)) {
        let named = |family: &&Family| family.session() == *target;
        let process = |family: &&Family| target.parse().is_ok_and(|pid| family.branch(pid).next().is_some());
        let Some(family) = families.iter().find(named).or_else(|| families.iter().find(process)) else {
            let hint = "`rescind ps --orphans` lists what can be ended";
            return Err(Failure::new(target, "no session or process of this name has left anything", hint));
        };
        if family.shim.is_none() {
            continue;
        }
        let (session, hint) = (family.session(), format!("`rescind end {}` ends its server", family.session()));
        let member = |pid: u32| family.members.iter().find(|member| member.process.id.pid == pid);
        match target.parse().ok().and_then(member) {
            None => {
                let running = format_args!("session {session} is still running");
                return Err(Failure::new(target, running, format_args!("{hint}; a process of it is named by its PID")));
            }
            Some(member) if is_of_server(family, member) => {
                let cause = format_args!("is the server of session {session}, which is still running");
                return Err(Failure::new(target, cause, hint));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Whether a process is the server of a session, or its watcher: the shim has started it, or it reads what the shim writes,
/// as the program does that `npx` or a shell has started. One that began on behalf of a request may have inherited that.
fn is_of_server(family: &Family, member: &Member) -> bool {
    let mut servers = family.members.iter().filter(|member| is_server(family, &member.process));
    let is_reader = servers.any(|server| shares_input(server.process.id, member.process.id));
    is_server(family, &member.process) || (is_reader && !began_on_behalf(family, member))
}

/// Whether it is known that a process began while a request was in flight.
fn began_on_behalf(family: &Family, member: &Member) -> bool {
    let mut shims = Directories::of_this_user().scan().map(|scan| scan.shims).unwrap_or_default();
    shims.retain(|shim| shim.name() == family.session());
    let asked = fleet::block_on(async { Ok(turns::ask(shims).await.0) }).unwrap_or_default();
    let of = |turns: &SessionTurns| !turns.began(member.process.id).0.is_empty();
    asked.iter().any(|turns| turns.is_of(family) && of(turns))
}

fn agreed(count: usize) -> Result<bool, Failure> {
    question::require_terminal("rescind reap", format_args!("end {count}"), "use --yes")?;
    let these = if count == 1 { "this".into() } else { format!("these {count}") };
    question::ask(&format!("End {these}?"))
}

/// Prints how each ended.
fn told(reaped: &[Reaped]) -> Completion {
    let mut completion = Completion::Whole;
    for Reaped { process, arguments, how } in reaped {
        if !how.is_end() {
            completion = Completion::Partial;
        }
        let _ = writeln!(io::stdout(), "{}  {}  {}", process.id.pid, command(process, arguments), how.words());
    }
    completion
}
