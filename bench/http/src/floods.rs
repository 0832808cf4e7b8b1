//! The cancel of a quiet client, alone and under another's flood: how long it takes to reach the child.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rescind_bench::statistics::percentile;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::calls::Caller;
use crate::client::Connection;
use crate::gateway::Gateway;
use crate::marks::{Mark, now};
use crate::message::{Era, Requests};
use crate::report::Figures;

/// Connections of the flooding client. Each calls again as soon as it is answered.
const FLOODING: usize = 16;
/// Alone and beside the flood in turn, so often.
const TURNS: usize = 8;
/// How long nothing may happen before what has not happened is lost.
const SILENCE: Duration = Duration::from_secs(5);

/// The client that seldom calls.
struct Quiet<'a> {
    requests: &'a Requests,
    /// On which it posts cancels.
    posting: Connection,
    calls: usize,
    /// How long it rests before each of its calls.
    rests: Duration,
}

impl Quiet<'_> {
    /// Calls and cancels so often; nanoseconds from each cancel until the child has read it.
    async fn cancel(&mut self, gateway: &mut Gateway, era: Era, times: usize) -> io::Result<Vec<u32>> {
        let mut taken = Vec::new();
        for _ in 0..times {
            tokio::time::sleep(self.rests).await;
            self.calls += 1;
            let (work, id) = (self.calls, self.calls as i64);
            let mut calling = Connection::open(gateway.address).await?;
            calling.send(&self.requests.call(id, "hang", &work.to_string())).await?;
            while next(gateway).await? != (Mark::Called { work }) {}
            let left = now();
            match era {
                Era::Modern => drop(calling),
                Era::Legacy => self.posting.send(&self.requests.cancel(id)).await?,
            }
            let at = loop {
                if let Mark::Cancelled { work: Some(cancelled), at } = next(gateway).await?
                    && cancelled == work
                {
                    break at;
                }
            };
            if era == Era::Legacy {
                self.posting.receive().await?;
            }
            taken.push(u32::try_from(at.saturating_sub(left)).unwrap_or(u32::MAX));
        }
        Ok(taken)
    }
}

async fn next(gateway: &mut Gateway) -> io::Result<Mark> {
    timeout(SILENCE, gateway.marks.next()).await.map_err(|_| io::Error::other("the child was not told"))?
}

/// Measures so many cancels of each kind, a little more or less, of a client that rests so long before each.
pub(crate) async fn measure(
    gateway: &mut Gateway,
    sessions: &[Rc<Requests>],
    era: Era,
    (cancels, rests): (usize, Duration),
    figures: &mut Figures,
) -> io::Result<()> {
    let posting = Connection::open(gateway.address).await?;
    let mut quiet = Quiet { requests: &sessions[0], posting, calls: 0, rests };
    let flooding = &sessions[1..2];
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let (mut calls, mut lasted) = (0, Duration::ZERO);
    quiet.cancel(gateway, era, 10).await?;
    for _ in 0..TURNS {
        alone.extend(quiet.cancel(gateway, era, cancels.div_ceil(TURNS)).await?);
        let is_over = Rc::new(Cell::new(false));
        let mut flood = JoinSet::new();
        for number in 0..FLOODING {
            let mut caller = Caller::connect(gateway, flooding, number + 1).await?;
            let is_over = Rc::clone(&is_over);
            flood.spawn_local(async move {
                let mut calls = 0;
                while !is_over.get() {
                    caller.echo().await?;
                    calls += 1;
                }
                Ok::<_, io::Error>(calls)
            });
        }
        let begun = Instant::now();
        beside.extend(quiet.cancel(gateway, era, cancels.div_ceil(TURNS)).await?);
        is_over.set(true);
        lasted += begun.elapsed();
        while let Some(called) = flood.join_next().await {
            calls += called.map_err(io::Error::other)??;
        }
    }
    let mut at = |name_50, name_99, times: &mut Vec<u32>| {
        times.sort_unstable();
        let [p50, p99] = [50, 99].map(|share| f64::from(percentile(times, share)) / 1e3);
        figures.insert(name_50, p50);
        figures.insert(name_99, p99);
        p99
    };
    let alone = at("alone p50 µs", "alone p99 µs", &mut alone);
    let beside = at("under p50 µs", "under p99 µs", &mut beside);
    figures.insert("p99 of alone", beside / alone);
    figures.insert("flood/s", f64::from(calls) / lasted.as_secs_f64());
    Ok(())
}
