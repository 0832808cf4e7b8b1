//! What passes through a bridge, whichever way it stands: the requests that the server has, and what waits for either side;
//! and what the relay learns of it: which of its requests and cancels have left, and which were taken back (D51).
//!
//! A request departs with its line, or else with the answer that it gets here. A call that wants the answers of its client
//! departs when they are given, since the server has it.

use std::collections::VecDeque;

use super::{
    BridgeConfig, CANCELLED, Carried, NO_QUESTIONS, PING,
    calls::{Asked, Call, Calls},
    rewrite,
};
use crate::{
    error_code,
    frame::{self, Batch, Frame, Notification, Request, ResponseBody, ResponseId},
    hash::Seed,
    id::RequestId,
    json,
    link::Departure,
    message,
    outbox::{Outbox, Ticket},
    task::TaskStatus,
    time::Instant,
};

/// Requests at the server, and what waits to be written.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    pub(super) config: BridgeConfig,
    pub(super) calls: Calls,
    /// The time of the input that is being handled.
    pub(super) now: Instant,
    /// What waits to be written to the server: cancels before all else.
    pub(super) outbox: Outbox<Departs>,
    /// The server reads no more.
    pub(super) is_write_closed: bool,
    /// What is written leaves later ([`handle_departure`](Self::handle_departure)).
    pub(super) server_departs: bool,
    /// Messages for the relay, as from the server.
    pub(super) said: VecDeque<Carried>,
}

/// What departs with a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Departs {
    /// What it is, if more than a message that was passed on as it was.
    part: Option<Part>,
    /// What the relay learns then.
    departures: Vec<Departure>,
}

/// What a line is of a call, or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Request(i64),
    Cancel(i64),
    /// What it has leaves together.
    Batch,
}

impl From<Departure> for Departs {
    fn from(departure: Departure) -> Self {
        Self { part: None, departures: vec![departure] }
    }
}

impl From<&Batch<'_>> for Departs {
    fn from(batch: &Batch<'_>) -> Self {
        let departure_of = |member| match frame::parse_member(member).ok()? {
            Frame::Request(request) => Some(Departure::Request(request.id)),
            Frame::Notification(notification) => cancelled_by(&notification).map(Departure::Cancel),
            Frame::Response(_) | Frame::Batch(_) => None,
        };
        Self { part: Some(Part::Batch), departures: batch.members().filter_map(departure_of).collect() }
    }
}

/// The request that a cancel of a client names.
pub(super) fn cancelled_by(notification: &Notification<'_>) -> Option<RequestId> {
    let params = notification.params.raw.filter(|_| notification.method == CANCELLED)?;
    json::member(params, "requestId").and_then(RequestId::from_json)
}

pub(super) const GONE: &str = "the server can be told nothing any more";

impl Traffic {
    pub(super) fn new(config: BridgeConfig, seed: Seed) -> Self {
        Self {
            config,
            calls: Calls::new(seed),
            now: Instant::ORIGIN,
            outbox: Outbox::new(),
            is_write_closed: false,
            server_departs: false,
            said: VecDeque::new(),
        }
    }

    /// Nothing of what waits is written any more.
    pub(super) fn drop_unsent(&mut self) {
        self.outbox = Outbox::new();
    }

    /// Records that so many bytes have left, or were handed to what reports their departures later.
    pub(super) fn handle_written(&mut self, bytes: usize) {
        let mut written = Vec::new();
        self.outbox.written(bytes, |departs, _| written.push(departs));
        if self.server_departs {
            return;
        }
        for Departs { part, departures } in written {
            match part {
                Some(Part::Request(own)) => self.request_left(own, true),
                Some(Part::Cancel(own)) => self.calls.cancel_left(self.now, own),
                Some(Part::Batch) | None => {}
            }
            departures.into_iter().for_each(|departure| self.departs(departure));
        }
    }

