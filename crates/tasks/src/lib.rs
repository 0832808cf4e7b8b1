//! MCP tasks: work that outlives its request, and that can be cancelled, in both dialects.
//!
//! A task is cancelled by `tasks/cancel`, from whatever connection or process; the work runs in one of them. So a
//! [`TaskStore`] keeps more than a status: it keeps the **cancel itself**, as a lasting record with its cause, and
//! brings it to the process that runs the work ([`Run::cancelled`]).
//!
//! ```text
//!             ask_input            finish                        finish, a cancel
//!   working <-----------> input_required ------> completed | failed | cancelled
//!             answer
//! ```
//!
//! What happens to a task is decided by values without I/O ([`Task::apply`]); a store loads a task, applies a step and
//! saves it, as one transaction. So every store obeys the same rules:
//!
//! - A terminal status is never left (TASK-01, TASK-04). Of a cancel and the end of the work, one wins.
//! - In the dialect of 2025-11-25 a cancel is the end of the status, at once (TASK-03); what the work still produced
//!   is kept beside it (D38). In the extension a cancel is a wish, and the status says how the work ended (TASK-21).
//! - A cancel of a task that has ended is told apart, since the dialects answer it differently (TASK-02, TASK-22).
//! - A task of somebody else does not exist (TASK-07, TASK-08), nor does one whose ttl is over (TASK-09).
//! - Whoever runs the work holds a [`Run`]: dropped before its end, the task has failed; if the process dies, the task
//!   is handed out again, once, by [`TaskStore::recover`].
//!
//! With the feature `server`, [`Tasks`] makes tasks of the tools of an MCP server:
//!
//! ```no_run
//! # #[cfg(feature = "server")]
//! # mod example {
//! use std::{error::Error, sync::Arc};
//!
//! use rescind::{mcp::{NoArguments, Server, Tool}, peer::{Context, ErrorObject, Transport}};
//! use rescind_tasks::{AsTask, MemoryStore, TaskSupport, Tasks};
//!
//! async fn build(_: NoArguments, cx: Context) -> Result<&'static str, ErrorObject> {
//!     cx.unless_cancelled(tokio::time::sleep(std::time::Duration::from_secs(3600))).await?;
//!     Ok("built")
//! }
//!
//! async fn serve(transport: Transport) -> Result<(), Box<dyn Error>> {
//!     let tool = Tool::with_schema("build", "Builds everything", serde_json::json!({}), build);
//!     let tasks = Tasks::builder(Arc::new(MemoryStore::default())).tool(tool.task(TaskSupport::Optional)).start();
//!     tasks.serve_on(Server::new("builder", "1.0.0")).serve(transport).await?;
//!     tasks.shutdown().await;
//!     Ok(())
//! }
//! # }
//! ```
//!
//! Two stores: [`MemoryStore`], which ends with its process, and [`SqliteStore`], one file shared by the processes of
//! a machine.

//!
//! ```
//! use rescind_tasks::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::default();
//! let request = Request { method: "tools/call".into(), params: Some(Json::parse(r#"{"name":"build"}"#)?), meta: None };
//! let (owner, dialect) = (Owner::named("ada"), Dialect::November2025);
//! let new = NewTask { owner: owner.clone(), dialect, request, ttl: None, poll_interval: None, message: None };
//!
//! // The server's side: the work has a run, its client the id.
//! let mut run = store.create(new).await?;
//! let id = run.task().summary.id.clone();
//!
//! // `tasks/cancel`, from whatever connection or process.
//! let cancelled = store.cancel(Access::Owner(owner.clone()), &id, Cause::new(CauseCode::Caller)).await?;
//! assert!(matches!(cancelled, Cancelled::Recorded(task) if task.summary.status == Status::Cancelled));
//!
//! // The work hears of it, and ends; what it still made is kept, and the status stays.
//! let cancel = run.cancelled().await;
//! assert_eq!(cancel.cause.code, CauseCode::Caller);
//! assert_eq!(run.finish(Outcome::Result(Json::parse("{}")?), None).await?, Finished::Kept);
//! assert_eq!(store.task(&owner, &id).await?.summary.status, Status::Cancelled);
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

#[cfg(feature = "client")]
pub mod client;
mod cursor;
mod error;
mod hub;
mod id;
mod input;
mod json;
mod limits;
mod memory;
mod outcome;
mod owner;
mod run;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;
mod status;
mod step;
mod store;
mod task;
mod time;

#[cfg(feature = "server")]
pub use crate::server::{AsTask, TaskSupport, TaskTool, Tasks, TasksBuilder};
#[cfg(feature = "sqlite")]
pub use crate::sqlite::{SqliteOptions, SqliteStore};
pub use crate::{
    error::{Fault, FaultKind, TaskError},
    id::TaskId,
    input::{Input, Inputs},
    json::Json,
    limits::Limits,
    memory::MemoryStore,
    outcome::Outcome,
    owner::Owner,
    run::Run,
    status::Status,
    step::{Access, Effect, Step},
    store::{Cancelled, Finished, Page, Reply, Swept, TaskStore},
    task::{Cancel, Dialect, NewTask, Request, Revision, Summary, Task},
    time::{Clock, SystemClock, Timestamp},
};
pub use rescind_proto::cause::{Cause, CauseCode};
