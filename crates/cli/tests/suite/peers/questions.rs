//! Questions of real servers to real clients of the other era: asked, answered, and stopped while they are asked.

use std::env;
use std::fs::File;

use super::parts::{not_installed, peers, text};
use super::play::{read, skip};
use super::programs::Bench;
use super::story::Story;
use super::way::Way;

fn node(script: &str, words: &[&str]) -> Vec<String> {
    let script = text(&peers().join("node").join(script));
    ["node", &script].iter().chain(words).map(|&word| word.to_owned()).collect()
}

/// What a client saw and what its server did; `None`, with a printed line, where a part is missing.
fn play(client: Vec<String>, way: Way, server: Vec<String>) -> Option<Story> {
    if let Some(part) = not_installed(&["node/mcp1/node_modules", "node/mcp2/node_modules"], &["node"]) {
        assert!(env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{part}");
        skip(part);
        return None;
    }
    let bench = Bench::new(&[]);
    File::create(bench.file("marks")).unwrap();
    let laid = way.lay(&bench, server, &["--bridge"]);
    let ended = bench.start("client", bench.command(&[client, laid.words.clone()].concat())).wait();
    let said = laid.said();
    for mut service in laid.between.into_iter().chain(laid.server) {
        let _ = service.child().kill();
        let _ = service.child().wait();
    }
    let story = Story::new(true, &ended.stdout, &ended.stderr, &read(&bench.file("marks")));
    assert!(story.ended(), "{way}: {story:?}\n{said}");
    Some(story)
}

/// To a server with sessions the call waits for its answer; to the client it is a result and a second call.
#[test]
fn a_client_without_a_session_answers_what_a_server_with_one_asks() {
    for way in [Way::Run, Way::Url] {
        let (client, server) = (node("mcp2/client.mjs", &["asks"]), node("mcp1/server.mjs", &[]));
        let Some(story) = play(client, way, server) else { return };
        assert_eq!(story.revision(), Some("2026-07-28"), "{way}: {story:?}");
        assert_eq!(story.questions(), ["name?"], "{way}: {story:?}");
        assert_eq!(story.outcomes("asks"), ["result finished"], "{way}: {story:?}");
        assert_eq!(story.events("asks"), ["started", "finished"], "one call: {way}: {story:?}");
    }
}

#[test]
fn a_client_with_a_session_answers_what_a_server_without_wants_to_know() {
    for way in [Way::Run, Way::Serve] {
        let (client, server) =
            (node("mcp1/booking.mjs", &["answers"]), node("mcp2/rounds.mjs", &["server", "--modern"]));
        let Some(story) = play(client, way, server) else { return };
        assert_eq!(story.questions(), ["name?", "town?"], "{way}: {story:?}");
        assert_eq!(story.outcomes("book"), ["result NAME? of TOWN?"], "{way}: {story:?}");
        assert_eq!(story.events("book"), ["called", "called", "called"], "three rounds: {way}: {story:?}");
    }
}

/// The dialog is closed, and no other round reaches the server.
#[test]
fn a_client_that_stops_its_call_is_asked_no_more_and_the_server_is_not_called_again() {
    for way in [Way::Run, Way::Serve] {
        let (client, server) = (node("mcp1/booking.mjs", &["stops"]), node("mcp2/rounds.mjs", &["server", "--modern"]));
        let Some(story) = play(client, way, server) else { return };
        let saw: Vec<_> = story.caller().iter().filter_map(|line| line["saw"].as_str()).collect();
        assert!(saw.contains(&"withdrawn"), "{way}: {story:?}");
        assert_eq!(story.outcomes("book"), ["cancelled"], "{way}: {story:?}");
        assert_eq!(story.events("book"), ["called"], "{way}: {story:?}");
    }
}
