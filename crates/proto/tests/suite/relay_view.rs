//! What a relay shows of its requests, what it says has changed, and what it has counted.

use core::time::Duration;

use rescind_proto::{
    dialect::{Dialect, Reading, acp, mcp},
    link::{Clock, RequestKey},
    receipt::{Answer, Outcome},
    relay::{ClockRule, End, RelayConfig, RequestState, RequestView, Settled},
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"se\u0061rch","_meta":{"progressToken":"t"}}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":2,"total":8,"message":"in\u0064exing"}}"#;
const SAMPLE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#;

fn mcp_with(config: RelayConfig) -> RelayRig {
    let mut rig = RelayRig::new(config);
    let asked = r#"{"protocolVersion":"2025-11-25","clientInfo":{"name":"editor","version":"1"}}"#;
    let given = r#"{"protocolVersion":"2025-11-25","serverInfo":{"name":"tools"}}"#;
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{asked}}}"#));
    rig.at_server();
    rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":0,"result":{given}}}"#));
    rig.at_client();
    rig
}

fn mcp() -> RelayRig {
    mcp_with(RelayConfig::default())
}

fn only(rig: &RelayRig, side: Side) -> RequestView<'_> {
    let mut found = rig.relay.requests(side);
    let view = found.next().expect("a request in flight");
    assert!(found.next().is_none());
    view
}

fn changed(rig: &mut RelayRig) -> Vec<RequestKey> {
    std::iter::from_fn(|| rig.relay.poll_changed()).collect()
}

#[test]
fn a_request_is_shown_with_its_tool_its_progress_and_its_deadline() {
    let limit = Duration::from_secs(60);
    let clocks = vec![ClockRule { clock: Clock::Response, method: None, name: None, limit }];
    let mut rig = mcp_with(RelayConfig { clocks, ..RelayConfig::default() });
    rig.pass(Duration::from_secs(1));
    rig.from_client(CALL);
    let asked = rig.now;
    assert_eq!(only(&rig, Side::Client).state, RequestState::Queued);
    rig.at_server();
    rig.pass(Duration::from_secs(2));
    rig.from_server(PROGRESS);
    let view = only(&rig, Side::Client);
    assert_eq!((view.method, view.name.as_deref()), ("tools/call", Some("search")));
    assert_eq!((view.state, view.since), (RequestState::Sent, asked));
    assert_eq!(view.deadline, Some(rig.now + limit));
    let progress = view.progress.unwrap();
    assert_eq!((progress.count, progress.at), (1, rig.now));
    let said = Reading { done: Some(2.0), total: Some(8.0), message: Some("indexing".into()) };
    assert_eq!(progress.reading, Some(said));
}

#[test]
fn progress_too_long_to_keep_is_counted() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    rig.from_server(&PROGRESS.replace("in", &"x".repeat(2000)));
    let progress = only(&rig, Side::Client).progress.unwrap();
    assert_eq!((progress.count, progress.reading), (1, None));
}

#[test]
fn what_ended_is_shown_with_how_it_did() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    rig.pass(Duration::from_secs(1));
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32050,"message":"no"}}"#;
    rig.from_server(error);
    assert_eq!(only(&rig, Side::Client).state, RequestState::Answering);
    assert_eq!(rig.at_client(), [error]);
    assert_eq!(rig.relay.requests(Side::Client).count(), 0);
    let key = rig.key(Side::Client, "1").unwrap();
    let ended = rig.relay.view(key).unwrap().ended.unwrap();
    assert_eq!((ended.at, ended.how), (rig.now, Settled::Answered));
    assert_eq!((ended.answer, ended.code), (Some(Answer::Error), Some(-32050)));
    assert!(rig.relay.summaries(Side::Client).any(|summary| summary.key == key && summary.ended.is_some()));
}