    /// Records what has become of a message by the id that the server knows.
    pub(super) fn handle_departure(&mut self, departure: &Departure) {
        let (id, named): (_, fn(RequestId) -> Departure) = match departure {
            Departure::Request(id) => (id, Departure::Request),
            Departure::Cancel(id) => (id, Departure::Cancel),
            Departure::Returned(id) => (id, Departure::Returned),
            Departure::Withdrawn(id) => (id, Departure::Withdrawn),
            Departure::Session => return self.departs(Departure::Session),
        };
        let Some(own) = id.as_integer().filter(|own| self.calls.is_ours(*own)) else {
            return self.departs(departure.clone());
        };
        let client_id = self.calls.client_id(own).cloned();
        match departure {
            Departure::Request(_) => self.request_left(own, true),
            Departure::Returned(_) => self.request_left(own, false),
            Departure::Cancel(_) => self.calls.cancel_left(self.now, own),
            // One that no cancel has taken back is answered by an error all the same.
            Departure::Withdrawn(_) if self.calls.get(own).is_some_and(Call::is_cancelled) => {
                self.calls.answered(own);
            }
            Departure::Withdrawn(_) | Departure::Session => {}
        }
        client_id.into_iter().for_each(|id| self.departs(named(id)));
    }

    fn request_left(&mut self, own: i64, has_left: bool) {
        self.calls.get_mut(own).into_iter().for_each(|call| call.has_left = has_left);
    }

    pub(super) fn departs(&mut self, departure: Departure) {
        self.said.push_back(Carried::Departed(departure));
    }

    /// The number of ours that a response names. A careless server writes it as text (D10).
    pub(super) fn named(&self, id: Option<&ResponseId>) -> Option<i64> {
        let own = match id? {
            ResponseId::Exact(id) => id.loose(),
            ResponseId::Loose(value) => Some(*value),
        };
        own.filter(|own| self.calls.is_ours(*own))
    }

    /// Sends a client's request, or the next part of one that the server has answered, with params that `params` writes.
    pub(super) fn request(&mut self, call: Call, method: &str, params: impl FnOnce(&mut Vec<u8>)) -> i64 {
        let own = self.calls.open(call);
        self.send(own, method, params);
        own
    }

    /// Sends a request of our own, with params whose members `members` writes.
    pub(super) fn ask(&mut self, asked: Asked, method: &str, members: impl FnOnce(&mut Vec<u8>)) -> i64 {
        let params = |out: &mut Vec<u8>| {
            out.push(b'{');
            members(out);
            out.push(b'}');
        };
        self.request(Call::own(asked), method, params)
    }

    /// Sends the request of a call, or the next part of one.
    pub(super) fn send(&mut self, own: i64, method: &str, params: impl FnOnce(&mut Vec<u8>)) {
        let departures = self.calls.client_id(own).cloned().map(Departure::Request).into_iter().collect();
        let departs = Departs { part: Some(Part::Request(own)), departures };
        let line = self.push(departs, |out| rewrite::request(own, method, out, params));
        self.calls.get_mut(own).into_iter().for_each(|call| call.line = line);
    }

    /// A request that the server has answered is followed by another: its id, unless nothing can be sent any more.
    pub(super) fn reopen(&mut self, call: Call) -> Option<i64> {
        if self.is_write_closed {
            let id = call.client_id?;
            self.refuse(&id, error_code::UPSTREAM_GONE, GONE);
            return None;
        }
        Some(self.calls.open(call))
    }

    /// Takes the request of a call back, or its cancel; `false` if any of it has left.
    pub(super) fn withdraw(&mut self, line: Option<Ticket>) -> bool {
        line.is_some_and(|line| self.outbox.withdraw(line).is_some())
    }

    /// A client's call has ended here by its cancel, and this is what became of it.
    pub(super) fn end_cancelled(&mut self, own: i64, departure: Departure) {
        self.calls.answered(own);
        self.departs(departure);
    }

