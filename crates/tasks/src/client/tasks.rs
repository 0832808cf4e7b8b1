//! The tasks of a server, as a client makes and follows them.

use std::{collections::BTreeMap, time::Duration};

use rescind::{
    mcp::{Client, REVISION_2025_11_25, REVISION_2026_07_28, Revision, ToolInfo, ToolResult},
    peer::{Call, CallError, Dialect, Peer},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json, value::RawValue};

use super::{TaskCall, TaskState, TaskWatch, call::Draft, course::Errand};
use crate::TaskId;

const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How tasks are made and followed on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Asked for in the params; the result is a request of its own.
    November2025,
    /// The server decides; `tasks/get` shows the result.
    Extension,
}

impl Form {
    fn of(dialect: &Dialect) -> Option<Self> {
        dialect.tasks.map(|form| if form.asked { Self::November2025 } else { Self::Extension })
    }

    /// The task whose handle this answer is, if it is one.
    pub(super) fn handle(self, answer: &RawValue) -> Result<Option<TaskState>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Created {
            task: TaskState,
        }
        let (dialect, text) = match self {
            Self::November2025 => (&REVISION_2025_11_25, answer.get()),
            Self::Extension => (&REVISION_2026_07_28, answer.get()),
        };
        if dialect.tasks.and_then(|form| form.handle(text.as_bytes())).is_none() {
            return Ok(None);
        }
        match self {
            Self::November2025 => serde_json::from_str(text).map(|Created { task }| Some(task)),
            Self::Extension => serde_json::from_str(text).map(Some),
        }
    }
}

/// The tasks of the server behind a connection. Clones are the same.
///
/// Which dialect is spoken, and whether the server takes tasks at all, is what the connection knows at the time of
/// each call; so [open](Client::open) the session first.
#[derive(Clone, Debug)]
pub struct TaskClient {
    pub(super) peer: Peer,
    client: Option<Client>,
    pub(super) watch: TaskWatch,
}

/// A page of a server's tasks.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<TaskState>,
    /// Where the next page begins; `None` if this was the last. Opaque.
    pub next_cursor: Option<String>,
}

impl TaskClient {
    /// The tasks of this client's server.
    #[must_use]
    pub fn of(client: &Client) -> Self {
        Self { peer: client.peer().clone(), client: Some(client.clone()), watch: TaskWatch::new() }
    }

    /// The tasks of the other side of a connection: of a client too, in 2025-11-25, if it runs what servers ask.
    #[must_use]
    pub fn of_peer(peer: &Peer) -> Self {
        Self { peer: peer.clone(), client: None, watch: TaskWatch::new() }
    }

    /// Asks for news of a task as soon as the server tells that there is some; see [`TaskWatch::listen`].
    #[must_use]
    pub fn watching(mut self, watch: &TaskWatch) -> Self {
        self.watch = watch.clone();
        self
    }

    /// A request that becomes a task, if the server makes it one; see [`TaskCall`]. `params` are written as JSON now;
    /// `&()` is none.
    ///
    /// In 2025-11-25 it asks for a task where the server declared to run such requests as tasks, and is an ordinary
    /// request otherwise (TASK-11). With the extension it declares that a handle is understood, and the server chooses
    /// (TASK-20).
    pub fn request<R: DeserializeOwned>(&self, method: &str, params: &(impl Serialize + ?Sized)) -> TaskCall<R> {
        let form = match Form::of(self.peer.dialect()) {
            Some(Form::November2025) if !self.peer.declares_task(&format!("requests/{method}")) => None,
            form => form,
        };
        self.draft(method, params, form)
    }

    /// Calls a tool as a task, if the server takes tool calls as tasks. `&()` is no arguments.
    ///
    /// In 2025-11-25 a tool that does not support tasks refuses that: [`tool`](Self::tool) knows.
    pub fn call_tool(&self, name: &str, arguments: &(impl Serialize + ?Sized)) -> TaskCall<ToolResult> {
        self.request("tools/call", &named(name, arguments))
    }

    /// Calls a listed tool: as a task where both the server and the tool support that (TASK-11).
    pub fn tool(&self, tool: &ToolInfo, arguments: &(impl Serialize + ?Sized)) -> TaskCall<ToolResult> {
        let support = tool.other.get("execution").and_then(|execution| execution["taskSupport"].as_str());
        let forbidden = !matches!(support, Some("optional" | "required"));
        if forbidden && Form::of(self.peer.dialect()) == Some(Form::November2025) {
            return self.draft("tools/call", &named(&tool.name, arguments), None);
        }
        self.call_tool(&tool.name, arguments)
    }

