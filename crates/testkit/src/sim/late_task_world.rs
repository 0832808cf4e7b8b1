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
    relay::{Relay, RelayConfig, RequestView},
    side::{Side, Sides},
    time::Instant,
};
use serde_json::{Value, json};

use super::{
    digest::Digest,
    hop::Cut,
    stage::Stage,
    watcher::Watcher,
    world::{Broken, Transcript, World, never},
};

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
    /// Some of what waits for a side is written.
    Writes(Side, Cut),
    /// The next timer is due.
    Timeout,
    /// The server ends.
    Ends,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    Not,
    Waiting,
    Read,
    Answered,
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

/// The relay, what has passed, and what follows from it.
#[derive(Clone, Debug)]
pub struct LateTaskWorld {
    stage: Stage,
    era: TaskEra,
    call: Call,
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
    has_ended: bool,
    watcher: Option<Watcher>,
}

impl LateTaskWorld {
    /// A link with its handshake done.
    #[must_use]
    pub fn new(era: TaskEra) -> Self {
        let dialects = match era {
            TaskEra::November => Sides { client: None, server: None },
            TaskEra::Extension => Sides { client: Some(&mcp::LATEST), server: Some(&mcp::LATEST) },
        };
        let mut stage = Stage::new(Relay::new(RelayConfig { dialects, ..RelayConfig::default() }), Instant::ORIGIN);
        if era == TaskEra::November {
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
            let hello = json!({"jsonrpc": "2.0", "id": "hi", "method": "initialize", "params": params});
            stage.say(Side::Client, &hello.to_string());
            stage.write(Side::Server, Cut::All);
            let tasks = json!({"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": tasks});
            stage.say(Side::Server, &json!({"jsonrpc": "2.0", "id": "hi", "result": result}).to_string());
            stage.write(Side::Client, Cut::All);
        }
        let watcher = Some(Watcher::new(&mut stage.relay));
        Self {
            stage,
            era,
            call: Call::Not,
            call_key: None,
            is_stopped: false,
            has_cancelled_task: false,
            work: Work::None,
            is_told_over: false,
            client_knows: false,
            was_asked: false,
            open: Vec::new(),
            has_ended: false,
            watcher,
        }
    }

