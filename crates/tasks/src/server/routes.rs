//! What clients ask of tasks, and the calls that become tasks.

use rescind::{
    mcp::Server,
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
    asked::{self, Era},
    tool::{TaskSupport, TaskTool},
    wire::{self, Answer},
    work,
};
use crate::{
    error::TaskError,
    id::TaskId,
    json::Json,
    owner::Owner,
    step::Access,
    store::Cancelled,
    task::{Dialect, NewTask, Request, Task},
};

/// What names a task.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    task_id: String,
}

/// The params of `tasks/list`.
#[derive(Default, Deserialize)]
struct Listing {
    cursor: Option<String>,
}

/// The params of `tasks/update`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update {
    task_id: String,
    input_responses: std::collections::BTreeMap<String, Json>,
}

/// The member `task` of a call that asks for one.
#[derive(Deserialize)]
struct Wish {
    ttl: Option<u64>,
}

impl Tasks {
    /// The same server, with these tasks: their tools, the capabilities of both dialects, and what clients ask of
    /// tasks. Its other tools refuse to be tasks (TASK-11).
    pub fn serve_on(&self, mut server: Server) -> Server {
        for tool in self.shared.tools.values() {
            let (tasks, support) = (self.clone(), tool.clone());
            server = server.with_tool(tool.tool.clone().intercepted(move |call| tasks.take(call, &support)));
        }
        let has_no_task = {
            let tasks = self.clone();
            move |request: &OnRequest| tasks.refuse_plain_tools(request)
        };
        let mut offered = serde_json::json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
        if self.owner.is_some() {
            offered["list"] = serde_json::json!({});
        }
        let [get, result, list, cancel, update] = std::array::from_fn(|_| self.clone());
        server
            .guard(has_no_task)
            .capability_in(rescind::mcp::Revision::V2025_11_25, "tasks", offered)
            .capability_in(
                rescind::mcp::Revision::V2026_07_28,
                "extensions",
                serde_json::json!({ wire::EXTENSION: {} }),
            )
            .with(move |builder| {
                builder
                    .request("tasks/get", move |RawParams(params), cx| get.clone().get(cx, params))
                    .request("tasks/result", move |RawParams(params), cx| result.clone().result(cx, params))
                    .request("tasks/list", move |RawParams(params), cx| list.clone().list(cx, params))
                    .request("tasks/cancel", move |RawParams(params), cx| cancel.clone().cancel(cx, params))
                    .request("tasks/update", move |RawParams(params), cx| update.clone().update(cx, params))
            })
    }

    /// What becomes of a call of a tool with tasks: a task, or what any call is.
    fn take(
        &self,
        call: &OnRequest,
        tool: &TaskTool,
    ) -> Result<Option<impl Future<Output = Answer> + Send + use<>>, ErrorObject> {
        let (cx, params) = (call.context(), call.params().unwrap_or(b"{}"));
        let wish = json::member(params, "task");
        let dialect = match (Era::of(&cx, Some(params)), tool.support) {
            (Era::November2025, _) if wish.is_some() => Dialect::November2025,
            (Era::Extension, _) => Dialect::Extension,
            (Era::None | Era::November2025 | Era::Undeclared, TaskSupport::Optional) => return Ok(None),
            (Era::None | Era::November2025, TaskSupport::Required) => {
                return Err(ErrorObject::new(
                    rescind::peer::error_code::METHOD_NOT_FOUND,
                    "this tool can be called as a task only",
                ));
            }
            (Era::Undeclared, TaskSupport::Required) => return Err(wire::undeclared()),
        };
        let ttl = match (dialect, wish) {
            (Dialect::November2025, Some(wish)) => {
                let wish: Wish =
                    serde_json::from_slice(wish).map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
                wish.ttl.map(std::time::Duration::from_millis)
            }
            (Dialect::November2025, None) | (Dialect::Extension, _) => None,
        };
        let params = asked::for_work(params)?;
        let new = NewTask {
            owner: self.owner_of(&cx),
            dialect,
            request: Request { method: "tools/call".into(), params: Some(Json::from(&*params)), meta: None },
            ttl: ttl.or(tool.ttl),
            poll_interval: self.shared.poll_interval,
            message: None,
        };
        let (tasks, tool) = (self.clone(), tool.tool.clone());
        Ok(Some(tasks.create(cx, new, tool)))
    }

    /// Answers with the handle of a task that lasts already (TASK-23); its work begins once the handle has left.
    async fn create(self, cx: Context, new: NewTask, tool: rescind::mcp::Tool) -> Answer {
        let delivered = cx.delivered();
        let run = self.shared.store.create(new).await.map_err(|error| wire::refusal(&error))?;
        let handle = wire::created(&run.task().summary)?;
        work::begin(&self.shared, run, tool, Some(cx.peer()), delivered);
        Ok(handle)
    }