    /// Follows a task by its id to its end: one that another connection made, or an earlier run of this program.
    ///
    /// Like any [`TaskCall`], dropping it cancels the task unless it is [detached](TaskCall::detach).
    pub fn follow<R: DeserializeOwned>(&self, task: &TaskId) -> TaskCall<R> {
        let form = Form::of(self.peer.dialect());
        TaskCall::new(Draft::new(self.clone(), Errand::Follow(task.clone()), form))
    }

    /// What the server shows of a task now.
    ///
    /// # Errors
    ///
    /// The call failed: -32602 for a task that the server does not know (TASK-07).
    pub async fn get(&self, task: &TaskId) -> Result<TaskState, CallError> {
        self.about(task, "tasks/get").await
    }

    /// A page of the server's tasks, after the `cursor` that an earlier page gave (2025-11-25; the extension has no
    /// list: TASK-20).
    ///
    /// # Errors
    ///
    /// The call failed: -32602 for a bad cursor (TASK-07), -32601 for a server without lists.
    pub async fn list(&self, cursor: Option<&str>) -> Result<TaskPage, CallError> {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        self.peer.request("tasks/list", &self.named(params)).await
    }

    /// A request about a task, which is named in its params and nowhere else (TASK-10).
    pub(super) fn about<R>(&self, task: &TaskId, method: &'static str) -> Call<R> {
        self.peer.request(method, &self.named(json!({ "taskId": task.as_str() })))
    }

    /// Params with what every request of the dialect says of its sender: in the extension, that it understands tasks
    /// (TASK-24).
    pub(super) fn named(&self, mut params: Value) -> Value {
        if Form::of(self.peer.dialect()) == Some(Form::Extension) {
            params["_meta"] = self.meta();
        }
        params
    }

    fn meta(&self) -> Value {
        let mut meta = match &self.client {
            Some(client) => client.named(json!({}))["_meta"].take(),
            None => Value::Null,
        };
        if meta.is_null() {
            let version = rescind::peer::dialect::mcp::VERSION_IN_META;
            meta = json!({ version: Revision::V2026_07_28.date(), CLIENT_CAPABILITIES: {} });
        }
        meta[CLIENT_CAPABILITIES]["extensions"][EXTENSION] = json!({});
        meta
    }

    fn draft<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
        form: Option<Form>,
    ) -> TaskCall<R> {
        let params = self.params(params).map_err(super::TaskCallError::Params);
        let errand = params.map(|params| Errand::Request { method: method.to_owned(), params, on_progress: None });
        match errand {
            Ok(errand) => TaskCall::new(Draft::new(self.clone(), errand, form)),
            Err(error) => TaskCall::failed(error),
        }
    }

    /// The caller's params, and the sender's `_meta` beside the caller's own.
    fn params(&self, params: &(impl Serialize + ?Sized)) -> Result<Box<RawValue>, serde_json::Error> {
        let text = serde_json::to_string(params)?;
        if Form::of(self.peer.dialect()) != Some(Form::Extension) {
            return RawValue::from_string(if text == "null" { "{}".to_owned() } else { text });
        }
        // Raw values, so that what is not ours goes as it came.
        let mut members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str::<Option<_>>(&text)?.unwrap_or_default();
        let mut meta = self.meta();
        if let (Some(own), Some(meta)) = (members.get("_meta"), meta.as_object_mut()) {
            meta.extend(serde_json::from_str::<Map<String, Value>>(own.get())?);
        }
        members.insert("_meta".to_owned(), serde_json::value::to_raw_value(&meta)?);
        serde_json::value::to_raw_value(&members)
    }
}

/// Params that ask for a task (2025-11-25), to be kept for so long at least.
pub(super) fn asking(params: &RawValue, ttl: Option<Duration>) -> Result<Box<RawValue>, serde_json::Error> {
    let mut members: BTreeMap<&str, &RawValue> = serde_json::from_str(params.get())?;
    let task = match ttl {
        Some(ttl) => format!(r#"{{"ttl":{}}}"#, ttl.as_millis()),
        None => "{}".to_owned(),
    };
    let task = RawValue::from_string(task)?;
    members.insert("task", &task);
    serde_json::value::to_raw_value(&members)
}

fn named(name: &str, arguments: &(impl Serialize + ?Sized)) -> Value {
    match serde_json::to_value(arguments) {
        Ok(Value::Null) => json!({ "name": name }),
        Ok(arguments) => json!({ "name": name, "arguments": arguments }),
        // Not an object, so that the call fails for what it is.
        Err(error) => Value::String(error.to_string()),
    }
}
