//! Monitors beside a relay: whatever two adversarial parties do, a monitor on each link sees what the relay knows.

use proptest::{collection::vec, prelude::*};
use rescind_testkit::sim::{chooser::ByteChooser, relay_world::RelayWorld, scenes, walk::walk};

/// Choices of one walk at most.
const LONGEST: usize = 1000;

fn check(world: &RelayWorld, steps: &[u8]) -> Result<(), TestCaseError> {
    walk(world, &mut ByteChooser::new(steps), LONGEST).map_err(|found| TestCaseError::fail(found.to_text()))?;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 64 } else { 2048 },
        max_shrink_iters: 0, // done by the walk itself, which knows the steps
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_monitor_on_each_link_sees_what_the_relay_knows(
        scene in 0..scenes::relay().len(),
        steps in vec(any::<u8>(), 50..LONGEST),
    ) {
        check(&RelayWorld::new(scenes::relay().swap_remove(scene).adversarial().witnessed()), &steps)?;
    }

    /// With whole frames and few ids a walk comes deeper.
    #[test]
    fn a_monitor_of_an_orderly_link_sees_what_the_relay_knows(
        scene in 0..scenes::relay().len(),
        steps in vec(any::<u8>(), 10..100),
    ) {
        check(&RelayWorld::new(scenes::relay().swap_remove(scene).witnessed()), &steps)?;
    }
}
