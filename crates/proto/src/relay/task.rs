//! Requests that became tasks, and the tasks that nobody would hear of (D38).
//!
//! A task is known by the handle that answers its request. A handle that is swallowed, because the request was
//! cancelled, timed out or stopped before it came, would leave a task that nobody knows: the relay cancels it itself,
//! once, in a request of its own whose answer it keeps.

use super::{
    Relay, RelayEvent, Settled, Tag, TaskNews,
    exchange::{Down, Exchange, Rare, Up},
};
use crate::{
    dialect::TaskForm,
    error_code,
    frame::ResponseBody,
    id::RequestId,
    json,
    link::RequestKey,
    message,
    method::Method,
    receipt::{Answer, Outcome},
    time::Instant,
};

/// What an exchange has to do with a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TaskPart {
    /// Its answer was the handle of this task, an id as JSON, which has not been cancelled here.
    Became(Box<[u8]>),
    /// It is a request of ours: to cancel this task, which that request became.
    Cancels(RequestKey, Box<[u8]>),
}

impl Relay {
    /// Looks whether the answer of `request` is a handle; then the request is a task from now on (MCP-C13).
    pub(super) fn note_task(&mut self, request: RequestKey, response: &ResponseBody<'_>) {
        let ResponseBody::Result(result) = response else { return };
        let Some(exchange) = self.exchange(request) else { return };
        let form = exchange.upstream_dialect.tasks.filter(|form| exchange.is_task || !form.asked);
        let Some(task) = form.and_then(|form| form.handle(result)) else { return };
        let event = RelayEvent::Task {
            request,
            id: exchange.id.clone(),
            task: json::text(task).unwrap_or_default().into(),
            news: TaskNews::Made,
        };
        if let Some(exchange) = self.exchange_mut(request) {
            exchange.is_task = true;
            exchange.rare.get_or_insert_default().task = Some(TaskPart::Became(task.into()));
        }
        self.mark_changed(request);
        self.report_task(event);
    }

    /// The handle that answered `request` does not reach its requester, who has cancelled: nobody else can cancel
    /// the task.
    pub(super) fn cancel_orphan(&mut self, now: Instant, request: RequestKey) {
        let Some(exchange) = self.exchange_mut(request) else { return };
        // Taken, so that it happens once: an answer of our own to the same request may be taken back later.
        let Some(TaskPart::Became(task)) = exchange.rare.as_deref_mut().and_then(|rare| rare.task.take()) else {
            return;
        };
        let Some(form) = exchange.upstream_dialect.tasks else { return };
        let (to, like) = (request.from.other(), exchange.id.clone());
        let (dialect, upstream_dialect) = (exchange.dialect, exchange.upstream_dialect);
        if self.links[to].write_closed {
            return;
        }
        if form.asked && !self.negotiation.cancels_tasks(to) {
            return self.tell_of_task(request, &task, TaskNews::Orphaned(Outcome::NotSendable));
        }
        let table = &mut self.tables[request.from];
        let id = table.own_id(&like);
        let hash = table.probe(&id).hash;
        let exchange = Exchange {
            renamed: Some(id.clone()),
            token: None,
            session: None,
            clocks: None,
            cancel: None,
            rare: Some(Box::new(Rare { task: Some(TaskPart::Cancels(request, task.clone())), ..Rare::default() })),
            dialect,
            upstream_dialect,
            up: Up::Assembling,
            down: Down::Waiting,
            asked: now,
            method: self.methods.intern(form.cancel),
            name: Method::OTHER,
            answer: None,
            changed: false,
            is_task: false,
            // No requester calls it by its id.
            replaced: true,
            id: id.clone(),
        };
        let own = RequestKey { from: request.from, key: self.tables[request.from].insert(hash, exchange) };
        let ticket = self.say(to, Tag::Request(own), |out| write_cancel(&form, &id, &task, out));
        if let (Some(exchange), Some(ticket)) = (self.exchange_mut(own), ticket) {
            exchange.up = Up::Queued(ticket);
        }
        // Nobody waits for its answer; it is remembered as long as that may come.
        self.tables[own.from].settle(own.key, now, Settled::Silent);
        self.prune(now, own.from);
        self.tell_of_task(request, &task, TaskNews::Orphaned(Outcome::Asked));
    }

    /// Whether this is the answer to a request of ours: then it goes no further.
    pub(super) fn ends_own_request(&mut self, now: Instant, own: RequestKey, response: &ResponseBody<'_>) -> bool {
        let Some(exchange) = self.exchange_mut(own) else { return false };
        let Some(TaskPart::Cancels(request, task)) = exchange.task().cloned() else { return false };
        if exchange.up != Up::Sent {
            return false;
        }
        exchange.up = Up::Answered;
        let (after, form) = (now.since(exchange.asked), exchange.upstream_dialect.tasks);
        let outcome = match response {
            // Nothing but the dialect that shows the task says more than that the wish arrived (TASK-03, TASK-21).
            ResponseBody::Result(result) => {
                let status = json::member(result, "status").and_then(json::text);
                match (form.is_some_and(|form| form.asked), status.as_deref()) {
                    (true, Some("cancelled")) => Outcome::Confirmed { after },
                    (true, _) => Outcome::AnsweredAfter { after, answer: Answer::Result },
                    (false, _) => Outcome::Sent,
                }
            }
            // It had ended by itself (TASK-02).
            ResponseBody::Error(error)
                if json::member(error, "code") == Some(error_code::INVALID_PARAMS.to_string().as_bytes()) =>
            {
                Outcome::CompletedFirst
            }
            ResponseBody::Error(_) => Outcome::AnsweredAfter { after, answer: Answer::Error },
        };
        self.tell_of_task(request, &task, TaskNews::Orphaned(outcome));
        true
    }

    fn tell_of_task(&mut self, request: RequestKey, task: &[u8], news: TaskNews) {
        let Some(id) = self.exchange(request).map(|exchange| exchange.id.clone()) else { return };
        let task = json::text(task).unwrap_or_default().into();
        self.report_task(RelayEvent::Task { request, id, task, news });
    }

    fn report_task(&mut self, event: RelayEvent) {
        if self.config.emit.notices {
            self.events.push_back(event);
        }
    }
}

fn write_cancel(form: &TaskForm, id: &RequestId, task: &[u8], out: &mut Vec<u8>) {
    message::request(id, form.cancel, out, |out| {
        out.extend_from_slice(br#""taskId":"#);
        out.extend_from_slice(task);
        if let Some(meta) = form.meta {
            out.extend_from_slice(br#","_meta":"#);
            out.extend_from_slice(meta.as_bytes());
        }
    });
}
