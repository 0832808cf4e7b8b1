//! Work that a handler does, as seen by itself: started, and then stopped or finished.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::sync::watch;

/// What became of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Running,
    /// It was dropped, or told to stop and did.
    Stopped,
    /// It came to its own end.
    Finished,
}

/// All the work of one server. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Work(Arc<Board>);

#[derive(Debug, Default)]
struct Board {
    fates: watch::Sender<BTreeMap<String, Fate>>,
    released: watch::Sender<BTreeSet<String>>,
}

/// Marks the work as stopped unless it comes to another end.
struct Mark<'a>(&'a Work, &'a str);

impl Work {
    /// Works under `name` until it is released; being dropped before that is being stopped.
    pub async fn run(&self, name: &str) -> String {
        self.mark(name, Fate::Running);
        let mark = Mark(self, name);
        let mut released = self.0.released.subscribe();
        let _ = released.wait_for(|released| released.contains(name)).await;
        self.mark(name, Fate::Finished);
        std::mem::forget(mark);
        format!("result of {name}")
    }

    /// The same, and stops when `told` does.
    pub async fn run_until(&self, name: &str, told: impl Future<Output = ()>) -> Option<String> {
        tokio::select! {
            biased;
            () = told => {
                self.mark(name, Fate::Stopped);
                None
            }
            done = self.run(name) => Some(done),
        }
    }

    /// Lets the work under `name` finish.
    pub fn release(&self, name: &str) {
        self.0.released.send_modify(|released| {
            released.insert(name.into());
        });
    }

    /// Waits until the work has come to `fate`.
    pub async fn comes_to(&self, name: &str, fate: Fate) {
        let mut fates = self.0.fates.subscribe();
        let _ = fates.wait_for(|fates| fates.get(name) == Some(&fate)).await;
    }

    /// What became of the work under `name`; `None` if it never started.
    pub fn fate(&self, name: &str) -> Option<Fate> {
        self.0.fates.borrow().get(name).copied()
    }

    /// How many pieces of work there are in this state.
    pub fn count(&self, fate: Fate) -> usize {
        self.0.fates.borrow().values().filter(|found| **found == fate).count()
    }

    fn mark(&self, name: &str, fate: Fate) {
        self.0.fates.send_modify(|fates| {
            fates.insert(name.into(), fate);
        });
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.0.mark(self.1, Fate::Stopped);
    }
}
