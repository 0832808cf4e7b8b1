//! A bridge before a server without sessions. Its clients have sessions; where several share it, some are of 2026-07-28, too.

mod rounds;
mod subscriptions;
mod tasks;

use core::hash::{Hash, Hasher};

use super::{
    INITIALIZE, INITIALIZED, PING, ROOTS_CHANGED, SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE,
    calls::{Asked, Call, Form},
    direction::Direction,
    envelope::{self, Envelope},
    handshake,
    kind::Kinds,
    rewrite::{self, Style},
    task::{self, Step, TASK},
    traffic::{Departs, Traffic},
};
use crate::{
    dialect::Dialect,
    frame::{Notification, Request, ResponseBody},
    hash::Seed,
    id::RequestId,
    json,
    link::Departure,
    time::Instant,
};
use rounds::Rounds;
use subscriptions::Subscriptions;
use tasks::Tasks;

/// What is known of a server without sessions, and kept for its clients.
#[derive(Clone, Debug)]
pub(super) struct Stateless {
    /// Its answer to `server/discover`.
    discovered: Box<[u8]>,
    /// What requests with a session say of their client.
    envelope: Box<[u8]>,
    /// The same for what is about tasks.
    envelope_of_tasks: Box<[u8]>,
    /// What the client can be asked.
    kinds: Kinds,
    subscriptions: Subscriptions,
    rounds: Rounds,
    tasks: Tasks,
}

impl Stateless {
    /// A bridge before a server that is called in this revision, and has described itself so. `hello` are the params of the
    /// client's own `initialize`, if there was one.
    pub(super) fn new(revision: &Dialect, discovered: Box<[u8]>, hello: &[u8], may_ask: bool, seed: Seed) -> Self {
        let capabilities = json::member(hello, "capabilities").filter(|_| may_ask);
        let envelope = |takes_tasks| envelope::of_hello(revision, hello, capabilities, takes_tasks).into();
        Self {
            discovered,
            envelope: envelope(false),
            envelope_of_tasks: envelope(true),
            kinds: Kinds::of(capabilities),
            subscriptions: Subscriptions::default(),
            rounds: Rounds::default(),
            tasks: Tasks::new(seed),
        }
    }

    /// Carries a request of a client with a session over.
    fn carry(&mut self, traffic: &mut Traffic, request: &Request<'_>) {
        let (id, params) = (&request.id, &request.params);
        match &*request.method {
            INITIALIZE => {
                let params = params.raw.unwrap_or(b"{}");
                traffic.say_result(id, |out| handshake::from_discovered(&self.discovered, params, out));
            }
            PING => traffic.pass_answer(id, &ResponseBody::Result(b"{}")),
            SET_LEVEL => self.keep_level(traffic, request),
            SUBSCRIBE | UNSUBSCRIBE => self.subscribe(traffic, request),
            method if method.starts_with("tasks/") => self.carry_task(traffic, request),
            method => {
                let makes_task = self.asks_for_task(request);
                let envelope = if makes_task { &self.envelope_of_tasks } else { &self.envelope };
                let mut members = envelope.to_vec();
                if let Some(level) = self.subscriptions.level {
                    envelope::write_level(level, &mut members);
                }
                let mut written = Vec::new();
                let but: &[&str] = if makes_task { &[rewrite::META, TASK] } else { &[rewrite::META] };
                let write_meta = |out: &mut Vec<u8>| rewrite::object(&members, params.meta, envelope::RESERVED, out);
                rewrite::params_with(b"", params.raw, but, write_meta, &mut written);
                let mut call =
                    Call { asks: self.asks(traffic, request, &written), ..Call::of(request, Style::InSession) };
                if makes_task {
                    call.form = Form::Task(Step::Make);
                }
                traffic.request(call, method, |out| out.extend_from_slice(&written));
            }
        }
    }

    /// Gives a client the answer to its request, as its era has it.
    fn answer(&self, traffic: &mut Traffic, call: &Call, body: &ResponseBody<'_>) {
        let Some(id) = &call.client_id else { return };
        let makes_tasks = task::are_offered(&self.discovered);
        match (body, call.style, &call.form) {
            (ResponseBody::Result(result), Style::InSession, Form::Tools) if makes_tasks => {
                traffic.say_result(id, |out| tasks::write_tools(result, out));
            }
            (ResponseBody::Result(result), Style::InSession, _) => {
                traffic.say_result(id, |out| rewrite::to_legacy(result, out));
            }
            (ResponseBody::Result(result), Style::Enveloped, Form::Listening) => {
                traffic.say_result(id, |out| rewrite::renamed(result, id, out));
            }
            _ => traffic.pass_answer(id, body),
        }
    }

