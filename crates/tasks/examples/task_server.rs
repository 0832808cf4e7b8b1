//! An MCP server whose tool outlives its client, its connection and its process, and stops at a cancel from any client.
//!
//! `cargo run -p rescind-tasks --example task_server -- tasks.db`, on stdin and stdout. Start two on one file: a
//! `tasks/cancel` in one stops the work in the other; kill one, and the other resumes its work.
#![expect(clippy::print_stderr, reason = "messages for people go to stderr")]

use std::{error::Error, sync::Arc};

use rescind::{
    mcp::{Server, Tool},
    peer::{Context, ErrorObject, transport},
};
use rescind_tasks::{AsTask, SqliteOptions, SqliteStore, TaskSupport, Tasks};
use tokio::time::{Duration, sleep};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct LongComputation {
    /// Number of iterations
    iterations: u32,
}

async fn long_computation(work: LongComputation, cx: Context) -> Result<String, ErrorObject> {
    eprintln!("computing");
    for i in 0..work.iterations {
        cx.progress(i.into(), Some(work.iterations.into()), Some(&format!("{i} done"))).await;
        if let Err(cancelled) = cx.unless_cancelled(sleep(Duration::from_secs(1))).await {
            eprintln!("stopped: {}", cx.cause().map_or("", |cause| cause.code.phrase()));
            return Err(cancelled);
        }
    }
    Ok(format!("Completed {} iterations.", work.iterations))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "tasks.db".to_owned());
    let store = SqliteStore::open(file, SqliteOptions::default())?;
    let tool = Tool::new("long_computation", "A long-running computation", long_computation);
    let tasks = Tasks::builder(Arc::new(store)).tool(tool.task(TaskSupport::Optional).repeatable()).start();

    tasks.serve_on(Server::new("computer", "1.0.0")).serve(transport::stdio()).await?;
    tasks.shutdown().await; // the next process resumes unfinished work
    Ok(())
}
