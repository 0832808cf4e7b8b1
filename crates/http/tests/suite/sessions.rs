//! Sessions: how they begin, that they are apart, and how they end.

use std::time::Duration;

use rescind_http::server::HttpServerConfig;

use crate::rig::*;

#[test]
fn a_session_that_ends_before_the_head_of_an_answer_ends_its_response() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    let delete = rig.delete(&client);
    assert_eq!(rig.whole(delete, 204), "");
    let answer = rig.read(key);
    assert!(answer.is_stream() && answer.has_ended && answer.events.is_empty(), "{answer:?}");
    rig.leaves_nothing();
}

#[test]
fn what_a_program_says_after_the_end_of_its_session_is_heard_by_nobody() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let listening = rig.listen(&client);
    rig.read(listening);
    rig.delete(&client);
    for _ in 0..3 {
        rig.say(client.link, &note("late"));
        rig.answer(client.link, "1", "late");
    }
    assert!(rig.read(listening).has_ended);
    assert_eq!(rig.read(listening).messages(), [""; 0]);
    rig.leaves_nothing();
}

const HANDSHAKE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;

#[test]
fn a_session_whose_client_left_before_it_knew_its_id_ends() {
    for answered in [false, true] {
        let mut rig = Rig::new();
        let key = rig.post(&[], HANDSHAKE);
        let (link, _) = rig.opened[0].clone();
        assert_eq!(rig.at(link), [HANDSHAKE]);
        if answered {
            rig.say(link, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
        }
        rig.hang_up(key);
        assert_eq!(rig.at(link), ["end"]);
        rig.leaves_nothing();
    }
}

#[test]
fn a_handshake_that_fails_opens_no_session() {
    let mut rig = Rig::new();
    let key = rig.post(&[], HANDSHAKE);
    let (link, session) = rig.opened[0].clone();
    rig.say(link, r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}"#);
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.code()), (200, -32602));
    assert_eq!(answer.header("mcp-session-id"), None);
    assert_eq!(rig.at(link), [HANDSHAKE, "end"]);
    let key = rig.post_to(&Client { id: session.unwrap().into(), link }, &call("1"));
    assert_eq!(rig.read(key).status, 404);
    rig.leaves_nothing();
}

#[test]
fn a_handshake_opens_a_session_whose_id_is_in_the_head_of_its_answer() {
    for slow in [false, true] {
        let mut rig = Rig::new();
        let key = rig.post(&[], HANDSHAKE);
        let (link, session) = rig.opened[0].clone();
        if slow {
            rig.pass_millis(100);
        }
        rig.say(link, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
        let answer = rig.read(key);
        assert_eq!(answer.header("mcp-session-id"), session.as_deref());
        assert_eq!(answer.is_stream(), slow);
        rig.leaves_nothing();
    }
}

#[test]
fn each_handshake_opens_a_session_of_its_own() {
    let mut rig = Rig::new();
    let (first, second) = (rig.session(LEGACY), rig.session(LEGACY));
    assert_ne!(first.id, second.id);
    let again = rig.post_to(&first, HANDSHAKE);
    assert_eq!(rig.opened.len(), 3, "one that names a session, too");
    assert_eq!(rig.at(first.link), [""; 0]);
    rig.hang_up(again);
    rig.leaves_nothing();
}

#[test]
fn without_an_id_for_it_no_session_is_opened() {
    let mut server = rescind_http::server::HttpServer::new(config());
    assert!(server.needs_session_id());
    let (head, ()) = http::Request::post("/mcp").body(()).unwrap().into_parts();
    let now = rescind_proto::time::Instant::ORIGIN;
    let key = server.handle_request(now, &head, HANDSHAKE.as_bytes());
    assert_eq!(server.poll_head(now, key).unwrap().status(), 503);
    server.supply_session_id("s");
    assert!(!server.needs_session_id());
    let key = server.handle_request(now, &head, HANDSHAKE.as_bytes());
    assert!(server.poll_head(now, key).is_none());
    assert!(server.needs_session_id(), "an id is used once");
}

/// Case 47.
#[test]
fn delete_cancels_what_is_in_flight_and_ends_every_stream() {
    let mut rig = Rig::new();
    let (client, other) = (rig.session(LEGACY), rig.session(LEGACY));
    let listening = rig.listen(&client);
    let streaming = rig.post_to(&client, &call("1"));
    rig.pass_millis(100);
    let undecided = rig.post_to(&client, &call("2"));
    let others = rig.post_to(&other, &call("1"));
    let last = rig.read(streaming).last_id().unwrap();
    let deleted = rig.delete(&client);
    assert_eq!(rig.whole(deleted, 204), "");
    assert_eq!(rig.at(client.link), [call("1"), call("2"), "end".to_owned()]);
    for key in [listening, streaming, undecided] {
        assert!(rig.read(key).has_ended);
    }
    for key in
        [rig.post_to(&client, &call("3")), rig.listen(&client), rig.come_back(&client, &last), rig.delete(&client)]
    {
        assert_eq!(rig.read(key).status, 404, "so that its client begins a new one");
    }
    rig.answer(other.link, "1", "done");
    assert_eq!(rig.whole(others, 200), result_of("1", "done"));
    rig.leaves_nothing();
}

#[test]
fn what_was_said_before_the_end_still_reaches_its_client() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    let listening = rig.listen(&client);
    rig.say(client.link, &progress("7", 1));
    rig.say(client.link, &note("bye"));
    rig.read(key);
    rig.close(client.link);
    assert_eq!(rig.read(key).messages(), [progress("7", 1), gone("1")]);
    assert_eq!(rig.read(listening).messages(), [note("bye")]);
    assert!(rig.read(key).has_ended && rig.read(listening).has_ended);
    rig.leaves_nothing();
}

