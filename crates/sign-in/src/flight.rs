//! Work that many may wait for and that is done once.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::{sync::watch, task::AbortHandle};

/// Work of one kind. While it is under way, all callers that want it wait for the same.
pub(crate) struct Flight<T> {
    current: Mutex<Weak<Shared<T>>>,
}

/// What a task does. Boxed, so that the runtime's code for tasks is in the program once for all of them.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How long the work goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasts {
    /// As long as somebody waits for it.
    WhileAwaited,
    /// To its end: what it leaves half done could not be repaired.
    ToItsEnd,
}

struct Shared<T> {
    done: watch::Receiver<Option<T>>,
    task: AbortHandle,
    lasts: Lasts,
}

impl<T> Flight<T> {
    pub(crate) const fn new() -> Self {
        Self { current: Mutex::new(Weak::new()) }
    }
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// Waits for the work, and begins it if it is not under way. `None` if it broke off. Call it on a tokio runtime.
    ///
    /// Dropping the future is giving up the wait.
    pub(crate) async fn join<F>(&self, lasts: Lasts, work: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let shared = self.current_or(lasts, work);
        let mut done = shared.done.clone();
        let finished = done.wait_for(Option::is_some).await.ok()?;
        finished.clone()
    }

    /// Whether it is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.upgrade().is_some_and(|shared| shared.is_under_way())
    }

    fn current_or<F>(&self, lasts: Lasts, work: impl FnOnce() -> F) -> Arc<Shared<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = current.upgrade().filter(|shared| shared.is_under_way()) {
            return shared;
        }
        let (finish, done) = watch::channel(None);
        let work = work();
        let task: Task = Box::pin(async move {
            let result = work.await;
            let _ = finish.send(Some(result));
        });
        let task = tokio::spawn(task);
        let shared = Arc::new(Shared { done, task: task.abort_handle(), lasts });
        *current = Arc::downgrade(&shared);
        shared
    }
}

impl<T> Shared<T> {
    fn is_under_way(&self) -> bool {
        self.done.borrow().is_none() && self.done.has_changed().is_ok()
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        if self.lasts == Lasts::WhileAwaited {
            self.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::{Semaphore, oneshot};

    use super::*;

    #[tokio::test]
    async fn many_wait_for_the_same_work() {
        let flight = Flight::new();
        let (begun, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
        let work = || {
            let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
            async move {
                let number = begun.fetch_add(1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                number
            }
        };
        let (one, other, ()) =
            tokio::join!(flight.join(Lasts::WhileAwaited, work), flight.join(Lasts::WhileAwaited, work), async {
                gate.add_permits(1)
            },);
        assert_eq!((one, other), (Some(0), Some(0)));
        gate.add_permits(1);
        assert_eq!(flight.join(Lasts::WhileAwaited, work).await, Some(1), "what is over is begun again");
    }

    #[tokio::test]
    async fn what_nobody_waits_for_ends_unless_it_must_not() {
        for lasts in [Lasts::WhileAwaited, Lasts::ToItsEnd] {
            let flight = Arc::new(Flight::new());
            let (begun, has_begun) = oneshot::channel();
            let (gone, is_gone) = oneshot::channel::<()>();
            let gate = Arc::new(Semaphore::new(0));
            let (waiting, inner) = (Arc::clone(&flight), Arc::clone(&gate));
            let waiter = tokio::spawn(async move {
                let work = || async move {
                    let _gone = gone;
                    begun.send(()).unwrap();
                    inner.acquire().await.unwrap().forget();
                };
                waiting.join(lasts, work).await
            });
            has_begun.await.unwrap();
            waiter.abort();
            assert!(waiter.await.unwrap_err().is_cancelled());
            if lasts == Lasts::ToItsEnd {
                gate.add_permits(1);
            }
            // Its end, whatever that was.
            assert!(is_gone.await.is_err());
            assert_eq!(gate.available_permits(), 0);
        }
    }
}
