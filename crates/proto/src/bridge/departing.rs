//! What waits to be written to the server, and what the relay learns of it: which of its requests and cancels have left,
//! and which were taken back (D51).
//!
//! A request departs with its line, or else with the answer that it gets here. A call that wants the answers of its client
//! departs when they are given, since the server has it.

use super::{Bridge, CANCELLED, Carried};
use crate::{
    frame::{self, Batch, Frame, Notification},
    id::RequestId,
    json,
    link::Departure,
    message,
    outbox::Ticket,
    time::Instant,
};

/// What departs with a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Departs {
    Nothing,
    One(Departure),
    /// With an array.
    Many(Box<[Departure]>),
}

impl From<Option<Departure>> for Departs {
    fn from(departure: Option<Departure>) -> Self {
        departure.map_or(Self::Nothing, Self::One)
    }
}

impl From<&Batch<'_>> for Departs {
    fn from(batch: &Batch<'_>) -> Self {
        let departure_of = |member| match frame::parse_member(member).ok()? {
            Frame::Request(request) => Some(Departure::Request(request.id)),
            Frame::Notification(notification) => cancelled_by(&notification).map(Departure::Cancel),
            Frame::Response(_) | Frame::Batch(_) => None,
        };
        Self::Many(batch.members().filter_map(departure_of).collect())
    }
}

/// The request that a cancel of a client names.
pub(super) fn cancelled_by(notification: &Notification<'_>) -> Option<RequestId> {
    let params = notification.params.raw.filter(|_| notification.method == CANCELLED)?;
    json::member(params, "requestId").and_then(RequestId::from_json)
}

impl Bridge {
    /// Records that so many bytes of [`pending`](Self::pending) have left, or were handed to what
    /// reports their departures later.
    pub fn handle_written(&mut self, now: Instant, bytes: usize) {
        let Self { outbox, said, server_departs, .. } = self;
        outbox.written(bytes, |departs, _| match departs {
            _ if *server_departs => {}
            Departs::Nothing => {}
            Departs::One(departure) => said.push_back(Carried::Departed(departure)),
            Departs::Many(departures) => said.extend(departures.into_iter().map(Carried::Departed)),
        });
        self.cancel_written(now);
    }

    /// Records what has become of a message by the id that the server knows.
    pub fn handle_departure(&mut self, departure: &Departure) {
        let (Departure::Request(id) | Departure::Cancel(id) | Departure::Returned(id) | Departure::Withdrawn(id)) =
            departure;
        let Some(own) = id.as_integer().filter(|own| self.calls.is_ours(*own)) else {
            return self.departs(departure.clone());
        };
        let client_id = self.calls.client_id(own).cloned();
        // One that no cancel has taken back is answered by an error all the same.
        if matches!(departure, Departure::Withdrawn(_)) && self.calls.get(own).is_some_and(|call| call.is_cancelled) {
            self.calls.answered(own);
        }
        let Some(id) = client_id else { return };
        self.departs(match departure {
            Departure::Request(_) => Departure::Request(id),
            Departure::Cancel(_) => Departure::Cancel(id),
            Departure::Returned(_) => Departure::Returned(id),
            Departure::Withdrawn(_) => Departure::Withdrawn(id),
        });
    }

    pub(super) fn departs(&mut self, departure: Departure) {
        self.said.push_back(Carried::Departed(departure));
    }

    /// Sends a request on, or a part of one, under the id of its call.
    pub(super) fn send(&mut self, own: i64, write: impl FnOnce(&mut Vec<u8>)) {
        let client_id = self.calls.client_id(own).cloned();
        let line = self.push(client_id.map(Departure::Request).into(), write);
        self.calls.put_line(own, line);
    }

    /// Whether the request of a call, or the end of it, has not left.
    pub(super) fn waits(&self, own: i64) -> bool {
        self.calls.get(own).and_then(|call| call.line).is_some_and(|line| self.outbox.holds(line))
    }

    /// Takes the request of a call back, or its cancel; `false` if any of it has left.
    pub(super) fn withdraw(&mut self, line: Option<Ticket>) -> bool {
        line.is_some_and(|line| self.outbox.withdraw(line).is_some())
    }

    /// Sends the cancel of a call, before all that has not begun to leave.
    pub(super) fn write_cancel(&mut self, own: i64, reason: Option<&[u8]>) {
        if self.is_write_closed {
            return;
        }
        let client_id = self.calls.client_id(own).cloned();
        let line = self.outbox.push_urgent(client_id.map(Departure::Cancel).into(), |out| {
            message::notification(CANCELLED, out, |out| {
                out.extend_from_slice(br#""requestId":"#);
                json::write_integer(out, own);
                if let Some(reason) = reason {
                    out.extend_from_slice(br#","reason":"#);
                    out.extend_from_slice(reason);
                }
            });
            out.push(b'\n');
        });
        self.calls.put_line(own, Some(line));
    }

    /// Passes a message of a client on as it is.
    pub(super) fn pass_to_server(&mut self, departs: impl Into<Departs>, body: &[u8]) {
        self.push(departs.into(), |out| out.extend_from_slice(body));
    }

    /// Sends what no client has asked for.
    pub(super) fn write_line(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.push(Departs::Nothing, write);
    }

    fn push(&mut self, departs: Departs, write: impl FnOnce(&mut Vec<u8>)) -> Option<Ticket> {
        (!self.is_write_closed).then(|| {
            self.outbox.push(departs, |out| {
                write(out);
                out.push(b'\n');
            })
        })
    }
}
