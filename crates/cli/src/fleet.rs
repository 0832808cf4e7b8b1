//! Asks all shims of the user at once.

use std::{collections::BTreeMap, io::Write, time::Duration};

use clap::Args;
use rescind_feed::{Arguments, Listing, Request, Restarts, Session, Side, UNKNOWN_PROTOCOL, UNSEEN_PROTOCOL};
use rescind_operator::{Directories, ListingQuery, Shim, ShimError, ShimScan, ask_all};
use tokio::runtime::Runtime;

use crate::{
    duration, failure::Failure, origin::in_words_of_its_caller, screen::clean, selector::Selector, session_name,
};

/// Which requests are selected.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Selection {
    /// Only requests of this session: its number, or the name of its entry in the client's configuration, also as
    /// CLIENT:NAME
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Only requests of this method, or of this method and tool: `tools/call:index`
    #[arg(long, value_name = "METHOD[:TOOL]", value_parser = |text: &str| Selector::parse(text).map(|one| one.to_string()))]
    pub(crate) method: Option<String>,

    /// Only requests older than this, such as 10m
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) older_than: Option<Duration>,
}

/// The answer of one shim.
#[derive(Debug)]
pub(crate) struct ShimAnswer {
    pub(crate) shim: Shim,
    pub(crate) answer: Result<SessionListing, ShimError>,
}

/// A session and the selected requests.
#[derive(Debug)]
pub(crate) struct SessionListing {
    pub(crate) session: Session,
    /// The session's clock, in microseconds.
    pub(crate) now: u64,
    pub(crate) requests: Vec<Request>,
    /// How many more match.
    pub(crate) more: u64,
    /// Why the rest was not listed, if it was asked for.
    pub(crate) cut: Option<ShimError>,
    /// The arguments of those in flight, by their keys, if they were asked for; `None` if its shim keeps none.
    pub(crate) arguments: Option<BTreeMap<String, Arguments>>,
}

/// How much of a long listing to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// The first page: the oldest requests.
    First,
    /// Every page, except requests that began after the first was asked for.
    All,
}

impl Selection {
    /// The query for a shim.
    pub(crate) fn query(&self) -> ListingQuery {
        let micros = |age: Duration| u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        ListingQuery { method: self.method.clone(), older_than: self.older_than.map(micros), ..ListingQuery::default() }
    }

    /// Whether a request has the selected method and tool.
    pub(crate) fn names(&self, request: &Request) -> bool {
        self.method.as_ref().is_none_or(|wanted| {
            let tool = wanted.strip_prefix(&request.method).and_then(|rest| rest.strip_prefix(':'));
            *wanted == request.method || tool.is_some_and(|tool| request.name.as_deref() == Some(tool))
        })
    }
}

/// Finds the usable shims. Warns about sockets that are not used.
pub(crate) fn shims() -> Result<Vec<Shim>, Failure> {
    Ok(scan(&Directories::of_this_user())?.shims)
}

/// The same, or only that of the session which this text means.
pub(crate) async fn shims_of(session: Option<&str>) -> Result<Vec<Shim>, Failure> {
    let shims = shims()?;
    match session {
        None => Ok(shims),
        Some(session) => session_name::find(session, shims).await.map(|shim| vec![shim]),
    }
}

/// Scans the directories and warns about what is not used.
pub(crate) fn scan(directories: &Directories) -> Result<ShimScan, Failure> {
    let scan = directories.scan();
    let scan = scan.map_err(|one| Failure::new(one.path.display(), &one.error, one.error.hint()))?;
    for one in &scan.unusable {
        report(&format!("warning: {}; not used", clean(&one.to_string())));
    }
    for (socket, why) in &scan.refused {
        report(&format!("warning: {}: {why}; not used", clean(&socket.display().to_string())));
    }
    Ok(scan)
}

/// The message for a session of which a request waits for a person.
pub(crate) fn signing_in(session: &str, server: &str) -> String {
    format!("note: {session}: waits for a person to sign in at {server}, in the browser that was opened for it")
}

