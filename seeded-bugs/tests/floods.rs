//! A flood finds what holds more and more memory.

use rescind_proto::bug::{self, SeededBug};
use rescind_testkit::sim::{flood::Flooded, world::Broken};

use crate::floods::{CHOICES, choices, endpoint, relay};

const LEAKS: [SeededBug; 3] = [SeededBug::KeptWritten, SeededBug::KeptWithdrawn, SeededBug::AnswerToEachMember];

#[test]
fn a_flood_finds_each_leak_that_is_seeded_in_a_relay() {
    for bug in LEAKS {
        find(bug, relay);
    }
}

#[test]
fn a_flood_finds_each_leak_that_is_seeded_in_an_endpoint() {
    for bug in LEAKS {
        find(bug, endpoint);
    }
}

#[expect(clippy::print_stdout, reason = "how much passes before a leak shows is worth reading")]
fn find(bug: SeededBug, flood: impl Fn(&[u8]) -> Result<Flooded, Broken>) {
    let found = (0..5).find_map(|seed| {
        let choices = choices(seed, 4 * CHOICES);
        let run = || flood(&choices).err().map(|broken| broken.0);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bug::with(bug, run)))
            .unwrap_or_else(|panic| Some(panic.downcast_ref::<String>().cloned().unwrap_or_default()))
    });
    let found = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
    assert!(found.contains("invariant 8"), "{bug:?}: {found}");
    println!("{bug:?}: {found}");
}