    /// Bytes that questions, answers, and calls that may be asked something can still take.
    fn room(&self, traffic: &Traffic) -> usize {
        let tasks = self.tasks.cancelled.bytes() + self.tasks.made.bytes();
        traffic.config.max_held.saturating_sub(traffic.calls.kept_bytes() + self.rounds.bytes + tasks)
    }
}

impl Direction for Stateless {
    fn handle_request(&mut self, traffic: &mut Traffic, _body: &[u8], request: &Request<'_>) {
        if Envelope::of(&request.params).is_none() {
            return self.carry(traffic, request);
        }
        let call = Call::of(request, Style::Enveloped);
        let params = request.params.raw.unwrap_or(b"{}");
        traffic.request(call, &request.method, |out| out.extend_from_slice(params));
    }

    fn handle_notification(&mut self, traffic: &mut Traffic, body: &[u8], notification: &Notification<'_>) {
        match &*notification.method {
            INITIALIZED => self.follow_lists(traffic),
            // Only one era reports that.
            ROOTS_CHANGED => {}
            _ => traffic.pass_to_server(Departs::default(), body),
        }
    }

    /// Passes it on under the server's id.
    fn cancel(&mut self, traffic: &mut Traffic, _body: &[u8], id: Option<RequestId>, params: &[u8]) {
        let Some(id) = id else { return };
        let Some((own, line)) = traffic.calls.cancel(traffic.now, &id) else { return };
        // The server has never seen it, or sees no more of it.
        if self.end_round(traffic, own) || traffic.withdraw(line) {
            traffic.end_cancelled(own, Departure::Withdrawn(id));
        } else {
            traffic.write_cancel(own, json::member(params, "reason"));
        }
    }

    fn handle_answer(&mut self, traffic: &mut Traffic, call: Call, body: &ResponseBody<'_>) {
        match (&call.form, body) {
            (Form::Own(Asked::Listen), _) => self.listen_ended(traffic, call.own, body),
            (Form::Own(_), _) => {}
            (_, ResponseBody::Result(result)) if rounds::asks_for_input(&call, result) => {
                self.begin_round(traffic, call, result);
            }
            (Form::Task(_), _) if call.goes_on() => self.take_task_answer(traffic, call, body),
            _ => self.answer(traffic, &call, body),
        }
    }

    fn handle_report(&mut self, traffic: &mut Traffic, body: &[u8], notification: &Notification<'_>) {
        self.pass_report(traffic, body, notification);
    }

    fn handle_input(&mut self, traffic: &mut Traffic, id: &RequestId, body: &ResponseBody<'_>) -> bool {
        self.take_input(traffic, id, body)
    }

    fn handle_unreadable(&mut self, traffic: &mut Traffic, call: &Call) {
        self.end_round(traffic, call.own);
    }

    fn handle_write_closed(&mut self, traffic: &mut Traffic) {
        self.end_rounds(traffic);
    }

    fn due(&self) -> Option<Instant> {
        let tasks = self.tasks.cancelled.due().into_iter().chain(self.tasks.made.due());
        self.rounds.timers.next().into_iter().chain(tasks).min()
    }

    fn handle_timeout(&mut self, traffic: &mut Traffic) {
        self.send_due_rounds(traffic);
        self.tasks.forget(traffic.now);
    }

    fn residue(&self) -> usize {
        self.rounds.rounds.len() + self.tasks.cancelled.len() + self.tasks.made.len()
    }

    fn held(&self) -> usize {
        let tasks = self.tasks.cancelled.held() + self.tasks.made.held();
        self.subscriptions.held() + self.rounds.bytes + tasks
    }

    fn check(&self, is_in_flight: &dyn Fn(i64) -> bool) {
        self.rounds.check(is_in_flight);
        self.tasks.cancelled.check();
        self.tasks.made.check();
    }

    fn hash_state(&self, now: Instant, mut state: &mut dyn Hasher) {
        (&self.discovered, &self.envelope, &self.envelope_of_tasks, self.kinds, &self.subscriptions).hash(&mut state);
        self.rounds.hash_state(now, &mut state);
        self.tasks.hash_state(now, &mut state);
    }
}
