//! The result of `list_in_flight`.

use rescind_feed::{Request, Session};
use schemars::JsonSchema;
use serde::Serialize;

use super::readable::Readable;
use crate::{
    absence,
    fleet::{self, SessionListing, ShimAnswer},
    ps::{row, row::Row, table},
    screen::{Screen, clean},
    session_name,
};

/// What is in flight within reach
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct InFlight {
    /// The requests, session by session, the oldest first
    requests: Vec<InFlightRequest>,
    /// Sessions within reach that did not answer: what is in flight in them is unknown
    unanswered: Vec<String>,
    /// What is within reach, in words
    reach: String,
}

/// A request in flight
#[derive(Debug, Serialize, JsonSchema)]
struct InFlightRequest {
    /// Its name for the other tools: SESSION/ID
    request: String,
    session: String,
    /// Its id on the wire, as JSON text
    id: String,
    /// The server of its session: the name of its entry in the client's configuration, if that is known
    server: String,
    /// The client whose configuration that is
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// The directory in which that client has started it
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    /// The side that sent it: client or server
    from: String,
    method: String,
    /// The tool or prompt that it names
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    age_seconds: f64,
    /// queued, running, cancelling, stuck, answering or released (cancelled, and not known to have stopped)
    state: String,
    /// It is queued until the turn before it in its session has ended
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    waits_for_turn: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<InFlightProgress>,
    /// What is known of its cancel, in words
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel: Option<String>,
}

/// The last progress that the server reported
#[derive(Debug, Serialize, JsonSchema)]
struct InFlightProgress {
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl InFlight {
    pub(super) fn of(answers: Vec<ShimAnswer>, mut unanswered: Vec<String>, reach: &str) -> Readable<Self> {
        let has_sessions = !answers.is_empty() || !unanswered.is_empty();
        let (mut requests, mut rows, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
        for ShimAnswer { shim, answer } in answers {
            let Ok(SessionListing { session, now, requests: listed, cut, .. }) = answer else {
                unanswered.push(shim.name().to_owned());
                continue;
            };
            if cut.is_some() {
                unanswered.push(shim.name().to_owned());
            }
            if session.is_unseen() {
                unseen.push(fleet::unseen(shim.name(), &session));
            }
            unseen.extend(fleet::unkept(shim.name(), &session));
            for request in listed {
                requests.push(InFlightRequest::of(shim.name(), &session, &request, now));
                rows.push(Row::of_request(shim.name(), &session, &request, now));
            }
        }
        let mut lines = match rows.is_empty() {
            true if !has_sessions => vec![format!("{} Reach: {reach}.", no_sessions_within_reach())],
            true if unseen.is_empty() => vec![format!("Nothing is in flight within reach. Reach: {reach}.")],
            true => vec![format!("Nothing is seen in flight within reach. Reach: {reach}.")],
            false => table::lines(&rows, PLAIN),
        };
        lines.extend(unseen);
        lines.extend(unanswered.iter().map(|name| format!("{name}: not answering; its requests are not listed")));
        Readable { text: lines.join("\n"), value: Self { requests, unanswered, reach: reach.to_owned() } }
    }
}

/// What is said where there are none, and what gives some.
pub(super) fn no_sessions_within_reach() -> String {
    format!("No sessions are within reach, so nothing is seen in flight: {}.", absence::how_to_have_sessions())
}

impl InFlightRequest {
    fn of(name: &str, session: &Session, request: &Request, now: u64) -> Self {
        let progress = request.progress.as_ref().map(|progress| InFlightProgress {
            done: progress.progress,
            total: progress.total,
            message: progress.message.as_deref().map(clean),
        });
        Self {
            request: format!("{name}/{}", clean(&request.label())),
            session: name.to_owned(),
            id: clean(&request.id),
            server: row::server(session),
            client: session_name::client(session),
            folder: session_name::folder(session).filter(|_| session.entry.is_some()),
            from: request.from.as_str().to_owned(),
            method: clean(&request.method),
            tool: request.name.as_deref().map(clean),
            age_seconds: seconds(now.saturating_sub(request.since)),
            state: request.state.as_str().to_owned(),
            waits_for_turn: request.waits_for_turn,
            progress,
            cancel: request.cancel.as_ref().map(|cancel| clean(&cancel.words)),
        }
    }
}

/// A table for a model has no width and no colour.
pub(super) const PLAIN: Screen = Screen { size: None, colour: false };

fn seconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64()
}
