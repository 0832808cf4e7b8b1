//! Updates of ACP sessions through a relay: whose they are, and what they say of a clock (D16, D34, ACP-08).

use core::time::Duration;

use rescind_proto::{
    link::Clock,
    relay::{ClockRule, RelayConfig},
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;

const LIMIT: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);

const PROMPT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#;
const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
const SESSION_CANCEL: &str = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
const ENDED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#;
const LOADED: &str = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
const NO_ANSWER: &str = "no answer or progress for 2s (the relay's response timeout)";

fn rule(clock: Clock, method: Option<&str>) -> ClockRule {
    ClockRule { clock, method: method.map(Into::into), name: None, limit: LIMIT }
}

fn acp(clocks: Vec<ClockRule>) -> RelayRig {
    // A new prompt goes on at once: that is where the turns of a session mix.
    let mut rig = RelayRig::new(RelayConfig { clocks, next_turn_waits: false, ..RelayConfig::default() });
    rig.from_client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
    rig.at_client();
    rig
}

/// With a response clock for every request that has one.
fn clocked() -> RelayRig {
    acp(vec![rule(Clock::Response, None)])
}

fn send(rig: &mut RelayRig, request: &str) {
    rig.from_client(request);
    assert_eq!(rig.at_server(), [request]);
}

fn load(id: u8, method: &str, session: &str) -> String {
    let params = format!(r#"{{"sessionId":"{session}","cwd":"/","mcpServers":[]}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn prompt(id: u8, session: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[]}}}}"#
    )
}

