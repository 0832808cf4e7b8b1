//! A minute of drops, cancels, timeouts and broken links at random, over Unix sockets, and then: nothing is left.
//!
//! ```text
//! RESCIND_SOAK_SECONDS=600 RESCIND_SOAK_SEED=7 cargo test --release -p rescind --test suite soak:: -- --ignored --nocapture
//! ```
//!
//! A few connections stand for the whole time; beside them others are made and ended, again and again, in every way
//! there is. What is left is told by the work itself (each handler, task and thread holds a guard), by the peers, by
//! the runtime and by the kernel.

#![cfg(target_os = "linux")]

mod kernel;
mod link;
mod work;
mod world;

use std::{
    collections::hash_map::RandomState,
    env,
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rescind::peer::{
    Dialect,
    dialect::{acp, lsp, mcp},
};
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use kernel::{descriptors, processes, resident};
use link::{Link, WAYS, wedged};
use world::{Dice, World};

const DIALECTS: [&Dialect; 4] = [&mcp::LATEST_LEGACY, &mcp::LATEST, &acp::V1, &lsp::LSP];
/// Connections that are made and ended all the time; as many again stand throughout.
const LANES: u64 = 32;
/// Far above what a shared machine needs; a call that takes longer never ends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Of resident memory, between a third of the time and its end: what allocator and scheduler may shift.
const SLACK: usize = 8 << 20;

/// Makes and ends connections: one that asks, and one more that its handlers ask.
async fn lane(world: Arc<World>, mut dice: Dice, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        let mut dialect = || DIALECTS[usize::try_from(dice.below(4)).unwrap()];
        let (near, far) = (dialect(), dialect());
        if dice.below(8) == 0 {
            wedged(&world, &mut dice).await;
        }
        let back = Link::open(far, &world, None).await;
        let front = Link::open(near, &world, Some(back.client.clone())).await;
        let most = dice.below(300);
        front.traffic(&world, &mut dice, &over, most).await;
        if dice.below(2) == 0 {
            front.end(&world, &mut dice, WAYS).await;
            back.end(&world, &mut dice, WAYS).await;
        } else {
            // The handlers in front still hold it.
            back.end(&world, &mut dice, WAYS - 1).await;
            front.end(&world, &mut dice, WAYS).await;
        }
    }
}

/// Waits until `is_so`, which the state at the end must become by itself.
pub(crate) async fn becomes(what: &str, is_so: impl Fn() -> bool, describe: impl Fn() -> String) {
    let waited = timeout(PATIENCE, async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}: {}", describe());
}

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

/// Case 14, 20, 35, 37, 38, 41, 44, 72.
#[test]
#[ignore = "takes a minute"]
#[expect(clippy::print_stdout, reason = "the seed repeats a run, the figures are what it is run for")]
fn after_a_minute_of_anything_nothing_is_left() {
    let seconds = setting("RESCIND_SOAK_SECONDS").unwrap_or(60);
    let seed = setting("RESCIND_SOAK_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("RESCIND_SOAK_SECONDS={seconds} RESCIND_SOAK_SEED={seed}");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(soak(seconds, seed));
}

#[expect(clippy::print_stdout, reason = "the figures are what this test is run for")]
async fn soak(seconds: u64, seed: u64) {
    let world = Arc::new(World {
        here: AtomicUsize::new(0),
        calls: AtomicUsize::new(0),
        handlers: AtomicUsize::new(0),
        links: AtomicUsize::new(0),
        children: AtomicUsize::new(0),
        processes: Semaphore::new(4),
        threads: Semaphore::new(8),
        mark: format!("rescind-soak-{}-{seed}", std::process::id()),
    });
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let (tasks_before, descriptors_before) = (tasks(), descriptors());
    let mut dice = Dice(seed);
    let over = Arc::new(AtomicBool::new(false));
    let mut lanes = JoinSet::new();
    for _ in 0..LANES {
        lanes.spawn(lane(Arc::clone(&world), Dice(dice.next()), Arc::clone(&over)));
    }
    let mut standing = Vec::new();
    for n in 0..LANES {
        let link = Arc::new(Link::open(DIALECTS[usize::try_from(n % 4).unwrap()], &world, None).await);
        let (world, over, mut dice) = (Arc::clone(&world), Arc::clone(&over), Dice(dice.next()));
        standing.push(Arc::clone(&link));
        lanes.spawn(async move { link.traffic(&world, &mut dice, &over, u64::MAX).await });
    }
    let start = Instant::now();
    let mut resident_at = Vec::new();
    while start.elapsed() < Duration::from_secs(seconds) {
        sleep(Duration::from_secs(1)).await;
        resident_at.push(resident());
        while let Some(ended) = lanes.try_join_next() {
            ended.unwrap();
        }
    }
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = lanes.join_next().await {
        ended.unwrap();
    }

    for link in &standing {
        for peer in [&link.client, &link.server] {
            let is_empty = || {
                let flight = peer.in_flight();
                flight.ours.is_empty() && flight.theirs.is_empty() && peer.remembered() == 0
            };
            let describe = || format!("{} remembered, {:#?}", peer.remembered(), peer.in_flight());
            becomes("a quiet connection forgets everything", is_empty, describe).await;
        }
    }
    becomes("all work is gone", || world.here.load(Ordering::SeqCst) == 0, || format!("{:?}", world.here)).await;
    for link in standing {
        Arc::into_inner(link).unwrap().end(&world, &mut dice, WAYS).await;
    }
    becomes("all work is gone", || world.here.load(Ordering::SeqCst) == 0, || format!("{:?}", world.here)).await;
    becomes("no task is left", || tasks() == tasks_before, || format!("{} of {tasks_before}", tasks())).await;
    let mark = &world.mark;
    becomes("no process is left", || processes(mark).is_empty(), || format!("{:#?}", processes(mark))).await;
    // What the runtime keeps to hear of signals, once it has been asked to, is two descriptors.
    let open = || descriptors() <= descriptors_before + 2;
    becomes("no socket is left", open, || format!("{} of {descriptors_before}", descriptors())).await;

    let third = resident_at.len() / 3;
    let (early, late) = (median(&resident_at[third..]), median(&resident_at[resident_at.len().saturating_sub(5)..]));
    let World { calls, handlers, links, children, .. } = &*world;
    println!("{calls:?} calls, {handlers:?} handlers, {links:?} connections, {children:?} child processes");
    println!("resident MiB, second by second: {:?}", resident_at.iter().map(|bytes| bytes >> 20).collect::<Vec<_>>());
    assert!(late <= early + early / 10 + SLACK, "memory grew from {early} to {late} bytes");
}

/// Of the first few.
fn median(bytes: &[usize]) -> usize {
    let mut few: Vec<_> = bytes.iter().take(5).copied().collect();
    few.sort_unstable();
    few[few.len() / 2]
}
