//! Upkeep of the store: interrupted work is resumed; tasks whose ttl has expired are stopped and deleted.

use std::sync::{Arc, Weak};

use rescind::{mcp::Tool, peer::ErrorObject};

use super::{
    Shared,
    work::{self, error_outcome},
};
use crate::store::Run;

/// Runs upkeep once, and again at intervals while the store holds a task that may need it. Without such a task there is
/// no timer, and the next request for a task restarts it.
pub(super) async fn run(shared: Weak<Shared>) {
    while let Some(tasks) = shared.upgrade() {
        let is_idle = check(&tasks).await;
        let (activity, every) = (Arc::clone(&tasks.activity), tasks.upkeep);
        let closed = tasks.closed();
        drop(tasks);
        let again = async {
            if is_idle {
                activity.notified().await;
            }
            tokio::time::sleep(every).await;
        };
        tokio::select! {
            () = again => {}
            () = closed => return,
        }
    }
}

/// Returns whether no task will need upkeep by itself.
async fn check(tasks: &Arc<Shared>) -> bool {
    let (swept, found) = (tasks.store.sweep().await, tasks.store.recover().await);
    // A store that fails now may work at the next check.
    let is_idle = matches!((&swept, &found), (Ok(swept), Ok(found)) if swept.next.is_none() && found.is_empty());
    for run in found.unwrap_or_default() {
        resume(tasks, run);
    }
    is_idle && *tasks.running.borrow() == 0
}

/// Hands interrupted work to the handler that can resume it. Without one the task fails (case 60).
fn resume(shared: &Arc<Shared>, mut run: Run) {
    let (task, dialect) = (run.task(), run.task().summary.dialect);
    let tool = shared.tool_of(task).and_then(|tool| Some(tool.work(tool.resumed_by.clone()?, dialect)));
    match tool {
        Some(tool) => begin(shared, run, tool),
        None => {
            tokio::spawn(async move {
                let error = ErrorObject::internal("the work was interrupted and cannot be resumed");
                let _ = run.finish(error_outcome(&error), Some(&error.message)).await;
            });
        }
    }
}

fn begin(shared: &Arc<Shared>, run: Run, tool: Tool) {
    work::begin(shared, run, tool, None, std::future::ready(true));
}
