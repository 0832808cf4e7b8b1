//! From the caller's cancel to the handler that sees it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::poll;
use rescind_bench::statistics::percentile;

use crate::cell::Outcome;
use crate::contender::{Caller, Failure, Library};
use crate::watchdog;
use crate::wire::Wire;
use crate::work::{Verb, Work};

/// Calls outstanding beside the cancelled one, when busy.
const BUSY: usize = 64;

pub(crate) async fn measure<L: Library>(is_busy: bool, samples: usize, patience: Duration) -> Result<Outcome, Failure> {
    let [client, server] = Wire::Unix.ends()?;
    let work = Work::new();
    let caller = L::open(client, server, Arc::clone(&work), samples + BUSY + 1).await?;
    for _ in 0..200 {
        caller.echo().await?;
    }
    let done = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..if is_busy { BUSY } else { 0 })
        .map(|_| {
            let (caller, done) = (caller.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    caller.echo().await?;
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    let mut nanoseconds = Vec::with_capacity(samples);
    let mut lost = 0;
    for _ in 0..samples {
        match one(&caller, &work, patience).await? {
            Some(took) => nanoseconds.push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX)),
            None => lost += 1,
        }
        watchdog::progress();
    }
    done.store(true, Ordering::Relaxed);
    for task in busy {
        task.await??;
    }
    nanoseconds.sort_unstable();
    let microseconds = |percent| f64::from(percentile(&nanoseconds, percent)) / 1e3;
    Ok(Outcome::Cancels { p50_us: microseconds(50), p99_us: microseconds(99), lost })
}

/// Starts a call, cancels it once its handler works, and says how long the handler took to see that; `None` if it
/// did not within `patience`.
async fn one<C: Caller>(caller: &C, work: &Work, patience: Duration) -> Result<Option<Duration>, Failure> {
    let mut call = [caller.call(Verb::Wait)];
    super::drive(&mut call, &work.begun, work.begun.count() + 1).await?;
    let [call] = call;
    let mut stopped = pin!(work.stopped.reach(work.stopped.count() + 1));
    // Both are set up here, so that nothing of it counts.
    let mut lost = pin!(tokio::time::sleep(patience));
    if poll!(stopped.as_mut()).is_ready() || poll!(lost.as_mut()).is_ready() {
        return Err("a handler has stopped by itself".into());
    }
    let began = Instant::now();
    caller.cancel(call).await?;
    tokio::select! {
        biased;
        () = stopped => Ok(Some(work.last_stop().saturating_duration_since(began))),
        () = lost => Ok(None),
    }
}
