//! Round trips a second.

use std::time::{Duration, Instant};

use crate::cell::Outcome;
use crate::contender::{self, Caller, Depth, Failure, Library};
use crate::watchdog;
use crate::wire::Wire;
use crate::work::Work;

/// Round trips that the length of a measurement is guessed from, for each outstanding one.
const WARM_UP: usize = 8;
/// And at least so many.
const WARM_UP_LEAST: usize = 2_000;
/// Every how many round trips a caller says that it lives.
const PROGRESS: usize = 16;

pub(crate) async fn of_lines(wire: Wire, depth: Depth, window: usize, length: Duration) -> Result<Outcome, Failure> {
    let warm_up = (window * WARM_UP).max(WARM_UP_LEAST);
    let took = contender::echoes(wire.ends()?, depth, warm_up, window).await?;
    let count = fitting(warm_up, took, length);
    let took = contender::echoes(wire.ends()?, depth, count, window).await?;
    Ok(Outcome::Echoes { per_s: count as f64 / took.as_secs_f64() })
}

pub(crate) async fn of_calls<L: Library>(wire: Wire, window: usize, length: Duration) -> Result<Outcome, Failure> {
    let [client, server] = wire.ends()?;
    let caller = L::open(client, server, Work::new(), window).await?;
    let each = (WARM_UP_LEAST / window).max(WARM_UP);
    let took = echoes(&caller, each, window).await?;
    let each = fitting(each, took, length);
    let took = echoes(&caller, each, window).await?;
    Ok(Outcome::Echoes { per_s: (each * window) as f64 / took.as_secs_f64() })
}

/// How many last for `length`, when `count` lasted for `took`.
fn fitting(count: usize, took: Duration, length: Duration) -> usize {
    let count = count as f64 * length.as_secs_f64() / took.as_secs_f64();
    (count as usize).max(WARM_UP)
}

/// `window` tasks, each of which calls `each` times, one after the other.
async fn echoes<C: Caller>(caller: &C, each: usize, window: usize) -> Result<Duration, Failure> {
    if window == 1 {
        let began = Instant::now();
        repeat(caller, each).await?;
        return Ok(began.elapsed());
    }
    let began = Instant::now();
    let calling: Vec<_> = (0..window)
        .map(|_| {
            let caller = caller.clone();
            tokio::spawn(async move { repeat(&caller, each).await })
        })
        .collect();
    for task in calling {
        task.await??;
    }
    Ok(began.elapsed())
}

async fn repeat<C: Caller>(caller: &C, count: usize) -> Result<(), Failure> {
    for number in 0..count {
        caller.echo().await?;
        if number % PROGRESS == 0 {
            watchdog::progress();
        }
    }
    Ok(())
}
