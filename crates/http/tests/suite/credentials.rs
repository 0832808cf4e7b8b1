//! Where clients sign in at the server behind: who shares a link, whose a message is, and what the server says of it.

use std::time::Duration;

use http::{Method, Response};
use rescind_http::server::{Access, HttpServerConfig, LinkKey, MAX_PAGE, ReplyKey, Sessions, Stateless};
use serde_json::{Value, json};

use crate::rig::*;

const CHALLENGE: &str = r#"Bearer resource_metadata="https://mcp.test/.well-known/oauth-protected-resource""#;

fn passing() -> HttpServerConfig {
    HttpServerConfig { passes_authorization: true, stream_after: Duration::from_secs(1), ..config() }
}

fn rig() -> Rig {
    Rig::with(passing())
}

/// A call outside a session of somebody; nobody if the name is empty.
fn call_of(rig: &mut Rig, who: &str, id: &str) -> ReplyKey {
    let message = modern_call(id);
    let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "slow")];
    headers.extend((!who.is_empty()).then_some(("authorization", who)));
    rig.post(&headers, &message.to_string())
}

/// A message in a session of somebody.
fn post_of(rig: &mut Rig, client: &Client, who: &str, message: &str) -> ReplyKey {
    let id = client.id.clone();
    let mut headers = vec![("mcp-session-id", &*id)];
    headers.extend((!who.is_empty()).then_some(("authorization", who)));
    rig.post(&headers, message)
}

fn last_link(rig: &Rig) -> LinkKey {
    rig.opened.last().unwrap().0
}

/// What stands for a status of the server behind.
fn unauthorized(id: &str, status: u16, challenge: Option<&str>) -> String {
    let mut data = json!({"mayHaveRun": false, "httpStatus": status});
    if let Some(challenge) = challenge {
        data["wwwAuthenticate"] = challenge.into();
    }
    let id: Value = serde_json::from_str(id).unwrap();
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -31002, "message": "x", "data": data}}).to_string()
}

#[test]
fn two_people_never_share_a_link_and_one_does_with_himself() {
    let mut rig = rig();
    for (who, links) in [("ann", 1), ("bob", 2), ("", 3), ("ann", 3), ("bob", 3), ("", 3)] {
        call_of(&mut rig, who, "1");
        assert_eq!(rig.opened.len(), links, "{who}");
    }
    assert_eq!(rig.credentials, [Some("ann".to_owned()), Some("bob".to_owned()), None]);
    for (link, _) in rig.opened.clone() {
        let received = rig.at(link);
        assert_eq!(received.len(), 2, "both of one person, and none of another: {received:?}");
    }
    assert!(!format!("{:?}", rig.server).contains("bob"), "it is shown");
    rig.leaves_nothing();
}

/// Elsewhere nobody's header is looked at, and all share one link.
#[test]
fn elsewhere_nothing_of_it_is_passed_on() {
    let shared = HttpServerConfig { sessions: Sessions::SharedLink, ..passing() };
    for config in [config(), HttpServerConfig { access: Access::token("open-sesame"), ..passing() }, shared] {
        let has_token = !matches!(config.access, Access::Open);
        let mut rig = Rig::with(config);
        let people = if has_token { ["Bearer open-sesame"; 2] } else { ["Bearer ann", "Bearer bob"] };
        let keys = people.map(|who| call_of(&mut rig, who, "1"));
        assert_eq!((rig.opened.len(), rig.credentials.clone()), (1, vec![None]));
        let link = rig.shared();
        assert_eq!(rig.at(link).len(), 2);
        if !has_token {
            rig.say(link, &unauthorized("1", 401, Some(CHALLENGE)));
            let answer = rig.read(keys[0]);
            assert_eq!((answer.status, answer.header("www-authenticate")), (200, None));
        }
        let page = rig.send(&Method::GET, "/.well-known/oauth-protected-resource", &[("authorization", people[0])], "");
        assert_eq!(rig.read(page).status, 404);
        rig.leaves_nothing();
    }
}