#[test]
fn what_a_program_that_is_gone_has_not_answered_is_answered_with_an_error() {
    let mut rig = Rig::new();
    let client = rig.session("2025-03-26");
    let undecided = rig.post_to(&client, &call("1"));
    let second = rig.post_to(&client, &call("1"));
    let streaming = rig.post_to(&client, &format!("[{},{}]", call("2"), call("3")));
    rig.answer(client.link, "3", "done");
    rig.close(client.link);
    for key in [undecided, second] {
        assert_eq!(rig.whole(key, 200), gone("1"), "D35");
    }
    assert_eq!(rig.read(streaming).messages(), [result_of("3", "done"), gone("2")]);
    assert!(rig.read(streaming).has_ended);
    rig.leaves_nothing();
}

#[test]
fn a_link_that_is_refused_refuses_the_handshake() {
    let mut rig = Rig::new();
    let key = rig.post(&[], HANDSHAKE);
    rig.close(rig.opened[0].0);
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.code(), answer.header("mcp-session-id")), (200, -31002, None));
    rig.leaves_nothing();
}

#[test]
fn a_program_that_is_gone_ends_its_session() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    rig.close(client.link);
    let key = rig.post_to(&client, &call("1"));
    assert_eq!(rig.read(key).status, 404);
    rig.say(client.link, &note("from nowhere"));
    rig.settle(client.link, "1");
    rig.close(client.link);
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_session_without_anything_open_ends_after_a_while() {
    let mut rig = Rig::with(HttpServerConfig { idle: Duration::from_secs(600), ..config() });
    let client = rig.session(LEGACY);
    rig.pass(Duration::from_secs(590));
    let key = rig.post_to(&client, &call("1"));
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.at(client.link), [call("1")], "not while a request runs");
    rig.answer(client.link, "1", "done");
    rig.read(key);
    let listening = rig.listen(&client);
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.at(client.link), [""; 0], "not while its client listens");
    rig.hang_up(listening);
    rig.pass(Duration::from_secs(590));
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.pass(Duration::from_secs(200));
    assert_eq!(rig.at(client.link), ["end"]);
    let key = rig.post_to(&client, &call("2"));
    assert_eq!(rig.read(key).status, 404);
    rig.leaves_nothing();
}