/// A permission request.
fn card(id: &str, session: &str) -> String {
    let params = format!(r#"{{"sessionId":"{session}","toolCall":{{}},"options":[]}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"session/request_permission","params":{params}}}"#)
}

fn update(session: &str, kind: &str) -> String {
    let update = format!(r#"{{"sessionUpdate":"{kind}","sessionId":"child"}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#)
}

/// Updates that belong to the turn in which they come.
const OF_THE_TURN: [&str; 12] = [
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "plan_update",
    "agent\\u005fmessage_chunk",
    "a_later_kind",
    "_vendor/kind",
    "Subagent_Update",
    "",
];

/// Updates that do not: news of a child, and of the session itself.
const BESIDE_IT: [&str; 12] = [
    "subagent_update",
    "subagent_spawned",
    "subagent_state_update",
    "session_message",
    "session_message_chunk",
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "state_update",
    "usage_update",
    "subagent\\u005fupdate",
];

/// How far a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    InFlight,
    /// Cancelled, by its client or an operator.
    Cancelled,
    /// Answered for the agent, which has not answered.
    AnsweredHere,
    /// … and then by the agent.
    AnsweredByAgent,
}

/// Who ends the turn.
#[derive(Clone, Copy, Debug)]
enum By {
    Client,
    Operator,
    Clock,
}

/// A turn that is so far; `None` if that cannot be, since a clock ends a turn at once.
fn turn(by: By, how_far: Turn) -> Option<RelayRig> {
    let mut rig = clocked();
    send(&mut rig, PROMPT);
    if how_far == Turn::InFlight {
        return Some(rig);
    }
    let limit = match by {
        By::Clock if how_far == Turn::Cancelled => return None,
        By::Clock => LIMIT,
        By::Client => {
            rig.from_client(CANCEL);
            Duration::from_secs(30)
        }
        By::Operator => {
            let key = rig.key(Side::Client, "1").expect("it is in flight");
            assert!(rig.relay.stop(rig.now, key, None));
            Duration::from_secs(30)
        }
    };
    if how_far != Turn::Cancelled {
        rig.pass(limit);
        assert_eq!(rig.at_client().len(), 1, "we answer it");
    }
    assert_eq!(rig.at_server(), [SESSION_CANCEL]);
    if how_far == Turn::AnsweredByAgent {
        rig.from_server(ENDED);
        assert_eq!(rig.at_client(), [""; 0], "it comes too late");
    }
    Some(rig)
}

#[test]
fn of_a_turn_that_we_answered_only_what_belongs_to_it_is_swallowed_until_the_agents_own_answer() {
    let mut forms = 0;
    for by in [By::Client, By::Operator, By::Clock] {
        for how_far in [Turn::InFlight, Turn::Cancelled, Turn::AnsweredHere, Turn::AnsweredByAgent] {
            let Some(mut rig) = turn(by, how_far) else { continue };
            for session in ["s", "child", "other", ""] {
                for (kind, is_of_the_turn) in
                    OF_THE_TURN.map(|kind| (kind, true)).into_iter().chain(BESIDE_IT.map(|kind| (kind, false)))
                {
                    let said = update(session, kind);
                    let is_swallowed = session == "s" && how_far == Turn::AnsweredHere && is_of_the_turn;
                    rig.from_server(&said);
                    let heard = rig.at_client();
                    let expected = if is_swallowed { vec![] } else { vec![said] };
                    assert_eq!(heard, expected, "{kind} of session {session:?}, {how_far:?} by {by:?}");
                    forms += 1;
                }
            }
        }
    }
    assert_eq!(forms, 11 * 4 * 24);
}

#[test]
fn an_update_that_names_no_session_or_no_kind_is_taken_for_what_it_may_be() {
    let mut rig = turn(By::Clock, Turn::AnsweredHere).unwrap();
    let of = |params: &str| format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
    let passes = [
        "{}",
        r#"{"update":{"sessionUpdate":"plan"}}"#,
        r#"{"sessionId":null,"update":{"sessionUpdate":"plan"}}"#,
        r#"{"sessionId":["s"],"update":{}}"#,
    ];
    let swallowed = [
        r#"{"sessionId":"s"}"#,
        r#"{"sessionId":"s","update":{}}"#,
        r#"{"sessionId":"s","update":null}"#,
        r#"{"sessionId":"s","update":"subagent_update"}"#,
        r#"{"sessionId":"s","update":{"sessionUpdate":["subagent_update"]}}"#,
        r#"{"sessionId":"s","sessionUpdate":"subagent_update","update":{}}"#,
        r#"{"update":{"content":{"sessionUpdate":"subagent_update"}},"sessionId":"s"}"#,
    ];
    for said in passes.map(of) {
        rig.from_server(&said);
        assert_eq!(rig.at_client(), [said]);
    }
    for said in swallowed.map(of) {
        rig.from_server(&said);
        assert_eq!(rig.at_client(), [""; 0], "{said}");
    }
}

#[test]
fn after_a_timeout_a_prompts_late_updates_are_swallowed_until_its_own_answer() {
    let mut rig = clocked();
    send(&mut rig, PROMPT);
    rig.pass(LIMIT);
    let answer = rig.at_client();
    assert!(answer.len() == 1 && answer[0].contains(r#""code":-31001"#) && answer[0].contains(NO_ANSWER), "{answer:?}");
    let late = update("s", "agent_message_chunk");
    rig.from_server(&late);
    assert_eq!(rig.at_client(), [""; 0], "its client has an answer");
    rig.from_server(ENDED);
    rig.from_server(&late);
    assert_eq!(rig.at_client(), [late], "the agent's next words are not of that turn");
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.relay.residue(), 0);
}

/// A session has one turn at a time, and nothing tells two turns' updates apart (D34).
#[test]
fn a_new_prompt_is_heard_though_the_agent_never_answered_the_turn_that_we_answered() {
    for by in [By::Client, By::Operator, By::Clock] {
        for kind in OF_THE_TURN.into_iter().chain(BESIDE_IT) {
            let mut rig = turn(by, Turn::AnsweredHere).unwrap();
            let (said, of_the_old) = (update("s", kind), update("s", "agent_message_chunk"));
            let next = prompt(2, "s");
            rig.from_client(&next);
            rig.from_server(&of_the_old);
            assert_eq!(rig.at_client(), [""; 0], "the agent has not been given it");
            assert_eq!(rig.at_server(), [&*next]);
            let asked = card("p", "s");
            for message in [&said, &asked] {
                rig.from_server(message);
                assert_eq!(rig.at_client(), [&**message], "{by:?}");
            }
            rig.from_server(ENDED);
            assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]), "the old turn has been answered");
            rig.from_server(&said);
            let ended = ENDED.replace("\"id\":1", "\"id\":2");
            rig.from_server(&ended);
            assert_eq!(rig.at_client(), [&*said, &*ended], "{by:?}");
        }
    }
}

