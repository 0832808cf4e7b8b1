//! Long random walks through the explorer's worlds: many requests, ids used again, responses that break at every point.
//!
//! Every choice is a byte of what proptest makes up; a walk that breaks a rule is cut down to what is needed for that.

use std::{
    env,
    time::{Duration, Instant},
};

use proptest::{collection::vec, prelude::*};
use rescind_testkit::sim::{
    chooser::{ByteChooser, EndlessChooser},
    walk::walk,
};

use crate::world::{HttpWorld, scene};

/// Choices of one walk at most.
const LONGEST: usize = if cfg!(debug_assertions) { 300 } else { 1500 };

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 24 } else { 2000 },
        max_shrink_iters: 0, // done by the walk itself, which knows the steps
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_walk_before_a_server_breaks_a_rule(scene in 0..scene::all().len(), steps in vec(any::<u8>(), 50..LONGEST)) {
        let world = HttpWorld::new(scene::all().swap_remove(scene).long());
        walk(&world, &mut ByteChooser::new(&steps), LONGEST).map_err(|found| TestCaseError::fail(found.to_text()))?;
    }
}

/// Walks for as long as it is told, a minute if it is not; prints the seed with which a failure can be repeated.
#[test]
#[ignore = "lasts as long as it is told"]
fn no_long_walk_breaks_a_rule() {
    let seconds = env::var("RESCIND_SOAK_SECONDS").map_or(60, |seconds| seconds.parse().expect("a number of seconds"));
    let first = env::var("RESCIND_SOAK_SEED").map_or(1, |seed| seed.parse().expect("a seed"));
    let until = Instant::now() + Duration::from_secs(seconds);
    for seed in (first..).take_while(|_| Instant::now() < until) {
        for scene in scene::all() {
            let name = scene.name;
            if let Err(found) = walk(&HttpWorld::new(scene.long()), &mut EndlessChooser(seed), LONGEST) {
                panic!("seed {seed}, {name}: {}", found.to_text());
            }
        }
    }
}
