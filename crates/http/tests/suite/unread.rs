//! What clients leave unread: one bound for all of it, a share for each of them, and what a stream that pays for it loses.

use rescind_http::server::{Access, Bearers, BodyChunk, HttpServerConfig, LinkKey, ReplyKey, Sessions, Stateless};
use serde_json::json;

use crate::{
    rig::*,
    shared::{initialize, shakes},
};

/// Bytes of all streams together.
const BOUND: usize = 512 << 10;

/// Bytes of one message.
const LONG: usize = 4000;

/// What a quiet client is sent.
const QUIET: usize = 20;

fn narrow() -> HttpServerConfig {
    HttpServerConfig { max_unread: BOUND, max_message: 32 << 10, ..config() }
}

fn joined() -> HttpServerConfig {
    HttpServerConfig { sessions: Sessions::SharedLink, stateless: Stateless::Joined, ..narrow() }
}

fn filler(number: usize) -> String {
    note(&format!("{number} {}", "x".repeat(LONG)))
}

fn long_progress(token: &str, number: usize) -> String {
    let text = format!("{number} {}", "x".repeat(LONG));
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{number},"message":"{text}"}}}}"#
    )
}

fn changed(id: &str, number: usize) -> String {
    let text = format!("{number} {}", "x".repeat(LONG));
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"text":"{text}"}}}}"#
    )
}

/// A way to have a server hold what nobody reads.
struct Form {
    name: &'static str,
    config: fn() -> HttpServerConfig,
    /// Opens a stream, and has twenty long messages said on it.
    fill: fn(&mut Rig, usize),
}

const TIMES: usize = 20;

/// A session on the link that sessions share, whose program has shaken hands.
fn joint_session(rig: &mut Rig) -> Client {
    let key = rig.post(&[], &initialize("1", LEGACY));
    let id = rig.read(key).header("mcp-session-id").expect("a session").to_owned();
    Client { id, link: rig.shared() }
}

/// Opens the link that sessions share, before anything else.
fn greet(rig: &mut Rig) {
    rig.server.prepare(rig.now);
    rig.drain();
    if !rig.opened.is_empty() {
        shakes(rig, LEGACY);
    }
}

fn say_notes(rig: &mut Rig, link: LinkKey) {
    (0..TIMES).for_each(|number| rig.say(link, &filler(number)));
}

fn say_progress(rig: &mut Rig, link: LinkKey, token: &str) {
    (0..TIMES).for_each(|number| rig.say(link, &long_progress(token, number)));
}

/// A call in a session, and the token that its program knows.
fn call_in(rig: &mut Rig, client: &Client) -> (ReplyKey, String) {
    let key = rig.post_to(client, &call_with_token("1", "7"));
    let asked: serde_json::Value = serde_json::from_str(rig.at(client.link).last().unwrap()).unwrap();
    (key, asked["params"]["_meta"]["progressToken"].to_string())
}

/// A request without a session, and the id and the token that its program knows.
fn modern_in(rig: &mut Rig, method: &str) -> (ReplyKey, LinkKey, String, String) {
    let params = json!({"name": "slow", "notifications": {}, "_meta": {"progressToken": 7}});
    let key = rig.post_modern(&modern("1", method, &params));
    let link = rig.shared();
    let asked: serde_json::Value = serde_json::from_str(rig.at(link).last().unwrap()).unwrap();
    (key, link, asked["id"].to_string(), asked["params"]["_meta"]["progressToken"].to_string())
}

fn post_in_session(rig: &mut Rig, client: &Client) {
    let (_, token) = call_in(rig, client);
    say_progress(rig, client.link, &token);
}

fn standing_get(rig: &mut Rig, revision: &str) {
    let client = rig.session(revision);
    let key = rig.listen(&client);
    rig.read(key);
    say_notes(rig, client.link);
}

fn long_answer(rig: &mut Rig, is_read: bool) {
    let (key, link, id, _) = modern_in(rig, "tools/call");
    rig.answer(link, &id, &"x".repeat(TIMES * LONG));
    if is_read {
        rig.read_parts(key, 1);
    }
}

