//! The next turn of an ACP session waits for the last (D60), and Stop has a bound (D61).

use core::time::Duration;

use rescind_proto::{
    link::Clock,
    receipt::Outcome,
    relay::{ClockRule, End, GraceRule, RateLimit, RelayConfig, RequestState},
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;

const SECOND: Duration = Duration::from_secs(1);
const STOP: &str = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
const UPDATE: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}"#;
const NOTHING: [&str; 0] = [];

fn acp(config: RelayConfig) -> RelayRig {
    let mut rig = RelayRig::new(config);
    rig.from_client(r#"{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":1}}"#);
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":"hi","result":{"protocolVersion":1}}"#);
    rig.at_client();
    rig
}

fn of(id: u32, session: &str) -> String {
    let params = format!(r#"{{"sessionId":"{session}","prompt":[]}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{params}}}"#)
}

fn prompt(id: u32) -> String {
    of(id, "s")
}

fn stopped(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"cancelled"}}}}"#)
}

/// The client has stopped the turn of prompt 1, and the agent has not ended it.
fn stopping_with(config: RelayConfig) -> RelayRig {
    let mut rig = acp(config);
    rig.from_client(&prompt(1));
    rig.at_server();
    rig.from_client(STOP);
    assert_eq!(rig.at_server(), [STOP]);
    rig
}

fn stopping() -> RelayRig {
    stopping_with(RelayConfig::default())
}

/// Whether the client's request waits for the turn before it.
fn is_held(rig: &RelayRig, id: &str) -> bool {
    let view = rig.key(Side::Client, id).and_then(|key| rig.relay.view(key)).expect("it is remembered");
    assert!(!view.waits_for_turn || view.state == RequestState::Queued, "{view:?}");
    view.waits_for_turn
}

fn order(rig: &mut RelayRig, id: &str) -> bool {
    let key = rig.key(Side::Client, id).expect("it is remembered");
    rig.relay.stop(rig.now, key, None) || rig.relay.release(rig.now, key)
}

#[test]
fn a_prompt_waits_until_the_cancelled_turn_before_it_is_answered() {
    let mut rig = stopping();
    rig.from_client(&prompt(2));
    assert_eq!(rig.at_server(), NOTHING);
    assert!(is_held(&rig, "2"));
    rig.from_server(UPDATE);
    assert_eq!(rig.at_client(), [UPDATE], "of the turn that its client still waits for");
    rig.from_server(&stopped(1));
    assert_eq!(rig.at_client(), [stopped(1)]);
    assert_eq!(rig.at_server(), [prompt(2)]);
    assert!(!is_held(&rig, "2"));
    rig.from_server(&stopped(2));
    assert_eq!(rig.at_client(), [stopped(2)]);
    rig.pass(3600 * SECOND);
    assert_eq!(rig.relay.residue(), 0);
}

#[test]
fn a_prompt_waits_no_longer_than_the_grace_and_five_seconds() {
    for (grace, waits) in [(5 * SECOND, 5 * SECOND), (60 * SECOND, 5 * SECOND), (SECOND, SECOND)] {
        let mut rig = stopping_with(RelayConfig { grace, ..RelayConfig::default() });
        rig.pass(SECOND / 2);
        rig.from_client(&prompt(2));
        rig.pass(waits - Duration::from_millis(1));
        assert_eq!(rig.at_server(), NOTHING, "{grace:?}");
        rig.pass(Duration::from_millis(1));
        assert_eq!(rig.at_server(), [prompt(2)], "{grace:?}");
        // It is not held for the same turn twice.
        rig.from_client(&prompt(3));
        assert_eq!(rig.at_server(), [prompt(3)]);
    }
}

#[test]
fn a_prompt_waits_for_a_turn_that_was_answered_for_its_agent_and_the_two_do_not_mix() {
    let graces = vec![GraceRule { method: "session/prompt".into(), grace: 2 * SECOND }];
    let mut rig = stopping_with(RelayConfig { graces, ..RelayConfig::default() });
    rig.pass(2 * SECOND);
    assert_eq!(rig.at_client(), [stopped(1)], "a shorter grace than 30 s");
    rig.from_client(&prompt(2));
    rig.from_server(UPDATE);
    assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![]));
    rig.from_server(&stopped(1));
    assert_eq!((rig.at_server(), rig.at_client()), (vec![prompt(2)], vec![]));
    rig.from_server(UPDATE);
    assert_eq!(rig.at_client(), [UPDATE]);
}