#[test]
fn what_comes_late_is_counted_at_its_request() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(CANCEL);
    rig.at_server();
    let key = rig.key(Side::Client, "1").unwrap();
    rig.pass(Duration::from_secs(3));
    rig.from_server(PROGRESS);
    let late = rig.relay.view(key).unwrap().late.unwrap();
    assert_eq!((late.notices, late.answers, late.at), (1, 0, rig.now));
    assert!(!rig.relay.view(key).unwrap().is_stuck, "within its grace");
    rig.pass(Duration::from_secs(3));
    rig.from_server(PROGRESS);
    assert!(rig.relay.view(key).unwrap().is_stuck);
    rig.relay.watch(true);
    rig.pass(Duration::from_millis(4_999));
    assert_eq!(changed(&mut rig), []);
    assert!(rig.relay.view(key).unwrap().works_on);
    rig.pass(Duration::from_millis(1));
    assert_eq!(changed(&mut rig), [key], "nothing has come for a grace");
    assert!(!rig.relay.view(key).unwrap().works_on && !rig.relay.view(key).unwrap().is_stuck);
    rig.from_server(PROGRESS);
    assert!(rig.relay.view(key).unwrap().is_stuck, "it is back");
    rig.from_server(RESULT);
    let view = rig.relay.view(key).unwrap();
    assert!(!view.is_stuck, "it has answered");
    assert_eq!((view.late.unwrap().notices, view.late.unwrap().answers), (3, 1));
    assert_eq!(view.ended.unwrap().how, Settled::Silent);
    let after = Duration::from_secs(11);
    assert_eq!(view.cancel.unwrap().outcome, Outcome::AnsweredAfter { after, answer: Answer::Result });
}

