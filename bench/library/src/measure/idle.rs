//! Sessions on which nothing happens: what they hold in memory.

use std::path::Path;

use rescind_bench::process_tree;

use crate::cell::Outcome;
use crate::contender::{Caller, Failure, Library};
use crate::watchdog;
use crate::wire::Wire;
use crate::work::Work;

/// Sessions opened before the memory is looked at first.
const WARM_UP: usize = 8;

/// Requests that may be in flight.
const LIMIT: usize = 64;

pub(crate) async fn measure<L: Library>(sessions: usize) -> Result<Outcome, Failure> {
    let mut open = Vec::with_capacity(WARM_UP + sessions);
    for _ in 0..WARM_UP {
        open.push(session::<L>().await?);
    }
    let before = resident()?;
    for _ in 0..sessions {
        open.push(session::<L>().await?);
        watchdog::progress();
    }
    let bytes = (resident()? - before) / (2 * sessions) as f64;
    drop(open);
    Ok(Outcome::Idle { bytes })
}

/// A session whose one call was answered.
async fn session<L: Library>() -> Result<L::Caller, Failure> {
    let [client, server] = Wire::Unix.ends()?;
    let caller = L::open(client, server, Work::new(), LIMIT).await?;
    caller.echo().await?;
    Ok(caller)
}

/// Resident bytes of this process.
pub(super) fn resident() -> Result<f64, Failure> {
    let field = process_tree::status_field(Path::new("/proc/self"), "VmRSS")?;
    let kibibytes: f64 = field.trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024.0)
}
