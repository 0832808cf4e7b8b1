//! However a session ends, its server and what that has started end with it (D47).

use serde_json::json;

use super::world::World;

#[test]
fn a_client_that_closes_its_end_ends_the_server_and_what_it_left() {
    let Some(world) = World::new() else { return };
    let mut client = world.client_of_a_shell(&[], &world.server(&[]));
    let family = world.family();
    assert_eq!(client.receive()["id"], 0);
    client.end_input();
    family.into_iter().for_each(super::world::Reporter::expect_end);
    assert_eq!(client.code(), Some(0));
}

#[test]
fn a_shim_that_is_killed_takes_everything_with_it() {
    let Some(world) = World::new() else { return };
    let mut client = world.client(&[], &world.server(&["deaf"]));
    let family = world.family();
    assert_eq!(client.receive()["id"], 0);
    client.shim.kill().unwrap();
    family.into_iter().for_each(super::world::Reporter::expect_end);
}

#[test]
fn a_server_that_hears_nothing_is_ended_with_its_job() {
    let Some(world) = World::new() else { return };
    let mut client = world.client_of_a_shell(&["--finish", "0s"], &world.server(&["deaf"]));
    let family = world.family();
    assert_eq!(client.receive()["id"], 0);
    client.end_input();
    family.into_iter().for_each(super::world::Reporter::expect_end);
    assert_eq!(client.code(), Some(1));
}

/// Its processes hold the pipes, so that these close, and the shim sees that its parent is gone (D44).
#[test]
fn a_client_that_is_killed_ends_the_server_and_what_it_left() {
    let Some(world) = World::new() else { return };
    let shim = [world.program("rescind.exe"), "run".to_owned(), "--finish".to_owned(), "never".to_owned()];
    let words = [&[world.port(), "client".to_owned()], &shim[..], &world.server(&["deaf"])].concat();
    let mut client = world.wine(world.program("reporting_server.exe")).args(words).spawn().unwrap();
    assert_eq!(world.reporter().role, "client");
    let mut family = world.family();
    assert_eq!(family[0].next(), json!({"works": 1}));
    client.kill().unwrap();
    client.wait().unwrap();
    family.into_iter().for_each(super::world::Reporter::expect_end);
}

#[test]
fn a_server_that_ends_by_itself_fails_what_is_in_flight() {
    let Some(world) = World::new() else { return };
    let mut client = world.client_of_a_shell(&[], &world.server(&[]));
    let mut family = world.family();
    client.answer(0);
    client.call(1, "work", &json!({}));
    assert_eq!(family[0].next(), json!({"works": 1}));
    client.call(2, "exit", &json!({"code": 42}));
    for id in [1, 2] {
        let error = client.answer(id).0["error"].clone();
        assert_eq!(error["code"], -31002, "{error}");
        assert!(error["message"].as_str().unwrap().contains("42"), "{error}");
    }
    family.into_iter().for_each(super::world::Reporter::expect_end);
    assert_eq!(client.code(), Some(42));
}

/// D44: the end of the client's input cancels nothing.
#[test]
fn a_server_may_finish_after_the_clients_input_has_ended() {
    let Some(world) = World::new() else { return };
    let mut client = world.client_of_a_shell(&["--finish", "0s"], &world.server(&[]));
    let mut family = world.family();
    client.answer(0);
    client.call(1, "held", &json!({}));
    assert_eq!(family[0].next(), json!({"works": 1}));
    client.end_input();
    assert_eq!(family[0].next(), json!({"ended": "input"}));
    family[0].release();
    assert_eq!(client.answer(1).0["result"], json!({}));
    family.into_iter().for_each(super::world::Reporter::expect_end);
    assert_eq!(client.code(), Some(0));
}

#[test]
fn on_stuck_kill_ends_the_server_and_what_it_started() {
    let Some(world) = World::new() else { return };
    let flags = ["--protocol", "acp-v1", "--grace", "10ms", "--on-stuck", "kill"];
    let mut client = world.client_of_a_shell(&flags, &world.server(&["deaf"]));
    let mut family = world.family();
    client.answer(0);
    client.call(1, "work", &json!({}));
    assert_eq!(family[0].next(), json!({"works": 1}));
    client.send(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}));
    assert_eq!(client.answer(1).0["error"]["code"], -32800);
    family.into_iter().for_each(super::world::Reporter::expect_end);
    assert_eq!(client.code(), Some(1));
}
