//! A bridge before a server with sessions. Its clients are of 2026-07-28; where several share it, some have sessions, too.

mod asking;
mod questions;
mod subscriptions;
mod tasks;

use core::hash::{Hash, Hasher};

use super::{
    INITIALIZE, INITIALIZED, LISTEN, PING, SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE,
    calls::{Asked, Call, Form},
    date,
    direction::Direction,
    envelope::{self, Envelope},
    handshake::{self, MODERN},
    rewrite::{self, Style},
    task::{self, TASK},
    traffic::{Departs, Traffic},
};
use crate::{
    dialect::{DISCOVER, mcp, negotiation::Negotiation},
    error_code,
    frame::{Notification, Request, ResponseBody},
    hash::Seed,
    id::RequestId,
    json,
    link::Departure,
    time::Instant,
};
use asking::Asking;
use subscriptions::Subscriptions;
use tasks::Tasks;

/// What is known of a server with sessions, and kept for its clients.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    /// Its answer to `initialize`.
    greeting: Box<[u8]>,
    subscriptions: Subscriptions,
    asking: Asking,
    tasks: Tasks,
}

const UNKNOWN_STATE: &str =
    "this requestState is unknown, used up or expired, or of another process: send the call again without it";

impl Sessions {
    pub(super) fn new(greeting: Box<[u8]>, seed: Seed) -> Self {
        Self { greeting, subscriptions: Subscriptions::default(), asking: Asking::new(seed), tasks: Tasks::default() }
    }

    /// Passes on a request of a client with a session.
    fn pass(&mut self, traffic: &mut Traffic, request: &Request<'_>) {
        let result = match &*request.method {
            INITIALIZE => &self.greeting,
            SUBSCRIBE | UNSUBSCRIBE if !self.subscribes(traffic.config.max_listening, request) => &b"{}"[..],
            method => {
                // Its client cannot be asked here, but it may be the one for which the server asks.
                let asks = asking::asks(traffic, request, None);
                let params = request.params.raw.unwrap_or(b"{}");
                let call = Call { asks, ..Call::of(request, Style::InSession) };
                traffic.request(call, method, |out| out.extend_from_slice(params));
                return;
            }
        };
        traffic.pass_answer(&request.id, &ResponseBody::Result(result));
    }

    /// Carries a request of 2026-07-28 over.
    fn carry(&mut self, traffic: &mut Traffic, request: &Request<'_>, envelope: &Envelope<'_>) {
        let (id, params) = (&request.id, &request.params);
        match &*request.method {
            DISCOVER => traffic.say_result(id, |out| handshake::to_discovered(&self.greeting, out)),
            LISTEN => self.listen(traffic, request),
            INITIALIZE | PING | SET_LEVEL | SUBSCRIBE | UNSUBSCRIBE => refuse_method(traffic, request),
            method if method.starts_with("tasks/") => self.carry_task(traffic, request, envelope),
            _ if params.raw.is_some_and(|params| json::member(params, "requestState").is_some()) => {
                if !self.retry(traffic, request, envelope) {
                    traffic.refuse(id, error_code::INVALID_PARAMS, UNKNOWN_STATE);
                }
            }
            method => {
                self.set_level(traffic, envelope.level);
                let asks = asking::asks(traffic, request, Some(envelope));
                let mut call = Call { asks, level: envelope.level, ..Call::of(request, Style::Enveloped) };
                let (mut first, mut reserved) = (&b""[..], envelope::RESERVED);
                if self.becomes_task(request, envelope) {
                    // The extension has no progress of tasks, so none is asked for.
                    call.form = Form::Task(task::Step::Make);
                    (first, reserved) = (br#""task":{}"#, envelope::RESERVED_OR_TOKEN);
                }
                // Nothing asks for a task in 2026-07-28 (TASK-27).
                let but: &[&str] = if method == task::CALL { &[rewrite::META, TASK] } else { &[rewrite::META] };
                traffic.request(call, method, |out| {
                    let write_meta = |out: &mut Vec<u8>| rewrite::object(b"", params.meta, reserved, out);
                    rewrite::params_with(first, params.raw, but, write_meta, out);
                });
            }
        }
    }

    /// The answer to a client's request, which the client waits for.
    fn take_answer(&mut self, traffic: &mut Traffic, call: Call, body: &ResponseBody<'_>) {
        match (&call.form, body) {
            (Form::Task(_), _) if call.goes_on() => return self.take_task_answer(traffic, call, body),
            (Form::Tools, ResponseBody::Result(result)) => self.learn_tools(result),
            _ => {}
        }
        answer(traffic, &call, body);
    }

    /// Bytes that questions, answers, and calls that may be asked something can still take.
    fn room(&self, traffic: &Traffic) -> usize {
        traffic.config.max_held.saturating_sub(self.asked_bytes(traffic))
    }

    fn asked_bytes(&self, traffic: &Traffic) -> usize {
        let asked = self.asking.of_asker() + self.asking.pauses.bytes() + self.tasks.asking.bytes();
        traffic.calls.kept_bytes() + asked
    }
}

impl Direction for Sessions {
    fn handle_request(&mut self, traffic: &mut Traffic, _body: &[u8], request: &Request<'_>) {
        self.asking.id_is_taken(&request.id);
        match Envelope::of(&request.params) {
            Some(envelope) => self.carry(traffic, request, &envelope),
            None => self.pass(traffic, request),
        }
    }

