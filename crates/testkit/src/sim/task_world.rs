//! A client of one era of MCP, a server of the other that makes tasks, and a relay with a bridge between them (D38).
//!
//! It begins when the two have greeted each other, and the server's tools are listed. The client calls tools as tasks and
//! asks about them; the server answers what it has in any order, and its tasks end as they like. Each frame is judged: is it
//! of its reader's era, does anybody wait for it, is it true of the task, may this task be cancelled. In the end nothing
//! goes on that was cancelled, or that nobody knows of.

use core::{hash::Hash, time::Duration};

use rescind_proto::{
    id::RequestId,
    link::RequestKey,
    receipt::{Outcome, Receipt},
    side::Side,
    time::Instant,
};
use serde_json::{Value, json};

use super::{
    digest::Digest,
    eras::{self, CAPABILITIES, Judged, META, TASKS, must},
    hop::Cut,
    stage::{Stage, claims_sent},
    world::{Broken, Transcript, World, broken, never, none, to_rest},
};

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client calls a tool that can be a task, and asks for one where its era lets it.
    Call,
    /// The client asks this about the task of this call.
    Ask(About, u8),
    /// The client cancels its request at this place.
    Cancel(u8),
    /// The client gives what it is asked for this call.
    Give(u8),
    /// It says no.
    Deny(u8),
    /// Some of what waits for a side is written, and read.
    Write(Side, Cut),
    /// The server answers what lies at this place before it: a call with its result, all else as the task is.
    Answer(u8),
    /// The server makes a task of the call at this place.
    Make(u8),
    /// It refuses that call.
    Refuse(u8),
    /// It acknowledges the cancel at this place, and the task goes on.
    Acknowledge(u8),
    /// It wants to know something for the call at this place.
    Want(u8),
    /// The task of this call wants to know something.
    TaskWants(u8),
    /// The task of this call ends by itself.
    End(u8, Status),
    /// The next timer is due.
    Timeout,
    /// The server reads nothing more, and may still answer.
    Deafen,
    /// It dies.
    Die,
}

/// What a client asks about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum About {
    /// `tasks/get`
    Look,
    /// `tasks/cancel`
    Cancel,
    /// `tasks/result`, which only 2025-11-25 has.
    Result,
    /// `tasks/update`, which only the extension has.
    Update,
}

/// What has become of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It is under way.
    Working,
    /// It waits for an answer.
    Wants,
    /// It has a result.
    Completed,
    /// It has a result that says `isError`.
    ToolError,
    /// It has an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// Who meets whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskScene {
    /// Its name.
    pub name: &'static str,
    /// The client is of 2025-11-25 and the server of 2026-07-28; else the other way round.
    pub client_has_session: bool,
    /// The server wants to know something, once.
    pub asks: bool,
    /// It begins when the client has a task, and it calls nothing else.
    pub is_made: bool,
}

/// Each era before the other.
pub const TASK_SCENES: [TaskScene; 8] = [
    MODERN_BEFORE_LEGACY,
    LEGACY_BEFORE_MODERN,
    TaskScene { name: "modern, legacy that asks", asks: true, ..MODERN_BEFORE_LEGACY },
    TaskScene { name: "legacy, modern that asks", asks: true, ..LEGACY_BEFORE_MODERN },
    TaskScene { name: "modern, legacy, made", is_made: true, ..MODERN_BEFORE_LEGACY },
    TaskScene { name: "legacy, modern, made", is_made: true, ..LEGACY_BEFORE_MODERN },
    TaskScene { name: "modern, legacy that asks, made", asks: true, is_made: true, ..MODERN_BEFORE_LEGACY },
    TaskScene { name: "legacy, modern that asks, made", asks: true, is_made: true, ..LEGACY_BEFORE_MODERN },
];

const MODERN_BEFORE_LEGACY: TaskScene =
    TaskScene { name: "modern, legacy", client_has_session: false, asks: false, is_made: false };

const LEGACY_BEFORE_MODERN: TaskScene =
    TaskScene { name: "legacy, modern", client_has_session: true, ..MODERN_BEFORE_LEGACY };

/// A request of the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Request {
    id: i64,
    what: What,
    is_cancelled: bool,
    /// Something of it was at the server when it was cancelled, or may have been.
    reached: bool,
    answers: u8,
}

/// What it is, and the call that it is, or whose task it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Call(usize),
    About(About, usize),
}

/// A call of the client, and what it knows of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Call {
    /// The task that it became.
    task: Option<String>,
    asked: Option<Asked>,
    /// How often its client has wanted it cancelled, or has left it.
    cancels: u8,
    /// It was cancelled when its answer was on its way: its client does not call again.
    is_left: bool,
    /// The server has wanted to know something for it before it was a task.
    was_asked: bool,
}

/// What a client is asked for a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Asked {
    /// By its result: the state.
    Result(String),
    /// By what is seen of its task.
    Seen,
    /// By a question with this id.
    Question(i64),
}

/// What only time makes a difference to, by call.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    /// Its client has cancelled it.
    cancelled: Option<Instant>,
    /// Its client was told that its task is cancelled.
    told_cancelled: Option<Instant>,
    /// Its result is kept as a task that the server does not know.
    kept: Option<Instant>,
}

/// A request that the server has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Work {
    id: Value,
    duty: Duty,
    is_cancelled: bool,
    /// A question for it that was not answered.
    question: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Duty {
    Initialize,
    Discover,
    List,
    Call(usize),
    /// About the task of this call, if it is one that the server knows.
    About(About, Option<usize>),
}

