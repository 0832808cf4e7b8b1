//! Limits on what is asked (D65): what exceeds one is answered at once, and never sent.

use core::time::Duration;

use rescind_proto::{
    cause::CauseCode,
    error_code,
    receipt::Outcome,
    relay::{End, ErrorLimit, LimitRules, RateLimit, Relay, RelayConfig, RepeatLimit, RequestState, Settled},
    side::Side,
    time::Instant,
};
use rescind_testkit::relay_rig::RelayRig;

const MINUTE: Duration = Duration::from_secs(60);

fn rate(method: Option<&str>, tool: Option<&str>, most: u32) -> RateLimit {
    let selector = method.map_or(String::new(), |method| match tool {
        Some(tool) => format!("{method}:{tool}="),
        None => format!("{method}="),
    });
    let (method, tool) = (method.map(Into::into), tool.map(Into::into));
    RateLimit { name: format!("--limit {selector}{most}/1m").into(), method, tool, most, per: MINUTE }
}

fn rates(rates: impl Into<Vec<RateLimit>>) -> LimitRules {
    LimitRules { rates: rates.into(), ..LimitRules::default() }
}

fn repeats(most: u32) -> LimitRules {
    let name = format!("--limit-repeats {most}").into();
    LimitRules { repeats: Some(RepeatLimit { name, most }), ..LimitRules::default() }
}

fn errors(most: u32) -> LimitRules {
    let name = format!("--limit-errors {most}").into();
    LimitRules { errors: Some(ErrorLimit { name, most, pause: MINUTE }), ..LimitRules::default() }
}

