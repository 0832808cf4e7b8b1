//! The JSON output.

use rescind_feed::{Arguments, End, Request, Session};
use rescind_ledger::history::past::PastSession;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{fleet::ShimAnswer, screen::inert};

#[derive(Serialize)]
struct Document<'a> {
    sessions: Vec<SessionEntry<'a>>,
}

/// A session: the listing from its shim, or why there is none.
#[derive(Serialize)]
struct SessionEntry<'a> {
    name: &'a str,
    answered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    listing: Option<AnsweredSession<'a>>,
}

#[derive(Serialize)]
struct AnsweredSession<'a> {
    session: &'a Session,
    now: u64,
    requests: Vec<Labelled<'a>>,
    more: u64,
}

/// A request, and its name for `rescind cancel`.
#[derive(Serialize)]
struct Labelled<'a> {
    label: String,
    #[serde(flatten)]
    request: &'a Request,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a Arguments>,
}

/// One event of a session, or why there are no more.
#[derive(Serialize)]
struct EventLine<'a> {
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The document of all answers.
pub(super) fn whole<'a>(answers: &'a [ShimAnswer]) -> String {
    let sessions = answers.iter().map(|ShimAnswer { shim, answer }| {
        let name = shim.name();
        let kept = answer.as_ref().ok().and_then(|answer| answer.arguments.as_ref());
        let labelled = |request: &'a Request| Labelled {
            label: format!("{name}/{}", request.label()),
            request,
            arguments: kept.and_then(|kept| kept.get(&request.key)),
        };
        let listing = answer.as_ref().ok().map(|answer| AnsweredSession {
            session: &answer.session,
            now: answer.now,
            requests: answer.requests.iter().map(labelled).collect(),
            more: answer.more,
        });
        SessionEntry { name, answered: answer.is_ok(), error: answer.as_ref().err().map(ToString::to_string), listing }
    });
    inert(&serde_json::to_string_pretty(&Document { sessions: sessions.collect() }).unwrap_or_default())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct History<'a> {
    history: Vec<PastEntry<'a>>,
}

/// What has ended in a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PastEntry<'a> {
    name: &'a str,
    session: &'a Session,
    /// Its clock when it wrote last.
    now: u64,
    /// It goes on.
    running: bool,
    /// How it ended, if it said so.
    end: Option<End>,
    requests: Vec<Labelled<'a>>,
    /// How many further ends were only counted.
    counted: u64,
}

/// The document of what has ended. A session of which nothing is listed is left out.
pub(super) fn history(sessions: &[PastSession]) -> String {
    let history = sessions.iter().filter(|past| !past.requests.is_empty()).map(|past| {
        let PastSession { session, requests, counted, now, end, is_live } = past;
        let name = &*session.name;
        let labelled =
            |request| Labelled { label: format!("{name}/{}", Request::label(request)), request, arguments: None };
        let requests = requests.iter().map(labelled).collect();
        PastEntry { name, session, now: *now, running: *is_live, end: *end, requests, counted: *counted }
    });
    inert(&serde_json::to_string_pretty(&History { history: history.collect() }).unwrap_or_default())
}

/// The line of an event.
pub(super) fn event(session: &str, data: &str) -> Option<String> {
    let event = serde_json::from_str(data).ok()?;
    let line = serde_json::to_string(&EventLine { session, event: Some(event), error: None }).ok()?;
    Some(inert(&line.replace(['\n', '\r'], " ")))
}

/// The line of a session without further events.
pub(super) fn lost(session: &str, error: &str) -> Option<String> {
    serde_json::to_string(&EventLine { session, event: None, error: Some(error.into()) }).ok().map(|line| inert(&line))
}
