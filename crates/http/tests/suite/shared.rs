//! One program for all sessions: its one handshake, and that clients who share it cannot touch each other.

use std::time::Duration;

use http::Method;
use rescind_http::server::{HttpServerConfig, LinkKey, ReplyKey, Sessions, Stateless};
use serde_json::{Value, json};

use super::rig::*;

pub(crate) fn shared() -> HttpServerConfig {
    HttpServerConfig { sessions: Sessions::SharedLink, ..config() }
}

pub(crate) fn initialize(id: &str, revision: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{revision}"}}}}"#)
}

/// The result of the program's handshake.
pub(crate) fn greeting(revision: &str) -> String {
    format!(r#"{{"protocolVersion":"{revision}","capabilities":{{"x":1}},"serverInfo":{{"name":"s"}}}}"#)
}

pub(crate) fn id_of(message: &str) -> String {
    serde_json::from_str::<Value>(message).unwrap()["id"].to_string()
}

/// The program is asked for its handshake; the id of that.
pub(crate) fn asked(rig: &mut Rig) -> (LinkKey, String) {
    let link = rig.shared();
    let [only] = &rig.at(link)[..] else { panic!("not one message") };
    let asks: Value = serde_json::from_str(only).unwrap();
    assert_eq!(asks["method"], "initialize");
    assert_eq!(asks["params"]["protocolVersion"], LEGACY);
    assert_eq!(asks["params"]["capabilities"], json!({}));
    assert_eq!(asks["params"]["clientInfo"]["name"], "rescind");
    (link, asks["id"].to_string())
}

/// The program shakes hands.
pub(crate) fn shakes(rig: &mut Rig, revision: &str) -> LinkKey {
    let (link, id) = asked(rig);
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, greeting(revision)));
    assert_eq!(rig.at(link), [r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#]);
    link
}

fn client(rig: &mut Rig, key: ReplyKey, link: LinkKey) -> Client {
    let answer = rig.read(key);
    let id = answer.header("mcp-session-id").expect("a session").to_owned();
    Client { id, link }
}

/// A program and two clients, which it cannot tell apart.
pub(crate) fn pair(rig: &mut Rig) -> (LinkKey, Client, Client) {
    let keys = [(); 2].map(|()| rig.post(&[], &initialize("1", LEGACY)));
    let link = shakes(rig, LEGACY);
    let [first, second] = keys.map(|key| client(rig, key, link));
    (link, first, second)
}

/// A client calls; the id by which the program knows that.
pub(crate) fn calls(rig: &mut Rig, client: &Client, id: &str) -> (ReplyKey, String) {
    let key = rig.post_to(client, &call(id));
    let [only] = &rig.at(client.link)[..] else { panic!("not one message") };
    let known = id_of(only);
    assert_eq!(*only, call(&known));
    (key, known)
}

fn updated(uri: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#)
}

pub(crate) fn about(id: &str, method: &str, uri: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/{method}","params":{{"uri":"{uri}"}}}}"#)
}

/// The stream of a batch ends with its last answer, not with one that is given before the others are open.
#[test]
fn a_request_that_is_answered_here_ends_no_batch() {
    let mut rig = Rig::with(shared());
    let keys = [(); 2].map(|()| rig.post(&[], &initialize("1", "2025-03-26")));
    let link = shakes(&mut rig, LEGACY);
    let clients = keys.map(|key| client(&mut rig, key, link));
    for client in &clients {
        rig.post_to(client, &about("1", "subscribe", "a"));
    }
    rig.at(link);
    let batch = rig.post_to(&clients[0], &format!("[{},{}]", about("2", "unsubscribe", "a"), call("3")));
    let [only] = &rig.at(link)[..] else { panic!("not one message") };
    let known = id_of(only);
    rig.answer(link, &known, "done");
    let answers = rig.read(batch).messages();
    assert_eq!(answers, [r#"{"jsonrpc":"2.0","id":2,"result":{}}"#.to_owned(), result_of("3", "done")]);
    rig.end();
}

#[test]
fn one_handshake_opens_all_sessions_and_is_not_asked_for_again() {
    let mut rig = Rig::with(shared());
    let early = [(); 3].map(|()| rig.post(&[], &initialize("\"a\"", LEGACY)));
    assert!(early.iter().all(|key| rig.read(*key).status == 0));
    let link = shakes(&mut rig, LEGACY);
    let late = rig.post(&[], &initialize("7", LEGACY));
    let mut sessions = Vec::new();
    for (key, id) in early.into_iter().map(|key| (key, "\"a\"")).chain([(late, "7")]) {
        let answer = rig.read(key);
        assert_eq!(answer.body, Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, greeting(LEGACY))));
        sessions.push(answer.header("mcp-session-id").unwrap().to_owned());
    }
    sessions.dedup();
    assert_eq!(sessions.len(), 4);
    for id in sessions {
        let client = Client { id, link };
        let told = rig.post_to(&client, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!(rig.whole(told, 202), "");
    }
    assert_eq!(rig.at(link), [""; 0], "the program was told once");
    assert_eq!(rig.opened.len(), 1);
    rig.end();
}

/// A client that knows only an older revision would leave.
#[test]
fn each_client_is_answered_in_the_revision_that_both_sides_know() {
    for (theirs, asks, answered) in [
        (LEGACY, "2025-03-26", "2025-03-26"),
        (LEGACY, LEGACY, LEGACY),
        ("2025-06-18", LEGACY, "2025-06-18"),
        ("2025-06-18", "2024-11-05", "2024-11-05"),
        (LEGACY, "1999-01-01", LEGACY),
        (LEGACY, MODERN, LEGACY),
        (LEGACY, "2030-01-01", LEGACY),
    ] {
        let mut rig = Rig::with(shared());
        let key = rig.post(&[], &initialize("1", asks));
        let link = shakes(&mut rig, theirs);
        assert_eq!(rig.read(key).json()["result"]["protocolVersion"], answered, "{theirs} {asks}");
        let client = Client { id: "s1".into(), link };
        let batch = rig.post_to(&client, &format!("[{}]", call("1")));
        let has_batches = rig.read(batch).status != 400;
        assert_eq!(has_batches, answered == "2025-03-26");
        rig.end();
    }
}

#[test]
fn a_handshake_that_fails_is_told_to_all_who_wait_and_to_nobody_after() {
    let mut rig = Rig::with(shared());
    let keys = ["1", "\"b\""].map(|id| (rig.post(&[], &initialize(id, LEGACY)), id));
    let (link, id) = asked(&mut rig);
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"no licence"}}}}"#));
    for (key, id) in keys {
        let answer = rig.read(key);
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"no licence"}}}}"#);
        assert_eq!((answer.body.as_deref(), answer.header("mcp-session-id")), (Some(&*expected), None));
    }
    assert_eq!(rig.at(link), ["end"]);
    let again = rig.post(&[], &initialize("1", LEGACY));
    assert_ne!(shakes(&mut rig, LEGACY), link);
    assert_eq!(rig.read(again).status, 200);
    rig.end();
}

