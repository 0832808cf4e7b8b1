//! Requests that became tasks, and the tasks that nobody would learn of (D38).
//!
//! A task is known by the handle that answers its request. A handle that is swallowed, because the request was cancelled,
//! timed out or stopped before it came, would leave a task that nobody knows: the relay cancels it itself, once, in a
//! request of its own whose answer it keeps.

use super::{
    Followup, Relay, Settled, Step, TaskNews,
    exchange::{Exchange, Rare, TaskPart, Up},
    link::{Part, Tag},
};
use crate::{
    error_code,
    frame::ResponseBody,
    json,
    link::RequestKey,
    message,
    receipt::{Answer, Outcome},
    time::Instant,
};

impl Step<'_> {
    /// Notes whether the answer is a handle; then the request is a task from now on (MCP-C13).
    #[inline]
    pub(super) fn note_task(&mut self, body: &ResponseBody<'_>) {
        let form = self.exchange.upstream_dialect.tasks.filter(|form| self.exchange.is_task || !form.asked);
        if let (Some(form), ResponseBody::Result(result)) = (form, body)
            && let Some(task) = form.handle(result)
        {
            self.exchange.is_task = true;
            self.exchange.rare().task = Some(TaskPart::Became(task.into()));
            self.mark_changed();
            self.core.report_task(self.request, self.exchange.id.clone(), task, TaskNews::Made);
        }
    }

    /// Whether this is the answer to a request of ours: then it goes no further.
    pub(super) fn ends_own_request(&mut self, body: &ResponseBody<'_>) -> bool {
        let Some(TaskPart::Cancels(request, task)) = self.exchange.task().cloned() else { return false };
        if !self.exchange.up.may_be_answered() {
            return false;
        }
        self.exchange.up = Up::Answered;
        let after = self.now.since(self.exchange.asked);
        let is_shown = self.exchange.upstream_dialect.asks_for_tasks();
        let outcome = match body {
            // Only the dialect that shows the task says more than that the wish arrived (TASK-03, TASK-21).
            ResponseBody::Result(_) if !is_shown => Outcome::Sent,
            ResponseBody::Result(result) => match json::member(result, "status").and_then(json::text).as_deref() {
                Some("cancelled") => Outcome::Confirmed { after },
                Some(_) | None => Outcome::AnsweredAfter { after, answer: Answer::Result },
            },
            // It had ended by itself (TASK-02).
            ResponseBody::Error(_) if body.error_code() == Some(i64::from(error_code::INVALID_PARAMS)) => {
                Outcome::CompletedFirst
            }
            ResponseBody::Error(_) => Outcome::AnsweredAfter { after, answer: Answer::Error },
        };
        self.core.followups.push(Followup::TaskCancelled(request, task, outcome));
        true
    }
}

impl Relay {
    /// Cancels the task whose handle answered `request` and does not reach its requester, who has cancelled: nobody else
    /// can. Once: an answer of our own to the same request may be withdrawn later.
    pub(super) fn cancel_orphan(&mut self, now: Instant, request: RequestKey) {
        let (from, to) = (request.from, request.from.other());
        let Some(of) = self.tables[from].get_mut(request.key) else { return };
        let Some(TaskPart::Became(task)) = of.rare.as_deref_mut().and_then(|rare| rare.task.take()) else { return };
        let Some(form) = of.upstream_dialect.tasks.filter(|_| !self.core.links[to].write_closed) else { return };
        if form.asked && !self.core.negotiation.cancels_tasks(to) {
            return self.report_orphan(request, &task, Outcome::NotSendable);
        }
        let (like, dialect, upstream_dialect) = (of.id.clone(), of.dialect, of.upstream_dialect);
        let id = self.tables[from].own_id(&like);
        let rare = Rare { task: Some(TaskPart::Cancels(request, task.clone())), ..Rare::default() };
        let method = self.core.methods.intern(form.cancel);
        let exchange = Exchange {
            renamed: Some(id.clone()),
            rare: Some(Box::new(rare)),
            // No requester calls it by its id.
            replaced: true,
            ..Exchange::new(id.clone(), dialect, upstream_dialect, now, method)
        };
        let table = &mut self.tables[from];
        let own = RequestKey { from, key: table.insert(table.hash(&id), exchange) };
        self.step(now, own, |step| {
            let write = |out: &mut Vec<u8>| {
                message::request(&id, form.cancel, out, |out| {
                    out.extend_from_slice(br#""taskId":"#);
                    out.extend_from_slice(&task);
                    if let Some(extension) = form.extension {
                        out.extend_from_slice(br#","_meta":{"#);
                        upstream_dialect.write_date_in_meta(out);
                        out.extend_from_slice(br#","io.modelcontextprotocol/clientCapabilities":{"extensions":{"#);
                        json::write_string(out, extension);
                        out.extend_from_slice(b":{}}}}");
                    }
                });
            };
            step.exchange.up = Up::Queued(step.core.write(to, Tag::Of(own, Part::Request), write));
            // Its answer goes to no requester; it is remembered as long as that may come.
            step.retire(Settled::Silent);
        });
        self.report_orphan(request, &task, Outcome::Asked);
    }

    pub(super) fn report_orphan(&mut self, request: RequestKey, task: &[u8], outcome: Outcome) {
        if let Some(id) = self.exchange(request).map(|exchange| exchange.id.clone()) {
            self.core.report_task(request, id, task, TaskNews::Orphaned(outcome));
        }
    }
}
