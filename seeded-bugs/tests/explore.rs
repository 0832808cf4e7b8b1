//! The explorer finds each bug where it first shows.

use rescind_proto::{
    bug::{self, SeededBug},
    side::Side,
};
use rescind_testkit::sim::{
    bridge_world::BridgeWorld,
    child_world::ChildWorld,
    chooser::EndlessChooser,
    explore::explore,
    late_task_world::{LateTaskWorld, TaskEra},
    meeting::{MEETINGS, Meeting},
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

/// In which scene of a relay each bug shows, and after how many events.
const IN_A_RELAY: [(SeededBug, &str, usize); 12] = [
    (SeededBug::CancelBeforeRequest, scenes::SILENT, 2),
    (SeededBug::DoubleAnswer, scenes::ANSWERED, 5),
    (SeededBug::LeakedTombstone, scenes::SILENT, 1),
    (SeededBug::CrossDirectionLookup, scenes::SILENT, 2),
    (SeededBug::AnsweredSilentDialect, scenes::SILENT, 2),
    (SeededBug::ReuseGetsOldAnswer, scenes::SILENT, 4),
    (SeededBug::UnreadableAnswerLost, scenes::MANGLED, 3),
    (SeededBug::ProgressWithAnswer, scenes::SILENT, 4),
    (SeededBug::TurnHeardAfterTimeout, scenes::TIMED_TURNS, 5),
    (SeededBug::CardOutlivesStop, scenes::TURNS, 2),
    (SeededBug::OneBeyondTheLimit, scenes::LIMITED, 2),
    (SeededBug::ReleasedForgotten, scenes::SILENT, 4),
];

/// In which scene of an endpoint each bug shows, and after how many events.
const IN_AN_ENDPOINT: [(SeededBug, &str, usize); 8] = [
    (SeededBug::CancelBeforeRequest, "MCP legacy", 2),
    (SeededBug::DoubleAnswer, "ACP v1", 2),
    (SeededBug::LeakedTombstone, "MCP legacy", 1),
    (SeededBug::CrossDirectionLookup, "MCP legacy", 2),
    (SeededBug::AnsweredSilentDialect, "MCP legacy", 2),
    (SeededBug::ReuseGetsOldAnswer, "MCP legacy", 3),
    (SeededBug::UnreadableAnswerLost, scenes::MANGLED, 3),
    (SeededBug::ProgressWithAnswer, "MCP legacy", 3),
];

/// After how many events each bug shows with an agent's children.
const WITH_CHILDREN: [(SeededBug, usize); 2] =
    [(SeededBug::ChildCancelledWithoutGrant, 2), (SeededBug::ChildStoppedUnheard, 2)];

/// After how many events each bug shows with work that its session reports.
const WITH_SESSIONS: [(SeededBug, usize); 2] =
    [(SeededBug::WorkStoppedUnheard, 2), (SeededBug::ItemCancelledWithoutGrant, 2)];
/// After how many events each bug shows with turns that wait.
const WITH_TURNS: [(SeededBug, usize); 2] = [(SeededBug::NextTurnTooSoon, 4), (SeededBug::NextTurnForgotten, 5)];
/// After how many events each bug shows with the turns of threads.
const WITH_THREADS: [(SeededBug, usize); 1] = [(SeededBug::InterruptTakenForEnd, 6)];
/// In which dialect of tasks each bug shows, and after how many events.
const WITH_A_TASK: [(SeededBug, TaskEra, usize); 2] =
    [(SeededBug::TaskCancelLost, TaskEra::November, 4), (SeededBug::TaskCancelLost, TaskEra::Extension, 4)];

/// In which meeting at a bridge each bug shows, and after how many events.
const AT_A_BRIDGE: [(SeededBug, &str, usize); 1] = [(SeededBug::LinesToSuccessor, "modern, legacy", 2)];

#[test]
fn every_bug_seeded_in_a_bridge_is_found_where_it_first_shows() {
    for (bug, name, depth) in AT_A_BRIDGE {
        find(bug, depth, || BridgeWorld::new(meeting(name)));
    }
}

#[test]
fn a_few_walks_find_every_bug_seeded_in_a_bridge() {
    for (bug, name, _) in AT_A_BRIDGE {
        let is_found = |seed| walk(&BridgeWorld::new(meeting(name)), &mut EndlessChooser(seed), 100).is_err();
        assert!(bug::with(bug, || (0..30).any(is_found)), "{bug:?}");
    }
}

#[test]
fn every_bug_seeded_in_a_relay_is_found_where_it_first_shows() {
    for (bug, name, depth) in IN_A_RELAY {
        for scene in both_ways(&relay_scene(name)) {
            find(bug, depth, || RelayWorld::new(scene));
        }
    }
}

#[test]
fn every_bug_seeded_in_the_cancels_of_children_is_found_where_it_first_shows() {
    for (bug, depth) in WITH_CHILDREN {
        find(bug, depth, ChildWorld::new);
    }
}

#[test]
fn every_bug_seeded_in_the_cancels_of_reported_work_is_found_where_it_first_shows() {
    for (bug, depth) in WITH_SESSIONS {
        find(bug, depth, SessionWorld::new);
    }
}

#[test]
fn every_bug_seeded_in_turns_that_wait_is_found_where_it_first_shows() {
    for (bug, depth) in WITH_TURNS {
        find(bug, depth, TurnWorld::new);
    }
}

#[test]
fn every_bug_seeded_in_the_turns_of_threads_is_found_where_it_first_shows() {
    for (bug, depth) in WITH_THREADS {
        find(bug, depth, ThreadWorld::new);
    }
}

#[test]
fn every_bug_seeded_in_the_cancels_of_tasks_is_found_where_it_first_shows() {
    for (bug, era, depth) in WITH_A_TASK {
        find(bug, depth, || LateTaskWorld::new(era));
    }
}

#[test]
fn every_bug_seeded_in_an_endpoint_is_found_where_it_first_shows() {
    for (bug, name, depth) in IN_AN_ENDPOINT {
        for scene in both_ways(&endpoint_scene(name)) {
            find(bug, depth, || SoloWorld::new(scene, Side::Server));
        }
    }
}

#[test]
fn without_a_bug_the_same_scenes_are_clean() {
    for (_, name, depth) in IN_A_RELAY {
        explore(&RelayWorld::new(relay_scene(name)), depth.min(3)).expect("no rule is broken");
    }
    for (_, name, depth) in IN_AN_ENDPOINT {
        explore(&SoloWorld::new(endpoint_scene(name), Side::Server), depth).expect("no rule is broken");
    }
    for (_, depth) in WITH_CHILDREN {
        explore(&ChildWorld::new(), depth).expect("no rule is broken");
    }
    for (_, depth) in WITH_SESSIONS {
        explore(&SessionWorld::new(), depth).expect("no rule is broken");
    }

    for (_, depth) in WITH_TURNS {
        explore(&TurnWorld::new(), depth).expect("no rule is broken");
    }

    for (_, depth) in WITH_THREADS {
        explore(&ThreadWorld::new(), depth).expect("no rule is broken");
    }

    for (_, era, depth) in WITH_A_TASK {
        explore(&LateTaskWorld::new(era), depth).expect("no rule is broken");
    }
    for (_, name, depth) in AT_A_BRIDGE {
        explore(&BridgeWorld::new(meeting(name)), depth).expect("no rule is broken");
    }
}

/// With the machine's own invariants checked, and by the wire alone (a debug build checks them in every call).
fn both_ways(scene: &Scene) -> [Scene; 2] {
    [false, true].map(|wire_only| Scene { wire_only, ..scene.clone() })
}

fn find<W: World>(bug: SeededBug, depth: usize, world: impl FnOnce() -> W) {
    let found = bug::with(bug, || explore(&world(), depth)).expect_err("the bug is not found");
    report(bug, &found.to_text());
    assert!(found.actions.len() == depth, "{bug:?} shows after {} events", found.actions.len());
}

fn meeting(name: &str) -> Meeting {
    MEETINGS.into_iter().find(|meeting| meeting.name == name).expect("there is such a meeting")
}

fn relay_scene(name: &str) -> Scene {
    scenes::relay().into_iter().find(|scene| scene.name == name).expect("there is such a scene")
}

fn endpoint_scene(name: &str) -> Scene {
    scenes::endpoint().into_iter().find(|scene| scene.name == name).expect("there is such a scene")
}

#[expect(clippy::print_stdout, reason = "the shortest way to each bug is what this test is read for")]
fn report(bug: SeededBug, found: &str) {
    println!("{bug:?}: {found}");
}
