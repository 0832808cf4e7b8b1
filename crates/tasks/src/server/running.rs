//! The tasks whose work runs in this process, and the client that each of them talks to: first the one that made the
//! task, later whichever waits for its result.

use std::sync::Arc;

use rescind::peer::Peer;
use tokio::sync::watch;

use super::Shared;
use crate::{followed::lock, id::TaskId, store::TaskStore};

/// The client of a task at this moment. It stays the client after its connection has ended, until another follows the
/// task.
#[derive(Clone)]
pub(super) struct CurrentClient(watch::Receiver<Option<Peer>>);

impl CurrentClient {
    pub(super) fn get(&self) -> Option<Peer> {
        self.0.borrow().clone()
    }

    /// Returns the client at the first call, and at each later one waits for another. `None` once the task's work has
    /// ended.
    pub(super) async fn next(&mut self) -> Option<Peer> {
        loop {
            self.0.changed().await.ok()?;
            let client = self.0.borrow_and_update().clone();
            if client.is_some() {
                return client;
            }
        }
    }
}

/// An entry in the table of running tasks; dropping it removes the entry.
pub(super) struct RunningTask {
    shared: Arc<Shared>,
    id: TaskId,
    client: CurrentClient,
}

impl RunningTask {
    pub(super) fn register(shared: &Arc<Shared>, id: &TaskId, client: Option<Peer>) -> Self {
        let (sender, client) = watch::channel(client);
        lock(&shared.clients).insert(id.clone(), sender);
        shared.running.send_modify(|running| *running += 1);
        shared.activity.notify_one();
        Self { shared: Arc::clone(shared), id: id.clone(), client: CurrentClient(client) }
    }

    pub(super) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn store(&self) -> &dyn TaskStore {
        &*self.shared.store
    }

    /// Returns the client; the first [`next`](CurrentClient::next) is the one of now.
    pub(super) fn client(&self) -> CurrentClient {
        let mut client = self.client.clone();
        client.0.mark_changed();
        client
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        lock(&self.shared.clients).remove(&self.id);
        self.shared.running.send_modify(|running| *running -= 1);
    }
}

impl Shared {
    /// Makes `client` the one that the work of this task talks to, if the work runs here.
    pub(super) fn follow(&self, id: &TaskId, client: Peer) {
        if let Some(current) = lock(&self.clients).get(id) {
            current.send_replace(Some(client));
        }
    }
}