/// A task of the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Task {
    status: Status,
    /// How often the server was told to cancel it.
    told: u8,
    /// A question for it that was not answered.
    question: Option<i64>,
    /// Its handle came so late that nobody remembers what it is for.
    is_forgotten: bool,
}

/// A client, a server, and what is between.
#[derive(Clone, Debug, Default)]
pub struct TaskWorld {
    scene: TaskScene,
    stage: Stage,
    requests: Vec<Request>,
    calls: Vec<Call>,
    since: Vec<Since>,
    work: Vec<Work>,
    /// By call.
    tasks: Vec<Option<Task>>,
    /// Ids that the server has seen.
    seen: Vec<Value>,
    has_wanted: bool,
    is_deaf: bool,
    is_dead: bool,
    /// Calls that the server was handed, and how many cancels.
    handed: Vec<usize>,
    cancels_handed: usize,
    /// Requests of the client whose receipts claim that the server was handed their cancel.
    said_sent: Vec<RequestKey>,
}

const MOST_CALLS: usize = 2;
const MOST_ABOUT: usize = 3;
/// How long a task stays cancelled whatever its server says.
const REMEMBERED: Duration = Duration::from_secs(30 * 60);
/// How long a result is kept as a task, and an answer waited for that nobody wants.
const KEPT: Duration = Duration::from_secs(600);
const RELATED: &str = "io.modelcontextprotocol/related-task";
/// The client's first message.
const HELLO: i64 = 0;
/// The ids of the server's questions.
const QUESTION: i64 = -7;

const ENDS: [Status; 3] = [Status::Completed, Status::ToolError, Status::Failed];

impl Status {
    const fn has_ended(self) -> bool {
        !matches!(self, Self::Working | Self::Wants)
    }

    /// The word for it. A result that says `isError` is a failure in 2025-11-25 (TASK-12), and none in the extension
    /// (TASK-25).
    const fn as_str(self, is_modern: bool) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Wants => "input_required",
            Self::ToolError if !is_modern => "failed",
            Self::Completed | Self::ToolError => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl About {
    const fn method(self) -> &'static str {
        match self {
            Self::Look => "tasks/get",
            Self::Cancel => "tasks/cancel",
            Self::Result => "tasks/result",
            Self::Update => "tasks/update",
        }
    }
}

impl TaskWorld {
    /// Client and server after they have met.
    pub fn new(scene: TaskScene) -> Self {
        let mut world = Self { scene, stage: Stage::with_bridge(false, false), ..Self::default() };
        world.meet();
        world
    }

    const fn server_is_modern(&self) -> bool {
        self.scene.client_has_session
    }

    fn meet(&mut self) {
        if self.scene.client_has_session {
            self.say(Side::Client, &eras::initialize(HELLO, "2025-11-25"));
        } else {
            self.ask_server(HELLO, "tools/list", json!({}));
        }
        loop {
            for side in Side::BOTH {
                self.write(side, Cut::All).expect("a handshake");
            }
            if self.work.is_empty() {
                break;
            }
            self.answer(0);
        }
        if self.scene.client_has_session {
            self.say(Side::Client, &eras::initialized());
        }
        self.watch().expect("a handshake");
        if self.scene.is_made {
            let way = [
                Action::Call,
                Action::Write(Side::Server, Cut::All),
                Action::Make(0),
                Action::Write(Side::Client, Cut::All),
            ];
            way.into_iter().for_each(|action| self.act(action).expect("a task is made"));
        }
    }

    fn say(&mut self, from: Side, frame: &Value) {
        self.stage.say(from, &frame.to_string());
    }

    /// The client sends a request as its era has it.
    fn ask_server(&mut self, id: i64, method: &str, mut params: Value) {
        if !self.scene.client_has_session {
            params["_meta"] = json!({
                META: "2026-07-28",
                CAPABILITIES: {"elicitation": {}, "extensions": {TASKS: {}}},
            });
        }
        self.say(Side::Client, &eras::request(id, method, params));
    }

    fn request(&mut self, what: What, method: &str, params: Value) {
        // In a session no id is used again (MCP-I02); without, not while its request is in flight (MCP-I03).
        let is_free = |id: &i64| {
            self.requests
                .iter()
                .all(|request| request.id != *id || (!self.scene.client_has_session && request.answers > 0))
        };
        let id = (1..).find(is_free).unwrap_or_default();
        self.requests.push(Request { id, what, is_cancelled: false, reached: false, answers: 0 });
        self.ask_server(id, method, params);
    }

    /// Calls a tool, for the first time or with what was wanted.
    fn call(&mut self, call: usize, more: &Value) {
        let mut params = json!({"name": "slow", "call": call});
        if self.scene.client_has_session {
            params["task"] = json!({});
        }
        eras::extend(&mut params, more);
        self.request(What::Call(call), "tools/call", params);
    }

    fn write(&mut self, to: Side, cut: Cut) -> Result<(), Broken> {
        for frame in self.stage.write(to, cut) {
            self.stage.note_read(to, &frame);
            let frame = eras::parse(&frame)?;
            let judged = match to {
                Side::Client => self.client_reads(&frame),
                Side::Server => self.server_reads(&frame),
            };
            judged.map_err(|words| Broken(format!("{words}: {frame}")))?;
        }
        Ok(())
    }