    fn in_view(&self) -> Option<RequestView<'_>> {
        self.stage.relay.requests(Side::Client).find(|view| view.at_work.is_some())
    }

    fn says(&mut self, from: Side, message: &Value) {
        self.stage.say(from, &message.to_string());
    }

    fn reads(&mut self, to: Side, frame: &str) {
        self.stage.note_read(to, frame);
        let Ok(message) = serde_json::from_str::<Value>(frame) else { return };
        if to == Side::Client {
            self.client_knows |= frame.contains("\"taskId\"") && message["id"] == 1;
            return;
        }
        let method = message["method"].as_str().unwrap_or_default();
        if method == "tools/call" && self.call == Call::Waiting {
            self.call = Call::Read;
        }
        let is_cancel = method == "tasks/cancel";
        if is_cancel || method == "tasks/get" {
            self.was_asked |= is_cancel;
            self.open.push(Open { id: message["id"].to_string(), is_cancel, read: self.stage.now });
        }
    }

    fn write(&mut self, to: Side, cut: Cut) {
        for frame in self.stage.write(to, cut) {
            self.reads(to, &frame);
        }
    }

    /// The server answers the oldest request about the task.
    fn answer(&mut self, obeys: bool) {
        let Open { id, is_cancel, read } = self.open.remove(0);
        // What the relay asked for itself it may have forgotten some time after that has left.
        let is_taken = id == "2" || self.remembers(read);
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
        self.says(Side::Server, &message);
        // What it has not forgotten by then it may take all the same.
        self.is_told_over |= tells && self.in_view().is_none();
    }

    fn act(&mut self, action: Action) {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        match action {
            Action::Calls => {
                self.call = Call::Waiting;
                let params = match self.era {
                    TaskEra::November => json!({"name": "slow", "task": {}}),
                    TaskEra::Extension => json!({"name": "slow", "_meta": meta}),
                };
                let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
                self.says(Side::Client, &call);
                self.call_key = self.stage.relay.requests(Side::Client).map(|view| view.key).next();
            }
            Action::Hands => {
                (self.call, self.work) = (Call::Answered, Work::Working);
                let made = json!({"taskId": TASK, "status": "working"});
                let result = match self.era {
                    TaskEra::November => json!({ "task": made }),
                    TaskEra::Extension => json!({"resultType": "task", "taskId": TASK, "status": "working"}),
                };
                self.says(Side::Server, &json!({"jsonrpc": "2.0", "id": 1, "result": result}));
            }
            Action::Answers => {
                self.call = Call::Answered;
                self.says(Side::Server, &json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}));
            }
            Action::ClientCancels => {
                let params = json!({"requestId": 1});
                self.says(
                    Side::Client,
                    &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
                );
            }
            Action::ClientCancelsTask => {
                self.has_cancelled_task = true;
                let params = match self.era {
                    TaskEra::November => json!({"taskId": TASK}),
                    TaskEra::Extension => json!({"taskId": TASK, "_meta": meta}),
                };
                self.says(
                    Side::Client,
                    &json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/cancel", "params": params}),
                );
            }
            Action::Stops => {
                self.is_stopped = true;
                self.stage.transcript.note(|| "operator stops the call".to_owned());
                if let Some(key) = self.call_key {
                    self.stage.relay.stop(self.stage.now, key, None);
                }
            }
            Action::StopsTask => {
                self.stage.transcript.note(|| "operator stops the task".to_owned());
                if let Some(key) = self.in_view().map(|view| view.key) {
                    self.stage.relay.stop(self.stage.now, key, None);
                }
            }
            Action::Obeys => self.answer(true),
            Action::Shrugs => self.answer(false),
            Action::Completes => self.work = Work::Completed,
            Action::Pushes => {
                let method = match self.era {
                    TaskEra::November => "notifications/tasks/status",
                    TaskEra::Extension => "notifications/tasks",
                };
                self.is_told_over |= self.work != Work::Working;
                let params = json!({"taskId": TASK, "status": self.work.word()});
                self.says(Side::Server, &json!({"jsonrpc": "2.0", "method": method, "params": params}));
            }
            Action::Writes(to, cut) => self.write(to, cut),
            Action::Timeout => self.stage.pass(),
            Action::Ends => {
                self.has_ended = true;
                self.open.clear();
                self.stage.lose_server();
            }
        }
    }

    /// Whether it is too early for the relay to have forgotten what left then.
    fn remembers(&self, left: Instant) -> bool {
        self.stage.now.since(left) < Duration::from_secs(300)
    }

    /// Compares what the relay shows and claims with what is so.
    fn check(&mut self) -> Result<(), Broken> {
        self.stage.receipts();
        let relay = &self.stage.relay;
        let is_due = self.work != Work::None && !self.is_told_over && !self.has_ended;
        never(self.in_view().is_some() != is_due, || {
            format!("the task is shown as {:?}, and is {:?}", self.in_view(), self.work)
        })?;
        let views = relay.summaries(Side::Client).filter_map(|summary| relay.view(summary.key));
        for view in views.filter(|view| view.is_task && view.cancel.is_some() && self.work != Work::None) {
            let outcome = view.cancel.map(|receipt| receipt.outcome);
            let may_be = match outcome {
                Some(Outcome::Confirmed { .. }) => self.work == Work::Cancelled,
                Some(Outcome::CompletedFirst | Outcome::AnsweredAfter { .. }) => self.work != Work::Working,
                Some(Outcome::NeverSent | Outcome::NotSendable) => false,
                Some(_) | None => true,
            };
            never(!may_be, || format!("the cancel of {} is {outcome:?}, and the task is {:?}", view.key, self.work))?;
        }
        match &mut self.watcher {
            Some(watcher) => watcher.follow(&mut self.stage.relay),
            None => Ok(()),
        }
    }
}

impl World for LateTaskWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        for side in Side::BOTH {
            let pending = self.stage.relay.pending(side);
            let pieces: &[Cut] = if side == Side::Server && !self.stage.is_cut(side) { &[Cut::Half] } else { &[] };
            out.extend(Cut::of(pending, pieces).into_iter().map(|cut| Action::Writes(side, cut)));
        }
        if self.stage.relay.poll_timeout().is_some() {
            out.push(Action::Timeout);
        }
        if self.call == Call::Not {
            out.push(Action::Calls);
            return;
        }
        if !self.is_stopped {
            out.push(Action::Stops);
        }
        if self.in_view().is_some() {
            out.push(Action::StopsTask);
        }
        if self.has_ended {
            return;
        }
        out.push(Action::Ends);
        // What the relay has forgotten it cannot report.
        let is_remembered = self.call_key.is_some_and(|key| self.stage.relay.view(key).is_some());
        if self.call == Call::Read && is_remembered {
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

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::Ends | Action::Answers)
    }

    fn step(&mut self, action: Action) -> Result<(), Broken> {
        self.act(action);
        self.check()
    }

    fn check_future(&self) -> Result<(), Broken> {
        let mut world = self.clone();
        for side in [Side::Server, Side::Client, Side::Server] {
            world.write(side, Cut::All);
        }
        let is_lost = world.work == Work::Working && !world.client_knows && !world.has_ended;
        never(is_lost && !world.was_asked, || {
            "a task works whose handle reaches nobody, and its cancel is lost".to_owned()
        })?;
        if !world.has_ended {
            world.step(Action::Ends)?;
        }
        world.write(Side::Client, Cut::All);
        world.stage.check_empty()
    }

    fn digest(&self) -> u128 {
        let mut digest = Digest::new();
        self.stage.hash_state(&mut digest);
        (self.call, self.is_stopped, self.has_cancelled_task, self.work).hash(&mut digest);
        (self.is_told_over, self.client_knows, self.was_asked, self.has_ended).hash(&mut digest);
        for Open { id, is_cancel, read } in &self.open {
            (id, is_cancel, self.remembers(*read)).hash(&mut digest);
        }
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.stage.transcript
    }
}
