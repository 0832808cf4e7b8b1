//! The result of `receipt` and `cancel`.

use rescind_feed::{Request, WorkStatus};
use schemars::JsonSchema;
use serde::Serialize;

use super::{reach::Found, readable::Readable};
use crate::{cancel, ps::row, screen::clean};

/// What is known of a request and its cancel
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Receipt {
    /// Its name: SESSION/ID
    request: String,
    /// The server of its session
    server: String,
    method: String,
    /// The tool or prompt that it names
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// queued, running, cancelling, stuck, answering, released (not known to have stopped) or ended
    state: String,
    /// Of `cancel`: whether this call cancelled it. It does not mean that the work stopped
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<bool>,
    /// Of a cancelled request, whether its work stopped: stopped, finished, stopping, still_working, no_answer,
    /// not_delivered or unknown; of one that a server made of its client: withdrawn or with_its_client
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<String>,
    /// What is known, in words
    words: String,
    /// Who asked for the cancel: caller, timeout, parent, disconnect, shutdown, operator or policy
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Of `cancel`: what became of the background work that was cancelled with it, or could not be, a line each
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    background: Vec<String>,
}

impl Receipt {
    /// With the background work that was cancelled together with the request.
    pub(super) fn of<'a>(
        found: &Found,
        request: &Request,
        accepted: Option<bool>,
        background: impl IntoIterator<Item = &'a Request>,
    ) -> Readable<Self> {
        let line = |one: &Request| {
            let words = one.cancel.as_ref().map(|cancel| cancel::words(one, cancel)).unwrap_or_default();
            let work = WorkStatus::of(one, one.is_open()).as_str();
            format!("{}/{} {}: {work}: {words}", found.chosen.shim.name(), clean(&one.label()), row::method(one))
        };
        let background: Vec<_> = background.into_iter().map(line).collect();
        let cancel = request.cancel.as_ref();
        let words = match (cancel, &request.settled) {
            (Some(cancel), _) => cancel::words(request, cancel),
            (None, Some(settled)) => format!("not cancelled; it has ended: {}", settled.how.as_str()),
            (None, None) => format!("not cancelled; {}", request.state.as_str()),
        };
        let work = cancel.map(|_| WorkStatus::of(request, request.is_open()));
        let status = work.map(|work| format!("{}: ", work.as_str())).unwrap_or_default();
        let already = if accepted == Some(false) && cancel.is_some() { "cancelled before this call; " } else { "" };
        let text = format!("{} {}: {already}{status}{words}", found.name(), row::method(request));
        let text = background.iter().fold(text, |text, line| format!("{text}\n{line}"));
        let value = Self {
            request: found.name(),
            server: row::server(&found.session),
            method: clean(&request.method),
            tool: request.name.as_deref().map(clean),
            state: request.state.as_str().to_owned(),
            accepted,
            work: work.map(WorkStatus::name),
            words,
            cause: cancel.map(|cancel| clean(&cancel.cause)),
            reason: cancel.and_then(|cancel| cancel.reason.as_deref()).map(clean),
            background,
        };
        Readable { value, text }
    }
}
