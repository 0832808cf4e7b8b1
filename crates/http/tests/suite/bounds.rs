//! Every bound of the settings: what is refused beyond it, and that what is held stays below.

use rescind_http::server::{Access, ClientAddress, Hosts, HttpServerConfig};

use super::rig::*;

#[test]
fn a_batch_does_not_pass_the_bound_of_requests_in_flight() {
    let mut rig = Rig::with(HttpServerConfig { max_in_flight: 2, ..config() });
    let client = rig.session("2025-03-26");
    let key = rig.post_to(&client, &format!("[{},{},{}]", call("1"), call("2"), call("3")));
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.code()), (503, -31004));
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.post_to(&client, &format!("[{},{}]", call("1"), call("2")));
    assert_eq!(rig.at(client.link), [call("1"), call("2")]);
    rig.leaves_nothing();
}

fn refused(rig: &mut Rig, key: rescind_http::server::ReplyKey) {
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.code()), (503, -31004));
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[test]
fn one_more_session_is_refused() {
    let mut rig = Rig::with(HttpServerConfig { max_sessions: 2, ..config() });
    let first = rig.session(LEGACY);
    rig.session(LEGACY);
    let handshake = r#"{"jsonrpc":"2.0","id":5,"method":"initialize","params":{}}"#;
    let key = rig.post(&[], handshake);
    assert_eq!(rig.read(key).json()["id"], 5);
    let key = rig.post(&[], handshake);
    refused(&mut rig, key);
    rig.delete(&first);
    rig.session(LEGACY);
    rig.leaves_nothing();
}

#[test]
fn one_more_request_in_flight_is_refused() {
    let mut rig = Rig::with(HttpServerConfig { max_in_flight: 2, ..config() });
    let (client, other) = (rig.session(LEGACY), rig.session(LEGACY));
    let keys = ["1", "2"].map(|id| rig.post_to(&client, &call(id)));
    let key = rig.post_to(&client, &call("3"));
    refused(&mut rig, key);
    let elsewhere = rig.post_to(&other, &call("1"));
    assert_eq!(rig.read(elsewhere).status, 0, "each session has its own");
    rig.hang_up(keys[0]);
    let key = rig.post_to(&client, &call("3"));
    refused(&mut rig, key);
    rig.answer(client.link, "1", "done");
    let key = rig.post_to(&client, &call("3"));
    assert_eq!(rig.read(key).status, 0);
    for _ in 0..2 {
        rig.post_modern(&modern_call("1"));
    }
    let key = rig.post_modern(&modern_call("1"));
    refused(&mut rig, key);
    rig.leaves_nothing();
}

#[test]
fn one_more_http_request_is_refused() {
    let mut rig = Rig::with(HttpServerConfig { max_replies: 2, ..config() });
    let client = rig.session(LEGACY);
    let listening = rig.listen(&client);
    let key = rig.post_to(&client, &call("1"));
    let one_more = rig.post_to(&client, &call("2"));
    refused(&mut rig, one_more);
    let one_more = rig.listen(&client);
    refused(&mut rig, one_more);
    rig.hang_up(listening);
    let posted = rig.post_to(&client, &cancel("1"));
    rig.at(client.link);
    assert_eq!(rig.whole(posted, 202), "");
    rig.settle(client.link, "1");
    rig.read(key);
    rig.leaves_nothing();
}

#[test]
fn what_a_link_does_not_take_is_bounded() {
    let mut rig = Rig::with(HttpServerConfig { max_input: 1000, ..config() });
    let client = rig.session(LEGACY);
    let filler = note(&"x".repeat(1000));
    let key = rig.post_to(&client, &filler);
    assert_eq!(rig.read(key).status, 202);
    for body in [call("1"), note("x"), result_of("1", "x")] {
        let key = rig.post_to(&client, &body);
        refused(&mut rig, key);
    }
    assert_eq!(rig.at(client.link), [&*filler]);
    let key = rig.post_to(&client, &call("1"));
    assert_eq!(rig.read(key).status, 0);
    let modern = [("mcp-protocol-version", MODERN)];
    let key = rig.post(&modern, &filler);
    assert_eq!(rig.read(key).status, 202);
    let key = rig.post(&modern, &note("x"));
    refused(&mut rig, key);
    let key = rig.post_modern(&modern_call("1"));
    refused(&mut rig, key);
    rig.leaves_nothing();
}

