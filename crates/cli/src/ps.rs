//! `rescind ps`: what is in flight behind all shims of the user.

mod document;
mod live;
mod row;
mod table;
mod watch;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use rescind_console::shims::Query;
use rescind_feed::{Request, Side, State};

use crate::{
    failure::Failure,
    fleet::{self, Facts, Heard, Pages, Selection, speak},
    screen::{Screen, clean},
};
use row::{Row, is_from};

/// List the requests in flight behind every `rescind run` of yours, but those started with --unlisted.
///
/// The first column is what `rescind cancel` takes. Stdout has one line for each request, below a heading: nothing if
/// there is none. A session whose shim does not answer within two seconds is listed as `not answering`, or only named
/// on stderr where requests are chosen by --state, --from, --method or --older-than.
///
/// Exit code: 0 if every session answered, also when nothing is in flight; 1 if one did not: requests may be missing;
/// 2 if nothing could be asked.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,

    /// Only requests in this state; may be repeated
    #[arg(long, value_name = "STATE", value_enum)]
    state: Vec<Stage>,

    /// Only requests that this side sent
    #[arg(long, value_name = "SIDE", value_enum)]
    from: Option<Sender>,

    /// Also requests that have ended and are still remembered
    #[arg(long)]
    recent: bool,

    /// Also sessions with nothing in flight
    #[arg(long, short)]
    sessions: bool,

    /// Go on: redraw on a terminal, elsewhere a line whenever a request begins, changes its state or ends
    #[arg(long, short)]
    watch: bool,

    /// One JSON document; with --watch one line of JSON for each event of a session, of which only --session leaves
    /// any out
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stage {
    Queued,
    Running,
    Cancelling,
    Stuck,
    Answering,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sender {
    Client,
    Server,
}

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    let done = fleet::block_on(async {
        match arguments.watch {
            true => watch::run(&arguments).await.map(|()| Coverage::Whole),
            false => once(&arguments).await,
        }
    });
    match done {
        Ok(coverage) => ExitCode::from(coverage as u8),
        Err(failure) => {
            failure.say();
            ExitCode::from(2)
        }
    }
}

/// How much of what there is was listed: the exit code.
#[derive(Clone, Copy, Debug)]
enum Coverage {
    Whole = 0,
    /// A session did not answer.
    Partial = 1,
}

async fn once(arguments: &Arguments) -> Result<Coverage, Failure> {
    let shims = fleet::shims(arguments.selection.session.as_deref())?;
    let mut heard = fleet::hear(shims, &arguments.query(), arguments.pages()).await;
    let mut hidden = Vec::new();
    for Heard { shim, told } in &mut heard {
        let Ok(facts) = told else { continue };
        facts.requests.retain(|request| arguments.shows(request));
        let why = facts.cut.as_ref().map(|error| format!(": {}", clean(&error.to_string()))).unwrap_or_default();
        if facts.more > 0 {
            hidden.push(format!("note: {}: {} more are not listed{why}", shim.name(), facts.more));
        }
    }
    if let (Some(session), true) = (&arguments.selection.session, heard.is_empty()) {
        return Err(fleet::no_such_session(session));
    }
    if arguments.json {
        // A reader that has had enough is no failure.
        let _ = say_all(&[document::whole(&heard)]);
    } else {
        let rows = arguments.rows(&heard);
        if !rows.is_empty() {
            let _ = say_all(&table::lines(&rows, Screen::now()));
        }
        arguments.nothing(&heard).iter().for_each(|words| speak(words));
    }
    hidden.iter().for_each(|line| speak(line));
    fleet::speak_unheard(&heard);
    Ok(if heard.iter().all(|heard| heard.told.is_ok()) { Coverage::Whole } else { Coverage::Partial })
}

impl Arguments {
    fn query(&self) -> Query {
        let state = if self.recent || self.state.contains(&Stage::Ended) { Some("all") } else { None };
        Query { state, from: self.from.map(Sender::side), ..self.selection.query() }
    }

    /// All of them where few are meant, or the newest: those may stand anywhere.
    const fn pages(&self) -> Pages {
        if self.recent || !self.state.is_empty() { Pages::All } else { Pages::First }
    }

    /// Whether a request is to be shown, of those that a shim was asked for.
    fn shows(&self, request: &Request) -> bool {
        let stage = self.state.is_empty() || self.state.iter().any(|stage| stage.state() == request.state);
        stage && is_from(request, self.from.map(Sender::side))
    }

    /// Requests in the order of their sessions; sessions without any where they are wanted.
    fn rows(&self, heard: &[Heard]) -> Vec<Row> {
        let rows = heard.iter().flat_map(|Heard { shim, told }| match told {
            Err(error) if self.lists_silent() => vec![Row::of_error(shim.name(), error)],
            Ok(facts) if !facts.requests.is_empty() => of_requests(shim.name(), facts).collect(),
            Ok(facts) if self.sessions => {
                vec![Row::of_session(shim.name(), &facts.session, facts.now, !self.is_unfiltered())]
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

    /// Whether sessions that do not answer stand among the requests: not where a script counts those of a kind.
    const fn lists_silent(&self) -> bool {
        self.is_unfiltered() || self.sessions
    }

    /// What to say if no request is listed.
    fn nothing(&self, heard: &[Heard]) -> Option<String> {
        let answers = heard.iter().filter_map(|heard| heard.told.as_ref().ok());
        // What was not reached may be of this kind.
        let (answered, empty) = answers
            .fold((0, true), |(n, empty), facts| (n + 1, empty && facts.requests.is_empty() && facts.cut.is_none()));
        empty.then(|| self.nothing_in(heard.len(), answered)).flatten()
    }

    /// The same, of so many sessions, and so many of them that answered.
    fn nothing_in(&self, sessions: usize, answered: usize) -> Option<String> {
        let what = match (self.is_unfiltered(), self.recent) {
            (true, false) => "nothing is in flight",
            (true, true) => "nothing is in flight or remembered",
            (false, false) => "nothing of this kind is in flight",
            (false, true) => "nothing of this kind is in flight or remembered",
        };
        match (sessions, answered) {
            (0, _) => Some(fleet::no_sessions()),
            (_, 0) => None,
            (1, 1) => Some(format!("{what} in 1 session")),
            (all, some) if all == some => Some(format!("{what} in {all} sessions")),
            (_, 1) => Some(format!("{what} in the 1 session that answered")),
            (_, some) => Some(format!("{what} in the {some} sessions that answered")),
        }
    }
}

fn of_requests(name: &str, facts: &Facts) -> impl Iterator<Item = Row> {
    facts.requests.iter().map(move |request| Row::of_request(name, &facts.session, request, facts.now))
}

fn say_all(lines: &[String]) -> io::Result<()> {
    let mut text = lines.join("\n");
    text.push('\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

impl Stage {
    const fn state(self) -> State {
        match self {
            Self::Queued => State::Queued,
            Self::Running => State::Running,
            Self::Cancelling => State::Cancelling,
            Self::Stuck => State::Stuck,
            Self::Answering => State::Answering,
            Self::Ended => State::Ended,
        }
    }
}

impl Sender {
    const fn side(self) -> Side {
        match self {
            Self::Client => Side::Client,
            Self::Server => Side::Server,
        }
    }
}
