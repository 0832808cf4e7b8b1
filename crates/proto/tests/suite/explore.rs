//! Every reachable state of a small world, for every policy and pair of policies.
//!
//! `cargo test --config .cargo/explore.toml --workspace --test explore explore:: -- --nocapture` prints the counts; with
//! `RESCIND_EXPLORE_DEEPER=1` in the environment it goes one event further.

use std::{
    env,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use rescind_proto::{
    dialect::{Dialect, Family},
    side::Side,
};
use rescind_testkit::sim::{
    bridge_world::BridgeWorld,
    chain_world::ChainWorld,
    child_world::ChildWorld,
    explore::{Counts, explore},
    late_task_world::{LateTaskWorld, TaskEra},
    meeting::{MEETINGS, Meeting},
    pair_world::PairWorld,
    relay_world::RelayWorld,
    scenes,
    session_world::SessionWorld,
    solo_world::SoloWorld,
    task_world::{TASK_SCENES, TaskScene, TaskWorld},
    thread_world::ThreadWorld,
    turn_world::TurnWorld,
    world::World,
};

/// How many events far; a debug build looks at the first few only.
const RELAY_DEPTH: usize = if cfg!(debug_assertions) { 3 } else { 6 };
const CHILD_DEPTH: usize = if cfg!(debug_assertions) { 2 } else { 5 };
const SESSION_DEPTH: usize = if cfg!(debug_assertions) { 3 } else { 5 };
const TURN_DEPTH: usize = if cfg!(debug_assertions) { 3 } else { 6 };
const THREAD_DEPTH: usize = if cfg!(debug_assertions) { 4 } else { 7 };
const LATE_TASK_DEPTH: usize = if cfg!(debug_assertions) { 4 } else { 8 };
const CHAIN_DEPTH: usize = if cfg!(debug_assertions) { 4 } else { 8 };
const PAIR_DEPTH: usize = if cfg!(debug_assertions) { 4 } else { 8 };
const BRIDGE_DEPTH: usize = if cfg!(debug_assertions) { 4 } else { 9 };
const TASK_DEPTH: usize = if cfg!(debug_assertions) { 3 } else { 5 };
/// Events that go by until a client has a task.
const MAKING: usize = if cfg!(debug_assertions) { 1 } else { 2 };
/// Events that a client with a session goes further, since its handshake takes about as many.
const GREETING: usize = 4;
const SOLO_DEPTH: usize = if cfg!(debug_assertions) { 3 } else { 6 };

/// So many events further.
const DEEPER: &str = "RESCIND_EXPLORE_DEEPER";

#[test]
fn no_state_of_a_relay_breaks_a_rule() {
    explore_all("relay", RELAY_DEPTH, scenes::relay().into_iter().map(|scene| (scene.name, RelayWorld::new(scene))));
}

#[test]
fn no_state_of_an_agents_children_breaks_a_rule() {
    explore_all("children", CHILD_DEPTH, [("children (ACP v1)", ChildWorld::new())].into_iter());
}

#[test]
fn no_state_of_work_that_its_session_reports_breaks_a_rule() {
    explore_all("sessions", SESSION_DEPTH, [("sessions (ACP v2)", SessionWorld::new())].into_iter());
}

#[test]
fn no_state_of_turns_that_wait_breaks_a_rule() {
    explore_all("turns", TURN_DEPTH, [("turns that wait (ACP v1)", TurnWorld::new())].into_iter());
}

#[test]
fn no_state_of_a_turn_that_a_notification_ends_breaks_a_rule() {
    explore_all("threads", THREAD_DEPTH, [("threads (Codex)", ThreadWorld::new())].into_iter());
}

#[test]
fn no_state_of_a_task_that_becomes_visible_late_breaks_a_rule() {
    let scenes = [("2025-11-25", TaskEra::November), ("extension", TaskEra::Extension)];
    explore_all(
        "late task",
        LATE_TASK_DEPTH,
        scenes.map(|(name, spoken)| (name, LateTaskWorld::new(spoken))).into_iter(),
    );
}

#[test]
fn no_state_of_two_endpoints_with_a_relay_between_them_breaks_a_rule() {
    explore_all("chain", CHAIN_DEPTH, scenes::chain().into_iter().map(|scene| (scene.name, ChainWorld::new(scene))));
}

#[test]
fn no_state_of_two_eras_with_a_bridge_between_them_breaks_a_rule() {
    let world = |meeting: Meeting| (meeting.name, BridgeWorld::new(meeting));
    let (greeting, others): (Vec<_>, Vec<_>) = MEETINGS.into_iter().partition(Meeting::greets);
    explore_all("bridge", BRIDGE_DEPTH + GREETING, greeting.into_iter().map(world));
    explore_all("bridge", BRIDGE_DEPTH, others.into_iter().map(world));
}

#[test]
fn no_state_of_tasks_between_two_eras_breaks_a_rule() {
    let world = |scene: TaskScene| (scene.name, TaskWorld::new(scene));
    let (made, others): (Vec<_>, Vec<_>) = TASK_SCENES.into_iter().partition(|scene| scene.is_made);
    explore_all("tasks", TASK_DEPTH, made.into_iter().map(world));
    explore_all("tasks", TASK_DEPTH + MAKING, others.into_iter().map(world));
}

#[test]
fn every_pair_of_revisions_whose_policies_differ_meets_at_a_bridge() {
    // Dialects are the same by their names alone.
    let policies = |dialect: &Dialect| format!("{:?}", Dialect { name: "", date: None, ..dialect.clone() });
    let revisions = Dialect::ALL.into_iter().filter(|dialect| dialect.family == Family::Mcp);
    let sessions = revisions.filter(|dialect| !dialect.stateless);
    for dialect in sessions {
        // Two sides with sessions agree on one revision.
        for (client_has_session, server_has_sessions) in [(true, true), (true, false), (false, true)] {
            let plays = |meeting: &Meeting| {
                (meeting.client_has_session, meeting.server_has_sessions) == (client_has_session, server_has_sessions)
                    && policies(meeting.session) == policies(dialect)
            };
            assert!(MEETINGS.iter().any(plays), "{} {client_has_session} {server_has_sessions}", dialect.name);
        }
    }
}

#[test]
fn no_state_of_a_pair_of_endpoints_breaks_a_rule() {
    explore_all("pair", PAIR_DEPTH, scenes::endpoint().into_iter().map(|scene| (scene.name, PairWorld::new(scene))));
}

#[test]
fn no_state_of_an_endpoint_before_an_adversarial_peer_breaks_a_rule() {
    for role in Side::BOTH {
        let scenes = scenes::endpoint().into_iter();
        explore_all(role.as_str(), SOLO_DEPTH, scenes.map(|scene| (scene.name, SoloWorld::new(scene, role))));
    }
}

fn explore_all<W: World + Send + Sync>(what: &str, depth: usize, worlds: impl Iterator<Item = (&'static str, W)>)
where
    W::Action: Send,
{
    let worlds: Vec<_> = worlds.collect();
    let depth = depth + env::var(DEEPER).map_or(0, |deeper| deeper.parse().expect("a number of events"));
    let found = on_every_core(&worlds, |(name, world)| (*name, explore(world, depth)));
    report(what, &found.iter().filter_map(|(name, found)| Some((*name, *found.as_ref().ok()?))).collect::<Vec<_>>());
    let broken: Vec<_> =
        found.into_iter().filter_map(|(name, found)| Some(format!("{name}: {}", found.err()?.to_text()))).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Does the work for each item, on as many threads as there are cores; the results keep the items' order.
fn on_every_core<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    *results[at].lock().expect("no thread panicked with a result in hand") = Some(work(item));
                }
            });
        }
    });
    results
        .into_iter()
        .map(|result| result.into_inner().expect("no thread panicked").expect("every item was worked on"))
        .collect()
}

#[expect(clippy::print_stdout, reason = "the counts are what this test is run for")]
fn report(what: &str, counts: &[(&str, Counts)]) {
    for (name, counts) in counts {
        println!(
            "{what} {name:40} depth {:2}{} {:9} states {:10} transitions {:6.2} s",
            counts.depth,
            if counts.exhausted { " (all)" } else { "" },
            counts.states,
            counts.transitions,
            counts.elapsed.as_secs_f64(),
        );
    }
}
