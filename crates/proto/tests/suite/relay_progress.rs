//! Progress never ends a connection: a client gets none that it could take for unknown (D62, MCP-P01, MCP-P03).

use core::time::Duration;

use rescind_proto::{
    dialect::{Dialect, lsp, mcp},
    framing::Framing,
    link::Clock,
    relay::{ClockRule, End, RelayConfig},
    rule::Rule,
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

fn rig(dialect: &'static Dialect) -> RelayRig {
    let framing = (*dialect == lsp::LSP).then_some(Framing::Headers);
    let dialects = Sides { client: Some(dialect), server: Some(dialect) };
    RelayRig::new(RelayConfig { dialects, framing, remembered: 8, ..RelayConfig::default() })
}

fn call(id: &str, token: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":{token}}}}}}}"#)
}

fn task(id: &str, token: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"task":{{}},"_meta":{{"progressToken":{token}}}}}}}"#
    )
}

fn progress(token: &str, progress: u32) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{progress}}}}}"#
    )
}

fn result(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

/// Several messages in one read.
fn together(rig: &mut RelayRig, from: Side, messages: &[String]) {
    rig.bytes(from, format!("{}\n", messages.join("\n")).as_bytes());
}

#[test]
fn progress_that_no_active_request_asked_for_is_dropped_and_counted() {
    for asker in Side::BOTH {
        for token in ["1", r#""1""#, "8", "null", "true", "1.5", "{}", "[1]", r#""""#, "-1"] {
            let mut rig = rig(&mcp::LATEST_LEGACY);
            rig.send(asker, &call("5", "7"));
            assert_eq!(rig.read(asker.other()).len(), 1);
            rig.send(asker.other(), &progress(token, 1));
            assert_eq!(rig.read(asker), [""; 0], "{token}");
            assert_eq!(rig.violations(), [(asker.other(), Rule::McpP01)], "{token}");
            rig.send(asker.other(), &progress("7", 1));
            assert_eq!(rig.read(asker), [progress("7", 1)]);
        }
    }
}

#[test]
fn progress_of_a_request_that_is_over_is_dropped_however_long_ago() {
    for later in [0, 5, 100] {
        let mut rig = rig(&mcp::LATEST);
        rig.from_client(&call("1", "1"));
        rig.at_server();
        rig.from_server(&result("1"));
        rig.at_client();
        for id in 2..2 + later {
            rig.from_client(&call(&id.to_string(), &id.to_string()));
            rig.at_server();
            rig.from_server(&result(&id.to_string()));
            rig.at_client();
        }
        rig.from_server(&progress("1", 1));
        assert_eq!(rig.at_client(), [""; 0], "{later} requests later");
    }
}

#[test]
fn progress_that_would_be_read_together_with_its_answer_is_withdrawn() {
    for asker in Side::BOTH {
        for count in [1, 2, 40] {
            let mut rig = rig(&mcp::LATEST_LEGACY);
            rig.send(asker, &call("5", "7"));
            rig.send(asker, &call("6", "8"));
            rig.read(asker.other());
            let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
            let mut chunk = vec![log.to_owned(), progress("8", 1)];
            chunk.extend((0..count).map(|done| progress("7", done)));
            chunk.push(result("5"));
            together(&mut rig, asker.other(), &chunk);
            assert_eq!(rig.read(asker), [log.to_owned(), progress("8", 1), result("5")], "{count}");
        }
    }
}

#[test]
fn progress_that_was_written_before_its_answer_came_has_passed() {
    let mut rig = rig(&mcp::LATEST);
    rig.from_client(&call("5", "7"));
    rig.at_server();
    for done in 0..3 {
        rig.from_server(&progress("7", done));
        assert_eq!(rig.at_client(), [progress("7", done)]);
    }
    // What has begun to leave is finished; what has not is withdrawn.
    rig.from_server(&progress("7", 3));
    rig.from_server(&progress("7", 4));
    rig.write(Side::Client, 10);
    rig.from_server(&result("5"));
    assert_eq!(rig.at_client(), [progress("7", 3), result("5")]);
}

#[test]
fn progress_that_waits_is_withdrawn_for_an_answer_of_our_own_too() {
    let clock = ClockRule { clock: Clock::Total, method: None, name: None, limit: Duration::from_secs(1) };
    let mut answers = Vec::new();
    for cause in 0..3 {
        let mut rig = RelayRig::new(RelayConfig { clocks: vec![clock.clone()], ..RelayConfig::default() });
        rig.from_client(&call("5", "7"));
        rig.at_server();
        rig.from_server(&progress("7", 1));
        let key = rig.key(Side::Client, "5").unwrap();
        match cause {
            0 => assert!(rig.relay.stop(rig.now, key, None)),
            1 => rig.pass(Duration::from_secs(1)),
            _ => rig.end(Side::Server, &End::Exited(1)),
        }
        answers.extend(rig.at_client());
    }
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.contains(r#""error""#)), "{answers:?}");
}

/// MCP-P01: such a task keeps its token until it is over.
#[test]
fn a_task_reports_after_its_handle_and_after_it_is_forgotten() {
    let mut rig = RelayRig::new(RelayConfig { remembered: 8, ..RelayConfig::default() });
    rig.from_client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#);
    rig.at_server();
    rig.from_server(
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"requests":{"tools":{"call":{}}}}}}}"#,
    );
    rig.at_client();
    rig.from_client(&task("1", "7"));
    rig.at_server();
    let handle = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working"}}}"#;
    together(&mut rig, Side::Server, &[progress("7", 1), handle.to_owned()]);
    assert_eq!(rig.at_client(), [progress("7", 1), handle.to_owned()]);
    for id in 2..100 {
        rig.from_client(&call(&id.to_string(), &id.to_string()));
        rig.at_server();
        rig.from_server(&result(&id.to_string()));
        rig.at_client();
    }
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.relay.remembered(Side::Client), 0);
    rig.from_server(&progress("7", 2));
    rig.from_server(&progress("2", 2));
    assert_eq!(rig.at_client(), [progress("7", 2)]);
}

