//! Ids on their way through a relay: exact, echoed, kept apart (D5–D10, D32, D33).

use rescind_proto::{
    dialect::mcp,
    link::Verdict,
    relay::RelayConfig,
    rule::Rule,
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

fn pinned() -> RelayRig {
    let dialects = Sides { client: Some(&mcp::LATEST_LEGACY), server: Some(&mcp::LATEST_LEGACY) };
    RelayRig::new(RelayConfig { dialects, ..RelayConfig::default() })
}

fn call(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{}}}}"#)
}

fn cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

fn result(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

#[test]
fn every_id_is_its_own_request() {
    let long = format!("\"{}\"", "x".repeat(5000));
    let ids = [
        "5",
        "9007199254740992",
        "9007199254740993",
        "-1",
        "123456789012345678901234567890",
        "\"a\"",
        "\"\\u0061b\"",
        &long,
    ];
    for chosen in ids {
        let mut rig = pinned();
        for id in ids {
            rig.from_client(&call(id));
        }
        assert_eq!(rig.at_server(), ids.map(call));
        rig.from_client(&cancel(chosen));
        assert_eq!(rig.at_server(), [cancel(chosen)]);
        for id in ids {
            rig.from_server(&result(id));
        }
        let others: Vec<_> = ids.into_iter().filter(|id| *id != chosen).map(result).collect();
        assert_eq!(rig.at_client(), others);
    }
}

/// Servers in the field take 0 for no id, and 5 for "5": they never see such ids, and so hit the right request.
#[test]
fn ids_that_a_careless_server_confuses_go_by_other_names() {
    let names =
        [("0", "2147483647"), ("5", "5"), ("\"5\"", "\"rescind-2147483646\""), ("\"\"", "\"rescind-2147483645\"")];
    for (chosen, name) in names {
        let mut rig = pinned();
        for (id, _) in names {
            rig.from_client(&call(id));
        }
        assert_eq!(rig.at_server(), names.map(|(_, name)| call(name)));
        rig.from_client(&cancel(chosen));
        assert_eq!(rig.at_server(), [cancel(name)]);
        for (_, name) in names {
            rig.from_server(&result(name));
        }
        let others: Vec<_> = names.into_iter().filter(|(id, _)| *id != chosen).map(|(id, _)| result(id)).collect();
        assert_eq!(rig.at_client(), others, "and the client sees its own");
    }
}

#[test]
fn a_request_that_nobody_may_cancel_keeps_its_id() {
    let mut rig = pinned();
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
    rig.from_client(initialize);
    assert_eq!(rig.at_server(), [initialize]);
}

#[test]
fn an_escaped_id_is_the_same_id() {
    let mut rig = pinned();
    rig.from_client(&call(r#""\u00e9""#));
    rig.at_server();
    rig.from_client(&cancel("\"é\""));
    assert_eq!(rig.at_server(), [cancel(r#""\u00e9""#)], "the server gets the bytes that it knows");
}

#[test]
fn a_duplicate_in_flight_is_refused_and_the_first_stays_cancellable() {
    let mut rig = pinned();
    rig.from_client(&call("1"));
    rig.from_client(&call("1"));
    assert_eq!(rig.at_server(), [call("1")]);
    let message = "another request with this id is already in flight; if clients share this server, start one server for each client";
    let refused = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32600,"message":"{message}"}}}}"#);
    assert_eq!(rig.at_client(), [refused]);
    rig.from_client(&cancel("1"));
    assert_eq!(rig.at_server(), [cancel("1")]);
}

#[test]
fn an_id_reused_after_a_cancel_never_gets_the_old_answer() {
    let mut rig = pinned();
    rig.from_client(&call("1"));
    rig.at_server();
    rig.from_client(&cancel("1"));
    assert_eq!(rig.at_server(), [cancel("1")]);
    rig.from_client(&call("1"));
    assert_eq!(rig.at_server(), [call("2147483647")], "an id cancelled and never answered is not used again");
    assert_eq!(rig.violations(), [(Side::Client, Rule::McpI02)]);
    rig.from_server(r#"{"jsonrpc":"2.0","id":1,"result":{"old":true}}"#);
    assert_eq!(rig.at_client(), [""; 0]);
    rig.from_server(r#"{"jsonrpc":"2.0","id":2147483647,"result":{"new":true}}"#);
    assert_eq!(rig.at_client(), [r#"{"jsonrpc":"2.0","id":1,"result":{"new":true}}"#]);
}

#[test]
fn a_replaced_id_is_cancelled_under_the_name_the_server_knows() {
    let mut rig = pinned();
    for _ in 0..2 {
        rig.from_client(&call("\"a\""));
        rig.at_server();
        rig.from_client(&cancel("\"a\""));
    }
    assert_eq!(rig.at_server(), [cancel("\"rescind-2147483647\"")], "the type of the id is kept");
}

#[test]
fn an_id_reused_after_its_answer_keeps_its_name() {
    let mut rig = pinned();
    for _ in 0..3 {
        rig.from_client(&call("1"));
        assert_eq!(rig.at_server(), [call("1")]);
        rig.from_server(&result("1"));
        assert_eq!(rig.at_client(), [result("1")]);
    }
    rig.from_client(&cancel("1"));
    assert_eq!(rig.verdicts(), [Verdict::Completed]);
}

#[test]
fn an_id_whose_type_was_changed_upstream_is_restored() {
    for wrong in ["\"5\"", "5.0", "5.00"] {
        let mut rig = pinned();
        rig.from_client(&call("5"));
        rig.at_server();
        rig.from_server(&result(wrong));
        assert_eq!(rig.at_client(), [result("5")], "{wrong}");
    }
    let mut rig = pinned();
    rig.from_client(&call("\"5\""));
    rig.at_server();
    rig.from_server(&result("5"));
    assert_eq!(rig.at_client(), [result("\"5\"")]);
}

#[test]
fn a_loose_id_never_fits_two_requests() {
    let mut rig = pinned();
    rig.from_client(&call("5"));
    rig.from_client(&call("\"5\""));
    assert_eq!(rig.at_server(), [call("5"), call("\"rescind-2147483647\"")]);
    rig.from_server(&result("5.0"));
    assert_eq!(rig.at_client(), [result("5")]);
    rig.from_server(&result("\"rescind-2147483647\""));
    assert_eq!(rig.at_client(), [result("\"5\"")]);
}

#[test]
fn what_is_not_about_an_id_passes_byte_for_byte() {
    let mut rig = pinned();
    let odd = "  {\t\"method\" : \"x\\/y\", \"params\":{\"a\":1e400,\"b\":\"\\ud800\"} , \"extra\":[1, 2]}  \r\n";
    for side in Side::BOTH {
        rig.send(side, r#"{"method":"first"}"#);
        rig.read(side.other());
        rig.bytes(side, odd.as_bytes());
        assert_eq!(rig.relay.pending(side.other()), odd.as_bytes());
    }
}

#[test]
fn a_response_to_nothing_is_never_forwarded() {
    let mut rig = pinned();
    rig.from_server(&result("77"));
    assert_eq!(rig.at_client(), [""; 0]);
}

/// A server that holds cancels ahead of their requests would stop the new one.
#[test]
fn an_id_that_was_answered_while_its_cancel_left_is_not_used_again() {
    let forgotten = core::time::Duration::from_secs(600);
    for half in 1..cancel("1").len() {
        for (is_read_first, time) in [(false, forgotten), (true, forgotten), (false, core::time::Duration::ZERO)] {
            let mut rig = pinned();
            rig.from_client(&call("1"));
            rig.at_server();
            rig.from_client(&cancel("1"));
            rig.write(Side::Server, half);
            rig.from_server(&result("1"));
            let mut read = if is_read_first { rig.at_server() } else { Vec::new() };
            rig.pass(time);
            rig.from_client(&call("1"));
            read.extend(rig.at_server());
            assert_eq!(read, [cancel("1"), call("2147483647")], "{half} bytes");
            rig.from_server(&result("2147483647"));
            assert_eq!(rig.at_client(), [result("1")]);
        }
    }
}

/// The server has seen nothing of it.
#[test]
fn an_id_whose_cancel_was_taken_back_keeps_its_name() {
    let mut rig = pinned();
    rig.from_client(&call("1"));
    rig.at_server();
    rig.from_client(&cancel("1"));
    rig.from_server(&result("1"));
    rig.pass(core::time::Duration::from_secs(600));
    rig.from_client(&call("1"));
    assert_eq!(rig.at_server(), [call("1")]);
}

#[test]
fn after_the_memory_of_spent_ids_is_full_only_new_ids_are_kept() {
    let config = RelayConfig { remembered: 1, ..RelayConfig::default() };
    let mut rig = RelayRig::new(config);
    for id in 1..200 {
        rig.from_client(&call(&id.to_string()));
        rig.at_server();
        rig.from_client(&cancel(&id.to_string()));
        rig.at_server();
    }
    rig.pass(core::time::Duration::from_secs(600));
    rig.from_client(&call("3"));
    assert_eq!(rig.at_server(), [call("2147483647")], "forgotten, but still spent");
    rig.from_client(&call("200"));
    assert_eq!(rig.at_server(), [call("200")]);
}
