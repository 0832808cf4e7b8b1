//! A client of one era before a server that knows only the other: what each of them sees.

use core::time::Duration;

use rescind_proto::{
    bridge::{Bridge, BridgeConfig},
    id::RequestId,
    link::Departure,
    receipt::Outcome,
    relay::{End, RelayConfig, RequestState},
    side::Side,
    time::Instant,
};
use rescind_testkit::relay_rig::RelayRig;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"client","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
pub(crate) const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"client","version":"1"}}}"#;
pub(crate) const GREETING: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"tasks":{}},"serverInfo":{"name":"server","version":"2"},"instructions":"be kind"}"#;
pub(crate) const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}},"instructions":"be kind","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"server","version":"2"}}}"#;
pub(crate) const NO_METHOD: &str = r#"{"code":-32601,"message":"Method not found"}"#;

/// Our first ids at the server.
pub(crate) const OWN: [i64; 6] =
    [2_147_483_647, 2_147_483_646, 2_147_483_645, 2_147_483_644, 2_147_483_643, 2_147_483_642];

pub(crate) fn rig(config: BridgeConfig) -> RelayRig {
    RelayRig::new(RelayConfig { bridge: Some(config), ..RelayConfig::default() })
}

pub(crate) fn serving_modern() -> RelayRig {
    rig(BridgeConfig { serves_modern: true, ..BridgeConfig::default() })
}

pub(crate) fn request(id: impl std::fmt::Display, method: &str, members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{META}{comma}{members}}}}}"#)
}

pub(crate) fn plain(id: impl std::fmt::Display, method: &str, members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}}}}}"#)
}