#[test]
fn a_program_that_never_shakes_hands_is_given_up() {
    let mut rig = Rig::with(HttpServerConfig { stream_after: Duration::from_secs(3600), ..shared() });
    let key = rig.post(&[], &initialize("1", LEGACY));
    let (link, _) = asked(&mut rig);
    rig.pass(Duration::from_secs(29));
    assert_eq!(rig.read(key).status, 0);
    rig.pass(Duration::from_secs(1));
    let answer = rig.read(key);
    assert_eq!((answer.code(), answer.header("mcp-session-id")), (-31001, None));
    assert_eq!(rig.at(link), ["end"]);
    rig.end();
}

#[test]
fn whoever_leaves_before_the_handshake_leaves_nothing_and_stops_nobody() {
    let mut rig = Rig::with(shared());
    let (leaves, stays) = (rig.post(&[], &initialize("1", LEGACY)), rig.post(&[], &initialize("1", LEGACY)));
    let (link, id) = asked(&mut rig);
    rig.hang_up(leaves);
    assert_eq!(rig.at(link), [""; 0], "the program never saw it");
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, greeting(LEGACY)));
    assert_eq!(rig.read(stays).status, 200);
    rig.end();
}

#[test]
fn equal_ids_and_tokens_of_two_clients_are_two_in_the_eyes_of_the_program() {
    let mut rig = Rig::with(shared());
    let (link, first, second) = pair(&mut rig);
    let keys = [&first, &second].map(|client| rig.post_to(client, &call_with_token("1", "\"t\"")));
    let received: Vec<Value> = rig.at(link).iter().map(|message| serde_json::from_str(message).unwrap()).collect();
    let known = [0, 1].map(|at| received[at]["id"].to_string());
    let tokens = [0, 1].map(|at| received[at]["params"]["_meta"]["progressToken"].to_string());
    assert!(known[0] != known[1] && tokens[0] != tokens[1]);
    rig.say(link, &progress(&tokens[1], 5));
    rig.read(keys[1]);
    rig.answer(link, &known[1], "second");
    rig.answer(link, &known[0], "first");
    assert_eq!(rig.whole(keys[0], 200), result_of("1", "first"));
    assert_eq!(rig.read(keys[1]).messages(), [progress("\"t\"", 5), result_of("1", "second")]);
    rig.end();
}