const FORMS: [Form; 22] = [
    Form { name: "a standing GET", config: narrow, fill: |rig, _| standing_get(rig, LEGACY) },
    Form { name: "a standing GET of 2025-06-18", config: narrow, fill: |rig, _| standing_get(rig, "2025-06-18") },
    Form { name: "a standing GET of 2025-03-26", config: narrow, fill: |rig, _| standing_get(rig, "2025-03-26") },
    Form {
        name: "a POST in a session",
        config: narrow,
        fill: |rig, _| {
            let client = rig.session(LEGACY);
            post_in_session(rig, &client);
        },
    },
    Form {
        name: "a POST of 2025-06-18",
        config: narrow,
        fill: |rig, _| {
            let client = rig.session("2025-06-18");
            post_in_session(rig, &client);
        },
    },
    Form {
        name: "a POST without a session",
        config: narrow,
        fill: |rig, _| {
            let (_, link, _, token) = modern_in(rig, "tools/call");
            say_progress(rig, link, &token);
        },
    },
    Form {
        name: "a batch",
        config: narrow,
        fill: |rig, _| {
            let client = rig.session("2025-03-26");
            let calls: Vec<_> = (0..TIMES).map(|id| call(&id.to_string())).collect();
            rig.post_to(&client, &format!("[{}]", calls.join(",")));
            rig.at(client.link);
            (0..TIMES).for_each(|id| rig.answer(client.link, &id.to_string(), &"x".repeat(LONG)));
        },
    },
    Form {
        name: "a POST stream that is resumed",
        config: narrow,
        fill: |rig, _| {
            let client = rig.session(LEGACY);
            let (key, token) = call_in(rig, &client);
            rig.say(client.link, &progress(&token, 1));
            let last = rig.read(key).last_id().unwrap();
            rig.hang_up(key);
            rig.come_back(&client, &last);
            say_progress(rig, client.link, &token);
        },
    },
    Form {
        name: "a GET stream that is resumed",
        config: narrow,
        fill: |rig, _| {
            let client = rig.session(LEGACY);
            let key = rig.listen(&client);
            let last = rig.read(key).last_id().unwrap();
            rig.hang_up(key);
            rig.come_back(&client, &last);
            say_notes(rig, client.link);
        },
    },
    Form {
        name: "a stream that is asked for from its beginning again",
        config: narrow,
        fill: |rig, _| {
            let client = rig.session(LEGACY);
            let key = rig.listen(&client);
            let first = rig.read(key).last_id().unwrap();
            say_notes(rig, client.link);
            rig.read(key);
            rig.come_back(&client, &first);
        },
    },
    Form {
        name: "a session in which nobody listens",
        config: narrow,
        fill: |rig, _| {
            let client = rig.session(LEGACY);
            say_notes(rig, client.link);
        },
    },
    Form {
        name: "a call whose client has left",
        config: narrow,
        fill: |rig, _| {
            let client = rig.session(LEGACY);
            let (key, token) = call_in(rig, &client);
            rig.say(client.link, &progress(&token, 1));
            rig.read(key);
            rig.hang_up(key);
            rig.answer(client.link, "1", &"x".repeat(TIMES * LONG));
        },
    },
    Form {
        name: "what was read and may be asked for again",
        config: narrow,
        fill: |rig, _| {
            let client = rig.session(LEGACY);
            let key = rig.listen(&client);
            say_notes(rig, client.link);
            rig.read(key);
        },
    },
    Form {
        name: "many GETs of one session",
        config: narrow,
        fill: |rig, number| {
            let client = match rig.opened.last().cloned() {
                Some((link, Some(id))) if number % 16 > 0 => Client { id: id.into(), link },
                _ => rig.session(LEGACY),
            };
            rig.listen(&client);
            say_notes(rig, client.link);
        },
    },
    Form {
        name: "a subscription",
        config: narrow,
        fill: |rig, _| {
            let (_, link, id, _) = modern_in(rig, "subscriptions/listen");
            (0..TIMES).for_each(|number| rig.say(link, &changed(&id, number)));
        },
    },
    Form {
        name: "a subscription where eras are joined",
        config: joined,
        fill: |rig, _| {
            let (_, link, id, _) = modern_in(rig, "subscriptions/listen");
            (0..TIMES).for_each(|number| rig.say(link, &changed(&id, number)));
        },
    },
    Form {
        name: "a POST without a session where eras are joined",
        config: joined,
        fill: |rig, _| {
            let (_, link, _, token) = modern_in(rig, "tools/call");
            say_progress(rig, link, &token);
        },
    },
    Form {
        name: "a POST in a session where all share",
        config: joined,
        fill: |rig, _| {
            let client = joint_session(rig);
            post_in_session(rig, &client);
        },
    },
    Form {
        name: "a standing GET where all share",
        config: joined,
        fill: |rig, _| {
            let client = joint_session(rig);
            rig.listen(&client);
            (0..2).for_each(|number| rig.say(client.link, &filler(number)));
        },
    },
    Form { name: "a long answer", config: narrow, fill: |rig, _| long_answer(rig, false) },
    Form { name: "a long answer whose reading has begun", config: narrow, fill: |rig, _| long_answer(rig, true) },
    Form {
        name: "an event that is longer than what is handed out at once",
        config: narrow,
        fill: |rig, _| {
            let (key, link, _, token) = modern_in(rig, "tools/call");
            let text = "x".repeat(TIMES * LONG);
            rig.say(link, &long_progress(&token, 1).replace("1 x", &format!("1 {text}")));
            rig.read_parts(key, 1);
        },
    },
];

