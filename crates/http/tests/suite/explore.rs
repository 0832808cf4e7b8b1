//! Every reachable state of small worlds, and long random walks through larger ones.
//!
//! `cargo test --config .cargo/explore.toml --workspace --test explore explore:: -- --nocapture` prints the counts; with
//! `RESCIND_EXPLORE_DEEPER=1` in the environment it goes one event further.

use std::{
    env,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use rescind_testkit::sim::explore::{Counts, explore};

use crate::world::{HttpWorld, scene};

/// How many events far at most; a debug build looks at the first few only.
const MOST: usize = if cfg!(debug_assertions) { 4 } else { usize::MAX };

/// So many events further.
const DEEPER: &str = "RESCIND_EXPLORE_DEEPER";

#[test]
fn no_state_of_a_server_breaks_a_rule() {
    let deeper = env::var(DEEPER).map_or(0, |deeper| deeper.parse().expect("a number of events"));
    let scenes = scene::all();
    let found = on_every_core(&scenes, |scene| {
        (scene.name, explore(&HttpWorld::new(scene.clone()), scene.depth.min(MOST) + deeper))
    });
    report(&found.iter().filter_map(|(name, found)| Some((*name, *found.as_ref().ok()?))).collect::<Vec<_>>());
    let broken: Vec<_> =
        found.into_iter().filter_map(|(name, found)| Some(format!("{name}: {}", found.err()?.to_text()))).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Does the work for each item, on as many threads as there are cores; the results keep the items' order.
fn on_every_core<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    *results[at].lock().expect("no thread panicked with a result in hand") = Some(work(item));
                }
            });
        }
    });
    results
        .into_iter()
        .map(|result| result.into_inner().expect("no thread panicked").expect("every item was worked on"))
        .collect()
}

#[expect(clippy::print_stdout, reason = "the counts are what this test is run for")]
fn report(counts: &[(&str, Counts)]) {
    for (name, counts) in counts {
        println!(
            "{name:50} depth {:2}{} {:9} states {:10} transitions {:6.2} s",
            counts.depth,
            if counts.exhausted { " (all)" } else { "      " },
            counts.states,
            counts.transitions,
            counts.elapsed.as_secs_f64(),
        );
    }
}
