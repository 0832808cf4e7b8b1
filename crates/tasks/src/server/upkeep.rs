//! What nobody asks for and has to be done: interrupted work taken up, tasks whose ttl is over stopped and deleted.

use std::sync::{Arc, Weak};

use rescind::{mcp::Tool, peer::ErrorObject};

use super::{
    Shared,
    work::{self, error_outcome},
};
use crate::run::Run;

/// Looks after the tasks: once, and again from time to time as long as there is anything to look after. A server that
/// nobody asks for tasks, and whose store holds none that end by themselves, has no timer.
pub(super) async fn keep(shared: Weak<Shared>) {
    while let Some(tasks) = shared.upgrade() {
        let is_calm = look(&tasks).await;
        let (stirred, every) = (Arc::clone(&tasks.stirred), tasks.upkeep);
        let closed = tasks.closed();
        drop(tasks);
        let again = async {
            if is_calm {
                stirred.notified().await;
            }
            tokio::time::sleep(every).await;
        };
        tokio::select! {
            () = again => {}
            () = closed => return,
        }
    }
}

/// Whether there is nothing to come back for unless something happens.
async fn look(tasks: &Arc<Shared>) -> bool {
    let (swept, found) = (tasks.store.sweep().await, tasks.store.recover().await);
    // A store that fails now may not fail later.
    let is_calm = matches!((&swept, &found), (Ok(swept), Ok(found)) if swept.next.is_none() && found.is_empty());
    for run in found.unwrap_or_default() {
        resume(tasks, run);
    }
    is_calm && *tasks.running.borrow() == 0
}

/// Hands interrupted work to whoever can take it up, or says why it has failed (case 60).
fn resume(shared: &Arc<Shared>, mut run: Run) {
    let tool = shared.tool_of(run.task()).and_then(|tool| tool.resumed_by.clone());
    match tool {
        Some(tool) => begin(shared, run, tool),
        None => {
            tokio::spawn(async move {
                let error = ErrorObject::internal("the work was interrupted, and cannot be taken up again");
                let _ = run.finish(error_outcome(&error), Some(&error.message)).await;
            });
        }
    }
}

fn begin(shared: &Arc<Shared>, run: Run, tool: Tool) {
    work::begin(shared, run, tool, None, std::future::ready(true));
}
