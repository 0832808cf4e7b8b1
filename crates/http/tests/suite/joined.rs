//! One program for clients of both eras: what is behind the link takes requests of either.

use std::time::Duration;

use rescind_http::server::{HttpServerConfig, LinkKey, ReplyKey, Sessions, Stateless};
use serde_json::{Value, json};

use crate::rig::*;

fn joined() -> HttpServerConfig {
    HttpServerConfig { sessions: Sessions::SharedLink, stateless: Stateless::Joined, ..config() }
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
const GREETING: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s"}}"#;

fn id_of(message: &str) -> String {
    serde_json::from_str::<Value>(message).unwrap()["id"].to_string()
}

/// The program has shaken hands, before any client came.
fn open(config: HttpServerConfig) -> (Rig, LinkKey) {
    let mut rig = Rig::with(config);
    rig.server.prepare(rig.now);
    rig.drain();
    let link = rig.shared();
    let [asked] = &rig.at(link)[..] else { panic!("not one message") };
    assert!(asked.contains(r#""method":"initialize""#), "{asked}");
    rig.say(link, &result_of_json(&id_of(asked), GREETING));
    assert_eq!(rig.at(link), [r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#]);
    (rig, link)
}

fn result_of_json(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn session(rig: &mut Rig, link: LinkKey) -> Client {
    let key = rig.post(&[], INITIALIZE);
    let id = rig.read(key).header("mcp-session-id").expect("a session").to_owned();
    Client { id, link }
}

/// A request of 2026-07-28 under the id 1; and the id by which the program knows it.
fn modern_request(rig: &mut Rig, link: LinkKey, method: &str, params: &Value) -> (ReplyKey, String) {
    let key = rig.post_modern(&modern("1", method, params));
    let [only] = &rig.at(link)[..] else { panic!("not one message") };
    (key, id_of(only))
}

fn session_request(rig: &mut Rig, client: &Client) -> (ReplyKey, String) {
    let key = rig.post_to(client, &call("1"));
    let [only] = &rig.at(client.link)[..] else { panic!("not one message") };
    (key, id_of(only))
}

#[test]
fn requests_of_both_eras_are_on_one_link_and_each_gets_its_own_answer() {
    let (mut rig, link) = open(joined());
    let client = session(&mut rig, link);
    let (in_session, known) = session_request(&mut rig, &client);
    let (outside, known_outside) = modern_request(&mut rig, link, "tools/call", &json!({"name": "slow"}));
    assert_ne!(known, known_outside);
    rig.answer(link, &known_outside, "outside");
    rig.answer(link, &known, "in a session");
    assert_eq!(rig.whole(in_session, 200), result_of("1", "in a session"));
    assert_eq!(rig.whole(outside, 200), result_of("1", "outside"));
    assert_eq!(rig.opened.len(), 1);
    rig.end();
}

#[test]
fn a_hang_up_cancels_outside_a_session_and_a_message_within_one() {
    let (mut rig, link) = open(joined());
    let client = session(&mut rig, link);
    let (in_session, known) = session_request(&mut rig, &client);
    let (outside, known_outside) = modern_request(&mut rig, link, "tools/call", &json!({"name": "slow"}));
    rig.hang_up(in_session);
    assert_eq!(rig.at(link), [""; 0], "a session's client may come back");
    rig.hang_up(outside);
    assert_eq!(rig.at(link), [format!("closed {known_outside}")]);
    rig.post_to(&client, &cancel("1"));
    assert_eq!(rig.at(link), [cancel(&known)]);
    rig.end();
}

#[test]
fn a_change_reaches_the_sessions_and_the_subscriptions_and_is_no_surprise_where_there_are_none() {
    let (mut rig, link) = open(joined());
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    rig.say(link, changed);
    assert!(rig.dropped.is_empty(), "those outside a session hear of it by a subscription");
    let client = session(&mut rig, link);
    let listening = rig.listen(&client);
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let (subscription, known) = modern_request(&mut rig, link, "subscriptions/listen", &filter);
    let told = |id: &str| {
        let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{{meta}}}}}"#)
    };
    rig.say(link, changed);
    rig.say(link, &told(&known));
    assert_eq!(rig.read(listening).messages(), [changed]);
    assert_eq!(rig.read(subscription).messages(), [told("1")]);
    rig.end();
}

#[test]
fn a_program_that_refuses_its_handshake_has_everybody_answered() {
    let mut rig = Rig::with(joined());
    let in_session = rig.post(&[], INITIALIZE);
    let outside = rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    let asked = rig.at(link);
    let error = r#""error":{"code":-31002,"message":"no"}"#;
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{},{error}}}"#, id_of(&asked[0])));
    assert_eq!(rig.read(in_session).code(), -31002);
    assert_eq!(rig.read(outside).code(), -31002);
    let next = rig.post_modern(&modern_call("1"));
    assert_ne!(rig.shared(), link, "the next client gets another program");
    let link = rig.shared();
    rig.at(link);
    rig.close(link);
    assert_eq!(rig.read(next).code(), -31002, "that one ended");
    rig.end();
}

#[test]
fn the_program_lives_on_while_it_is_used_in_either_way() {
    let idle = Duration::from_secs(60);
    let (mut rig, link) = open(HttpServerConfig { idle, ..joined() });
    for _ in 0..3 {
        rig.pass(idle / 2);
        let (key, known) = modern_request(&mut rig, link, "tools/call", &json!({"name": "slow"}));
        rig.pass(idle / 4);
        rig.answer(link, &known, "done");
        assert_eq!(rig.read(key).status, 200);
    }
    rig.pass(2 * idle);
    assert_eq!(rig.at(link), ["end"], "nobody has used it for so long");
    rig.end();
}
