//! The seeds of the fuzz target, replayed; and bytes at random.

use std::{
    env, fs,
    panic::catch_unwind,
    path::Path,
    time::{Duration, Instant},
};

use proptest::{collection::vec, prelude::*};
use rescind_testkit::sim::chooser::{Chooser, EndlessChooser};

use crate::drive::http_server;

#[test]
fn every_seed_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/http_server");
    let mut seeds: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "there are no seeds");
    for seed in seeds {
        let bytes = fs::read(&seed).unwrap();
        assert!(catch_unwind(|| http_server(&bytes)).is_ok(), "{} fails", seed.display());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 12 } else { 4000 },
        max_shrink_iters: 0, // done by the walk itself, which knows the steps
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_bytes_break_a_rule(bytes in vec(any::<u8>(), 50..2000)) {
        http_server(&bytes);
    }
}

/// Bytes at random for as long as it is told, a minute if it is not.
#[test]
#[ignore = "lasts as long as it is told"]
fn no_bytes_break_a_rule_for_long() {
    let seconds = env::var("RESCIND_SOAK_SECONDS").map_or(60, |seconds| seconds.parse().expect("a number of seconds"));
    let first = env::var("RESCIND_SOAK_SEED").map_or(1, |seed| seed.parse().expect("a seed"));
    let until = Instant::now() + Duration::from_secs(seconds);
    for seed in (first..).take_while(|_| Instant::now() < until) {
        let mut chooser = EndlessChooser(seed);
        let length = chooser.choose(4000).unwrap();
        let bytes: Vec<u8> = (0..length).map(|_| chooser.choose(256).unwrap() as u8).collect();
        let began = Instant::now();
        assert!(catch_unwind(|| http_server(&bytes)).is_ok(), "seed {seed} fails");
        assert!(began.elapsed() < Duration::from_secs(10), "seed {seed} takes {:?}", began.elapsed());
    }
}
