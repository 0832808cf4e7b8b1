//! The seeds of the fuzz targets, replayed.

use std::{fs, panic::catch_unwind, path::Path};

use rescind_testkit::drive::TARGETS;

#[test]
fn every_seed_of_every_target_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in TARGETS {
        let mut seeds: Vec<_> = fs::read_dir(corpus.join(name))
            .unwrap_or_else(|error| panic!("no seeds for {name}: {error}"))
            .map(|entry| entry.unwrap().path())
            .collect();
        seeds.sort();
        assert!(!seeds.is_empty(), "no seeds for {name}");
        for seed in seeds {
            let bytes = fs::read(&seed).unwrap();
            assert!(catch_unwind(|| target(&bytes)).is_ok(), "{} fails", seed.display());
        }
    }
}