/// A language server begins progress of its own, and its end must arrive.
#[test]
fn other_protocols_keep_their_progress() {
    let mut rig = rig(&lsp::LSP);
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"workDoneToken":"w","partialResultToken":"p"}}"#);
    rig.at_server();
    let report = |token: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"$/progress","params":{{"token":"{token}","value":{{"kind":"end"}}}}}}"#)
    };
    let all = [report("own"), report("w"), report("p"), result("1")];
    for message in &all {
        rig.from_server(message);
    }
    assert_eq!(rig.at_client(), all);
}

/// The messages of a subscription belong before its answer.
#[test]
fn messages_of_a_subscription_are_not_withdrawn() {
    let mut rig = rig(&mcp::LATEST);
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}"#);
    rig.at_server();
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#;
    together(&mut rig, Side::Server, &[changed.to_owned(), result("1")]);
    assert_eq!(rig.at_client(), [changed.to_owned(), result("1")]);
}

#[test]
fn the_memory_of_a_request_does_not_grow_with_its_progress() {
    let mut rig = rig(&mcp::LATEST);
    rig.from_client(&call("5", "7"));
    rig.at_server();
    let burst = |rig: &mut RelayRig, count: u32| {
        together(rig, Side::Server, &(0..count).map(|done| progress("7", done)).collect::<Vec<_>>());
        assert_eq!(rig.at_client().len(), count as usize);
        rig.events.clear();
    };
    burst(&mut rig, 1);
    let few = rig.relay.held();
    for _ in 0..1000 {
        burst(&mut rig, 1);
    }
    assert_eq!(rig.relay.held(), few);
    burst(&mut rig, 50_000);
    burst(&mut rig, 1);
    // What a burst leaves is the room that every link keeps; 50,000 tickets would be more.
    assert!(rig.relay.held() < few + (256 << 10), "{} after a burst, {few} before", rig.relay.held());
}
