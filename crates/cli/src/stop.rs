//! `rescind stop`: cancels everything in flight, and ends what would not stop.

mod board;
mod enter;
mod scope;

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueEnum};
use rescind_feed::EndOrder;
use rescind_operator::{ListingQuery, Shim, ShimError};
use rescind_proto::cause::{MAX_REASON, cut};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout_at},
};

use crate::{
    absence::no_sessions,
    cancel::{
        choice::{Chosen, chosen},
        receipt::{self, Learnt, News, Plan, Reach},
    },
    completion::Completion,
    duration, end,
    failure::Failure,
    fleet::{self, Pages, SessionListing, report},
    ps::table,
    question,
    screen::{Drawing, Screen, Tone, clean, fitted, inert},
    turns::{self, Cancelled, LeftByRequest},
};
use board::{Board, SessionBoard, Standing};
use enter::Enter;
use scope::{Scope, Search};

pub(crate) use board::Tally;

/// Time for the cancel of an outer session to arrive in the sessions that its server has started.
const HEAD_START: Duration = Duration::from_millis(500);

/// Nothing more is expected of a server that was silent for so long after a cancel that its protocol does not answer.
const QUIET: Duration = Duration::from_secs(5);

/// How often the table is redrawn.
const REDRAW: Duration = Duration::from_millis(250);

/// News of sessions that wait to be shown.
const NEWS: usize = 64;

/// Stop everything in flight, in every session, and say of each request whether it stopped.
///
/// Cancels at once, without a question, every request in flight of every wrapped server, and of every other `rescind run`
/// and `serve` of yours, from either side: --dry-run only lists them. What has been done is not undone. What a server asks in
/// the course of a cancelled request is cancelled, too; other requests that begin meanwhile are not, and are counted. On a
/// terminal a table shows what becomes of each. Elsewhere a line is printed as each settles. What was cancelled before and
/// is not known to have stopped (`released` in `rescind ps`) is shown again. On a terminal Enter ends the wait (not on
/// Windows). Many requests that stand alike are shown together. Both end with a summary:
/// `stopped`, `finished` (it was answered, or ended by itself), `ended` (with its server), `still working` (progress goes
/// on), `no answer`
/// (the protocol requires one), `not delivered` (the server does not read the cancel, or its protocol allows none) and
/// `unknown` (MCP does not confirm a cancel, and nothing was heard since). What a server asked of its client is `withdrawn`
/// or `with its client` (the card may still be shown): no server is ended for it.
///
/// The client of an ACP prompt that was stopped before, and that its agent has not ended, is answered by the second stop: it
/// waits no longer.
///
/// Then it offers to end the servers of what would not stop (`still working`, `no answer` and `not delivered`), and those
/// of what is `unknown`. --kill ends the former without a question, and --kill=unknown both. All work of such a server ends
/// with it. If something is left, the last line says what to do next.
///
/// Processes that began during a request whose cancel is confirmed, or that was answered after it, or while a subagent was at
/// work whose cancel is confirmed, and still run, are counted and named: `rescind reap PID` ends them.
///
/// Exit code: 0 if all of it is over, or nothing was in flight; 1 if something is not known to be over, if such processes,
/// or processes of a session whose server was ended, still run, if the work of a session cannot be seen, or a name
/// matches no session; 2 if something failed, or a session did not answer.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    scope: Scope,

    /// How long to wait for what settles
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse, allow_hyphen_values = true)]
    within: Duration,

    /// Afterwards end the servers of what would not stop, without asking. `--kill=unknown` also ends those of which it is
    /// unknown whether they stopped, from this stop or an earlier cancel
    #[arg(long, value_name = "WHICH", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "working")]
    kill: Option<Kill>,

    /// The reason, cut at 1 KiB. Server and client get it if their protocol has a field for it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Only list what would be cancelled, and what was and is not known to have stopped
    #[arg(long, short = 'n', conflicts_with = "kill")]
    dry_run: bool,

    /// Print one JSON document at the end, and ask nothing
    #[arg(long)]
    json: bool,
}