#[test]
fn what_one_client_leaves_unread_is_bounded_whatever_it_is_and_a_quiet_one_loses_nothing() {
    for Form { name, config, fill } in FORMS {
        let mut rig = Rig::with(config());
        greet(&mut rig);
        rig.from = 1;
        let (quiet, link, id, token) = modern_in(&mut rig, "tools/call");
        for number in 0..QUIET {
            rig.say(link, &long_progress(&token, number));
        }
        let own = rig.server.unread();
        let mut highest = 0;
        rig.from = 2;
        for number in 0..30 {
            fill(&mut rig, number);
            highest = highest.max(rig.server.unread() - own);
        }
        assert!(highest <= BOUND / 2, "{name}: {highest} bytes of one client");
        assert!(highest > BOUND / 4, "{name}: it does not come near the bound: {highest}");
        assert_eq!(rig.read(quiet).messages().len(), QUIET, "{name}");
        rig.answer(link, &id, "done");
        assert_eq!(rig.read(quiet).messages().last(), Some(&result_of("1", "done")), "{name}");
        rig.end();
    }
}

#[test]
fn many_clients_share_one_bound_and_a_quiet_one_loses_nothing() {
    for Form { name, config, fill } in FORMS {
        let mut rig = Rig::with(config());
        greet(&mut rig);
        rig.from = 99;
        let (quiet, link, _, token) = modern_in(&mut rig, "tools/call");
        for number in 0..5 {
            rig.say(link, &long_progress(&token, number));
        }
        for number in 0..30 {
            rig.from = 1 + number % 6;
            fill(&mut rig, usize::from(number));
            assert!(rig.server.unread() <= BOUND, "{name}: {} bytes of all", rig.server.unread());
        }
        assert_eq!(rig.read(quiet).messages().len(), 5, "{name}");
        rig.end();
    }
}

#[test]
fn owners_share_one_bound_wherever_they_are() {
    let owners = Access::Owners(Bearers::read("ann secret\nbob other\ncarl third").unwrap());
    let mut rig = Rig::with(HttpServerConfig { access: owners, ..narrow() });
    rig.authorization = Some("Bearer third".to_owned());
    let (quiet, link, id, token) = modern_in(&mut rig, "tools/call");
    rig.say(link, &progress(&token, 1));
    for from in 1..=60 {
        rig.from = from;
        rig.authorization = Some(if from < 50 { "Bearer secret" } else { "Bearer other" }.to_owned());
        let (_, link, _, token) = modern_in(&mut rig, "tools/call");
        say_progress(&mut rig, link, &token);
        assert!(rig.server.unread() <= BOUND / 2 + if from < 50 { 1000 } else { BOUND / 2 });
    }
    rig.answer(link, &id, "done");
    assert_eq!(rig.read(quiet).messages(), [result_of("1", "done")]);
    rig.end();
}

