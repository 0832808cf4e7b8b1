//! `rescind ps --watch`.

use std::{io, time::Duration};

use rescind_feed::{Request, State};
use rescind_operator::{Directories, Follow, FollowEvent, FoundSessions, SessionUpdate};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{
    Arguments, document,
    live::{LiveSession, LiveSessions},
    row::{Busy, Row, method, state},
    table, tree, write_lines,
};
use crate::{
    failure::Failure,
    fleet::{self, report},
    screen::{Drawing, Screen, clean, fitted},
};

/// Shown until every session has answered or failed to.
const LOOKING: &str = "looking for sessions…";

/// How often the table is redrawn.
const REDRAW: Duration = Duration::from_millis(250);

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    // Reports a bad directory or session name before it starts.
    let shims = fleet::shims_of(arguments.selection.session.as_deref()).await?;
    let session = arguments.selection.session.as_ref().and_then(|_| shims.first()).map(|shim| shim.name().to_owned());
    let mut watch =
        WatchView { arguments, session, live: LiveSessions::default(), found: None, drawing: Drawing::default() };
    let mut follow = Follow::new(Directories::of_this_user(), Default::default());
    let on_terminal = Screen::now().is_redrawn() && !arguments.json;
    let mut redraw = interval(REDRAW);
    redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let shown = tokio::select! {
            event = follow.next() => match event {
                Some(event) => watch.apply(event, on_terminal),
                None => return Ok(()),
            },
            _ = redraw.tick(), if on_terminal => watch.draw(),
        };
        if shown.is_err() {
            // The reader has closed stdout.
            return Ok(());
        }
    }
}

struct WatchView<'a> {
    arguments: &'a Arguments,
    /// The number of the session that is meant, if only one is.
    session: Option<String>,
    live: LiveSessions,
    /// The sessions found, once known.
    found: Option<FoundSessions>,
    drawing: Drawing,
}

impl WatchView<'_> {
    fn apply(&mut self, event: FollowEvent, on_terminal: bool) -> io::Result<()> {
        let (session, update) = match event {
            FollowEvent::Sessions(found) => {
                self.live.keep(&found.sessions);
                self.found = Some(found);
                return Ok(());
            }
            FollowEvent::Update { session, update } => (session, update),
        };
        if self.session.as_ref().is_some_and(|wanted| *wanted != session) {
            return Ok(());
        }
        let lines: Vec<String> = match update {
            SessionUpdate::Event(message) => match message.event() {
                Ok(event) => {
                    let changed = self.live.apply(&session, event, Instant::now());
                    match self.arguments.json {
                        true => document::event(&session, &message.data).into_iter().collect(),
                        false => {
                            changed.iter().filter_map(|(before, after)| self.line(&session, before, after)).collect()
                        }
                    }
                }
                Err(error) => vec![format!("{session}  {}", clean(&error.to_string()))],
            },
            SessionUpdate::Lost(error) => {
                let words = error.to_string();
                match (self.live.lose(&session, error), self.arguments.json) {
                    (true, true) => document::lost(&session, &words).into_iter().collect(),
                    (true, false) if self.arguments.lists_silent() => vec![format!("{session}  {}", clean(&words))],
                    (true, false) if on_terminal => Vec::new(),
                    (true, false) => {
                        report(&format!("{session}: {}", clean(&words)));
                        Vec::new()
                    }
                    (false, _) => Vec::new(),
                }
            }
        };
        if on_terminal || lines.is_empty() { Ok(()) } else { write_lines(&lines) }
    }

    /// The line of a request that began, or whose state or receipt changed.
    fn line(&self, session: &str, before: &Option<Request>, after: &Request) -> Option<String> {
        if !self.matches(after, after.settled.as_ref().map_or(u64::MAX, |settled| settled.at)) {
            return None;
        }
        // Requests that had ended before they were first seen are not reported.
        if before.is_none() && !after.is_open() && !after.is_released() && !self.arguments.recent {
            return None;
        }
        let reported = |request: &Request| (state(request), request.cancel.as_ref().map(|cancel| cancel.words.clone()));
        if before.as_ref().is_some_and(|before| reported(before) == reported(after)) {
            return None;
        }
        let (state, words) = reported(after);
        let mut line = format!("{session}/{}  {}  {state}", clean(&after.label()), method(after));
        if let Some(words) = words {
            line.push_str("  ");
            line.push_str(&clean(&words));
        }
        Some(line)
    }

    /// Whether the selection includes a request; `now` is its session's clock.
    fn matches(&self, request: &Request, now: u64) -> bool {
        let selection = &self.arguments.selection;
        let age = u128::from(now.saturating_sub(request.since));
        let old = selection.older_than.is_none_or(|least| age >= least.as_micros());
        old && selection.names(request) && self.arguments.shows(request)
    }

    fn draw(&mut self) -> io::Result<()> {
        let screen = Screen::now();
        let (columns, height) = screen.size.unwrap_or((80, 24));
        self.drawing.draw(self.lines(screen, columns), height)
    }

    fn lines(&self, screen: Screen, columns: usize) -> Vec<String> {
        let now = Instant::now();
        let (mut rows, mut silent, mut answered, mut is_empty) = (Vec::new(), Vec::new(), 0, true);
        for (name, one) in self.live.sessions() {
            let copy = match one {
                LiveSession::Lost(error) if self.arguments.lists_silent() => {
                    rows.push(Row::of_error(name, error));
                    continue;
                }
                LiveSession::Lost(error) => {
                    silent.push(format!("{name}: {}; its requests are not listed", clean(&error.to_string())));
                    continue;
                }
                LiveSession::SessionUpdate(copy) => copy,
            };
            answered += 1;
            let clock = copy.clock(now);
            let ended = self.arguments.recent || self.arguments.state.contains(&State::Ended);
            let shown =
                copy.requests().filter(|one| (ended || one.is_open() || one.is_released()) && self.matches(one, clock));
            let before = rows.len();
            let row = |(depth, request)| Row::of_request(name, &copy.session, request, clock).below(depth);
            rows.extend(tree::in_order(shown).into_iter().map(row));
            is_empty &= rows.len() == before;
            if rows.len() == before && self.arguments.sessions {
                let busy = match (copy.requests().any(Request::is_open), copy.requests().any(Request::is_released)) {
                    (true, _) => Busy::InFlight,
                    (false, true) => Busy::Released,
                    (false, false) => Busy::No,
                };
                rows.push(Row::of_session(name, &copy.session, clock, busy));
            }
        }
        let words = if is_empty { self.nothing(answered) } else { None };
        let lines = if rows.is_empty() { Vec::new() } else { table::lines(&rows, screen) };
        // Lines are counted to draw over them, so none may wrap. Those of the table fit already.
        let words = words.into_iter().chain(silent).map(|line| fitted(&line, columns));
        lines.into_iter().chain(words).collect()
    }

    /// The message while no request is shown. It claims nothing before every session has answered.
    fn nothing(&self, answered: usize) -> Option<String> {
        let is_meant = |session: &&String| self.session.as_ref().is_none_or(|wanted| wanted == *session);
        let Some(found) = &self.found else { return Some(LOOKING.into()) };
        let sessions: Vec<_> = found.sessions.iter().filter(is_meant).collect();
        let is_known = |session: &&&String| self.live.knows(session);
        match sessions.iter().all(|session| is_known(&session)) {
            true => self.arguments.nothing_in(sessions.len(), answered, self.live.hides_work()),
            false => Some(LOOKING.into()),
        }
    }
}
