//! A cancel and the end of the work at the same time, on two threads.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Barrier, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use rescind_tasks::{
    CancelEffect, FinishEffect, MemoryStore, Owner, Run, SqliteOptions, SqliteStore, Status, StoreLimits, TaskDialect,
    TaskStore,
};

use super::rig::{ANYBODY, new, result, stop};

/// Case 57: 100,000 times, one winner each.
#[test]
fn of_cancel_and_completion_exactly_one_wins_in_memory() {
    let store = MemoryStore::new(StoreLimits { tasks_per_owner: u32::MAX, ..StoreLimits::default() });
    let wins = race(&store, &store, 100_000);
    assert!(wins.0 > 100 && wins.1 > 100, "both orders were met: {wins:?}");
}

/// Case 57: 5,000 times, one winner each; every tenth time, the cancel comes through another store on the same file.
#[test]
fn of_cancel_and_completion_exactly_one_wins_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let limits = StoreLimits { tasks_per_owner: u32::MAX, ..StoreLimits::default() };
    let open = || {
        let options = SqliteOptions { limits, ..SqliteOptions::default() };
        SqliteStore::open(folder.path().join("tasks.db"), options).unwrap()
    };
    let (one, other) = (open(), open());
    let wins = (race(&one, &one, 4_500), race(&one, &other, 500));
    assert!(wins.0.0 > 10 && wins.0.1 > 10, "both orders were met: {wins:?}");
}

/// How often the cancel and how often the completion won.
fn race<S: TaskStore + Clone + 'static>(runner: &S, canceller: &S, rounds: u32) -> (u32, u32) {
    let barrier = Arc::new(Barrier::new(2));
    let (start, runs) = mpsc::sync_channel::<Run>(64);
    let (tell, told) = mpsc::sync_channel(64);
    let worker = {
        let barrier = Arc::clone(&barrier);
        thread::spawn(move || {
            for (round, mut run) in (0..rounds).zip(runs) {
                barrier.wait();
                // Some of the time the one, some of the time the other is a little later.
                (0..round % 40).for_each(|_| std::hint::spin_loop());
                tell.send(wait(run.finish(result(), None)).unwrap()).unwrap();
            }
        })
    };
    let mut wins = (0, 0);
    for round in 0..rounds {
        let run = wait(runner.create(new(TaskDialect::November2025))).unwrap();
        let (id, cancelled) = (run.task().summary.id.clone(), run.cancelled());
        start.send(run).unwrap();
        barrier.wait();
        (0..round % 64).for_each(|_| std::hint::spin_loop());
        let cancel = wait(canceller.cancel(ANYBODY, &id, stop())).unwrap();
        let finish = told.recv().unwrap();
        let task = wait(runner.task(&Owner::NONE, &id)).unwrap();
        assert_eq!(task.outcome, Some(result()), "kept, whoever won");
        match (cancel, finish) {
            (CancelEffect::Recorded(_), FinishEffect::Kept) => {
                wins.0 += 1;
                assert_eq!(task.summary.status, Status::Cancelled);
                // The work itself has heard of it.
                assert_eq!(wait(cancelled).cause, stop());
            }
            (CancelEffect::TooLate(_), FinishEffect::Won(Status::Completed)) => {
                wins.1 += 1;
                assert_eq!((task.summary.status, task.cancel), (Status::Completed, None));
            }
            both => panic!("round {round}: {both:?}"),
        }
    }
    drop(start);
    worker.join().unwrap();
    wins
}

/// Waits on this thread: a runtime would be most of what is raced.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}
