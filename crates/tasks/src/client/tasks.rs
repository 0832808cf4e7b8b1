//! The tasks of a server, as a client makes and follows them.

use std::collections::BTreeMap;

use rescind::{
    mcp::{Client, ToolInfo, ToolResult},
    peer::{Call, CallError, Peer},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json, value::RawValue};

use super::{TaskCall, TaskNotifications, TaskState, call::Draft, flow::Start};
use crate::{
    TaskDialect, TaskId,
    dialect::{CLIENT_CAPABILITIES, EXTENSION},
};

impl TaskDialect {
    /// Returns the task, if this answer is the handle of one.
    pub(super) fn handle(self, answer: &RawValue) -> Result<Option<TaskState>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Created {
            task: TaskState,
        }
        let text = answer.get();
        if self.newest().tasks.and_then(|form| form.handle(text.as_bytes())).is_none() {
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
/// The dialect, and whether the server supports tasks, are what the connection knows at the time of each call, so
/// [open](Client::open) the session first.
#[derive(Clone, Debug)]
pub struct TaskClient {
    pub(super) peer: Peer,
    client: Option<Client>,
    pub(super) notifications: TaskNotifications,
}

/// A page of a server's tasks.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<TaskState>,
    /// The cursor of the next page; `None` if this was the last. Opaque.
    pub next_cursor: Option<String>,
}

impl TaskClient {
    /// Creates a client for the tasks of this client's server.
    #[must_use]
    pub fn of(client: &Client) -> Self {
        Self { peer: client.peer().clone(), client: Some(client.clone()), notifications: TaskNotifications::new() }
    }

    /// Creates a client for the tasks of a connection's other side. In 2025-11-25 that may be an MCP client, which runs
    /// requests of its server as tasks.
    #[must_use]
    pub fn of_peer(peer: &Peer) -> Self {
        Self { peer: peer.clone(), client: None, notifications: TaskNotifications::new() }
    }

    /// Polls a task as soon as the server sends a notification about it; see [`TaskNotifications::register`].
    #[must_use]
    pub fn notified_by(mut self, notifications: &TaskNotifications) -> Self {
        self.notifications = notifications.clone();
        self
    }

    /// Makes a request that becomes a task if the server supports it; see [`TaskCall`]. `params` are serialized now;
    /// `&()` is none.
    ///
    /// In 2025-11-25 the request asks for a task if the server declared tasks for this method, and is an ordinary request
    /// otherwise (TASK-11). In the extension it declares that handles are understood, and the server decides (TASK-20).
    pub fn request<R: DeserializeOwned>(&self, method: &str, params: &(impl Serialize + ?Sized)) -> TaskCall<R> {
        let dialect = match TaskDialect::spoken_in(self.peer.dialect()) {
            Some(TaskDialect::November2025) if !self.peer.declares_task(&format!("requests/{method}")) => None,
            dialect => dialect,
        };
        self.draft(method, params, dialect)
    }

    /// Calls a tool as a task, if the server supports tasks for tool calls. `&()` is no arguments.
    ///
    /// In 2025-11-25 a tool without task support rejects such a call; [`tool`](Self::tool) avoids that.
    pub fn call_tool(&self, name: &str, arguments: &(impl Serialize + ?Sized)) -> TaskCall<ToolResult> {
        self.request("tools/call", &tool_params(name, arguments))
    }

    /// Calls a listed tool, as a task if the server and the tool support it (TASK-11).
    pub fn tool(&self, tool: &ToolInfo, arguments: &(impl Serialize + ?Sized)) -> TaskCall<ToolResult> {
        let support = tool.other.get("execution").and_then(|execution| execution["taskSupport"].as_str());
        let forbidden = !matches!(support, Some("optional" | "required"));
        if forbidden && TaskDialect::spoken_in(self.peer.dialect()) == Some(TaskDialect::November2025) {
            return self.draft("tools/call", &tool_params(&tool.name, arguments), None);
        }
        self.call_tool(&tool.name, arguments)
    }

    /// Follows a task to its end by its id: one of another connection, or of an earlier run of this program.
    ///
    /// As with any [`TaskCall`], dropping it cancels the task, unless it is [detached](TaskCall::detach).
    pub fn follow<R: DeserializeOwned>(&self, task: &TaskId) -> TaskCall<R> {
        let dialect = TaskDialect::spoken_in(self.peer.dialect());
        TaskCall::new(Draft::new(self.clone(), Start::Follow(task.clone()), dialect))
    }

    /// Asks the server for the state of a task.
    ///
    /// # Errors
    ///
    /// The call failed: -32602 for a task that the server does not know (TASK-07).
    pub async fn get(&self, task: &TaskId) -> Result<TaskState, CallError> {
        self.task_request(task, "tasks/get").await
    }

    /// Asks for a page of the server's tasks; `cursor` is from an earlier page. The extension has no list (TASK-20).
    ///
    /// # Errors
    ///
    /// The call failed: -32602 for an invalid cursor (TASK-07), -32601 for a server without a list.
    pub async fn list(&self, cursor: Option<&str>) -> Result<TaskPage, CallError> {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        self.peer.request("tasks/list", &self.with_meta(params)).await
    }

    /// Makes a request about a task. Only its params name the task (TASK-10).
    pub(super) fn task_request<R>(&self, task: &TaskId, method: &'static str) -> Call<R> {
        self.peer.request(method, &self.with_meta(json!({ "taskId": task.as_str() })))
    }

    /// Adds the metadata that the dialect requires in every request: in the extension, that the client supports it
    /// (TASK-24).
    pub(super) fn with_meta(&self, mut params: Value) -> Value {
        if TaskDialect::spoken_in(self.peer.dialect()) == Some(TaskDialect::Extension) {
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
            meta = json!({ version: self.peer.dialect().date, CLIENT_CAPABILITIES: {} });
        }
        meta[CLIENT_CAPABILITIES]["extensions"][EXTENSION] = json!({});
        meta
    }

    fn draft<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
        dialect: Option<TaskDialect>,
    ) -> TaskCall<R> {
        let params = self.params(params).map_err(super::TaskCallError::Params);
        let start = params.map(|params| Start::Request { method: method.to_owned(), params, on_progress: None });
        match start {
            Ok(start) => TaskCall::new(Draft::new(self.clone(), start, dialect)),
            Err(error) => TaskCall::failed(error),
        }
    }

    /// Serializes the caller's params, and adds the sender's metadata to the caller's.
    fn params(&self, params: &(impl Serialize + ?Sized)) -> Result<Box<RawValue>, serde_json::Error> {
        let text = serde_json::to_string(params)?;
        if TaskDialect::spoken_in(self.peer.dialect()) != Some(TaskDialect::Extension) {
            return RawValue::from_string(if text == "null" { "{}".to_owned() } else { text });
        }
        // Raw values, so that the caller's members stay byte for byte.
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

fn tool_params(name: &str, arguments: &(impl Serialize + ?Sized)) -> Value {
    match serde_json::to_value(arguments) {
        Ok(Value::Null) => json!({ "name": name }),
        Ok(arguments) => json!({ "name": name, "arguments": arguments }),
        // Not an object, so that the call fails with this error.
        Err(error) => Value::String(error.to_string()),
    }
}
