//! A bridge that stands one way, before what it knows of its server.

use core::hash::Hasher;

use super::{
    calls::Call,
    traffic::{Departs, Traffic},
};
use crate::{
    frame::{Notification, Request, Response, ResponseBody, ResponseId},
    id::RequestId,
    link::Departure,
    time::Instant,
};

/// What is done with each message. Where nothing else is said, it passes as it is.
pub(super) trait Direction {
    /// A request of a client.
    fn handle_request(&mut self, traffic: &mut Traffic, body: &[u8], request: &Request<'_>) {
        traffic.pass_to_server(Departure::Request(request.id.clone()), body);
    }

    /// A notification of a client that is not a cancel.
    fn handle_notification(&mut self, traffic: &mut Traffic, body: &[u8], _notification: &Notification<'_>) {
        traffic.pass_to_server(Departs::default(), body);
    }

    /// A cancel of a client, with these params, of the request that they name.
    fn cancel(&mut self, traffic: &mut Traffic, body: &[u8], id: Option<RequestId>, _params: &[u8]) {
        let Some(id) = id else { return traffic.pass_to_server(Departs::default(), body) };
        traffic.pass_cancel(id, body);
    }

    /// An answer of a client: `false` if we asked nothing under this id.
    fn handle_input(&mut self, _traffic: &mut Traffic, _id: &RequestId, _body: &ResponseBody<'_>) -> bool {
        false
    }

    /// Whether an answer with this id is to a request that was passed on as it was, and matters.
    fn is_answered_by(&self, _id: Option<&ResponseId>) -> bool {
        false
    }

    /// An answer of the server to no request of ours.
    fn handle_response(&mut self, traffic: &mut Traffic, body: &[u8], _response: &Response<'_>) {
        traffic.pass_to_client(body);
    }

    /// The server's answer to a request of ours, or to one that has an id of ours.
    fn handle_answer(&mut self, _traffic: &mut Traffic, _call: Call, _body: &ResponseBody<'_>) {}

    /// A notification of the server.
    fn handle_report(&mut self, traffic: &mut Traffic, body: &[u8], _notification: &Notification<'_>) {
        traffic.pass_to_client(body);
    }

    /// A request of the server, which only one with sessions makes.
    fn handle_question(&mut self, traffic: &mut Traffic, body: &[u8], _request: &Request<'_>) {
        traffic.pass_to_client(body);
    }

    /// The client has cancelled a request that was answered already.
    fn handle_late_cancel(&mut self, _traffic: &mut Traffic, _client_id: &RequestId) {}

    /// The answer to a call cannot be read: it is over.
    fn handle_unreadable(&mut self, _traffic: &mut Traffic, _call: &Call) {}

    /// Nothing can be written to the server any more.
    fn handle_write_closed(&mut self, _traffic: &mut Traffic) {}

    /// When something is to be done next.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Does what is due.
    fn handle_timeout(&mut self, _traffic: &mut Traffic) {}

    /// Entries of every collection.
    fn residue(&self) -> usize {
        0
    }

    /// Bytes of memory that it holds, nearly.
    fn held(&self) -> usize {
        0
    }

    /// Panics if it does not agree with itself.
    fn check(&self, _is_in_flight: &dyn Fn(i64) -> bool) {}

    /// Feeds what decides its future into a hasher.
    fn hash_state(&self, _now: Instant, _state: &mut dyn Hasher) {}
}

/// Both sides are of one era.
#[derive(Clone, Debug)]
pub(super) struct Alike;

impl Direction for Alike {}