    fn client_reads(&mut self, frame: &Value) -> Judged {
        if let Some(method) = frame["method"].as_str() {
            must(self.scene.client_has_session, "a client without a session is told")?;
            return self.client_is_asked(method, frame);
        }
        if frame["id"] == HELLO {
            return Ok(());
        }
        let waits = |request: &&mut Request| frame["id"] == request.id && request.answers == 0 && !request.is_cancelled;
        let request = self.requests.iter_mut().find(waits).ok_or("the client is answered what it does not wait for")?;
        request.answers += 1;
        let what = request.what;
        if self.is_deaf && frame["error"]["code"].as_i64() == Some(-31002) {
            return Ok(());
        }
        let result = frame.get("result");
        let is_modern = !self.scene.client_has_session;
        let is_of_era = |result: &Value| result.get("resultType").is_some() == is_modern;
        must(result.is_none_or(is_of_era), "a result of another era")?;
        let code = frame["error"]["code"].as_i64();
        match what {
            What::Call(call) => self.call_answered(call, result, code),
            What::About(About::Look, call) => self.looked(call, result, code),
            What::About(About::Cancel, call) => self.cancel_answered(call, result, code),
            What::About(About::Result, call) => self.result_came(call, result, code),
            What::About(About::Update, _) => {
                must(result == Some(&json!({"resultType": "complete"})), "an update is not heard")
            }
        }
    }

    /// What a task looks like in the client's era, apart from its status and what the extension adds.
    fn is_task(&self, seen: &Value, call: usize) -> bool {
        let (life, other) = if self.scene.client_has_session { ("ttl", "ttlMs") } else { ("ttlMs", "ttl") };
        let is_its = self.calls[call].task.as_ref().is_none_or(|task| seen["taskId"] == **task);
        let is_at_server = seen["taskId"] == name(call) || self.since[call].kept.is_some();
        is_its && is_at_server && seen.get(life).is_some() && seen.get(other).is_none() && seen["createdAt"].is_string()
    }

    fn call_answered(&mut self, call: usize, result: Option<&Value>, code: Option<i64>) -> Judged {
        let Some(result) = result else {
            let is_left = code == Some(-32602) && self.calls[call].was_asked && self.calls[call].cancels > 0;
            let is_known = code == Some(-32000) || (code == Some(-32603) && self.has_wanted) || is_left;
            return must(is_known, "a call ends with an error that nobody made");
        };
        let handle = if self.scene.client_has_session {
            Some(&result["task"])
        } else if result["resultType"] == "input_required" {
            let wanted = &result["inputRequests"]["1"]["params"]["message"];
            let state = result["requestState"].as_str().unwrap_or_default();
            self.calls[call].asked = Some(Asked::Result(state.to_owned())).filter(|_| !self.calls[call].is_left);
            return must(*wanted == call, "a question of another call");
        } else {
            (result["resultType"] == "task").then_some(result)
        };
        let Some(handle) = handle else {
            return must(*result == eras::called(true), "no result");
        };
        let id = handle["taskId"].as_str().unwrap_or_default();
        let is_ours = self.since[call].kept.is_some() && id.starts_with("rescind-");
        must(id == name(call) || is_ours, "a task of another call")?;
        must(self.is_task(handle, call), "no handle of this era")?;
        self.calls[call].task = Some(id.to_owned());
        Ok(())
    }

    fn looked(&mut self, call: usize, seen: Option<&Value>, code: Option<i64>) -> Judged {
        let Some(seen) = seen else {
            return must(self.is_unknown(call) && code == Some(-32602), "a task cannot be seen");
        };
        must(self.is_task(seen, call), "no task of this era")?;
        let status = seen["status"].as_str().unwrap_or_default();
        let outcome = (seen.get("result").is_some(), seen.get("error").is_some());
        if self.scene.client_has_session {
            let is_bare = outcome == (false, false) && seen.get("inputRequests").is_none();
            must(is_bare, "more is seen than there is to see")?;
        } else {
            match status {
                "completed" if outcome == (true, false) && seen["result"]["resultType"] == "complete" => {}
                "failed" if outcome == (false, true) => {}
                "input_required" if seen["inputRequests"]["1"]["params"]["message"] == call => {
                    self.calls[call].asked = Some(Asked::Seen);
                }
                "working" | "cancelled" if outcome == (false, false) => {}
                _ => return Err("a task is seen as none can be"),
            }
        }
        self.is_true(call, status)
    }

    /// Whether this may be said of the task.
    fn is_true(&self, call: usize, status: &str) -> Judged {
        let stays = !self.stays_cancelled(call) || status == "cancelled";
        must(stays, "a cancelled task does not stay so (TASK-04)")?;
        let is_modern = !self.scene.client_has_session;
        let is_so = match (status, &self.tasks[call]) {
            ("working", Some(_)) => true,
            ("input_required", Some(_)) => self.has_wanted,
            ("cancelled", Some(_)) => self.calls[call].cancels > 0,
            (_, Some(task)) => task.status.has_ended() && task.status.as_str(is_modern) == status,
            (_, None) => status == "completed",
        };
        must(is_so, "that is not so")
    }

    /// A client with a session was told that this task is cancelled, not long ago.
    fn stays_cancelled(&self, call: usize) -> bool {
        self.since[call].told_cancelled.is_some_and(|at| self.stage.now.since(at) < REMEMBERED)
    }

    /// The task is known to nobody any more.
    fn is_unknown(&self, call: usize) -> bool {
        self.since[call].kept.is_some_and(|at| self.stage.now.since(at) >= KEPT)
    }

    fn has_ended(&self, call: usize) -> bool {
        self.tasks[call].as_ref().is_none_or(|task| task.status.has_ended())
    }

