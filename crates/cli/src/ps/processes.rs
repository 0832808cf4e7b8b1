//! `rescind ps --processes` and `--orphans`: the processes and containers of sessions.

use std::{collections::BTreeMap, time::Duration};

use rescind_feed::{Request, duration};
use rescind_ledger::{
    container::{
        contained::{Contained, ContainerScan, Scope, Standing, What},
        engine::EngineError,
    },
    document::Document,
    family::{ClientState, Family, Kept, Member},
    record::Client,
    snapshot::{Process, Snapshot},
    turn::is_server,
};
use rescind_operator::Directories;

use super::{row, table::lay_out, write_lines};
use crate::{
    absence::no_sessions,
    failure::Failure,
    fleet::{self, report},
    screen::{Screen, Tone, clean, inert},
    session_name, told,
    turns::{self, SessionTurns, Sureness},
};

const COLUMNS: [&str; 7] = ["SESSION", "PID", "COMMAND", "AGE", "CPU", "MEMORY", "STATE"];

/// Columns that may be narrowed, and their least width.
const FLEXIBLE: [(usize, usize); 2] = [(2, 16), (6, 16)];

type Cells = [String; COLUMNS.len()];

/// Lists the processes and containers of all sessions, or of the one called `session`.
pub(super) fn list(session: Option<&str>, only_orphans: bool, json: bool) -> Result<(), Failure> {
    let mut families = families()?;
    families.retain(|family| session.is_none_or(|session| family.session() == session));
    families.retain(|family| !only_orphans || family.is_orphaned());
    let mut contained = in_containers(if only_orphans { Scope::Left } else { Scope::Recorded(session) });
    contained.retain(|one| session.is_none_or(|session| one.session == session));
    let is_empty = families.is_empty() && contained.is_empty();
    let turns = if only_orphans { Vec::new() } else { turns(&families)? };
    if let Some(session) = session.filter(|_| is_empty && !only_orphans) {
        return Err(session_name::no_such_session(session));
    }
    if json {
        let asked =
            |family: &Family| turns.iter().find(|one| one.is_of(family)).map(|one| (&one.turns, &*one.requests));
        let document = Document::of(&families).with_turns(&families, asked).with_containers(&contained);
        let text = serde_json::to_string_pretty(&document).unwrap_or_default();
        let _ = write_lines(&[inert(&text)]);
        return Ok(());
    }
    match (is_empty, only_orphans) {
        (false, _) => drop(write_lines(&lines(&families, &contained, &turns, Screen::now()))),
        (true, true) => report(NOTHING_LEFT),
        (true, false) => report(&no_sessions()),
    }
    Ok(())
}

/// The processes of all sessions. Warns about directories that are not used.
pub(crate) fn families() -> Result<Vec<Family>, Failure> {
    let directories = Directories::of_this_user();
    fleet::scan(&directories)?;
    Ok(directories.families(&Snapshot::take()))
}

/// The requests of the sessions that run, of these families. Warns about shims that do not answer.
fn turns(families: &[Family]) -> Result<Vec<SessionTurns>, Failure> {
    let mut shims = Directories::of_this_user().scan().map(|scan| scan.shims).unwrap_or_default();
    shims.retain(|shim| families.iter().any(|family| family.shim.is_some() && family.session() == shim.name()));
    let (known, silent) = fleet::block_on(async { Ok(turns::ask(shims).await) })?;
    for (name, error) in silent {
        let why = clean(&error.to_string());
        report(&format!("warning: {name}: {why}; during which requests its processes began is unknown"));
    }
    known.iter().flat_map(SessionTurns::ended).for_each(|line| report(&line));
    Ok(known)
}

pub(crate) const NOTHING_LEFT: &str = "no process of an ended session is left";

/// What sessions have in containers. Warns about engines that do not answer.
pub(crate) fn in_containers(scope: Scope<'_>) -> Vec<Contained> {
    let ContainerScan { all, silent, idle, .. } = Directories::of_this_user().in_containers(scope);
    let warning =
        |error: &EngineError| format!("warning: {}; its containers are not listed", clean(&error.to_string()));
    silent.iter().for_each(|error| report(&warning(error)));
    // A Docker that is installed and not started is no news twice.
    idle.iter().map(warning).filter(|warning| told::is_news(warning)).for_each(|warning| report(&warning));
    all
}

/// A table of families: of each its shim, if that runs, its members and its containers; then the containers of sessions
/// without processes.
pub(crate) fn lines(
    families: &[Family],
    contained: &[Contained],
    turns: &[SessionTurns],
    screen: Screen,
) -> Vec<String> {
    let has_family = |one: &&Contained| families.iter().any(|family| family.mark == one.mark);
    let turns = |family: &Family| turns.iter().find(|one| one.is_of(family));
    let of_families = families.iter().flat_map(|family| rows(family, contained, turns(family)));
    let alone = contained.iter().filter(|one| !has_family(one)).map(|one| container(clean(&one.session), one, 0));
    let rows: Vec<(Cells, Tone)> = of_families.chain(alone).collect();
    let rows: Vec<_> = rows.iter().map(|(cells, tone)| (cells, *tone)).collect();
    lay_out(COLUMNS, &FLEXIBLE, &rows, screen)
}

