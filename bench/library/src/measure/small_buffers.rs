//! Everything outstanding at once, and next to no room on the way: it only
//! has to finish.

use std::time::Instant;

use crate::cell::Outcome;
use crate::contender::{self, Caller as _, Depth, Failure, Library};
use crate::watchdog;
use crate::wire::Wire;
use crate::work::Work;

pub(crate) async fn of_lines(wire: Wire, depth: Depth, requests: usize) -> Result<Outcome, Failure> {
    let took = contender::echoes(wire.ends()?, depth, requests, requests).await?;
    Ok(Outcome::SmallBuffers { seconds: took.as_secs_f64() })
}

pub(crate) async fn of_calls<L: Library>(wire: Wire, requests: usize) -> Result<Outcome, Failure> {
    let [client, server] = wire.ends()?;
    let caller = L::open(client, server, Work::new(), requests).await?;
    let began = Instant::now();
    let calling: Vec<_> = (0..requests)
        .map(|_| {
            let caller = caller.clone();
            tokio::spawn(async move {
                let answer = caller.echo().await;
                watchdog::progress();
                answer
            })
        })
        .collect();
    for task in calling {
        task.await??;
    }
    Ok(Outcome::SmallBuffers { seconds: began.elapsed().as_secs_f64() })
}