#[test]
fn after_a_new_prompt_the_turn_before_it_is_never_mute_again() {
    for (old_is_answered_first, by) in
        [(true, By::Client), (false, By::Client), (true, By::Operator), (true, By::Clock)]
    {
        let mut rig = turn(by, if old_is_answered_first { Turn::AnsweredHere } else { Turn::Cancelled }).unwrap();
        send(&mut rig, &prompt(2, "s"));
        let said = update("s", "agent_message_chunk");
        if !old_is_answered_first {
            // Meanwhile the new one shows that it is alive.
            for _ in 0..30 {
                rig.pass(SECOND);
                rig.from_server(&said);
            }
            let heard = rig.at_client();
            assert_eq!(heard.iter().filter(|message| **message == said).count(), 30);
            assert_eq!(heard.len(), 31, "and we answered the old turn: {heard:?}");
            rig.from_server(&said);
            assert_eq!(rig.at_client(), [&*said]);
        }
        rig.from_server(&ENDED.replace("\"id\":1", "\"id\":2"));
        assert_eq!(rig.at_client().len(), 1);
        rig.from_server(&said);
        assert_eq!(rig.at_client(), [&*said], "between two turns");
        rig.pass(Duration::from_secs(7200));
        rig.from_server(&ENDED.replace("\"id\":1", "\"id\":2"));
        assert_eq!(rig.relay.residue(), 0);
    }
}

#[test]
fn only_a_prompt_of_its_own_session_ends_the_silence_of_a_turn() {
    let others = [prompt(2, "t"), prompt(2, "S"), load(2, "session/set_mode", "s"), load(2, "session/close", "s")];
    for other in others {
        let mut rig = turn(By::Clock, Turn::AnsweredHere).unwrap();
        send(&mut rig, &other);
        rig.from_server(&update("s", "agent_message_chunk"));
        assert_eq!(rig.at_client(), [""; 0], "{other}");
    }
    let mut rig = turn(By::Clock, Turn::AnsweredHere).unwrap();
    send(&mut rig, &prompt(2, "\\u0073"));
    let said = update("s", "agent_message_chunk");
    rig.from_server(&said);
    assert_eq!(rig.at_client(), [said], "a session is its value, not its spelling");
}

#[test]
fn a_new_prompt_that_is_answered_here_too_is_mute_until_its_own_answer() {
    let mut rig = turn(By::Clock, Turn::AnsweredHere).unwrap();
    send(&mut rig, &prompt(2, "s"));
    rig.pass(LIMIT);
    assert_eq!(rig.at_client().len(), 1, "it has timed out");
    let said = update("s", "agent_message_chunk");
    for (answer, passes) in [(None, false), (Some(ENDED.to_owned()), false), (Some(ENDED.replace(":1,", ":2,")), true)]
    {
        if let Some(answer) = answer {
            rig.from_server(&answer);
        }
        rig.from_server(&said);
        assert_eq!(rig.at_client().len(), usize::from(passes));
    }
}

#[test]
fn a_prompt_that_times_out_before_it_is_written_mutes_nothing() {
    let mut rig = clocked();
    rig.from_client(PROMPT);
    rig.pass(LIMIT);
    assert!(rig.at_client()[0].contains("never_sent"));
    let other = update("s", "agent_message_chunk");
    rig.from_server(&other);
    assert_eq!(rig.at_client(), [other]);
}

