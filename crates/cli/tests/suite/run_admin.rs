//! The admin socket of `rescind run`: what it tells, and what a cancel does, on real processes.

use rescind_feed::{Counters, Details, End, Event, Outcome, Session, SettledHow, Side, State};
use rescind_testkit::puppet::{Framing, Rig};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::shim::{
    PROGRAM,
    admin::{Admin, names},
    error_of,
    words::{
        cancelled, error, expect_alive, greet_acp, greet_mcp, notification, pass_to_client, pass_to_server, progress,
        request, request_with, result,
    },
};

fn mcp() -> (Rig, Admin) {
    mcp_with(&[])
}

fn mcp_with(flags: &[&str]) -> (Rig, Admin) {
    let mut rig = Rig::builder(PROGRAM).flags(flags.iter().copied()).start();
    greet_mcp(&mut rig, "2025-11-25");
    let admin = Admin::of(&rig);
    (rig, admin)
}

/// A tool's call, with a token for progress.
fn call(id: &str, tool: &str) -> String {
    request_with(id, "tools/call", &format!(r#"{{"name":"{tool}","_meta":{{"progressToken":{id}}}}}"#))
}

fn key_of(admin: &Admin, id: &str) -> String {
    let query = format!("state=all&id={id}");
    admin.requests(&query).into_iter().next().unwrap().key
}

#[test]
fn a_session_tells_who_takes_part_in_it() {
    let (rig, admin) = mcp();
    let session: Session = admin.get("/v1/session");
    assert_eq!(session.version, 1);
    assert_eq!((session.name.as_str(), session.pid), (rig.shim.id.to_string().as_str(), rig.shim.id as u32));
    assert_eq!(session.server_pid, Some(rig.server.puppet.id as u32));
    assert_eq!(session.ancestors.first(), Some(&std::process::id()));
    assert!(session.command[0].ends_with("puppet"), "{:?}", session.command);
    for implementation in [session.client, session.server] {
        assert_eq!(implementation.protocol, "mcp-2025-11-25");
        assert_eq!((implementation.name.as_deref(), implementation.version.as_deref()), (Some("test"), Some("1")));
    }
}

#[test]
fn requests_are_listed_with_how_far_they_are() {
    let (mut rig, admin) = mcp_with(&["--timeout", "1h"]);
    pass_to_server(&mut rig, &call("1", "index"));
    pass_to_server(&mut rig, &call("\"two\"", "search"));
    pass_to_client(&mut rig, &progress("1", 5));
    assert!(admin.requests("")[0].deadline.is_some_and(|deadline| deadline > 0), "in an hour");
    pass_to_client(&mut rig, &request("7", "sampling/createMessage"));
    let open = admin.requests("");
    let ids: Vec<_> = open.iter().map(|request| (request.from, request.id.as_str())).collect();
    assert_eq!(ids, [(Side::Client, "1"), (Side::Client, "\"two\""), (Side::Server, "7")]);
    assert!(open.iter().all(|request| request.state == State::Running));
    assert_eq!((open[0].method.as_str(), open[0].name.as_deref()), ("tools/call", Some("index")));
    let progress = open[0].progress.as_ref().unwrap();
    assert_eq!((progress.count, progress.progress), (1, Some(5.0)));
    assert_eq!(open[0].deadline, None, "its clock stands while somebody is asked");
    assert_eq!(open[2].deadline, None, "people take longer");

    let ids = |query: &str| admin.requests(query).into_iter().map(|request| request.id).collect::<Vec<_>>();
    assert_eq!(ids("from=server"), ["7"]);
    assert_eq!(ids("method=tools%2Fcall"), ["1", "\"two\""]);
    assert_eq!(ids("method=tools/call:search"), ["\"two\""]);
    assert_eq!(ids("id=two"), ["\"two\""]);
    assert_eq!(ids("older_than=3600000000"), [""; 0]);
    assert_eq!(ids("limit=1"), ["1"]);

    pass_to_client(&mut rig, &result("1", "{}"));
    pass_to_client(&mut rig, &error("\"two\"", -32000, "no"));
    assert_eq!(ids(""), ["7"]);
    let recent = admin.requests("state=recent");
    let how = |id: &str| recent.iter().find(|request| request.id == id).unwrap().settled.clone().unwrap();
    assert_eq!(how("1").how, SettledHow::Result);
    assert_eq!((how("\"two\"").how, how("\"two\"").code), (SettledHow::Error, Some(-32000)));
    assert_eq!(ids("state=all").len(), 4, "the handshake too");
    for bad in ["state=none", "limit=x", "colour=red"] {
        admin.ask("GET", &format!("/v1/requests?{bad}"), "").expect_problem(400);
    }
}

#[test]
fn a_cancel_stops_the_work_and_tells_whoever_waits() {
    let (mut rig, admin) = mcp();
    let mut subscriber = admin.subscribe(None);
    for id in ["1", "2", "3"] {
        pass_to_server(&mut rig, &call(id, "slow"));
    }
    let key = key_of(&admin, "2");
    let reply = admin.cancel(&json!({"requests": [key], "reason": "it hangs"}));
    assert!(reply.requests[0].accepted);
    rig.server.expect(&notification("notifications/cancelled", r#"{"requestId":2,"reason":"it hangs"}"#));
    let error = error_of(&rig.client.receive(), "2");
    assert_eq!(error["code"], -31003);
    assert_eq!(error["data"]["receipt"]["cause"], "operator");
    assert_eq!(error["data"]["receipt"]["reason"], "it hangs");

    // The receipt develops on the stream: written, then progress that still comes, then the late answer.
    subscriber.until(|known| known.of("2").is_some_and(|request| request.state == State::Released));
    let cancel = subscriber.of("2").unwrap().cancel.clone().unwrap();
    assert_eq!((cancel.outcome, cancel.confirms), (Outcome::Sent, false));
    assert_eq!(cancel.words, "sent; MCP does not confirm");
    assert_eq!(cancel.reason.as_deref(), Some("it hangs"));
    rig.server.send(&progress("2", 50));
    subscriber.until(|known| known.of("2").is_some_and(|request| request.cancel.as_ref().unwrap().works_on));
    assert_eq!(subscriber.of("2").unwrap().cancel.as_ref().unwrap().words, "progress still arriving");
    rig.server.send(&result("2", "{}"));
    subscriber.until(|known| known.of("2").and_then(|request| request.late).is_some_and(|late| late.answers == 1));
    let answered = subscriber.of("2").unwrap();
    let words = &answered.cancel.as_ref().unwrap().words;
    assert!(words.starts_with("answered after ") && answered.state == State::Ended, "{words}");

    // The other two finish.
    pass_to_client(&mut rig, &result("1", "{}"));
    pass_to_client(&mut rig, &result("3", "{}"));
    let counters: Counters = admin.get("/v1/counters");
    assert_eq!((counters.cancels["operator"], counters.outcomes["answered_after"]), (1, 1));
    assert_eq!((counters.settled["answered_here"], counters.late["progress"]), (1, 1));
}

#[test]
fn a_cancel_of_what_is_over_or_unknown_says_so() {
    let (mut rig, admin) = mcp();
    pass_to_server(&mut rig, &call("1", "slow"));
    let key = key_of(&admin, "1");
    pass_to_client(&mut rig, &result("1", "{}"));
    let reply = admin.cancel(&json!({"requests": [key, "c999.1", "nonsense", ""]}));
    let accepted: Vec<_> = reply.requests.iter().map(|stopped| stopped.accepted).collect();
    assert_eq!(accepted, [false; 4]);
    assert_eq!(reply.requests[0].request.as_ref().unwrap().state, State::Ended);
    assert!(reply.requests[1..].iter().all(|stopped| stopped.request.is_none()));
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
}

/// D37.
/// Whoever waits for the server gets an error that says who ended it, and a server that survives SIGTERM is killed.
/// The server ends at the cancel, before anybody could subscribe after the reply.
#[test]
fn what_comes_of_a_cancel_follows_its_reply_to_the_end_of_the_session() {
    let (mut rig, admin) = mcp();
    pass_to_server(&mut rig, &call("1", "slow"));
    let order = json!({ "requests": [key_of(&admin, "1")], "reason": "it hangs" });
    let (reply, mut subscriber) = admin.order_and_follow::<rescind_feed::CancelReply>("/v1/cancel", &order);
    assert!(reply.requests[0].accepted && reply.requests[0].request.as_ref().is_some_and(|one| one.cancel.is_some()));
    rig.server.expect(&notification("notifications/cancelled", r#"{"requestId":1,"reason":"it hangs"}"#));
    rig.server.exit(3);
    let mut ended = None;
    while let Some(event) = subscriber.event() {
        ended = Some(event);
    }
    let Some(Event::Ended(ended)) = ended else { panic!("{ended:?}") };
    assert_eq!(ended.how, End::ExitCode(3));
}

#[test]
fn the_end_of_a_server_follows_the_order_to_end_it() {
    let (rig, admin) = mcp();
    let started = admin.get::<Session>("/v1/session").started;
    let another = json!({ "started": started - 1 }).to_string();
    let head = "POST /v1/end HTTP/1.1\r\nhost: shim\r\nconnection: close\r\naccept: text/event-stream\r\n";
    admin.say(format!("{head}content-length: {}\r\n\r\n{another}", another.len()).as_bytes()).expect_problem(409);
    let order = json!({ "started": started });
    let (reply, mut subscriber) = admin.order_and_follow::<rescind_feed::EndReply>("/v1/end", &order);
    assert!(reply.accepted);
    let mut ended = None;
    while let Some(event) = subscriber.event() {
        ended = Some(event);
    }
    assert!(matches!(ended, Some(Event::Ended(_))), "{ended:?}");
    drop(rig);
}

#[test]
fn an_order_to_end_the_server_ends_it_and_tells_whoever_waits() {
    let (mut rig, admin) = mcp();
    pass_to_server(&mut rig, &call("1", "slow"));
    rig.server.puppet.survive(15);
    let session: Session = admin.get("/v1/session");
    let end = |started: u64| admin.ask("POST", "/v1/end", &json!({ "started": started }).to_string());
    // An earlier session had this name, too.
    end(session.started - 1).expect_problem(409);
    admin.ask("POST", "/v1/end", "{}").expect_problem(400);
    rig.expect_server_hears_nothing();
    assert!(end(session.started).read::<rescind_feed::EndReply>().accepted);
    rig.server.puppet.expect_signal(15);
    rig.server.puppet.expect_death();
    rig.server.close();
    let error = error_of(&rig.client.receive(), "1");
    let data = &error["data"];
    assert_eq!((&data["endedBy"], &data["because"]), (&"shim".into(), &"operator".into()), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("rescind ended it, because an operator asked for it"), "{message}");
    rig.shim.expect_death(Signal::KILL);
}

#[test]
fn a_second_order_to_end_changes_nothing() {
    let (mut rig, admin) = mcp();
    rig.server.puppet.survive(15);
    let session: Session = admin.get("/v1/session");
    let end = || admin.ask("POST", "/v1/end", &json!({ "started": session.started }).to_string());
    assert!(end().read::<rescind_feed::EndReply>().accepted);
    let again = end();
    assert!(matches!(again.status, 200 | 410), "{again:?}");
    assert!(!again.body.contains("true"), "{again:?}");
    rig.server.puppet.expect_signal(15);
    rig.server.puppet.expect_death();
}

#[test]
fn a_cancelled_prompt_is_ended_by_its_agent() {
    let mut rig = Rig::start(PROGRAM);
    greet_acp(&mut rig, "", "");
    let admin = Admin::of(&rig);
    pass_to_server(&mut rig, &request_with("5", "session/prompt", r#"{"sessionId":"s","prompt":[]}"#));
    let reply = admin.cancel(&json!({"requests": [key_of(&admin, "5")], "reason": "enough"}));
    assert!(reply.requests[0].accepted);
    let cancel = rig.server.receive();
    assert!(cancel.contains(r#""method":"session/cancel""#), "{cancel}");
    let waiting = &admin.requests("")[0];
    assert_eq!(waiting.state, State::Cancelling);
    assert_eq!(waiting.cancel.as_ref().unwrap().words, "sent; not confirmed yet");
    rig.server.send(&result("5", r#"{"stopReason":"cancelled"}"#));
    let answer: Value = serde_json::from_str(&rig.client.receive()).unwrap();
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(5), &json!("cancelled")));
    let over = &admin.requests("state=all&id=5")[0];
    assert_eq!(over.cancel.as_ref().unwrap().outcome, Outcome::Confirmed);
}

#[test]
fn who_comes_late_is_told_everything_and_who_comes_back_what_was_missed() {
    let (mut rig, admin) = mcp();
    pass_to_server(&mut rig, &call("1", "slow"));
    let mut first = admin.subscribe(None);
    assert!(matches!(first.event(), Some(Event::Snapshot(_))));
    assert_eq!(first.of("1").unwrap().state, State::Running);
    assert_eq!(first.session.as_ref().unwrap().client.name.as_deref(), Some("test"));
    pass_to_server(&mut rig, &call("2", "slow"));
    first.until(|known| known.of("2").is_some_and(|request| request.state == State::Running));
    let seen = first.last;
    // Another goes on listening, and tells when what the first misses has been told.
    let mut other = admin.subscribe(None);
    drop(first);
    for id in ["3", "4"] {
        pass_to_server(&mut rig, &call(id, "slow"));
        other.until(|known| known.of(id).is_some());
    }
    // Back with the last number: only what was missed, each once. That there is no gap, each event is checked for.
    let mut back = admin.subscribe(seen);
    back.until(|known| known.of("4").is_some());
    assert!(back.of("3").is_some() && back.of("1").is_none(), "{:?}", back.requests);
    // A number that this session never gave.
    let mut stranger = admin.subscribe(Some(1_000_000));
    assert!(matches!(stranger.event(), Some(Event::Snapshot(_))));
    assert!(stranger.of("1").is_some() && stranger.of("4").is_some());
    admin.ask("GET", "/v1/events?since=yesterday", "").expect_problem(400);
}

#[test]
fn what_a_side_turns_out_to_be_is_told() {
    let mut rig = Rig::start(PROGRAM);
    expect_alive(&mut rig);
    let mut subscriber = Admin::of(&rig).subscribe(None);
    subscriber.until(|known| known.session.is_some());
    assert_eq!(subscriber.session.as_ref().unwrap().client.name, None);
    greet_mcp(&mut rig, "2025-06-18");
    subscriber.until(|known| {
        let session = known.session.as_ref().unwrap();
        session.server.name.is_some() && session.server.protocol == "mcp-2025-06-18"
    });
}

#[test]
fn the_end_of_a_session_is_its_last_event() {
    let (mut rig, admin) = mcp();
    pass_to_server(&mut rig, &call("1", "slow"));
    let mut subscriber = admin.subscribe(None);
    subscriber.until(|known| known.of("1").is_some());
    rig.server.exit(3);
    let mut ended = None;
    while let Some(event) = subscriber.event() {
        ended = Some(event);
    }
    let Some(Event::Ended(ended)) = ended else { panic!("{ended:?}") };
    assert_eq!(ended.how, End::ExitCode(3));
    let request = subscriber.of("1").unwrap();
    assert_eq!((request.state, request.settled.as_ref().unwrap().how), (State::Ended, SettledHow::AnsweredHere));
    rig.shim.expect_exit(3);
    assert_eq!(names(&rig.sockets), [""; 0]);
}

#[test]
fn the_messages_of_a_request_are_kept_while_somebody_watches() {
    let (mut rig, admin) = mcp();
    pass_to_server(&mut rig, &call("1", "slow"));
    let unwatched: Details = admin.get(&format!("/v1/requests/{}", key_of(&admin, "1")));
    assert_eq!((unwatched.frames.len(), unwatched.kept_since), (0, None));

    let mut subscriber = admin.subscribe(None);
    subscriber.until(|known| known.session.is_some());
    pass_to_server(&mut rig, &call("2", "slow"));
    pass_to_server(&mut rig, &call("3", "slow"));
    for token in ["2", "3", "2"] {
        pass_to_client(&mut rig, &progress(token, 1));
    }
    pass_to_server(&mut rig, &cancelled("3"));
    rig.server.send(&result("3", r#"{"late":true}"#));
    let long = result("2", &format!(r#"{{"text":"{}"}}"#, "é".repeat(100_000)));
    pass_to_client(&mut rig, &long);
    expect_alive(&mut rig);
    let kept = |id: &str| admin.get::<Details>(&format!("/v1/requests/{}", key_of(&admin, id)));

    let two = kept("2");
    let texts: Vec<_> = two.frames.iter().map(|frame| (frame.from, frame.text.as_str())).collect();
    let told = progress("2", 1);
    let request = call("2", "slow");
    let expected = [(Side::Client, request.as_str()), (Side::Server, &told), (Side::Server, &told)];
    assert_eq!(texts[..3], expected);
    let answer = &two.frames[3];
    assert_eq!((two.frames.len(), answer.length), (4, long.len() as u64));
    assert!(answer.text.len() <= 64 * 1024 && long.starts_with(&answer.text) && answer.text.len() > 60_000);

    let three: Vec<_> = kept("3").frames.into_iter().map(|frame| (frame.by_shim, frame.text)).collect();
    let theirs = [call("3", "slow"), progress("3", 1), cancelled("3"), result("3", r#"{"late":true}"#)];
    assert_eq!(
        three.iter().filter(|(by_shim, _)| !by_shim).map(|(_, text)| text).collect::<Vec<_>>(),
        Vec::from_iter(&theirs)
    );
    assert_eq!(three.iter().filter(|(by_shim, _)| *by_shim).collect::<Vec<_>>(), [&(true, cancelled("3"))]);
    // An id that is used again is another request.
    admin.ask("GET", "/v1/requests/c9.9", "").expect_problem(404);
    admin.ask("GET", "/v1/requests/../session", "").expect_problem(404);
}

#[test]
fn what_the_shim_wrote_itself_is_among_the_messages() {
    let (mut rig, admin) = mcp();
    let mut subscriber = admin.subscribe(None);
    subscriber.until(|known| known.session.is_some());
    pass_to_server(&mut rig, &call("1", "slow"));
    let key = key_of(&admin, "1");
    admin.cancel(&json!({ "requests": [key], "reason": "enough" }));
    let (cancel, answer) = (rig.server.receive(), rig.client.receive());
    let details: Details = admin.get(&format!("/v1/requests/{key}"));
    let texts: Vec<_> = details.frames.iter().map(|frame| (frame.by_shim, frame.from, frame.text.as_str())).collect();
    let request = call("1", "slow");
    assert_eq!(texts[0], (false, Side::Client, request.as_str()));
    assert!(texts.contains(&(true, Side::Client, cancel.trim_end())), "{texts:?}");
    assert!(texts.contains(&(true, Side::Server, answer.trim_end())), "{texts:?}");
    assert_eq!(texts.len(), 3);
}

#[test]
fn messages_with_headers_are_kept_too() {
    let mut rig = Rig::start(PROGRAM);
    rig.client.frame(Framing::Headers);
    rig.server.frame(Framing::Headers);
    pass_to_server(&mut rig, &request("0", "initialize"));
    pass_to_client(&mut rig, &result("0", r#"{"capabilities":{},"serverInfo":{"name":"ls"}}"#));
    let admin = Admin::of(&rig);
    let mut subscriber = admin.subscribe(None);
    subscriber.until(|known| known.session.is_some());
    let asked = request("1", "textDocument/hover");
    pass_to_server(&mut rig, &asked);
    let cancel = notification("$/cancelRequest", r#"{"id":1}"#);
    pass_to_server(&mut rig, &cancel);
    let answer = error("1", -32800, "stopped");
    pass_to_client(&mut rig, &answer);
    let details: Details = admin.get(&format!("/v1/requests/{}", key_of(&admin, "1")));
    let texts: Vec<_> = details.frames.into_iter().map(|frame| (frame.by_shim, frame.text)).collect();
    assert_eq!(texts, [(false, asked), (false, cancel.clone()), (true, cancel), (false, answer)]);
    let words = details.request.cancel.unwrap().words;
    assert!(words.starts_with("confirmed after "), "{words}");
}