pub(crate) fn result(id: impl std::fmt::Display, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub(crate) fn error(id: impl std::fmt::Display, error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

pub(crate) fn cancel(id: impl std::fmt::Display) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

/// A client of 2026-07-28 has called a tool as request 1, and a server with sessions was found out and has the call.
pub(crate) fn modern_before_legacy() -> RelayRig {
    let mut rig = serving_modern();
    rig.from_client(&request(1, "tools/call", r#""name":"slow","arguments":{"a":1}"#));
    let asked = rig.at_server();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains(r#""method":"server/discover""#), "{asked:?}");
    rig.from_server(&error(OWN[0], NO_METHOD));
    assert_eq!(
        rig.at_server(),
        [plain(
            OWN[1],
            "initialize",
            r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"client","version":"1"}"#
        )]
    );
    rig.from_server(&result(OWN[1], GREETING));
    assert_eq!(
        rig.at_server(),
        [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
            plain(OWN[2], "tools/call", r#""name":"slow","arguments":{"a":1}"#),
        ]
    );
    assert!(rig.at_client().is_empty());
    rig
}

/// A client with a session has greeted, and a server without was found out.
fn legacy_before_modern() -> RelayRig {
    let mut rig = rig(BridgeConfig::default());
    rig.from_client(HELLO);
    assert_eq!(rig.at_server(), [HELLO]);
    rig.from_server(&error(
        0,
        r#"{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2025-06-18"}}"#,
    ));
    assert_eq!(rig.at_server(), [request(OWN[0], "server/discover", "")]);
    rig.from_server(&result(OWN[0], DISCOVERED));
    assert_eq!(
        rig.at_client(),
        [result(
            0,
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"server","version":"2"},"instructions":"be kind"}"#
        )]
    );
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    rig
}

/// The same, and the server reports the lists that change on `OWN[1]`.
fn following() -> RelayRig {
    let mut rig = legacy_before_modern();
    assert_eq!(
        rig.at_server(),
        [request(OWN[1], "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#)]
    );
    rig.from_server(&acknowledged(OWN[1], r#"{"toolsListChanged":true}"#));
    assert!(rig.at_client().is_empty());
    rig
}

fn acknowledged(id: i64, granted: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{granted}}}}}"#
    )
}

pub(crate) fn is_nothing_left(rig: &mut RelayRig) -> bool {
    rig.pass(Duration::from_secs(3600));
    rig.from_client(r#"{"jsonrpc":"2.0","method":"m/nothing"}"#);
    rig.at_server();
    rig.relay.residue() == 0
}

#[test]
fn a_client_without_a_session_is_answered_by_a_server_with_one() {
    let mut rig = modern_before_legacy();
    rig.from_server(&result(OWN[2], r#"{"content":[]}"#));
    assert_eq!(rig.at_client(), [result(1, r#"{"resultType":"complete","content":[]}"#)]);
    rig.from_client(&request(r#""two""#, "tools/list", ""));
    assert_eq!(rig.at_server(), [plain(OWN[3], "tools/list", "")]);
    rig.from_server(&result(OWN[3], r#"{"tools":[]}"#));
    assert_eq!(
        rig.at_client(),
        [result(r#""two""#, r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}"#)]
    );
    rig.from_client(&request(3, "server/discover", ""));
    let discovered = rig.at_client();
    assert!(rig.at_server().is_empty());
    assert_eq!(
        discovered,
        [result(
            3,
            r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"server","version":"2"}},"instructions":"be kind"}"#
        )]
    );
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn the_progress_token_and_foreign_members_of_meta_stay() {
    let mut rig = modern_before_legacy();
    let meta = META.replace(r#""_meta":{"#, r#""_meta":{"progressToken":7,"traceparent":"00-1-2-01","#);
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"x",{meta}}}}}"#));
    assert_eq!(
        rig.at_server(),
        [plain(OWN[3], "tools/call", r#""_meta":{"progressToken":7,"traceparent":"00-1-2-01"},"name":"x""#)]
    );
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#;
    rig.from_server(progress);
    assert_eq!(rig.at_client(), [progress]);
}

#[test]
fn a_cancel_reaches_a_server_with_sessions_under_the_id_that_it_knows_once() {
    let mut rig = modern_before_legacy();
    for _ in 0..2 {
        rig.from_client(&cancel(1));
    }
    assert_eq!(rig.at_server(), [cancel(OWN[2])]);
    assert_eq!(rig.outcome("1"), Some(Outcome::Sent));
    rig.from_server(&result(OWN[2], r#"{"content":[]}"#));
    assert!(rig.at_client().is_empty(), "MCP-C06");
    assert_eq!(rig.late(), 1, "the relay knows the late answer for what it is");
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_cancel_of_what_waits_for_the_handshake_ends_it_there() {
    let mut rig = serving_modern();
    for id in 1..=3 {
        rig.from_client(&request(id, "tools/call", r#""name":"x""#));
    }
    rig.at_server();
    rig.from_client(&cancel(2));
    rig.from_server(&error(OWN[0], NO_METHOD));
    rig.at_server();
    rig.from_client(&cancel(1));
    rig.from_server(&result(OWN[1], GREETING));
    let seen = rig.at_server();
    assert_eq!(seen[1..], [plain(OWN[2], "tools/call", r#""name":"x""#)], "the third, and nothing of the others");
    rig.from_server(&result(OWN[2], "{}"));
    rig.at_client();
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_server_that_never_answers_what_it_does_not_know_is_one_with_sessions() {
    let mut rig = serving_modern();
    rig.from_client(&request(1, "tools/list", ""));
    rig.at_server();
    rig.pass(Duration::from_millis(9_999));
    assert!(rig.at_server().is_empty());
    rig.pass(Duration::from_millis(1));
    let asked = rig.at_server();
    assert!(asked[0].contains(r#""method":"initialize""#), "{asked:?}");
}

#[test]
fn a_server_that_refuses_both_handshakes_answers_what_waits() {
    let mut rig = serving_modern();
    rig.from_client(&request(1, "tools/list", ""));
    rig.at_server();
    rig.from_server(&error(OWN[0], NO_METHOD));
    rig.at_server();
    let refusal = r#"{"code":-32001,"message":"not today"}"#;
    rig.from_server(&error(OWN[1], refusal));
    assert_eq!(rig.at_client(), [error(1, refusal)]);
    rig.from_client(&request(2, "tools/list", ""));
    assert!(rig.at_server()[0].contains("server/discover"), "who comes next asks again");
}

#[test]
fn a_server_that_ends_while_messages_wait_has_them_answered() {
    let mut rig = serving_modern();
    rig.from_client(&request(1, "tools/list", ""));
    rig.at_server();
    rig.end(Side::Server, &End::Exited(3));
    let answers = rig.at_client();
    assert_eq!(answers.len(), 1);
    assert!(answers[0].contains("-31002") && answers[0].contains(r#""id":1"#), "{answers:?}");
    assert!(is_nothing_left(&mut rig));
}

/// It is that of our question: the server has no other.
#[test]
fn an_error_for_nobody_while_the_server_is_asked_is_not_for_the_client() {
    let mut rig = serving_modern();
    rig.from_client(&request(1, "tools/list", ""));
    rig.from_server(&error("null", NO_METHOD));
    rig.from_server(&error("7", NO_METHOD));
    assert!(rig.at_client().is_empty());
    assert!(rig.relay.may_replace_server());
}

/// As servers on rmcp before 3 do. Half a message of the former one is no part of what the next one says, and an answer to
/// the probe that comes from the next one is for nobody.
#[test]
fn a_server_that_ends_of_the_probe_can_be_replaced_once_and_is_greeted() {
    for refuses_first in [false, true] {
        let mut rig = serving_modern();
        assert!(!rig.relay.may_replace_server(), "nothing was asked");
        rig.from_client(&request(1, "tools/list", ""));
        rig.from_client(&request(2, "prompts/list", ""));
        assert!(rig.at_server()[0].contains("server/discover"));
        assert!(rig.relay.may_replace_server());
        let mut greeting = OWN[1];
        if refuses_first {
            rig.from_server(&error(OWN[0], NO_METHOD));
            assert!(rig.at_server()[0].contains(r#""method":"initialize""#));
            assert!(rig.relay.may_replace_server());
            greeting = OWN[2];
        }
        rig.relay.handle_input(rig.now, Side::Server, br#"{"jsonrpc":"2.0","id":21"#);
        rig.relay.handle_server_replaced(rig.now);
        let sent = rig.at_server();
        assert!(sent.len() == 1 && sent[0].contains(r#""method":"initialize""#), "{sent:?}");
        assert!(!rig.relay.may_replace_server(), "once");
        rig.from_client(&cancel(2));
        // Otherwise what comes first is the answer that all wait for.
        if refuses_first {
            rig.from_server(&error(OWN[0], NO_METHOD));
        }
        rig.from_server(&result(greeting, GREETING));
        let sent = rig.at_server();
        assert!(sent.len() == 2 && sent[1].contains("tools/list"), "{sent:?}");
        assert!(rig.at_client().is_empty());
        rig.from_server(&result(greeting - 1, "{}"));
        assert_eq!(rig.at_client().len(), 1);
        rig.end(Side::Server, &End::Exited(0));
        assert!(is_nothing_left(&mut rig));
    }
}

/// Who comes after a refused greeting asks the server that ends of the probe no more.
#[test]
fn a_server_that_ended_of_the_probe_is_not_asked_again() {
    let mut rig = serving_modern();
    rig.from_client(&request(1, "tools/list", ""));
    rig.at_server();
    rig.relay.handle_server_replaced(rig.now);
    rig.at_server();
    rig.from_server(&error(OWN[1], NO_METHOD));
    assert_eq!(rig.at_client().len(), 1);
    rig.from_client(&request(2, "tools/list", ""));
    let sent = rig.at_server();
    assert!(sent.len() == 1 && sent[0].contains(r#""method":"initialize""#), "{sent:?}");
    assert!(!rig.relay.may_replace_server());
}

#[test]
fn a_server_that_has_said_what_it_speaks_is_not_replaced() {
    let mut rig = modern_before_legacy();
    assert!(!rig.relay.may_replace_server());
    rig.end(Side::Server, &End::Exited(1));
    assert!(!rig.relay.may_replace_server());
    assert!(!modern_before_modern().relay.may_replace_server());
    let mut rig = serving_modern();
    rig.from_client(&request(1, "tools/list", ""));
    rig.relay.handle_write_closed(rig.now, Side::Server);
    assert!(!rig.relay.may_replace_server(), "nothing can be written to it");
}

#[test]
fn a_server_that_speaks_the_clients_revision_is_passed_everything_as_it_is() {
    let mut rig = serving_modern();
    let first = request(1, "tools/list", "");
    rig.from_client(&first);
    rig.at_server();
    rig.from_server(&result(OWN[0], DISCOVERED));
    assert_eq!(rig.at_server(), [plain(OWN[1], "tools/list", META)]);
    let listed = r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public","tools":[]}"#;
    rig.from_server(&result(OWN[1], listed));
    assert_eq!(rig.at_client(), [result(1, listed)]);
    rig.from_client(&request(2, "tools/call", r#""name":"x""#));
    rig.at_server();
    rig.from_client(&cancel(2));
    assert_eq!(rig.at_server(), [cancel(OWN[2])]);
}

/// A client and a server of 2026-07-28, with a bridge that has found that out.
fn modern_before_modern() -> RelayRig {
    let mut rig = serving_modern();
    rig.from_client(&request(7, "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#));
    rig.at_server();
    rig.from_server(&result(OWN[0], DISCOVERED));
    rig.at_server();
    rig.from_server(&acknowledged(OWN[1], r#"{"toolsListChanged":true}"#));
    assert_eq!(rig.at_client(), [acknowledged(7, r#"{"toolsListChanged":true}"#)]);
    rig
}

#[test]
fn the_server_ends_a_subscription_under_the_id_that_its_client_knows() {
    let mut rig = modern_before_modern();
    let stamp =
        |id: i64| format!(r#"{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#);
    rig.from_server(&result(OWN[1], &stamp(OWN[1])));
    let ended = rig.at_client();
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert!(ended[0].contains(r#""io.modelcontextprotocol/subscriptionId":7"#), "{ended:?}");
    assert!(ended[0].contains(r#""id":7"#), "{ended:?}");
    let mut rig = modern_before_modern();
    rig.from_server(&cancel(OWN[1]));
    assert_eq!(rig.at_client(), [cancel(7)], "MCP-M02");
    assert!(is_nothing_left(&mut rig));
}

/// MCP-M01: what it names is not forgotten for that.
#[test]
fn a_server_can_end_no_call_by_a_cancel() {
    let mut rig = following();
    rig.from_client(&plain(1, "tools/call", r#""name":"x""#));
    rig.at_server();
    rig.from_server(&cancel(OWN[2]));
    rig.from_server(&result(OWN[2], r#"{"resultType":"complete","content":[]}"#));
    assert_eq!(rig.at_client(), [result(1, r#"{"content":[]}"#)]);
}

#[test]
fn a_server_that_reads_no_more_may_still_answer_what_it_has() {
    let mut rig = modern_before_legacy();
    rig.relay.handle_write_closed(rig.now, Side::Server);
    rig.from_client(&request(2, "tools/call", r#""name":"x""#));
    rig.from_server(&result(OWN[2], "{}"));
    let answers = rig.at_client();
    assert!(answers[0].contains(r#""id":2,"error":{"code":-31002"#), "{answers:?}");
    assert_eq!(answers[1..], [result(1, r#"{"resultType":"complete"}"#)]);
    rig.end(Side::Server, &End::Closed);
    assert!(is_nothing_left(&mut rig));
}

/// The server is asked once for each resource, and told when nobody listens any more.
#[test]
fn listeners_that_share_a_resource_leave_it_to_the_last() {
    let mut rig = modern_before_legacy();
    for id in [8, 9] {
        rig.from_client(&request(
            id,
            "subscriptions/listen",
            r#""notifications":{"resourceSubscriptions":["a:b","a:b"]}"#,
        ));
    }
    assert_eq!(rig.at_server(), [plain(OWN[3], "resources/subscribe", r#""uri":"a:b""#)]);
    rig.from_client(&cancel(8));
    assert!(rig.at_server().is_empty());
    rig.from_client(&cancel(9));
    let left = rig.at_server();
    assert!(
        left[0].contains(r#""method":"resources/unsubscribe","params":{"uri":"a:b"}"#) && left.len() == 1,
        "{left:?}"
    );
}

#[test]
fn what_is_listened_to_is_bounded_in_the_bytes_that_it_takes() {
    let bridge = BridgeConfig { serves_modern: true, max_listening: 20_000, ..BridgeConfig::default() };
    let mut rig = rig(bridge);
    rig.from_client(&request(0, "tools/list", ""));
    rig.at_server();
    rig.from_server(&error(OWN[0], NO_METHOD));
    rig.at_server();
    rig.from_server(&result(OWN[1], GREETING));
    rig.at_server();
    let before = rig.relay.held();
    for id in 1..300 {
        let uri = format!(r#""notifications":{{"resourceSubscriptions":["{id}"]}}"#);
        rig.from_client(&request(id, "subscriptions/listen", &uri));
        rig.at_server();
    }
    let refused = rig.at_client().iter().filter(|said| said.contains("-31004")).count();
    assert!((150..299).contains(&refused), "{refused}");
    assert!(rig.relay.held() - before < 500_000, "{} bytes", rig.relay.held() - before);
}

#[test]
fn answers_in_a_batch_are_answers() {
    let mut rig = modern_before_legacy();
    rig.from_client(&request(2, "tools/call", r#""name":"x""#));
    rig.at_server();
    rig.from_server(&format!("[{},{}]", result(OWN[3], "{}"), result(OWN[2], "{}")));
    let done = r#"{"resultType":"complete"}"#;
    assert_eq!(rig.at_client(), [result(2, done), result(1, done)]);
}

#[test]
fn without_being_asked_to_serve_clients_without_a_session_it_leaves_the_refusal_to_the_server() {
    let mut rig = rig(BridgeConfig::default());
    let probe = request(1, "server/discover", "");
    rig.from_client(&probe);
    assert_eq!(rig.at_server(), [probe]);
    rig.from_server(&error(1, NO_METHOD));
    assert_eq!(rig.at_client(), [error(1, NO_METHOD)]);
    rig.from_client(HELLO);
    assert_eq!(rig.at_server(), [HELLO]);
}

#[test]
fn two_sides_with_sessions_have_every_byte_as_it_was() {
    let mut rig = serving_modern();
    rig.from_client(HELLO);
    assert_eq!(rig.at_server(), [HELLO]);
    let greeting = result(0, GREETING);
    rig.from_server(&greeting);
    assert_eq!(rig.at_client(), [greeting]);
    let odd = r#"{ "id" : 1,"method":"tools/call" , "params":{"name":"x"},"jsonrpc":"2.0", "extra":[1] }"#;
    rig.from_client(odd);
    assert_eq!(rig.at_server(), [odd]);
    let question = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?"}}"#;
    rig.from_server(question);
    assert_eq!(rig.at_client(), [question], "what the client declared is the client's to keep");
}

#[test]
fn a_refusal_of_another_kind_is_the_clients_to_hear() {
    let mut rig = rig(BridgeConfig::default());
    rig.from_client(HELLO);
    rig.at_server();
    let refusal = error(0, r#"{"code":-32000,"message":"not now"}"#);
    rig.from_server(&refusal);
    assert_eq!(rig.at_client(), [refusal]);
    assert!(rig.at_server().is_empty());
}

#[test]
fn a_client_with_a_session_is_answered_by_a_server_without() {
    let mut rig = following();
    rig.from_client(&plain(1, "tools/call", r#""name":"x""#));
    assert_eq!(rig.at_server(), [request(OWN[2], "tools/call", r#""name":"x""#)]);
    rig.from_server(&result(OWN[2], r#"{"resultType":"complete","content":[],"ttlMs":0}"#));
    assert_eq!(rig.at_client(), [result(1, r#"{"content":[]}"#)]);
    rig.from_client(&plain(2, "ping", ""));
    assert_eq!(rig.at_client(), [result(2, "{}")]);
    rig.from_client(&plain(3, "logging/setLevel", r#""level":"warning""#));
    assert_eq!(rig.at_client(), [result(3, "{}")]);
    rig.from_client(&plain(4, "tools/list", r#""_meta":{"progressToken":"t"}"#));
    let asked = rig.at_server();
    assert!(asked[0].contains(r#""io.modelcontextprotocol/logLevel":"warning","progressToken":"t""#), "{asked:?}");
}

#[test]
fn a_cancel_reaches_a_server_without_sessions_under_the_id_that_it_knows() {
    let mut rig = following();
    rig.from_client(&plain(1, "tools/call", r#""name":"x""#));
    rig.at_server();
    rig.from_client(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}"#,
    );
    assert_eq!(
        rig.at_server(),
        [format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{},"reason":"enough"}}}}"#,
            OWN[2]
        )]
    );
    assert!(rig.at_client().is_empty());
}

#[test]
fn a_server_without_sessions_reports_what_its_client_subscribes_to_and_nothing_twice() {
    let mut rig = following();
    let changed = |id: i64| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
        )
    };
    let told = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}"#;
    rig.from_server(&changed(OWN[1]));
    assert_eq!(rig.at_client(), [told]);
    rig.from_client(&plain(1, "resources/subscribe", r#""uri":"a:b""#));
    let both = r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}"#;
    assert_eq!(rig.at_server(), [request(OWN[2], "subscriptions/listen", both)]);
    assert!(rig.at_client().is_empty(), "it is subscribed once the server says so");
    // Both are open now.
    rig.from_server(&changed(OWN[1]));
    rig.from_server(&changed(OWN[2]));
    assert_eq!(rig.at_client(), [told]);
    rig.from_server(&acknowledged(OWN[2], r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}"#));
    assert_eq!(rig.at_server(), [cancel(OWN[1])]);
    assert_eq!(rig.at_client(), [result(1, "{}")]);
    rig.from_server(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}},"uri":"a:b"}}}}"#,
        OWN[2]
    ));
    assert_eq!(
        rig.at_client(),
        [r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#]
    );
}

#[test]
fn a_client_without_a_session_hears_of_what_it_listens_to_and_of_nothing_else() {
    let mut rig = modern_before_legacy();
    let filter =
        r#""notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:b"]}"#;
    rig.from_client(&request(9, "subscriptions/listen", filter));
    assert_eq!(rig.at_server(), [plain(OWN[3], "resources/subscribe", r#""uri":"a:b""#)]);
    assert_eq!(
        rig.at_client(),
        [acknowledged(9, r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}"#)],
        "the server does not report prompts"
    );
    rig.from_server(&result(OWN[3], "{}"));
    let of = |method: &str, members: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{members}}}}}"#)
    };
    rig.from_server(&of("tools/list_changed", ""));
    rig.from_server(&of("resources/list_changed", ""));
    rig.from_server(&of("resources/updated", r#""uri":"a:b""#));
    rig.from_server(&of("resources/updated", r#""uri":"c:d""#));
    rig.from_server(&of("message", r#""level":"error","data":"x""#));
    let stamp = r#""_meta":{"io.modelcontextprotocol/subscriptionId":9}"#;
    assert_eq!(
        rig.at_client(),
        [of("tools/list_changed", stamp), of("resources/updated", &format!(r#"{stamp},"uri":"a:b""#))]
    );
    rig.from_client(&cancel(9));
    assert_eq!(rig.at_server(), [plain(OWN[5], "resources/unsubscribe", r#""uri":"a:b""#)], "nobody else listens");
    rig.from_server(&of("tools/list_changed", ""));
    assert!(rig.at_client().is_empty());
}

#[test]
fn log_messages_come_while_a_request_asks_for_them_and_of_its_level() {
    let mut rig = modern_before_legacy();
    let meta = META.replace(
        "\"io.modelcontextprotocol/clientCapabilities\"",
        "\"io.modelcontextprotocol/logLevel\":\"info\",\"io.modelcontextprotocol/clientCapabilities\"",
    );
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"x",{meta}}}}}"#));
    assert_eq!(
        rig.at_server(),
        [plain(OWN[3], "logging/setLevel", r#""level":"info""#), plain(OWN[4], "tools/call", r#""name":"x""#)]
    );
    let log = |level: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":"x"}}}}"#)
    };
    rig.from_server(&log("debug"));
    rig.from_server(&log("error"));
    assert_eq!(rig.at_client(), [log("error")]);
    rig.from_server(&result(OWN[4], "{}"));
    rig.at_client();
    rig.from_server(&log("error"));
    assert!(rig.at_client().is_empty());
}

#[test]
fn a_question_of_a_server_with_sessions_is_refused_in_words_at_once() {
    let mut rig = modern_before_legacy();
    rig.from_server(&plain(5, "sampling/createMessage", ""));
    let refused = rig.at_server();
    assert!(
        refused[0].starts_with(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"the client speaks"#),
        "{refused:?}"
    );
    rig.from_server(&plain(6, "ping", ""));
    assert_eq!(rig.at_server(), [result(6, "{}")]);
    assert!(rig.at_client().is_empty());
}

#[test]
fn what_one_era_calls_missing_the_other_calls_invalid() {
    let mut rig = modern_before_legacy();
    rig.from_client(&request(2, "resources/read", r#""uri":"a:b""#));
    rig.at_server();
    rig.from_server(&error(OWN[3], r#"{"code":-32002,"message":"no such","data":{"uri":"a:b"}}"#));
    assert_eq!(rig.at_client(), [error(2, r#"{"code":-32602,"message":"no such","data":{"uri":"a:b"}}"#)]);
    for method in ["ping", "logging/setLevel", "resources/subscribe", "tasks/get"] {
        rig.from_client(&request(3, method, ""));
        let refused = rig.at_client();
        assert!(refused[0].contains("-32601"), "{method}: {refused:?}");
    }
    assert!(rig.at_server().is_empty());
}

#[test]
fn an_answer_that_cannot_be_read_ends_its_request() {
    let mut rig = modern_before_legacy();
    rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"a":}}"#, OWN[2]));
    let ended = rig.at_client();
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert!(ended[0].contains(r#""id":1"#) && ended[0].contains("-32603"), "{ended:?}");
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn many_clients_of_both_eras_share_a_server_with_sessions() {
    let mut rig = rig(BridgeConfig { serves_modern: true, is_shared: true, ..BridgeConfig::default() });
    rig.from_client(HELLO);
    rig.from_client(&request(1, "tools/call", r#""name":"x""#));
    assert_eq!(rig.at_server(), [HELLO], "the other waits for what is learnt");
    rig.from_server(&result(0, GREETING));
    assert_eq!(rig.at_client(), [result(0, GREETING)]);
    rig.from_client(&plain(2, "tools/call", r#""name":"y""#));
    assert_eq!(
        rig.at_server(),
        [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
            plain(OWN[0], "tools/call", r#""name":"x""#),
            plain(OWN[1], "tools/call", r#""name":"y""#),
        ]
    );
    rig.from_server(&result(OWN[1], r#"{"content":[]}"#));
    rig.from_server(&result(OWN[0], r#"{"content":[]}"#));
    assert_eq!(
        rig.at_client(),
        [result(2, r#"{"content":[]}"#), result(1, r#"{"resultType":"complete","content":[]}"#)]
    );
}

/// Whatever comes while the server says nothing, what is held is bounded, and the client is not read any more.
#[test]
fn a_flood_before_the_handshake_is_held_within_bounds_and_answered_after_it() {
    let bridge = BridgeConfig { serves_modern: true, max_held: 100_000, ..BridgeConfig::default() };
    let config =
        RelayConfig { bridge: Some(bridge), max_backlog: 200_000, max_message: 10_000, ..RelayConfig::default() };
    let most = config.most_held(4096);
    let mut rig = RelayRig::new(config);
    let padding = "x".repeat(1000);
    let mut asked = 0;
    while rig.relay.wants_input(Side::Client) {
        asked += 1;
        rig.from_client(&request(asked, "tools/call", &format!(r#""name":"{padding}""#)));
        assert!(rig.relay.held() < most, "{} of {most}", rig.relay.held());
        assert!(asked < 10_000, "it is read on and on");
    }
    rig.at_server();
    rig.from_server(&error(OWN[0], NO_METHOD));
    rig.at_server();
    rig.from_server(&result(OWN[1], GREETING));
    let seen: Vec<String> = rig.at_server().split_off(1);
    assert_eq!(seen.len(), asked, "none is lost");
    assert!(rig.relay.wants_input(Side::Client));
    for id in 0..i64::try_from(asked).unwrap() {
        rig.from_server(&result(OWN[2] - id, "{}"));
    }
    assert_eq!(rig.at_client().len(), asked);
    assert!(is_nothing_left(&mut rig));
}

/// A request waits in front of a server that does not read: cancelled, it never gets there, and neither does its cancel.
#[test]
fn what_waits_to_be_written_is_taken_back() {
    let mut rig = modern_before_legacy();
    rig.from_client(&request(2, "tools/call", r#""name":"a""#));
    rig.write(Side::Server, 10);
    for id in 3..=4 {
        rig.from_client(&request(id, "tools/call", r#""name":"b""#));
    }
    rig.from_client(&cancel(3));
    rig.from_client(&cancel(2));
    let seen = rig.at_server();
    let begun = plain(OWN[3], "tools/call", r#""name":"a""#);
    assert_eq!(seen, [begun, cancel(OWN[3]), plain(OWN[5], "tools/call", r#""name":"b""#)]);
    assert_eq!((rig.outcome("3"), rig.outcome("2")), (Some(Outcome::NeverSent), Some(Outcome::Sent)));
    assert_eq!(rig.receipt(Side::Client, "3").unwrap().written, None);
}

/// Its client has greeted the server, which does not read, and calls before that is answered. The server may turn out to be
/// of the client's era meanwhile.
#[test]
fn what_waits_behind_a_handshake_is_taken_back_and_a_cancel_passes_it() {
    for is_answered in [false, true] {
        let mut rig = serving_modern();
        rig.from_client(HELLO);
        rig.at_server();
        let call = |id| plain(id, "tools/call", r#""name":"x""#);
        (1..=3).for_each(|id| rig.from_client(&call(id)));
        rig.write(Side::Server, 10);
        if is_answered {
            rig.from_server(&result(0, GREETING));
        }
        rig.from_client(&cancel(3));
        rig.from_client(&cancel(1));
        assert_eq!(rig.at_server(), [call(1), cancel(1), call(2)]);
        assert_eq!((rig.outcome("3"), rig.outcome("1")), (Some(Outcome::NeverSent), Some(Outcome::Sent)));
        assert_eq!(rig.receipt(Side::Client, "3").unwrap().written, None);
    }
}

/// The members of a batch leave together.
#[test]
fn a_cancel_before_the_handshake_is_over_stays_behind_the_batch_that_has_its_call() {
    let (mut bridge, now) = (Bridge::new(BridgeConfig::default(), 0), Instant::ORIGIN);
    let calls = format!("[{},{}]", plain(1, "tools/call", ""), plain(2, "tools/call", ""));
    for message in [HELLO, &calls, &plain(3, "tools/call", ""), &cancel(1)] {
        assert!(bridge.handle_message(now, Side::Client, message.as_bytes()));
    }
    let mut sent = String::new();
    while let len @ 1.. = bridge.pending().len() {
        sent.push_str(str::from_utf8(bridge.pending()).unwrap());
        bridge.handle_written(now, len);
    }
    let sent: Vec<_> = sent.lines().collect();
    assert_eq!(sent, [HELLO, &calls, &plain(3, "tools/call", ""), &cancel(1)]);
}

/// The server does not even say what it speaks: of a call that waits for that, and is cancelled, it gets nothing.
#[test]
fn a_call_that_waits_for_a_silent_server_is_never_sent() {
    let mut rig = serving_modern();
    for id in 1..=2 {
        rig.from_client(&request(id, "tools/call", r#""name":"slow""#));
    }
    assert_eq!(rig.at_server().len(), 1, "the question of what it speaks");
    let view = rig.relay.view(rig.key(Side::Client, "1").unwrap()).unwrap();
    assert_eq!(view.state, RequestState::Queued);
    rig.from_client(&cancel(1));
    let receipt = rig.receipt(Side::Client, "1").unwrap();
    assert_eq!((receipt.outcome, receipt.written), (Outcome::NeverSent, None));
    let key = rig.key(Side::Client, "2").unwrap();
    assert!(rig.relay.stop(rig.now, key, Some("late")));
    let told = rig.at_client();
    assert!(told[0].contains(r#""outcome":"never_sent""#), "{told:?}");
    rig.from_server(&error(OWN[0], NO_METHOD));
    rig.from_server(&result(OWN[1], GREETING));
    let seen = rig.at_server();
    assert!(seen.iter().all(|line| !line.contains("tools/call") && !line.contains("cancelled")), "{seen:?}");
    assert!(is_nothing_left(&mut rig));
}

/// Calls of 1 kB fill the pipe of a server that has stopped reading; the client cancels the first: how many lines the
/// server reads before it reads that.
fn lines_before_the_cancel(rig: &mut RelayRig, call: impl Fn(i64) -> String) -> usize {
    const PIPE: usize = 64 << 10;
    (11..411).for_each(|id| rig.from_client(&call(id)));
    rig.write(Side::Server, PIPE);
    rig.from_client(&cancel(11));
    rig.at_server().iter().position(|line| line.contains("notifications/cancelled")).expect("it is told")
}

#[test]
fn behind_a_bridge_a_cancel_is_hardly_later_than_without() {
    let padding = format!(r#""name":"{}""#, "x".repeat(1000));
    let call = |id| plain(id, "tools/call", &padding);
    let mut plainly = RelayRig::new(RelayConfig::default());
    plainly.from_client(HELLO);
    plainly.at_server();
    plainly.from_server(&result(0, GREETING));
    plainly.at_client();
    let without = lines_before_the_cancel(&mut plainly, call);
    let to_legacy = lines_before_the_cancel(&mut modern_before_legacy(), |id| request(id, "tools/call", &padding));
    assert!(to_legacy <= without + 5, "{to_legacy} lines, and {without} without a bridge");
    let to_modern = lines_before_the_cancel(&mut following(), call);
    assert!(to_modern <= without + 5, "{to_modern} lines, and {without} without a bridge");
}

/// What a server without sessions was given of a call it has answered: of the rest it gets nothing, and no cancel.
#[test]
fn an_answer_that_crosses_a_waiting_cancel_takes_it_back() {
    let mut rig = modern_before_legacy();
    rig.from_client(&request(2, "tools/call", r#""name":"b""#));
    rig.write(Side::Server, 10);
    rig.from_client(&cancel(1));
    assert_eq!(rig.outcome("1"), Some(Outcome::Asked));
    rig.from_server(&result(OWN[2], r#"{"content":[]}"#));
    let receipt = rig.receipt(Side::Client, "1").unwrap();
    assert_eq!((receipt.outcome, receipt.written), (Outcome::CompletedFirst, None));
    assert_eq!(rig.at_server(), [plain(OWN[3], "tools/call", r#""name":"b""#)]);
}

#[test]
fn half_a_frame_and_several_in_one_read_are_what_they_are_whole() {
    let mut rig = serving_modern();
    let sent = [request(1, "tools/list", ""), request(2, "tools/call", r#""name":"x""#), cancel(1)].join("\n") + "\n";
    sent.as_bytes().chunks(7).for_each(|bytes| rig.bytes(Side::Client, bytes));
    rig.at_server();
    let said = [error(OWN[0], NO_METHOD), result(OWN[1], GREETING)].join("\n") + "\n";
    for bytes in said.as_bytes().chunks(5) {
        rig.write(Side::Server, 3);
        rig.bytes(Side::Server, bytes);
    }
    let seen = rig.at_server();
    assert_eq!(seen.last(), Some(&plain(OWN[2], "tools/call", r#""name":"x""#)), "{seen:?}");
}

/// Whoever has taken it from the bridge could not send it: it is answered, and was never sent.
#[test]
fn a_call_that_could_not_be_sent_is_answered_through_a_bridge() {
    let mut rig = RelayRig::new(RelayConfig {
        bridge: Some(BridgeConfig { serves_modern: true, ..BridgeConfig::default() }),
        server_departs: true,
        ..RelayConfig::default()
    });
    rig.from_client(&request(1, "tools/call", r#""name":"slow""#));
    rig.at_server();
    rig.from_server(&error(OWN[0], NO_METHOD));
    rig.at_server();
    rig.from_server(&result(OWN[1], GREETING));
    let seen = rig.at_server();
    assert!(seen.iter().any(|line| line.contains("tools/call")), "{seen:?}");
    let departure = Departure::Withdrawn(RequestId::integer(OWN[2]));
    rig.relay.handle_departure(rig.now, Side::Server, &departure);
    rig.from_server(&error(OWN[2], r#"{"code":-31002,"message":"cannot reach it"}"#));
    let told = rig.at_client();
    assert!(told.len() == 1 && told[0].contains("cannot reach it"), "{told:?}");
    assert!(is_nothing_left(&mut rig));
}
