//! A request of a recording with what was asked and answered, as other formats want it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rescind_feed::{Outcome, Request, SettledHow};
use rescind_proto::json;

use super::{Message, Recording, entry::LinePosition};

/// A request and the messages that opened and answered it.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    pub(super) request: &'a Request,
    /// Where its other messages stand.
    pub(super) positions: &'a [LinePosition],
    /// The message that it is; absent if it is work that is followed without one.
    pub(super) asked: Option<Message>,
    /// The answer of the other side, also one that came late.
    pub(super) answered: Option<Message>,
}

impl Recording {
    /// Its requests with their messages, in the order of their arrival.
    pub(super) fn exchanges(&self) -> impl Iterator<Item = Exchange<'_>> {
        self.requests.iter().map(|(request, positions)| {
            let mut exchange = Exchange { request, positions, asked: None, answered: None };
            for position in positions {
                let Some(message) = self.message(*position) else { continue };
                let has = |name: &str| parts(&message.body).any(|part| json::member(part, name).is_some());
                let is_answer = has("result") || has("error");
                if message.from == request.from && has("method") && exchange.asked.is_none() {
                    exchange.asked = Some(message);
                } else if message.from != request.from && is_answer && exchange.answered.is_none() {
                    exchange.answered = Some(message);
                }
            }
            exchange
        })
    }

    /// A time of its clock.
    pub(super) fn wall_clock(&self, at: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.session.started.saturating_add(at))
    }

    /// When a request ended for its requester, or the end of the recording.
    pub(super) fn end_of(&self, request: &Request) -> u64 {
        request.settled.as_ref().map_or(self.now, |settled| settled.at).max(request.since)
    }
}

/// What became of a request, in the words of docs/telemetry.md; `None` while it is open.
pub(super) fn outcome(request: &Request) -> Option<&'static str> {
    let settled = request.settled.as_ref()?;
    // A cancel that came too late has changed nothing.
    let cancel = request.cancel.as_ref().filter(|cancel| cancel.outcome != Outcome::CompletedFirst);
    let is_confirmed = cancel.is_some_and(|cancel| cancel.outcome == Outcome::Confirmed);
    Some(match settled.how {
        SettledHow::Gone => "closed",
        SettledHow::AnsweredHere if cancel.is_some_and(|cancel| cancel.cause == "timeout") => "timed_out",
        SettledHow::AnsweredHere if cancel.is_some() => "cancelled",
        SettledHow::Result | SettledHow::Error if is_confirmed => "cancelled",
        SettledHow::Silent => "cancelled",
        SettledHow::Result => "result",
        SettledHow::Error | SettledHow::AnsweredHere => "error",
        SettledHow::Later(_) | _ => "_OTHER",
    })
}

/// A message, or those of a batch.
fn parts(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let elements = json::elements(body);
    let alone = elements.is_none().then_some(body);
    elements.into_iter().flatten().filter_map(Result::ok).chain(alone)
}

/// Whether a result says of itself that it is an error.
pub(super) fn is_tool_error(answer: &[u8]) -> bool {
    json::member(answer, "result").and_then(|result| json::member(result, "isError")) == Some(b"true")
}

/// The trace and the span that a request names in its `_meta`, as W3C's `traceparent` has them.
pub(super) fn trace_parent(request: &[u8]) -> Option<(String, String)> {
    let meta = json::member(json::member(request, "params")?, "_meta")?;
    let parent = json::text(json::member(meta, "traceparent")?)?;
    let mut parts = parent.split('-');
    let is_id = |text: &str, length: usize| {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        text.len() == length && is_hex && text.bytes().any(|byte| byte != b'0')
    };
    let (_, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    (is_id(trace, 32) && is_id(span, 16)).then(|| (trace.to_ascii_lowercase(), span.to_ascii_lowercase()))
}