/// The messages for a session whose limits have refused requests, or do not apply (D65).
pub(crate) fn limited(name: &str, session: &Session) -> Vec<String> {
    let words = |limit: &String, what: &str| format!("note: {name}: {} {what}", clean(limit));
    let of_limit = |(limit, count): (&String, &u64)| match *count {
        _ if session.server.protocol == UNKNOWN_PROTOCOL => {
            Some(words(limit, "refuses nothing: rescind does not know the protocol"))
        }
        _ if session.is_opaque() => Some(words(limit, "refuses nothing: everything of this protocol passes")),
        0 => None,
        1 => Some(words(limit, "has refused 1 request")),
        count => Some(words(limit, &format!("has refused {count} requests"))),
    };
    session.limits.iter().filter_map(of_limit).collect()
}

/// The message for a session in which this side does not read what is written to it.
pub(crate) fn held_up(session: &str, by: Side) -> String {
    let (unread, waiting) = match by {
        Side::Client => ("client", "server"),
        Side::Server => ("server", "client"),
    };
    format!(
        "note: {session}: its {unread} does not read, so nothing more is read of its {waiting}, which may stand still"
    )
}

/// The message for a session whose server was started again, or is about to be (D64); `now` is its clock.
pub(crate) fn restarted(session: &str, facts: &Session, now: u64) -> Option<String> {
    let times = |count: u64| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let before = facts.restarts.map(|Restarts { count, last, .. }| {
        format!(
            "started again {}, the last time {} ago",
            times(count),
            rescind_feed::duration(now.saturating_sub(last))
        )
    });
    match (facts.restarting, before) {
        (true, before) => {
            let before = before.map(|before| format!("; it was {before}")).unwrap_or_default();
            Some(format!(
                "note: {session}: its server has died and is being started again: requests are queued{before}"
            ))
        }
        (false, Some(before)) => Some(format!("note: {session}: its server died and was {before}")),
        (false, None) => None,
    }
}

/// The message for a session whose client was greeted before its server has started (D70); `now` is its clock.
pub(crate) fn greeted(session: &str, facts: &Session, now: u64) -> Option<String> {
    let waited = rescind_feed::duration(now.saturating_sub(facts.starting?));
    Some(format!(
        "note: {session}: its server has not started yet, since {waited}; its client was greeted from the cache, and its \
         requests are queued"
    ))
}

/// The message for a session whose work cannot be seen, or not all of it (D55, D57, D58).
pub(crate) fn unseen(session: &str, facts: &Session) -> String {
    if facts.hides_work {
        return format!(
            "note: {session}: its agent does not report all of its background work: whether any goes on cannot be seen, and \
             only the end of the server stops it (`rescind end {session}`)"
        );
    }
    if facts.server.protocol == UNSEEN_PROTOCOL {
        return format!(
            "note: {session}: its client has turned off the messages that tell when a turn ends: whether its work has ended \
             cannot be seen"
        );
    }
    format!(
        "note: {session}: rescind does not know its protocol: what its server works on cannot be seen, and only the end of \
         the server stops it (`rescind end {session}`)"
    )
}

/// The message for a session with more work than its shim follows (D54, D58), if there is such.
fn unkept_work(session: &str, facts: &Session) -> Option<String> {
    let announced = match facts.server.protocol.starts_with("codex") {
        true => "its server has begun more turns and terminals than rescind follows",
        false => "its agent has announced more subagents than rescind follows",
    };
    (facts.unkept_children > 0).then(|| {
        format!(
            "note: {session}: {announced}: not all of those that work are listed, and those that are not cannot be stopped \
             one by one"
        )
    })
}

/// The messages for a session with more work (D54, D58), tasks (D56) or released requests (D52) than its shim keeps.
pub(crate) fn unkept(name: &str, session: &Session) -> Vec<String> {
    let tasks = (session.unkept_tasks > 0).then(|| {
        format!(
            "note: {name}: more requests have become tasks than rescind follows: not all of those that work are listed, and \
             those that are not cannot be stopped one by one"
        )
    });
    let released = (session.unkept_released > 0).then(|| {
        format!(
            "note: {name}: {} that were cancelled and are not known to have stopped are no longer listed: there were more \
             than rescind keeps; only the end of the server is sure to stop them (`rescind end {name}`)",
            many(usize::try_from(session.unkept_released).unwrap_or(usize::MAX))
        )
    });
    unkept_work(name, session).into_iter().chain(tasks).chain(released).collect()
}

/// Asks each shim, many at once. Shims that are gone are left out; the order of the others is kept.
pub(crate) async fn ask_shims(shims: Vec<Shim>, query: &ListingQuery, pages: Pages) -> Vec<ShimAnswer> {
    let query = query.clone();
    let answers = ask_all(shims, move |shim| {
        let query = query.clone();
        async move { ask(&shim, query, pages).await }
    });
    present(answers.await)
}