/// The head of a POST with these headers, from the client at 10.0.0.`from`.
fn head(from: u8, headers: &[(&str, &str)]) -> http::request::Parts {
    let mut request = http::Request::post("/mcp").extension(ClientAddress([10, 0, 0, from].into()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

#[test]
fn a_head_is_judged_before_its_body_is_read() {
    let token = ("authorization", "Bearer secret");
    let cases: [(u16, &[(&str, &str)]); 8] = [
        (401, &[]),
        (401, &[("authorization", "Bearer other")]),
        (400, &[token, ("authorization", "Bearer other")]),
        (403, &[token, ("host", "evil.example")]),
        (403, &[token, ("origin", "https://evil.example")]),
        (415, &[token, ("content-type", "text/plain")]),
        (413, &[token, ("content-length", "5001")]),
        (413, &[token, ("content-length", "70000000"), ("expect", "100-continue")]),
    ];
    let hosts = Hosts::named(["localhost"]);
    let mut rig = Rig::with(HttpServerConfig { access: Access::token("secret"), hosts, max_message: 5000, ..config() });
    for (status, headers) in cases {
        let key = rig.server.handle_head(rig.now, &head(1, headers));
        assert!(!rig.server.wants_body(key), "{headers:?}");
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.header("connection")), (status, Some("close")), "{headers:?}");
    }
    let elsewhere = http::Request::post("/other").body(()).unwrap().into_parts().0;
    let key = rig.server.handle_head(rig.now, &elsewhere);
    assert_eq!(rig.read(key).status, 404);
    let good = head(1, &[token, ("content-length", "5000")]);
    let key = rig.server.handle_head(rig.now, &good);
    assert!(rig.server.wants_body(key));
    rig.server.handle_body(key, &[b' '; 5000]);
    rig.server.handle_body_end(rig.now, key, &good);
    assert_eq!(rig.read(key).status, 400, "it is no message");
    rig.leaves_nothing();
}

#[test]
fn a_message_that_is_too_long_is_refused_by_its_length() {
    let mut rig = Rig::with(HttpServerConfig { max_message: 5000, ..config() });
    let key = rig.server.handle_head(rig.now, &head(1, &[]));
    rig.server.handle_body(key, &[b' '; 5000]);
    assert!(rig.server.wants_body(key));
    rig.server.handle_body(key, b" ");
    assert!(!rig.server.wants_body(key));
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.code()), (413, -31005));
    assert!(answer.body.unwrap().contains("5000"));
    rig.leaves_nothing();
}

#[test]
pub(crate) fn bodies_that_are_being_read_share_one_bound() {
    const LONG: usize = 60 << 10;

    let narrow =
        HttpServerConfig { max_message: 64 << 10, max_bodies: 512 << 10, max_input: 1000, max_unsent: 0, ..config() };
    let bound = narrow.max_bodies;
    let mut rig = Rig::with(narrow);
    let length = LONG.to_string();
    let headers = [("content-length", &*length)];
    let mut highest = 0;
    let mut refused = Vec::new();
    let mut keys = Vec::new();
    // One client alone, and then thirty.
    for from in [1; 30].into_iter().chain(2..32) {
        let key = rig.server.handle_head(rig.now, &head(from, &headers));
        for _ in 0..LONG / 1000 {
            rig.server.handle_body(key, &[b'x'; 1000]);
            highest = highest.max(rig.server.held());
        }
        keys.push((from, key));
        // A short message finds a place all the same.
        let (small, bytes) = (head(99, &[]), call("1"));
        let key = rig.server.handle_head(rig.now, &small);
        rig.server.handle_body(key, bytes.as_bytes());
        assert!(rig.server.wants_body(key), "a quiet client pays for the others");
        rig.server.handle_body_end(rig.now, key, &small);
        rig.read(key);
        rig.drain();
    }
    for (from, key) in keys {
        if !rig.server.wants_body(key) {
            let answer = rig.read(key);
            assert_eq!((answer.status, answer.code()), (503, -31004));
            refused.push(from);
        } else {
            rig.hang_up(key);
        }
    }
    assert!(refused.iter().filter(|from| **from == 1).count() >= 26, "one client has half at most: {refused:?}");
    assert!(highest <= bound + bound / 4, "{highest} bytes are held, and {bound} are allowed for bodies");
    assert!(highest > bound / 2, "the test does not come near the bound: {highest}");
    rig.leaves_nothing();
}

