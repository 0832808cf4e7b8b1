//! `rescind ps --processes` and `--orphans`: the processes of sessions.

use std::time::Duration;

use rescind_console::shims::Directories;
use rescind_feed::duration;
use rescind_ledger::{
    container::left::{Left, LeftInContainers, What},
    document::Document,
    family::{ClientState, Family, Kept, Member},
    record::Client,
    snapshot::{Process, Snapshot},
};

use super::{table::lay_out, write_lines};
use crate::{
    failure::Failure,
    fleet::{self, report},
    screen::{Screen, Tone, clean, inert},
};

const COLUMNS: [&str; 7] = ["SESSION", "PID", "COMMAND", "AGE", "CPU", "MEMORY", "STATE"];

/// Columns that may be narrowed, and their least width.
const FLEXIBLE: [(usize, usize); 2] = [(2, 16), (6, 16)];

type Cells = [String; COLUMNS.len()];

/// Lists the processes of all sessions, or of the one called `session`.
pub(super) fn list(session: Option<&str>, only_orphans: bool, json: bool) -> Result<(), Failure> {
    let mut families = families()?;
    if let Some(session) = session {
        families.retain(|family| family.session() == session);
        if families.is_empty() && !only_orphans {
            return Err(fleet::no_such_session(session));
        }
    }
    families.retain(|family| !only_orphans || family.is_orphaned());
    let mut left = if only_orphans { left_in_containers() } else { Vec::new() };
    left.retain(|left| session.is_none_or(|session| left.session == session));
    if json {
        let document = Document::of(&families);
        let document = if only_orphans { document.with_containers(&left) } else { document };
        let text = serde_json::to_string_pretty(&document).unwrap_or_default();
        let _ = write_lines(&[inert(&text)]);
        return Ok(());
    }
    match (families.is_empty() && left.is_empty(), only_orphans) {
        (false, _) => drop(write_lines(&lines(&families, &left, Screen::now()))),
        (true, true) => report(NOTHING_LEFT),
        (true, false) => report(&fleet::no_sessions()),
    }
    Ok(())
}

/// The processes of all sessions. Warns about directories that are not used.
pub(crate) fn families() -> Result<Vec<Family>, Failure> {
    let directories = Directories::of_this_user();
    fleet::scan(&directories)?;
    Ok(directories.families(&Snapshot::take()))
}

pub(crate) const NOTHING_LEFT: &str = "no process of an ended session is left";

/// What ended sessions have left in containers. Warns about engines that do not answer.
pub(crate) fn left_in_containers() -> Vec<Left> {
    let LeftInContainers { all, silent, .. } = Directories::of_this_user().left_in_containers();
    for error in silent {
        report(&format!("warning: {}; its containers are not listed", clean(&error.to_string())));
    }
    all
}

/// A table of families: of each its shim, if that runs, and its members; then what is left in containers.
pub(crate) fn lines(families: &[Family], left: &[Left], screen: Screen) -> Vec<String> {
    let rows: Vec<(Cells, Tone)> = families.iter().flat_map(rows).chain(left.iter().map(contained)).collect();
    let rows: Vec<_> = rows.iter().map(|(cells, tone)| (cells, *tone)).collect();
    lay_out(COLUMNS, &FLEXIBLE, &rows, screen)
}

fn rows(family: &Family) -> Vec<(Cells, Tone)> {
    let session = clean(&family.session());
    let shim = family.shim.as_ref().map(|shim| {
        let alone = family.client == ClientState::Gone;
        let tone = if alone { Tone::Notice } else { Tone::Faint };
        (cells(&session, shim, 0, client(family)), tone)
    });
    let below = usize::from(shim.is_some());
    let tone = if family.is_orphaned() { Tone::Alarm } else { Tone::Plain };
    let members = family.members.iter().enumerate().map(|(place, member)| {
        let name = if place + below == 0 { session.as_str() } else { "" };
        (cells(name, &member.process, member.depth + below, state(family, member)), tone)
    });
    shim.into_iter().chain(members).collect()
}

fn contained(left: &Left) -> (Cells, Tone) {
    let (words, state) = match &left.what {
        What::Container(one) => {
            (format!("container {} {} ({})", one.short_id(), one.name, one.image), one.state.as_str())
        }
        What::Processes { container, .. } => (format!("started by exec in container {container}"), "unknown"),
    };
    let none = String::new;
    let state = format!("left, {}", clean(state));
    ([clean(&left.session), none(), clean(&words), none(), none(), none(), state], Tone::Alarm)
}

fn cells(session: &str, process: &Process, depth: usize, state: String) -> Cells {
    [
        session.into(),
        process.id.pid.to_string(),
        format!("{}{}", "  ".repeat(depth), command(process, &process.arguments())),
        duration(micros(process.age)),
        cpu(process.cpu),
        bytes(process.memory),
        state,
    ]
}

/// The arguments of a process, or its program's name in parentheses if it hides them.
pub(crate) fn command(process: &Process, arguments: &[String]) -> String {
    clean(&if arguments.is_empty() { format!("({})", process.name) } else { arguments.join(" ") })
}

fn client(family: &Family) -> String {
    let client = family.record.as_ref().and_then(|record| record.client.as_ref());
    match (client, family.client) {
        (Some(Client { id, name }), ClientState::Alive) => format!("client: {} ({})", clean(name), id.pid),
        (Some(Client { id, name }), _) => format!("its client has ended: {} ({})", clean(name), id.pid),
        (None, _) => "unlisted".into(),
    }
}

fn state(family: &Family, Member { process, kept, .. }: &Member) -> String {
    let orphan = family.is_orphaned();
    let words =
        [orphan.then_some("left"), process.is_stopped.then_some("stopped"), kept.filter(|_| orphan).map(Kept::words)];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn cpu(time: Duration) -> String {
    // Clock ticks tell no less than 10 ms.
    if time.is_zero() { "0 s".into() } else { duration(micros(time)) }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn bytes(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes / KIB),
        0x10_0000..0x4000_0000 => format!("{}.{} MiB", bytes >> 20, ((bytes % (1 << 20)) * 10) >> 20),
        _ => format!("{}.{} GiB", bytes >> 30, ((bytes % (1 << 30)) * 10) >> 30),
    }
}
