//! The `tasks/*` methods, and the calls that become tasks.

use rescind::{
    mcp::{Revision, Server},
    peer::{
        Cause, CauseCode, Context, ErrorObject, RawParams,
        extract::{OnRequest, Scope},
    },
};
use rescind_proto::json;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Tasks,
    request::{self, ClientSupport},
    tool::{TaskSupport, TaskTool},
    wire::{self, Response},
    work,
};
use crate::{
    dialect::{EXTENSION, TaskDialect},
    error::TaskError,
    id::TaskId,
    json::Json,
    owner::Owner,
    step::Access,
    store::CancelEffect,
    task::{NewTask, Task, TaskRequest},
};

/// The params of `tasks/get`, `tasks/result` and `tasks/cancel`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskIdParams {
    task_id: String,
}

/// The params of `tasks/list`.
#[derive(Default, Deserialize)]
struct ListParams {
    cursor: Option<String>,
}

/// The params of `tasks/update`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateParams {
    task_id: String,
    input_responses: std::collections::BTreeMap<String, Json>,
}

/// The member `task` of a call that asks to become one.
#[derive(Deserialize)]
struct TaskParams {
    ttl: Option<u64>,
}

impl Tasks {
    /// Adds these tasks to a server: their tools, the capabilities of both dialects, the `tasks/*` methods. Calls of its
    /// other tools as tasks are rejected (TASK-11).
    pub fn serve_on(&self, mut server: Server) -> Server {
        for tool in self.shared.tools.values() {
            let (tasks, called) = (self.clone(), tool.clone());
            let mut served = tool.tool.clone().intercepted(move |call| tasks.intercept(call, &called));
            if let Some(preparation) = &tool.preparation {
                let (tasks, called) = (self.clone(), tool.clone());
                served = served.prepared_by(preparation.clone());
                served = served.intercepted(move |call| tasks.intercept_unprepared(call, &called));
            }
            server = server.with_tool(served);
        }
        let guard = {
            let tasks = self.clone();
            move |request: &OnRequest| tasks.reject_plain_tools(request)
        };
        let mut offered = serde_json::json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
        if self.owner.is_some() {
            offered["list"] = serde_json::json!({});
        }
        let [get, result, list, cancel, update] = std::array::from_fn(|_| self.clone());
        for revision in Revision::ALL {
            server = match TaskDialect::spoken_in(revision.dialect()) {
                Some(TaskDialect::November2025) => server.capability_in(revision, "tasks", offered.clone()),
                Some(TaskDialect::Extension) => {
                    server.capability_in(revision, "extensions", serde_json::json!({ EXTENSION: {} }))
                }
                None => server,
            };
        }
        server.guard(guard).with(move |builder| {
            builder
                .on_request("tasks/get", move |RawParams(params), cx| get.clone().get(cx, params))
                .on_request("tasks/result", move |RawParams(params), cx| result.clone().result(cx, params))
                .on_request("tasks/list", move |RawParams(params), cx| list.clone().list(cx, params))
                .on_request("tasks/cancel", move |RawParams(params), cx| cancel.clone().cancel(cx, params))
                .on_request("tasks/update", move |RawParams(params), cx| update.clone().update(cx, params))
        })
    }

    /// As [`intercept`](Self::intercept), for a call that is to be prepared. In 2025-11-25 a call that asks for a task
    /// cannot be cancelled before the task exists (MCP-C13): preparing it is the first part of the task's work.
    fn intercept_unprepared(
        &self,
        call: &OnRequest,
        tool: &TaskTool,
    ) -> Result<Option<impl Future<Output = Response> + Send + use<>>, ErrorObject> {
        match dialect_of(call, tool.support)? {
            Some(TaskDialect::November2025) => self.intercept(call, tool),
            Some(TaskDialect::Extension) | None => Ok(None),
        }
    }