    async fn get(self, cx: Context, params: Box<RawValue>) -> Answer {
        let era = Era::of(&cx, Some(params.get().as_bytes()));
        let dialect = era.dialect(cx.method())?;
        let Named { task_id } = asked::params(&params)?;
        let task = self.find(&self.owner_of(&cx), dialect, &TaskId::received(&task_id)).await?;
        wire::got(&task)
    }

    /// Waits until the task has ended and its work has, too, so that what a cancelled one still produced is not
    /// missed (TASK-06, D38). Cancelled itself, it ends and the task goes on.
    async fn result(self, cx: Context, params: Box<RawValue>) -> Answer {
        Era::of(&cx, Some(params.get().as_bytes())).only_november(cx.method())?;
        let Named { task_id } = asked::params(&params)?;
        let (owner, id) = (self.owner_of(&cx), TaskId::received(&task_id));
        let mut task = self.find(&owner, Dialect::November2025, &id).await?;
        self.shared.follow(&id, cx.peer());
        while !task.is_settled() {
            let changed = self.shared.store.changed(&owner, &id, task.revision);
            task = cx.unless_cancelled(changed).await?.map_err(|error| wire::refusal(&error))?;
        }
        wire::result(&task)
    }

    async fn list(self, cx: Context, params: Box<RawValue>) -> Answer {
        Era::of(&cx, Some(params.get().as_bytes())).only_november(cx.method())?;
        if self.owner.is_none() {
            return Err(ErrorObject::method_not_found(cx.method()));
        }
        let Listing { cursor } = asked::params::<Option<Listing>>(&params)?.unwrap_or_default();
        let (owner, page) = (self.owner_of(&cx), usize::MAX);
        let page = self.shared.store.list(&owner, Dialect::November2025, cursor.as_deref(), page).await;
        wire::listed(&page.map_err(|error| wire::refusal(&error))?)
    }

    async fn cancel(self, cx: Context, params: Box<RawValue>) -> Answer {
        let dialect = Era::of(&cx, Some(params.get().as_bytes())).dialect(cx.method())?;
        let Named { task_id } = asked::params(&params)?;
        let (owner, id) = (self.owner_of(&cx), TaskId::received(&task_id));
        self.find(&owner, dialect, &id).await?;
        let cancelled = self.shared.store.cancel(Access::Owner(owner), &id, Cause::new(CauseCode::Caller)).await;
        match (dialect, cancelled.map_err(|error| wire::refusal(&error))?) {
            (Dialect::Extension, _) => wire::acknowledged(),
            (Dialect::November2025, Cancelled::Recorded(task) | Cancelled::Already(task)) => {
                wire::summary(&task.summary)
            }
            (Dialect::November2025, Cancelled::TooLate(task)) => {
                Err(wire::refusal(&TaskError::Ended { status: task.summary.status }))
            }
        }
    }

    async fn update(self, cx: Context, params: Box<RawValue>) -> Answer {
        Era::of(&cx, Some(params.get().as_bytes())).only_extension(cx.method())?;
        let Update { task_id, input_responses } = asked::params(&params)?;
        let (owner, id) = (self.owner_of(&cx), TaskId::received(&task_id));
        self.find(&owner, Dialect::Extension, &id).await?;
        match self.shared.store.answer(&owner, &id, input_responses.into_iter().collect()).await {
            // An answer that nobody waits for any more is ignored like one to an unknown key.
            Ok(_) | Err(TaskError::Ended { .. }) => wire::acknowledged(),
            Err(error) => Err(wire::refusal(&error)),
        }
    }

    /// A task of that owner; to whoever speaks the other dialect it does not exist.
    async fn find(&self, owner: &Owner, dialect: Dialect, id: &TaskId) -> Result<Task, ErrorObject> {
        self.shared.stirred.notify_one();
        let found = self.shared.store.task(owner, id).await;
        let found =
            found.and_then(|task| if task.summary.dialect == dialect { Ok(task) } else { Err(TaskError::NotFound) });
        found.map_err(|error| wire::refusal(&error))
    }

    fn owner_of(&self, cx: &Context) -> Owner {
        self.owner.as_ref().map_or(Owner::NONE, |owner| owner(cx))
    }

    /// A tool without tasks is no task (TASK-11).
    fn refuse_plain_tools(&self, request: &OnRequest) -> Result<(), ErrorObject> {
        if request.method() != "tools/call" {
            return Ok(());
        }
        let params = request.params().unwrap_or(b"{}");
        let asks = json::member(params, "task").is_some() && Era::of(&request.context(), None) == Era::November2025;
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
