//! What the machines hold while they are flooded, in bytes: bounded by what is documented, not by what has passed
//! (invariant 8).

use proptest::{collection::vec, prelude::*};
use rescind_proto::{connection::ConnectionConfig, relay::RelayConfig, side::Side};
use rescind_testkit::sim::{
    chooser::{ByteChooser, Chooser, EndlessChooser},
    flood::{self, Flooded},
    world::Broken,
};

/// Choices of one flood.
pub(crate) const CHOICES: usize = if cfg!(debug_assertions) { 1000 } else { 20_000 };

fn floods() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(debug_assertions) { 1 } else { 16 },
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub(crate) fn relay(choices: &[u8]) -> Result<Flooded, Broken> {
    flood::relay(RelayConfig::default(), &mut ByteChooser::new(choices))
}

pub(crate) fn endpoint(choices: &[u8]) -> Result<Flooded, Broken> {
    flood::endpoint(ConnectionConfig::new(Side::Server), &mut ByteChooser::new(choices))
}

/// What the settings allow, 64 KiB read at a time. A bound that changes is one that a user must hear of.
#[test]
fn the_bounds_of_the_default_settings_are_known() {
    assert_eq!(RelayConfig::default().most_held(64 << 10), 2_512_068_608);
    assert_eq!(ConnectionConfig::new(Side::Server).most_held(64 << 10), 770_727_936);
}

/// Choices without proptest: the same in every run.
pub(crate) fn choices(seed: u64, len: usize) -> Vec<u8> {
    let mut endless = EndlessChooser(seed);
    (0..len).map(|_| endless.choose(256).unwrap_or_default() as u8).collect()
}

proptest! {
    #![proptest_config(floods())]

    #[test]
    fn memory_of_a_relay_does_not_grow_with_what_has_passed(choices in vec(any::<u8>(), CHOICES)) {
        report("relay", relay(&choices).map_err(|broken| TestCaseError::fail(broken.0))?);
    }

    #[test]
    fn memory_of_an_endpoint_does_not_grow_with_what_has_passed(choices in vec(any::<u8>(), CHOICES)) {
        report("endpoint", endpoint(&choices).map_err(|broken| TestCaseError::fail(broken.0))?);
    }
}

#[expect(clippy::print_stdout, reason = "how much was held is what this test is read for")]
fn report(what: &str, Flooded { taken, most, bound }: Flooded) {
    println!("{what}: {taken} bytes taken in, {most} held at most; the bound is {bound}");
}

/// A relay and an endpoint under floods for as long as `RESCIND_SOAK_SECONDS` says, a minute without: what they hold is
/// bounded, and what the process holds is printed.
///
/// `cargo test --config .cargo/explore.toml --workspace --test explore floods:: -- --ignored --nocapture`
#[test]
#[ignore = "takes a minute, or as long as it is told"]
fn minutes_of_floods_hold_what_is_documented() {
    let seconds = std::env::var("RESCIND_SOAK_SECONDS").map_or(60, |seconds| seconds.parse().expect("a number"));
    #[expect(clippy::disallowed_methods, reason = "how long to go on is no business of the engine")]
    let begun = std::time::Instant::now();
    let (mut relays, mut endpoints) = (Flooded::default(), Flooded::default());
    for seed in 0.. {
        let choices = choices(seed, 20_000);
        for (total, flooded) in [(&mut relays, relay(&choices)), (&mut endpoints, endpoint(&choices))] {
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