    fn cancel_answered(&mut self, call: usize, result: Option<&Value>, code: Option<i64>) -> Judged {
        if !self.scene.client_has_session {
            // TASK-21, TASK-22.
            let is_heard = result == Some(&json!({"resultType": "complete"}));
            return must(is_heard, "a cancel is not acknowledged");
        }
        let Some(result) = result else {
            // The first cancel may have been heard, and its answer not wanted any more.
            let is_late = self.has_ended(call) || self.stays_cancelled(call) || self.calls[call].cancels > 1;
            return must(code == Some(-32602) && is_late, "a cancel is refused (TASK-03)");
        };
        must(!self.stays_cancelled(call), "a task is cancelled that was cancelled (TASK-02)")?;
        let is_task = self.is_task(result, call) && result["status"] == "cancelled";
        must(is_task, "a cancel is not answered with the task (TASK-03)")?;
        self.since[call].told_cancelled = Some(self.stage.now);
        self.is_true(call, "cancelled")
    }

    fn result_came(&mut self, call: usize, result: Option<&Value>, code: Option<i64>) -> Judged {
        self.calls[call].asked = None;
        let status = self.tasks[call].as_ref().map_or(Status::Completed, |task| task.status);
        let Some(result) = result else {
            return match code {
                Some(-32800) if self.calls[call].cancels > 0 => Ok(()),
                Some(-32000) if status == Status::Failed && !self.stays_cancelled(call) => Ok(()),
                Some(-32603) if self.has_wanted => Ok(()),
                Some(-32602) if self.is_unknown(call) => Ok(()),
                _ => Err("a result is an error that nobody made"),
            };
        };
        must(!self.stays_cancelled(call), "a cancelled task has a result")?;
        let is_its = self.calls[call].task.as_ref().is_some_and(|task| result["_meta"][RELATED]["taskId"] == **task);
        must(is_its, "a result does not say whose it is (TASK-10)")?;
        let is_error = result["isError"] == true;
        let is_so = match status {
            Status::Completed => !is_error,
            Status::ToolError => is_error,
            Status::Working | Status::Wants | Status::Failed | Status::Cancelled => false,
        };
        must(is_so, "that is not its result")
    }

    fn client_is_asked(&mut self, method: &str, frame: &Value) -> Judged {
        let id = frame["id"].as_i64();
        if method == "notifications/cancelled" {
            let named = frame["params"]["requestId"].as_i64();
            let is_it = |call: &&mut Call| matches!(call.asked, Some(Asked::Question(id)) if Some(id) == named);
            // It may have been answered meanwhile.
            self.calls.iter_mut().filter(is_it).for_each(|call| call.asked = None);
            return Ok(());
        }
        let (Some(id), "elicitation/create") = (id, method) else { return Err("the client is told what nobody said") };
        let about = frame["params"]["message"].as_u64().and_then(|call| usize::try_from(call).ok());
        let at = about.filter(|at| *at < self.calls.len()).ok_or("a question of no call")?;
        let is_related = frame["params"]["_meta"][RELATED]["taskId"] == name(at);
        let what = if self.calls[at].task.is_some() { What::About(About::Result, at) } else { What::Call(at) };
        must(is_related == self.calls[at].task.is_some(), "a question does not say whose it is (TASK-10)")?;
        let waits = |request: &Request| request.what == what && request.answers == 0;
        must(self.requests.iter().any(waits), "a question for which nobody waits")?;
        must(self.calls[at].asked.replace(Asked::Question(id)).is_none(), "the client is asked twice")
    }

    fn server_reads(&mut self, frame: &Value) -> Judged {
        let params = &frame["params"];
        let Some(method) = frame["method"].as_str() else { return self.server_is_told(frame) };
        match method {
            "notifications/initialized" if !self.server_is_modern() => return Ok(()),
            "notifications/cancelled" => return self.is_cancelled(&params["requestId"]),
            _ => {}
        }
        let id = frame["id"].clone();
        must(!id.is_null() && !self.seen.contains(&id), "no id, or one that is used again (MCP-I02)")?;
        self.seen.push(id.clone());
        let is_modern = params["_meta"].get(META).is_some();
        let task =
            || self.tasks.iter().enumerate().position(|(call, task)| task.is_some() && params["taskId"] == name(call));
        let duty = match method {
            "initialize" => Duty::Initialize,
            "server/discover" => Duty::Discover,
            _ if is_modern != self.server_is_modern() => return Err("a request of another era"),
            "tools/list" => Duty::List,
            "tools/call" => {
                let call = params["call"].as_u64().and_then(|call| usize::try_from(call).ok());
                let call = call.filter(|call| *call < self.calls.len()).ok_or("a call of nobody")?;
                self.handed.push(call);
                self.may_be_called(call, params)?;
                Duty::Call(call)
            }
            "tasks/get" => Duty::About(About::Look, task()),
            "tasks/cancel" => Duty::About(About::Cancel, task()),
            "tasks/result" if !is_modern => Duty::About(About::Result, task()),
            "tasks/update" if is_modern => Duty::About(About::Update, task()),
            _ => return Err("a method of another era"),
        };
        if let Duty::About(about, call) = duty {
            must(!is_modern || declares_tasks(params), "a client of tasks does not say so (TASK-24)")?;
            self.is_asked(about, call, params)?;
        }
        self.work.push(Work { id, duty, is_cancelled: false, question: None });
        if let Duty::About(About::Result, Some(call)) = duty {
            self.ask_for_task(call);
        }
        Ok(())
    }

