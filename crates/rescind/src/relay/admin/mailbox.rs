//! Queries from the socket's connections to the link, and their answers.
//!
//! A query is a function of the link. A connection's task puts it into the mailbox, and the drive answers one query
//! between two inputs: however many clients ask, the link waits for one answer at most. With no query waiting, the
//! drive reads one flag.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
};

use tokio::sync::oneshot;

use super::link_view::LinkView;

type Query = Box<dyn FnOnce(&mut LinkView<'_>) + Send>;

/// Queries that wait: at most one of each connection, and one of the report timer.
#[derive(Default)]
pub(super) struct Mailbox {
    has_queries: AtomicBool,
    queue: Mutex<QueryQueue>,
}

#[derive(Default)]
struct QueryQueue {
    queries: VecDeque<Query>,
    drive: Option<Waker>,
    closed: bool,
}

impl Mailbox {
    /// Sends a query and waits for its answer; `None` if the link is over.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut LinkView<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        {
            let mut queue = self.queue();
            if queue.closed {
                return None;
            }
            queue.queries.push_back(Box::new(move |link| drop(sender.send(query(link)))));
            self.has_queries.store(true, Ordering::Relaxed);
            if let Some(drive) = &queue.drive {
                drive.wake_by_ref();
            }
        }
        answer.await.ok()
    }

    /// Sets the waker for new queries, and wakes it now if one is waiting.
    pub(super) fn register(&self, drive: &Waker) {
        let mut queue = self.queue();
        queue.drive = Some(drive.clone());
        if !queue.queries.is_empty() {
            drive.wake_by_ref();
        }
    }

    #[inline]
    pub(super) fn has_queries(&self) -> bool {
        self.has_queries.load(Ordering::Relaxed)
    }

    /// Removes the query that has waited longest.
    pub(super) fn receive(&self) -> Option<Query> {
        let mut queue = self.queue();
        let query = queue.queries.pop_front();
        self.has_queries.store(!queue.queries.is_empty(), Ordering::Relaxed);
        query
    }

    /// Refuses further queries and drops those that wait.
    pub(super) fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        queue.queries = VecDeque::new();
    }

    fn queue(&self) -> MutexGuard<'_, QueryQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

debug_fields!(Mailbox);
