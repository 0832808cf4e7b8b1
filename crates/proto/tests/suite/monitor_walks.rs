//! Monitors beside a relay: whatever two adversarial parties do, a monitor on each link sees what the relay knows.

use proptest::{collection::vec, prelude::*};
use rescind_proto::side::Side::Client;
use rescind_testkit::sim::{
    chooser::ByteChooser,
    hop::Cut,
    relay_world::{Action, RelayWorld},
    scenes,
    walk::walk,
    world::World,
};

/// Choices of one walk at most.
const LONGEST: usize = 1000;

fn check(world: &RelayWorld, steps: &[u8]) -> Result<(), TestCaseError> {
    walk(world, &mut ByteChooser::new(steps), LONGEST).map_err(|found| TestCaseError::fail(found.to_text()))?;
    Ok(())
}

/// The answer to a request lies half written when its client cancels it and uses its id again: to the monitor that is a new
/// request, and to the relay one too many (D7). Neither is wrong.
#[test]
fn what_an_answer_is_for_that_was_half_written_when_its_id_was_used_again_is_in_doubt() {
    let scene = scenes::relay().into_iter().find(|scene| scene.name == scenes::SILENT).expect("there is such a scene");
    let mut world = RelayWorld::new(scene.adversarial().witnessed());
    let (ask, cancel) = (|id| Action::Ask(Client, id, 0), |id| Action::Cancel(Client, id));
    let answered_by_us = [ask(0), ask(1), Action::Deliver(Client, Cut::All), Action::Stop(0)];
    let half = [Action::Write(Client, Cut::Bytes(1)), cancel(1), Action::Deliver(Client, Cut::All), cancel(0)];
    let ten_minutes_later = [Action::Timeout, ask(0), Action::Wait(3000), Action::Write(Client, Cut::Frame), ask(0)];
    for action in answered_by_us.into_iter().chain(half).chain(ten_minutes_later) {
        world.step(action).expect("both see the same");
    }
    world.check_future().expect("both see the same");
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
