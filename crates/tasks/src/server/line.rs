//! To whom the work of a task speaks: the client that made the task, then whoever waits for its result.

use std::sync::Arc;

use rescind::peer::Peer;
use tokio::sync::watch;

use super::Shared;
use crate::{hub::lock, id::TaskId, store::TaskStore};

/// The client of a task, at this moment; a connection that has ended stays until somebody else follows the task.
#[derive(Clone)]
pub(super) struct Line(watch::Receiver<Option<Peer>>);

impl Line {
    /// Who follows the task, or did last.
    pub(super) fn client(&self) -> Option<Peer> {
        self.0.borrow().clone()
    }

    /// Who follows the task; on the next call, who does after that. `None` once the task's work has ended.
    pub(super) async fn next_client(&mut self) -> Option<Peer> {
        loop {
            self.0.changed().await.ok()?;
            let client = self.0.borrow_and_update().clone();
            if client.is_some() {
                return client;
            }
        }
    }
}

/// A task whose work goes on in this process: found here by whoever follows it, until this is dropped.
pub(super) struct Place {
    shared: Arc<Shared>,
    id: TaskId,
    line: Line,
}

impl Place {
    pub(super) fn enter(shared: &Arc<Shared>, id: &TaskId, client: Option<Peer>) -> Self {
        let (sender, line) = watch::channel(client);
        lock(&shared.lines).insert(id.clone(), sender);
        shared.running.send_modify(|running| *running += 1);
        shared.stirred.notify_one();
        Self { shared: Arc::clone(shared), id: id.clone(), line: Line(line) }
    }

    pub(super) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn store(&self) -> &dyn TaskStore {
        &*self.shared.store
    }

    /// The line, whose first client is whoever there is now.
    pub(super) fn line(&self) -> Line {
        let mut line = self.line.clone();
        line.0.mark_changed();
        line
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.shared.lines).remove(&self.id);
        self.shared.running.send_modify(|running| *running -= 1);
    }
}

impl Shared {
    /// From now on the work of that task, if it goes on here, speaks to `client`.
    pub(super) fn follow(&self, id: &TaskId, client: Peer) {
        if let Some(line) = lock(&self.lines).get(id) {
            line.send_replace(Some(client));
        }
    }
}