    fn handle_notification(&mut self, traffic: &mut Traffic, body: &[u8], notification: &Notification<'_>) {
        match &*notification.method {
            // Said already.
            INITIALIZED => {}
            mcp::ABANDONED if traffic.config.may_ask => self.handle_abandoned(traffic, notification.params.raw),
            _ => traffic.pass_to_server(Departs::default(), body),
        }
    }

    /// Passes it on under the server's id.
    fn cancel(&mut self, traffic: &mut Traffic, _body: &[u8], id: Option<RequestId>, params: &[u8]) {
        let Some(id) = id else { return };
        let Some((own, line)) = traffic.calls.cancel(traffic.now, &id) else { return };
        if self.close_listener(traffic, own) {
            traffic.end_cancelled(own, Departure::Cancel(id));
        } else if traffic.withdraw(line) {
            traffic.end_cancelled(own, Departure::Withdrawn(id));
        } else {
            write_cancel(traffic, own, json::member(params, "reason"));
            self.end_asker(own);
        }
    }

    fn handle_answer(&mut self, traffic: &mut Traffic, call: Call, body: &ResponseBody<'_>) {
        if let Form::Own(asked) = call.form {
            if asked == Asked::TaskResult {
                self.task_result_came(call.own);
            }
        } else if call.client_id.is_none() {
            self.keep_answer(traffic, call, body);
        } else {
            self.end_asker(call.own);
            self.take_answer(traffic, call, body);
        }
    }

    fn handle_report(&mut self, traffic: &mut Traffic, body: &[u8], notification: &Notification<'_>) {
        self.pass_report(traffic, body, notification);
    }

    fn handle_question(&mut self, traffic: &mut Traffic, body: &[u8], request: &Request<'_>) {
        if traffic.config.may_ask && request.method != PING {
            self.ask(traffic, request);
        } else {
            traffic.answer_server(body, request);
        }
    }

    fn handle_late_cancel(&mut self, traffic: &mut Traffic, client_id: &RequestId) {
        // If that answer asked for input, no other comes: the call ends.
        self.give_up(traffic, |pause| pause.client_id.as_ref() == Some(client_id));
    }

    fn handle_unreadable(&mut self, _traffic: &mut Traffic, call: &Call) {
        self.end_asker(call.own);
    }

    fn due(&self) -> Option<Instant> {
        self.asking.pauses.due().into_iter().chain(self.tasks.asking.due()).min()
    }

    fn handle_timeout(&mut self, traffic: &mut Traffic) {
        self.stop_asking(traffic);
        self.stop_asking_for_tasks(traffic, usize::MAX);
    }

    fn residue(&self) -> usize {
        let asked = usize::from(self.asking.asker.is_some()) + self.asking.pauses.len();
        self.subscriptions.listeners.len() + asked + self.tasks.asking.len()
    }

    fn held(&self) -> usize {
        let asked = self.asking.of_asker() + self.asking.pauses.held() + self.tasks.asking.held();
        self.subscriptions.bytes + asked + self.tasks.tools_bytes
    }

    fn check(&self, is_in_flight: &dyn Fn(i64) -> bool) {
        self.asking.check(is_in_flight);
        self.tasks.check(is_in_flight);
    }

    fn hash_state(&self, now: Instant, mut state: &mut dyn Hasher) {
        (&self.greeting, &self.subscriptions).hash(&mut state);
        self.asking.hash_state(now, &mut state);
        self.tasks.hash_state(now, &mut state);
    }
}

/// Gives a client the answer to its request, as its era has it.
fn answer(traffic: &mut Traffic, call: &Call, body: &ResponseBody<'_>) {
    let Some(id) = &call.client_id else { return };
    match (body, call.style) {
        (_, Style::InSession) => traffic.pass_answer(id, body),
        (ResponseBody::Result(result), Style::Enveloped) => {
            let is_cacheable = matches!(call.form, Form::Kept | Form::Tools);
            traffic.say_result(id, |out| rewrite::to_modern(result, is_cacheable, out));
        }
        (ResponseBody::Error(error), Style::Enveloped) => {
            traffic.say(|out| rewrite::error(id, out, |out| rewrite::error_to_modern(error, out)));
        }
    }
}

/// Sends the cancel of a call, unless it becomes a task: once the server says which, that is cancelled by the one that
/// passes it on (MCP-C13, D38).
fn write_cancel(traffic: &mut Traffic, own: i64, reason: Option<&[u8]>) {
    if !traffic.calls.get(own).is_some_and(Call::is_to_be_task) {
        traffic.write_cancel(own, reason);
    }
}

/// Refuses a method that the revision of its request does not have.
fn refuse_method(traffic: &mut Traffic, request: &Request<'_>) {
    let named = Negotiation::named(request.params.meta).filter(|named| named.stateless).unwrap_or(MODERN);
    traffic.refuse(&request.id, error_code::METHOD_NOT_FOUND, &format!("{} has no such method", date(named)));
}