#[test]
fn a_grace_for_a_method_makes_none_longer() {
    let graces =
        ["session/prompt", "session/load"].map(|method| GraceRule { method: method.into(), grace: 60 * SECOND });
    let mut rig = stopping_with(RelayConfig { graces: graces.to_vec(), ..RelayConfig::default() });
    rig.pass(30 * SECOND);
    assert_eq!(rig.at_client(), [stopped(1)]);
    rig.from_client(r#"{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"t"}}"#);
    rig.at_server();
    rig.from_client(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#);
    rig.pass(5 * SECOND);
    assert_eq!(rig.at_client().len(), 1);
}

#[test]
fn without_the_setting_no_prompt_waits() {
    let mut rig = stopping_with(RelayConfig { next_turn_waits: false, ..RelayConfig::default() });
    rig.from_client(&prompt(2));
    assert_eq!(rig.at_server(), [prompt(2)]);
}

#[test]
fn only_prompts_wait_and_only_for_a_cancelled_turn_of_their_session() {
    let mut rig = acp(RelayConfig::default());
    rig.from_client(&prompt(1));
    rig.from_client(&prompt(2));
    assert_eq!(rig.at_server(), [prompt(1), prompt(2)], "no turn was cancelled");
    rig.from_client(STOP);
    rig.at_server();
    rig.from_client(&prompt(3));
    let mode = r#"{"jsonrpc":"2.0","id":4,"method":"session/set_mode","params":{"sessionId":"s","modeId":"ask"}}"#;
    rig.from_client(mode);
    rig.from_client(&of(5, "t"));
    assert_eq!(rig.at_server(), [mode.to_owned(), of(5, "t")], "3 waits");
}

#[test]
fn later_prompts_of_the_session_wait_behind_one_that_waits() {
    let mut rig = stopping();
    rig.from_client(&prompt(2));
    rig.pass(3 * SECOND);
    rig.from_client(&prompt(3));
    rig.from_client(&prompt(4));
    assert!(["2", "3", "4"].iter().all(|id| is_held(&rig, id)));
    rig.pass(2 * SECOND);
    assert_eq!(rig.at_server(), [prompt(2), prompt(3), prompt(4)]);
}

#[test]
fn a_stop_of_the_client_takes_back_what_waits_and_passes() {
    let mut rig = stopping();
    rig.from_client(&prompt(2));
    rig.from_client(&prompt(3));
    rig.from_client(STOP);
    assert_eq!(rig.at_client(), [stopped(2), stopped(3)]);
    assert_eq!(rig.at_server(), [STOP], "an agent may end its children by the second");
    assert_eq!((rig.outcome("2"), rig.outcome("3")), (Some(Outcome::NeverSent), Some(Outcome::NeverSent)));
    assert_eq!(rig.outcome("1"), Some(Outcome::Sent), "it releases nobody");
    rig.from_server(&stopped(1));
    assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![stopped(1)]));
    rig.from_client(&prompt(4));
    assert_eq!(rig.at_server(), [prompt(4)]);
}

#[test]
fn each_way_to_cancel_takes_back_a_prompt_that_waits() {
    let by_id = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#;
    let close = r#"{"jsonrpc":"2.0","id":9,"method":"session/close","params":{"sessionId":"s"}}"#;
    for by in ["id", "close", "operator", "clock"] {
        let clock = ClockRule { clock: Clock::Total, method: None, name: None, limit: 2 * SECOND };
        let clocks = if by == "clock" { vec![clock] } else { vec![] };
        let mut rig = stopping_with(RelayConfig { clocks, ..RelayConfig::default() });
        rig.from_client(&prompt(2));
        match by {
            "id" => rig.from_client(by_id),
            "close" => rig.from_client(close),
            "operator" => assert!(order(&mut rig, "2")),
            _ => rig.pass(2 * SECOND),
        }
        assert_eq!(rig.at_client().len(), 1, "{by}: it is answered");
        assert_eq!(rig.outcome("2"), Some(Outcome::NeverSent), "{by}");
        rig.from_server(&stopped(1));
        rig.pass(10 * SECOND);
        let passed = if by == "close" { vec![close] } else { vec![] };
        assert_eq!(rig.at_server(), passed, "{by}: it never leaves");
    }
}