#[test]
fn a_change_within_a_session_stands_before_what_it_concerns() {
    let mut rig = rig();
    let client = rig.session(LEGACY);
    let cancel = cancel("5");
    for (who, message) in [("ann", call("1")), ("ann", note("a")), ("bob", call("2")), ("", cancel), ("ann", call("3"))]
    {
        post_of(&mut rig, &client, who, &message);
    }
    let received = rig.at(client.link);
    let people: Vec<&str> = received.iter().filter_map(|input| input.strip_prefix("of ")).collect();
    assert_eq!(people, ["ann", "bob", "nobody", "ann"]);
    let places: Vec<usize> =
        received.iter().enumerate().filter(|(_, input)| input.starts_with("of ")).map(|(at, _)| at).collect();
    assert_eq!(places, [0, 3, 5, 7], "{received:?}");
    rig.leaves_nothing();
}

/// Refused messages leave nothing behind, and their credentials do not either, beyond the bound on what waits.
#[test]
fn changes_of_hands_are_bounded_like_messages() {
    let mut rig = Rig::with(HttpServerConfig { max_input: 1000, ..passing() });
    let client = rig.session(LEGACY);
    for round in 0..1000 {
        post_of(&mut rig, &client, &format!("who{round}"), &call("1"));
    }
    assert!(rig.at(client.link).len() < 40);
    rig.leaves_nothing();
}

#[test]
fn a_refusal_of_the_server_behind_is_the_status_of_the_response() {
    for (status, challenge) in
        [(401, Some(CHALLENGE)), (403, Some(r#"Bearer error="insufficient_scope""#)), (401, None)]
    {
        let mut rig = rig();
        let key = call_of(&mut rig, "ann", "7");
        let link = rig.shared();
        rig.say(link, &unauthorized("1", status, challenge));
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.header("www-authenticate")), (status, challenge));
        assert_eq!(answer.json()["id"], 7);
        assert_eq!(answer.json()["error"]["data"]["httpStatus"], status);

        let client = rig.session(LEGACY);
        let key = post_of(&mut rig, &client, "ann", &call("7"));
        rig.say(client.link, &unauthorized("7", status, challenge));
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.header("www-authenticate")), (status, challenge));
        rig.leaves_nothing();
    }
    // Other errors of the same kind are not such.
    let mut rig = rig();
    for (at, answer) in [unauthorized("1", 404, None), unauthorized("2", 99, None), gone("3")].iter().enumerate() {
        let key = call_of(&mut rig, "ann", "7");
        let link = rig.shared();
        rig.say(link, answer);
        assert_eq!(rig.read(key).status, 200, "{at}");
    }
    rig.leaves_nothing();
}

#[test]
fn a_page_of_a_browser_may_read_the_challenge() {
    let mut rig = rig();
    let headers = [("origin", "http://localhost:3000"), ("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];
    let key = rig.post(&headers, &modern("7", "tools/list", &json!({})).to_string());
    let link = rig.shared();
    rig.say(link, &unauthorized("1", 401, Some(CHALLENGE)));
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some(CHALLENGE)));
    assert!(answer.header("access-control-expose-headers").unwrap().contains("www-authenticate"));
    rig.leaves_nothing();
}

#[test]
fn a_handshake_that_is_refused_for_them_opens_no_session() {
    let mut rig = rig();
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let asks = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let key = rig.post(&[("authorization", "old")], &asks);
    let link = last_link(&rig);
    assert_eq!(rig.credentials.last().unwrap().as_deref(), Some("old"));
    rig.say(link, &unauthorized("0", 401, Some(CHALLENGE)));
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.header("mcp-session-id")), (401, None));
    assert_eq!(answer.header("www-authenticate"), Some(CHALLENGE));
    assert_eq!(rig.at(link).last().unwrap(), "end");
    rig.leaves_nothing();
}

/// A status can be said at the beginning only. So the response waits longer for it to begin while nothing was answered.
#[test]
fn a_response_begins_late_until_credentials_have_worked() {
    let mut rig = rig();
    let first = call_of(&mut rig, "ann", "1");
    let second = call_of(&mut rig, "ann", "2");
    let link = rig.shared();
    rig.pass_millis(10_000);
    assert_eq!(rig.read(first).status, 0);
    rig.answer(link, "1", "x");
    rig.whole(first, 200);
    // They work: from now on it is as usual, for what waits, too.
    rig.pass_millis(999);
    assert_eq!(rig.read(second).status, 0);
    rig.pass_millis(1);
    assert!(rig.read(second).is_stream());
    let third = call_of(&mut rig, "ann", "3");
    rig.pass_millis(1000);
    assert!(rig.read(third).is_stream());
    // Until they work no more.
    let fourth = call_of(&mut rig, "ann", "4");
    rig.say(link, &unauthorized("4", 401, Some(CHALLENGE)));
    assert_eq!(rig.read(fourth).status, 401);
    let fifth = call_of(&mut rig, "ann", "5");
    rig.pass_millis(29_999);
    assert_eq!(rig.read(fifth).status, 0);
    rig.pass_millis(1);
    assert!(rig.read(fifth).is_stream(), "but not for ever");
    for key in [second, third, fifth] {
        rig.hang_up(key);
    }
    rig.leaves_nothing();
}