/// The servers that --kill ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kill {
    /// Those that are known not to have stopped
    Working,
    /// Also those of which it is unknown
    Unknown,
}

impl Kill {
    const fn orders(self) -> EndOrders {
        EndOrders { resisting: true, unknown: matches!(self, Self::Unknown) }
    }
}

/// Of which work the servers are ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EndOrders {
    /// Of what is known not to have stopped.
    resisting: bool,
    /// Of what is not known to have stopped, where none of that session's work is known not to have.
    unknown: bool,
}

impl EndOrders {
    fn has(self, standing: Standing) -> bool {
        match standing {
            Standing::Resists => self.resisting,
            Standing::Unknown => self.unknown,
            Standing::Over => false,
        }
    }
}

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    fleet::block_on(run(arguments))
}

async fn run(arguments: &Arguments) -> Result<Completion, Failure> {
    let mut shims = fleet::shims()?;
    let is_none = shims.is_empty();
    let search = Arc::new(Search::new(arguments.scope.clone().numbered(&shims).await?));
    shims.retain(|shim| search.has_name(shim.name()));
    let mut stopping = Stopping::new(arguments);
    let until = stopping.cancel_all(shims, &search).await;
    stopping.board.is_closed = !arguments.dry_run;
    if !arguments.dry_run {
        stopping.look_at_processes(until).await;
    }
    let unmatched = search.unmatched();
    let has_silent = !stopping.silent.is_empty();
    // A session that did not answer may be the one that is meant.
    let is_sure = !has_silent || !search.asks_names();
    let is_named_in_vain = !unmatched.is_empty() && is_sure;
    if is_named_in_vain {
        unmatched.into_iter().for_each(|one| one.report());
        stopping.completion = stopping.completion.max(Completion::Partial);
    }
    stopping.show();
    if stopping.board.is_empty() {
        if is_named_in_vain {
            // Of what was not found nothing is known.
        } else if is_none {
            report(&no_sessions());
        } else if stopping.has_unseen && !has_silent {
            report("nothing is seen in flight");
        } else if !stopping.board.is_over() {
            report("nothing else is known to be in flight");
        } else if !has_silent {
            report("nothing is in flight");
        }
        // The servers of what is no longer listed may be ended all the same.
        if arguments.dry_run || stopping.board.sessions_that(|one| one != Standing::Over).is_empty() {
            return Ok(stopping.completion.max(Completion::whole_if(stopping.board.is_over())));
        }
    }
    if arguments.dry_run {
        return Ok(stopping.completion);
    }
    let orders = stopping.agreed()?;
    if orders != EndOrders::default() {
        stopping.end_servers(orders).await;
        stopping.board.ended_unlisted().for_each(|name| report(&format!("{name}: its server has ended")));
        stopping.look_at_processes(Instant::now()).await;
        stopping.show();
        let left = turns::left_by_sessions(&stopping.board.ended()).await;
        left.iter().for_each(|left| report(&left.line()));
        stopping.completion = stopping.completion.max(Completion::whole_if(left.is_empty()));
    }
    if arguments.json && !stopping.board.is_empty() {
        stopping.print_document();
    }
    stopping.board.left().flat_map(LeftByRequest::lines).for_each(|line| report(&line));
    stopping.next_step().iter().for_each(|line| report(line));
    let is_over = stopping.board.is_over() && stopping.board.running_processes() == 0;
    Ok(stopping.completion.max(Completion::whole_if(is_over)))
}

/// What became of everything that was in flight in some sessions.
#[derive(Debug)]
pub(crate) struct StoppedSessions {
    pub(crate) board: Board,
    /// Sessions that could not be asked, and why.
    pub(crate) silent: Vec<(String, String)>,
    /// A session may have work that cannot be seen.
    pub(crate) has_unseen: bool,
    /// What went wrong, in words.
    pub(crate) notices: Vec<String>,
}

