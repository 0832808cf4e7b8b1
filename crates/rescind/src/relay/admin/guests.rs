//! The connections of the socket, and which of them leaves when there are too many.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::task::{AbortHandle, JoinSet};

/// The most connections at once.
const MOST: usize = 64;

/// The last activity of a connection that stays.
const SUBSCRIBED: u64 = u64::MAX;

/// The connections that are served.
///
/// One more than the limit takes the place of the one that has asked for nothing for the longest, so that silent
/// connections keep nobody out. Subscribers stay; they have a limit of their own, far below this one.
#[derive(Debug, Default)]
pub(super) struct Guests {
    tasks: JoinSet<()>,
    present: Vec<Guest>,
    turns: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Guest {
    task: AbortHandle,
    activity: Activity,
}

/// When a connection last asked for something: a turn, of which each is given once.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    last: Arc<AtomicU64>,
    turns: Arc<AtomicU64>,
}

impl Activity {
    /// A request has arrived.
    pub(super) fn note(&self) {
        self.last.store(self.turns.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The connection subscribed: it is silent from now on, and stays.
    pub(super) fn note_subscription(&self) {
        self.last.store(SUBSCRIBED, Ordering::Relaxed);
    }

    fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }
}

impl Guests {
    /// Serves a new connection, which has asked for nothing yet but is the newest.
    pub(super) fn admit<F>(&mut self, serve: impl FnOnce(Activity) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while self.present.len() >= MOST {
            let stillest = (0..self.present.len()).min_by_key(|place| self.present[*place].activity.last());
            if let Some(place) = stillest {
                self.present.swap_remove(place).task.abort();
            }
        }
        let activity = Activity { last: Arc::default(), turns: Arc::clone(&self.turns) };
        activity.note();
        let task = self.tasks.spawn(serve(activity.clone()));
        self.present.push(Guest { task, activity });
    }

    /// Waits for a connection to end, and forgets it. `None` if there is none.
    pub(super) async fn leave(&mut self) -> Option<()> {
        let left = self.tasks.join_next_with_id().await?;
        let id = left.map_or_else(|error| error.id(), |(id, ())| id);
        self.present.retain(|guest| guest.task.id() != id);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;

    /// Says which connection ended.
    struct Leaves(usize, UnboundedSender<usize>);

    impl Drop for Leaves {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    #[tokio::test]
    async fn one_too_many_takes_the_place_of_the_stillest_and_never_of_a_subscriber() {
        let (mut guests, mut activities) = (Guests::default(), Vec::new());
        let (leaves, mut left) = unbounded_channel();
        let mut come = |guests: &mut Guests, name| {
            let leaves = Leaves(name, leaves.clone());
            guests.admit(|activity| {
                activities.push(activity);
                async move {
                    let _leaves = leaves;
                    pending::<()>().await;
                }
            });
            activities[name].clone()
        };
        come(&mut guests, 0).note_subscription();
        let second = come(&mut guests, 1);
        (2..MOST).for_each(|name| drop(come(&mut guests, name)));
        // It asks once more, so the third is the stillest.
        second.note();
        for (newest, leaver) in [(MOST, 2), (MOST + 1, 3)] {
            come(&mut guests, newest);
            assert_eq!(guests.leave().await, Some(()));
            assert_eq!((left.recv().await, guests.present.len()), (Some(leaver), MOST));
        }
        (MOST + 2..1000).for_each(|name| drop(come(&mut guests, name)));
        while guests.tasks.len() > MOST {
            guests.leave().await;
        }
        left.close();
        let mut gone = Vec::new();
        while let Some(name) = left.recv().await {
            gone.push(name);
        }
        assert!(gone.contains(&1) && !gone.contains(&0), "{gone:?}");
    }
}