#[test]
fn a_cancel_reaches_only_a_request_of_its_own_session() {
    let mut rig = Rig::with(shared());
    let (link, first, second) = pair(&mut rig);
    let (_, mine) = calls(&mut rig, &first, "1");
    // One that happens to have the same id for its client and the program.
    let next = (mine.parse::<u64>().unwrap() + 1).to_string();
    assert_eq!(calls(&mut rig, &first, &next).1, next);
    // The client of the other has nothing in flight, whatever id it names.
    for id in ["1", &*mine, &*next, "99", "null"] {
        let told = rig.post_to(&second, &cancel(id));
        assert_eq!(rig.whole(told, 202), "");
        assert_eq!(rig.at(link), [""; 0], "{id}");
    }
    let (key, other) = calls(&mut rig, &second, "1");
    let told = rig.post_to(&second, &cancel("1"));
    assert_eq!(rig.at(link), [cancel(&other)]);
    assert_eq!(rig.whole(told, 202), "");
    rig.settle(link, &other);
    let answer = rig.read(key);
    assert!(answer.has_ended && answer.messages().is_empty());
    rig.end();
}

/// Its requests are cancelled, those of others are not, and the program goes on.
#[test]
fn the_end_of_a_session_stops_its_work_and_nobody_elses() {
    let mut rig = Rig::with(shared());
    let (link, first, second) = pair(&mut rig);
    let (key, mine) = calls(&mut rig, &first, "1");
    let (gone, others) = calls(&mut rig, &second, "1");
    let deleted = rig.delete(&second);
    assert_eq!(rig.read(deleted).status, 204);
    assert_eq!(rig.at(link), [format!("closed {others}")]);
    assert!(rig.read(gone).has_ended);
    // What comes late is for nobody, even if the id is used again.
    let (again, third) = calls(&mut rig, &first, "2");
    assert_ne!(third, others);
    rig.answer(link, &others, "late");
    rig.answer(link, &mine, "done");
    assert_eq!(rig.whole(key, 200), result_of("1", "done"));
    assert_eq!(rig.read(again).status, 0);
    let key = rig.post_to(&second, &call("1"));
    assert_eq!(rig.read(key).status, 404);
    rig.end();
}

#[test]
fn a_hang_up_cancels_nothing_and_an_idle_session_ends_alone() {
    let mut rig = Rig::with(HttpServerConfig { idle: Duration::from_secs(100), ..shared() });
    let (link, first, second) = pair(&mut rig);
    let listening = rig.listen(&first);
    let (key, known) = calls(&mut rig, &first, "1");
    rig.hang_up(key);
    rig.pass(Duration::from_secs(300));
    assert_eq!(rig.at(link), [""; 0]);
    let key = rig.post_to(&second, &call("1"));
    assert_eq!(rig.read(key).status, 404);
    rig.answer(link, &known, "done");
    assert_eq!(rig.read(listening).status, 200);
    rig.end();
}

#[test]
fn the_program_is_ended_when_no_session_was_left_for_long() {
    let mut rig = Rig::with(HttpServerConfig { idle: Duration::from_secs(100), ..shared() });
    let (link, first, second) = pair(&mut rig);
    for client in [&first, &second] {
        let key = rig.delete(client);
        rig.read(key);
    }
    rig.pass(Duration::from_secs(99));
    let key = rig.post(&[], &initialize("1", LEGACY));
    let third = client(&mut rig, key, link);
    rig.delete(&third);
    rig.pass(Duration::from_secs(99));
    assert_eq!(rig.at(link), [""; 0], "it is not asked again, and goes on");
    rig.pass(Duration::from_secs(30));
    assert_eq!(rig.at(link), ["end"]);
    rig.end();
}

#[test]
fn the_death_of_a_program_that_has_not_shaken_hands_is_told_to_all_who_wait() {
    let mut rig = Rig::with(shared());
    let keys = [(); 2].map(|()| rig.post(&[], &initialize("1", LEGACY)));
    let (link, _) = asked(&mut rig);
    rig.close(link);
    for key in keys {
        assert_eq!(rig.whole(key, 200), gone("1"));
    }
    rig.end();
}