/// How a client vanishes, and leaves a request behind.
fn leaves_of(rig: &mut Rig, client: &Client, how: &str) {
    let key = match how {
        "with a batch" => rig.post_to(client, &format!("[{},{}]", call("1"), call("2"))),
        _ => rig.post_to(client, &call_with_token("1", "7")),
    };
    rig.at(client.link);
    match how {
        "before its stream began" | "with a batch" => {}
        "after its stream began" => rig.say(client.link, &progress("7", 1)),
        "while it is asked something" => {
            rig.say(client.link, r#"{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{}}"#);
        }
        "and stops listening" => {
            let listening = rig.listen(client);
            rig.hang_up(listening);
        }
        "after it came back once" => {
            rig.say(client.link, &progress("7", 1));
            let last = rig.read(key).last_id().unwrap();
            rig.hang_up(key);
            let again = rig.come_back(client, &last);
            rig.hang_up(again);
        }
        _ => panic!("{how}"),
    }
    rig.hang_up(key);
}

#[test]
fn the_work_of_a_client_that_has_vanished_ends() {
    for how in [
        "before its stream began",
        "after its stream began",
        "with a batch",
        "while it is asked something",
        "and stops listening",
        "after it came back once",
    ] {
        for revision in ["2025-03-26", "2025-06-18", LEGACY] {
            if (how == "with a batch" && revision != "2025-03-26")
                || (how == "after it came back once" && revision != LEGACY)
            {
                continue;
            }
            let mut rig = Rig::with(HttpServerConfig { resume_within: Duration::from_secs(300), ..config() });
            let client = rig.session(revision);
            leaves_of(&mut rig, &client, how);
            rig.pass(Duration::from_secs(290));
            // What its program says meanwhile is no sign of it.
            rig.say(client.link, &progress("7", 2));
            rig.say(client.link, &note("still there?"));
            assert_eq!(rig.at(client.link), [""; 0], "{how}: it may come back");
            rig.pass(Duration::from_secs(100));
            assert_eq!(rig.at(client.link), ["end"], "{how}, {revision}");
            let key = rig.post_to(&client, &call("3"));
            assert_eq!(rig.read(key).status, 404, "{how}");
            rig.leaves_nothing();
        }
    }
}

/// Its connection broke after hours, in which it had nothing to say.
#[test]
fn a_client_that_has_waited_for_hours_has_all_its_time_to_come_back() {
    let mut rig = Rig::with(HttpServerConfig { resume_within: Duration::from_secs(300), ..config() });
    let client = rig.session(LEGACY);
    let waiting = rig.post_to(&client, &call("1"));
    rig.at(client.link);
    rig.pass(Duration::from_secs(3 * 60 * 60));
    rig.hang_up(waiting);
    rig.pass(Duration::from_secs(290));
    assert_eq!(rig.at(client.link), [""; 0], "it may come back");
    rig.pass(Duration::from_secs(100));
    assert_eq!(rig.at(client.link), ["end"]);
    rig.leaves_nothing();
}

#[test]
fn the_work_of_a_client_that_is_still_there_goes_on() {
    let hours = |rig: &mut Rig, client: &Client, says: &dyn Fn(&mut Rig)| {
        for _ in 0..30 {
            rig.pass(Duration::from_secs(290));
            says(rig);
            assert!(rig.at(client.link).iter().all(|said| said != "end"));
        }
        rig.answer(client.link, "1", "done");
    };
    // It waits for the answer.
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let waiting = rig.post_to(&client, &call("1"));
    rig.at(client.link);
    hours(&mut rig, &client, &|_| {});
    assert_eq!(rig.read(waiting).messages(), [result_of("1", "done")]);
    // It only listens, or says something, or asks for its stream now and then.
    let ways: [fn(&mut Rig, &Client, &str); 4] = [
        |rig, client, _| {
            rig.listen(client);
        },
        |rig, client, _| {
            let key = rig.post_to(client, &note("here"));
            rig.read(key);
        },
        |rig, client, last| {
            let key = rig.come_back(client, last);
            rig.hang_up(key);
        },
        |rig, client, _| {
            let key = rig.post_to(client, &cancel("99"));
            rig.at(client.link);
            rig.read(key);
        },
    ];
    for way in ways {
        let client = rig.session(LEGACY);
        let key = rig.post_to(&client, &call_with_token("1", "7"));
        rig.at(client.link);
        rig.say(client.link, &progress("7", 1));
        let last = rig.read(key).last_id().unwrap();
        rig.hang_up(key);
        hours(&mut rig, &client, &|rig| way(rig, &client, &last));
        let key = rig.come_back(&client, &last);
        assert_eq!(rig.read(key).messages().last(), Some(&result_of("1", "done")));
    }
    rig.leaves_nothing();
}

#[test]
fn a_server_that_drains_takes_nothing_new_and_finishes_what_it_has() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    let without = rig.post_modern(&modern_call("1"));
    rig.server.drain();
    for key in [rig.post(&[], HANDSHAKE), rig.post_modern(&modern_call("2"))] {
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.code()), (503, -31004));
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    rig.answer(client.link, "1", "done");
    rig.answer(rig.shared(), "1", "done");
    rig.whole(key, 200);
    rig.whole(without, 200);
    let more = rig.post_to(&client, &call("2"));
    rig.answer(client.link, "2", "done");
    rig.whole(more, 200);
    assert_eq!(rig.server.in_flight(), 0);
    rig.leaves_nothing();
}