    fn may_be_called(&self, call: usize, params: &Value) -> Judged {
        let is_modern = self.server_is_modern();
        must(!self.is_at_server(call), "a call for the second time")?;
        let is_asked_for = params.get("task").is_some() != is_modern && declares_tasks(params) == is_modern;
        must(is_asked_for, "a task is asked for as in another era (TASK-27)")?;
        let mut requests = self.requests.iter().filter(|request| request.what == What::Call(call));
        let is_wanted = requests.any(|request| !request.is_cancelled || request.reached);
        must(is_wanted, "a request that was withdrawn")
    }

    fn is_at_server(&self, call: usize) -> bool {
        self.work.iter().any(|work| work.duty == Duty::Call(call)) || self.tasks[call].is_some()
    }

    /// The server is asked about a task.
    fn is_asked(&mut self, about: About, call: Option<usize>, params: &Value) -> Judged {
        let Some(call) = call else {
            return must(self.since.iter().any(|since| since.kept.is_some()), "a task of nobody");
        };
        let Some(task) = &mut self.tasks[call] else { return Ok(()) };
        match about {
            About::Cancel => {
                self.cancels_handed += 1;
                task.told += 1;
                must(task.told <= self.calls[call].cancels, "a task is cancelled that nobody cancelled")?;
            }
            About::Update => {
                let answer = params["inputResponses"]["1"]["content"]["for"].as_u64();
                must(answer.is_none_or(|of| of == call as u64), "an answer for another task")?;
                task.go_on();
            }
            About::Look | About::Result => {}
        }
        Ok(())
    }

    /// A cancel of what the server has.
    fn is_cancelled(&mut self, named: &Value) -> Judged {
        self.cancels_handed += 1;
        let Some(work) = self.work.iter_mut().find(|work| work.id == *named) else {
            // It may have been answered meanwhile.
            return must(self.seen.contains(named), "a cancel of nothing");
        };
        must(!std::mem::replace(&mut work.is_cancelled, true), "a second cancel")?;
        match work.duty {
            Duty::Call(_) => Err("a task is cancelled by a notification (MCP-C13)"),
            Duty::About(about, Some(call)) => {
                let is_about = |what: What| matches!(what, What::About(_, of) if of == call);
                let is_its = |request: &Request| request.is_cancelled && is_about(request.what);
                // What it wants to know we have fetched ourselves.
                let is_ours = about == About::Result && self.has_wanted && !self.server_is_modern();
                must(is_ours || self.requests.iter().any(is_its), "a cancel of another's request")
            }
            Duty::About(_, None) if self.requests.iter().any(|request| request.is_cancelled) => Ok(()),
            Duty::About(_, None) | Duty::Initialize | Duty::Discover | Duty::List => {
                Err("a cancel of nobody's request")
            }
        }
    }

    /// The server hears what it wanted to know, or that it does not.
    fn server_is_told(&mut self, frame: &Value) -> Judged {
        let has_asked = !self.server_is_modern() && self.has_wanted && frame["id"].as_i64() == Some(QUESTION);
        must(has_asked, "the server is answered what it never asked")?;
        let answer = frame["result"]["content"]["for"].as_u64();
        must(answer.is_some() || frame.get("error").is_some(), "an answer that nobody gave")?;
        let is_for = |call: usize| answer.is_none_or(|of| of == call as u64);
        for work in self.work.iter_mut().filter(|work| work.question.is_some()) {
            let Duty::Call(call) = work.duty else { continue };
            work.question = None;
            must(is_for(call), "an answer for another call")?;
        }
        for (call, task) in self.tasks.iter_mut().enumerate() {
            let Some(task) = task.as_mut().filter(|task| task.question.is_some()) else { continue };
            task.question = None;
            task.go_on();
            must(is_for(call), "an answer for another task")?;
        }
        Ok(())
    }

    /// The task asks while its result is waited for, as 2025-11-25 has it.
    fn ask_for_task(&mut self, call: usize) {
        let is_fetched =
            self.work.iter().any(|work| work.duty == Duty::About(About::Result, Some(call)) && !work.is_cancelled);
        let Some(task) = self.tasks[call].as_mut() else { return };
        if self.scene.client_has_session || !is_fetched || task.status != Status::Wants || task.question.is_some() {
            return;
        }
        task.question = Some(QUESTION);
        let params = json!({"message": call, "_meta": {RELATED: {"taskId": name(call)}}});
        self.say(Side::Server, &eras::question(QUESTION, params));
    }

    /// The call wants to know something before it is answered.
    fn want(&mut self, at: usize) {
        self.has_wanted = true;
        let Duty::Call(call) = self.work[at].duty else { return };
        self.calls[call].was_asked = true;
        if self.server_is_modern() {
            let Work { id, .. } = self.work.remove(at);
            return self.say(Side::Server, &eras::result(id, eras::input_required(wanted(call))));
        }
        self.work[at].question = Some(QUESTION);
        self.say(Side::Server, &eras::question(QUESTION, json!({"message": call})));
    }

    fn give(&mut self, call: usize, gives: bool) {
        let given = eras::given(call);
        match self.calls[call].asked.take() {
            Some(Asked::Question(id)) if gives => self.say(Side::Client, &eras::result(id, given)),
            Some(Asked::Question(id)) => self.say(Side::Client, &eras::error(id, -1, "no")),
            Some(Asked::Result(state)) => {
                self.call(call, &json!({"inputResponses": {"1": given}, "requestState": state}));
            }
            Some(Asked::Seen) => {
                let params = json!({"taskId": name(call), "inputResponses": {"1": given}});
                self.request(What::About(About::Update, call), "tasks/update", params);
            }
            None => {}
        }
    }

