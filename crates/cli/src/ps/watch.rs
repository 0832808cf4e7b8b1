//! `rescind ps --watch`.

use std::{
    io::{self, Write},
    time::Duration,
};

use rescind_console::shims::{Directories, Follow, Found, News, Told};
use rescind_feed::Request;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{
    Arguments, document,
    live::{Live, One},
    row::{Row, method, state},
    say_all, table,
};
use crate::{
    failure::Failure,
    fleet::{self, speak},
    screen::{Screen, clean, fitted},
};

/// What is said until every session has answered, or has not.
const LOOKING: &str = "looking for sessions…";

/// How often a table is drawn anew.
const REDRAW: Duration = Duration::from_millis(250);

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    // Says what is wrong with the directory or the name before it begins.
    fleet::shims(arguments.selection.session.as_deref())?;
    let mut watch = Watch { arguments, live: Live::default(), found: None, drawn: 0 };
    let mut follow = Follow::new(Directories::of_this_user(), Default::default());
    let on_terminal = Screen::now().size.is_some() && !arguments.json;
    let mut redraw = interval(REDRAW);
    redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let shown = tokio::select! {
            news = follow.next() => match news {
                Some(news) => watch.take(news, on_terminal),
                None => return Ok(()),
            },
            _ = redraw.tick(), if on_terminal => watch.draw(),
        };
        if shown.is_err() {
            // Whoever reads has had enough.
            return Ok(());
        }
    }
}

struct Watch<'a> {
    arguments: &'a Arguments,
    live: Live,
    /// The sessions that are there, once that is known.
    found: Option<Found>,
    /// Lines that stand on the screen.
    drawn: usize,
}

impl Watch<'_> {
    fn take(&mut self, news: News, on_terminal: bool) -> io::Result<()> {
        let (session, told) = match news {
            News::Found(found) => {
                self.live.keep(&found.sessions);
                self.found = Some(found);
                return Ok(());
            }
            News::Of { session, told } => (session, told),
        };
        if self.arguments.selection.session.as_ref().is_some_and(|wanted| *wanted != session) {
            return Ok(());
        }
        let lines: Vec<String> = match told {
            Told::Event(message) => match message.event() {
                Ok(event) => {
                    let changed = self.live.take(&session, event, Instant::now());
                    match self.arguments.json {
                        true => document::event(&session, &message.data).into_iter().collect(),
                        false => {
                            changed.iter().filter_map(|(before, after)| self.line(&session, before, after)).collect()
                        }
                    }
                }
                Err(error) => vec![format!("{session}  {}", clean(&error.to_string()))],
            },
            Told::Lost(error) => {
                let words = error.to_string();
                match (self.live.lose(&session, error), self.arguments.json) {
                    (true, true) => document::lost(&session, &words).into_iter().collect(),
                    (true, false) if self.arguments.lists_silent() => vec![format!("{session}  {}", clean(&words))],
                    (true, false) if on_terminal => Vec::new(),
                    (true, false) => {
                        speak(&format!("{session}: {}", clean(&words)));
                        Vec::new()
                    }
                    (false, _) => Vec::new(),
                }
            }
        };
        if on_terminal || lines.is_empty() { Ok(()) } else { say_all(&lines) }
    }

    /// A line for a request that began, changed its state or learnt of its cancel.
    fn line(&self, session: &str, before: &Option<Request>, after: &Request) -> Option<String> {
        if !self.matches(after, after.settled.as_ref().map_or(u64::MAX, |settled| settled.at)) {
            return None;
        }
        // What had ended before it was first seen is no news.
        if before.is_none() && !after.is_open() && !self.arguments.recent {
            return None;
        }
        let told = |request: &Request| (state(request), request.cancel.as_ref().map(|cancel| cancel.words.clone()));
        if before.as_ref().is_some_and(|before| told(before) == told(after)) {
            return None;
        }
        let (state, words) = told(after);
        let mut line = format!("{session}/{}  {}  {state}", clean(&after.label()), method(after));
        if let Some(words) = words {
            line.push_str("  ");
            line.push_str(&clean(&words));
        }
        Some(line)
    }

    /// What a shim would have left out, had it been asked for a listing.
    fn matches(&self, request: &Request, now: u64) -> bool {
        let selection = &self.arguments.selection;
        let age = u128::from(now.saturating_sub(request.since));
        let old = selection.older_than.is_none_or(|least| age >= least.as_micros());
        old && selection.names(request) && self.arguments.shows(request)
    }

    fn draw(&mut self) -> io::Result<()> {
        let screen = Screen::now();
        let (columns, height) = screen.size.unwrap_or((80, 24));
        let mut lines = self.lines(screen, columns);
        let room = height.saturating_sub(2).max(1);
        if lines.len() > room {
            let more = lines.len() - (room - 1);
            lines.truncate(room - 1);
            lines.push(format!("… and {more} more"));
        }
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\u{1b}[{}F", self.drawn));
        }
        text.push_str("\u{1b}[J");
        lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        self.drawn = lines.len();
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    fn lines(&self, screen: Screen, columns: usize) -> Vec<String> {
        let now = Instant::now();
        let (mut rows, mut silent, mut answered, mut is_empty) = (Vec::new(), Vec::new(), 0, true);
        for (name, one) in self.live.sessions() {
            let copy = match one {
                One::Lost(error) if self.arguments.lists_silent() => {
                    rows.push(Row::of_error(name, error));
                    continue;
                }
                One::Lost(error) => {
                    silent.push(format!("{name}: {}; its requests are not listed", clean(&error.to_string())));
                    continue;
                }
                One::Told(copy) => copy,
            };
            answered += 1;
            let clock = copy.clock(now);
            let ended = self.arguments.recent || self.arguments.state.contains(&super::Stage::Ended);
            let shown = copy.requests().filter(|request| (ended || request.is_open()) && self.matches(request, clock));
            let before = rows.len();
            rows.extend(shown.map(|request| Row::of_request(name, &copy.session, request, clock)));
            is_empty &= rows.len() == before;
            if rows.len() == before && self.arguments.sessions {
                let is_at_work = copy.requests().any(Request::is_open);
                rows.push(Row::of_session(name, &copy.session, clock, is_at_work));
            }
        }
        let words = if is_empty { self.nothing(answered) } else { None };
        let lines = if rows.is_empty() { Vec::new() } else { table::lines(&rows, screen) };
        // Lines are counted to draw over them: none may wrap. Those of the table fit already.
        let words = words.into_iter().chain(silent).map(|line| fitted(&line, columns));
        lines.into_iter().chain(words).collect()
    }

    /// What to say while no request is shown: nothing that is not known yet.
    fn nothing(&self, answered: usize) -> Option<String> {
        let is_meant =
            |session: &&String| self.arguments.selection.session.as_ref().is_none_or(|wanted| wanted == *session);
        let Some(found) = &self.found else { return Some(LOOKING.into()) };
        let sessions: Vec<_> = found.sessions.iter().filter(is_meant).collect();
        let is_known = |session: &&&String| self.live.knows(session);
        match sessions.iter().all(|session| is_known(&session)) {
            true => self.arguments.nothing_in(sessions.len(), answered),
            false => Some(LOOKING.into()),
        }
    }
}
