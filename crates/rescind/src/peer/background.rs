//! Work that the driver polls after its caller has gone.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::sync::DriverNotify;

pub(crate) struct Background {
    /// `None` once it has ended.
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    wake: Arc<WakeDriver>,
}

/// Marks the work for the driver's next turn. It polls nothing and takes no lock of the connection, so it may be woken
/// anywhere: during its own poll, or under a lock.
struct WakeDriver {
    is_woken: AtomicBool,
    driver_notify: Arc<DriverNotify>,
}

impl Wake for WakeDriver {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.driver_notify.notify();
    }
}

impl Background {
    pub(crate) fn new(driver_notify: &Arc<DriverNotify>, work: impl Future<Output = ()> + Send + 'static) -> Self {
        let wake = WakeDriver { is_woken: AtomicBool::new(true), driver_notify: Arc::clone(driver_notify) };
        Self { work: Some(Box::pin(work)), wake: Arc::new(wake) }
    }

    /// Polls the work if it was woken. Whether it goes on; a panic ends it (case 21).
    pub(crate) fn poll(&mut self) -> bool {
        let Some(work) = &mut self.work else { return false };
        if !self.wake.is_woken.swap(false, Ordering::Acquire) {
            return true;
        }
        let waker = Waker::from(Arc::clone(&self.wake));
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut Context::from_waker(&waker))));
        let goes_on = matches!(polled, Ok(Poll::Pending));
        if !goes_on {
            self.end();
        }
        goes_on
    }

    /// Polls the work once more, to see the end of its calls, and drops it.
    pub(crate) fn poll_last(mut self) {
        self.wake.is_woken.store(true, Ordering::Release);
        if self.poll() {
            self.end();
        }
    }

    fn end(&mut self) {
        let work = self.work.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, poll_fn},
        sync::{Arc, Mutex},
        task::{Poll, Waker},
    };

    use rescind_proto::dialect::mcp;
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    use super::super::{Driver, Peer, transport};

    /// A connection, its other side, and a channel that shows what the work does.
    fn connect() -> (Peer, Driver, transport::Transport, UnboundedSender<u32>, UnboundedReceiver<u32>) {
        let (near, far) = transport::memory();
        let (peer, driver) = Peer::builder(&mcp::LATEST_LEGACY).connect(near);
        let (report, reported) = unbounded_channel();
        (peer, driver, far, report, reported)
    }

    /// Work that reports how often it was polled, and hands out its waker.
    fn counting(report: UnboundedSender<u32>, waker: Arc<Mutex<Option<Waker>>>) -> impl Future<Output = ()> + Send {
        let mut polls = 0;
        poll_fn(move |cx| {
            polls += 1;
            let _ = report.send(polls);
            *waker.lock().expect("no panic") = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    #[tokio::test]
    async fn work_is_polled_at_once_and_then_by_the_driver_when_it_was_woken() {
        let (peer, driver, _far, report, mut reported) = connect();
        let waker = Arc::default();
        peer.drive(counting(report, Arc::clone(&waker)));
        assert_eq!(reported.try_recv(), Ok(1));
        let driver = driver.spawn();
        tokio::task::yield_now().await;
        assert!(reported.try_recv().is_err(), "it was not woken");
        for poll in 2..5 {
            waker.lock().expect("no panic").take().expect("it was polled").wake();
            assert!(reported.try_recv().is_err(), "a waker polls nothing");
            assert_eq!(reported.recv().await, Some(poll));
        }
        peer.shutdown();
        driver.await.expect("no panic").expect("it ended in order");
    }

    #[tokio::test]
    async fn a_wake_during_its_own_poll_is_not_lost() {
        let (peer, driver, _far, report, mut reported) = connect();
        let mut left = 3;
        peer.drive(poll_fn(move |cx| {
            left -= 1;
            let _ = report.send(left);
            cx.waker().wake_by_ref();
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        }));
        driver.spawn();
        for left in [2, 1, 0] {
            assert_eq!(reported.recv().await, Some(left));
        }
        assert_eq!(reported.recv().await, None, "it is dropped when it ends");
    }

    #[tokio::test]
    async fn it_may_be_woken_under_the_lock_of_its_connection() {
        let (peer, driver, _far, report, mut reported) = connect();
        let waker = Arc::default();
        peer.drive(counting(report, Arc::clone(&waker)));
        driver.spawn();
        assert_eq!(reported.recv().await, Some(1));
        {
            let _state = peer.shared().lock();
            waker.lock().expect("no panic").take().expect("it was polled").wake();
        }
        assert_eq!(reported.recv().await, Some(2));
    }

    #[tokio::test]
    async fn what_is_left_at_the_end_of_the_connection_is_polled_once_more_and_dropped() {
        for is_driven in [false, true] {
            let (peer, driver, _far, report, mut reported) = connect();
            peer.drive(counting(report.clone(), Arc::default()));
            assert_eq!(reported.recv().await, Some(1));
            if is_driven {
                peer.shutdown();
                driver.await.expect("it ended in order");
            } else {
                drop(driver);
            }
            assert_eq!(reported.recv().await, Some(2));
            // What comes later has its polls at once.
            peer.drive(counting(report, Arc::default()));
            assert_eq!((reported.recv().await, reported.recv().await), (Some(1), Some(2)));
            assert_eq!(reported.recv().await, None, "both are dropped");
        }
    }

    #[tokio::test]
    async fn a_panic_ends_the_work_and_nothing_else() {
        let (peer, driver, _far, report, mut reported) = connect();
        let driver = driver.spawn();
        let held = report.clone();
        peer.drive(async move {
            tokio::task::yield_now().await;
            held.send(1).expect("the test receives");
            panic!("of the test");
        });
        assert_eq!(reported.recv().await, Some(1));
        peer.drive(async move {
            tokio::task::yield_now().await;
            report.send(2).expect("the test receives");
        });
        assert_eq!(reported.recv().await, Some(2));
        assert_eq!(reported.recv().await, None, "what the work held is dropped");
        peer.shutdown();
        driver.await.expect("no panic").expect("it ended in order");
    }

    #[tokio::test]
    async fn a_connection_without_handles_stays_open_for_work_that_holds_one() {
        let (peer, driver, _far, report, mut reported) = connect();
        let driver = driver.spawn();
        let held = peer.clone();
        peer.drive(async move {
            let _held = held;
            let _report = report;
            pending::<()>().await;
        });
        drop(peer);
        tokio::task::yield_now().await;
        assert!(!driver.is_finished());
        driver.abort();
        assert_eq!(reported.recv().await, None);
    }
}
