//! One request of a recording.

use std::collections::VecDeque;

use rescind_feed::{self as feed, Cancel, Late, Progress, Request, Settled, SettledHow, State};
use rescind_proto::{
    cause::cut, dialect::Dialect, id::RequestId, link::RequestKey, monitor::ObservedAnswer, receipt, side::Side,
};
use serde::de::DeserializeOwned;

use super::line::RecordedLine;

/// Text that a peer chose is cut at this many bytes, as in a shim.
const MAX_TEXT: usize = 1024;

/// The most first messages, and the most last messages, kept of one request.
const MAX_MESSAGES: usize = 100;

/// The position of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinePosition {
    pub(crate) offset: u64,
    /// In bytes, without the line break.
    pub(crate) length: usize,
    /// From one.
    pub(crate) number: u64,
}

/// A request, as far as it has been read.
#[derive(Debug)]
pub(super) struct RequestEntry {
    pub(super) key: String,
    pub(super) from: Side,
    pub(super) id: RequestId,
    pub(super) upstream: RequestId,
    pub(super) method: String,
    pub(super) name: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) since: u64,
    pub(super) progress: Option<Progress>,
    pub(super) task: Option<String>,
    pub(super) cancel: Option<Cancel>,
    pub(super) settled: Option<Settled>,
    pub(super) late: Late,
    /// The other side's answer.
    pub(super) answer: Option<ObservedAnswer>,
    pub(super) is_stuck: bool,
    /// It is work that is followed, and no message is its own.
    pub(super) is_work: bool,
    /// The request of the same id that has started it, and whose own end comes before that of the work.
    pub(super) started_by: Option<u64>,
    /// Its key on its requester's link, and on the other link.
    pub(super) near: Option<RequestKey>,
    pub(super) far: Option<RequestKey>,
    first: Vec<LinePosition>,
    last: VecDeque<LinePosition>,
}

impl RequestEntry {
    pub(super) fn new(key: String, from: Side, id: RequestId, upstream: RequestId, line: &RecordedLine<'_>) -> Self {
        Self {
            key,
            from,
            id,
            upstream,
            method: line.method.as_deref().map(text).unwrap_or_default(),
            name: None,
            parent: None,
            since: line.t,
            progress: None,
            task: None,
            cancel: None,
            settled: None,
            late: Late { at: 0, answers: 0, notices: 0 },
            answer: None,
            is_stuck: false,
            is_work: false,
            started_by: None,
            near: None,
            far: None,
            first: Vec::new(),
            last: VecDeque::new(),
        }
    }

    /// Records the position of a message about it.
    pub(super) fn note(&mut self, position: LinePosition) {
        if self.first.last() == Some(&position) || self.last.back() == Some(&position) {
            return;
        }
        if self.first.len() < MAX_MESSAGES {
            self.first.push(position);
        } else {
            self.last.push_back(position);
            if self.last.len() > MAX_MESSAGES {
                self.last.pop_front();
            }
        }
    }

    /// Handles a receipt. `dialect` is that of the side that works on the request.
    pub(super) fn receive_receipt(&mut self, line: &RecordedLine<'_>, dialect: &Dialect) {
        self.cancel = cancel(line, dialect).or_else(|| self.cancel.take());
    }

    /// Handles its end for its requester.
    pub(super) fn settle(&mut self, line: &RecordedLine<'_>) {
        let how = match (line.how.as_deref(), self.answer.map(|answered| answered.answer)) {
            (Some("answered_here"), _) => SettledHow::AnsweredHere,
            (Some("silent"), _) => SettledHow::Silent,
            (Some("gone"), _) => SettledHow::Gone,
            (_, Some(receipt::Answer::Error)) => SettledHow::Error,
            (_, Some(receipt::Answer::Result) | None) => SettledHow::Result,
        };
        let code = if how == SettledHow::Error { self.answer.and_then(|answered| answered.code) } else { line.code };
        self.settled = Some(Settled { at: line.t, how, code });
    }

    /// Handles the end of the server, after which nothing is worked on.
    pub(super) const fn end(&mut self) {
        self.is_stuck = false;
    }

    const fn state(&self) -> State {
        let is_there = self.far.is_some() || self.is_work;
        match (self.is_stuck && self.answer.is_none(), self.settled.is_some(), self.cancel.is_some(), is_there) {
            (true, ..) => State::Stuck,
            (false, true, ..) => State::Ended,
            (false, false, true, _) => State::Cancelling,
            (false, false, false, true) => State::Running,
            (false, false, false, false) => State::Queued,
        }
    }

    /// Its record, and the positions of its messages.
    pub(super) fn into_record(self) -> (Request, Vec<LinePosition>) {
        let late = (self.late.answers + self.late.notices > 0).then_some(self.late);
        let request = Request {
            state: self.state(),
            key: self.key,
            from: match self.from {
                Side::Client => feed::Side::Client,
                Side::Server => feed::Side::Server,
            },
            upstream: (self.upstream != self.id).then(|| text(&self.upstream.to_string())),
            id: text(&self.id.to_string()),
            method: self.method,
            name: self.name,
            opened_by: self.parent.clone().filter(|_| self.is_work),
            parent: self.parent,
            since: self.since,
            held_until: None,
            waits_for_turn: false,
            may_be_released: false,
            deadline: None,
            progress: self.progress,
            task: self.task,
            cancel: self
                .cancel
                .map(|cancel| cancel.with_words(late.as_ref(), false))
                .map(|cancel| if self.is_work { cancel.of_work() } else { cancel }),
            settled: self.settled,
            late,
            child: None,
            at_work: None,
        };
        (request, self.first.into_iter().chain(self.last).collect())
    }
}

/// The receipt of a line. `dialect` is that of the side that works on the request.
pub(super) fn cancel(line: &RecordedLine<'_>, dialect: &Dialect) -> Option<Cancel> {
    Some(Cancel {
        cause: line.cause.as_deref().unwrap_or_default().to_owned(),
        reason: line.reason.as_deref().map(text),
        asked: line.asked.unwrap_or(line.t),
        written: line.written,
        outcome: line.outcome.as_deref().and_then(value)?,
        after: line.after_ms.map(|millis| (millis * 1000.0).round() as u64),
        answer: line.answer.as_deref().and_then(value),
        confirms: !dialect.is_silent(),
        protocol: dialect.protocol().to_owned(),
        held: false,
        waited_for: None,
        works_on: false,
        words: String::new(),
    })
}

/// Text that a peer chose, cut.
pub(super) fn text(text: &str) -> String {
    if text.len() <= MAX_TEXT { text.to_owned() } else { format!("{}…", cut(text, MAX_TEXT)) }
}

/// The value that has this word in the feed, if there is one.
fn value<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(word.into()).ok()
}
