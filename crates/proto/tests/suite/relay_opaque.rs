//! Links that speak no protocol known here (D57).

use core::time::Duration;

use rescind_proto::{
    dialect::{Dialect, UNKNOWN, acp, lsp, mcp},
    framing::Framing,
    link::Clock,
    monitor::{Monitor, MonitorConfig},
    receipt::Outcome,
    relay::{ClockRule, End, RelayConfig, RelayEvent},
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

use crate::both_ends::passes;

const INITIALIZE: &str =
    r#"{"id":0,"method":"initialize","params":{"clientInfo":{"name":"codex_vscode","title":"Codex","version":"1"}}}"#;

fn opened() -> RelayRig {
    let mut rig = RelayRig::new(RelayConfig::default());
    passes(&mut rig, Side::Client, INITIALIZE);
    passes(&mut rig, Side::Server, r#"{"id":0,"result":{"userAgent":"codex/0.171"}}"#);
    passes(&mut rig, Side::Client, r#"{"method":"initialized"}"#);
    assert_eq!(rig.relay.dialect(Side::Client), &UNKNOWN);
    rig
}

/// Which dialect the client's first message shows, in either framing.
#[test]
fn the_first_message_tells_what_is_spoken() {
    use Framing::{Headers, Line};
    let guess = &mcp::LATEST_LEGACY;
    #[rustfmt::skip]
    let table: &[(Framing, &str, &Dialect)] = &[
        // A handshake with a version, well written or not.
        (Line, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#, &mcp::REVISION_2025_06_18),
        (Line, r#"{"id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#, &mcp::REVISION_2025_06_18),
        (Line, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#, &acp::V1),
        (Line, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"DRAFT-2027"}}"#, guess),
        (Headers, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":1}}"#, &lsp::LSP),
        (Headers, r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#, &lsp::LSP),
        (Headers, r#"{"id":0,"method":"initialize","params":{"processId":1}}"#, &lsp::LSP),
        (Headers, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#, &mcp::REVISION_2025_06_18),
        // A handshake without one, on lines.
        (Line, INITIALIZE, &UNKNOWN),
        (Line, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{}}}"#, &UNKNOWN),
        (Line, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#, &UNKNOWN),
        (Line, r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#, &UNKNOWN),
        (Line, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":[1]}"#, &UNKNOWN),
        (Line, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":null}}"#, &UNKNOWN),
        (Line, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1.5}}"#, &UNKNOWN),
        (Line, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":{}}}"#, &UNKNOWN),
        (Line, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"x":{"protocolVersion":"2025-06-18"}}}"#, &UNKNOWN),
        // JSON-RPC 2.0 without a handshake.
        (Line, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, guess),
        (Line, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, guess),
        (Line, r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]"#, guess),
        (Line, r#"{"jsonrpc":"2.0","id":1}"#, guess),
        (Headers, r#"{"jsonrpc":"2.0","method":"$/x"}"#, &lsp::LSP),
        // A request that names its revision itself.
        (Line, r#"{"id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#, &mcp::LATEST),
        // JSON-RPC of another kind.
        (Line, r#"{"id":1,"method":"Runtime.enable"}"#, &UNKNOWN),
        (Line, r#"{"method":"getinfo","params":[],"id":"a"}"#, &UNKNOWN),
        (Line, r#"{"method":"hello"}"#, &UNKNOWN),
        (Headers, r#"{"id":1,"method":"Runtime.enable"}"#, &UNKNOWN),
        // Other JSON.
        (Headers, r#"{"seq":1,"type":"request","command":"initialize","arguments":{"adapterID":"x"}}"#, &UNKNOWN),
        (Line, r#"{"seq":1,"type":"request","command":"initialize","arguments":{"adapterID":"x"}}"#, &UNKNOWN),
        (Line, r#"{"type":"hello","version":3}"#, &UNKNOWN),
        (Line, r#"{"id":7}"#, &UNKNOWN),
        (Line, "{}", &UNKNOWN),
        (Line, r#"["ex","redraw"]"#, &UNKNOWN),
        (Headers, r#"[1,"expr","2+2",-1]"#, &UNKNOWN),
    ];
    for &(framing, message, dialect) in table {
        let mut rig = RelayRig::new(RelayConfig { framing: Some(framing), ..RelayConfig::default() });
        rig.send(Side::Client, message);
        assert_eq!(rig.relay.dialect(Side::Client), dialect, "{message}");
        if *dialect == UNKNOWN {
            assert_eq!(rig.at_server(), [message]);
            assert_eq!(rig.at_client(), [""; 0], "{message}");
        }
        let mut monitor = Monitor::new(MonitorConfig { framing: Some(framing), ..MonitorConfig::default() });
        monitor.handle_frame(rig.now, Side::Client, message.as_bytes());
        assert_eq!(monitor.dialect(), dialect, "{message}");
    }
}

/// What is not a message decides nothing, nor what a server prints before its client has spoken.
#[test]
fn noise_ahead_of_the_first_message_tells_nothing() {
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    for noise in ["hello", "\u{1b}[0m", "{", "5", "\"x\"", "null", "[]", r#"{"id":1,"id":2,"method":"x"}"#] {
        let mut rig = RelayRig::new(RelayConfig::default());
        rig.from_client(noise);
        assert_eq!(rig.at_server(), [""; 0], "{noise}");
        rig.from_client(initialize);
        assert_eq!(rig.relay.dialect(Side::Client), &mcp::REVISION_2025_11_25, "{noise}");
    }
    for noise in ["starting", r#"{"level":"info","msg":"starting"}"#, r#"{"method":"log"}"#] {
        let mut rig = RelayRig::new(RelayConfig::default());
        rig.from_server(noise);
        rig.from_client(initialize);
        assert_eq!(rig.relay.dialect(Side::Client), &mcp::REVISION_2025_11_25, "{noise}");
    }
}

/// A debug adapter is spoken to as if nothing stood between.
#[test]
fn framed_json_that_is_not_json_rpc_passes_byte_for_byte_both_ways() {
    let mut rig = RelayRig::new(RelayConfig { framing: Some(Framing::Headers), ..RelayConfig::default() });
    passes(&mut rig, Side::Client, r#"{"seq":1,"type":"request","command":"initialize","arguments":{}}"#);
    let server = [
        r#"{"seq":1,"type":"response","request_seq":1,"success":true,"command":"initialize","body":{}}"#,
        r#"{"seq":2,"type":"event","event":"initialized"}"#,
        r#"{"seq":3,"type":"request","command":"runInTerminal","arguments":{"args":["a"]}}"#,
        r#"{"id":0,"error":"not an error object"}"#,
        r#"{"id":1,"id":2,"result":[]}"#,
        "[]",
        "5",
        "not JSON",
        "{\"text\":\"\u{fffd}\",\"broken\":[}",
    ];
    for message in server {
        passes(&mut rig, Side::Server, message);
        passes(&mut rig, Side::Client, message);
    }
    let odd = b"Content-Length: 9\r\nContent-Type: x; charset=utf-8\r\n\r\n{\"a\":\"\xff\"}";
    rig.relay.handle_input(rig.now, Side::Server, odd);
    assert_eq!(rig.relay.pending(Side::Client), odd);
    rig.relay.handle_written(rig.now, Side::Client, odd.len());
    assert_eq!(rig.relay.in_flight(Side::Client), 0);
}

#[test]
fn an_unknown_protocol_keeps_every_id() {
    let mut rig = opened();
    let all = [
        (Side::Server, r#"{"id":0,"method":"item/commandExecution/requestApproval","params":{}}"#),
        (Side::Server, r#"{"id":"","method":"x"}"#),
        (Side::Client, r#"{"id":0,"result":{"decision":"accept"}}"#),
        (Side::Server, r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":0}}"#),
        (Side::Client, r#"{"id":5,"method":"turn/start"}"#),
        (Side::Client, r#"{"id":"5","method":"turn/start"}"#),
        (Side::Server, r#"{"id":5.0,"result":{}}"#),
        (Side::Server, r#"{"id":5,"result":{}}"#),
        (Side::Server, r#"{"id":99,"result":{}}"#),
        (Side::Client, r#"{"id":null,"method":"x"}"#),
        (Side::Client, r#"{"id":true,"method":"x"}"#),
        (Side::Client, r#"{"method":"notifications/cancelled","params":{"requestId":"5"}}"#),
        (Side::Client, r#"{"method":"$/cancelRequest","params":{"id":"5"}}"#),
        (Side::Client, r#"{"method":"session/cancel","params":{"sessionId":"s"}}"#),
        (Side::Server, r#"{"method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#),
        (Side::Server, r#"[{"id":"5","result":{}}]"#),
        (Side::Server, "plain words"),
    ];
    for (from, message) in all {
        passes(&mut rig, from, message);
    }
    assert!(!rig.events.iter().any(|event| matches!(event, RelayEvent::Rejected { .. })), "{:?}", rig.events);
}

#[test]
fn a_duplicate_id_of_an_unknown_protocol_is_served_and_each_answer_arrives() {
    let mut rig = opened();
    for _ in 0..3 {
        passes(&mut rig, Side::Client, r#"{"id":7,"method":"model/list"}"#);
    }
    for left in [1, 1, 0] {
        passes(&mut rig, Side::Server, r#"{"id":7,"result":{}}"#);
        assert_eq!(rig.relay.in_flight(Side::Client), left);
    }
    for _ in 0..2 {
        passes(&mut rig, Side::Client, r#"{"id":7,"method":"model/list"}"#);
    }
    rig.relay.handle_eof(rig.now, Side::Server, &End::Exited(3));
    let answers = rig.at_client();
    assert_eq!(answers.len(), 2, "each is answered: {answers:?}");
    assert!(answers.iter().all(|answer| answer.contains(r#""id":7,"error""#)), "{answers:?}");
}

#[test]
fn a_cancel_of_an_unknown_protocol_is_not_sendable_and_releases_nobody() {
    let mut rig = opened();
    passes(&mut rig, Side::Client, r#"{"id":1,"method":"turn/start"}"#);
    let request = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, request, Some("enough")));
    assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![]));
    rig.pass(Duration::from_secs(3600));
    assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![]), "no grace ends it");
    let receipt = rig.relay.view(request).unwrap().cancel.unwrap();
    assert_eq!(receipt.outcome, Outcome::NotSendable);
    assert!(rig.relay.stop(rig.now, request, None), "a second one is told the same");
    passes(&mut rig, Side::Server, r#"{"id":1,"result":{"turn":{"id":"t"}}}"#);
    // The end of the server is what releases a client.
    passes(&mut rig, Side::Client, r#"{"id":2,"method":"turn/start"}"#);
    let request = rig.key(Side::Client, "2").unwrap();
    rig.relay.stop(rig.now, request, None);
    rig.relay.handle_eof(rig.now, Side::Server, &End::Signalled(15));
    let answers = rig.at_client();
    assert!(answers.len() == 1 && answers[0].contains("the server was ended by signal 15"), "{answers:?}");
}

#[test]
fn no_clock_runs_in_an_unknown_protocol() {
    let rule = |method: Option<&str>| ClockRule {
        clock: Clock::Response,
        method: method.map(Into::into),
        name: None,
        limit: Duration::from_secs(1),
    };
    let clocks = vec![rule(None), rule(Some("turn/start"))];
    let mut rig = RelayRig::new(RelayConfig { clocks, ..RelayConfig::default() });
    passes(&mut rig, Side::Client, INITIALIZE);
    passes(&mut rig, Side::Client, r#"{"id":1,"method":"turn/start"}"#);
    rig.pass(Duration::from_secs(3600));
    assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![]));
}

/// A pinned dialect counts, whatever passes; so does a transport that has only one.
#[test]
fn a_pinned_dialect_is_never_unknown() {
    let pinned = |client, server| RelayConfig { dialects: Sides { client, server }, ..RelayConfig::default() };
    for config in [
        pinned(Some(&mcp::LATEST_LEGACY), Some(&mcp::LATEST_LEGACY)),
        pinned(None, Some(&mcp::LATEST_LEGACY)),
        pinned(Some(&mcp::LATEST_LEGACY), None),
        RelayConfig { unknown: false, ..RelayConfig::default() },
    ] {
        let mut rig = RelayRig::new(config);
        rig.from_client(r#"{"id":1,"method":"initialize","params":{}}"#);
        assert_eq!(rig.relay.dialect(Side::Client), &mcp::LATEST_LEGACY);
    }
    let mut rig = RelayRig::new(pinned(None, Some(&UNKNOWN)));
    passes(&mut rig, Side::Client, r#"{"jsonrpc":"2.0","id":0,"method":"tools/call"}"#);
    assert_eq!(rig.relay.dialect(Side::Client), &UNKNOWN);
}

/// A client that forgot its version is served as the server understands it.
#[test]
fn an_answer_that_names_a_revision_settles_it_after_all() {
    let mut rig = RelayRig::new(RelayConfig::default());
    passes(&mut rig, Side::Client, r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#);
    passes(&mut rig, Side::Server, r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#);
    assert_eq!(rig.relay.dialect(Side::Client), &mcp::REVISION_2025_06_18);
}

#[test]
fn an_unfinished_message_of_an_unknown_protocol_passes_as_far_as_it_came() {
    let mut rig = opened();
    rig.bytes(Side::Server, b"half a li");
    rig.relay.handle_eof(rig.now, Side::Server, &End::Closed);
    assert_eq!(rig.relay.pending(Side::Client), b"half a li");
}