    /// Returns the future that makes a task of this call; `None` if the call is to be answered as usual.
    fn intercept(
        &self,
        call: &OnRequest,
        tool: &TaskTool,
    ) -> Result<Option<impl Future<Output = Response> + Send + use<>>, ErrorObject> {
        let Some(dialect) = dialect_of(call, tool.support)? else { return Ok(None) };
        let (cx, params) = (call.context(), call.params().unwrap_or(b"{}"));
        let task_params = json::member(params, "task");
        let ttl = match (dialect, task_params) {
            (TaskDialect::November2025, Some(params)) => {
                let params: TaskParams =
                    serde_json::from_slice(params).map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
                params.ttl.map(std::time::Duration::from_millis)
            }
            (TaskDialect::November2025, None) | (TaskDialect::Extension, _) => None,
        };
        let params = request::for_work(params)?;
        let new = NewTask {
            owner: self.owner_of(&cx),
            dialect,
            request: TaskRequest { method: "tools/call".into(), params: Some(Json::from(&*params)), meta: None },
            ttl: ttl.or(tool.ttl),
            poll_interval: self.shared.poll_interval,
            message: None,
        };
        let (tasks, tool) = (self.clone(), tool.work(tool.tool.clone(), dialect));
        Ok(Some(tasks.create(cx, new, tool)))
    }

    /// Creates the task durably (TASK-23) and answers with its handle. The work begins once the handle was delivered.
    async fn create(self, cx: Context, new: NewTask, tool: rescind::mcp::Tool) -> Response {
        let delivered = cx.delivered();
        let run = self.shared.store.create(new).await.map_err(|error| wire::store_error(&error))?;
        let handle = wire::created(&run.task().summary)?;
        work::begin(&self.shared, run, tool, Some(cx.peer()), delivered);
        Ok(handle)
    }

    async fn get(self, cx: Context, params: Box<RawValue>) -> Response {
        let support = ClientSupport::of(&cx, Some(params.get().as_bytes()));
        let dialect = support.dialect(cx.method())?;
        let TaskIdParams { task_id } = request::params(&params)?;
        let task = self.find(&self.owner_of(&cx), dialect, &TaskId::received(&task_id)).await?;
        wire::got(&task)
    }

    /// Waits for the end of the task and of its work, since a cancelled one may still produce a result (TASK-06, D38).
    /// A cancel of this request leaves the task alone.
    async fn result(self, cx: Context, params: Box<RawValue>) -> Response {
        ClientSupport::of(&cx, Some(params.get().as_bytes())).require_november(cx.method())?;
        let TaskIdParams { task_id } = request::params(&params)?;
        let (owner, id) = (self.owner_of(&cx), TaskId::received(&task_id));
        let mut task = self.find(&owner, TaskDialect::November2025, &id).await?;
        self.shared.follow(&id, cx.peer());
        while !task.is_settled() {
            let changed = self.shared.store.changed(&owner, &id, task.revision);
            task = cx.unless_cancelled(changed).await?.map_err(|error| wire::store_error(&error))?;
        }
        wire::result(&task)
    }

    async fn list(self, cx: Context, params: Box<RawValue>) -> Response {
        ClientSupport::of(&cx, Some(params.get().as_bytes())).require_november(cx.method())?;
        if self.owner.is_none() {
            return Err(ErrorObject::method_not_found(cx.method()));
        }
        let ListParams { cursor } = request::params::<Option<ListParams>>(&params)?.unwrap_or_default();
        let (owner, page) = (self.owner_of(&cx), usize::MAX);
        let page = self.shared.store.list(&owner, TaskDialect::November2025, cursor.as_deref(), page).await;
        wire::listed(&page.map_err(|error| wire::store_error(&error))?)
    }