#[test]
fn a_body_that_one_machine_has_read_is_handled_by_another() {
    let mut rig = Rig::with(HttpServerConfig { max_message: 5000, ..config() });
    let good = head(1, &[]);
    let key = rig.server.handle_head(rig.now, &good);
    rig.server.handle_body(key, b"{");
    rig.server.handle_body(key, b"}");
    assert_eq!(rig.server.take_whole_body(rig.now, key).as_deref(), Some(&b"{}"[..]));
    let refused = rig.server.handle_head(rig.now, &good);
    rig.server.handle_body(refused, &[b' '; 5001]);
    assert_eq!(rig.server.take_whole_body(rig.now, refused), None, "its answer is here");
    assert_eq!(rig.read(refused).status, 413);
    rig.leaves_nothing();
}

#[test]
fn a_body_that_does_not_come_is_waited_for_no_longer_than_its_patience() {
    let mut rig = Rig::new();
    let silent = rig.server.handle_head(rig.now, &head(1, &[("content-length", "10")]));
    let slow = rig.server.handle_head(rig.now, &head(1, &[]));
    let steady = rig.server.handle_head(rig.now, &head(1, &[]));
    for _ in 0..30 {
        rig.pass_millis(999);
        rig.server.handle_body(slow, &[b' '; 1000]);
        rig.server.handle_body(steady, &[b' '; 4000]);
    }
    assert!([silent, slow, steady].iter().all(|key| rig.server.wants_body(*key)));
    rig.pass_millis(30);
    for key in [silent, slow] {
        assert_eq!(rig.read(key).status, 408);
    }
    assert!(rig.server.wants_body(steady));
    rig.hang_up(steady);
    assert!(!rig.server.wants_body(steady));
    rig.leaves_nothing();
}

#[test]
fn what_is_held_stays_below_what_the_settings_allow() {
    let narrow = HttpServerConfig {
        max_sessions: 4,
        max_in_flight: 20,
        max_replies: 60,
        max_bodies: 6000,
        max_input: 2000,
        max_unsent: 2000,
        max_unread: 100_000,
        max_kept: 3000,
        max_tools: 1,
        max_message: 3000,
        ..config()
    };
    let most = narrow.most_held();
    let mut rig = Rig::with(narrow);
    let clients = [0; 4].map(|_| rig.session(LEGACY));
    let text = "x".repeat(2500);
    let mut highest = 0;
    for round in 0..40_u32 {
        for (place, client) in clients.iter().enumerate() {
            let id = format!("\"{}{round}\"", "i".repeat(1000));
            let key = rig.post_to(client, &call_with_token(&id, &id));
            rig.say(client.link, &progress(&id, 1));
            if place % 2 == 0 {
                rig.read(key);
                rig.hang_up(key);
            }
            rig.listen(client);
            for _ in 0..5 {
                rig.say(client.link, &note(&text));
            }
            if round % 3 == 0 {
                rig.answer(client.link, &id, &text);
            }
            rig.post_modern(&modern("1", "tools/call", &serde_json::json!({"name": "slow", "x": text})));
            highest = highest.max(rig.server.held());
        }
    }
    assert!(highest <= most, "{highest} bytes are held, and {most} are allowed");
    assert!(highest > most / 100, "the test does not come near the bound: {highest} of {most}");
    rig.leaves_nothing();
}