/// Does for these sessions what the command does, without printing anything or ending a server, and tells `tally` how much
/// of it is over. Dropping the future ends the waiting.
pub(crate) async fn stop_quietly(
    shims: Vec<Shim>,
    within: Duration,
    reason: Option<String>,
    tally: watch::Sender<Tally>,
) -> StoppedSessions {
    let scope = Scope::default();
    let arguments = Arguments { scope: scope.clone(), within, kill: None, reason, dry_run: false, json: true };
    let mut stopping = Stopping { tally: Some(tally), ..Stopping::new(&arguments) };
    stopping.cancel_all(shims, &Arc::new(Search::new(scope))).await;
    stopping.board.is_closed = true;
    let Stopping { board, silent, has_unseen, notices, .. } = stopping;
    // The reasons are among the notices.
    StoppedSessions { board, silent, has_unseen, notices }
}

/// What a session's task reports.
#[derive(Debug)]
enum Step {
    /// The session is meant, and this is in flight.
    Listed(Box<SessionBoard>),
    /// The shim cannot be asked.
    Silent(ShimError),
    /// Not all that is in flight was listed, and why.
    Cut(ShimError),
    Learnt(Box<Learnt>),
}

impl From<Learnt> for Step {
    fn from(learnt: Learnt) -> Self {
        Self::Learnt(Box::new(learnt))
    }
}

/// Stops one session. Each has a task of its own, so that a shim that does not answer delays no other.
struct SessionStop {
    shim: Shim,
    search: Arc<Search>,
    /// The process ids of all shims that are stopped.
    shims: BTreeSet<u32>,
    reason: Option<String>,
    begun: Instant,
    until: Instant,
    /// Nothing is cancelled.
    is_dry: bool,
    news: mpsc::Sender<News<Step>>,
    /// Dropped once what is in flight was reported.
    listing: Option<mpsc::Sender<()>>,
}

impl SessionStop {
    async fn run(mut self) {
        let SessionListing { session, now, requests, cut, .. } = match timeout_at(self.until, self.list()).await {
            Ok(Ok(listing)) => listing,
            // It has ended, and all its work with it.
            Ok(Err(ShimError::Gone(_))) => return,
            Ok(Err(error)) => return self.report(Step::Silent(error)).await,
            Err(_) => return self.report(Step::Silent(ShimError::NotAnswering)).await,
        };
        if !self.search.has(&session) {
            return;
        }
        let is_inside = session.ancestors.iter().any(|pid| self.shims.contains(pid));
        // The cancel of an outer session may have arrived before this listing.
        let begun = now.saturating_sub(u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        let meant = |one: &Chosen| {
            one.is_worked_on() || one.request.is_released() || (is_inside && one.is_cancelled_since(begun))
        };
        let chosen: Vec<Chosen> = chosen(&self.shim, now, requests, meant).collect();
        let requests = chosen.iter().map(|one| one.request.clone());
        let listed = SessionBoard::new(self.shim.clone(), session, now, requests);
        self.report(Step::Listed(Box::new(listed))).await;
        if let Some(error) = cut {
            self.report(Step::Cut(error)).await;
        }
        self.listing = None;
        if self.is_dry || chosen.is_empty() {
            return;
        }
        let head_start = if is_inside { HEAD_START } else { Duration::ZERO };
        let reach = Reach::Whole { head_start, quiet: QUIET };
        let plan = Plan { reason: self.reason.clone(), turn_only: false, until: Some(self.until), reach };
        // Dropped at the end of the time, whatever it waits for then.
        let _ = timeout_at(self.until, receipt::cancel(&self.shim, now, chosen, &plan, &self.news)).await;
    }

    /// What is in flight, and what was cancelled before and may be worked on all the same.
    async fn list(&self) -> Result<SessionListing, ShimError> {
        let mut listing = fleet::ask(&self.shim, ListingQuery::default(), Pages::All).await?;
        let cancelled = ListingQuery { state: Some("recent"), cancelled: Some(true), ..ListingQuery::default() };
        listing.requests.extend(fleet::ask(&self.shim, cancelled, Pages::All).await?.requests);
        Ok(listing)
    }

    async fn report(&self, learnt: Step) {
        // Without a reader there is nobody to tell.
        let _ = self.news.send(News { session: self.shim.name().to_owned(), learnt }).await;
    }
}

/// The process id of a shim, with which the name of its session begins.
fn pid(session: &str) -> Option<u32> {
    session.split('-').next()?.parse().ok()
}

/// What is being stopped, and how it is shown.
struct Stopping<'a> {
    arguments: &'a Arguments,
    board: Board,
    /// Sessions that could not be asked, and why.
    silent: Vec<(String, String)>,
    /// Lines for a person, until the table is complete.
    notices: Vec<String>,
    /// A session may have work that cannot be seen.
    has_unseen: bool,
    completion: Completion,
    drawing: Drawing,
    on_terminal: bool,
    /// Whether the table is drawn over while what is shown settles.
    is_redrawn: bool,
    /// Until when what settles is awaited.
    until: Option<Instant>,
    /// Ends the wait.
    enter: Enter,
    /// Where a program is told how much is over.
    tally: Option<watch::Sender<Tally>>,
}

