//! The explorer finds deliberate bugs: so what it says of the engine without them is worth something.

use rescind_proto::{bug::SeededBug, relay};
use rescind_testkit::sim::{explore::explore, relay_world::RelayWorld, scene::Scene, scenes};

/// In which scene of a relay each bug shows, and how many events it takes.
const IN_A_RELAY: [(SeededBug, &str, usize); 6] = [
    (SeededBug::CancelBeforeRequest, scenes::SILENT, 2),
    (SeededBug::DoubleAnswer, scenes::ANSWERED, 5),
    (SeededBug::LeakedTombstone, scenes::SILENT, 1),
    (SeededBug::CrossDirectionLookup, scenes::SILENT, 2),
    (SeededBug::AnsweredSilentDialect, scenes::SILENT, 2),
    (SeededBug::ReuseGetsOldAnswer, scenes::SILENT, 4),
];

#[test]
fn every_bug_seeded_in_a_relay_is_found_where_it_first_shows() {
    for (bug, scene, depth) in IN_A_RELAY {
        let found = explore(&RelayWorld::new(relay_scene(scene, Some(bug))), depth).expect_err("the bug is not found");
        report(bug, &found.to_text());
        assert!(found.actions.len() == depth, "{bug:?} shows after {} events", found.actions.len());
    }
}

#[test]
fn without_a_bug_the_same_scenes_are_clean() {
    for scene in [scenes::SILENT, scenes::ANSWERED] {
        explore(&RelayWorld::new(relay_scene(scene, None)), 3).expect("no rule is broken");
    }
}

fn relay_scene(name: &str, bug: Option<SeededBug>) -> Scene {
    let scene = scenes::relay().into_iter().find(|scene| scene.name == name).expect("there is such a scene");
    Scene { config: relay::Config { bug, ..scene.config.clone() }, ..scene }
}

#[expect(clippy::print_stdout, reason = "the shortest way to each bug is what this test is read for")]
fn report(bug: SeededBug, found: &str) {
    println!("{bug:?}: {found}");
}