    async fn cancel(self, cx: Context, params: Box<RawValue>) -> Response {
        let dialect = ClientSupport::of(&cx, Some(params.get().as_bytes())).dialect(cx.method())?;
        let TaskIdParams { task_id } = request::params(&params)?;
        let (owner, id) = (self.owner_of(&cx), TaskId::received(&task_id));
        self.find(&owner, dialect, &id).await?;
        let cancelled = self.shared.store.cancel(Access::Owner(owner), &id, Cause::new(CauseCode::Caller)).await;
        match (dialect, cancelled.map_err(|error| wire::store_error(&error))?) {
            (TaskDialect::Extension, _) => wire::acknowledged(),
            (TaskDialect::November2025, CancelEffect::Recorded(task) | CancelEffect::Already(task)) => {
                wire::summary(&task.summary)
            }
            (TaskDialect::November2025, CancelEffect::TooLate(task)) => {
                Err(wire::store_error(&TaskError::Ended { status: task.summary.status }))
            }
        }
    }

    async fn update(self, cx: Context, params: Box<RawValue>) -> Response {
        ClientSupport::of(&cx, Some(params.get().as_bytes())).require_extension(cx.method())?;
        let UpdateParams { task_id, input_responses } = request::params(&params)?;
        let (owner, id) = (self.owner_of(&cx), TaskId::received(&task_id));
        self.find(&owner, TaskDialect::Extension, &id).await?;
        match self.shared.store.answer(&owner, &id, input_responses.into_iter().collect()).await {
            // Ignored like an answer to an unknown key.
            Ok(_) | Err(TaskError::Ended { .. }) => wire::acknowledged(),
            Err(error) => Err(wire::store_error(&error)),
        }
    }

    /// Finds a task of that owner and dialect. A client of the other dialect cannot see it.
    async fn find(&self, owner: &Owner, dialect: TaskDialect, id: &TaskId) -> Result<Task, ErrorObject> {
        self.shared.activity.notify_one();
        let found = self.shared.store.task(owner, id).await;
        let found =
            found.and_then(|task| if task.summary.dialect == dialect { Ok(task) } else { Err(TaskError::NotFound) });
        found.map_err(|error| wire::store_error(&error))
    }

    fn owner_of(&self, cx: &Context) -> Owner {
        self.owner.as_ref().map_or(Owner::NONE, |owner| owner(cx))
    }

    /// Rejects calls as tasks of tools that have none (TASK-11).
    fn reject_plain_tools(&self, request: &OnRequest) -> Result<(), ErrorObject> {
        if request.method() != "tools/call" {
            return Ok(());
        }
        let params = request.params().unwrap_or(b"{}");
        let asks = json::member(params, "task").is_some()
            && ClientSupport::of(&request.context(), None) == ClientSupport::November2025;
        let name = json::member(params, "name").and_then(json::text).unwrap_or_default();
        if asks && !self.shared.tools.contains_key(&*name) {
            return Err(ErrorObject::new(
                rescind::peer::error_code::METHOD_NOT_FOUND,
                "this tool cannot be called as a task",
            ));
        }
        Ok(())
    }
}

/// The dialect in which this call becomes a task; `None` if it is to be answered as usual.
fn dialect_of(call: &OnRequest, support: TaskSupport) -> Result<Option<TaskDialect>, ErrorObject> {
    let params = call.params();
    let asks = params.is_some_and(|params| json::member(params, "task").is_some());
    match (ClientSupport::of(&call.context(), params), support) {
        (ClientSupport::November2025, _) if asks => Ok(Some(TaskDialect::November2025)),
        (ClientSupport::Extension, _) => Ok(Some(TaskDialect::Extension)),
        (ClientSupport::None | ClientSupport::November2025 | ClientSupport::Undeclared, TaskSupport::Optional) => {
            Ok(None)
        }
        (ClientSupport::None | ClientSupport::November2025, TaskSupport::Required) => {
            let method_not_found = rescind::peer::error_code::METHOD_NOT_FOUND;
            Err(ErrorObject::new(method_not_found, "this tool can only be called as a task"))
        }
        (ClientSupport::Undeclared, TaskSupport::Required) => Err(wire::undeclared()),
    }
}
