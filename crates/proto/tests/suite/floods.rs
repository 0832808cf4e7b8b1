//! What the machines hold while they are flooded, in bytes: bounded by what is documented, not by what has passed
//! (invariant 8).

use proptest::{collection::vec, prelude::*};
use rescind_proto::{bug::SeededBug, connection, relay, side::Side};
use rescind_testkit::sim::{
    chooser::{ByteChooser, Chooser, EndlessChooser},
    flood::{self, Flooded},
    world::Broken,
};

/// Choices of one flood.
const CHOICES: usize = if cfg!(debug_assertions) { 1000 } else { 20_000 };

fn floods() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(debug_assertions) { 1 } else { 16 },
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn relay(bug: Option<SeededBug>, choices: &[u8]) -> Result<Flooded, Broken> {
    flood::relay(relay::RelayConfig { bug, ..relay::RelayConfig::default() }, &mut ByteChooser::new(choices))
}

fn endpoint(bug: Option<SeededBug>, choices: &[u8]) -> Result<Flooded, Broken> {
    flood::endpoint(
        connection::ConnectionConfig { bug, ..connection::ConnectionConfig::new(Side::Server) },
        &mut ByteChooser::new(choices),
    )
}

/// Choices without proptest: the same in every run.
fn choices(seed: u64, len: usize) -> Vec<u8> {
    let mut endless = EndlessChooser(seed);
    (0..len).map(|_| endless.choose(256).unwrap_or_default() as u8).collect()
}

proptest! {
    #![proptest_config(floods())]

    #[test]
    fn memory_of_a_relay_does_not_grow_with_what_has_passed(choices in vec(any::<u8>(), CHOICES)) {
        report("relay", relay(None, &choices).map_err(|broken| TestCaseError::fail(broken.0))?);
    }

    #[test]
    fn memory_of_an_endpoint_does_not_grow_with_what_has_passed(choices in vec(any::<u8>(), CHOICES)) {
        report("endpoint", endpoint(None, &choices).map_err(|broken| TestCaseError::fail(broken.0))?);
    }
}

#[expect(clippy::print_stdout, reason = "how much was held is what this test is read for")]
fn report(what: &str, Flooded { taken, most, bound }: Flooded) {
    println!("{what}: {taken} bytes taken in, {most} held at most; the bound is {bound}");
}

/// A relay and an endpoint under floods for as long as `RESCIND_SOAK_SECONDS` says, a minute without: what they hold is
/// bounded, and what the process holds is printed.
///
/// `cargo test --release -p rescind-proto --test suite floods:: -- --ignored --nocapture`
#[test]
#[ignore = "takes a minute, or as long as it is told"]
fn minutes_of_floods_hold_what_is_documented() {
    let seconds = std::env::var("RESCIND_SOAK_SECONDS").map_or(60, |seconds| seconds.parse().expect("a number"));
    #[expect(clippy::disallowed_methods, reason = "how long to go on is no business of the engine")]
    let begun = std::time::Instant::now();
    let (mut relays, mut endpoints) = (Flooded::default(), Flooded::default());
    for seed in 0.. {
        let choices = choices(seed, 20_000);
        for (total, flooded) in [(&mut relays, relay(None, &choices)), (&mut endpoints, endpoint(None, &choices))] {
            let flooded = flooded.unwrap_or_else(|broken| panic!("seed {seed}: {}", broken.0));
            total.taken += flooded.taken;
            total.most = total.most.max(flooded.most);
            total.bound = flooded.bound;
        }
        if begun.elapsed().as_secs() >= seconds {
            break;
        }
    }
    report("relay", relays);
    report("endpoint", endpoints);
    report_resident();
}

#[expect(clippy::print_stdout, reason = "what the process holds is what this test is read for")]
fn report_resident() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or("unknown").to_owned();
    println!("resident: {}, at most {}", line("VmRSS:"), line("VmHWM:"));
}

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
fn find(bug: SeededBug, flood: impl Fn(Option<SeededBug>, &[u8]) -> Result<Flooded, Broken>) {
    let found = (0..5).find_map(|seed| {
        let choices = choices(seed, 4 * CHOICES);
        let run = || flood(Some(bug), &choices).err().map(|broken| broken.0);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Some(panic.downcast_ref::<String>().cloned().unwrap_or_default()))
    });
    let found = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
    assert!(found.contains("invariant 8"), "{bug:?}: {found}");
    println!("{bug:?}: {found}");
}
