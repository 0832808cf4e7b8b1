//! Cancels, and the commands of an operator, over a named pipe.

use serde_json::{Value, json};

use super::world::{Client, World};

fn call(id: u32, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

#[test]
fn a_cancel_reaches_the_work_and_nothing_is_answered() {
    let Some(world) = World::new() else { return };
    let mut client = world.client(&[], &world.server(&[]));
    let [mut server, ..] = world.family();
    assert_eq!(client.receive()["id"], 0);
    client.send(&call(1, "work"));
    assert_eq!(server.next(), json!({"works": 1}));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    assert_eq!(server.next(), json!({"cancelled": 1}));
    client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(client.receive()["id"], 2);
}

#[test]
fn an_operator_lists_cancels_and_stops_what_is_in_flight() {
    let Some(world) = World::new() else { return };
    let mut client = world.client(&[], &world.server(&[]));
    let [mut server, ..] = world.family();
    assert_eq!(client.receive()["id"], 0);
    for id in [1, 2] {
        client.send(&call(id, "work"));
        assert_eq!(server.next(), json!({"works": id}));
    }
    let listed = world.rescind(&["ps", "--json"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(text.matches("\"tools/call\"").count(), 2, "{text} {}", String::from_utf8_lossy(&listed.stderr));
    let table = world.rescind(&["ps"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let row = table.lines().find(|line| line.contains("tools/call")).unwrap();
    let request = row.split_whitespace().next().unwrap();
    world.rescind(&["cancel", request]);
    assert_eq!(server.next()["cancelled"], request.rsplit('/').next().unwrap().parse::<u32>().unwrap());
    world.rescind(&["stop", "--within", "1s"]);
    assert!(server.next()["cancelled"].is_u64());
}

#[test]
fn the_processes_of_a_session_are_listed_with_its_client() {
    let Some(world) = World::new() else { return };
    let server = world.server(&[]);
    let words = server.join(" ");
    let mut clients = [
        // Wine does not tell of a parent that is not a program of Windows.
        world.client(&[], &server),
        Client::start(world.batch(&[&format!("rescind run {words}")])),
        Client::start(world.batch(&[&format!("rescind run --unlisted {words}")])),
    ];
    let _families: Vec<_> = (0..9).map(|_| world.reporter()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.receive()["id"], 0));
    let listed = world.rescind(&["ps", "--processes"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(text.matches("reporting_server").count(), 12, "three shims with three processes each: {text}");
    let mut states: Vec<_> =
        text.lines().filter_map(|line| Some(line.split_once(" run ")?.1.rsplit_once("  ")?.1)).collect();
    states.sort_unstable();
    assert!(
        matches!(states[..], [known, "client: unknown", "unlisted"] if known.starts_with("client: cmd.exe (")),
        "{text}"
    );
}