#[test]
fn clocks_and_limits_count_from_when_a_prompt_came() {
    let rate = RateLimit { name: "--limit 2/1m".into(), method: None, tool: None, most: 2, per: 60 * SECOND };
    let clock = ClockRule { clock: Clock::Response, method: None, name: None, limit: 8 * SECOND };
    let mut config = RelayConfig { clocks: vec![clock], ..RelayConfig::default() };
    config.limits.rates = vec![rate];
    let mut rig = stopping_with(config);
    rig.from_client(&prompt(2));
    rig.from_client(&prompt(3));
    assert!(rig.at_client()[0].contains("-31007"), "a third one is refused at once");
    rig.pass(4 * SECOND);
    rig.from_server(UPDATE);
    rig.pass(SECOND);
    assert_eq!(rig.at_server(), [prompt(2)]);
    rig.at_client();
    rig.pass(3 * SECOND);
    assert!(rig.at_client()[0].contains("-31001"), "updates of the turn before are no progress of this one");
}

#[test]
fn nothing_is_lost_when_a_side_ends_while_a_prompt_waits() {
    let mut rig = stopping();
    rig.from_client(&prompt(2));
    rig.end(Side::Client, &End::Closed);
    assert_eq!(rig.at_server(), [prompt(2)], "it leaves before the agent's input is closed");

    let mut rig = stopping();
    rig.from_client(&prompt(2));
    rig.end(Side::Server, &End::Exited(1));
    let answers = rig.at_client();
    assert!(answers[0] == stopped(1) && answers[1].contains("exited with code 1"), "{answers:?}");
    rig.pass(3600 * SECOND);
    assert_eq!((rig.at_client(), rig.relay.residue()), (vec![], 0));

    let mut rig = stopping();
    rig.from_client(&prompt(2));
    rig.relay.handle_write_closed(rig.now, Side::Server);
    rig.from_client(STOP);
    rig.end(Side::Server, &End::Closed);
    assert_eq!(rig.at_client().len(), 2, "each is answered once");

    let mut rig = stopping();
    rig.from_client(&prompt(2));
    rig.relay.handle_disconnect(rig.now, Side::Client);
    rig.from_server(&stopped(1));
    assert_eq!(rig.at_server(), NOTHING);
}