#[test]
fn the_program_can_ask_nobody_but_is_told_that_somebody_is_there() {
    let mut rig = Rig::with(shared());
    let (link, first, _) = pair(&mut rig);
    let listening = rig.listen(&first);
    rig.say(link, r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    assert_eq!(rig.at(link), [r#"{"jsonrpc":"2.0","id":"p","result":{}}"#]);
    rig.say(link, r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#);
    let refused: Value = serde_json::from_str(&rig.at(link)[0]).unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(-32601)));
    assert_eq!(rig.dropped, ["sampling/createMessage"]);
    // Nor does it hear what belongs to questions.
    for message in [
        result_of("1", "forged"),
        progress("1", 1),
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#.to_owned(),
    ] {
        let key = rig.post_to(&first, &message);
        assert_eq!(rig.whole(key, 202), "");
    }
    assert_eq!(rig.at(link), [""; 0]);
    assert_eq!(rig.read(listening).messages(), [""; 0]);
    rig.end();
}

#[test]
fn what_a_program_says_to_nobody_reaches_all_but_what_belongs_to_one() {
    let mut rig = Rig::with(shared());
    let (link, first, second) = pair(&mut rig);
    let listening = [&first, &second].map(|client| rig.listen(client));
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    rig.say(link, &note("x"));
    rig.say(link, changed);
    rig.say(link, r#"{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t"}}"#);
    for key in listening {
        assert_eq!(rig.read(key).messages(), [&note("x"), changed]);
    }
    assert_eq!(rig.dropped, ["notifications/tasks/status"]);
    rig.end();
}

#[test]
fn updates_reach_those_who_subscribed_and_nobody_loses_a_subscription_by_another() {
    let mut rig = Rig::with(shared());
    let (link, first, second) = pair(&mut rig);
    let listening = [&first, &second].map(|client| rig.listen(client));
    let passes = |rig: &mut Rig, client: &Client, method: &str, uri: &str| {
        let key = rig.post_to(client, &about("1", method, uri));
        let received = rig.at(link);
        for message in &received {
            assert_eq!(*message, about(&id_of(message), method, uri));
            rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id_of(message)));
        }
        assert_eq!(rig.whole(key, 200), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        received.len()
    };
    assert_eq!(passes(&mut rig, &first, "subscribe", "file:///a"), 1);
    rig.say(link, &updated("file:///a"));
    assert_eq!(passes(&mut rig, &second, "subscribe", "file:///a"), 1);
    assert_eq!(passes(&mut rig, &second, "subscribe", "file:///b"), 1);
    rig.say(link, &updated("file:///a/part"));
    rig.say(link, &updated("file:///b"));
    assert_eq!(passes(&mut rig, &first, "unsubscribe", "file:///a"), 0, "the other still wants it");
    rig.say(link, &updated("file:///a"));
    assert_eq!(
        rig.read(listening[0]).messages(),
        [updated("file:///a"), updated("file:///a/part")],
        "nothing of what only the other wants"
    );
    assert_eq!(
        rig.read(listening[1]).messages(),
        [updated("file:///a/part"), updated("file:///b"), updated("file:///a")]
    );
    assert_eq!(passes(&mut rig, &second, "unsubscribe", "file:///b"), 1);
    // The last one leaves.
    rig.delete(&second);
    let received = rig.at(link);
    assert_eq!(received, [about(&id_of(&received[0]), "unsubscribe", "file:///a")]);
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id_of(&received[0])));
    rig.say(link, &updated("file:///a"));
    assert_eq!(rig.dropped, ["notifications/resources/updated"]);
    rig.end();
}

#[test]
fn subscriptions_are_bounded() {
    let mut rig = Rig::with(shared());
    let (_, first, second) = pair(&mut rig);
    let long = "u".repeat(40_000);
    let key = rig.post_to(&first, &about("1", "subscribe", &long));
    assert_eq!(rig.read(key).status, 0);
    let key = rig.post_to(&first, &about("2", "subscribe", &format!("{long}x")));
    assert_eq!(rig.read(key).code(), -31004);
    let key = rig.post_to(&second, &about("1", "subscribe", &long));
    assert_eq!(rig.read(key).status, 0, "each session has its own");
    rig.end();
}

#[test]
fn stateless_requests_have_a_link_of_their_own() {
    let mut rig = Rig::with(shared());
    let (link, first, _) = pair(&mut rig);
    let key = rig.post_modern(&modern_call("1"));
    assert_ne!(rig.shared(), link);
    assert_eq!(rig.at(link), [""; 0]);
    let (own, known) = calls(&mut rig, &first, "1");
    rig.answer(link, &known, "legacy");
    let other = rig.shared();
    rig.answer(other, "1", "modern");
    assert_eq!(rig.whole(own, 200), result_of("1", "legacy"));
    assert_eq!(rig.whole(key, 200), result_of("1", "modern"));
    rig.end();
}