impl<'a> Stopping<'a> {
    fn new(arguments: &'a Arguments) -> Self {
        let screen = Screen::now();
        let on_terminal = screen.size.is_some() && !arguments.json;
        let (board, drawing) = (Board::default(), Drawing::default());
        Self {
            arguments,
            board,
            silent: Vec::new(),
            notices: Vec::new(),
            has_unseen: false,
            completion: Completion::Whole,
            drawing,
            on_terminal,
            is_redrawn: on_terminal && screen.is_redrawn(),
            until: None,
            enter: Enter::nobody(),
            tally: None,
        }
    }

    /// Cancels what is in flight, and shows what becomes of it until the time is over. Returns until when a person waits.
    async fn cancel_all(&mut self, shims: Vec<Shim>, search: &Arc<Search>) -> Instant {
        let (begun, until) = (Instant::now(), receipt::after(self.arguments.within));
        let (sender, news) = mpsc::channel(NEWS);
        let (listing, listed) = mpsc::channel(1);
        let reason = self.arguments.reason.as_deref().map(|reason| cut(reason, MAX_REASON).to_owned());
        let pids: BTreeSet<u32> = shims.iter().filter_map(|shim| pid(shim.name())).collect();
        // Its tasks end when it is dropped.
        let mut sessions = JoinSet::new();
        for shim in shims {
            let session = SessionStop {
                shim,
                search: Arc::clone(search),
                shims: pids.clone(),
                reason: reason.clone(),
                begun,
                until,
                is_dry: self.arguments.dry_run,
                news: sender.clone(),
                listing: Some(listing.clone()),
            };
            sessions.spawn(session.run());
        }
        drop((sender, listing));
        self.until = Some(until);
        if self.on_terminal && !self.arguments.dry_run {
            self.enter = Enter::listen();
        }
        let is_over = self.follow(news, Some(listed)).await;
        (self.until, self.enter) = (None, Enter::nobody());
        if is_over { until } else { Instant::now() }
    }

