//! All shims of the user, asked at once.

use std::{io::Write, time::Duration};

use clap::Args;
use rescind_console::shims::{Directories, Look, Query, Shim, ShimError, ask_all};
use rescind_feed::{DIRECTORY_VARIABLE, Request, Session};

use crate::{failure::Failure, screen::clean};

/// Which requests are meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Selection {
    /// Only requests of this session
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Only requests of this method, or of this method and tool: `tools/call:index`
    #[arg(long, value_name = "METHOD[:TOOL]")]
    pub(crate) method: Option<String>,

    /// Only requests older than this, such as 10m
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) older_than: Option<Duration>,
}

/// What one shim said.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) shim: Shim,
    pub(crate) told: Result<Facts, ShimError>,
}

/// A session and those of its requests that were asked for.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) session: Session,
    /// The session's clock, in microseconds.
    pub(crate) now: u64,
    pub(crate) requests: Vec<Request>,
    /// How many more there are.
    pub(crate) more: u64,
    /// Why those were not reached, where they were asked for.
    pub(crate) cut: Option<ShimError>,
}

/// How much of a long listing is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// The oldest, as many as a shim lists at once.
    First,
    /// Every page, as far as its requests had begun when the first was asked for.
    All,
}

impl Selection {
    /// The same for a shim.
    pub(crate) fn query(&self) -> Query {
        let micros = |age: Duration| u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        Query { method: self.method.clone(), older_than: self.older_than.map(micros), ..Query::default() }
    }

    /// Whether a request is of the method that is meant, and of the tool.
    pub(crate) fn names(&self, request: &Request) -> bool {
        self.method.as_ref().is_none_or(|wanted| {
            let tool = wanted.strip_prefix(&request.method).and_then(|rest| rest.strip_prefix(':'));
            *wanted == request.method || tool.is_some_and(|tool| request.name.as_deref() == Some(tool))
        })
    }
}

/// The shims whose sockets may be used, or the one of `session`. What lies beside them and may not is said.
pub(crate) fn shims(session: Option<&str>) -> Result<Vec<Shim>, Failure> {
    let shims = look(&Directories::of_this_user())?.shims;
    let Some(session) = session else { return Ok(shims) };
    let found: Vec<Shim> = shims.into_iter().filter(|shim| shim.name() == session).collect();
    match found.is_empty() {
        true => Err(no_such_session(session)),
        false => Ok(found),
    }
}

/// Looks into the directories, and says what in them is not used.
pub(crate) fn look(directories: &Directories) -> Result<Look, Failure> {
    let look = directories.look();
    let look = look.map_err(|one| Failure::new(one.path.display(), &one.error, one.error.hint()))?;
    for one in &look.unusable {
        speak(&format!("warning: {}; not used", clean(&one.to_string())));
    }
    for (socket, why) in &look.refused {
        speak(&format!("warning: {}: {why}; not used", clean(&socket.display().to_string())));
    }
    Ok(look)
}

/// What to say where no session is found: no more than was looked at.
pub(crate) fn no_sessions() -> String {
    match std::env::var_os(DIRECTORY_VARIABLE).filter(|chosen| !chosen.is_empty()) {
        None => format!(
            "no sessions: none was found of a `rescind run` of yours; one with --unlisted, or with {DIRECTORY_VARIABLE}, \
             is not seen from here"
        ),
        Some(chosen) => {
            let chosen = clean(&chosen.to_string_lossy());
            format!("no sessions in {chosen} ({DIRECTORY_VARIABLE}); a `rescind run` started without it is elsewhere")
        }
    }
}

pub(crate) fn no_such_session(session: &str) -> Failure {
    Failure::new(clean(session), "no such session", "`rescind ps --sessions` lists those there are")
}

/// Asks each of them, many at a time. Those that are gone are left out; the others come in their order.
pub(crate) async fn hear(shims: Vec<Shim>, query: &Query, pages: Pages) -> Vec<Heard> {
    let query = query.clone();
    let heard = ask_all(shims, move |shim| {
        let query = query.clone();
        async move { ask(&shim, query, pages).await }
    });
    let present = |(_, told): &(_, Result<_, ShimError>)| !matches!(told, Err(ShimError::Gone(_)));
    heard.await.into_iter().filter(present).map(|(shim, told)| Heard { shim, told }).collect()
}

async fn ask(shim: &Shim, mut query: Query, pages: Pages) -> Result<Facts, ShimError> {
    let session = shim.session().await?;
    let listing = shim.requests(&query).await?;
    let mut facts = Facts { session, now: listing.now, requests: listing.requests, more: listing.more, cut: None };
    while pages == Pages::All && facts.more > 0 {
        let Some(last) = facts.requests.last().filter(|last| last.since <= facts.now) else { break };
        query.after = Some((last.since, last.key.clone()));
        match shim.requests(&query).await {
            Ok(page) if page.requests.is_empty() => break,
            Ok(page) => {
                facts.more = page.more;
                facts.requests.extend(page.requests);
            }
            Err(error) => {
                facts.cut = Some(error);
                return Ok(facts);
            }
        }
    }
    if pages == Pages::All {
        // Requests that began after the question was asked are not missing.
        facts.more = 0;
    }
    Ok(facts)
}

/// Says that a session did not answer; a listing does not have its requests.
pub(crate) fn speak_unheard(heard: &[Heard]) {
    for Heard { shim, told } in heard {
        if let Err(error) = told {
            speak(&format!("warning: {}: {}; its requests are not listed", shim.name(), clean(&error.to_string())));
        }
    }
}

/// Says something on stderr, since it is not data.
pub(crate) fn speak(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Runs one command's work.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new("rescind", error, "check the limit on open files (ulimit -n)"))?.block_on(work)
}