    /// The server answers: a call at once, all else as the task is.
    fn answer(&mut self, at: usize) {
        let Work { id, duty, .. } = self.work.remove(at);
        let is_modern = self.server_is_modern();
        let answer = match duty {
            Duty::Initialize if is_modern => Err((-32022, "no such revision")),
            Duty::Initialize => {
                let tasks = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
                Ok(eras::opened("2025-11-25", json!({"tools": {}, "tasks": tasks})))
            }
            Duty::Discover if !is_modern => Err((-32601, "no such method")),
            Duty::Discover => Ok(eras::discovered(json!({"tools": {}, "extensions": {TASKS: {}}}))),
            Duty::List => Ok(json!({"tools": [{"name": "slow", "execution": {"taskSupport": "optional"}}]})),
            Duty::Call(call) => {
                self.since[call].kept = Some(self.stage.now).filter(|_| is_modern);
                Ok(eras::called(is_modern))
            }
            Duty::About(about, call) => {
                let task = call.and_then(|call| Some((call, self.tasks[call].as_mut()?)));
                match (about, task) {
                    (_, None) => Err((-32602, "no such task")),
                    (About::Update, Some(_)) => Ok(json!({"resultType": "complete"})),
                    (About::Cancel, Some((_, task))) if !is_modern && task.status.has_ended() => {
                        Err((-32602, "it has ended"))
                    }
                    (About::Cancel, Some((call, task))) => {
                        if !task.status.has_ended() {
                            (task.status, task.question) = (Status::Cancelled, None);
                        }
                        Ok(if is_modern { json!({"resultType": "complete"}) } else { task.seen(call, false) })
                    }
                    (About::Look, Some((call, task))) => Ok(task.seen(call, is_modern)),
                    (About::Result, Some((call, task))) => task.outcome(false).map(|mut result| {
                        result["_meta"] = json!({RELATED: {"taskId": name(call)}});
                        result
                    }),
                }
            }
        };
        let answer = match answer {
            Ok(result) => eras::result(id, result),
            Err((code, words)) => eras::error(id, code, words),
        };
        self.say(Side::Server, &answer);
    }

    /// The server makes a task of a call.
    fn make(&mut self, at: usize) {
        let Work { id, duty, .. } = self.work.remove(at);
        let Duty::Call(call) = duty else { return };
        let late = self.since[call].cancelled.is_some_and(|at| self.stage.now.since(at) >= KEPT);
        let task = Task { status: Status::Working, told: 0, question: None, is_forgotten: late };
        let mut handle = task.seen(call, self.server_is_modern());
        if self.server_is_modern() {
            handle["resultType"] = json!("task");
        } else {
            handle = json!({"task": handle});
        }
        self.tasks[call] = Some(task);
        self.say(Side::Server, &eras::result(id, handle));
    }

    fn watch(&mut self) -> Result<(), Broken> {
        for (request, id, receipt) in self.stage.receipts() {
            self.judge(request, &id, &receipt)?;
        }
        Ok(())
    }

    /// Judges a receipt by what the server was handed.
    fn judge(&mut self, request: RequestKey, id: &RequestId, receipt: &Receipt) -> Result<(), Broken> {
        if claims_sent(receipt) && !self.said_sent.contains(&request) {
            self.said_sent.push(request);
        }
        never(self.said_sent.len() > self.cancels_handed, || {
            format!("the server was handed no such cancel: {id} {receipt:?}")
        })?;
        let named =
            self.requests.iter().rfind(|request| id.as_integer() == Some(request.id)).map(|request| request.what);
        let is_first = |what| self.requests.iter().filter(|request| request.what == what).count() == 1;
        if let (Some(what @ What::Call(call)), Outcome::NeverSent) = (named, receipt.outcome)
            && is_first(what)
            && self.handed.contains(&call)
        {
            return broken(format!("the server has it: {id} {receipt:?}"));
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::Call => {
                self.calls.push(Call::default());
                self.since.push(Since::default());
                self.tasks.push(None);
                self.call(self.calls.len() - 1, &json!({}));
            }
            Action::Ask(about, call) => {
                let call = usize::from(call);
                if about == About::Cancel {
                    self.calls[call].cancels += 1;
                }
                let task = self.calls[call].task.clone();
                self.request(What::About(about, call), about.method(), json!({"taskId": task}));
            }
            Action::Cancel(at) => self.cancel(usize::from(at)),
            Action::Give(call) => self.give(usize::from(call), true),
            Action::Deny(call) => self.give(usize::from(call), false),
            Action::Write(to, cut) => self.write(to, cut)?,
            Action::Answer(at) => self.answer(usize::from(at)),
            Action::Make(at) => self.make(usize::from(at)),
            Action::Refuse(at) => {
                let Work { id, .. } = self.work.remove(usize::from(at));
                self.say(Side::Server, &eras::error(id, -32000, "no"));
            }
            Action::Acknowledge(at) => {
                let Work { id, .. } = self.work.remove(usize::from(at));
                self.say(Side::Server, &eras::result(id, json!({"resultType": "complete"})));
            }
            Action::Want(at) => self.want(usize::from(at)),
            Action::TaskWants(call) => {
                self.has_wanted = true;
                if let Some(task) = &mut self.tasks[usize::from(call)] {
                    task.status = Status::Wants;
                }
                self.ask_for_task(usize::from(call));
            }
            Action::End(call, status) => {
                if let Some(task) = &mut self.tasks[usize::from(call)] {
                    (task.status, task.question) = (status, None);
                }
            }
            Action::Timeout => {
                if let Some(due) = self.stage.relay.poll_timeout() {
                    let then = due.max(self.stage.now);
                    // Who does not call again in time has left.
                    for (call, since) in self.calls.iter_mut().zip(&mut self.since) {
                        if call.was_asked && call.task.is_none() {
                            call.cancels = call.cancels.max(1);
                            since.cancelled.get_or_insert(then);
                        }
                    }
                }
                self.stage.pass();
            }
            Action::Deafen => {
                self.is_deaf = true;
                self.stage.relay.handle_write_closed(self.stage.now, Side::Server);
                self.stage.clear(Side::Server);
            }
            Action::Die => {
                (self.is_deaf, self.is_dead) = (true, true);
                self.work.clear();
                self.stage.lose_server();
            }
        }
        self.watch()
    }