    /// Sends the cancel of a call, before all that has not begun to leave.
    pub(super) fn write_cancel(&mut self, own: i64, reason: Option<&[u8]>) {
        if self.is_write_closed {
            return;
        }
        let departures = self.calls.client_id(own).cloned().map(Departure::Cancel).into_iter().collect();
        let departs = Departs { part: Some(Part::Cancel(own)), departures };
        let line = self.outbox.push_urgent(departs, |out| {
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
        self.calls.get_mut(own).into_iter().for_each(|call| call.line = Some(line));
    }

    /// Passes a message of a client on as it is.
    pub(super) fn pass_to_server(&mut self, departs: impl Into<Departs>, body: &[u8]) {
        self.push(departs.into(), |out| out.extend_from_slice(body));
    }

    /// Passes a client's cancel on as it is, before all that has not begun to leave. If that is its request, which was passed
    /// on as it was, too, it is taken back; in a batch it leaves before its cancel.
    pub(super) fn pass_cancel(&mut self, id: RequestId, body: &[u8]) {
        let request = Departure::Request(id.clone());
        let waits = |part| self.outbox.find(|departs| departs.part == part && departs.departures.contains(&request));
        let (alone, in_batch) = (waits(None), waits(Some(Part::Batch)));
        if self.withdraw(alone) {
            self.departs(Departure::Withdrawn(id));
        } else if in_batch.is_some() {
            self.pass_to_server(Departure::Cancel(id), body);
        } else if !self.is_write_closed {
            self.outbox.push_urgent(Departure::Cancel(id).into(), |out| out.extend_from_slice(&[body, b"\n"].concat()));
        }
    }

    /// Sends what is not a request.
    pub(super) fn write_line(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.push(Departs::default(), write);
    }

    fn push(&mut self, departs: Departs, write: impl FnOnce(&mut Vec<u8>)) -> Option<Ticket> {
        (!self.is_write_closed).then(|| {
            self.outbox.push(departs, |out| {
                write(out);
                out.push(b'\n');
            })
        })
    }

    pub(super) fn refuse_question(&mut self, id: &RequestId, words: &str) {
        self.write_line(|out| message::error(Some(id), error_code::METHOD_NOT_FOUND, words, None, out));
    }

    /// Answers a request of a server with sessions that is for no client. Whom it would ask is not known where several share
    /// it.
    pub(super) fn answer_server(&mut self, body: &[u8], request: &Request<'_>) {
        if request.method == PING {
            self.write_line(|out| message::result(&request.id, b"{}", out));
        } else if self.config.is_shared {
            self.pass_to_client(body);
        } else {
            self.refuse_question(&request.id, NO_QUESTIONS);
        }
    }

    /// Gives a client the answer of a server of its own era.
    pub(super) fn pass_answer(&mut self, id: &RequestId, body: &ResponseBody<'_>) {
        self.say(|out| match body {
            ResponseBody::Result(result) => message::result(id, result, out),
            ResponseBody::Error(error) => rewrite::error(id, out, |out| out.extend_from_slice(error)),
        });
    }

    /// Gives a client the result that `result` writes.
    pub(super) fn say_result(&mut self, id: &RequestId, result: impl FnOnce(&mut Vec<u8>)) {
        self.say(|out| rewrite::result(id, out, result));
    }

    pub(super) fn refuse(&mut self, id: &RequestId, code: i32, words: &str) {
        self.say(|out| message::error(Some(id), code, words, None, out));
    }

    pub(super) fn pass_to_client(&mut self, body: &[u8]) {
        self.say(|out| out.extend_from_slice(body));
    }

    /// What was said last is about a task of which the server itself shows this, by the result of `tasks/get`.
    pub(super) fn says_of_task(&mut self, seen: &[u8]) {
        let status = TaskStatus::of(json::member(seen, "status").and_then(json::text).as_deref());
        if let Some(Carried::Message(body)) = self.said.pop_back_if(|said| matches!(said, Carried::Message(_))) {
            self.said.push_back(Carried::OfTask(body, status));
        }
    }

    /// A response of the server to no request that it has.
    pub(super) fn pass_unasked(&mut self, body: &[u8]) {
        self.said.push_back(Carried::Unasked(body.into()));
    }

    pub(super) fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut body = Vec::new();
        write(&mut body);
        self.said.push_back(Carried::Message(body));
    }
}
