//! Children of ACP sessions through a relay: what is kept of them, what of it is believed, and what a Stop does to them
//! (D54). Each test names its row of the specification.

use core::time::Duration;

use rescind_proto::{
    child::{ChildEnd, ChildState},
    link::RequestKey,
    receipt::{Answer, Outcome},
    relay::{ChildParent, ChildView, Emit, End, RelayConfig},
    rule::Rule,
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;

use crate::both_ends::{cancel, greeted, request, result};

const SUBAGENTS: &str = r#","clientCapabilities":{"subagents":{}}"#;

/// The grant of a cancel, as its agent spells it.
const GRANT: &str = r#""capabilities":{"cancel":{}}"#;
const RUNNING: &str = r#""state":{"state":"running"}"#;
const CANCELLED: &str = r#""state":{"state":"idle","stopReason":"cancelled"}"#;
const FINISHED: &str = r#""state":{"state":"idle","stopReason":"end_turn"}"#;
const UNKNOWN: &str = r#""state":{"state":"unknown"}"#;

fn acp() -> RelayRig {
    greeted("1", SUBAGENTS, RelayConfig::default())
}

/// The same, and a prompt of session "s" is in flight, with id 1.
fn prompted() -> RelayRig {
    let mut rig = acp();
    pass_to_server(&mut rig, &request("1", "session/prompt", "s"));
    rig
}

fn update(session: &str, update: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#)
}

/// News of a child in the session of its parent.
fn news(parent: &str, child: &str, members: &[&str]) -> String {
    let members: String = members.iter().map(|member| format!(",{member}")).collect();
    update(parent, &format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}"{members}}}"#))
}

fn pass_to_server(rig: &mut RelayRig, message: &str) {
    rig.from_client(message);
    assert_eq!(rig.at_server(), [message]);
}

fn pass_to_client(rig: &mut RelayRig, message: &str) {
    rig.from_server(message);
    assert_eq!(rig.at_client(), [message]);
}

fn say(rig: &mut RelayRig, parent: &str, child: &str, members: &[&str]) {
    pass_to_client(rig, &news(parent, child, members));
}

fn view<'a>(rig: &'a RelayRig, child: &str) -> ChildView<'a> {
    let name = format!("\"{child}\"");
    rig.relay.children().find(|view| view.session == name.as_bytes()).expect("it is kept")
}

fn state(rig: &RelayRig, child: &str) -> ChildState {
    view(rig, child).state
}

fn outcome(rig: &RelayRig, child: &str) -> Option<Outcome> {
    view(rig, child).cancel.map(|receipt| receipt.outcome)
}

fn prompt_key(rig: &RelayRig) -> RequestKey {
    rig.key(Side::Client, "1").expect("it was sent")
}

/// The operator stops the prompt.
fn stop(rig: &mut RelayRig) -> Vec<String> {
    let key = prompt_key(rig);
    rig.relay.stop(rig.now, key, Some("enough"));
    rig.at_server()
}

fn stop_child(rig: &mut RelayRig, child: &str) -> bool {
    let key = view(rig, child).key;
    rig.relay.stop_child(rig.now, key, None)
}

/// Children at work that the receipt of the prompt counts, and how many of them cannot be seen.
fn counted(rig: &RelayRig) -> (usize, usize) {
    let children = rig.relay.view(prompt_key(rig)).expect("it is remembered").children;
    (children.open, children.unseen)
}

#[test]
fn an_announced_child_is_kept_with_its_parent_state_and_grant_acp_31() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[r#""title":"Fix the tests""#, GRANT, RUNNING]);
    say(&mut rig, "a", "b", &[RUNNING]);
    say(&mut rig, "s", "c", &[]);
    let (a, b, c) = (view(&rig, "a"), view(&rig, "b"), view(&rig, "c"));
    assert_eq!((a.state, a.can_cancel, a.title), (ChildState::Running, true, Some("Fix the tests")));
    assert_eq!((a.parent, a.parent_session), (Some(ChildParent::Turn(prompt_key(&rig))), &b"\"s\""[..]));
    assert_eq!((b.state, b.can_cancel, b.parent), (ChildState::Running, false, Some(ChildParent::Child(a.key))));
    assert_eq!((c.state, c.can_cancel, c.title), (ChildState::Unconfirmed, false, None));
    assert_eq!(rig.relay.children_of(prompt_key(&rig)), [a.key, b.key, c.key]);
    assert_eq!(rig.violations(), []);
}

