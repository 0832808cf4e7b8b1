//! Whoever connects to the admin socket may be broken, slow or greedy: the link does not suffer. On real processes.

use std::io::{Read, Write};

use rescind_feed::{Event, Listing, Session, State};
use rescind_testkit::puppet::Rig;
use serde_json::json;

use crate::shim::{
    self, PROGRAM,
    admin::{Admin, answer},
    error_of,
    process::peak_memory,
    words::{
        error, expect_alive, greet_mcp, notification, pass_to_client, pass_to_server, request, request_with, result,
    },
};

fn mcp(flags: &[&str]) -> (Rig, Admin) {
    let mut rig = Rig::builder(PROGRAM).flags(flags.iter().copied()).start();
    greet_mcp(&mut rig, "2025-11-25");
    let admin = Admin::of(&rig);
    (rig, admin)
}

/// The link goes on, and the socket answers.
fn expect_well(rig: &mut Rig, admin: &Admin) {
    expect_alive(rig);
    assert_eq!(admin.get::<Session>("/v1/session").pid, rig.shim.id as u32);
}

#[test]
fn what_is_no_request_is_refused() {
    let (mut rig, admin) = mcp(&[]);
    for (bytes, status) in [
        (&b"\0\x01\x02 nonsense\r\n\r\n"[..], 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /v1/session HTTP/9.9\r\n\r\n", 400),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\r\n\r\n", 400),
        (b"GET /v1/session HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n", 400),
        (b"POST /v1/cancel HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n", 400),
        (b"POST /v1/cancel HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{", 400),
    ] {
        assert_eq!(admin.say(bytes).status, status, "{}", String::from_utf8_lossy(bytes));
    }
    expect_well(&mut rig, &admin);
}

