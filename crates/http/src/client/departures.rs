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

use rescind_proto::{id::RequestId, link::Departure, time::Instant};

use super::{
    FetchKey, HttpClient, HttpClientEvent, StreamKey,
    failure::Failure,
    fetch::{OneWayKind, Phase, Role},
    stream::{CallState, Purpose},
};

impl HttpClient {
    pub(crate) fn departed(&mut self, departure: Departure) {
        self.events.push_back(HttpClientEvent::Departed(departure));
    }

    /// Answers a request that is not taken in, and so never leaves.
    pub(crate) fn refuse_call(&mut self, id: &RequestId, failure: &Failure) {
        // By its id it could be taken for the one in flight.
        if !self.calls.contains_key(id) {
            self.departed(Departure::Withdrawn(id.clone()));
        }
        self.inbox.push_failure(failure, id, None, None);
    }

    /// The body of a fetch is being written, which takes along what it carries.
    pub(crate) fn begin_writing(&mut self, now: Instant, key: FetchKey) {
        let Some(fetch) = self.fetches.get_mut(&key) else { return };
        fetch.phase = Phase::Written(now);
        match &mut fetch.role {
            Role::Post(stream) => {
                let stream = *stream;
                self.requests_left(stream);
            }
            Role::OneWay(one_way) => {
                if let OneWayKind::Cancel(_, id) = &one_way.kind
                    && !replace(&mut one_way.has_left, true)
                {
                    let departure = Departure::Cancel(id.clone());
                    self.departed(departure);
                }
            }
            Role::Get(_) | Role::Probe(_) | Role::End { .. } => {}
        }
    }

    /// The requests of a stream have left.
    fn requests_left(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(&key).filter(|stream| stream.purpose == Purpose::Calls) else { return };
        for waiting in &mut stream.waiting {
            if !replace(&mut waiting.has_left, true) {
                self.events.push_back(HttpClientEvent::Departed(Departure::Request(waiting.id.clone())));
            }
        }
    }

    /// The server has refused the requests of a stream, and they are to be sent again.
    pub(crate) fn requests_returned(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(&key).filter(|stream| stream.purpose == Purpose::Calls) else { return };
        for waiting in stream.waiting.iter_mut().filter(|waiting| waiting.state == CallState::InFlight) {
            if replace(&mut waiting.has_left, false) {
                self.events.push_back(HttpClientEvent::Departed(Departure::Returned(waiting.id.clone())));
            }
        }
    }
}
