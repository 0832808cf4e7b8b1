//! `rescind ps`: lists the requests in flight behind all shims of the user.

mod arguments;
mod document;
mod history;
mod live;
pub(crate) mod processes;
pub(crate) mod row;
pub(crate) mod table;
mod tree;
mod watch;

use std::io::{self, Write};

use clap::Args;
use rescind_feed::{Request, Session, Side, State};
use rescind_operator::ListingQuery;

use crate::{
    absence::no_sessions,
    completion::Completion,
    failure::Failure,
    fleet::{self, Pages, Selection, SessionListing, ShimAnswer, report},
    named::{Named, value_of},
    number,
    screen::{Screen, clean},
    session_name,
};
use row::{Busy, Row, is_from};

/// List the requests in flight of every wrapped server, and of every other `rescind run` and `serve` of yours but those
/// with --unlisted.
///
/// Each `rescind run` is a session, named after its process id. The first column is the name for `rescind cancel`. Stdout
/// has a heading and one line for each request, or nothing if there is none; of a session with more than 1,000 only the
/// oldest 1,000 are listed, unless --state or --recent is given. What was cancelled and is not known to have stopped is listed,
/// too, as `released`, with its age since the cancel, for ten minutes at most: `rescind stop --kill=unknown` ends its server. A session of which a request waits for a person to sign in
/// (`run --url`) is named on stderr. A session that does not answer within two seconds is
/// listed as `not answering`; with --state, --from, --method or --older-than, such a session is reported on stderr only.
///
/// Exit code: 0 if every session answered, even if nothing is in flight; 1 if one did not, in which case requests may be
/// missing; 2 if the session of --session does not exist, or if the directory with the sessions' sockets
/// (RESCIND_RUNTIME_DIR, if that is set) cannot be used.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,

    /// Only requests in this state; may be repeated
    #[arg(long, value_name = "STATE", value_parser = value_of(STATES))]
    state: Vec<State>,

    /// Only requests that this side sent
    #[arg(long, value_name = "SIDE", value_parser = value_of(SIDES))]
    from: Option<Side>,

    /// Also list ended requests that their `rescind run` still remembers: about the last 4,096 of each side, for ten
    /// minutes at most
    #[arg(long)]
    recent: bool,

    /// List what has ended, also in sessions that have, that which ended last at the end: what it was, whose, how long it
    /// took, how it ended, and what its cancel learnt. Messages are not kept. On Linux it is in ~/.local/state/rescind
    #[arg(long, conflicts_with_all = ["older_than", "state", "recent", "sessions", "processes", "orphans", "watch"])]
    history: bool,

    /// With --history, list so many at most, those that ended last; 100 by default
    #[arg(long, value_name = "N", value_parser = number::count, requires = "history", allow_hyphen_values = true)]
    limit: Option<usize>,

    /// Also list each session that has nothing in flight, with its protocol
    #[arg(long, short)]
    sessions: bool,

    /// List processes in place of requests: each session's shim, and what it has started, with memory and
    /// processor time; then its containers
    #[arg(long, conflicts_with_all = ["method", "older_than", "state", "from", "recent", "sessions", "watch"])]
    processes: bool,

    /// List the processes and containers that sessions have left behind: those whose `rescind run` has ended. `rescind reap` ends them
    #[arg(long, conflicts_with_all = ["method", "older_than", "state", "from", "recent", "sessions", "watch"])]
    orphans: bool,

    /// Also print what each request in flight asks for, below it: its arguments, of which 16 KiB are kept of a request and
    /// 1 MiB of a session, also before you came. They may hold secrets
    #[arg(long, conflicts_with_all = ["processes", "orphans", "watch"])]
    args: bool,

    /// Keep running: redraw on a terminal; elsewhere print a line whenever a request begins, changes state or ends
    #[arg(long, short)]
    watch: bool,

    /// Print one JSON document; with --watch, one line for each event, and then --session is the only filter that
    /// has an effect
    #[arg(long)]
    json: bool,
}