fn rows(family: &Family, contained: &[Contained], turns: Option<&SessionTurns>) -> Vec<(Cells, Tone)> {
    let shim = family.shim.as_ref().map(|shim| {
        let alone = family.client == ClientState::Gone;
        let tone = if alone { Tone::Notice } else { Tone::Faint };
        (cells(shim, 0, client(family)), tone)
    });
    let below = usize::from(shim.is_some());
    let members = match turns {
        Some(turns) => by_request(family, turns, below),
        None => members(family, &family.members.iter().collect::<Vec<_>>(), below),
    };
    let containers = contained.iter().filter(|one| one.mark == family.mark);
    let containers = containers.map(|one| container(String::new(), one, below));
    let mut rows: Vec<_> = shim.into_iter().chain(members).chain(containers).collect();
    if let Some(([session, ..], _)) = rows.first_mut() {
        *session = clean(&family.session());
    }
    rows
}

/// Members of a family as a tree, each below those of them that are its ancestors.
fn members(family: &Family, some: &[&Member], below: usize) -> Vec<(Cells, Tone)> {
    let tone = if family.is_orphaned() { Tone::Alarm } else { Tone::Plain };
    // Each parent is before its children.
    let mut above: Vec<usize> = Vec::new();
    let row = |member: &&Member| {
        while above.last().is_some_and(|depth| *depth >= member.depth) {
            above.pop();
        }
        let depth = above.len();
        above.push(member.depth);
        (cells(&member.process, depth + below, state(family, member)), tone)
    };
    some.iter().map(row).collect()
}

/// The members by the request during which they began: requests in flight, then those that have ended, then what is of the
/// session.
fn by_request(family: &Family, turns: &SessionTurns, below: usize) -> Vec<(Cells, Tone)> {
    let mut groups: BTreeMap<_, (Vec<&Request>, Sureness, Vec<&Member>)> = BTreeMap::new();
    for member in &family.members {
        let (requests, sureness) = match is_server(family, &member.process) {
            true => (Vec::new(), Sureness::Sure),
            false => turns.began(member.process.id),
        };
        let order = (
            requests.is_empty(),
            requests.iter().all(|request| !request.is_open()),
            requests.iter().map(|request| (request.since, request.key.clone())).collect::<Vec<_>>(),
            // What is of the session is one tree.
            if requests.is_empty() { Sureness::Sure } else { sureness },
        );
        let group = groups.entry(order).or_insert_with(|| (requests, sureness, Vec::new()));
        group.1 = group.1.max(sureness);
        group.2.push(member);
    }
    let is_whole = groups.values().all(|(requests, ..)| requests.is_empty());
    let mut rows = Vec::new();
    for (requests, sureness, some) in groups.into_values() {
        if !is_whole {
            rows.push(heading(turns, &requests, sureness, below));
        }
        rows.extend(members(family, &some, below + usize::from(!is_whole)));
    }
    rows
}

/// The line above what began during these requests.
fn heading(turns: &SessionTurns, requests: &[&Request], sureness: Sureness, depth: usize) -> (Cells, Tone) {
    let name = |request: &&Request| format!("{}/{}", turns.session.name, request.label());
    let names = requests.iter().map(name).collect::<Vec<_>>().join(", ");
    let (words, state, tone) = match (requests, sureness) {
        ([], Sureness::Sure | Sureness::OneOf) => ("of the session".to_owned(), String::new(), Tone::Faint),
        ([], Sureness::Perhaps) => {
            ("of the session, or of requests that are forgotten".to_owned(), String::new(), Tone::Faint)
        }
        ([one], Sureness::Sure) => {
            let is_cancelled_later = one.cancel.is_none() && turns.turns.has_stopped_part(&one.key);
            let after = match one.is_open() {
                true => "",
                false if is_cancelled_later => "; what it has opened was cancelled; still runs",
                false => "; still runs",
            };
            let tone = if one.is_open() { Tone::Faint } else { Tone::Notice };
            (format!("during {names} {}", row::method(one)), format!("{}{after}", request_state(one)), tone)
        }
        (_, Sureness::Sure | Sureness::OneOf) => (format!("during one of {names}"), String::new(), Tone::Faint),
        (_, Sureness::Perhaps) => (format!("perhaps during {names}"), String::new(), Tone::Faint),
    };
    let none = String::new;
    ([none(), none(), format!("{}{}", "  ".repeat(depth), clean(&words)), none(), none(), none(), state], tone)
}

/// How far a request is, or what became of its cancel.
fn request_state(request: &Request) -> String {
    match (&request.cancel, request.is_open()) {
        (Some(cancel), false) => clean(&cancel.words),
        _ => request.state.as_str().to_owned(),
    }
}

fn container(session: String, one: &Contained, depth: usize) -> (Cells, Tone) {
    let (words, state) = match &one.what {
        What::Container(own) => {
            (format!("container {} {} ({})", own.short_id(), own.name, own.image), Some(own.state.as_str()))
        }
        What::Processes { container, .. } => (format!("started by exec in container {container}"), None),
    };
    let (state, tone) = match one.standing {
        Standing::Live => (clean(state.unwrap_or_default()), Tone::Plain),
        Standing::Left => (format!("left, {}", clean(state.unwrap_or("unknown"))), Tone::Alarm),
    };
    let none = String::new;
    ([session, none(), format!("{}{}", "  ".repeat(depth), clean(&words)), none(), none(), none(), state], tone)
}

fn cells(process: &Process, depth: usize, state: String) -> Cells {
    [
        String::new(),
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
    let Some(record) = &family.record else { return "unlisted".into() };
    match (&record.client, family.client) {
        (Some(Client { id, name }), ClientState::Alive) => format!("client: {} ({})", clean(name), id.pid),
        (Some(Client { id, name }), _) => format!("its client has ended: {} ({})", clean(name), id.pid),
        // Windows does not tell of a parent that had ended before.
        (None, _) => "client: unknown".into(),
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
