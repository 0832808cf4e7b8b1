//! What `--json` prints.

use rescind_feed::{Request, Session};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{fleet::Heard, screen::inert};

#[derive(Serialize)]
struct Document<'a> {
    sessions: Vec<One<'a>>,
}

/// A session: its shim answered with these facts, or did not, for this reason.
#[derive(Serialize)]
struct One<'a> {
    name: &'a str,
    answered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    facts: Option<Facts<'a>>,
}

#[derive(Serialize)]
struct Facts<'a> {
    session: &'a Session,
    now: u64,
    requests: Vec<Labelled<'a>>,
    more: u64,
}

/// A request, and what `rescind cancel` takes for it.
#[derive(Serialize)]
struct Labelled<'a> {
    label: String,
    #[serde(flatten)]
    request: &'a Request,
}

/// One event of a session, or why it told nothing more.
#[derive(Serialize)]
struct Line<'a> {
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Everything that was heard.
pub(super) fn whole(heard: &[Heard]) -> String {
    let sessions = heard.iter().map(|Heard { shim, told }| {
        let name = shim.name();
        let labelled = |request| Labelled { label: format!("{name}/{}", Request::label(request)), request };
        let facts = told.as_ref().ok().map(|told| Facts {
            session: &told.session,
            now: told.now,
            requests: told.requests.iter().map(labelled).collect(),
            more: told.more,
        });
        One { name, answered: told.is_ok(), error: told.as_ref().err().map(ToString::to_string), facts }
    });
    inert(&serde_json::to_string_pretty(&Document { sessions: sessions.collect() }).unwrap_or_default())
}

/// An event as its shim told it.
pub(super) fn event(session: &str, data: &str) -> Option<String> {
    let event = serde_json::from_str(data).ok()?;
    let line = serde_json::to_string(&Line { session, event: Some(event), error: None }).ok()?;
    Some(inert(&line.replace(['\n', '\r'], " ")))
}

/// That a session tells nothing more.
pub(super) fn lost(session: &str, error: &str) -> Option<String> {
    serde_json::to_string(&Line { session, event: None, error: Some(error.into()) }).ok().map(|line| inert(&line))
}
