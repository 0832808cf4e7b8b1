//! MCP tasks: work that outlives its request, and that can be cancelled, in both dialects.
//!
//! `tasks/cancel` may come from any connection and to any process that shares the tasks; the work runs in one of them.
//! So a [`TaskStore`] keeps more than a status: it keeps the **cancel itself**, as a durable record with its cause, and
//! delivers it to the process that runs the work ([`Run::cancelled`]).
//!
//! ```text
//!             ask_input            finish                        finish, a cancel
//!   working <-----------> input_required ------> completed | failed | cancelled
//!             answer
//! ```
//!
//! A state machine without I/O decides what a step does ([`Task::apply`]). A store loads a task, applies a step and saves
//! it, as one transaction. So every store follows the same rules:
//!
//! - A terminal status is never left (TASK-01, TASK-04). Of a cancel and the end of the work, one wins.
//! - In the dialect of 2025-11-25 a cancel sets the terminal status at once (TASK-03), and what the work still produces is
//!   kept beside it (D38). In the extension a cancel is a request, and the status shows how the work ended (TASK-21).
//! - The cancel of a task that has ended is reported as such, since the dialects answer it differently (TASK-02,
//!   TASK-22).
//! - A client cannot see a task of another owner (TASK-07, TASK-08), nor one whose ttl has expired (TASK-09).
//! - The process that runs the work holds a [`Run`]. If the run is dropped early, the task fails. If the process dies,
//!   [`TaskStore::recover`] hands the task out again, once.
//!
//! With the feature `server`, [`Tasks`] turns calls of an MCP server's tools into tasks:
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
//! There are two stores: [`MemoryStore`], which ends with its process, and [`SqliteStore`], a file that the processes of a
//! machine share.
//!
//! ```
//! use rescind_tasks::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::default();
//! let request = TaskRequest { method: "tools/call".into(), params: Some(Json::parse(r#"{"name":"build"}"#)?), meta: None };
//! let (owner, dialect) = (Owner::named("ada"), TaskDialect::November2025);
//! let new = NewTask { owner: owner.clone(), dialect, request, ttl: None, poll_interval: None, message: None };
//!
//! // The server: its work holds the run, its client knows the id.
//! let mut run = store.create(new).await?;
//! let id = run.task().summary.id.clone();
//!
//! // `tasks/cancel`, from any connection or process.
//! let cancelled = store.cancel(Access::Owner(owner.clone()), &id, Cause::new(CauseCode::Caller)).await?;
//! assert!(matches!(cancelled, CancelEffect::Recorded(task) if task.summary.status == Status::Cancelled));
//!
//! // The work receives the cancel and ends. Its outcome is kept; the status stays.
//! let cancel = run.cancelled().await;
//! assert_eq!(cancel.cause.code, CauseCode::Caller);
//! assert_eq!(run.finish(TaskOutcome::Result(Json::parse("{}")?), None).await?, FinishEffect::Kept);
//! assert_eq!(store.task(&owner, &id).await?.summary.status, Status::Cancelled);
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

#[cfg(feature = "client")]
pub mod client;
mod cursor;
mod dialect;
mod error;
mod followed;
mod id;
mod input;
mod json;
mod limits;
mod memory;
mod outcome;
mod owner;
mod revision;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;
mod status;
mod step;
mod store;
mod subscribers;
mod task;
mod time;

#[cfg(feature = "server")]
pub use crate::server::{AsTask, TaskSupport, TaskTool, Tasks, TasksBuilder};
#[cfg(feature = "sqlite")]
pub use crate::sqlite::{SqliteOptions, SqliteStore};
pub use crate::{
    dialect::TaskDialect,
    error::{StoreFault, StoreFaultKind, TaskError},
    id::TaskId,
    input::{Input, Inputs},
    json::Json,
    limits::StoreLimits,
    memory::MemoryStore,
    outcome::TaskOutcome,
    owner::Owner,
    revision::TaskRevision,
    status::Status,
    step::{Access, Effect, Step},
    store::{CancelEffect, FinishEffect, Run, StoreFuture, SummaryPage, Swept, TaskStore},
    task::{CancelRecord, NewTask, Task, TaskRequest, TaskSummary},
    time::{SystemClock, Timestamp, WallClock},
};
pub use rescind_proto::cause::{Cause, CauseCode};