#[test]
fn a_servers_request_belongs_to_the_only_one_it_can() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    rig.from_server(SAMPLE);
    let parent = rig.key(Side::Client, "1");
    assert_eq!(only(&rig, Side::Server).parent, parent);
    rig.at_client();
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    rig.at_server();
    rig.from_client(&CALL.replace(r#""id":1"#, r#""id":2"#));
    rig.from_server(&SAMPLE.replace(r#""id":1"#, r#""id":2"#));
    assert_eq!(only(&rig, Side::Server).parent, None, "it could be either's");
}

/// A call that its client has cancelled, with the cancel at its server.
fn given_up() -> (RelayRig, RequestKey) {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(CANCEL);
    rig.at_server();
    let key = rig.key(Side::Client, "1").expect("a request");
    (rig, key)
}

fn is_released(rig: &RelayRig, key: RequestKey) -> bool {
    rig.relay.view(key).is_some_and(|view| view.is_released)
}

#[test]
fn what_is_cancelled_and_not_known_to_have_ended_stays_for_ten_minutes() {
    let (mut rig, key) = given_up();
    assert_eq!(rig.relay.in_flight(Side::Client), 0, "it has left its client's view");
    let view = rig.relay.view(key).unwrap();
    assert_eq!((view.is_released, view.is_stuck, view.state), (true, false, RequestState::Ended));
    rig.relay.watch(true);
    rig.pass(Duration::from_secs(599));
    assert!(is_released(&rig, key));
    assert_eq!(changed(&mut rig), []);
    rig.pass(Duration::from_secs(1));
    assert!(rig.relay.view(key).is_none());
    assert_eq!(changed(&mut rig), [key], "an observer learns that it is forgotten");
}

#[test]
fn what_an_operator_or_a_clock_has_stopped_is_released_once_its_client_has_its_error() {
    let limit = Duration::from_secs(60);
    let clocks = vec![ClockRule { clock: Clock::Total, method: None, name: None, limit }];
    let mut rig = mcp_with(RelayConfig { clocks, ..RelayConfig::default() });
    rig.from_client(CALL);
    rig.from_client(&CALL.replace(r#""id":1"#, r#""id":2"#).replace(r#""t""#, r#""u""#));
    rig.at_server();
    let [first, second] = ["1", "2"].map(|id| rig.key(Side::Client, id).unwrap());
    assert!(rig.relay.stop(rig.now, first, None));
    rig.at_server();
    assert!(!is_released(&rig, first), "its client waits for the error");
    rig.at_client();
    assert!(is_released(&rig, first) && !is_released(&rig, second));
    rig.pass(limit);
    rig.at_server();
    rig.at_client();
    assert!(is_released(&rig, second));
}

#[test]
fn an_answer_and_the_end_of_the_server_show_that_a_released_request_has_ended() {
    let (mut rig, key) = given_up();
    rig.from_server(RESULT);
    assert!(!is_released(&rig, key), "it has answered");
    let (mut rig, key) = given_up();
    rig.relay.handle_eof(rig.now, Side::Server, &End::Closed);
    assert!(!is_released(&rig, key), "its server has ended");
    // No byte of it has left.
    let mut rig = mcp();
    rig.from_client(CALL);
    let key = rig.key(Side::Client, "1").unwrap();
    rig.from_client(CANCEL);
    assert!(!is_released(&rig, key));
}

#[test]
fn progress_shows_that_a_released_request_goes_on_and_not_that_it_has_ended() {
    let (mut rig, key) = given_up();
    rig.pass(Duration::from_secs(6));
    rig.from_server(PROGRESS);
    assert!(rig.relay.view(key).unwrap().is_stuck && !is_released(&rig, key));
    rig.pass(Duration::from_secs(6));
    assert!(!rig.relay.view(key).unwrap().is_stuck && is_released(&rig, key), "it is quiet, and nothing is known");
}

#[test]
fn a_released_request_stays_although_its_id_is_used_again() {
    let (mut rig, key) = given_up();
    rig.from_client(CALL);
    rig.at_server();
    let next = rig.key(Side::Client, "1").unwrap();
    assert!(next != key && is_released(&rig, key) && !is_released(&rig, next));
}

#[test]
fn what_a_server_asks_of_its_client_is_never_released() {
    let mut rig = mcp();
    rig.from_server(SAMPLE);
    rig.at_client();
    let key = rig.key(Side::Server, "1").unwrap();
    rig.from_server(CANCEL);
    rig.at_client();
    assert!(rig.relay.view(key).unwrap().cancel.is_some());
    assert!(!is_released(&rig, key));
}

#[test]
fn released_requests_are_as_many_as_are_remembered_at_most() {
    let mut rig = mcp_with(RelayConfig { remembered: 2, ..RelayConfig::default() });
    for id in 1..=200 {
        rig.from_client(&CALL.replace(r#""id":1"#, &format!(r#""id":{id}"#)).replace(r#""t""#, &format!(r#""{id}""#)));
        rig.at_server();
        rig.from_client(&CANCEL.replace(":1}", &format!(":{id}}}")));
        rig.at_server();
    }
    let released = rig.relay.summaries(Side::Client).filter(|summary| summary.is_released).count();
    // Sixteen times as many as of others, and a batch.
    assert!((16 * 2..=16 * 2 + 32).contains(&released), "{released}");
    let unkept = 200 - u64::try_from(released).unwrap();
    assert_eq!(rig.relay.unkept_released(), unkept, "what had to go is counted");
    rig.pass(Duration::from_secs(600));
    assert_eq!(rig.relay.summaries(Side::Client).filter(|summary| summary.is_released).count(), 0);
    assert_eq!(rig.relay.unkept_released(), unkept, "what has had its time is not");
    rig.relay.handle_eof(rig.now, Side::Server, &End::Exited(0));
    assert_eq!(rig.relay.unkept_released(), 0, "nothing works on");
}

#[test]
fn what_a_server_has_not_seen_or_has_answered_is_not_what_it_works_on() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.from_server(SAMPLE);
    assert_eq!(only(&rig, Side::Server).parent, None, "it has not been written");
    rig.at_client();
    rig.from_client(RESULT);
    rig.at_server();
    rig.from_server(RESULT);
    rig.from_server(&SAMPLE.replace(r#""id":1"#, r#""id":2"#));
    assert_eq!(rig.relay.in_flight(Side::Client), 1, "its answer waits");
    assert_eq!(only(&rig, Side::Server).parent, None);
}

#[test]
fn a_question_of_a_session_belongs_to_its_turn() {
    let mut rig = RelayRig::new(RelayConfig::default());
    rig.from_client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"agent"}}}"#);
    for (id, session) in [(1, "s"), (2, "other")] {
        let params = format!(r#"{{"sessionId":"{session}","prompt":[]}}"#);
        rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{params}}}"#));
    }
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":9,"method":"fs/read_text_file","params":{"sessionId":"s"}}"#);
    assert_eq!(only(&rig, Side::Server).parent, rig.key(Side::Client, "1"));
    assert_eq!(rig.relay.implementation(Side::Server).map(|implementation| &*implementation.name), Some("agent"));
}

#[test]
fn each_change_is_told_once_however_much_happened() {
    let mut rig = mcp();
    rig.from_client(CALL);
    assert_eq!(changed(&mut rig), [], "nobody watches");
    rig.relay.watch(true);
    rig.at_server();
    rig.from_server(PROGRESS);
    let key = rig.key(Side::Client, "1").unwrap();
    assert_eq!(changed(&mut rig), [key]);
    assert_eq!(changed(&mut rig), []);
    rig.from_client(CANCEL);
    assert_eq!(changed(&mut rig), [key]);
    rig.at_server();
    assert_eq!(changed(&mut rig), [key], "the cancel has left");
    rig.from_server(RESULT);
    assert_eq!(changed(&mut rig), [key], "it came late");
    rig.from_server(SAMPLE);
    rig.relay.watch(false);
    rig.relay.watch(true);
    rig.at_client();
    rig.from_client(RESULT);
    rig.at_server();
    assert_eq!(changed(&mut rig), [rig.key(Side::Server, "1").unwrap()], "watching began anew");
}

#[test]
fn an_answer_that_waits_and_a_request_that_is_lost_are_changes() {
    let mut rig = mcp();
    rig.relay.watch(true);
    rig.from_client(CALL);
    let key = rig.key(Side::Client, "1").unwrap();
    assert_eq!(changed(&mut rig), [key]);
    rig.at_server();
    assert_eq!(changed(&mut rig), [key]);
    rig.from_server(RESULT);
    assert_eq!(changed(&mut rig), [key]);
    assert_eq!(only(&rig, Side::Client).state, RequestState::Answering);
    rig.at_client();
    rig.from_client(&CALL.replace(r#""id":1"#, r#""id":2"#));
    let lost = rig.key(Side::Client, "2").unwrap();
    assert_eq!(changed(&mut rig), [key, lost]);
    rig.relay.handle_write_closed(rig.now, Side::Server);
    assert_eq!(changed(&mut rig), [lost]);
    assert_eq!(only(&rig, Side::Client).state, RequestState::Queued, "the server never had it");
}

#[test]
fn a_change_of_something_forgotten_has_no_view() {
    let mut rig =
        mcp_with(RelayConfig { remembered: 0, remember: (Duration::ZERO, Duration::ZERO), ..RelayConfig::default() });
    rig.relay.watch(true);
    rig.from_client(CALL);
    rig.at_server();
    rig.from_server(RESULT);
    rig.at_client();
    rig.pass(Duration::from_secs(1));
    let told = changed(&mut rig);
    assert_eq!(told.len(), 1);
    assert!(rig.relay.view(told[0]).is_none());
}

#[test]
fn cancels_are_counted_by_who_asked_and_by_what_is_known() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(CANCEL);
    assert_eq!(Vec::from_iter(rig.relay.tally().outcomes.clone()), [("asked", 1)]);
    rig.at_server();
    assert_eq!(rig.relay.tally().outcomes["sent"], 1);
    rig.pass(Duration::from_secs(2));
    rig.from_server(RESULT);
    rig.from_client(CANCEL);
    let second = CALL.replace(r#""id":1"#, r#""id":2"#);
    rig.from_client(&second);
    rig.at_server();
    let key = rig.key(Side::Client, "2").unwrap();
    assert!(rig.relay.stop(rig.now, key, None));
    rig.at_client();
    rig.end(Side::Server, &End::Exited(1));
    let tally = rig.relay.tally();
    assert_eq!(Vec::from_iter(tally.cancels.clone()), [("caller", 1), ("operator", 1)]);
    assert_eq!((tally.outcomes["sent"], tally.outcomes["answered_after"]), (0, 1));
    assert_eq!(tally.outcomes.values().sum::<u64>(), 2);
    assert_eq!(Vec::from_iter(tally.late.clone()), [("result", 1)]);
    assert_eq!(tally.unheeded.values().sum::<u64>(), 1);
    assert_eq!((tally.requests.client, tally.answered, tally.answered_here, tally.silent), (3, 1, 1, 1));
    assert_eq!(tally.cancel_to_settled.counts.iter().sum::<u64>(), 2);
    assert_eq!(tally.cancel_to_answer.sum, Duration::from_secs(2));
}

#[test]
fn messages_of_our_own_are_kept_while_somebody_watches() {
    let mut rig = mcp();
    rig.relay.watch(true);
    for id in [1, 2] {
        rig.from_client(&CALL.replace(r#""id":1"#, &format!(r#""id":{id}"#)));
    }
    rig.at_server();
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, key, None));
    assert_eq!(rig.relay.own_messages().count(), 0, "not written yet");
    let (to_server, to_client) = (rig.at_server(), rig.at_client());
    rig.from_server(&RESULT.replace(r#""id":1"#, r#""id":2"#));
    rig.at_client();
    let said: Vec<_> =
        rig.relay.own_messages().map(|said| (said.to, String::from_utf8_lossy(&said.frame).into_owned())).collect();
    assert!(rig.relay.own_messages().all(|said| said.request == key), "the answer to the other is the server's");
    let framed = |text: &String| format!("{text}\n");
    assert_eq!(said, [(Side::Server, framed(&to_server[0])), (Side::Client, framed(&to_client[0]))]);
}

#[test]
fn of_messages_of_our_own_the_latest_are_kept() {
    let mut rig = mcp();
    rig.relay.watch(true);
    for id in 1..=300 {
        rig.from_client(&CALL.replace(r#""id":1"#, &format!(r#""id":{id}"#)));
        rig.at_server();
        let key = rig.key(Side::Client, &id.to_string()).unwrap();
        rig.relay.stop(rig.now, key, None);
        rig.at_server();
        rig.at_client();
    }
    assert_eq!(rig.relay.own_messages().count(), 256);
    let last = rig.key(Side::Client, "300");
    assert_eq!(rig.relay.own_messages().last().map(|said| said.request), last);
}

#[test]
fn a_cancel_is_counted_even_if_nothing_is_remembered() {
    let mut rig =
        mcp_with(RelayConfig { remembered: 0, remember: (Duration::ZERO, Duration::ZERO), ..RelayConfig::default() });
    rig.from_client(CALL);
    rig.from_client(CANCEL);
    let tally = rig.relay.tally();
    assert_eq!((tally.cancels["caller"], tally.outcomes["never_sent"], tally.silent), (1, 1, 1));
}

#[test]
fn a_long_message_about_a_request_is_not_kept() {
    let mut rig = RelayRig::new(RelayConfig::default());
    rig.from_client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
    rig.relay.watch(true);
    for (at, long) in [(1, ""), (2, &*"x".repeat(1 << 20))] {
        let session = format!(r#""sessionId":"s{at}{long}""#);
        rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":{at},"method":"session/prompt","params":{{{session}}}}}"#));
        rig.at_server();
        let key = rig.key(Side::Client, &at.to_string()).unwrap();
        assert!(rig.relay.stop(rig.now, key, None));
        assert_eq!(rig.at_server().len(), 1);
    }
    let said: Vec<_> = rig.relay.own_messages().map(|said| said.frame.len()).collect();
    assert!(said.len() == 1 && said[0] < 200, "{said:?}");
}

#[test]
fn a_glimpse_tells_what_the_view_tells() {
    let mut rig = mcp();
    rig.from_client(CALL);
    rig.at_server();
    let key = only(&rig, Side::Client).key;
    let agrees = |rig: &RelayRig| {
        let view = rig.relay.view(key).expect("it is remembered");
        let glimpse = rig.relay.summaries(Side::Client).find(|glimpse| glimpse.key == key).expect("it is remembered");
        assert_eq!((glimpse.id, glimpse.since, glimpse.is_stuck), (view.id, view.since, view.is_stuck));
        assert_eq!(glimpse.is_released, view.is_released);
        assert_eq!((glimpse.ended, glimpse.is_cancelled), (view.ended.map(|ended| ended.at), view.cancel.is_some()));
        (glimpse.is_open(), glimpse.is_cancelled)
    };
    assert_eq!(agrees(&rig), (true, false));
    assert!(rig.relay.stop(rig.now, key, None));
    rig.at_server();
    rig.at_client();
    assert_eq!(agrees(&rig), (false, true));
}

#[test]
fn a_request_is_uneventful_if_a_result_is_all_that_came_of_it() {
    let ends = |mut rig: RelayRig, end: fn(&mut RelayRig)| {
        rig.from_client(CALL);
        let key = rig.key(Side::Client, "1").expect("it was opened");
        rig.at_server();
        end(&mut rig);
        rig.at_server();
        rig.at_client();
        rig.relay.is_uneventful(key)
    };
    let speaking = |dialect: &'static Dialect| {
        let dialects = Sides { client: Some(dialect), server: Some(dialect) };
        RelayRig::new(RelayConfig { dialects, ..RelayConfig::default() })
    };
    assert_eq!(ends(mcp(), |rig| rig.from_server(RESULT)), Some(true));
    assert_eq!(ends(mcp(), |_| {}), Some(false), "it is in flight");
    assert_eq!(ends(mcp(), |rig| rig.from_client(CANCEL)), Some(false), "silence is not a result");
    let error = |rig: &mut RelayRig| rig.from_server(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#);
    assert_eq!(ends(mcp(), error), Some(false), "an error is not a result");
    let cancelled_and_answered = |rig: &mut RelayRig| {
        rig.from_client(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
        rig.at_server();
        rig.from_server(RESULT);
    };
    assert_eq!(ends(speaking(&acp::V1), cancelled_and_answered), Some(false), "it was cancelled");
    let answered_late = |rig: &mut RelayRig| {
        rig.from_server(RESULT);
        rig.at_client();
        rig.from_server(RESULT);
    };
    assert_eq!(ends(mcp(), answered_late), Some(false), "something came late");
    let became_a_task = |rig: &mut RelayRig| {
        rig.from_server(r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t"}}"#);
    };
    assert_eq!(ends(speaking(&mcp::REVISION_2026_07_28), became_a_task), Some(false), "a task came of it");
    let forgotten = |rig: &mut RelayRig| {
        rig.from_server(RESULT);
        rig.at_client();
        rig.pass(Duration::from_secs(600));
    };
    assert_eq!(ends(mcp(), forgotten), None);
}
