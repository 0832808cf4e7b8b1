//! What has become of messages that were taken in: they have left, or were taken back (D51).
//!
//! A request has left when the first byte of its body is about to be written, at the latest when a response to it begins or
//! it is answered: until then its cancel takes it back, and from then on it does not. Its driver hands a body over whole.
//! That the last byte is out it does not learn; what a server does not read may still be in the connection.
//!
//! A cancel has left when its own body is written so or, outside a session, when the stream of its request was closed. It
//! leaves after its request, and once, however often it is tried. One that comes too late, because its request was answered
//! first, never leaves; nor does one that the server takes from nobody.
//!
//! Of each request of the local client one of two is reported: that it has left, or that it never will; the second before the
//! error that answers it. One that the server has refused and that is to be sent again, for want of a token above all, was
//! returned: it has not left until it leaves once more. Where its refusal is still being read or, outside a session, its answer
//! was not taken yet, there is nothing left to cancel: it is taken back although it has left.

use core::mem::replace;
use std::collections::VecDeque;

use rescind_proto::{id::RequestId, link::Departure, time::Instant};

use super::{
    FetchKey, HttpClient, HttpClientEvent,
    failure::Failure,
    fetch::{OneWayKind, Phase, Role},
    stream::{CallState, Purpose, Stream},
};

impl HttpClient {
    /// Answers a request that is not taken in, and so never leaves.
    pub(crate) fn refuse_call(&mut self, id: &RequestId, failure: &Failure) {
        // By its id it could be taken for the one in flight.
        if !self.calls.contains_key(id) {
            self.events.push_back(Departure::Withdrawn(id.clone()).into());
        }
        self.inbox.push_failure(failure, id, None, None);
    }

    /// The body of a fetch is being written, which takes along what it carries.
    pub(crate) fn begin_writing(&mut self, now: Instant, key: FetchKey) {
        let Some(fetch) = self.fetches.get_mut(&key) else { return };
        fetch.phase = Phase::Written(now);
        match &mut fetch.role {
            Role::Post(stream) => {
                self.streams.get_mut(stream).into_iter().for_each(|stream| stream.leave(&mut self.events));
            }
            Role::OneWay(one_way) => {
                if let OneWayKind::Cancel(_, id) = &one_way.kind
                    && !replace(&mut one_way.has_left, true)
                {
                    self.events.push_back(Departure::Cancel(id.clone()).into());
                }
            }
            Role::Get(_) | Role::Probe(_) | Role::End { .. } => {}
        }
    }
}

impl From<Departure> for HttpClientEvent {
    fn from(departure: Departure) -> Self {
        Self::Departed(departure)
    }
}

impl Stream {
    /// Reports that the requests have left.
    fn leave(&mut self, events: &mut VecDeque<HttpClientEvent>) {
        for waiting in self.waiting.iter_mut().filter(|_| self.purpose == Purpose::Calls) {
            if !replace(&mut waiting.has_left, true) {
                events.push_back(Departure::Request(waiting.id.clone()).into());
            }
        }
    }

    /// Reports that the server has refused the requests, which are to be sent again.
    pub(crate) fn come_back(&mut self, events: &mut VecDeque<HttpClientEvent>) {
        for waiting in self.waiting.iter_mut().filter(|_| self.purpose == Purpose::Calls) {
            if waiting.state == CallState::InFlight && replace(&mut waiting.has_left, false) {
                events.push_back(Departure::Returned(waiting.id.clone()).into());
            }
        }
    }
}
