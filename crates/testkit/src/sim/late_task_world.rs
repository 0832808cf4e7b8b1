//! An MCP client and its server with a relay between them, and a call that may turn out to be a task (D56).
//!
//! The task becomes visible late: with its handle, before or after somebody has cancelled the call. A small model knows
//! what the server does and has reported, and judges what the relay shows of the task, what it claims of a cancel, and whether
//! every task whose handle reaches no client is cancelled.

use core::{hash::Hash, time::Duration};

use rescind_proto::{
    dialect::mcp,
    link::RequestKey,
    receipt::Outcome,
    relay::{RelayConfig, RequestView},
    side::{Side, Sides},
    time::Instant,
};
use serde_json::{Value, json};

use super::{
    digest::Digest,
    follower_world::{Asked, FollowerWorld, Kind},
    stage::Stage,
    world::{Broken, never},
};

/// A relay before a server with a call that may become a task.
pub type LateTaskWorld = FollowerWorld<LateTask>;

const TASK: &str = "t";

/// Which dialect of tasks is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskEra {
    /// That of 2025-11-25.
    November,
    /// The extension of 2026-07-28.
    Extension,
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client makes the call.
    Calls,
    /// The server answers it with the handle of a task.
    Hands,
    /// The server answers it with a result.
    Answers,
    /// The client cancels the call.
    ClientCancels,
    /// The client cancels the task.
    ClientCancelsTask,
    /// The operator stops the call.
    Stops,
    /// The operator stops the task.
    StopsTask,
    /// The server does what the oldest open request about the task asks, and answers it.
    Obeys,
    /// The server answers that request, and does not do it.
    Shrugs,
    /// The task has done its work.
    Completes,
    /// The server reports how the task stands.
    Pushes,
}

/// How the task really stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    None,
    Working,
    Cancelled,
    Completed,
}

impl Work {
    const fn word(self) -> &'static str {
        match self {
            Self::None | Self::Working => "working",
            Self::Cancelled => "cancelled",
            Self::Completed => "completed",
        }
    }
}

/// A request about the task that the server has read.
#[derive(Clone, Debug)]
struct Open {
    id: String,
    is_cancel: bool,
    read: Instant,
}

/// What has passed of the call and its task, and what follows from it.
#[derive(Clone, Debug)]
pub struct LateTask {
    era: TaskEra,
    call: Asked,
    call_key: Option<RequestKey>,
    is_stopped: bool,
    has_cancelled_task: bool,
    work: Work,
    /// The relay has received that the task is over.
    is_told_over: bool,
    client_knows: bool,
    /// A cancel of the task has reached the server.
    was_asked: bool,
    /// Requests about the task that the server has read and not answered.
    open: Vec<Open>,
}

impl LateTaskWorld {
    /// A link of this era after its greeting, where it has one.
    #[must_use]
    pub fn new(era: TaskEra) -> Self {
        Self::of(LateTask {
            era,
            call: Asked::Not,
            call_key: None,
            is_stopped: false,
            has_cancelled_task: false,
            work: Work::None,
            is_told_over: false,
            client_knows: false,
            was_asked: false,
            open: Vec::new(),
        })
    }
}

impl LateTask {
    /// The server answers the oldest request about the task.
    fn answer(&mut self, stage: &mut Stage, obeys: bool) {
        let Open { id, is_cancel, read } = self.open.remove(0);
        // What the relay asked for itself it may have forgotten some time after that has left.
        let is_taken = id == "2" || remembers(stage, read);
        let id: Value = serde_json::from_str(&id).unwrap_or_default();
        let was_over = matches!(self.work, Work::Cancelled | Work::Completed);
        if is_cancel && obeys && !was_over {
            self.work = Work::Cancelled;
        }
        let status = json!({"taskId": TASK, "status": self.work.word()});
        let is_refused = is_cancel && self.era == TaskEra::November && (was_over || !obeys);
        let message = match () {
            () if is_refused => {
                let code = if was_over { -32602 } else { -32603 };
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}})
            }
            () if is_cancel && self.era == TaskEra::Extension => {
                json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}})
            }
            () => json!({"jsonrpc": "2.0", "id": id, "result": status}),
        };
        let is_over = matches!(self.work, Work::Cancelled | Work::Completed);
        let tells = is_over && !(is_cancel && self.era == TaskEra::Extension);
        self.is_told_over |= is_taken && tells;
        says(stage, Side::Server, &message);
        // What it has not forgotten by then it may take all the same.
        self.is_told_over |= tells && in_view(stage).is_none();
    }
}

