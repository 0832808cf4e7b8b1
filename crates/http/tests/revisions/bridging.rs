//! The bridge, on the server's side of a relay.

use rescind_proto::{bridge::BridgeConfig, dialect::Dialect, relay::RelayConfig, side::Sides};
use rescind_testkit::relay_rig::RelayRig;
use serde_json::{Value, json};

use crate::{Server, date, named, request, stateless};

/// The client's first request in a session.
fn hello() -> Value {
    let params =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

fn bridged() -> RelayRig {
    let bridge = BridgeConfig { serves_modern: true, ..BridgeConfig::default() };
    RelayRig::new(RelayConfig { bridge: Some(bridge), ..RelayConfig::default() })
}

fn read(messages: Vec<String>) -> Vec<Value> {
    messages.iter().map(|message| serde_json::from_str(message).unwrap()).collect()
}

/// What the server reads, each request answered, until there is no more.
fn exchange(rig: &mut RelayRig, answer: impl Fn(&Value) -> Value) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let read = read(rig.at_server());
        if read.is_empty() {
            return all;
        }
        for request in read.iter().filter(|message| message["id"].is_number()) {
            rig.from_server(&answer(request).to_string());
        }
        all.extend(read);
    }
}

#[test]
fn a_client_with_a_session_is_served_by_a_server_of_each_revision() {
    for server in Server::all() {
        let mut rig = bridged();
        rig.from_client(&hello().to_string());
        exchange(&mut rig, |request| server.answers(request));
        let greeting = read(rig.at_client());
        assert_eq!(greeting.len(), 1, "{server:?}");
        assert_eq!(greeting[0]["result"]["protocolVersion"], "2025-06-18", "{server:?}: {greeting:?}");

        rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#);
        let asked = exchange(&mut rig, |request| server.answers(request));
        assert_eq!(asked.iter().map(named).collect::<Vec<_>>(), [date(server.revision)], "{server:?}");
        assert_eq!(rig.at_client(), [r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#], "{server:?}");
    }
}

#[test]
fn a_client_of_each_revision_has_its_own_words_before_a_server_without_sessions() {
    for server in Server::all() {
        for client in stateless() {
            let mut rig = bridged();
            let asks = request(client, 1, "tools/list", json!({}));
            rig.from_client(&asks.to_string());
            let asked = exchange(&mut rig, |request| server.answers(request));
            assert!(asked.iter().all(|request| request["method"] != "initialize"), "{server:?}: {asked:?}");
            let passed = asked.last().unwrap();
            assert_eq!((named(passed), &passed["method"]), (date(client), &json!("tools/list")), "{server:?}");
            let answered = read(rig.at_client());
            let own = Value::Object(server.answers(&asks).as_object().unwrap().clone());
            assert_eq!(answered, [own], "{server:?} {client}");
        }
    }
}

#[test]
fn a_client_of_each_revision_is_served_by_a_server_with_sessions() {
    let server = |request: &Value| {
        let (id, capabilities) = (&request["id"], json!({ "tools": {} }));
        let info = json!({ "name": "s", "version": "1" });
        match request["method"].as_str().unwrap() {
            "initialize" => {
                let result =
                    json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info });
                json!({ "jsonrpc": "2.0", "id": id, "result": result })
            }
            "tools/list" => json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": [] } }),
            _ => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no such method" } }),
        }
    };
    for client in stateless() {
        let mut rig = bridged();
        rig.from_client(&request(client, 1, "server/discover", json!({})).to_string());
        exchange(&mut rig, server);
        let found = read(rig.at_client());
        let spoken = found[0]["result"]["supportedVersions"].as_array().unwrap();
        assert!(spoken.contains(&json!(date(client))), "{client}: {found:?}");

        rig.from_client(&request(client, 2, "tools/list", json!({})).to_string());
        let asked = exchange(&mut rig, server);
        assert_eq!(asked.iter().map(named).collect::<Vec<_>>(), ["none"], "{client}");
        let listed = read(rig.at_client());
        assert_eq!(listed[0]["result"]["resultType"], "complete", "{client}: {listed:?}");

        rig.from_client(&request(client, 3, "ping", json!({})).to_string());
        let refused = read(rig.at_client());
        let words = format!("{} has no such method", date(client));
        assert_eq!(refused[0]["error"]["message"], words, "{client}");
    }
}

/// The relay cancels a task that nobody knows in the revision of its request (D38).
#[test]
fn the_cancel_of_a_task_names_the_revision_of_its_request() {
    let relay = |client: &'static Dialect| RelayConfig {
        dialects: Sides { client: Some(client), server: Some(client) },
        ..RelayConfig::default()
    };
    for client in stateless() {
        let mut rig = RelayRig::new(relay(client));
        rig.from_client(&request(client, 1, "tools/call", json!({ "name": "slow" })).to_string());
        rig.at_server();
        rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
        rig.at_server();
        rig.from_server(r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t","status":"working"}}"#);
        let cancel = read(rig.at_server());
        assert_eq!((named(&cancel[0]), &cancel[0]["method"]), (date(client), &json!("tasks/cancel")), "{client}");
    }
}
