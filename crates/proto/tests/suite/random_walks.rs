//! Long random walks through the explorer's worlds: more requests, odd ids, bytes in pieces, garbage between them.
//!
//! Every choice is a byte of what proptest makes up; a walk that breaks a rule is cut down to what is needed for that.

use std::env;

use proptest::{collection::vec, prelude::*};
use rescind_proto::side::Side;
use rescind_testkit::sim::{
    bridge_world::BridgeWorld,
    chain_world::ChainWorld,
    child_world::ChildWorld,
    chooser::ByteChooser,
    late_task_world::{LateTaskWorld, TaskEra},
    meeting::MEETINGS,
    pair_world::PairWorld,
    relay_world::RelayWorld,
    scene::Scene,
    scenes,
    session_world::SessionWorld,
    solo_world::SoloWorld,
    thread_world::ThreadWorld,
    turn_world::TurnWorld,
    walk::walk,
    world::World,
};

/// Choices of one walk at most.
const LONGEST: usize = 1000;

/// How many walks of each kind, unless `PROPTEST_CASES` says how many.
fn cases() -> u32 {
    let few = if cfg!(debug_assertions) { 64 } else { 2048 };
    env::var("PROPTEST_CASES").map_or(few, |cases| cases.parse().expect("a number of walks"))
}

fn steps() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 50..LONGEST)
}

fn any_of(scenes: &[Scene]) -> impl Strategy<Value = usize> + use<> {
    0..scenes.len()
}

fn check(world: &impl World, steps: &[u8]) -> Result<(), TestCaseError> {
    walk(world, &mut ByteChooser::new(steps), LONGEST).map_err(|found| TestCaseError::fail(found.to_text()))?;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_shrink_iters: 0, // done by the walk itself, which knows the steps
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_walk_through_a_relay_breaks_a_rule(scene in any_of(&scenes::relay()), steps in steps()) {
        check(&RelayWorld::new(scenes::relay().swap_remove(scene).adversarial()), &steps)?;
    }

    /// Whoever is told what changes, and looks at that alone, knows all; and the counts add up.
    #[test]
    fn a_watcher_of_a_relay_knows_what_it_knows(scene in any_of(&scenes::relay()), steps in steps()) {
        check(&RelayWorld::new(scenes::relay().swap_remove(scene).adversarial().watched()), &steps)?;
    }

    #[test]
    fn no_walk_through_a_chain_breaks_a_rule(scene in any_of(&scenes::chain()), steps in steps()) {
        check(&ChainWorld::new(scenes::chain().swap_remove(scene).adversarial()), &steps)?;
    }

    #[test]
    fn no_walk_with_children_breaks_a_rule(steps in vec(any::<u8>(), 20..200)) {
        check(&ChildWorld::new(), &steps)?;
    }

    #[test]
    fn no_walk_with_work_that_its_session_reports_breaks_a_rule(steps in vec(any::<u8>(), 20..200)) {
        check(&SessionWorld::new(), &steps)?;
    }

    #[test]
    fn no_walk_with_turns_that_wait_breaks_a_rule(steps in vec(any::<u8>(), 20..200)) {
        check(&TurnWorld::new(), &steps)?;
    }

    #[test]
    fn no_walk_with_threads_breaks_a_rule(steps in vec(any::<u8>(), 20..200)) {
        check(&ThreadWorld::new(), &steps)?;
    }

    #[test]
    fn no_walk_with_a_task_that_becomes_visible_late_breaks_a_rule(is_extension in any::<bool>(), steps in vec(any::<u8>(), 20..200)) {
        check(&LateTaskWorld::new(if is_extension { TaskEra::Extension } else { TaskEra::November }), &steps)?;
    }

    /// The server may end of what it is asked first, and be started again.
    #[test]
    fn no_walk_across_a_bridge_breaks_a_rule(meeting in 0..MEETINGS.len(), steps in vec(any::<u8>(), 5..100)) {
        check(&BridgeWorld::new(MEETINGS[meeting]), &steps)?;
    }

    #[test]
    fn no_walk_of_a_pair_breaks_a_rule(scene in any_of(&scenes::endpoint()), steps in steps()) {
        check(&PairWorld::new(scenes::endpoint().swap_remove(scene).adversarial()), &steps)?;
    }

    #[test]
    fn no_walk_before_an_adversarial_peer_breaks_a_rule(scene in any_of(&scenes::endpoint()), client in any::<bool>(), steps in steps()) {
        let role = if client { Side::Client } else { Side::Server };
        check(&SoloWorld::new(scenes::endpoint().swap_remove(scene).adversarial(), role), &steps)?;
    }
}
