//! What is in flight, for whoever shows it.

use super::{
    Relay, RequestKey,
    exchange::{Down, Exchange, Up},
};
use crate::{id::RequestId, receipt::Receipt, side::Side, time::Instant};

/// One request in flight through a relay.
#[derive(Clone, Debug)]
pub struct RequestView<'a> {
    /// Names it, and says who sent it.
    pub key: RequestKey,
    /// Its id, as its requester knows it.
    pub id: &'a RequestId,
    /// Its method.
    pub method: &'a str,
    /// When it arrived.
    pub since: Instant,
    /// How far it is.
    pub state: RequestState,
    /// It is to become a task, or has: only `tasks/cancel` may cancel it (MCP-C13).
    pub is_task: bool,
    /// Who cancelled it, and what is known of that.
    pub cancel: Option<&'a Receipt>,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestState {
    /// It waits to be written: the other side does not know of it.
    Queued,
    /// The other side has it.
    Sent,
    /// A cancel was asked for; its requester still waits for the answer that its dialect owes it.
    Cancelling,
    /// Its answer waits to be written.
    Answering,
}

impl RequestState {
    /// The word for logs and lists.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sent => "sent",
            Self::Cancelling => "cancelling",
            Self::Answering => "answering",
        }
    }
}

impl Relay {
    /// The requests of `side` in flight: the same order on every run, not that of their arrival.
    pub fn requests(&self, side: Side) -> impl Iterator<Item = RequestView<'_>> {
        let live = self.tables[side].iter().filter(|(_, exchange)| exchange.is_live());
        live.map(move |(key, exchange)| RequestView {
            key: RequestKey { from: side, key },
            id: &exchange.id,
            method: self.methods.name(exchange.method),
            since: exchange.asked,
            state: state(exchange),
            is_task: exchange.is_task,
            cancel: exchange.cancel.as_deref().map(|cancel| &cancel.receipt),
        })
    }
}

const fn state(exchange: &Exchange) -> RequestState {
    match (exchange.down, exchange.up) {
        (Down::Answering(..) | Down::Bundled(_) | Down::Done(_), _) => RequestState::Answering,
        (Down::Waiting, _) if exchange.cancel.is_some() => RequestState::Cancelling,
        (Down::Waiting, Up::Assembling | Up::Queued(_) | Up::Bundled) => RequestState::Queued,
        (Down::Waiting, Up::Sent | Up::Answered | Up::Never | Up::Lost) => RequestState::Sent,
    }
}