#[test]
fn those_who_are_not_told_apart_have_all_of_the_bound() {
    let mut rig = Rig::with(HttpServerConfig { parts_addresses: false, ..narrow() });
    let mut highest = 0;
    for from in 1..=60 {
        rig.from = from;
        let (_, link, _, token) = modern_in(&mut rig, "tools/call");
        say_progress(&mut rig, link, &token);
        highest = highest.max(rig.server.unread());
    }
    assert!((BOUND * 3 / 4..=BOUND).contains(&highest), "{highest}");
    rig.end();
}

/// Other streams of the same client take nearly all of its share, and none of them is the largest. What the program of those
/// without a session was told meanwhile.
fn crowd(rig: &mut Rig) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..60 {
        rig.post_modern(&modern("1", "tools/call", &json!({"name": "slow", "_meta": {"progressToken": 7}})));
        let link = rig.shared();
        told.extend(rig.at(link));
        let asked: serde_json::Value = serde_json::from_str(told.last().unwrap()).unwrap();
        let token = asked["params"]["_meta"]["progressToken"].to_string();
        (0..5).for_each(|number| rig.say(link, &long_progress(&token, number)));
    }
    told
}

#[test]
fn a_stream_that_pays_without_a_session_is_given_up_and_its_request_cancelled() {
    let mut rig = Rig::with(narrow());
    rig.from = 1;
    let (key, link, id, token) = modern_in(&mut rig, "tools/call");
    say_progress(&mut rig, link, &token);
    assert_eq!(rig.at(link), [""; 0]);
    assert!(crowd(&mut rig).contains(&format!("closed {id}")));
    assert!(rig.read(key).has_ended);
    rig.end();
}

#[test]
fn a_stream_that_pays_in_a_session_is_given_up_and_its_client_is_told_what_is_missing() {
    let mut rig = Rig::with(narrow());
    rig.from = 1;
    let client = rig.session(LEGACY);
    let (key, token) = call_in(&mut rig, &client);
    rig.say(client.link, &progress(&token, 1));
    let last = rig.read(key).last_id().unwrap();
    say_progress(&mut rig, client.link, &token);
    crowd(&mut rig);
    assert_eq!(rig.at(client.link), [""; 0], "nothing is cancelled");
    let answer = rig.read(key);
    assert_eq!((answer.messages().len(), answer.has_ended), (1, true), "the connection is given up");
    rig.answer(client.link, "1", "done");
    let key = rig.come_back(&client, &last);
    let messages = rig.read(key).messages();
    assert!(messages[0].contains("were not kept"), "{messages:?}");
    assert_eq!(messages.last(), Some(&result_of("1", "done")));
    rig.end();
}