#[test]
fn a_head_beyond_16_kib_is_refused() {
    let (mut rig, admin) = mcp(&[]);
    for head in [
        format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(20_000)),
        format!("GET /v1/session HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(20_000)),
        format!("GET /v1/session HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1000)),
    ] {
        let status = admin.say(head.as_bytes()).status;
        assert!(matches!(status, 414 | 431), "{status}");
    }
    expect_well(&mut rig, &admin);
}

#[test]
fn a_wrong_path_or_method_is_answered_with_what_is_right() {
    let (mut rig, admin) = mcp(&[]);
    for path in ["/", "/v1", "/v1/", "/v2/session", "/v1/sessions", "/v1/requests/", "/v1/requests/x/y", "/metrics"] {
        admin.ask("GET", path, "").expect_problem(404);
    }
    for (method, path) in
        [("POST", "/v1/session"), ("DELETE", "/v1/requests"), ("GET", "/v1/cancel"), ("GET", "/v1/end")]
    {
        admin.ask(method, path, "").expect_problem(405);
    }
    expect_well(&mut rig, &admin);
}

#[test]
fn an_order_that_cannot_be_read_cancels_nothing() {
    let (mut rig, admin) = mcp(&[]);
    pass_to_server(&mut rig, &request("1", "tools/call"));
    let key = admin.requests("")[0].key.clone();
    let many = json!({"requests": vec![key.clone(); 1001]}).to_string();
    for body in ["", "{", "[]", "null", r#"{"request":[]}"#, r#"{"requests":"c0.1"}"#, r#"{"requests":[1]}"#, &many] {
        admin.ask("POST", "/v1/cancel", body).expect_problem(400);
    }
    rig.expect_server_hears_nothing();
    // A reason of a megabyte, and one that nearly fits.
    for (length, status) in [(1 << 20, 413), (70_000, 413)] {
        let body = json!({"requests": [key.clone()], "reason": "x".repeat(length)}).to_string();
        admin.ask("POST", "/v1/cancel", &body).expect_problem(status);
    }
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
    // One that fits is cut before it goes on.
    let reply = admin.cancel(&json!({"requests": [key], "reason": "é".repeat(20_000)}));
    assert!(reply.requests[0].accepted);
    let reason = "é".repeat(512);
    let cancel = format!(r#"{{"requestId":1,"reason":"{reason}"}}"#);
    rig.server.expect(&notification("notifications/cancelled", &cancel));
    assert_eq!(error_of(&rig.client.receive(), "1")["data"]["receipt"]["reason"], reason);
}

#[test]
fn a_reason_goes_on_as_the_text_it_is() {
    let (mut rig, admin) = mcp(&[]);
    pass_to_server(&mut rig, &request("1", "tools/call"));
    let reason = "\"},\"id\":7,\u{1b}[2J\r\n</script>\u{202e}";
    admin.cancel(&json!({"requests": [admin.requests("")[0].key], "reason": reason}));
    let heard: serde_json::Value = serde_json::from_str(&rig.server.receive()).unwrap();
    assert_eq!((&heard["params"]["requestId"], heard["params"]["reason"].as_str()), (&json!(1), Some(reason)));
    assert_eq!(error_of(&rig.client.receive(), "1")["data"]["receipt"]["reason"], reason);
    expect_well(&mut rig, &admin);
}

/// The silent ones leave, the longest silent first; who subscribes is silent and stays.
#[test]
fn silent_connections_keep_nobody_out() {
    let (mut rig, admin) = mcp(&[]);
    let mut subscriber = admin.subscribe(None);
    subscriber.until(|known| known.session.is_some());
    let mut silent: Vec<_> = (0..64).map(|_| admin.connect()).collect();
    for _ in 0..64 {
        expect_well(&mut rig, &admin);
        silent.push(admin.connect());
    }
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "the first had to go");
    silent.last().unwrap().set_nonblocking(true).unwrap();
    assert!(silent[127].read(&mut [0]).is_err(), "the last is still there");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    subscriber.until(|known| known.of("1").is_some());
    expect_well(&mut rig, &admin);
}

/// Nor does one that asked once and waits, or sends half a head.
#[test]
fn a_connection_without_a_request_is_closed() {
    let (mut rig, admin) = mcp(&[]);
    let said = ["", "GET /v1/ses", "GET /v1/session HTTP/1.1\r\nhost: x\r\n\r\n"];
    let waiting = said.map(|said| {
        let mut connection = admin.connect();
        connection.write_all(said.as_bytes()).unwrap();
        connection
    });
    for mut connection in waiting {
        // To its end, which the other side decides.
        connection.read_to_end(&mut Vec::new()).unwrap();
    }
    expect_well(&mut rig, &admin);
}

#[test]
fn no_more_than_16_subscribe_at_once() {
    let (mut rig, admin) = mcp(&[]);
    let mut subscribers: Vec<_> = (0..16).map(|_| admin.subscribe(None)).collect();
    admin.ask("GET", "/v1/events", "").expect_problem(429);
    pass_to_server(&mut rig, &request("1", "tools/call"));
    for subscriber in &mut subscribers {
        subscriber.until(|known| known.of("1").is_some());
    }
    expect_well(&mut rig, &admin);
}

/// Whoever leaves before it is answered was still counted as the first: the next must be told all the same.
#[test]
fn a_subscriber_that_leaves_at_once_takes_nothing_from_the_next() {
    let (mut rig, admin) = mcp(&[]);
    for _ in 0..4 {
        admin.connect().write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    }
    let mut subscriber = admin.subscribe(None);
    subscriber.until(|known| known.session.is_some());
    pass_to_server(&mut rig, &request("1", "tools/call"));
    subscriber.until(|known| known.of("1").is_some());
    expect_well(&mut rig, &admin);
}

#[test]
fn a_client_that_says_half_and_waits_holds_up_nobody() {
    let (mut rig, admin) = mcp(&[]);
    let mut halves = Vec::new();
    for half in ["GET /v1/ses", "POST /v1/cancel HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{\"requests\":"] {
        let mut stream = admin.connect();
        stream.write_all(half.as_bytes()).unwrap();
        halves.push(stream);
    }
    expect_well(&mut rig, &admin);
    // It is cut off at the end at the latest, and does not delay that.
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    for mut half in halves {
        let mut rest = Vec::new();
        let _ = half.read_to_end(&mut rest);
    }
}

/// A client that sends many requests on one connection and reads no answer, and subscribers that read nothing.
#[test]
fn who_reads_nothing_costs_bounded_memory() {
    let (mut rig, admin) = mcp(&[]);
    let mut held: Vec<_> = (0..8).map(|_| admin.connect()).collect();
    for stream in &mut held {
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    }
    let greedy = admin.connect();
    greedy.set_nonblocking(true).unwrap();
    while (&greedy).write(b"GET /v1/requests?state=all HTTP/1.1\r\nhost: x\r\n\r\n").is_ok() {}
    let mut other = admin.subscribe(None);
    for round in 0..100 {
        for n in 0..200 {
            let id = (round * 1000 + n + 1).to_string();
            rig.client.send(&request_with(&id, "tools/call", r#"{"name":"index","arguments":{"text":"hello"}}"#));
        }
        for _ in 0..200 {
            rig.server.receive();
        }
        for n in 0..200 {
            rig.server.send(&result(&(round * 1000 + n + 1).to_string(), "{}"));
        }
        for _ in 0..200 {
            rig.client.receive();
        }
    }
    let peak = peak_memory(rig.shim.id);
    assert!(peak < 64 << 20, "{peak} bytes");
    // Who is back is given everything anew, or goes on.
    pass_to_server(&mut rig, &request("\"last\"", "tools/call"));
    other.until(|known| known.of("\"last\"").is_some());
    rig.server.exit(0);
    rig.shim.expect_exit(0);
}

#[test]
fn who_was_too_slow_is_given_a_snapshot() {
    let (mut rig, admin) = mcp(&[]);
    let mut slow = admin.subscribe(None);
    let mut quick = admin.subscribe(None);
    slow.until(|known| known.last.is_some());
    quick.until(|known| known.last.is_some());
    // Errors are told one by one, and long ids make long records: a megabyte is soon full, and what sockets hold.
    for round in 0..16 {
        let ids: Vec<_> = (0..500).map(|n| format!("\"{round}-{n}-{}\"", "x".repeat(300))).collect();
        for id in &ids {
            pass_to_server(&mut rig, &request(id, "tools/call"));
            pass_to_client(&mut rig, &error(id, -32000, "no"));
        }
        quick.until(|known| ids.iter().all(|id| known.requests.values().any(|request| request.id == *id)));
        quick.requests.clear();
    }
    pass_to_server(&mut rig, &request("\"mark\"", "tools/call"));
    let mut snapshots = 0;
    while slow.of("\"mark\"").is_none() {
        snapshots += usize::from(matches!(slow.event(), Some(Event::Snapshot(_))));
    }
    assert!(snapshots > 0);
}

#[test]
fn a_hundred_thousand_requests_in_flight_are_listed_in_parts() {
    const MANY: usize = 100_000;
    let (mut rig, admin) = mcp(&["--max-in-flight", "200000"]);
    let before = peak_memory(rig.shim.id);
    let mut subscriber = admin.subscribe(None);
    subscriber.until(|known| known.session.is_some());
    for start in (0..MANY).step_by(500) {
        let calls: Vec<_> = (start..start + 500).map(|id| request(&id.to_string(), "tools/call")).collect();
        rig.client.send_together(&calls.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in 0..500 {
            rig.server.receive();
        }
    }
    let listing: Listing = admin.get("/v1/requests");
    assert_eq!((listing.requests.len(), listing.more), (1000, MANY as u64 - 1000));
    assert_eq!(listing.requests[0].id, "0", "the oldest first");
    let listing: Listing = admin.get("/v1/requests?limit=3");
    assert_eq!((listing.requests.len(), listing.more), (3, MANY as u64 - 3));
    let last = &listing.requests[2];
    let next: Listing = admin.get(&format!("/v1/requests?limit=3&cancelled=no&after={},{}", last.since, last.key));
    let ids: Vec<_> = next.requests.iter().map(|request| request.id.as_str()).collect();
    assert_eq!((ids.as_slice(), next.more), (&["3", "4", "5"][..], MANY as u64 - 6));
    assert_eq!(admin.requests("cancelled=yes").len(), 0);
    let newest = (MANY - 1).to_string();
    let found = admin.requests(&format!("id={newest}"));
    assert_eq!(found.len(), 1);
    let mut late = admin.subscribe(None);
    let Some(Event::Snapshot(snapshot)) = late.event() else { panic!("no snapshot") };
    assert_eq!((snapshot.requests.len(), snapshot.in_flight), (1001, MANY as u64), "and the handshake");
    assert!(admin.cancel(&json!({"requests": [found[0].key]})).requests[0].accepted);
    assert_eq!(error_of(&rig.client.receive(), &newest)["code"], -31003);
    rig.server.receive();
    expect_well(&mut rig, &admin);
    pass_to_client(&mut rig, &result("7", "{}"));
    let grown = peak_memory(rig.shim.id) - before;
    assert!(grown < 120 << 20, "{grown} bytes");
}

/// What does not fit into one event is told in the next.
#[test]
fn every_request_in_flight_is_told_of() {
    let (mut rig, admin) = mcp(&[]);
    let mut subscriber = admin.subscribe(None);
    subscriber.until(|known| known.session.is_some());
    let calls: Vec<_> = (1..=1800).map(|id| request(&id.to_string(), "tools/call")).collect();
    rig.client.send_together(&calls.iter().map(String::as_str).collect::<Vec<_>>());
    for _ in 0..1800 {
        rig.server.receive();
    }
    subscriber.until(|known| known.requests.len() > 1800);
    for id in 1..=1800 {
        pass_to_client(&mut rig, &result(&id.to_string(), "{}"));
    }
    let ended = |known: &shim::admin::Subscriber| known.requests.values().all(|known| known.state == State::Ended);
    subscriber.until(ended);
    assert_eq!(subscriber.brief, 0, "what was told to be in flight is told to have ended");
}

/// Beyond what anybody can read, requests without a story are counted.
#[test]
fn a_busy_link_is_told_of_in_numbers() {
    let (mut rig, admin) = mcp(&[]);
    let mut subscriber = admin.subscribe(None);
    subscriber.until(|known| known.session.is_some());
    for start in (1..3000).step_by(300) {
        let calls: Vec<_> = (start..start + 300).map(|id| request(&id.to_string(), "tools/call")).collect();
        let answers: Vec<_> = (start..start + 300).map(|id| result(&id.to_string(), "{}")).collect();
        rig.client.send_together(&calls.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in 0..300 {
            rig.server.receive();
        }
        rig.server.send_together(&answers.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in 0..300 {
            rig.client.receive();
        }
    }
    pass_to_server(&mut rig, &request("\"last\"", "tools/call"));
    subscriber.until(|known| known.of("\"last\"").is_some());
    let open = subscriber.requests.values().filter(|request| request.state != State::Ended).count();
    let told = subscriber.requests.len() as u64;
    assert_eq!((told + subscriber.brief, open), (3002, 1), "each is told of or counted, and the handshake");
}

#[test]
fn what_is_asked_while_the_session_ends_is_answered_or_refused() {
    let (mut rig, admin) = mcp(&[]);
    let mut asking = admin.connect();
    asking.write_all(b"GET /v1/session HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let answer = answer(asking);
    assert!(matches!(answer.status, 200 | 410 | 0), "{answer:?}");
}