#[test]
fn a_late_card_of_a_cancelled_turn_is_not_taken_for_one_of_the_prompt_that_waits() {
    let mut rig = acp(RelayConfig::default());
    rig.from_client(&prompt(1));
    rig.at_server();
    assert!(order(&mut rig, "1"));
    assert_eq!(rig.at_server(), [STOP]);
    rig.from_client(&prompt(2));
    let card = r#"{"jsonrpc":"2.0","id":"c","method":"session/request_permission","params":{"sessionId":"s"}}"#;
    rig.from_server(card);
    assert_eq!(rig.at_client(), NOTHING, "nobody is asked for a turn that was stopped");
    assert!(rig.at_server()[0].contains(r#""outcome":"cancelled""#));
}

#[test]
fn an_operator_who_cancels_a_prompt_that_waits_leaves_the_children_of_its_session_alone() {
    let mut rig = RelayRig::new(RelayConfig::default());
    let params = r#"{"protocolVersion":1,"clientCapabilities":{"subagents":{}}}"#;
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{params}}}"#));
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":"hi","result":{"protocolVersion":1}}"#);
    rig.from_client(&prompt(1));
    rig.at_server();
    let child = r#"{"sessionUpdate":"subagent_update","sessionId":"c","capabilities":{"cancel":{}},"state":{"state":"running"}}"#;
    let params = format!(r#"{{"sessionId":"s","update":{child}}}"#);
    rig.from_server(&format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#));
    rig.from_client(STOP);
    rig.from_client(&prompt(2));
    rig.at_server();
    assert!(order(&mut rig, "2"));
    assert_eq!(rig.at_server(), NOTHING);
    let of = |id| rig.relay.view(rig.key(Side::Client, id).unwrap()).unwrap().children.open;
    assert_eq!((of("1"), of("2")), (1, 0), "they are those of the turn that was stopped");
}

#[test]
fn prompts_that_wait_take_no_more_memory_than_they_may() {
    let config = RelayConfig { max_backlog: 64 << 10, max_message: 64 << 10, ..RelayConfig::default() };
    let most = config.most_held(64 << 10);
    let mut rig = stopping_with(config);
    let long = |id: u32| prompt(id).replace("[]", &format!("[\"{}\"]", "x".repeat(20 << 10)));
    for id in 2..6 {
        rig.from_client(&long(id));
    }
    assert!(rig.relay.pending(Side::Server).is_empty() && is_held(&rig, "5"), "four wait: 64 KiB, and one message");
    rig.from_client(&long(6));
    let passed = rig.at_server();
    assert_eq!(passed, (2..7).map(long).collect::<Vec<_>>(), "then none does, and they keep their order");
    assert!(rig.relay.held() <= most);
}

#[test]
fn a_thousand_prompts_that_wait_leave_in_order_once_each() {
    let mut rig = stopping();
    let prompts = (2..1002).map(|id| of(id, if id % 2 == 0 { "s" } else { "s\\u0000" }) + "\n");
    rig.bytes(Side::Client, prompts.collect::<String>().as_bytes());
    let passed = rig.at_server();
    assert_eq!(passed.len(), 500, "another session");
    rig.from_server(&stopped(1));
    assert_eq!(rig.at_server(), (1..501).map(|id| prompt(2 * id)).collect::<Vec<_>>());
    rig.pass(10 * SECOND);
    assert_eq!(rig.at_server(), NOTHING);
}

#[test]
fn a_second_order_of_an_operator_releases_the_client_and_the_turn_is_shown_as_released() {
    let mut rig = acp(RelayConfig::default());
    rig.from_client(&prompt(1));
    rig.at_server();
    assert!(order(&mut rig, "1"));
    assert_eq!((rig.at_server(), rig.at_client()), (vec![STOP.to_owned()], vec![]));
    assert!(order(&mut rig, "1"));
    let answer = rig.at_client();
    assert!(
        answer[0].contains(r#""stopReason":"cancelled""#) && answer[0].contains(r#""outcome":"sent""#),
        "{answer:?}"
    );
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.view(key).unwrap().is_released);
    assert!(!order(&mut rig, "1"), "it is over");
    rig.from_server(UPDATE);
    assert_eq!(rig.at_client(), NOTHING, "nobody waits for it any more");
    rig.from_client(&prompt(2));
    assert_eq!(rig.at_server(), NOTHING, "the next one waits for it");
    rig.from_server(&stopped(1));
    assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![prompt(2)]));
    assert!(matches!(rig.outcome("1"), Some(Outcome::Confirmed { .. })));
}

#[test]
fn the_first_order_after_the_clients_own_stop_leaves_the_agent_its_time() {
    let mut rig = stopping();
    rig.from_client(STOP);
    assert_eq!((rig.at_server(), rig.at_client()), (vec![STOP.to_owned()], vec![]), "its client's second one passes");
    assert!(!order(&mut rig, "1"));
    assert_eq!(rig.at_client(), NOTHING);
    assert!(order(&mut rig, "1"));
    assert_eq!(rig.at_client(), [stopped(1)]);
    rig.pass(3600 * SECOND);
    assert_eq!((rig.at_client(), rig.relay.residue()), (vec![], 0));
}

#[test]
fn a_prompt_that_has_waited_says_when_it_went_on() {
    let mut rig = stopping();
    rig.pass(SECOND);
    rig.from_client(&prompt(2));
    let went_on = |rig: &RelayRig, id: &str| {
        let view = rig.key(Side::Client, id).and_then(|key| rig.relay.view(key)).expect("it is remembered");
        view.held_until.map(|at| at.since(view.since))
    };
    assert_eq!(went_on(&rig, "2"), None);
    rig.pass(SECOND);
    rig.from_server(&stopped(1));
    rig.at_server();
    assert_eq!((went_on(&rig, "1"), went_on(&rig, "2")), (None, Some(SECOND)));
}
