//! The explorer finds each bug of the HTTP machine where it first shows, and walks find it too.

use std::panic::catch_unwind;

use rescind_http::bug::{self, SeededBug};
use rescind_testkit::sim::{chooser::EndlessChooser, explore::explore, walk::walk};

use crate::{
    bodies,
    joined::{self, Chaos},
    server::{batches, bounds, look_alikes},
    world::{
        HttpWorld,
        scene::{self, Scene},
    },
};

/// In which scene each bug shows, and after how many events.
const BUGS: [(SeededBug, &str, usize); 12] = [
    (SeededBug::HangUpCancels, "one call, and who comes back", 2),
    (SeededBug::HangUpIgnored, "a client without a session", 2),
    (SeededBug::CancelForAnotherSession, "two sessions with the same ids", 3),
    (SeededBug::CancelForAnotherSharer, "two sessions on one link", 3),
    (SeededBug::AnswerOnAnothersStream, "two calls with one id, and a cancel", 2),
    (SeededBug::AnswerOnAnothersStream, "two sessions on one link", 2),
    (SeededBug::ResumeRepeats, "one call, and who comes back", 4),
    (SeededBug::ResumeSkips, "one call, and who comes back", 5),
    (SeededBug::CancelledStreamStays, "two calls with one id, and a cancel", 2),
    (SeededBug::AnothersName, "a session that changes hands", 2),
    (SeededBug::AnothersLink, "two people without a session", 2),
    (SeededBug::AwayUncounted, "more is unread than may be", 3),
];

#[test]
fn every_bug_seeded_in_a_server_is_found_where_it_first_shows() {
    let mut shown = Vec::new();
    for (bug, name, depth) in BUGS {
        let found = bug::with(bug, || explore(&HttpWorld::new(scene(name)), depth)).expect_err("the bug is not found");
        report(bug, &found.to_text());
        shown.push((bug, found.actions.len()));
    }
    assert_eq!(shown, BUGS.map(|(bug, _, depth)| (bug, depth)));
}

#[test]
fn a_few_walks_find_every_bug_seeded_in_a_server() {
    for (bug, name, _) in BUGS {
        let is_found = |seed| walk(&HttpWorld::new(scene(name).long()), &mut EndlessChooser(seed), 300).is_err();
        assert!(bug::with(bug, || (0..10).any(is_found)), "{bug:?}");
    }
}

/// A client is only walked, beside a server.
#[test]
fn a_few_walks_find_the_bug_seeded_in_a_client() {
    let walk = || joined::run(30, 200, Chaos { breaks: false, restarts: false });
    let found = bug::with(SeededBug::CancelBehindCalls, || catch_unwind(walk)).expect_err("the bug is not found");
    let words = found.downcast_ref::<String>().expect("words");
    report(SeededBug::CancelBehindCalls, words);
    assert!(words.contains("wait for other calls"));
}

/// Of what no scene has: names that are spelt otherwise, bodies in parts, long batches, and servers that speak no JSON-RPC.
#[test]
fn named_cases_find_every_bug_that_no_scene_can_show() {
    let cases: [(SeededBug, fn()); 6] = [
        (
            SeededBug::LookAlikePasses,
            look_alikes::what_a_careless_program_could_take_for_anothers_is_refused_outside_a_session,
        ),
        (
            SeededBug::LookAlikePasses,
            look_alikes::what_a_careless_program_could_take_for_anothers_is_refused_in_a_session_that_shares_it,
        ),
        (SeededBug::BodyUncounted, bounds::bodies_that_are_being_read_share_one_bound),
        (SeededBug::BatchUnbounded, batches::a_batch_with_more_members_than_one_may_have_is_refused_whole),
        (SeededBug::RefusalForAnswer, bodies::a_body_that_is_not_an_answer_becomes_an_error_that_every_client_can_read),
        (SeededBug::RefusalForAnswer, bodies::an_event_that_is_not_an_answer_ends_the_request_that_it_names),
    ];
    for (bug, case) in cases {
        case();
        assert!(catch_unwind(|| bug::with(bug, case)).is_err(), "{bug:?}");
    }
}

#[test]
fn without_a_bug_the_same_scenes_are_clean() {
    joined::run(30, 200, Chaos { breaks: false, restarts: false });
    for (_, name, depth) in BUGS {
        explore(&HttpWorld::new(scene(name)), depth).expect("no rule is broken");
    }
}

fn scene(name: &str) -> Scene {
    scene::all().into_iter().find(|scene| scene.name == name).expect("there is such a scene")
}

#[expect(clippy::print_stdout, reason = "the shortest way to each bug is what this test is read for")]
fn report(bug: SeededBug, found: &str) {
    println!("{bug:?}: {found}");
}