/// What is answered to the credentials before says nothing of those that came after.
#[test]
fn an_answer_proves_the_credentials_of_its_request_only() {
    let mut rig = rig();
    let client = rig.session(LEGACY);
    let old = post_of(&mut rig, &client, "old", &call("1"));
    let new = post_of(&mut rig, &client, "new", &call_with_token("2", "9"));
    rig.answer(client.link, "1", "x");
    rig.whole(old, 200);
    rig.pass_millis(2000);
    assert_eq!(rig.read(new).status, 0, "not known yet");
    rig.say(client.link, &progress("9", 1));
    assert!(rig.read(new).is_stream(), "progress says that it runs");
    let next = post_of(&mut rig, &client, "new", &call("3"));
    rig.pass_millis(1000);
    assert!(rig.read(next).is_stream());
    rig.leaves_nothing();
}

fn asking() -> Rig {
    Rig::with(HttpServerConfig { stateless: Stateless::Ask, ..passing() })
}

fn id_of(message: &str) -> String {
    serde_json::from_str::<Value>(message).unwrap()["id"].to_string()
}

/// The question which era the server speaks is asked under somebody's credentials. If these are not good, it is asked under
/// others.
#[test]
fn a_server_that_wants_to_know_who_asks_is_asked_by_another() {
    let mut rig = asking();
    let nobody = call_of(&mut rig, "", "1");
    let ann = call_of(&mut rig, "ann", "2");
    let also = call_of(&mut rig, "", "3");
    let [(link, _)] = &rig.opened[..] else { panic!("one link: {:?}", rig.opened) };
    let link = *link;
    let question = rig.at(link);
    assert!(question.len() == 1 && question[0].contains("server/discover"), "{question:?}");
    rig.say(link, &unauthorized(&id_of(&question[0]), 401, Some(CHALLENGE)));
    for (key, id) in [(nobody, 1), (also, 3)] {
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some(CHALLENGE)));
        assert_eq!(answer.json()["id"], id);
    }
    assert_eq!(rig.credentials, [None, Some("ann".to_owned())]);
    let link = last_link(&rig);
    let question = rig.at(link);
    assert!(question.len() == 1 && question[0].contains("server/discover"), "{question:?}");
    let id = id_of(&question[0]);
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"supportedVersions":["{MODERN}"]}}}}"#));
    let received = rig.at(link);
    assert_eq!(received.len(), 1);
    rig.answer(link, &id_of(&received[0]), "x");
    assert_eq!(rig.whole(ann, 200), result_of("2", "x"));
    // Now it is known, and nobody is asked any more.
    call_of(&mut rig, "bob", "4");
    let link = last_link(&rig);
    assert!(rig.at(link)[0].contains("tools/call"));
    rig.leaves_nothing();
}

#[test]
fn people_without_a_session_count_like_sessions_and_the_oldest_idle_one_makes_room() {
    let mut rig = Rig::with(HttpServerConfig { max_sessions: 3, ..passing() });
    let busy = call_of(&mut rig, "busy", "1");
    for who in ["ann", "bob"] {
        let key = call_of(&mut rig, who, "1");
        let link = last_link(&rig);
        rig.answer(link, "1", "x");
        rig.whole(key, 200);
        rig.pass_millis(1);
    }
    let links: Vec<LinkKey> = rig.opened.iter().map(|(link, _)| *link).collect();
    let eve = call_of(&mut rig, "eve", "1");
    assert_eq!(rig.opened.len(), 4);
    assert_eq!(rig.at(links[1]).last().unwrap(), "end", "that of ann was idle for longest");
    assert!(rig.at(links[0]).iter().all(|input| input != "end"));
    let client = rig.session(LEGACY);
    assert_eq!(rig.at(links[2]).last().unwrap(), "end", "a session takes its place, too");
    let key = call_of(&mut rig, "mallory", "1");
    assert_eq!(rig.read(key).status, 503, "nobody is idle");
    assert_eq!(rig.read(busy).status, 0);
    rig.delete(&client);
    rig.hang_up(eve);
    rig.leaves_nothing();
}

