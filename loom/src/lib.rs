//! The wake-up of the driver and the signal of a handler, in every interleaving that loom can find.
//!
//! `cargo test --manifest-path loom/Cargo.toml`

#![cfg(test)]

#[path = "../../crates/rescind/src/peer/sync.rs"]
#[allow(dead_code, unreachable_pub, reason = "the file belongs to another crate")]
mod sync;

use std::{
    future::poll_fn,
    task::{Context, Poll, Wake, Waker},
};

use loom::{
    future::block_on,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use sync::{DriverNotify, Signal};

/// A driver that sleeps only when it was not notified sees every change; else it would sleep for ever, which
/// loom reports as a deadlock.
#[test]
fn a_driver_sleeps_through_no_notification() {
    let mut model = loom::model::Builder::new();
    // Two callers and a driver that looks again and again: every schedule with at most this many preemptions.
    model.preemption_bound = Some(3);
    model.check(|| {
        let (driver_notify, changes) = (Arc::new(DriverNotify::new()), Arc::new(AtomicUsize::new(0)));
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let (driver_notify, changes) = (Arc::clone(&driver_notify), Arc::clone(&changes));
                thread::spawn(move || {
                    changes.fetch_add(1, Ordering::Relaxed);
                    driver_notify.notify();
                })
            })
            .collect();
        block_on(poll_fn(|cx| {
            loop {
                driver_notify.begin_turn();
                if changes.load(Ordering::Relaxed) == 2 {
                    return Poll::Ready(());
                }
                if driver_notify.poll_notified(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        }));
        for caller in callers {
            caller.join().unwrap();
        }
    });
}

/// Whoever adds a hook while the signal fires has it run once: by the one who fires, or by itself.
#[test]
fn every_hook_is_handed_out_exactly_once() {
    loom::model(|| {
        let signal = Arc::new(Signal::<u8, u8>::new());
        let run = Arc::new(AtomicUsize::new(0));
        let adders: Vec<_> = (0..2)
            .map(|hook| {
                let (signal, run) = (Arc::clone(&signal), Arc::clone(&run));
                thread::spawn(move || {
                    if signal.add(hook).is_err() {
                        assert!(signal.is_fired());
                        assert_eq!(signal.cause(), Some(7));
                        run.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let (_, hooks) = signal.fire(Some(7));
        run.fetch_add(hooks.count(), Ordering::Relaxed);
        assert_eq!(signal.fire(Some(8)).1.count(), 0, "it fires once");
        for adder in adders {
            adder.join().unwrap();
        }
        assert_eq!(run.load(Ordering::Relaxed), 2);
        assert_eq!(signal.cause(), Some(7));
    });
}

/// A hook that is taken back while the signal fires is run or taken back, never both.
#[test]
fn a_hook_is_run_or_taken_back() {
    loom::model(|| {
        let signal = Arc::new(Signal::<u8, u8>::new());
        let place = signal.add(1).unwrap();
        let other = {
            let signal = Arc::clone(&signal);
            thread::spawn(move || signal.remove(place).is_some())
        };
        let run = signal.fire(None).1.count();
        let taken = usize::from(other.join().unwrap());
        assert_eq!(run + taken, 1);
    });
}

/// A handler's task that waits is woken when it is to be dropped, however the two cross.
#[test]
fn a_waiting_task_learns_that_it_is_forced() {
    loom::model(|| {
        let signal = Arc::new(Signal::<u8, u8>::new());
        let driver = {
            let signal = Arc::clone(&signal);
            thread::spawn(move || {
                let (task, _) = signal.fire(Some(1));
                assert!(task.is_none(), "it does not wait for that");
                signal.force();
            })
        };
        block_on(poll_fn(|cx| signal.poll_forced(cx)));
        assert!(signal.is_fired() && signal.is_forced());
        driver.join().unwrap();
    });
}

/// A handler's task that waits for its token is woken when it fires, and again when it is forced, however they cross.
#[test]
fn a_task_that_waits_for_its_token_learns_both() {
    loom::model(|| {
        let signal = Arc::new(Signal::<u8, Waker>::new());
        let driver = {
            let signal = Arc::clone(&signal);
            thread::spawn(move || {
                let (task, hooks) = signal.fire(Some(1));
                task.into_iter().chain(hooks).for_each(Waker::wake);
                signal.force();
            })
        };
        let mut places = Vec::new();
        block_on(poll_fn(|cx| {
            // Clones know each other for the same; loom's original and its clone may not.
            let waker = cx.waker().clone();
            let cx = &mut Context::from_waker(&waker);
            if signal.poll_forced(cx).is_ready() {
                return Poll::Ready(());
            }
            match signal.wait(cx.waker(), |waker| waker) {
                Some(place) => {
                    places.extend(place);
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        }));
        assert!(signal.is_fired());
        block_on(poll_fn(|cx| signal.poll_forced(cx)));
        assert!(places.is_empty(), "its waker was there already");
        driver.join().unwrap();
    });
}

/// What finds the deadlock: a driver that starts to wait before its waker is in place. Kept as the check of the check.
#[test]
#[should_panic(expected = "deadlock")]
fn a_careless_driver_is_found() {
    struct Flag;
    impl Wake for Flag {
        fn wake(self: std::sync::Arc<Self>) {}
    }
    loom::model(|| {
        let (driver_notify, changed) = (Arc::new(DriverNotify::new()), Arc::new(AtomicUsize::new(0)));
        let caller = {
            let (driver_notify, changed) = (Arc::clone(&driver_notify), Arc::clone(&changed));
            thread::spawn(move || {
                changed.store(1, Ordering::Relaxed);
                driver_notify.notify();
            })
        };
        block_on(poll_fn(|_cx| {
            driver_notify.begin_turn();
            // The waker it leaves is nobody's.
            let nobody = Waker::from(std::sync::Arc::new(Flag));
            if changed.load(Ordering::Relaxed) == 1
                || driver_notify.poll_notified(&mut Context::from_waker(&nobody)).is_ready()
            {
                return Poll::Ready(());
            }
            Poll::Pending
        }));
        caller.join().unwrap();
    });
}