/// In a session and outside one, as JSON, on a stream and in a batch. A subscription just ends (MCP-M02), as does a stream
/// that a client only listens on.
#[test]
fn a_server_that_ends_answers_whatever_waits_with_an_error() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let early = rig.post_to(&client, &call("1"));
    rig.pass_millis(200);
    let late = rig.post_to(&client, &call("2"));
    let without = rig.post_modern(&modern_call("1"));
    let listening = rig.listen(&client);
    let answered = rig.post_to(&client, &call("3"));
    rig.answer(client.link, "3", "done");
    let cancelled = rig.post_to(&client, &call("4"));
    rig.post_to(&client, &cancel("4"));
    rig.settle(client.link, "4");
    let old = rig.session("2025-03-26");
    let batch = rig.post_to(&old, &format!("[{},{}]", call("8"), call("9")));
    rig.answer(old.link, "8", "done");
    rig.server.close(rig.now);
    rig.drain();
    for (key, ids) in [(early, vec!["1"]), (late, vec!["2"]), (without, vec!["1"]), (batch, vec!["9"])] {
        let answer = rig.read(key);
        let messages = answer.messages().into_iter().chain(answer.body.clone());
        let errors: Vec<_> = messages.filter(|message| message.contains("-31002")).collect();
        let found: Vec<_> = ids.iter().map(|id| format!(r#""id":{id},"#)).collect();
        assert_eq!(errors.len(), found.len(), "{errors:?}");
        assert!(errors.iter().zip(&found).all(|(error, id)| error.contains(id)), "{errors:?}");
    }
    assert!(rig.whole(answered, 200).contains("done"));
    for key in [listening, cancelled] {
        assert!(!rig.read(key).messages().iter().any(|message| message.contains("-31002")));
    }
    assert_eq!(rig.server.in_flight(), 0);
    let links: Vec<_> = rig.opened.iter().map(|(link, _)| *link).collect();
    assert_eq!(links.len(), 3);
    for link in links {
        assert_eq!(rig.at(link).last().map(String::as_str), Some("end"), "its program is to stop");
    }
}

#[test]
fn a_request_of_a_session_names_it_and_a_revision_that_is_known() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post(&[], &call("1"));
    assert_eq!(rig.read(key).status, 400, "no session is named");
    let key = rig.post(&[("mcp-session-id", "nonsense")], &call("1"));
    assert_eq!(rig.read(key).status, 404);
    let key = rig.post(&[("mcp-session-id", &client.id), ("mcp-session-id", "nonsense")], &call("1"));
    assert_eq!(rig.read(key).status, 400, "two are");
    for version in ["2024-01-01", "1", "", "latest"] {
        let key = rig.post(&[("mcp-session-id", &client.id), ("mcp-protocol-version", version)], &call("1"));
        assert_eq!(rig.read(key).status, 400, "{version:?}");
    }
    assert_eq!(rig.at(client.link), [""; 0]);
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        rig.post(&[("mcp-session-id", &client.id), ("mcp-protocol-version", version)], &call("1"));
    }
    assert_eq!(rig.at(client.link).len(), 3);
    rig.leaves_nothing();
}

#[test]
fn a_session_that_agrees_on_a_revision_without_sessions_is_one_nevertheless() {
    for agreed in [r#""2026-07-28""#, "1"] {
        let mut rig = Rig::new();
        let key = rig.post(&[], &HANDSHAKE.replace(r#""2025-11-25""#, agreed));
        let (link, session) = rig.opened[0].clone();
        rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":{agreed}}}}}"#));
        assert_eq!(rig.read(key).status, 200);
        rig.at(link);
        let client = Client { id: session.unwrap().into(), link };
        let key = rig.post_to(&client, &call("1"));
        rig.pass_millis(100);
        let last = rig.read(key).last_id().unwrap();
        rig.hang_up(key);
        assert_eq!(rig.at(link), [call("1")], "a hang-up is no cancel");
        rig.answer(link, "1", "done");
        let key = rig.come_back(&client, &last);
        assert_eq!(rig.read(key).messages(), [result_of("1", "done")]);
        rig.leaves_nothing();
    }
}
