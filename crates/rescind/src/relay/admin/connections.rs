//! The connections of the socket, and which one is closed when there are too many.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::task::{AbortHandle, JoinSet};

/// The most connections at once.
const MAX_CONNECTIONS: usize = 64;

/// The activity of a subscriber, which is never the idlest.
const SUBSCRIBED: u64 = u64::MAX;

/// The connections that are served.
///
/// At the limit a new connection replaces the idlest one, so that silent connections keep no client out. Subscribers
/// are never replaced; they have a limit of their own, far below this one.
#[derive(Debug, Default)]
pub(super) struct Connections {
    tasks: JoinSet<()>,
    open: Vec<OpenConnection>,
    clock: Arc<AtomicU64>,
}

#[derive(Debug)]
struct OpenConnection {
    task: AbortHandle,
    activity: Activity,
}

/// When a connection last sent a request, as a number from a counter that all connections share.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    last: Arc<AtomicU64>,
    clock: Arc<AtomicU64>,
}

impl Activity {
    /// Records that a request has arrived.
    pub(super) fn touch(&self) {
        self.last.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Records that the connection subscribed: it is silent from now on, and stays.
    pub(super) fn mark_subscribed(&self) {
        self.last.store(SUBSCRIBED, Ordering::Relaxed);
    }

    fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }
}

impl Connections {
    /// Serves a new connection. Until its first request it counts as active now.
    pub(super) fn accept<F>(&mut self, serve: impl FnOnce(Activity) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while self.open.len() >= MAX_CONNECTIONS {
            let idlest = (0..self.open.len()).min_by_key(|place| self.open[*place].activity.last());
            if let Some(place) = idlest {
                self.open.swap_remove(place).task.abort();
            }
        }
        let activity = Activity { last: Arc::default(), clock: Arc::clone(&self.clock) };
        activity.touch();
        let task = self.tasks.spawn(serve(activity.clone()));
        self.open.push(OpenConnection { task, activity });
    }

    /// Waits for a connection to end and removes it. `None` if there is none.
    pub(super) async fn reap(&mut self) -> Option<()> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.open.retain(|connection| connection.task.id() != id);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;

    /// Reports which connection ended.
    struct EndReporter(usize, UnboundedSender<usize>);

    impl Drop for EndReporter {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    #[tokio::test]
    async fn at_the_limit_the_idlest_connection_is_replaced_and_never_a_subscriber() {
        let (mut connections, mut activities) = (Connections::default(), Vec::new());
        let (reports, mut ended) = unbounded_channel();
        let mut connect = |connections: &mut Connections, name| {
            let reports = EndReporter(name, reports.clone());
            connections.accept(|activity| {
                activities.push(activity);
                async move {
                    let _reports = reports;
                    pending::<()>().await;
                }
            });
            activities[name].clone()
        };
        connect(&mut connections, 0).mark_subscribed();
        let second = connect(&mut connections, 1);
        (2..MAX_CONNECTIONS).for_each(|name| drop(connect(&mut connections, name)));
        // It sends another request, so the third is the idlest.
        second.touch();
        for (newest, expected) in [(MAX_CONNECTIONS, 2), (MAX_CONNECTIONS + 1, 3)] {
            connect(&mut connections, newest);
            assert_eq!(connections.reap().await, Some(()));
            assert_eq!((ended.recv().await, connections.open.len()), (Some(expected), MAX_CONNECTIONS));
        }
        (MAX_CONNECTIONS + 2..1000).for_each(|name| drop(connect(&mut connections, name)));
        while connections.tasks.len() > MAX_CONNECTIONS {
            connections.reap().await;
        }
        ended.close();
        let mut closed = Vec::new();
        while let Some(name) = ended.recv().await {
            closed.push(name);
        }
        assert!(closed.contains(&1) && !closed.contains(&0), "{closed:?}");
    }
}