/// The values of `--state`.
const STATES: &[Named<State>] = &[
    (State::Queued, "queued", "Not yet written to the other side"),
    (State::Running, "running", "Written to the other side"),
    (State::Cancelling, "cancelling", "Cancelled; its sender waits for the answer that its protocol requires"),
    (
        State::Stuck,
        "stuck",
        "Cancelled; after the grace it still reports progress, or the answer that its protocol requires is still missing",
    ),
    (State::Answering, "answering", "Its answer is not yet written to its sender"),
    (State::Released, "released", "Cancelled and over for its client, and nothing shows that its server has ended it"),
    (
        State::Ended,
        "ended",
        "Over for its sender, and still remembered (see --recent). The column STATE shows how it ended",
    ),
];

/// The values of `--from`.
const SIDES: &[Named<Side>] = &[(Side::Client, "client", ""), (Side::Server, "server", "")];

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    if arguments.processes || arguments.orphans {
        let Arguments { selection, orphans, json, .. } = arguments;
        let session = selection.session.as_deref().map(of_processes).transpose()?;
        return processes::list(session.as_deref(), *orphans, *json).map(|()| Completion::Whole);
    }
    if arguments.history {
        return history::list(arguments).map(|()| Completion::Whole);
    }
    fleet::block_on(async {
        match arguments.watch {
            true => watch::run(arguments).await.map(|()| Completion::Whole),
            false => once(arguments).await,
        }
    })
}

/// The number of the session that this text means. An ended session has no shim to ask, and only a number.
fn of_processes(text: &str) -> Result<String, Failure> {
    let shims = fleet::shims()?;
    if text.chars().all(|c| c.is_ascii_digit() || c == '-') {
        return Ok(text.to_owned());
    }
    fleet::block_on(async { Ok(session_name::find(text, shims).await?.name().to_owned()) })
}

async fn once(arguments: &Arguments) -> Result<Completion, Failure> {
    let shims = fleet::shims_of(arguments.selection.session.as_deref()).await?;
    let (query, pages) = (arguments.query(), arguments.pages());
    let mut answers = match arguments.lists_released() && query.state.is_none() {
        true => fleet::ask_shims_also_released(shims, &query, pages).await,
        false => fleet::ask_shims(shims, &query, pages).await,
    };
    let mut hidden = Vec::new();
    for ShimAnswer { shim, answer } in &mut answers {
        let Ok(facts) = answer else { continue };
        facts.requests.retain(|request| arguments.shows(request));
        let why = facts.cut.as_ref().map(|error| format!(": {}", clean(&error.to_string()))).unwrap_or_default();
        if facts.more > 0 {
            hidden.push(format!("note: {}: {} more requests are not listed{why}", shim.name(), facts.more));
        }
    }
    if let (Some(session), true) = (&arguments.selection.session, answers.is_empty()) {
        return Err(session_name::no_such_session(session));
    }
    if arguments.json {
        // A reader that closes stdout early is not an error.
        let _ = write_lines(&[document::whole(&answers)]);
    } else {
        let rows = arguments.rows(&answers);
        if !rows.is_empty() {
            let _ = write_lines(&table::lines(&rows, Screen::now()));
        }
        arguments.nothing(&answers).iter().for_each(|words| report(words));
        let sessions = answers.iter().filter_map(|ShimAnswer { shim, answer }| Some((shim, answer.as_ref().ok()?)));
        for (shim, SessionListing { session, now, requests, arguments: kept, .. }) in sessions {
            if arguments.args && kept.is_none() && !requests.is_empty() {
                report(&format!("note: {}: its rescind is older than this one, and keeps no arguments", shim.name()));
            }
            if session.is_unseen() {
                report(&fleet::unseen(shim.name(), session));
            }
            fleet::limited(shim.name(), session).iter().for_each(|words| report(words));
            fleet::unkept(shim.name(), session).iter().for_each(|words| report(words));
            if session.signing_in {
                let server = session.command.first().map(|url| clean(url)).unwrap_or_default();
                report(&fleet::signing_in(shim.name(), &server));
            }
            if let Some(unread) = session.held_up_by {
                report(&fleet::held_up(shim.name(), unread));
            }
            fleet::restarted(shim.name(), session, *now).iter().for_each(|words| report(words));
            fleet::greeted(shim.name(), session, *now).iter().for_each(|words| report(words));
        }
    }
    hidden.iter().for_each(|line| report(line));
    fleet::report_silent(&answers);
    Ok(Completion::whole_if(answers.iter().all(|answer| answer.answer.is_ok())))
}