    /// Shows what is reported until nothing more is, or a person waits no longer: once all is cancelled that `listing` sees.
    /// Returns whether nothing more is reported.
    async fn follow(&mut self, mut news: mpsc::Receiver<News<Step>>, mut listing: Option<mpsc::Receiver<()>>) -> bool {
        let (mut is_listed, mut is_pressed) = (false, false);
        let mut redraw = interval(REDRAW);
        redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                heard = news.recv() => match heard {
                    Some(News { session, learnt }) => self.receive(&session, learnt),
                    None => return true,
                },
                _ = redraw.tick(), if !self.arguments.dry_run => match self.is_redrawn {
                    true => self.draw(),
                    // Together, so that many can be told together.
                    false => self.print_settled(),
                },
                is_echoed = self.enter.pressed(), if !is_pressed => {
                    is_pressed = true;
                    self.drawing.moved_down(usize::from(is_echoed));
                }
                None = async { listing.as_mut()?.recv().await }, if !is_listed => is_listed = true,
            }
            // No request is left without its cancel.
            if is_pressed && is_listed && news.is_empty() && self.board.is_ordered() {
                return false;
            }
            if let Some(tally) = &self.tally {
                tally.send_if_modified(|known| std::mem::replace(known, self.board.tally()) != *known);
            }
        }
    }

    fn receive(&mut self, name: &str, step: Step) {
        let learnt = match step {
            Step::Listed(listed) => {
                if listed.session.is_unseen() {
                    self.has_unseen = true;
                    self.notices.push(fleet::unseen(name, &listed.session));
                }
                self.notices.extend(fleet::unkept(name, &listed.session));
                return self.board.insert(*listed);
            }
            Step::Silent(error) => {
                self.completion = Completion::Failed;
                let why = clean(&error.to_string());
                self.notices.push(format!("error: {name}: {why}; what is in flight in it is unknown, and not stopped"));
                return self.silent.push((name.to_owned(), why));
            }
            Step::Cut(error) => {
                self.completion = Completion::Failed;
                let words = clean(&error.to_string());
                self.notices.push(format!("error: {name}: not all that is in flight was listed: {words}"));
                if let Some(session) = self.board.session(name) {
                    session.cut(words);
                }
                return;
            }
            Step::Learnt(learnt) => *learnt,
        };
        let Some(session) = self.board.session(name) else { return };
        match learnt {
            Learnt::Receipt(request) | Learnt::NotCancelled(request) => session.receive(request),
            Learnt::Began(request) => session.note_begun(&request),
            Learnt::Ended(how) => session.end(how),
            Learnt::Failed(why) => {
                self.notices.push(format!("error: {name}: {why}"));
                session.fail(why);
                self.completion = Completion::Failed;
            }
            Learnt::Unheard(why) => session.fail(why),
        }
    }

    fn draw(&mut self) {
        let screen = Screen::now();
        let (_, height) = screen.size.unwrap_or((80, 24));
        let rows = self.board.rows();
        if !rows.is_empty() {
            let lines = self.countdown(screen).into_iter().chain(table::lines(&rows, screen));
            // A closed stdout does not change what is done.
            let _ = self.drawing.draw(lines.collect(), height);
        }
    }

    /// How long it may take yet.
    fn countdown(&self, screen: Screen) -> Option<String> {
        let left = self.until?.saturating_duration_since(Instant::now());
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let enter = if self.enter.is_heard() { "; Enter ends the wait" } else { "" };
        let words = format!("waiting for what settles, {seconds} s at most{enter}");
        let words = screen.size.map_or_else(|| words.clone(), |(columns, _)| fitted(&words, columns));
        Some(screen.painted(&words, Tone::Faint))
    }

    /// Prints what has settled, where there is no table.
    fn print_settled(&mut self) {
        if !self.is_redrawn && !self.arguments.json {
            let mut stdout = io::stdout().lock();
            for line in self.board.settled_lines() {
                let _ = writeln!(stdout, "{line}");
            }
        }
    }

    /// Shows how everything stands now: the last lines, and the summary.
    fn show(&mut self) {
        let rows = if self.arguments.dry_run { self.board.listing() } else { self.board.rows() };
        if self.arguments.json {
            if self.arguments.dry_run || rows.is_empty() {
                self.print_document();
            }
        } else if !rows.is_empty() && (self.is_redrawn || self.arguments.dry_run) {
            let _ = self.drawing.draw_all(&table::lines(&rows, Screen::now()), self.is_redrawn);
        } else {
            self.print_settled();
        }
        self.notices.drain(..).for_each(|line| report(&line));
        if !self.arguments.json && !rows.is_empty() && !self.arguments.dry_run {
            let _ = writeln!(io::stdout(), "{}", self.board.summary());
        }
        self.board.began().iter().for_each(|line| report(line));
        // The next table stands below.
        self.drawing = Drawing::default();
    }

    fn print_document(&self) {
        let document = self.board.document(&self.silent);
        let text = serde_json::to_string(&document).unwrap_or_default();
        let _ = writeln!(io::stdout(), "{}", inert(&text));
    }

    /// Looks at what the requests have left that are over.
    async fn look_at_processes(&mut self, until: Instant) {
        let mut cancelled = Cancelled::default();
        self.board.cancelled().for_each(|(shim, request)| cancelled.note(shim, request));
        self.board.note_left(turns::left_by(cancelled, until).await);
    }

    /// Which servers to end: as --kill says, or as a person at the terminal does.
    fn agreed(&self) -> Result<EndOrders, Failure> {
        if let Some(kill) = self.arguments.kill {
            return Ok(kill.orders());
        }
        if !self.on_terminal || !io::stdin().is_terminal() {
            return Ok(EndOrders::default());
        }
        let resisting = self.agreed_to_end(Standing::Resists)?;
        Ok(EndOrders { resisting, unknown: self.agreed_to_end(Standing::Unknown)? })
    }

    /// Asks whether to end the servers of the sessions that stand so.
    fn agreed_to_end(&self, standing: Standing) -> Result<bool, Failure> {
        let servers = self.board.sessions_that(|one| one == standing);
        let servers: Vec<_> = servers.into_iter().filter(|one| end::is_here(&one.session) && !one.is_gone()).collect();
        if servers.is_empty() {
            return Ok(false);
        }
        for one in &servers {
            report(&one.line(standing));
        }
        let count = if servers.len() == 1 { "this server".to_owned() } else { format!("{} servers", servers.len()) };
        question::ask(&format!("End {count}?"))
    }

    /// What to do about what is left, in one line.
    fn next_step(&self) -> Option<String> {
        let left = self.board.sessions_that(|one| one != Standing::Over);
        let (gone, left): (Vec<_>, Vec<_>) = left.into_iter().partition(|one| one.is_gone());
        let (here, elsewhere): (Vec<_>, Vec<_>) = left.into_iter().partition(|one| end::is_here(&one.session));
        if let Some(one) = here.first() {
            let is_known = here.iter().all(|one| one.standing() == Standing::Resists);
            let which = match is_known {
                true => "--kill` ends the servers of what would not stop",
                false => "--kill=unknown` ends the servers of what is not known to have stopped",
            };
            return Some(format!(
                "hint: `rescind stop {which}; `rescind end {}` ends {}",
                one.shim.name(),
                if here.len() == 1 { "this one" } else { "one of them" }
            ));
        }
        if let Some(one) = elsewhere.first() {
            return Some(format!("hint: {}: {}", one.shim.name(), end::elsewhere(&one.session)));
        }
        (!gone.is_empty())
            .then(|| "hint: `rescind ps --orphans` shows what sessions that are gone have left".to_owned())
    }

    /// Ends servers, and shows that they have ended.
    async fn end_servers(&mut self, orders: EndOrders) {
        let (sender, news) = mpsc::channel(NEWS);
        let until = receipt::after(end::END_PATIENCE);
        // A connection that is closed ends nothing that is worked on elsewhere, and its client would lose the server.
        let here = |one: &&SessionBoard| end::is_here(&one.session);
        for one in self.board.sessions_that(|one| orders.has(one)).into_iter().filter(here) {
            let (shim, order, sender) = (one.shim.clone(), EndOrder { started: one.session.started }, sender.clone());
            tokio::spawn(async move {
                let session = shim.name().to_owned();
                let learnt = end::end_server(&shim, &order, until)
                    .await
                    .unwrap_or_else(|why| Learnt::Failed(format!("its server may not have ended: {why}")));
                let _ = sender.send(News { session, learnt: learnt.into() }).await;
            });
        }
        drop(sender);
        self.follow(news, None).await;
    }
}