/// A request whose updates stream is alive (D16).
#[test]
fn updates_of_a_session_are_progress_of_the_requests_that_load_it() {
    for method in ["session/load", "session/resume"] {
        for kind in OF_THE_TURN.into_iter().chain(BESIDE_IT) {
            let mut rig = clocked();
            let (mine, other) = (load(2, method, "s"), load(3, method, "t"));
            send(&mut rig, &mine);
            send(&mut rig, &other);
            for _ in 0..5 {
                rig.pass(SECOND);
                rig.from_server(&update("s", kind));
            }
            let heard = rig.at_client();
            let ended: Vec<_> = heard.iter().filter(|message| message.contains("\"id\"")).collect();
            assert!(ended.len() == 1 && ended[0].contains(r#""id":3"#), "the silent one alone: {heard:?}");
            assert!(ended[0].contains(NO_ANSWER), "{heard:?}");
            let view = rig.relay.requests(Side::Client).find(|view| view.id.to_string() == "2");
            assert_eq!(view.and_then(|view| Some(view.progress?.count)), Some(5), "{method}, {kind}");
            rig.from_server(LOADED);
            assert_eq!(rig.at_client(), [LOADED]);
        }
    }
}

#[test]
fn a_load_whose_updates_end_times_out_and_is_cancelled_as_a_request() {
    let mut rig = clocked();
    send(&mut rig, &load(2, "session/load", "s"));
    rig.pass(SECOND);
    rig.from_server(&update("s", "agent_message_chunk"));
    rig.at_client();
    rig.pass(SECOND);
    assert_eq!(rig.at_client(), [""; 0]);
    rig.pass(SECOND);
    let answer = rig.at_client();
    assert!(answer.len() == 1 && answer[0].contains(NO_ANSWER), "{answer:?}");
    assert_eq!(rig.at_server(), [r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#]);
    let late = update("s", "agent_message_chunk");
    rig.from_server(&late);
    assert_eq!(rig.at_client(), [late], "a load is no turn: nothing is muted");
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.relay.residue(), 0);
}

#[test]
fn nothing_extends_the_total_clock_of_a_load() {
    let mut rig = acp(vec![rule(Clock::Total, None)]);
    send(&mut rig, &load(2, "session/load", "s"));
    for _ in 0..3 {
        rig.pass(SECOND);
        rig.from_server(&update("s", "agent_message_chunk"));
    }
    let heard = rig.at_client();
    assert!(heard.iter().any(|message| message.contains("no answer within 2s")), "{heard:?}");
}

#[test]
fn updates_of_a_session_are_progress_of_no_other_request_that_names_it() {
    for method in ["session/set_mode", "session/set_config_option", "session/close", "session/fork"] {
        let mut rig = clocked();
        send(&mut rig, &load(2, method, "s"));
        rig.pass(SECOND);
        rig.from_server(&update("s", "agent_message_chunk"));
        rig.at_client();
        rig.pass(SECOND);
        assert!(rig.at_client()[0].contains(NO_ANSWER), "{method}");
    }
}

#[test]
fn updates_are_progress_of_every_turn_of_their_session_since_one_waits_for_the_other() {
    let mut rig = clocked();
    send(&mut rig, PROMPT);
    send(&mut rig, &PROMPT.replace("\"id\":1", "\"id\":2"));
    for _ in 0..5 {
        rig.pass(SECOND);
        rig.from_server(&update("s", "agent_message_chunk"));
    }
    assert_eq!(rig.at_client().len(), 5);
    rig.pass(LIMIT);
    assert_eq!(rig.at_client().len(), 2, "both have waited as long");
}

/// What comes before its answer is the session's history (ACP-44).
#[test]
fn a_session_that_is_loaded_after_its_turn_was_given_up_shows_its_history() {
    for method in ["session/load", "session/resume"] {
        let mut rig = turn(By::Clock, Turn::AnsweredHere).unwrap();
        let history = update("s", "agent_message_chunk");
        send(&mut rig, &load(2, method, "t"));
        rig.from_server(&history);
        assert_eq!(rig.at_client(), [""; 0], "another is loaded");
        send(&mut rig, &load(3, method, "s"));
        rig.from_server(&history);
        assert_eq!(rig.at_client(), [&*history]);
        rig.from_server(&LOADED.replace("\"id\":2", "\"id\":3"));
        assert_eq!(rig.at_client().len(), 1);
        rig.from_server(&history);
        assert_eq!(rig.at_client(), [""; 0], "of the turn again");
    }
}

#[test]
fn a_cancel_of_a_session_is_none_of_its_load_and_what_is_asked_meanwhile_is_no_part_of_it() {
    let mut rig = acp(Vec::new());
    send(&mut rig, PROMPT);
    send(&mut rig, &load(2, "session/load", "s"));
    rig.from_server(r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"sessionId":"s"}}"#);
    rig.at_client();
    let parent = rig.relay.requests(Side::Server).next().and_then(|view| view.parent);
    assert_eq!(parent, rig.key(Side::Client, "1"), "the turn asks");
    rig.from_client(SESSION_CANCEL);
    assert_eq!(rig.at_server(), [SESSION_CANCEL]);
    let cancelled: Vec<_> = rig.relay.requests(Side::Client).filter(|view| view.cancel.is_some()).collect();
    assert!(cancelled.len() == 1 && cancelled[0].id.to_string() == "1", "{cancelled:?}");
    rig.from_server(LOADED);
    assert_eq!(rig.at_client(), [LOADED]);
}

/// A person in a browser takes longer (D16).
#[test]
fn signing_in_is_not_timed_unless_a_rule_names_it() {
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"authenticate","params":{"methodId":"oauth"}}"#;
    for clock in [Clock::Response, Clock::Total] {
        let mut rig = acp(vec![rule(clock, None)]);
        send(&mut rig, call);
        rig.pass(Duration::from_secs(3600));
        assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]));
        rig.from_server(LOADED);
        assert_eq!(rig.at_client(), [LOADED]);

        let mut rig = acp(vec![rule(clock, Some("authenticate"))]);
        send(&mut rig, call);
        rig.pass(LIMIT);
        assert!(rig.at_client()[0].contains("-31001"));
    }
}