#[test]
fn what_nobody_reads_is_forgotten_and_its_client_is_told() {
    let mut rig = Rig::with(narrow());
    rig.from = 1;
    let client = rig.session(LEGACY);
    let (key, _) = call_in(&mut rig, &client);
    rig.pass_millis(200);
    let last = rig.read(key).last_id().unwrap();
    rig.hang_up(key);
    rig.answer(client.link, "1", &"x".repeat(TIMES * LONG));
    say_notes(&mut rig, client.link);
    crowd(&mut rig);
    let key = rig.come_back(&client, &last);
    let [told] = &rig.read(key).messages()[..] else { panic!("not one message") };
    assert!(told.contains(r#""code":-31006"#) && told.contains(r#""id":1"#), "{told}");
    let key = rig.listen(&client);
    assert!(rig.read(key).messages()[0].contains("were not kept"));
    rig.end();
}

#[test]
fn what_was_read_is_forgotten_before_a_connection_is_given_up() {
    let mut rig = Rig::with(narrow());
    rig.from = 1;
    let client = rig.session(LEGACY);
    let key = rig.listen(&client);
    let first = rig.read(key).last_id().unwrap();
    say_notes(&mut rig, client.link);
    rig.read(key);
    rig.say(client.link, &note("unread"));
    crowd(&mut rig);
    let answer = rig.read(key);
    assert_eq!((answer.messages().last(), answer.has_ended), (Some(&note("unread")), false));
    let key = rig.come_back(&client, &first);
    assert!(rig.read(key).messages()[0].contains("were not kept"));
    rig.end();
}

#[test]
fn a_long_answer_is_counted_until_it_is_read() {
    let mut rig = Rig::with(narrow());
    let (key, link, id, _) = modern_in(&mut rig, "tools/call");
    let text = "x".repeat(200_000);
    rig.answer(link, &id, &text);
    assert!(rig.server.unread() > text.len());
    let head = rig.server.poll_head(rig.now, key).unwrap();
    assert_eq!(head.headers()["content-type"], "application/json");
    let mut body = Vec::new();
    while let BodyChunk::Bytes(bytes) = rig.server.poll_body(rig.now, key) {
        assert!(bytes.len() <= 64 << 10);
        body.extend_from_slice(&bytes);
    }
    assert_eq!(String::from_utf8(body).unwrap(), result_of("1", &text));
    assert_eq!(rig.server.unread(), 0);
    rig.end();
}

#[test]
fn a_long_answer_that_pays_before_its_head_was_taken_is_an_error() {
    for revision in [LEGACY, MODERN] {
        let mut rig = Rig::with(narrow());
        rig.from = 1;
        let (key, link, id) = if revision == MODERN {
            let (key, link, id, _) = modern_in(&mut rig, "tools/call");
            (key, link, id)
        } else {
            let client = rig.session(revision);
            let (key, _) = call_in(&mut rig, &client);
            (key, client.link, "1".to_owned())
        };
        rig.answer(link, &id, &"x".repeat(BOUND));
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.code()), (200, -31006), "{revision}");
        assert_eq!(answer.json()["id"], 1);
        rig.end();
    }
}

#[test]
fn a_long_answer_that_pays_while_it_is_read_ends_before_its_length() {
    let mut rig = Rig::with(narrow());
    rig.from = 1;
    let (key, link, id, _) = modern_in(&mut rig, "tools/call");
    rig.answer(link, &id, &"x".repeat(200_000));
    rig.read_parts(key, 1);
    crowd(&mut rig);
    let answer = rig.read(key);
    assert_eq!((answer.body.map(|body| body.len()), answer.has_ended), (Some(64 << 10), true));
    assert!(answer.length > Some(200_000));
    rig.end();
}

#[test]
fn an_event_that_broke_off_comes_whole_when_its_client_is_back() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.listen(&client);
    let last = rig.read(key).last_id().unwrap();
    let long = note(&"x".repeat(200_000));
    rig.say(client.link, &long);
    rig.say(client.link, &note("behind it"));
    let BodyChunk::Bytes(part) = rig.server.poll_body(rig.now, key) else { panic!("there is an event") };
    assert_eq!(part.len(), 64 << 10);
    rig.hang_up(key);
    let key = rig.come_back(&client, &last);
    assert_eq!(rig.read(key).messages(), [long.clone(), note("behind it")]);
    rig.hang_up(key);
    // … and for one who only listens again.
    rig.say(client.link, &long);
    let key = rig.listen(&client);
    rig.server.poll_head(rig.now, key).unwrap();
    assert!(matches!(rig.server.poll_body(rig.now, key), BodyChunk::Bytes(_)));
    rig.hang_up(key);
    let key = rig.listen(&client);
    assert_eq!(rig.read(key).messages(), [long]);
    rig.leaves_nothing();
}

#[test]
fn progress_of_which_a_part_was_handed_out_comes_to_its_end_before_the_answer() {
    let mut rig = Rig::new();
    let (key, link, id, token) = modern_in(&mut rig, "tools/call");
    let long = long_progress(&token, 1).replace("1 x", &format!("1 {}", "x".repeat(100_000)));
    rig.say(link, &long);
    rig.say(link, &progress(&token, 2));
    rig.server.poll_head(rig.now, key).unwrap();
    let BodyChunk::Bytes(first) = rig.server.poll_body(rig.now, key) else { panic!("there is an event") };
    rig.answer(link, &id, "done");
    let mut text = String::from_utf8(first.to_vec()).unwrap();
    while let BodyChunk::Bytes(bytes) = rig.server.poll_body(rig.now, key) {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    let data: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(data, [long.replace(&token, "7"), result_of("1", "done")]);
    rig.leaves_nothing();
}