#[test]
fn a_later_announcement_patches_and_makes_no_second_child_acp_31() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[r#""title":"one""#, GRANT, RUNNING]);
    let key = view(&rig, "a").key;
    for (members, expected) in [
        (&[][..], (ChildState::Running, true, Some("one"))),
        (&[r#""description":"x""#], (ChildState::Running, true, Some("one"))),
        (&[r#""title":"two""#], (ChildState::Running, true, Some("two"))),
        (&[r#""title":null"#], (ChildState::Running, true, None)),
        (&[r#""state":{"state":"requires_action"}"#], (ChildState::Running, true, None)),
        (&[r#""state":null"#], (ChildState::Unconfirmed, true, None)),
        (&[FINISHED], (ChildState::Idle(ChildEnd::Finished), true, None)),
        (&[r#""state":{"state":"idle"}"#], (ChildState::Idle(ChildEnd::Finished), true, None)),
        (
            &[r#""state":{"state":"idle","stopReason":"error","error":{"code":1,"message":"x"}}"#],
            (ChildState::Idle(ChildEnd::Failed), true, None),
        ),
        (&[RUNNING], (ChildState::Running, true, None)),
    ] {
        say(&mut rig, "\\u0073", "a", members);
        let now = view(&rig, "a");
        assert_eq!((now.key, (now.state, now.can_cancel, now.title)), (key, expected), "{members:?}");
    }
    assert_eq!(rig.relay.children().count(), 1);
}

#[test]
fn the_latest_grant_counts_and_nothing_else_is_one_acp_33() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[RUNNING]);
    let none = [
        r#""capabilities":null"#,
        r#""capabilities":{}"#,
        r#""capabilities":{"cancel":null}"#,
        r#""capabilities":{"cancel":true}"#,
        r#""capabilities":{"Cancel":{}}"#,
        r#""capabilities":"cancel""#,
        r#""capabilities":[{"cancel":{}}]"#,
    ];
    assert!(!view(&rig, "a").can_cancel);
    for without in none {
        say(&mut rig, "s", "a", &[r#""capabilities":{"prompt":{},"cancel":{"x":1}}"#]);
        assert!(view(&rig, "a").can_cancel);
        say(&mut rig, "s", "a", &[without]);
        assert!(!view(&rig, "a").can_cancel, "{without}");
        assert!(stop_child(&mut rig, "a") && rig.at_server().is_empty(), "{without}");
        assert_eq!(outcome(&rig, "a"), Some(Outcome::NotSendable));
        // Ends what was recorded of the cancel.
        say(&mut rig, "s", "a", &[FINISHED]);
        say(&mut rig, "s", "a", &[RUNNING]);
    }
}

#[test]
fn without_the_clients_wish_nothing_is_kept_and_everything_passes_acp_30() {
    for declared in ["", r#","clientCapabilities":{"subagents":null}"#, r#","clientCapabilities":{"subagents":true}"#] {
        let mut rig = greeted("1", declared, RelayConfig::default());
        pass_to_server(&mut rig, &request("1", "session/prompt", "s"));
        say(&mut rig, "s", "a", &[GRANT, RUNNING]);
        assert_eq!(rig.relay.children().count(), 0, "{declared}");
        assert_eq!(stop(&mut rig), [cancel("s")]);
    }
    let mut rig = greeted("2", "", RelayConfig::default());
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    assert_eq!(rig.relay.children().count(), 1, "part of the base of version 2");
}

#[test]
fn a_malformed_announcement_changes_nothing_and_loses_nothing_acp_32() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    say(&mut rig, "a", "b", &[GRANT, RUNNING]);
    let violations = [
        news("t", "a", &[FINISHED]),
        news("s", "b", &[FINISHED]),
        news("b", "a", &[FINISHED]),
        news("b", "s", &[FINISHED]),
        news("z", "z", &[FINISHED]),
    ];
    let no_child = [
        update("s", r#"{"sessionUpdate":"subagent_update"}"#),
        update("s", r#"{"sessionUpdate":"subagent_update","sessionId":7,"state":{"state":"running"}}"#),
        update("s", r#"{"sessionUpdate":"subagent_update","sessionId":null}"#),
        update("s", r#"{"sessionUpdate":"subagent_update","sessionId":["a"],"state":null}"#),
        update("s", r#"{"sessionUpdate":["subagent_update"],"sessionId":"c"}"#),
        update("s", r#""subagent_update""#),
        update("s", "null"),
        news("s", "c", &[]).replace("session/update", "session/updates"),
        news("s", "c", &[]).replace(r#""sessionId":"s","#, ""),
    ];
    for said in violations.iter().chain(&no_child) {
        pass_to_client(&mut rig, said);
    }
    assert_eq!(rig.violations(), [(Side::Server, Rule::Acp32); 5]);
    assert_eq!(rig.relay.children().count(), 2);
    for child in ["a", "b"] {
        assert_eq!((state(&rig, child), view(&rig, child).can_cancel), (ChildState::Running, true));
    }
}

#[test]
fn a_stop_cancels_the_children_that_grant_it_and_are_not_idle_and_theirs_acp_34() {
    let mut rig = prompted();
    say(&mut rig, "s", "runs", &[GRANT, RUNNING]);
    say(&mut rig, "runs", "below", &[GRANT, RUNNING]);
    say(&mut rig, "below", "deeper", &[GRANT, r#""state":null"#]);
    say(&mut rig, "s", "unseen", &[GRANT, UNKNOWN]);
    say(&mut rig, "s", "idle", &[GRANT, FINISHED]);
    say(&mut rig, "s", "ungranted", &[RUNNING]);
    say(&mut rig, "ungranted", "of it", &[GRANT, RUNNING]);
    say(&mut rig, "other", "elsewhere", &[GRANT, RUNNING]);
    let heard = stop(&mut rig);
    assert_eq!(heard, ["s", "runs", "below", "deeper", "unseen", "of it"].map(cancel));
    for child in ["runs", "below", "deeper", "unseen", "of it"] {
        assert_eq!(outcome(&rig, child), Some(Outcome::Sent), "{child}");
    }
    assert_eq!(outcome(&rig, "ungranted"), Some(Outcome::NotSendable));
    assert_eq!((outcome(&rig, "idle"), outcome(&rig, "elsewhere")), (None, None));
    assert_eq!(stop(&mut rig), [""; 0], "once");
    // A child may be stopped alone.
    assert!(stop_child(&mut rig, "elsewhere") && !stop_child(&mut rig, "elsewhere") && !stop_child(&mut rig, "idle"));
    assert_eq!(rig.at_server(), [cancel("elsewhere")]);
}

#[test]
fn a_stop_of_the_turn_alone_leaves_its_children_alone() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    let key = prompt_key(&rig);
    assert!(rig.relay.stop_alone(rig.now, key, None));
    assert_eq!(rig.at_server(), [cancel("s")]);
    assert_eq!((outcome(&rig, "a"), counted(&rig)), (None, (1, 0)));
}

#[test]
fn the_clients_own_stop_passes_once_and_nothing_is_added_acp_35() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    say(&mut rig, "s", "b", &[UNKNOWN]);
    say(&mut rig, "s", "done", &[FINISHED]);
    pass_to_server(&mut rig, &cancel("s"));
    assert_eq!((outcome(&rig, "a"), outcome(&rig, "b")), (None, None));
    say(&mut rig, "a", "late", &[RUNNING]);
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"cancelled"}"#));
    assert!(matches!(rig.outcome("1"), Some(Outcome::Confirmed { .. })));
    assert_eq!(counted(&rig), (3, 1), "the turn ended; its children still work");
    say(&mut rig, "s", "a", &[CANCELLED]);
    say(&mut rig, "a", "late", &[CANCELLED]);
    assert_eq!(counted(&rig), (1, 1));
    say(&mut rig, "s", "b", &[FINISHED]);
    assert_eq!(counted(&rig), (0, 0));
    // Other work of the same child is not of that turn (ACP-43).
    say(&mut rig, "s", "a", &[RUNNING]);
    assert_eq!(counted(&rig), (0, 0));
}

#[test]
fn a_clients_cancel_of_a_child_passes_and_has_a_receipt_acp_34() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    say(&mut rig, "s", "b", &[RUNNING]);
    rig.from_client(&cancel("a"));
    assert_eq!(outcome(&rig, "a"), Some(Outcome::Asked));
    assert_eq!(rig.at_server(), [cancel("a")]);
    pass_to_server(&mut rig, &cancel("a"));
    assert_eq!(outcome(&rig, "a"), Some(Outcome::Sent));
    assert_eq!(rig.violations(), []);
    pass_to_server(&mut rig, &cancel("b"));
    assert_eq!(rig.violations(), [(Side::Client, Rule::Acp33)], "what it says is its own affair");
    rig.pass(Duration::from_secs(2));
    say(&mut rig, "s", "a", &[CANCELLED]);
    assert_eq!(outcome(&rig, "a"), Some(Outcome::Confirmed { after: Duration::from_secs(2) }));
    assert!(rig.relay.view(prompt_key(&rig)).is_some_and(|view| view.cancel.is_none()), "its parent works on");
}

#[test]
fn only_the_childs_own_idle_says_what_became_of_its_cancel_acp_36() {
    let second = Duration::from_secs(1);
    let answered = |answer| Outcome::AnsweredAfter { after: second, answer };
    let failed = r#""state":{"state":"idle","stopReason":"error"}"#;
    for (end, expected) in [
        (CANCELLED, Outcome::Confirmed { after: second }),
        (FINISHED, answered(Answer::Result)),
        (failed, answered(Answer::Error)),
    ] {
        for grant in [GRANT, r#""capabilities":{}"#] {
            let mut rig = prompted();
            say(&mut rig, "s", "a", &[grant, RUNNING]);
            stop(&mut rig);
            let before = outcome(&rig, "a");
            for other in [RUNNING, UNKNOWN, r#""state":null"#, r#""state":{"state":"_tired"}"#, r#""title":"x""#] {
                say(&mut rig, "s", "a", &[other]);
                assert_eq!(outcome(&rig, "a"), before, "{other}");
            }
            pass_to_client(&mut rig, &result("1", r#"{"stopReason":"cancelled"}"#));
            assert_eq!(outcome(&rig, "a"), before, "its parent's answer says nothing of it");
            rig.pass(second);
            say(&mut rig, "s", "a", &[end]);
            assert_eq!(outcome(&rig, "a"), Some(expected), "{grant}");
        }
    }
}

#[test]
fn work_that_ended_before_the_cancel_left_keeps_its_outcome_acp_36() {
    for (end, expected) in
        [(FINISHED, Outcome::CompletedFirst), (CANCELLED, Outcome::Confirmed { after: Duration::ZERO })]
    {
        let mut rig = prompted();
        say(&mut rig, "s", "a", &[GRANT, RUNNING]);
        assert!(stop_child(&mut rig, "a"));
        say(&mut rig, "s", "a", &[end]);
        assert_eq!((rig.at_server(), outcome(&rig, "a")), (vec![], Some(expected)), "it is taken back");
    }
}

#[test]
fn a_grant_that_is_withdrawn_takes_a_waiting_cancel_back_acp_33() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    assert!(stop_child(&mut rig, "a"));
    say(&mut rig, "s", "a", &[r#""capabilities":null"#]);
    assert_eq!((rig.at_server(), outcome(&rig, "a")), (vec![], Some(Outcome::NotSendable)));
    assert!(!stop_child(&mut rig, "a"));
    say(&mut rig, "s", "a", &[GRANT]);
    assert!(stop_child(&mut rig, "a"), "a second stop finds the grant");
    assert_eq!(rig.at_server(), [cancel("a")]);
}

#[test]
fn what_an_agent_cannot_see_is_unknown_and_what_it_does_not_say_is_not_idle_acp_37() {
    let mut rig = prompted();
    let words = [r#""state":{"state":"later_word"}"#, r#""state":{"state":"Idle","stopReason":"cancelled"}"#, UNKNOWN];
    for word in words {
        say(&mut rig, "s", "a", &[RUNNING]);
        say(&mut rig, "s", "a", &[word]);
        assert_eq!(state(&rig, "a"), ChildState::Unknown, "{word}");
    }
    for word in
        [r#""state":{}"#, r#""state":"idle""#, r#""state":["idle"]"#, r#""state":{"state":null}"#, r#""state":7"#]
    {
        say(&mut rig, "s", "a", &[word]);
        assert_eq!(state(&rig, "a"), ChildState::Unconfirmed, "{word}");
    }
    rig.pass(Duration::from_secs(3600));
    assert_eq!(state(&rig, "a"), ChildState::Unconfirmed, "silence says nothing");
}

#[test]
fn after_the_agents_end_what_ran_is_unknown_and_so_is_its_cancel_acp_38() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    say(&mut rig, "s", "b", &[GRANT, RUNNING]);
    say(&mut rig, "s", "done", &[CANCELLED]);
    assert!(stop_child(&mut rig, "a"));
    rig.at_server();
    assert!(stop_child(&mut rig, "b"));
    rig.end(Side::Server, &End::Exited(1));
    for child in ["a", "b"] {
        assert_eq!((state(&rig, child), outcome(&rig, child)), (ChildState::Unknown, Some(Outcome::Unknown)));
    }
    assert_eq!(state(&rig, "done"), ChildState::Idle(ChildEnd::Cancelled));
}

#[test]
fn a_childs_cards_outlive_its_parents_stop_until_it_is_cancelled_itself_acp_39() {
    let card = |id: &str, session: &str| request(&format!("\"{id}\""), "session/request_permission", session);
    let allow = |id: &str| result(&format!("\"{id}\""), r#"{"outcome":{"outcome":"selected","optionId":"allow"}}"#);
    let denied = |id: &str| result(&format!("\"{id}\""), r#"{"outcome":{"outcome":"cancelled"}}"#);
    let second = Duration::from_secs(1);

    // The client stops the parent: only its own card is closed.
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    for (id, session) in [("p", "s"), ("q", "a"), ("r", "a")] {
        pass_to_client(&mut rig, &card(id, session));
    }
    pass_to_server(&mut rig, &cancel("s"));
    rig.pass(second);
    assert_eq!(rig.at_server(), [denied("p")]);
    rig.at_client();
    pass_to_server(&mut rig, &allow("q"));
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"cancelled"}"#));
    pass_to_client(&mut rig, &card("t", "a"));
    rig.pass(second * 60);
    assert_eq!(rig.at_server(), [""; 0], "of a child that runs on nothing is denied");
    say(&mut rig, "s", "a", &[CANCELLED]);
    rig.pass(second);
    assert_eq!(rig.at_server(), [denied("r"), denied("t")]);

    // The operator stops both: the child's are closed with its cancel. Without a grant they are not.
    for (grant, closed) in [(GRANT, true), (r#""capabilities":{}"#, false)] {
        let mut rig = prompted();
        say(&mut rig, "s", "a", &[grant, RUNNING]);
        pass_to_client(&mut rig, &card("q", "a"));
        let heard = stop(&mut rig);
        assert_eq!(heard.contains(&denied("q")), closed, "{heard:?}");
        rig.at_client();
        rig.from_server(&card("late", "a"));
        assert_eq!((rig.at_client().is_empty(), rig.at_server().contains(&denied("late"))), (closed, closed));
    }
}

/// The operator has cancelled the child, and its card was answered for it; a late "Allow" is one answer too many.
#[test]
fn a_late_answer_authorises_nothing_of_a_cancelled_child_acp_40() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    pass_to_client(&mut rig, &request("\"q\"", "session/request_permission", "a"));
    stop(&mut rig);
    let allow = result("\"q\"", r#"{"outcome":{"outcome":"selected","optionId":"allow"}}"#);
    rig.from_client(&allow);
    assert_eq!(rig.at_server(), [""; 0], "it was answered once");
    say(&mut rig, "s", "a", &[CANCELLED]);
    say(&mut rig, "s", "a", &[RUNNING]);
    // Other work of the same child has cards of its own, which are its client's to answer.
    rig.from_client(&allow);
    assert_eq!(rig.at_server(), [""; 0]);
    rig.at_client();
    pass_to_client(&mut rig, &request("\"r\"", "session/request_permission", "a"));
    pass_to_server(&mut rig, &result("\"r\"", r#"{"outcome":{"outcome":"selected","optionId":"allow"}}"#));
}

#[test]
fn updates_of_a_cancelled_child_are_still_accepted_acp_41() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    stop(&mut rig);
    let failed = update("a", r#"{"sessionUpdate":"tool_call_update","toolCallId":"x","status":"failed"}"#);
    pass_to_client(&mut rig, &failed);
    say(&mut rig, "s", "a", &[CANCELLED]);
    pass_to_client(&mut rig, &failed);
    assert_eq!((view(&rig, "a").updates, rig.violations()), (2, vec![]));
}

/// What a child asks passes as what its parent asks: the client judges both by the same capabilities.
#[test]
fn what_a_child_asks_of_its_client_passes_as_it_is_acp_45() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[RUNNING]);
    for (id, method) in [("5", "fs/read_text_file"), ("6", "terminal/create"), ("7", "session/request_permission")] {
        pass_to_client(&mut rig, &request(id, method, "a"));
        pass_to_server(&mut rig, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no"}}}}"#));
    }
    assert_eq!(rig.violations(), []);
}

#[test]
fn with_a_closed_parent_its_children_are_gone_and_no_message_is_due_acp_42() {
    for (answer, remain) in
        [(result("2", "{}"), 1), (r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"no"}}"#.to_owned(), 4)]
    {
        let mut rig = prompted();
        say(&mut rig, "s", "a", &[GRANT, RUNNING]);
        say(&mut rig, "a", "b", &[GRANT, RUNNING]);
        say(&mut rig, "b", "c", &[GRANT, RUNNING]);
        say(&mut rig, "other", "d", &[GRANT, RUNNING]);
        pass_to_server(&mut rig, &request("2", "session/close", "\\u0073"));
        assert_eq!(rig.relay.children().count(), 4, "it is not closed yet");
        pass_to_client(&mut rig, &answer);
        assert_eq!(rig.relay.children().count(), remain);
        assert_eq!(rig.at_server(), [""; 0]);
    }
}

#[test]
fn idle_does_not_end_a_child_and_its_next_work_has_no_cancel_acp_43() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    stop(&mut rig);
    say(&mut rig, "s", "a", &[CANCELLED]);
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"cancelled"}"#));
    let key = view(&rig, "a").key;
    rig.pass(Duration::from_secs(7200));
    say(&mut rig, "s", "a", &[RUNNING]);
    let again = view(&rig, "a");
    assert_eq!((again.key, again.state, again.can_cancel), (key, ChildState::Running, true));
    assert!(again.cancel.is_none() && again.since == rig.now);
    assert!(stop_child(&mut rig, "a"));
    assert_eq!(rig.at_server(), [cancel("a")]);
}

#[test]
fn a_load_voids_states_and_grants_and_history_authorises_nothing_acp_44() {
    for method in ["session/load", "session/resume"] {
        let mut rig = acp();
        say(&mut rig, "s", "a", &[GRANT, RUNNING]);
        say(&mut rig, "a", "below", &[GRANT, RUNNING]);
        say(&mut rig, "s", "done", &[GRANT, FINISHED]);
        say(&mut rig, "t", "other", &[GRANT, RUNNING]);
        assert!(stop_child(&mut rig, "a"), "it waits");
        rig.from_client(&request("2", method, "s"));
        assert_eq!(rig.at_server(), [request("2", method, "s")], "the cancel is taken back");
        assert_eq!(outcome(&rig, "a"), Some(Outcome::NotSendable));
        for _ in 0..2 {
            for (child, expected) in
                [("a", ChildState::Unconfirmed), ("below", ChildState::Unconfirmed), ("done", ChildState::History)]
            {
                let now = view(&rig, child);
                assert_eq!((now.state, now.can_cancel), (expected, false), "{method}: {child}");
            }
            // The history says it all once more.
            say(&mut rig, "s", "a", &[GRANT, CANCELLED]);
            say(&mut rig, "a", "below", &[GRANT, RUNNING]);
            say(&mut rig, "s", "done", &[GRANT, RUNNING]);
            say(&mut rig, "s", "of old", &[GRANT, RUNNING]);
            assert_eq!((state(&rig, "of old"), view(&rig, "of old").can_cancel), (ChildState::History, false));
        }
        assert!(view(&rig, "other").can_cancel);
        pass_to_client(&mut rig, &result("2", "{}"));
        assert!(stop_child(&mut rig, "below"));
        assert_eq!(rig.at_server(), [""; 0], "{method}");
        // What comes after the response counts.
        say(&mut rig, "s", "of old", &[GRANT, RUNNING]);
        say(&mut rig, "a", "below", &[GRANT]);
        for child in ["of old", "below"] {
            assert!(stop_child(&mut rig, child));
            assert_eq!(rig.at_server(), [cancel(child)], "{method}");
        }
    }
}

#[test]
fn of_a_silenced_turn_news_of_children_and_their_own_updates_pass() {
    let mut rig = prompted();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    stop(&mut rig);
    rig.pass(Duration::from_secs(30));
    assert_eq!(rig.at_client().len(), 1, "we answered for the agent");
    let of_the_turn = update("s", r#"{"sessionUpdate":"agent_message_chunk","content":{}}"#);
    rig.from_server(&of_the_turn);
    assert_eq!(rig.at_client(), [""; 0]);
    pass_to_client(&mut rig, &update("a", r#"{"sessionUpdate":"agent_message_chunk","content":{}}"#));
    assert_eq!(view(&rig, "a").updates, 1);
    say(&mut rig, "s", "a", &[CANCELLED]);
    assert!(matches!(outcome(&rig, "a"), Some(Outcome::Confirmed { .. })), "and are believed");
}

#[test]
fn past_the_bound_the_longest_idle_gives_way_and_what_is_not_kept_is_counted() {
    let mut rig = prompted();
    let name = |n: usize| format!("child {n}");
    for n in 0..1024 {
        say(&mut rig, "s", &name(n), &[GRANT, if n % 2 == 0 { FINISHED } else { RUNNING }]);
    }
    // An idle one that has children stays, and one that works again.
    say(&mut rig, "s", &name(2), &[RUNNING]);
    for n in 1024..1100 {
        say(&mut rig, &name(0), &name(n), &[RUNNING]);
    }
    assert_eq!((rig.relay.children().count(), rig.relay.unkept_work()), (1024, 0));
    let is_kept =
        |rig: &RelayRig, n| rig.relay.children().any(|view| view.session == format!("\"{}\"", name(n)).as_bytes());
    assert!(is_kept(&rig, 0) && is_kept(&rig, 2) && !is_kept(&rig, 4) && is_kept(&rig, 1099));
    for n in 1100..3000 {
        say(&mut rig, "s", &name(n), &[RUNNING]);
    }
    assert_eq!(rig.relay.children().count(), 1024);
    assert_eq!(rig.relay.unkept_work(), 3000 - 1024 - 511 + 1, "all but one of the idle ones gave way");
    rig.relay.check_invariants();
    // The parent of all is stopped all the same.
    assert_eq!(stop(&mut rig).len(), 1 + 513, "the turn, and every granted child that is not idle");
}

#[test]
fn a_flood_of_children_is_bounded_in_bytes() {
    let mut rig = prompted();
    let long = "x".repeat(1 << 20);
    say(&mut rig, "s", &long, &[RUNNING]);
    say(&mut rig, &long, "a", &[RUNNING]);
    assert_eq!((rig.relay.children().count(), rig.relay.unkept_work()), (0, 2), "their ids are too long");
    let before = rig.relay.held();
    let title = format!(r#""title":"{long}""#);
    for n in 0..3000 {
        say(&mut rig, "s", &format!("{n}{}", "y".repeat(500)), &[if n == 0 { &title } else { GRANT }, RUNNING]);
        if n % 7 == 0 {
            let first = rig.relay.children().next().unwrap().key;
            rig.relay.stop_child(rig.now, first, Some(&long));
            rig.at_server();
        }
    }
    assert!(rig.relay.held() < before + (4 << 20), "{}", rig.relay.held());
    assert_eq!(rig.relay.children().next().and_then(|view| view.title).map(str::len), Some(256));
}

#[test]
fn observers_learn_of_each_change_of_a_child_once() {
    let mut rig = prompted();
    rig.relay.watch(true);
    let drain = |rig: &mut RelayRig| core::iter::from_fn(|| rig.relay.poll_changed_child()).collect::<Vec<_>>();
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    say(&mut rig, "s", "a", &[UNKNOWN]);
    let a = view(&rig, "a").key;
    assert!(rig.relay.has_changes());
    assert_eq!((drain(&mut rig), drain(&mut rig)), (vec![a], vec![]));
    stop(&mut rig);
    assert_eq!(drain(&mut rig), [a]);
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"cancelled"}"#));
    core::iter::from_fn(|| rig.relay.poll_changed()).for_each(drop);
    say(&mut rig, "s", "a", &[CANCELLED]);
    assert_eq!(drain(&mut rig), [a]);
    assert_eq!(rig.relay.poll_changed(), Some(prompt_key(&rig)), "its receipt counts the child no more");
    pass_to_server(&mut rig, &request("2", "session/close", "s"));
    pass_to_client(&mut rig, &result("2", "{}"));
    assert_eq!(drain(&mut rig), [a]);
    assert!(rig.relay.child(a).is_none());
}

fn opened_by(rig: &RelayRig, child: &str) -> Option<RequestKey> {
    view(rig, child).opened_by
}

#[test]
fn a_child_knows_the_turn_in_the_course_of_which_its_work_began_after_its_end_too() {
    let mut rig = prompted();
    let first = prompt_key(&rig);
    say(&mut rig, "s", "a", &[GRANT, RUNNING]);
    say(&mut rig, "a", "b", &[RUNNING]);
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"end_turn"}"#));
    assert_eq!(view(&rig, "a").parent, None, "it is shown under what is in flight alone");
    say(&mut rig, "a", "c", &[RUNNING]);
    for child in ["a", "b", "c"] {
        assert_eq!(opened_by(&rig, child), Some(first), "{child}");
    }
    // Announced when no turn was in flight.
    say(&mut rig, "s", "d", &[RUNNING]);
    assert_eq!(opened_by(&rig, "d"), None);
    // Other work, in another turn, and in none.
    say(&mut rig, "s", "a", &[FINISHED]);
    pass_to_server(&mut rig, &request("2", "session/prompt", "s"));
    let second = rig.key(Side::Client, "2");
    say(&mut rig, "s", "a", &[r#""title":"idle all the same""#]);
    assert_eq!(opened_by(&rig, "a"), Some(first));
    say(&mut rig, "s", "a", &[RUNNING]);
    assert_eq!((opened_by(&rig, "a"), opened_by(&rig, "b")), (second, Some(first)));
    say(&mut rig, "s", "a", &[FINISHED]);
    pass_to_client(&mut rig, &result("2", r#"{"stopReason":"end_turn"}"#));
    say(&mut rig, "s", "a", &[RUNNING]);
    assert_eq!(opened_by(&rig, "a"), None);
    // What opened it is known when that is forgotten.
    rig.pass(3600 * Duration::from_secs(1));
    assert_eq!((opened_by(&rig, "b"), rig.relay.view(first).is_none()), (Some(first), true));
}

#[test]
fn no_turn_is_named_for_a_child_of_a_history() {
    let mut rig = acp();
    pass_to_server(&mut rig, &request("1", "session/load", "s"));
    say(&mut rig, "s", "a", &[RUNNING]);
    assert_eq!(opened_by(&rig, "a"), None);
}

/// The children that were reported to have stopped.
fn stopped(rig: &mut RelayRig) -> Vec<String> {
    let keys: Vec<_> = std::iter::from_fn(|| rig.relay.poll_stopped_child()).collect();
    let name = |key| String::from_utf8_lossy(rig.relay.child(key).expect("it is kept").session).into_owned();
    keys.into_iter().map(name).collect()
}

#[test]
fn a_driver_learns_of_each_child_that_was_cancelled_and_has_stopped() {
    let emit = Emit { stopped_children: true, ..Emit::default() };
    let mut rig = greeted("1", SUBAGENTS, RelayConfig { emit, ..RelayConfig::default() });
    pass_to_server(&mut rig, &request("1", "session/prompt", "s"));
    for child in ["alone", "with the turn", "by itself", "finished"] {
        say(&mut rig, "s", child, &[GRANT, RUNNING]);
    }
    // Its agent has cancelled it: nobody else.
    say(&mut rig, "s", "by itself", &[CANCELLED]);
    assert!(stop_child(&mut rig, "alone") && stop_child(&mut rig, "finished"));
    rig.at_server();
    assert_eq!(stopped(&mut rig), [""; 0]);
    say(&mut rig, "s", "alone", &[CANCELLED]);
    say(&mut rig, "s", "alone", &[CANCELLED]);
    say(&mut rig, "s", "finished", &[FINISHED]);
    assert_eq!(stopped(&mut rig), ["\"alone\""]);
    pass_to_server(&mut rig, &cancel("s"));
    say(&mut rig, "s", "with the turn", &[CANCELLED]);
    assert_eq!(stopped(&mut rig), ["\"with the turn\""]);
}

#[test]
fn no_more_stopped_children_are_kept_than_there_are_children() {
    let emit = Emit { stopped_children: true, ..Emit::default() };
    let mut rig = greeted("1", SUBAGENTS, RelayConfig { emit, ..RelayConfig::default() });
    for round in 1..2_000 {
        pass_to_server(&mut rig, &request(&round.to_string(), "session/prompt", "s"));
        say(&mut rig, "s", "a", &[GRANT, RUNNING]);
        pass_to_server(&mut rig, &cancel("s"));
        say(&mut rig, "s", "a", &[CANCELLED]);
        pass_to_client(&mut rig, &result(&round.to_string(), r#"{"stopReason":"cancelled"}"#));
    }
    assert_eq!(stopped(&mut rig).len(), 1024);
}

/// The children that were reported to have ended.
fn ended(rig: &mut RelayRig) -> Vec<String> {
    let keys: Vec<_> = std::iter::from_fn(|| rig.relay.poll_ended_child()).collect();
    let name = |key| String::from_utf8_lossy(rig.relay.child(key).expect("it is kept").session).into_owned();
    keys.into_iter().map(name).collect()
}

#[test]
fn a_driver_that_keeps_a_history_learns_of_the_end_of_each_childs_work() {
    let emit = Emit { ends: true, ..Emit::default() };
    let mut rig = greeted("1", SUBAGENTS, RelayConfig { emit, ..RelayConfig::default() });
    pass_to_server(&mut rig, &request("1", "session/prompt", "s"));
    say(&mut rig, "s", "a", &[RUNNING]);
    say(&mut rig, "s", "b", &[RUNNING]);
    assert_eq!(ended(&mut rig), [""; 0]);
    say(&mut rig, "s", "a", &[FINISHED]);
    say(&mut rig, "s", "a", &[FINISHED]);
    say(&mut rig, "s", "b", &[CANCELLED]);
    assert_eq!(ended(&mut rig), ["\"a\"", "\"b\""]);
    say(&mut rig, "s", "a", &[RUNNING]);
    assert_eq!(ended(&mut rig), [""; 0]);
    say(&mut rig, "s", "a", &[FINISHED]);
    assert_eq!(ended(&mut rig), ["\"a\""], "it was given other work");
}