impl Arguments {
    fn query(&self) -> ListingQuery {
        let state = if self.recent || self.state.contains(&State::Ended) { Some("all") } else { None };
        ListingQuery { state, from: self.from, arguments: self.args, ..self.selection.query() }
    }

    /// Every page if ended requests or states are asked for: those may be on any page.
    const fn pages(&self) -> Pages {
        if self.recent || !self.state.is_empty() { Pages::All } else { Pages::First }
    }

    /// Whether released requests are listed.
    fn lists_released(&self) -> bool {
        self.state.is_empty() || self.state.contains(&State::Released)
    }

    /// Whether to show a request that a shim has listed.
    fn shows(&self, request: &Request) -> bool {
        let is_in_state = self.state.is_empty() || self.state.contains(&request.state);
        is_in_state && is_from(request, self.from)
    }

    /// The rows: requests by session, and sessions without requests if those are wanted.
    fn rows(&self, answers: &[ShimAnswer]) -> Vec<Row> {
        let rows = answers.iter().flat_map(|ShimAnswer { shim, answer }| match answer {
            Err(error) if self.lists_silent() => vec![Row::of_error(shim.name(), error)],
            Ok(facts) if !facts.requests.is_empty() => of_requests(shim.name(), facts).collect(),
            Ok(facts) if self.sessions => {
                let busy = if self.is_unfiltered() { Busy::No } else { Busy::InFlight };
                vec![Row::of_session(shim.name(), &facts.session, facts.now, busy)]
            }
            Ok(_) | Err(_) => Vec::new(),
        });
        rows.collect()
    }

    /// Whether every request in flight is shown.
    const fn is_unfiltered(&self) -> bool {
        self.state.is_empty()
            && self.from.is_none()
            && self.selection.method.is_none()
            && self.selection.older_than.is_none()
    }

    /// Whether silent sessions are rows: not with a filter, since a script may count the rows.
    const fn lists_silent(&self) -> bool {
        self.is_unfiltered() || self.sessions
    }

    /// The message if no request is listed.
    fn nothing(&self, answers: &[ShimAnswer]) -> Option<String> {
        let listings = answers.iter().filter_map(|answer| answer.answer.as_ref().ok());
        // Requests that were not listed may match too.
        let (answered, empty) = listings.fold((0, true), |(n, empty), listing| {
            (n + 1, empty && listing.requests.is_empty() && listing.cut.is_none())
        });
        let hides_work = |one: &ShimAnswer| one.answer.as_ref().is_ok_and(|listing| hides_work(&listing.session));
        empty.then(|| self.nothing_in(answers.len(), answered, answers.iter().any(hides_work))).flatten()
    }

    /// The message if no request of `sessions` is listed. `answered` is how many of them have answered.
    /// With `hides_work` there may be work that is not listed.
    fn nothing_in(&self, sessions: usize, answered: usize, hides_work: bool) -> Option<String> {
        let what = match (self.is_unfiltered(), self.recent) {
            (true, false) => "nothing is in flight",
            (true, true) => "nothing is in flight or remembered",
            (false, false) => "no matching request is in flight",
            (false, true) => "no matching request is in flight or remembered",
        };
        let what = if hides_work { what.replacen("is in flight", "is seen in flight", 1) } else { what.to_owned() };
        match (sessions, answered) {
            (0, _) => Some(no_sessions()),
            (_, 0) => None,
            (1, 1) => Some(format!("{what} (1 session)")),
            (all, some) if all == some => Some(format!("{what} ({all} sessions)")),
            (_, 1) => Some(format!("{what} in the 1 session that answered")),
            (_, some) => Some(format!("{what} in the {some} sessions that answered")),
        }
    }
}

/// Whether there may be work in a session that is not listed.
fn hides_work(session: &Session) -> bool {
    session.is_unseen() || session.has_unkept()
}

fn of_requests(name: &str, facts: &SessionListing) -> impl Iterator<Item = Row> {
    let row = move |(depth, request): (usize, &Request)| {
        let kept = facts.arguments.as_ref().and_then(|kept| kept.get(&request.key));
        Row::of_request(name, &facts.session, request, facts.now).below(depth).with_note(kept.map(arguments::words))
    };
    tree::in_order(facts.requests.iter()).into_iter().map(row)
}

fn write_lines(lines: &[String]) -> io::Result<()> {
    let mut text = lines.join("\n");
    text.push('\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
