//! A future that nobody awaits, polled by whoever wakes it.
//!
//! What is left to do for a task whose caller has gone is two calls at most. Their answers are told by the connection's
//! driver, or by its end; so the driver is what runs such a future, and no task, thread or runtime of its own is needed.
//! It must wait for calls only, each with a clock in the engine: then it ends.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Unattended {
    work: Mutex<Option<Work>>,
    is_woken: AtomicBool,
}

/// Runs `work` as far as it goes now; whoever wakes it later runs it on.
pub(super) fn run(work: Work) {
    Arc::new(Unattended { work: Mutex::new(Some(work)), is_woken: AtomicBool::new(false) }).wake();
}

impl Wake for Unattended {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        while self.is_woken.load(Ordering::SeqCst) {
            let mut work = match self.work.try_lock() {
                Ok(work) => work,
                Err(TryLockError::Poisoned(error)) => error.into_inner(),
                // Whoever polls it looks for wakes when it has given the lock back.
                Err(TryLockError::WouldBlock) => return,
            };
            self.is_woken.store(false, Ordering::SeqCst);
            let Some(future) = work.as_mut() else { return };
            let waker = Waker::from(Arc::clone(&self));
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
            if !matches!(polled, Ok(Poll::Pending)) {
                let over = work.take();
                drop(work);
                // A panic has no caller to go to; what it leaves is dropped, which tells whoever waits.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(over)));
            }
        }
    }
}

impl Drop for Unattended {
    fn drop(&mut self) {
        let work = self.work.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::{Arc, Mutex, mpsc},
        task::{Poll, Waker},
    };

    use super::run;

    /// A future of so many polls that wakes itself during each.
    #[test]
    fn a_wake_during_a_poll_is_not_lost() {
        let (tell, told) = mpsc::channel();
        let mut left = 3;
        run(Box::pin(async move {
            poll_fn(|cx| {
                left -= 1;
                cx.waker().wake_by_ref();
                if left == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            tell.send(()).unwrap();
        }));
        told.try_recv().unwrap();
    }

    #[test]
    fn a_later_wake_runs_it_on_and_its_end_drops_it() {
        let kept: Arc<Mutex<Option<Waker>>> = Arc::default();
        let (tell, told) = mpsc::channel();
        let inside = Arc::clone(&kept);
        run(Box::pin(async move {
            let mut woken = false;
            poll_fn(|cx| {
                *inside.lock().unwrap() = Some(cx.waker().clone());
                if std::mem::replace(&mut woken, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            tell.send(()).unwrap();
        }));
        assert!(told.try_recv().is_err());
        let waker = kept.lock().unwrap().take().unwrap();
        waker.wake();
        told.try_recv().unwrap();
        assert_eq!(Arc::strong_count(&kept), 1, "what it held is gone");
    }

    #[test]
    fn a_panic_ends_there() {
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        run(Box::pin(async move {
            let _held = inside;
            panic!("of the test");
        }));
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
