//! A row of the table: a request, or a session.

use std::collections::{BTreeMap, BTreeSet};

use rescind_feed::{Connected, Progress, Request, Session, Settled, SettledHow, Side, State, duration};
use rescind_operator::ShimError;

use crate::{
    screen::{Tone, clean},
    session_name,
};

/// The headings of the columns.
pub(crate) const COLUMNS: [&str; 12] =
    ["ID", "SERVER", "CLIENT", "OWNER", "PROTOCOL", "FROM", "METHOD", "AGE", "STATE", "PROGRESS", "DEADLINE", "CANCEL"];

/// Where in them the server, its client and the method stand.
const SERVER: usize = 1;
const CLIENT: usize = 2;
const METHOD: usize = 6;

/// How far the rows of children are indented at most.
const DEEPEST: usize = 8;

/// The state of a session of which a request waits for a person.
const SIGNING_IN: &str = "waits for a person to sign in";

/// What a session without listed requests has all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// Requests in flight.
    InFlight,
    /// None, but some that were cancelled and are not known to have ended (D52).
    Released,
    /// Neither.
    No,
}

/// One row. Every cell is clean text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) cells: [String; COLUMNS.len()],
    pub(crate) tone: Tone,
    /// Of an entry in a client's configuration, the folder in which it was started.
    folder: Option<String>,
    /// A line below it.
    pub(super) note: Option<String>,
}

/// Tells apart entries of one name and client that were started in different folders: each has its folder behind its name.
pub(crate) fn tell_apart(rows: &mut [Row]) {
    let mut folders: BTreeMap<(String, String), BTreeSet<Option<String>>> = BTreeMap::new();
    let called = |row: &Row| (row.cells[SERVER].clone(), row.cells[CLIENT].clone());
    for row in &*rows {
        folders.entry(called(row)).or_default().insert(row.folder.clone());
    }
    for row in rows {
        let is_alone = folders.get(&called(row)).is_none_or(|folders| folders.len() < 2);
        if let (false, Some(folder)) = (is_alone, &row.folder) {
            row.cells[SERVER].push_str(&format!(" ({folder})"));
        }
    }
}

impl Row {
    /// The row of a request; `now` is its session's clock.
    pub(crate) fn of_request(name: &str, session: &Session, request: &Request, now: u64) -> Self {
        let has_ended = !request.is_open() && !request.is_released();
        let end = request.settled.as_ref().filter(|_| has_ended).map_or(now, |settled| settled.at);
        let waits = request.is_open() && request.cancel.is_none();
        Self {
            cells: [
                format!("{name}/{}", clean(&request.label())),
                server(session),
                session_name::client(session).unwrap_or_default(),
                owner(session),
                String::new(),
                request.from.as_str().into(),
                method(request),
                duration(end.saturating_sub(request.begun())),
                state(request),
                match request.waits_for_turn {
                    true => "waits for the turn before".into(),
                    false => {
                        request.progress.as_ref().map(progress).or_else(|| last_seen(request, now)).unwrap_or_default()
                    }
                },
                request.deadline.filter(|_| waits).map(|at| deadline(at, now)).unwrap_or_default(),
                request.cancel.as_ref().map_or_else(|| uncancellable(request), |cancel| clean(&cancel.words)),
            ],
            tone: tone(request.state),
            folder: None,
            note: None,
        }
        .started_with(session)
    }

    /// The row of what is shown so far below its parent.
    pub(crate) fn below(mut self, depth: usize) -> Self {
        if depth > 0 {
            // No deeper than there is room for.
            self.cells[METHOD].insert_str(0, &format!("{}└ ", "  ".repeat(depth.min(DEEPEST) - 1)));
        }
        self
    }

    /// The row with this line below it.
    pub(super) fn with_note(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }

    /// The row of a session without listed requests.
    pub(super) fn of_session(name: &str, session: &Session, now: u64, busy: Busy) -> Self {
        let protocol = match (clean(&session.client.protocol), clean(&session.server.protocol)) {
            (client, server) if client == server => client,
            (client, server) => format!("{client}, {server}"),
        };
        let mut state = match (busy, session.is_unseen()) {
            _ if session.signing_in => SIGNING_IN,
            (Busy::InFlight, _) => "at work",
            (Busy::Released, _) => "not known to have stopped",
            (Busy::No, true) => "cannot be seen",
            (Busy::No, false) => "idle",
        }
        .to_owned();
        if session.is_sharer() {
            state.push_str(", shares its server");
        } else if session.shared.is_some() {
            state.push_str(", shared");
        }
        state.extend(refused(session).map(|count| format!(", {count} refused by limits")));
        state.extend(session.connected.iter().map(|connected| format!(", {}", over_http(connected))));
        let client = session_name::client(session).unwrap_or_default();
        let cells = [server(session), client, owner(session), protocol, duration(now), state];
        Self::of(name, cells, Tone::Faint).started_with(session)
    }