    fn cancel(&mut self, at: usize) {
        let Request { id, what, .. } = self.requests[at];
        // An answer that has begun to leave still comes. A client with a session may not cancel a call for a task so
        // (MCP-C13): nobody heeds it.
        let answer = format!("\"id\":{id},");
        let is_coming = self.stage.begun(Side::Client).is_some_and(|frame| frame.contains(&answer));
        let is_forbidden = self.scene.client_has_session && matches!(what, What::Call(_));
        if !is_coming && !is_forbidden {
            if let What::Call(call) = what {
                let named = format!("\"call\":{call}");
                let is_leaving = self.stage.begun(Side::Server).is_some_and(|frame| frame.contains(&named));
                self.requests[at].reached = self.is_at_server(call) || is_leaving;
                self.calls[call].cancels += 1;
                self.since[call].cancelled.get_or_insert(self.stage.now);
            }
            self.requests[at].is_cancelled = true;
        } else if let (What::Call(call), false) = (what, self.scene.client_has_session) {
            // If it asks something, nobody calls again.
            (self.calls[call].is_left, self.calls[call].cancels) = (true, 1);
            self.since[call].cancelled.get_or_insert(self.stage.now);
        }
        self.say(Side::Client, &eras::cancel(id));
    }

    /// What must be in the end is.
    fn check_settled(&mut self) -> Result<(), Broken> {
        none(self.requests.iter().find(|request| !request.is_cancelled && request.answers != 1), |request| {
            format!("{request:?} waits for ever")
        })?;
        none(self.work.iter().find(|work| !work.is_cancelled), |work| format!("{work:?} goes on"))?;
        for (at, task) in self.tasks.iter().enumerate().filter(|_| !self.is_deaf) {
            let Some(task) = task else { continue };
            let is_cancelled =
                |request: &Request| !request.is_cancelled && request.what == What::About(About::Cancel, at);
            let is_known = self.calls[at].task.is_some();
            let must_hear = !is_known && !task.is_forgotten || self.requests.iter().any(is_cancelled);
            never(must_hear && task.told == 0, || format!("the task of call {at} was never cancelled: {task:?}"))?;
        }
        self.stage.check_empty()
    }

    /// What comes by itself does: messages arrive, the person and the server answer, tasks and time pass. Whether anything
    /// moved.
    fn go_on(&mut self) -> Result<bool, Broken> {
        let mut moved = false;
        for side in Side::BOTH {
            while !self.stage.relay.pending(side).is_empty() {
                self.act(Action::Write(side, Cut::All))?;
                moved = true;
            }
        }
        // What waits for the person waits until he has answered; who was told by a result may never call again.
        let is_asked = |call: &Call| matches!(call.asked, Some(Asked::Question(_)));
        if let Some(at) = self.calls.iter().position(is_asked) {
            self.act(Action::Give(u8::try_from(at).unwrap_or_default()))?;
            moved = true;
        }
        if moved {
            return Ok(true);
        }
        let is_free = |work: &Work| {
            let may_end = match work.duty {
                Duty::About(About::Result, Some(call)) => self.has_ended(call),
                Duty::Call(_) => work.question.is_none(),
                Duty::About(..) | Duty::Initialize | Duty::Discover | Duty::List => true,
            };
            !work.is_cancelled && may_end
        };
        let goes_on = |task: &Option<Task>| task.as_ref().is_some_and(|task| !task.status.has_ended());
        let action = if let Some(at) = self.work.iter().position(is_free) {
            let is_call = matches!(self.work[at].duty, Duty::Call(_));
            let at = u8::try_from(at).unwrap_or_default();
            if is_call { Action::Make(at) } else { Action::Answer(at) }
        } else if let Some(at) = self.tasks.iter().position(goes_on).filter(|_| !self.is_dead) {
            Action::End(u8::try_from(at).unwrap_or_default(), Status::Completed)
        } else if self.stage.relay.poll_timeout().is_some() {
            Action::Timeout
        } else if self.is_deaf && !self.is_dead {
            Action::Die
        } else {
            return Ok(false);
        };
        self.act(action)?;
        Ok(true)
    }
}

impl Task {
    /// What the server shows of it.
    fn seen(&self, call: usize, is_modern: bool) -> Value {
        let mut seen = json!({
            "taskId": name(call), "status": self.status.as_str(is_modern), "createdAt": "then", "lastUpdatedAt": "now",
        });
        if !is_modern {
            seen["ttl"] = json!(60000);
            return seen;
        }
        (seen["resultType"], seen["ttlMs"]) = (json!("complete"), json!(60000));
        match self.status {
            Status::Working | Status::Cancelled => {}
            Status::Wants => seen["inputRequests"] = wanted(call),
            Status::Completed | Status::ToolError | Status::Failed => match self.outcome(true) {
                Ok(result) => seen["result"] = result,
                Err((code, words)) => seen["error"] = json!({"code": code, "message": words}),
            },
        }
        seen
    }