fn mcp(limits: LimitRules) -> RelayRig {
    opened(limits, r#"{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"requests":{"tools":{"call":{}}}}}}"#)
}

fn acp(limits: LimitRules) -> RelayRig {
    opened(limits, r#"{"protocolVersion":1}"#)
}

fn opened(limits: LimitRules, handshake: &str) -> RelayRig {
    let mut rig = RelayRig::new(RelayConfig { limits, ..RelayConfig::default() });
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":"h","method":"initialize","params":{handshake}}}"#));
    rig.at_server();
    rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":"h","result":{handshake}}}"#));
    rig.at_client();
    rig
}

fn request(id: u32, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn call(id: u32, tool: &str) -> String {
    request(id, "tools/call", &format!(r#"{{"name":"{tool}","arguments":{{"n":{id}}}}}"#))
}

/// The request passes: the server receives it as it is, and its client nothing yet.
fn passes(rig: &mut RelayRig, message: &str) {
    rig.from_client(message);
    assert_eq!(rig.at_server(), [message]);
    assert_eq!(rig.at_client(), [""; 0], "{message}");
}

/// The request is refused: the server receives nothing, and its client one answer with all of these words.
fn is_refused(rig: &mut RelayRig, message: &str, words: &[&str]) -> String {
    rig.from_client(message);
    assert_eq!(rig.at_server(), [""; 0], "{message}");
    let mut answers = rig.at_client();
    assert_eq!(answers.len(), 1, "{message}");
    let answer = answers.remove(0);
    for word in words {
        assert!(answer.contains(word), "{word:?} is not in {answer}");
    }
    answer
}

/// The server answers, and the client receives that.
fn answers(rig: &mut RelayRig, id: u32, body: &str) {
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#);
    rig.from_server(&answer);
    assert_eq!(rig.at_client(), [answer]);
}

fn limited(rig: &RelayRig) -> u64 {
    rig.relay.tally().limited.values().sum()
}

#[test]
fn a_call_beyond_a_limit_is_answered_as_a_failed_tool_that_its_model_can_read() {
    let mut rig = mcp(rates([rate(Some("tools/call"), None, 1)]));
    passes(&mut rig, &call(1, "search"));
    rig.pass(Duration::from_millis(500));
    let answer = is_refused(&mut rig, &call(2, "search"), &[]);
    assert_eq!(
        answer,
        r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"refused by a limit that was set for this server (rescind --limit tools/call=1/1m): at most 1 request for tools/call may pass within 60s. This request was not sent to the server. Do not retry: retries are refused, too, for the next 60 seconds"}],"isError":true,"_meta":{"rescind/receipt":{"cause":"policy","reason":"--limit tools/call=1/1m","outcome":"never_sent"}}}}"#
    );
    // What is not a call of a tool has no such result.
    passes(&mut rig, &request(3, "tools/list", "{}"));
    assert_eq!(rig.outcome("2"), Some(Outcome::NeverSent));
    let receipt = rig.receipt(Side::Client, "2").expect("it was cancelled");
    assert_eq!((receipt.cause.code, receipt.cause.text()), (CauseCode::Policy, Some("--limit tools/call=1/1m")));
    let view = rig.relay.view(rig.key(Side::Client, "2").expect("it was opened")).expect("it is remembered");
    assert_eq!(view.state, RequestState::Ended);
    assert_eq!(view.ended.map(|ended| ended.how), Some(Settled::AnsweredHere { code: None }));
    let counted: Vec<_> = rig.relay.tally().limited.iter().map(|(name, count)| (&**name, *count)).collect();
    assert_eq!(counted, [("--limit tools/call=1/1m", 1)]);
    assert_eq!(rig.relay.tally().cancels.get("policy"), Some(&1));
}

#[test]
fn in_the_revision_without_sessions_the_answer_says_that_it_is_whole() {
    let mut rig = RelayRig::new(RelayConfig { limits: rates([rate(None, None, 1)]), ..RelayConfig::default() });
    let modern = |id: u32| {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        request(id, "tools/call", &format!(r#"{{"name":"a","_meta":{meta}}}"#))
    };
    passes(&mut rig, &modern(1));
    is_refused(&mut rig, &modern(2), &[r#""isError":true,"resultType":"complete""#]);
}

#[test]
fn every_other_request_beyond_a_limit_is_answered_with_an_error() {
    let mut rig = mcp(rates([rate(None, None, 1)]));
    passes(&mut rig, &request(1, "tools/list", "{}"));
    let words =
        [r#""code":-31007,"message":"refused by a limit"#, "--limit 1/1m", "Do not retry", r#""cause":"policy""#];
    is_refused(&mut rig, &request(2, "resources/list", "{}"), &words);
    // A client that asked for a task would read a result as the handle of one.
    let augmented = request(3, "tools/call", r#"{"name":"a","task":{"ttl":1}}"#);
    is_refused(&mut rig, &augmented, &words);

    let mut rig = acp(rates([rate(Some("session/prompt"), None, 1)]));
    let prompt = |id: u32| request(id, "session/prompt", r#"{"sessionId":"s","prompt":[]}"#);
    passes(&mut rig, &prompt(1));
    is_refused(&mut rig, &prompt(2), &[r#""code":-31007"#, "session/prompt"]);
    // The turn goes on.
    let card = r#"{"jsonrpc":"2.0","id":"c","method":"session/request_permission","params":{"sessionId":"s"}}"#;
    rig.from_server(card);
    assert_eq!(rig.at_client(), [card]);
    answers(&mut rig, 1, r#""result":{"stopReason":"end_turn"}"#);

    let mut rig = RelayRig::new(RelayConfig {
        framing: Some(rescind_proto::framing::Framing::Headers),
        limits: rates([rate(Some("textDocument/hover"), None, 1)]),
        ..RelayConfig::default()
    });
    passes(&mut rig, &request(0, "initialize", "{}"));
    answers(&mut rig, 0, r#""result":{}"#);
    passes(&mut rig, &request(1, "textDocument/hover", "{}"));
    is_refused(&mut rig, &request(2, "textDocument/hover", "{}"), &[r#""code":-31007"#]);
}

#[test]
fn of_sixty_four_calls_at_once_exactly_as_many_as_allowed_reach_the_server_and_each_has_one_answer() {
    for most in [1, 10, 63, 64] {
        let mut rig = mcp(rates([rate(Some("tools/call"), None, most)]));
        (1..=64).for_each(|id| rig.from_client(&call(id, "work")));
        let sent = rig.at_server();
        assert_eq!(sent.len(), most as usize);
        assert_eq!(rig.at_client().len(), 64 - most as usize);
        assert_eq!(limited(&rig), u64::from(64 - most));
        for id in 1..=most {
            answers(&mut rig, id, r#""result":{"content":[]}"#);
        }
        assert_eq!(rig.relay.in_flight(Side::Client), 0);
    }
}

#[test]
fn a_place_is_free_again_after_the_time_and_not_before() {
    let mut rig = mcp(rates([rate(Some("tools/call"), None, 2)]));
    passes(&mut rig, &call(1, "a"));
    rig.pass(MINUTE / 2);
    passes(&mut rig, &call(2, "a"));
    is_refused(&mut rig, &call(3, "a"), &["for the next 30 seconds"]);
    rig.pass(MINUTE / 2 - Duration::from_nanos(1));
    is_refused(&mut rig, &call(4, "a"), &["for the next 1 second"]);
    rig.pass(Duration::from_nanos(1));
    passes(&mut rig, &call(5, "a"));
    is_refused(&mut rig, &call(6, "a"), &["for the next 30 seconds"]);
}

#[test]
fn every_limit_that_is_for_a_request_holds_and_a_refused_one_takes_no_place() {
    let calls = || rate(Some("tools/call"), None, 3);
    let mut rig = mcp(rates([calls(), rate(Some("tools/call"), Some("a"), 1), rate(None, None, 4)]));
    passes(&mut rig, &call(1, "a"));
    is_refused(&mut rig, &call(2, "a"), &["--limit tools/call:a=1/1m", "at most 1 request for tools/call:a"]);
    is_refused(&mut rig, &call(3, r"\u0061"), &["--limit tools/call:a=1/1m"]);
    passes(&mut rig, &call(4, "b"));
    passes(&mut rig, &call(5, "c"));
    is_refused(&mut rig, &call(6, "b"), &["--limit tools/call=3/1m"]);
    passes(&mut rig, &request(7, "prompts/list", "{}"));
    is_refused(&mut rig, &request(8, "prompts/list", "{}"), &["--limit 4/1m", "4 requests of the client"]);
}

#[test]
fn a_limit_without_a_method_leaves_alone_what_keeps_a_session_or_ends_work() {
    let mut rig = mcp(rates([rate(None, None, 1)]));
    passes(&mut rig, &call(1, "a"));
    for (id, method) in [(2, "ping"), (3, "tasks/get"), (4, "tasks/cancel")] {
        passes(&mut rig, &request(id, method, r#"{"taskId":"t"}"#));
    }
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    rig.from_client(cancel);
    assert_eq!(rig.at_server(), [cancel]);
    // Nor has the server a limit.
    for id in 1..4 {
        let ask = request(id, "roots/list", "{}");
        rig.from_server(&ask);
        assert_eq!(rig.at_client(), [ask]);
    }
    let mut rig = mcp(rates([rate(Some("tasks/get"), None, 1)]));
    passes(&mut rig, &request(1, "tasks/get", r#"{"taskId":"t"}"#));
    is_refused(&mut rig, &request(2, "tasks/get", r#"{"taskId":"t"}"#), &["--limit tasks/get=1/1m"]);
}

#[test]
fn a_limit_that_names_a_method_of_the_server_is_for_the_server() {
    let mut rig = mcp(rates([rate(Some("sampling/createMessage"), None, 1)]));
    let ask = |id: u32| request(id, "sampling/createMessage", "{}");
    rig.from_server(&ask(1));
    assert_eq!(rig.at_client(), [ask(1)]);
    rig.from_server(&ask(2));
    assert_eq!(rig.at_client(), [""; 0]);
    let refusal = rig.at_server();
    assert_eq!(refusal.len(), 1);
    assert!(refusal[0].contains(r#""id":2,"error":{"code":-31007"#), "{refusal:?}");
    // No clock stands still for it.
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(rig.at_server().len(), 1);
    assert_eq!(rig.relay.in_flight(Side::Server), 0);
}

#[test]
fn what_is_refused_for_another_reason_or_cancelled_before_it_came_takes_no_place() {
    let mut rig = mcp(rates([rate(Some("tools/call"), None, 2)]));
    passes(&mut rig, &call(1, "a"));
    is_refused(&mut rig, &call(1, "a"), &["already in flight"]);
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    rig.from_client(&call(2, "a"));
    assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![]));
    passes(&mut rig, &call(3, "a"));
    is_refused(&mut rig, &call(4, "a"), &["--limit"]);
}

#[test]
fn a_request_that_is_taken_back_before_it_left_keeps_its_place() {
    let mut rig = mcp(rates([rate(Some("tools/call"), None, 1)]));
    rig.from_client(&call(1, "a"));
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(rig.outcome("1"), Some(Outcome::NeverSent));
    is_refused(&mut rig, &call(2, "a"), &["--limit"]);
}

#[test]
fn the_refusal_of_a_request_that_its_client_cancels_is_taken_back() {
    let mut rig = mcp(rates([rate(Some("tools/call"), None, 1)]));
    passes(&mut rig, &call(1, "a"));
    rig.from_client(&call(2, "a"));
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    assert_eq!((rig.at_server(), rig.at_client(), limited(&rig)), (vec![], vec![], 1));
}

#[test]
fn the_same_request_passes_so_often_in_a_row_and_a_different_one_begins_anew() {
    let mut rig = mcp(repeats(2));
    let same = |id: u32| {
        let meta = format!(r#"{{"progressToken":{id}}}"#);
        request(id, "tools/call", &format!(r#"{{"name":"a","arguments":{{"x":1,"y":[2]}},"_meta":{meta}}}"#))
    };
    let turned = r#"{"arguments": {"y": [2], "x": 1}, "name": "a"}"#;
    passes(&mut rig, &same(1));
    // Neither of these is a request of the client for something else.
    passes(&mut rig, &request(2, "ping", "{}"));
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    rig.from_client(notice);
    assert_eq!(rig.at_server(), [notice]);
    answers(&mut rig, 1, r#""result":{"content":[]}"#);
    passes(&mut rig, &request(3, "tools/call", turned));
    let words =
        ["tools/call:a was asked for with the same arguments 2 times in a row", "until a different request is made"];
    is_refused(&mut rig, &same(4), &words);
    // It is no matter of time.
    rig.pass(60 * MINUTE);
    is_refused(&mut rig, &request(5, "tools/call", turned), &words);
    passes(&mut rig, &request(6, "tools/call", r#"{"name":"a","arguments":{"x":1,"y":[3]}}"#));
    passes(&mut rig, &same(7));
    // The method counts as well.
    passes(&mut rig, &request(8, "prompts/get", turned));
    passes(&mut rig, &same(9));
    passes(&mut rig, &same(10));
    is_refused(&mut rig, &same(11), &words);
}

#[test]
fn of_sixty_four_equal_calls_at_once_exactly_as_many_as_allowed_pass() {
    let mut rig = mcp(repeats(3));
    for id in 1..=64 {
        rig.from_client(&request(id, "tools/call", r#"{"name":"a"}"#));
    }
    assert_eq!((rig.at_server().len(), rig.at_client().len()), (3, 61));
}

#[test]
fn huge_arguments_are_compared_as_well() {
    let huge = |id: u32, end: &str| {
        request(id, "tools/call", &format!(r#"{{"name":"a","arguments":{{"x":"{}{end}"}}}}"#, "y".repeat(1 << 20)))
    };
    let mut rig = mcp(repeats(1));
    passes(&mut rig, &huge(1, "1"));
    passes(&mut rig, &huge(2, "2"));
    is_refused(&mut rig, &huge(3, "2"), &["--limit-repeats 1"]);
}

const FAILED: &str = r#""result":{"content":[],"isError":true}"#;
const ERROR: &str = r#""error":{"code":-32000,"message":"no"}"#;
const DONE: &str = r#""result":{"content":[],"isError":false}"#;

#[test]
fn after_so_many_errors_in_a_row_a_tool_is_refused_and_each_pause_lets_one_call_try() {
    let mut rig = mcp(errors(2));
    let mut id = 0;
    let mut called = |rig: &mut RelayRig, tool: &str, answer: &str| {
        id += 1;
        passes(rig, &call(id, tool));
        answers(rig, id, answer);
    };
    called(&mut rig, "a", ERROR);
    called(&mut rig, "b", ERROR);
    called(&mut rig, "a", DONE);
    called(&mut rig, "a", FAILED);
    called(&mut rig, "a", ERROR);
    let words = ["the last 2 answers to tools/call:a were errors", "--limit-errors 2", "Do not retry"];
    is_refused(&mut rig, &call(100, "a"), &words);
    called(&mut rig, "b", DONE);
    called(&mut rig, "c", ERROR);
    rig.pass(MINUTE - Duration::from_nanos(1));
    is_refused(&mut rig, &call(101, "a"), &["for the next 1 second"]);
    rig.pass(Duration::from_nanos(1));
    // One tries, and no other until its answer.
    passes(&mut rig, &call(102, "a"));
    is_refused(&mut rig, &call(103, "a"), &words);
    answers(&mut rig, 102, ERROR);
    is_refused(&mut rig, &call(104, "a"), &["for the next 60 seconds"]);
    rig.pass(MINUTE);
    called(&mut rig, "a", DONE);
    called(&mut rig, "a", ERROR);
    called(&mut rig, "a", DONE);
}

#[test]
fn a_try_that_is_never_answered_is_followed_by_another_after_the_pause() {
    let mut rig = mcp(errors(1));
    passes(&mut rig, &call(1, "a"));
    answers(&mut rig, 1, ERROR);
    rig.pass(MINUTE);
    passes(&mut rig, &call(2, "a"));
    rig.pass(MINUTE - Duration::from_nanos(1));
    is_refused(&mut rig, &call(3, "a"), &["--limit-errors"]);
    rig.pass(Duration::from_nanos(1));
    passes(&mut rig, &call(4, "a"));
}

#[test]
fn an_answer_to_a_cancelled_call_and_one_that_says_cancelled_are_no_errors_of_the_work() {
    let mut rig = mcp(errors(1));
    passes(&mut rig, &call(1, "a"));
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    rig.at_server();
    rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":1,{ERROR}}}"#));
    passes(&mut rig, &call(2, "a"));
    let mut rig = acp(errors(1));
    let prompt = |id: u32| request(id, "session/prompt", r#"{"sessionId":"s"}"#);
    passes(&mut rig, &prompt(1));
    answers(&mut rig, 1, r#""error":{"code":-32800,"message":"Request cancelled"}"#);
    passes(&mut rig, &prompt(2));
    answers(&mut rig, 2, ERROR);
    is_refused(&mut rig, &prompt(3), &["the last answer to session/prompt was an error"]);
}

#[test]
fn a_clock_that_runs_out_and_an_answer_that_cannot_be_read_are_errors() {
    use rescind_proto::{link::Clock, relay::ClockRule};
    let clocks = vec![ClockRule { clock: Clock::Total, method: None, name: None, limit: Duration::from_secs(1) }];
    let mut rig = RelayRig::new(RelayConfig { limits: errors(2), clocks, ..RelayConfig::default() });
    passes(&mut rig, &call(1, "a"));
    rig.pass(Duration::from_secs(1));
    assert_eq!((rig.at_client().len(), rig.at_server().len()), (1, 1));
    passes(&mut rig, &call(2, "a"));
    rig.from_server(r#"{"jsonrpc":"2.0","id":2,"result":{"content":NaN}}"#);
    assert_eq!(rig.at_client().len(), 1);
    is_refused(&mut rig, &call(3, "a"), &["--limit-errors 2"]);
}

#[test]
fn a_question_of_a_call_is_neither_its_error_nor_its_success() {
    let mut rig = RelayRig::new(RelayConfig { limits: errors(2), ..RelayConfig::default() });
    let modern = |id: u32| {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        request(id, "tools/call", &format!(r#"{{"name":"a","_meta":{meta}}}"#))
    };
    for (id, answer) in [(1, ERROR), (2, r#""result":{"resultType":"input_required","inputRequests":{}}"#), (3, ERROR)]
    {
        passes(&mut rig, &modern(id));
        answers(&mut rig, id, answer);
    }
    is_refused(&mut rig, &modern(4), &["the last 2 answers"]);
}

#[test]
fn members_of_a_batch_are_counted_one_by_one() {
    let handshake = r#"{"protocolVersion":"2025-03-26","capabilities":{}}"#;
    let mut rig = opened(rates([rate(Some("tools/call"), None, 2)]), handshake);
    rig.from_client(&format!("[{},{},{}]", call(1, "a"), call(2, "a"), call(3, "a")));
    assert_eq!(rig.at_server(), [format!("[{},{}]", call(1, "a"), call(2, "a"))]);
    assert_eq!(rig.at_client().len(), 1);
}

#[test]
fn a_link_of_an_unknown_protocol_has_no_limits() {
    let limits = LimitRules { rates: vec![rate(None, None, 1)], ..repeats(1) };
    let mut rig = RelayRig::new(RelayConfig { limits, ..RelayConfig::default() });
    passes(&mut rig, r#"{"id":0,"method":"initialize","params":{"clientInfo":{"name":"codex"}}}"#);
    for id in 1..5 {
        passes(&mut rig, &format!(r#"{{"id":{id},"method":"turn/start"}}"#));
    }
    assert_eq!(limited(&rig), 0);
}

#[test]
fn a_session_can_end_with_its_refusals() {
    let mut rig = mcp(rates([rate(Some("tools/call"), None, 1)]));
    passes(&mut rig, &call(1, "a"));
    rig.from_client(&call(2, "a"));
    rig.end(Side::Server, &End::Exited(1));
    assert_eq!((rig.at_client().len(), limited(&rig)), (2, 1));
}

/// A client that floods a relay with what is refused, and reads nothing.
#[test]
fn a_flood_beyond_a_limit_is_bounded() {
    let limits = LimitRules { rates: vec![rate(Some("tools/call"), None, 10)], ..errors(1) };
    let config = RelayConfig {
        limits,
        max_in_flight: 500,
        max_backlog: 64 << 10,
        max_message: 64 << 10,
        ..RelayConfig::default()
    };
    let bound = config.most_held(64 << 10);
    let mut relay = Relay::new(config);
    let mut taken = 0;
    for id in 0..20_000 {
        if !relay.wants_input(Side::Client) {
            break;
        }
        let line = format!("{}\n", call(id, "a"));
        taken += line.len();
        relay.handle_input(Instant::ORIGIN, Side::Client, line.as_bytes());
        while relay.poll_event().is_some() {}
        assert!(relay.held() <= bound, "{} of {bound}", relay.held());
    }
    assert!(!relay.wants_input(Side::Client), "after {taken} bytes");
    assert!(relay.tally().limited.values().sum::<u64>() > 400);
}

/// Tools that are made up, each of which fails once.
#[test]
fn what_is_kept_of_failing_tools_is_bounded() {
    let fails = |limits: LimitRules| {
        let mut rig = mcp(limits);
        for id in 1..=2000 {
            rig.from_client(&call(id, &format!("t{id}")));
            rig.at_server();
            rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":{id},{ERROR}}}"#));
            rig.at_client();
            rig.events.clear();
        }
        rig
    };
    let (mut rig, without) = (fails(errors(2)), fails(LimitRules::default()));
    let held = rig.relay.held() - without.relay.held();
    assert!((1..16 << 10).contains(&held), "{held}");
    // Of the last ones it is known that they failed.
    passes(&mut rig, &call(3000, "t2000"));
    answers(&mut rig, 3000, ERROR);
    is_refused(&mut rig, &call(3001, "t2000"), &["--limit-errors"]);
    assert_eq!(error_code::LIMITED, -31007);
}
