//! An MCP server of tasks for real peers: `peer_task_server memory|sqlite [--modern]`, on stdin and stdout; with `--modern`
//! it speaks 2026-07-28 alone.
//!
//! Its tools are those of `peers/node/mcp1/tasks-server.mjs`. Each piece of work says what becomes of it in the file
//! named by `RESCIND_MARKS`, as theirs does.

use std::{
    collections::HashSet,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rescind::{
    mcp::{Revision, Server, Tool},
    peer::{Context, ErrorObject, transport},
};
use rescind_tasks::{AsTask, MemoryStore, SqliteOptions, SqliteStore, TaskStore, TaskSupport, Tasks};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

#[path = "shared/marks.rs"]
mod marks;
use marks::mark;

const TICK: Duration = Duration::from_millis(10);
/// Nobody is left behind by a client that never releases its work.
const TICKS: u32 = 3000;

#[derive(Deserialize)]
struct Piece {
    work: String,
}

#[derive(Deserialize)]
struct Release {
    of: String,
}

/// What is told of work, and which work may end.
#[derive(Clone, Default)]
struct Bench(Arc<Mutex<HashSet<String>>>);

/// A piece of work, which says so when it is dropped before its end.
struct Work {
    name: String,
    bench: Bench,
    is_over: bool,
}

impl Bench {
    fn begin(&self, Piece { work }: Piece) -> Work {
        mark(&work, "started", json!({}));
        Work { name: work, bench: self.clone(), is_over: false }
    }

    fn release(&self, work: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(work);
    }

    fn is_released(&self, work: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(work)
    }
}

impl Work {
    /// Ticks until it is released.
    async fn tick(&self) {
        for tick in 1..=TICKS {
            if self.bench.is_released(&self.name) {
                return;
            }
            sleep(TICK).await;
            mark(&self.name, "progress", json!({ "tick": tick }));
        }
    }

    fn finish(mut self) -> &'static str {
        mark(&self.name, "finished", json!({}));
        self.is_over = true;
        "finished"
    }

    fn stop(mut self, cx: &Context) {
        mark(&self.name, "stopped", json!({ "reason": cx.cause().map(|cause| cause.code.as_str()) }));
        self.is_over = true;
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.is_over {
            mark(&self.name, "stopped", json!({ "reason": "dropped" }));
        }
    }
}

/// Never looks at its token; its grace is over at once.
fn plods(bench: &Bench) -> Tool {
    let bench = bench.clone();
    let tool = Tool::with_schema("plods", "never looks whether it is to stop", schema("work"), move |piece: Piece| {
        let work = bench.begin(piece);
        async move {
            work.tick().await;
            Ok::<_, ErrorObject>(work.finish())
        }
    });
    tool.route(|route| route.grace(Duration::ZERO))
}

fn looks(bench: &Bench) -> Tool {
    let bench = bench.clone();
    Tool::with_schema("looks", "stops by its token", schema("work"), move |piece: Piece, cx: Context| {
        let work = bench.begin(piece);
        async move {
            if let Err(cancelled) = cx.unless_cancelled(work.tick()).await {
                work.stop(&cx);
                return Err(cancelled);
            }
            Ok(work.finish())
        }
    })
}

fn asks(bench: &Bench) -> Tool {
    let bench = bench.clone();
    Tool::with_schema("asks", "asks the client", schema("work"), move |piece: Piece, cx: Context| {
        let work = bench.begin(piece);
        async move {
            let schema = json!({ "type": "object", "properties": {} });
            let question = json!({ "mode": "form", "message": work.name, "requestedSchema": schema });
            let answer = cx.peer().request::<Value>("elicitation/create", &question).await?;
            mark(&work.name, "answered", json!({ "reason": answer["action"] }));
            Ok::<_, ErrorObject>(work.finish())
        }
    })
}

fn release(bench: &Bench) -> Tool {
    let bench = bench.clone();
    Tool::with_schema("release", "lets work come to its end", schema("of"), move |Release { of }| {
        bench.release(of);
        async { Ok::<_, ErrorObject>("released") }
    })
}

fn echo() -> Tool {
    Tool::with_schema("echo", "answers at once", schema("work"), |_: Piece| async { Ok::<_, ErrorObject>("echo") })
}

fn schema(member: &str) -> Value {
    json!({ "type": "object", "properties": { member: { "type": "string" } }, "required": [member] })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let store: Arc<dyn TaskStore> = match words.first().map(String::as_str) {
        Some("memory") => Arc::new(MemoryStore::default()),
        Some("sqlite") => Arc::new(SqliteStore::open(folder.path().join("tasks.db"), SqliteOptions::default())?),
        _ => return Err("usage: peer_task_server memory|sqlite [--modern]".into()),
    };
    let bench = Bench::default();
    let tasks = [plods, looks, asks]
        .iter()
        .fold(Tasks::builder(store), |tasks, tool| tasks.tool(tool(&bench).task(TaskSupport::Required)))
        .poll_interval(TICK)
        .start();
    let mut server = Server::new("rescind-tasks", "1.0.0").with_tool(release(&bench)).with_tool(echo());
    if words[1..] == ["--modern"] {
        server = server.revisions(&[Revision::V2026_07_28]);
    }
    tasks.serve_on(server).serve(transport::stdio()).await?;
    Ok(())
}
