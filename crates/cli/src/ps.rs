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
    fleet::{self, Facts, Heard, Selection, speak},
    screen::Screen,
};
use row::{Row, is_from};

/// List the requests in flight behind every `rescind run` of yours.
///
/// The first column is what `rescind cancel` takes. A session whose shim does not answer within two seconds is listed
/// as such.
///
/// Exit code: 0, also when nothing is in flight; 2 if nothing could be asked.
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
            true => watch::run(&arguments).await,
            false => once(&arguments).await,
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.say();
            ExitCode::from(2)
        }
    }
}

async fn once(arguments: &Arguments) -> Result<(), Failure> {
    let shims = fleet::shims(arguments.selection.session.as_deref())?;
    let mut heard = fleet::hear(shims, &arguments.query()).await;
    let mut hidden = Vec::new();
    for Heard { shim, told } in &mut heard {
        let Ok(facts) = told else { continue };
        facts.requests.retain(|request| arguments.shows(request));
        if facts.more > 0 {
            hidden.push(format!("note: {}: {} more are not listed", shim.name(), facts.more));
        }
    }
    let shown = if arguments.json {
        let document = document::whole(&heard);
        say_all(&[document])
    } else {
        let screen = Screen::now();
        let (rows, idle) = arguments.rows(&heard);
        let said = if rows.is_empty() { Ok(()) } else { say_all(&table::lines(&rows, screen)) };
        if let Some(idle) = idle {
            speak(&idle);
        }
        said
    };
    hidden.iter().for_each(|line| speak(line));
    // Whoever reads has had enough.
    shown.or(Ok(()))
}

impl Arguments {
    fn query(&self) -> Query {
        let state = if self.recent || self.state.contains(&Stage::Ended) { Some("all") } else { None };
        Query { state, from: self.from.map(Sender::side), ..self.selection.query() }
    }

    /// Whether a request is to be shown, of those that a shim was asked for.
    fn shows(&self, request: &Request) -> bool {
        let stage = self.state.is_empty() || self.state.iter().any(|stage| stage.state() == request.state);
        stage && is_from(request, self.from.map(Sender::side))
    }

    /// Requests in the order of their sessions, sessions without any where they are wanted or there is nothing else,
    /// and what to say if nothing is in flight.
    fn rows(&self, heard: &[Heard]) -> (Vec<Row>, Option<String>) {
        let nothing = heard.iter().all(|heard| heard.told.as_ref().is_ok_and(|facts| facts.requests.is_empty()));
        let rows = heard.iter().flat_map(|Heard { shim, told }| match told {
            Err(error) => vec![Row::of_error(shim.name(), error)],
            Ok(facts) if !facts.requests.is_empty() => of_requests(shim.name(), facts).collect(),
            Ok(facts) if nothing || self.sessions => {
                vec![Row::of_session(shim.name(), &facts.session, facts.now, !self.is_unfiltered())]
            }
            Ok(_) => Vec::new(),
        });
        (rows.collect(), nothing.then(|| self.nothing(heard.len())))
    }

    /// Whether every request in flight is shown.
    const fn is_unfiltered(&self) -> bool {
        self.state.is_empty()
            && self.from.is_none()
            && self.selection.method.is_none()
            && self.selection.older_than.is_none()
    }

    fn nothing(&self, sessions: usize) -> String {
        let what = if self.is_unfiltered() { "nothing is in flight" } else { "nothing of this kind is in flight" };
        match sessions {
            0 => "no sessions: no `rescind run` of yours is running".into(),
            1 => format!("{what} in 1 session"),
            _ => format!("{what} in {sessions} sessions"),
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