    /// The row of a session whose shim cannot be asked.
    pub(super) fn of_error(name: &str, error: &ShimError) -> Self {
        let none = String::new;
        Self::of(name, [none(), none(), none(), none(), none(), clean(&error.to_string())], Tone::Alarm)
    }

    /// A row with these cells, and no folder.
    pub(crate) const fn new(cells: [String; COLUMNS.len()], tone: Tone) -> Self {
        Self { cells, tone, folder: None, note: None }
    }

    /// A row of this session, whose folder tells it apart from others of its name.
    pub(crate) fn started_with(self, session: &Session) -> Self {
        let folder = session.entry.as_ref().and_then(|_| session_name::folder(session));
        Self { folder, ..self }
    }

    fn of(name: &str, [server, client, owner, protocol, age, state]: [String; 6], tone: Tone) -> Self {
        let (none, name) = (String::new, name.to_owned());
        let cells = [name, server, client, owner, protocol, none(), none(), age, state, none(), none(), none()];
        Self::new(cells, tone)
    }
}

/// How many requests the limits of a session have refused, if they have any.
fn refused(session: &Session) -> Option<u64> {
    Some(session.limits.values().sum()).filter(|count| *count > 0)
}

/// Who is connected, in a few words.
fn over_http(connected: &Connected) -> String {
    let Connected { sessions, responses, kept, kept_bytes: _, restarts } = *connected;
    let count = |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let mut words = Vec::new();
    if sessions > 1 {
        words.push(count(sessions, "session", "sessions"));
    }
    words.push(count(responses, "response open", "responses open"));
    if kept > 0 {
        words.push(format!("{kept} kept"));
    }
    if restarts > 0 {
        words.push(count(restarts, "restart", "restarts"));
    }
    words.join(", ")
}

/// The name of its entry in the client's configuration, the server's own name, or its program.
pub(crate) fn server(session: &Session) -> String {
    let program = session.command.first().map(|path| path.rsplit('/').next().unwrap_or(path));
    clean(session.entry.as_deref().or(session.server.name.as_deref()).or(program).unwrap_or("?"))
}

/// Whose it is, where clients have owners.
pub(crate) fn owner(session: &Session) -> String {
    session.owner.as_deref().map(clean).unwrap_or_default()
}

/// `METHOD` or `METHOD:TOOL`.
pub(crate) fn method(request: &Request) -> String {
    match &request.name {
        Some(name) => format!("{}:{}", clean(&request.method), clean(name)),
        None => clean(&request.method),
    }
}

/// That its agent does not allow a child to be cancelled.
fn uncancellable(request: &Request) -> String {
    match &request.child {
        Some(child) if request.is_open() && !child.can_cancel => "cannot be cancelled".into(),
        Some(_) | None => String::new(),
    }
}

/// Its state, or how it ended.
pub(super) fn state(request: &Request) -> String {
    if let Some(child) = &request.child {
        let is_cancelling = request.state == State::Cancelling && !child.state.is_unseen();
        return if is_cancelling { State::Cancelling.as_str() } else { child.state.as_str() }.into();
    }
    if let Some(task) = request.at_work.as_ref().filter(|_| request.state == State::Running) {
        return task.status.as_str().into();
    }
    match (request.state, &request.settled) {
        (State::Ended, Some(Settled { how: SettledHow::Error, code: Some(code), .. })) => format!("error {code}"),
        (State::Ended, Some(settled)) => settled.how.as_str().into(),
        (state, _) => state.as_str().into(),
    }
}

/// When the status of a task was reported, since which nothing is known of it.
fn last_seen(request: &Request, now: u64) -> Option<String> {
    let task = request.at_work.as_ref().filter(|_| request.is_open())?;
    Some(format!("as seen {} ago", duration(now.saturating_sub(task.reported))))
}

fn progress(progress: &Progress) -> String {
    let number = match (progress.part(), progress.progress, progress.total) {
        (Some(part), ..) => format!("{:.0}%", (part * 100.0).floor()),
        (None, Some(done), Some(total)) => format!("{done} of {total}"),
        (None, Some(done), None) => format!("{done}"),
        (None, None, _) => String::new(),
    };
    let words = progress.message.as_deref().map(clean).unwrap_or_default();
    let count =
        if number.is_empty() && words.is_empty() { format!("{} so far", progress.count) } else { String::new() };
    [number, words, count].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn deadline(at: u64, now: u64) -> String {
    match at.checked_sub(now) {
        Some(left) => format!("in {}", duration(left)),
        None => "now".into(),
    }
}

const fn tone(state: State) -> Tone {
    match state {
        State::Queued | State::Answering | State::Ended => Tone::Faint,
        State::Running | State::Later(_) => Tone::Plain,
        State::Cancelling | State::Released => Tone::Notice,
        State::Stuck => Tone::Alarm,
        _ => Tone::Plain,
    }
}

/// Whether `side` sent the request.
pub(super) fn is_from(request: &Request, side: Option<Side>) -> bool {
    side.is_none_or(|side| request.from == side)
}