fn in_view(stage: &Stage) -> Option<RequestView<'_>> {
    stage.relay.requests(Side::Client).find(|view| view.at_work.is_some())
}

/// Whether it is too early for the relay to have forgotten what left then.
fn remembers(stage: &Stage, left: Instant) -> bool {
    stage.now.since(left) < Duration::from_secs(300)
}

fn says(stage: &mut Stage, from: Side, message: &Value) {
    stage.say(from, &message.to_string());
}

impl Kind for LateTask {
    type Action = Action;

    fn config(&self) -> RelayConfig {
        let dialects = match self.era {
            TaskEra::November => Sides { client: None, server: None },
            TaskEra::Extension => Sides { client: Some(&mcp::LATEST), server: Some(&mcp::LATEST) },
        };
        RelayConfig { dialects, ..RelayConfig::default() }
    }

    fn greeting(&self) -> Vec<(Side, Value)> {
        if self.era == TaskEra::Extension {
            return Vec::new();
        }
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
        let tasks = json!({"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}});
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": tasks});
        vec![
            (Side::Client, json!({"jsonrpc": "2.0", "id": "hi", "method": "initialize", "params": params})),
            (Side::Server, json!({"jsonrpc": "2.0", "id": "hi", "result": result})),
        ]
    }

    fn with_server(&self, stage: &Stage, out: &mut Vec<Action>) {
        if self.call == Asked::Not {
            out.push(Action::Calls);
            return;
        }
        // What the relay has forgotten it cannot report.
        let is_remembered = self.call_key.is_some_and(|key| stage.relay.view(key).is_some());
        if self.call == Asked::Read && is_remembered {
            out.extend([Action::Hands, Action::Answers]);
        }
        if !self.client_knows {
            out.push(Action::ClientCancels);
        }
        if self.client_knows && !self.has_cancelled_task {
            out.push(Action::ClientCancelsTask);
        }
        if self.work == Work::Working {
            out.push(Action::Completes);
        }
        if self.work != Work::None {
            out.push(Action::Pushes);
        }
        if !self.open.is_empty() {
            out.extend([Action::Obeys, Action::Shrugs]);
        }
    }

    fn always(&self, stage: &Stage, out: &mut Vec<Action>) {
        if self.call != Asked::Not && !self.is_stopped {
            out.push(Action::Stops);
        }
        if in_view(stage).is_some() {
            out.push(Action::StopsTask);
        }
    }

    fn is_rare(action: Action) -> bool {
        action == Action::Answers
    }

    fn act(&mut self, stage: &mut Stage, action: Action) -> Result<(), Broken> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        match action {
            Action::Calls => {
                self.call = Asked::Waiting;
                let params = match self.era {
                    TaskEra::November => json!({"name": "slow", "task": {}}),
                    TaskEra::Extension => json!({"name": "slow", "_meta": meta}),
                };
                let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
                says(stage, Side::Client, &call);
                self.call_key = stage.relay.requests(Side::Client).map(|view| view.key).next();
            }
            Action::Hands => {
                (self.call, self.work) = (Asked::Answered, Work::Working);
                let made = json!({"taskId": TASK, "status": "working"});
                let result = match self.era {
                    TaskEra::November => json!({ "task": made }),
                    TaskEra::Extension => json!({"resultType": "task", "taskId": TASK, "status": "working"}),
                };
                says(stage, Side::Server, &json!({"jsonrpc": "2.0", "id": 1, "result": result}));
            }
            Action::Answers => {
                self.call = Asked::Answered;
                says(stage, Side::Server, &json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}));
            }
            Action::ClientCancels => {
                let params = json!({"requestId": 1});
                let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
                says(stage, Side::Client, &cancel);
            }
            Action::ClientCancelsTask => {
                self.has_cancelled_task = true;
                let params = match self.era {
                    TaskEra::November => json!({"taskId": TASK}),
                    TaskEra::Extension => json!({"taskId": TASK, "_meta": meta}),
                };
                let cancel = json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/cancel", "params": params});
                says(stage, Side::Client, &cancel);
            }
            Action::Stops => {
                self.is_stopped = true;
                stage.stop(&"the call", self.call_key);
            }
            Action::StopsTask => stage.stop(&"the task", in_view(stage).map(|view| view.key)),
            Action::Obeys => self.answer(stage, true),
            Action::Shrugs => self.answer(stage, false),
            Action::Completes => self.work = Work::Completed,
            Action::Pushes => {
                let method = match self.era {
                    TaskEra::November => "notifications/tasks/status",
                    TaskEra::Extension => "notifications/tasks",
                };
                self.is_told_over |= self.work != Work::Working;
                let params = json!({"taskId": TASK, "status": self.work.word()});
                says(stage, Side::Server, &json!({"jsonrpc": "2.0", "method": method, "params": params}));
            }
        }
        Ok(())
    }

    fn reads(&mut self, now: Instant, to: Side, frame: &str) -> Result<(), Broken> {
        let Ok(message) = serde_json::from_str::<Value>(frame) else { return Ok(()) };
        if to == Side::Client {
            self.client_knows |= frame.contains("\"taskId\"") && message["id"] == 1;
            return Ok(());
        }
        let method = message["method"].as_str().unwrap_or_default();
        if method == "tools/call" {
            self.call.read();
        }
        let is_cancel = method == "tasks/cancel";
        if is_cancel || method == "tasks/get" {
            self.was_asked |= is_cancel;
            self.open.push(Open { id: message["id"].to_string(), is_cancel, read: now });
        }
        Ok(())
    }

    fn lose_server(&mut self) {
        self.open.clear();
    }

    fn check(&mut self, stage: &Stage) -> Result<(), Broken> {
        let is_due = self.work != Work::None && !self.is_told_over && !stage.is_server_lost;
        never(in_view(stage).is_some() != is_due, || {
            format!("the task is shown as {:?}, and is {:?}", in_view(stage), self.work)
        })?;
        for view in stage.views().filter(|view| view.is_task && view.cancel.is_some() && self.work != Work::None) {
            let outcome = view.cancel.map(|receipt| receipt.outcome);
            let may_be = match outcome {
                Some(Outcome::Confirmed { .. }) => self.work == Work::Cancelled,
                Some(Outcome::CompletedFirst | Outcome::AnsweredAfter { .. }) => self.work != Work::Working,
                Some(Outcome::NeverSent | Outcome::NotSendable) => false,
                Some(_) | None => true,
            };
            never(!may_be, || format!("the cancel of {} is {outcome:?}, and the task is {:?}", view.key, self.work))?;
        }
        Ok(())
    }

    fn check_read(&self) -> Result<(), Broken> {
        let is_lost = self.work == Work::Working && !self.client_knows;
        never(is_lost && !self.was_asked, || {
            "a task works whose handle reaches nobody, and its cancel is lost".to_owned()
        })
    }

    fn hash(&self, stage: &Stage, digest: &mut Digest) {
        (self.call, self.is_stopped, self.has_cancelled_task, self.work).hash(digest);
        (self.is_told_over, self.client_knows, self.was_asked).hash(digest);
        for Open { id, is_cancel, read } in &self.open {
            (id, is_cancel, remembers(stage, *read)).hash(digest);
        }
    }
}