#[test]
fn a_link_that_nobody_uses_ends() {
    let mut rig = Rig::with(HttpServerConfig { idle: Duration::from_secs(60), ..passing() });
    let key = call_of(&mut rig, "ann", "1");
    let link = rig.shared();
    rig.pass(Duration::from_secs(600));
    assert!(rig.at(link).iter().all(|input| input != "end"), "it is used");
    rig.answer(link, "1", "x");
    rig.read(key);
    rig.pass(Duration::from_secs(59));
    assert!(rig.at(link).is_empty());
    rig.pass(Duration::from_secs(20));
    assert_eq!(rig.at(link), ["end"]);
    rig.close(link);
    call_of(&mut rig, "ann", "2");
    assert_eq!(rig.opened.len(), 2);
    rig.leaves_nothing();
}

#[test]
fn credentials_that_cannot_be_passed_on_are_refused_or_count_as_none() {
    let mut rig = rig();
    let long = format!("Bearer {}", "x".repeat(16 << 10));
    let key = call_of(&mut rig, &long, "1");
    assert_eq!(rig.read(key).status, 431);
    let key = rig.post(&[("authorization", "a"), ("authorization", "b")], &call("1"));
    assert_eq!(rig.read(key).status, 400);
    // These sign in a connection, on which others would travel.
    for who in ["NTLM TlRMTVNTUAAB", "negotiate x"] {
        call_of(&mut rig, who, "1");
    }
    assert_eq!(rig.credentials, [None]);
    rig.leaves_nothing();
}

fn page(rig: &mut Rig, method: &Method, path: &str, headers: &[(&str, &str)]) -> ReplyKey {
    rig.send(method, path, headers, "")
}

#[test]
fn pages_about_signing_in_are_asked_for_and_given() {
    let mut rig = rig();
    let path = "/.well-known/oauth-protected-resource/mcp";
    let key = page(&mut rig, &Method::GET, &format!("{path}?x=1"), &[("origin", "http://localhost:3000")]);
    assert_eq!(rig.pages, [(key, path.to_owned())]);
    assert_eq!(rig.read(key).status, 0);
    let given = Response::builder().status(200).header("content-type", "application/json").header("set-cookie", "x");
    rig.server.handle_page(key, Ok(given.body("{}".into()).unwrap()));
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.body.as_deref()), (200, Some("{}")));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:3000"));
    assert_eq!(answer.header("set-cookie"), None);
    for why in [Err("no connection"), Ok(Response::new(vec![0; MAX_PAGE + 1].into()))] {
        let key = page(&mut rig, &Method::GET, path, &[]);
        rig.server.handle_page(key, why);
        assert_eq!(rig.read(key).status, 502);
    }
    for (method, headers, status) in [
        (Method::POST, vec![], 405),
        (Method::DELETE, vec![], 405),
        (Method::GET, vec![("origin", "https://evil.example")], 403),
        (Method::OPTIONS, vec![("origin", "http://localhost:3000")], 204),
    ] {
        let key = page(&mut rig, &method, path, &headers);
        assert_eq!(rig.read(key).status, status, "{method}");
    }
    let asked = rig.pages.len();
    let key = page(&mut rig, &Method::GET, "/.well-known/other", &[]);
    assert_eq!((rig.read(key).status, rig.pages.len()), (404, asked));
    rig.leaves_nothing();
}

#[test]
fn pages_are_bounded_in_number() {
    let mut rig = rig();
    let keys: Vec<_> =
        (0..65).map(|_| page(&mut rig, &Method::GET, "/.well-known/openid-configuration", &[])).collect();
    assert_eq!((rig.pages.len(), rig.read(keys[64]).status), (64, 503));
    rig.hang_up(keys[0]);
    page(&mut rig, &Method::GET, "/.well-known/openid-configuration", &[]);
    assert_eq!(rig.pages.len(), 65);
    for (key, _) in rig.pages.clone() {
        rig.server.handle_page(key, Err("x"));
        rig.drain();
    }
    rig.leaves_nothing();
}