/// The same, with released requests (D52).
pub(crate) async fn ask_shims_also_released(shims: Vec<Shim>, query: &ListingQuery, pages: Pages) -> Vec<ShimAnswer> {
    let query = query.clone();
    let answers = ask_all(shims, move |shim| {
        let query = query.clone();
        async move { ask_also_released(&shim, query, pages).await }
    });
    present(answers.await)
}

fn present(answers: Vec<(Shim, Result<SessionListing, ShimError>)>) -> Vec<ShimAnswer> {
    let present = |(_, answer): &(_, Result<_, ShimError>)| !matches!(answer, Err(ShimError::Gone(_)));
    answers.into_iter().filter(present).map(|(shim, answer)| ShimAnswer { shim, answer }).collect()
}

/// Asks one shim.
pub(crate) async fn ask(shim: &Shim, query: ListingQuery, pages: Pages) -> Result<SessionListing, ShimError> {
    let session = shim.session().await?;
    list(shim, session, query, pages).await
}

/// Asks one shim for what matches, and also for what matches of the requests that were cancelled and are not known to have
/// ended (D52). A shim that is too old to know those has none of them to tell of.
pub(crate) async fn ask_also_released(
    shim: &Shim,
    query: ListingQuery,
    pages: Pages,
) -> Result<SessionListing, ShimError> {
    let mut facts = ask(shim, query.clone(), pages).await?;
    let query = ListingQuery { state: Some("released"), arguments: false, ..query };
    match list(shim, facts.session.clone(), query, pages).await {
        Err(ShimError::Refused { status: 400, .. }) => Ok(facts),
        Err(error) => Err(error),
        Ok(released) => {
            // What was released between the two questions is in flight in the first answer.
            facts.requests.retain(|one| released.requests.iter().all(|other| other.key != one.key));
            facts.requests.extend(released.requests);
            facts.more += released.more;
            facts.now = released.now;
            facts.cut = facts.cut.or(released.cut);
            Ok(facts)
        }
    }
}

async fn list(
    shim: &Shim,
    session: Session,
    mut query: ListingQuery,
    pages: Pages,
) -> Result<SessionListing, ShimError> {
    let listing = match shim.requests(&query).await {
        // Of an older release.
        Err(ShimError::Refused { status: 400, .. }) if query.arguments => {
            query.arguments = false;
            shim.requests(&query).await?
        }
        listing => listing?,
    };
    let Listing { now, requests, more, arguments } = listing;
    let arguments = query.arguments.then_some(arguments);
    let mut facts = SessionListing { session, now, requests, more, cut: None, arguments };
    while pages == Pages::All && facts.more > 0 {
        let Some(last) = facts.requests.last().filter(|last| last.since <= facts.now) else { break };
        query.after = Some((last.since, last.key.clone()));
        match shim.requests(&query).await {
            Ok(page) if page.requests.is_empty() => break,
            Ok(page) => {
                facts.more = page.more;
                facts.requests.extend(page.requests);
                if let Some(known) = &mut facts.arguments {
                    known.extend(page.arguments);
                }
            }
            Err(error) => {
                facts.cut = Some(error);
                return Ok(facts);
            }
        }
    }
    if pages == Pages::All {
        // Requests that began after the first page was asked for do not count as missing.
        facts.more = 0;
    }
    Ok(facts)
}

/// Warns about sessions that did not answer, whose requests are missing from the listing.
pub(crate) fn report_silent(answers: &[ShimAnswer]) {
    for ShimAnswer { shim, answer } in answers {
        if let Err(error) = answer {
            report(&format!("warning: {}: {}; its requests are not listed", shim.name(), clean(&error.to_string())));
        }
    }
    if answers.iter().any(|one| matches!(one.answer, Err(ShimError::NotAnswering))) {
        report(
            "hint: try again; if that does not help, look at the process of this number: it may be suspended or overloaded",
        );
    }
}

/// `1 request`, `2 requests`.
pub(crate) fn many(count: usize) -> String {
    format!("{count} {}", if count == 1 { "request" } else { "requests" })
}

/// Prints a line on stderr: stdout is for data.
pub(crate) fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", in_words_of_its_caller(line));
}

/// Runs the work of one command.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(work)
}

/// A runtime on this thread.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new("rescind", error, "check the limit on open files (ulimit -n)"))
}
