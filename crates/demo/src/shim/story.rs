//! What happened to each call, according to the client, to the marks of the work and to the shim's recording.

use serde::Serialize;
use serde_json::Value;

use super::{
    client::{Ending, Message, Seen},
    recording::{Receipt, Recording},
    script,
};
use crate::{
    act::End,
    moment::Moment,
    ms::Ms,
    sample_server::{REVISION, mark::Event, tool::Tool},
};

/// The whole act. Times are milliseconds since the first call was sent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Story {
    pub(super) protocol: &'static str,
    pub(super) calls: Vec<Call>,
    /// How long a ping took after the late answers; `null` if it was not answered.
    pub(super) ping_ms: Option<Ms>,
    pub(super) end: End,
    /// Sentences about what was not expected.
    pub(crate) unexpected: Vec<String>,
}

/// One call of one tool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) tool: Tool,
    pub(super) asked_ms: Option<Ms>,
    pub(super) cancel: Option<Cancel>,
    pub(super) work: Work,
    pub(super) client: Client,
    pub(super) swallowed: Swallowed,
    /// The last receipt of the cancel that the shim recorded.
    pub(super) receipt: Option<Receipt>,
}

/// A cancel: by whom, and when.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cancel {
    pub(super) by: Canceller,
    pub(super) at_ms: Ms,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Canceller {
    Client,
    Shim,
}

/// What the work itself marked.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Work {
    pub(super) started_ms: Option<Ms>,
    /// When the server read a cancel for it.
    pub(super) told_ms: Option<Ms>,
    /// When half of the answer was written.
    pub(super) answering_ms: Option<Ms>,
    pub(super) ended_ms: Option<Ms>,
    pub(super) end: Option<WorkEnd>,
    /// The number of progress reports that it wrote.
    pub(super) progress: usize,
    /// The number of those that it wrote before the server read the cancel.
    pub(super) progress_when_told: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkEnd {
    /// The cancel stopped it.
    Stopped,
    /// It was done.
    Finished,
    /// The server exited while it ran.
    Exited,
}

/// What the client received.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Client {
    pub(super) progress: usize,
    /// The number of messages about the call that arrived after the client cancelled it.
    pub(super) after_cancel: usize,
    pub(super) answers: Vec<Answer>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) at_ms: Ms,
    /// `null` for a result.
    pub(super) error: Option<Value>,
}

/// What the server sent after the call was over, and the shim did not pass on.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Swallowed {
    pub(super) progress: usize,
    pub(super) answers: usize,
    /// When the last of these answers came.
    pub(super) answer_ms: Option<Ms>,
}

impl Story {
    /// Tells what was seen since `start`.
    pub(super) fn new(seen: &Seen, recording: &Recording, ending: Ending, start: Moment) -> Self {
        let time = |at: Moment| Ms::of(at.since(start));
        let ping_ms = sent(seen, script::PING).and_then(|ping| {
            let pong = seen.received.iter().find(|message| message.answers(script::PING))?;
            Some(Ms::of(pong.at.since(ping.at)))
        });
        let exit_code = ending.exit.and_then(|status| status.code());
        Self {
            protocol: REVISION,
            calls: Tool::ALL.into_iter().map(|tool| Call::new(tool, seen, recording, &time)).collect(),
            ping_ms,
            end: End { exit_code, left_behind: !ending.is_alone },
            unexpected: Vec::new(),
        }
    }
}

impl Call {
    fn new(tool: Tool, seen: &Seen, recording: &Recording, time: &dyn Fn(Moment) -> Ms) -> Self {
        let id = script::id(tool);
        let cancelled = seen.sent.iter().find(|message| message.cancels(id)).map(|message| message.at);
        let cancel = cancelled.map(|at| Cancel { by: Canceller::Client, at_ms: time(at) });
        let decided = recording.timed_out(id).map(|at_ms| Cancel { by: Canceller::Shim, at_ms });
        Self {
            id,
            tool,
            asked_ms: sent(seen, id).map(|message| time(message.at)),
            cancel: cancel.or(decided),
            work: Work::new(tool, seen, time),
            client: Client::new(tool, seen, cancelled, time),
            swallowed: Swallowed {
                progress: recording.late_progress(tool.name()),
                answers: recording.late_answers(id).count(),
                answer_ms: recording.late_answers(id).last(),
            },
            receipt: recording.receipt(id).cloned(),
        }
    }

    /// Returns the milliseconds from the cancel to the end of the work.
    pub(super) fn ended_after_cancel(&self) -> Option<f64> {
        Some(self.work.ended_ms?.0 - self.cancel.as_ref()?.at_ms.0)
    }
}

impl Work {
    fn new(tool: Tool, seen: &Seen, time: &dyn Fn(Moment) -> Ms) -> Self {
        let mut work = Self::default();
        for mark in seen.marks.iter().filter(|mark| mark.tool == tool && mark.call == script::id(tool)) {
            let at = Some(time(mark.at));
            let mut ended = |end| (work.ended_ms, work.end) = (at, Some(end));
            match mark.event {
                Event::Started => work.started_ms = at,
                Event::Progress { .. } => work.progress += 1,
                Event::Told => (work.told_ms, work.progress_when_told) = (at, Some(work.progress)),
                Event::Answering => work.answering_ms = at,
                Event::Stopped { .. } => ended(WorkEnd::Stopped),
                Event::Finished => ended(WorkEnd::Finished),
                Event::Exits { .. } => ended(WorkEnd::Exited),
            }
        }
        work
    }
}

impl Client {
    fn new(tool: Tool, seen: &Seen, cancelled: Option<Moment>, time: &dyn Fn(Moment) -> Ms) -> Self {
        let mut client = Self::default();
        for message in &seen.received {
            if message.answers(script::id(tool)) {
                let error = message.json.get("error").cloned();
                client.answers.push(Answer { at_ms: time(message.at), error });
            } else if message.json["params"]["progressToken"] == tool.name() {
                client.progress += 1;
            } else {
                continue;
            }
            if cancelled.is_some_and(|cancelled| message.at > cancelled) {
                client.after_cancel += 1;
            }
        }
        client
    }
}

impl Message {
    fn answers(&self, id: u64) -> bool {
        self.json.get("method").is_none() && self.json["id"] == id
    }

    fn cancels(&self, id: u64) -> bool {
        self.json["method"] == "notifications/cancelled" && self.json["params"]["requestId"] == id
    }
}

/// Returns the request that the client sent with this id.
pub(super) fn sent(seen: &Seen, id: u64) -> Option<&Message> {
    seen.sent.iter().find(|message| message.json["id"] == id)
}