/// It has started already.
#[test]
fn a_program_that_was_asked_and_knows_only_sessions_serves_them() {
    let mut rig = Rig::with(HttpServerConfig { stateless: Stateless::Ask, ..shared() });
    rig.server.prepare(rig.now);
    rig.drain();
    let link = rig.shared();
    let [question] = &rig.at(link)[..] else { panic!("not one message") };
    let held = rig.post_modern(&modern_call("1"));
    let error = r#""error":{"code":-32601,"message":"no such method"}"#;
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{},{error}}}"#, id_of(question)));
    assert_eq!(rig.read(held).status, 400);
    assert_eq!(shakes(&mut rig, LEGACY), link);
    let key = rig.post(&[], &initialize("1", LEGACY));
    let client = client(&mut rig, key, link);
    let (key, known) = calls(&mut rig, &client, "1");
    rig.answer(link, &known, "done");
    assert_eq!(rig.whole(key, 200), result_of("1", "done"));
    assert_eq!(rig.opened.len(), 1);
    rig.end();
}

#[test]
fn one_more_session_or_request_is_refused_before_it_costs_anything() {
    let mut rig = Rig::with(HttpServerConfig { max_sessions: 3, max_in_flight: 3, ..shared() });
    let (_, first, second) = pair(&mut rig);
    calls(&mut rig, &first, "1");
    calls(&mut rig, &second, "1");
    calls(&mut rig, &second, "2");
    let key = rig.post_to(&first, &call("2"));
    assert_eq!(rig.read(key).code(), -31004, "they share what is allowed of one link");
    let key = rig.post(&[], &initialize("1", LEGACY));
    assert_eq!(rig.read(key).code(), -31004);
    rig.delete(&second);
    for status in [200, 200, 503] {
        let key = rig.post(&[], &initialize("1", LEGACY));
        assert_eq!(rig.read(key).status, status);
    }
    rig.end();
}

/// The program lives on, and so does what others have asked it.
#[test]
fn only_the_work_of_the_client_that_has_vanished_ends() {
    let mut rig = Rig::with(shared());
    let (link, first, second) = pair(&mut rig);
    let (left, known) = calls(&mut rig, &first, "1");
    let (kept, other) = calls(&mut rig, &second, "1");
    rig.hang_up(left);
    rig.pass(Duration::from_secs(400));
    assert_eq!(rig.at(link), [format!("closed {known}")]);
    rig.answer(link, &other, "done");
    assert_eq!(rig.read(kept).messages(), [result_of("1", "done")]);
    let key = rig.post_to(&first, &call("2"));
    assert_eq!(rig.read(key).status, 404);
    rig.end();
}

#[test]
fn what_is_held_stays_below_what_the_settings_allow() {
    let narrow = HttpServerConfig {
        max_sessions: 4,
        max_in_flight: 20,
        max_replies: 60,
        max_input: 2000,
        max_unsent: 2000,
        max_unread: 100_000,
        max_kept: 3000,
        max_message: 3000,
        ..shared()
    };
    let most = narrow.most_held();
    let mut rig = Rig::with(narrow);
    let (link, first, second) = pair(&mut rig);
    let text = "x".repeat(2500);
    for round in 0..40 {
        for client in [&first, &second] {
            let id = format!("\"{}{round}\"", "i".repeat(1000));
            rig.post_to(client, &call_with_token(&id, &id));
            rig.post_to(client, &about(&id, "subscribe", &format!("{text}{round}")));
            rig.send(&Method::GET, "/mcp", &[("mcp-session-id", &client.id)], "");
            rig.say(link, &note(&text));
            assert!(rig.server.held() <= most, "{} of {most}", rig.server.held());
        }
    }
    rig.end();
}

/// It was asked which era it speaks, and took its time for that.
#[test]
fn a_program_that_is_lent_to_sessions_has_its_whole_time_for_the_handshake() {
    let mut rig = Rig::with(HttpServerConfig { stateless: Stateless::Ask, ..shared() });
    let refused = rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    let id = id_of(&rig.at(link)[0]);
    rig.pass(Duration::from_secs(29));
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"x"}}}}"#));
    assert_eq!(rig.read(refused).status, 400);
    let joins = rig.post(&[], &initialize("1", LEGACY));
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.read(joins).messages(), [""; 0], "it was asked two seconds ago");
    assert_eq!(shakes(&mut rig, LEGACY), link);
    client(&mut rig, joins, link);
    rig.end();
}