    /// It wants to know nothing more.
    fn go_on(&mut self) {
        if self.status == Status::Wants {
            self.status = Status::Working;
        }
    }

    fn outcome(&self, is_modern: bool) -> Result<Value, (i32, &'static str)> {
        let mut result = json!({"content": []});
        if is_modern {
            result["resultType"] = json!("complete");
        }
        match self.status {
            Status::Failed => Err((-32000, "failed")),
            Status::Cancelled => Err((-32800, "cancelled")),
            Status::ToolError => {
                result["isError"] = json!(true);
                Ok(result)
            }
            Status::Working | Status::Wants | Status::Completed => Ok(result),
        }
    }
}

/// Whether a request says that its client knows the extension.
fn declares_tasks(params: &Value) -> bool {
    params["_meta"][CAPABILITIES]["extensions"].get(TASKS).is_some()
}

/// The task of a call.
fn name(call: usize) -> String {
    format!("t{call}")
}

/// What a server without sessions wants to know for a call.
fn wanted(call: usize) -> Value {
    json!({"1": {"method": "elicitation/create", "params": {"message": call}}})
}

impl World for TaskWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        if self.calls.len() < if self.scene.is_made { 1 } else { MOST_CALLS } {
            out.push(Action::Call);
        }
        let is_about = |request: &&Request| matches!(request.what, What::About(..));
        let may_ask = self.requests.iter().filter(is_about).count() < MOST_ABOUT;
        for (at, call) in (0_u8..).zip(&self.calls) {
            if call.task.is_some() && may_ask {
                out.extend([Action::Ask(About::Look, at), Action::Ask(About::Cancel, at)]);
                if self.scene.client_has_session {
                    out.push(Action::Ask(About::Result, at));
                }
            }
            match call.asked {
                Some(Asked::Question(_)) => out.extend([Action::Give(at), Action::Deny(at)]),
                Some(Asked::Result(_) | Asked::Seen) => out.push(Action::Give(at)),
                None => {}
            }
        }
        for (at, request) in (0_u8..).zip(&self.requests) {
            if request.answers == 0 && !request.is_cancelled {
                out.push(Action::Cancel(at));
            }
        }
        for side in Side::BOTH {
            if !self.stage.relay.pending(side).is_empty() {
                out.extend([Cut::Frame, Cut::Half].map(|cut| Action::Write(side, cut)));
            }
        }
        let may_want = self.scene.asks && !self.has_wanted;
        for (at, work) in (0_u8..).zip(&self.work) {
            match work.duty {
                Duty::Call(call) => {
                    out.extend([Action::Make(at), Action::Answer(at), Action::Refuse(at)]);
                    // Of a call that was cancelled so long ago nobody knows any more that the server was not told.
                    let is_late = self.since[call].cancelled.is_some_and(|at| self.stage.now.since(at) >= KEPT);
                    if may_want && !is_late {
                        out.push(Action::Want(at));
                    }
                }
                Duty::About(about, call) => {
                    let has_ended = call.is_none_or(|call| self.has_ended(call));
                    if about != About::Result || has_ended {
                        out.push(Action::Answer(at));
                    }
                    if about == About::Cancel && self.server_is_modern() && !has_ended {
                        out.push(Action::Acknowledge(at));
                    }
                }
                Duty::Initialize | Duty::Discover | Duty::List => {}
            }
        }
        for (at, task) in (0_u8..).zip(&self.tasks) {
            let Some(task) = task.as_ref().filter(|task| !task.status.has_ended() && !self.is_dead) else { continue };
            out.extend(ENDS.map(|end| Action::End(at, end)));
            if may_want && task.status == Status::Working {
                out.push(Action::TaskWants(at));
            }
        }
        if self.stage.relay.poll_timeout().is_some() {
            out.push(Action::Timeout);
        }
        if !self.is_deaf {
            out.push(Action::Deafen);
        }
        if !self.is_dead {
            out.push(Action::Die);
        }
    }

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::Deafen | Action::Die | Action::Timeout)
    }

    fn step(&mut self, action: Action) -> Result<(), Broken> {
        self.act(action)
    }

    /// Everything that is not cancelled is answered once, every task that was cancelled or that nobody knows of has heard
    /// it, and nothing is left.
    fn check_future(&self) -> Result<(), Broken> {
        let mut world = self.clone();
        to_rest(|| world.go_on())?;
        world.check_settled()
    }

    fn digest(&self) -> u128 {
        let mut digest = Digest::new();
        self.stage.hash_state(&mut digest);
        for Since { cancelled, told_cancelled, kept } in &self.since {
            let since = |at: &Option<Instant>, most: Duration| at.map(|at| self.stage.now.since(at).min(most));
            (since(cancelled, KEPT), since(told_cancelled, REMEMBERED), since(kept, KEPT)).hash(&mut digest);
        }
        (&self.requests, &self.calls, &self.work, &self.tasks).hash(&mut digest);
        (self.has_wanted, self.is_deaf, self.is_dead).hash(&mut digest);
        (&self.handed, self.cancels_handed, self.said_sent.len()).hash(&mut digest);
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.stage.transcript
    }
}
