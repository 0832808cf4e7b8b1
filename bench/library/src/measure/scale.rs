//! Many requests waiting at once: what they hold in memory, and what it takes
//! to cancel or to answer all of them.

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::idle::resident;
use crate::cell::{Cancelled, Outcome};
use crate::contender::{Caller, Failure, Library};
use crate::watchdog;
use crate::wire::Wire;
use crate::work::{Verb, Work};

/// Calls begun at once while all are being set up.
const AT_ONCE: usize = 256;
/// Round trips before the memory is looked at first.
const WARM_UP: usize = 1_000;

pub(crate) async fn measure<L: Library>(requests: usize, patience: Duration) -> Result<Outcome, Failure> {
    let [client, server] = Wire::Unix.ends()?;
    let work = Work::new();
    // Twice: handlers whose cancel was lost are still there when all are asked again.
    let caller = L::open(client, server, Arc::clone(&work), 2 * requests + AT_ONCE).await?;
    for _ in 0..WARM_UP {
        caller.echo().await?;
    }
    let before = resident()?;
    let calls = begin(&caller, &work, Verb::Wait, requests).await?;
    let bytes = (resident()? - before) / requests as f64;

    watchdog::keep(Outcome::Scale { bytes, cancelled: None, drain_us: None });

    let began = processor_time();
    for (number, call) in calls.into_iter().enumerate() {
        caller.cancel(call).await?;
        if number % AT_ONCE == 0 {
            watchdog::progress();
        }
    }
    let lost = requests - stopped(&work, requests, patience).await;
    let us = since(began) * 1e6 / (requests - lost).max(1) as f64;
    let cancelled = Some(Cancelled { us, lost });
    watchdog::keep(Outcome::Scale { bytes, cancelled, drain_us: None });

    let calls = begin(&caller, &work, Verb::Hold, requests).await?;
    let began = processor_time();
    work.release();
    for (number, call) in calls.into_iter().enumerate() {
        call.await?;
        if number % AT_ONCE == 0 {
            watchdog::progress();
        }
    }
    let drain_us = since(began) * 1e6 / requests as f64;
    Ok(Outcome::Scale { bytes, cancelled, drain_us: Some(drain_us) })
}

/// As many calls, the handlers of all of which are at work.
async fn begin<C: Caller>(caller: &C, work: &Work, verb: Verb, requests: usize) -> Result<Vec<C::Call>, Failure> {
    let mut calls = Vec::with_capacity(requests);
    let begun = work.begun.count();
    while calls.len() < requests {
        let first = calls.len();
        calls.extend((first..requests).take(AT_ONCE).map(|_| caller.call(verb)));
        let target = begun + calls.len();
        super::drive(&mut calls[first..], &work.begun, target).await?;
        watchdog::progress();
    }
    Ok(calls)
}

/// How many of `requests` handlers have seen their cancel, once all have or none has for as long as `patience`.
async fn stopped(work: &Work, requests: usize, patience: Duration) -> usize {
    loop {
        let before = work.stopped.count();
        let all = tokio::time::timeout(patience, work.stopped.reach(requests)).await;
        if all.is_ok() || work.stopped.count() == before {
            return work.stopped.count();
        }
        watchdog::progress();
    }
}

/// Seconds that this process has had of its CPU. Everything is on one thread that never waits while there is
/// something to do: alone on the CPU, it is the time that passes, and else it is what would have.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn since(began: f64) -> f64 {
    processor_time() - began
}
