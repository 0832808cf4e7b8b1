//! Views: what is known of each request.

use std::borrow::Cow;

use super::{Monitor, ObservedAnswer, ObservedEnd, ObservedProgress, observed::Observed};
use crate::{
    dialect::Dialect,
    id::RequestId,
    json,
    link::{Implementation, LateCounts, RequestKey},
    method::Method,
    receipt::Receipt,
    side::Side,
    time::Instant,
};

/// One request of a link, in flight or remembered.
#[derive(Clone, Debug)]
pub struct ObservedRequest<'a> {
    /// Names it, and says who sent it.
    pub key: RequestKey,
    /// Its id.
    pub id: &'a RequestId,
    /// Its method, cut at 256 bytes; `(other)` once 4,096 different ones have passed.
    pub method: &'a str,
    /// The tool or prompt that it names: untrusted. None if it is longer than 256 bytes, or the 4,097th.
    pub name: Option<Cow<'a, str>>,
    /// The session of a turn or of a load of one, as JSON.
    pub session: Option<&'a [u8]>,
    /// Its dialect (D2).
    pub dialect: &'static Dialect,
    /// The request during which it was made, where that is certain.
    pub parent: Option<RequestKey>,
    /// When it passed the monitor.
    pub since: Instant,
    /// Its last progress.
    pub progress: Option<&'a ObservedProgress>,
    /// It is a task, or becomes one when it is answered (MCP-C13).
    pub is_task: bool,
    /// The id of the task that it became: untrusted.
    pub task: Option<&'a str>,
    /// Its first cancel, and what is known of that.
    pub cancel: Option<&'a Receipt>,
    /// Its answer, even one that came late.
    pub answer: Option<ObservedAnswer>,
    /// When and how it ended for its requester; `None` while it is in flight.
    pub over: Option<(Instant, ObservedEnd)>,
    /// Messages that came after that.
    pub late: LateCounts,
}

impl Monitor {
    /// Returns a request that is in flight or remembered.
    #[must_use]
    pub fn request(&self, key: RequestKey) -> Option<ObservedRequest<'_>> {
        self.observed(key).map(|observed| self.view(key, observed))
    }

    /// Lists the requests of `side` in flight: in the same order on every run, which is not that of their arrival.
    pub fn requests(&self, side: Side) -> impl Iterator<Item = ObservedRequest<'_>> {
        self.all(side).filter(|view| view.over.is_none())
    }

    /// Lists the requests of `side` that are over and remembered, ordered as those in flight.
    pub fn remembered(&self, side: Side) -> impl Iterator<Item = ObservedRequest<'_>> {
        self.all(side).filter(|view| view.over.is_some())
    }

    /// Counts the requests of `side` in flight.
    #[must_use]
    pub fn in_flight(&self, side: Side) -> usize {
        self.requests[side].table.live()
    }

    /// Returns the dialect of both sides: a guess until a message has shown it.
    #[must_use]
    pub fn dialect(&self) -> &'static Dialect {
        self.negotiation.of(Side::Client, self.framing)
    }

    /// Returns the name and version that `side` gave in its handshake: untrusted.
    #[must_use]
    pub fn implementation(&self, side: Side) -> Option<&Implementation> {
        self.implementations[side].as_ref()
    }

    fn all(&self, side: Side) -> impl Iterator<Item = ObservedRequest<'_>> {
        self.requests[side].table.iter().map(move |(key, observed)| self.view(RequestKey { from: side, key }, observed))
    }

    fn view<'a>(&'a self, key: RequestKey, observed: &'a Observed) -> ObservedRequest<'a> {
        let named = observed.name != Method::OTHER;
        ObservedRequest {
            key,
            id: &observed.id,
            method: self.methods.name(observed.method),
            name: named.then(|| json::text(self.names.name(observed.name).as_bytes())).flatten(),
            session: observed.worked_in(),
            dialect: observed.dialect,
            parent: observed.parent,
            since: observed.since,
            progress: observed.progress.as_deref(),
            is_task: observed.is_task,
            task: observed.task.as_deref(),
            cancel: observed.cancel.as_deref(),
            answer: observed.answer,
            over: observed.over,
            late: observed.late,
        }
    }
}
