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

use rescind_proto::link::Departure;

use super::{
    HttpClientEvent,
    errand::{CallState, Errand, OneWay, OneWayKind, Role},
};

impl From<Departure> for HttpClientEvent {
    fn from(departure: Departure) -> Self {
        Self::Departed(departure)
    }
}

impl Errand {
    /// Reports that its messages have left, as far as it matters.
    pub(crate) fn leave(&mut self, events: &mut VecDeque<HttpClientEvent>) {
        match &mut self.role {
            Role::Calls => {
                for waiting in self.waiting.iter_mut().filter(|waiting| !waiting.has_left) {
                    waiting.has_left = true;
                    events.push_back(Departure::Request(waiting.id.clone()).into());
                }
            }
            Role::OneWay(one_way) => {
                if let OneWay { kind: OneWayKind::Cancel { id, has_left, .. }, .. } = &mut **one_way
                    && !replace(has_left, true)
                {
                    events.push_back(Departure::Cancel(id.clone()).into());
                }
            }
            Role::Listen | Role::Reopen | Role::Survey { .. } => {}
        }
    }

    /// Reports that the server has refused its requests, which are to be sent again.
    pub(crate) fn come_back(&mut self, events: &mut VecDeque<HttpClientEvent>) {
        for waiting in self.waiting.iter_mut().filter(|_| self.role == Role::Calls) {
            if waiting.state == CallState::InFlight && replace(&mut waiting.has_left, false) {
                events.push_back(Departure::Returned(waiting.id.clone()).into());
            }
        }
    }
}
