//! Who may ask, and for what: origin, host, token, path, method, types.

use http::Method;
use rescind_http::server::{Access, Hosts, HttpServerConfig, LinkInput, LocalAddress, ReplyKey};

use crate::{rig::*, shared};

/// A request that would be refused only for the lack of a session.
fn knock(rig: &mut Rig, headers: &[(&str, &str)]) -> u16 {
    let key = rig.post(headers, &call("1"));
    rig.read(key).status
}

#[test]
fn pages_of_other_origins_are_refused() {
    let mut rig = Rig::with(HttpServerConfig { origins: vec!["https://example.com".into()], ..config() });
    for (origin, status) in [
        ("https://example.com", 400),
        ("HTTPS://EXAMPLE.COM", 400),
        ("http://localhost", 400),
        ("http://localhost:5173", 400),
        ("http://127.0.0.1:80", 400),
        ("http://[::1]:9", 400),
        ("https://evil.example", 403),
        ("http://example.com", 403),
        ("https://example.com.evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("http://localhost:1@evil.example", 403),
        ("http://127.0.0.1.evil.example", 403),
        ("null", 403),
        ("", 403),
        ("localhost", 403),
        ("http://é", 403),
    ] {
        assert_eq!(knock(&mut rig, &[("origin", origin)]), status, "{origin}");
    }
    assert_eq!(knock(&mut rig, &[]), 400, "no page");
    rig.leaves_nothing();
}

#[test]
fn names_that_are_not_served_are_refused() {
    let hosts = Hosts::named(["localhost", "127.0.0.1", "[::1]"]);
    let mut rig = Rig::with(HttpServerConfig { hosts, ..config() });
    for (host, status) in [
        ("localhost", 400),
        ("LocalHost:8000", 400),
        ("127.0.0.1:8000", 400),
        ("[::1]:8000", 400),
        ("[::1]", 400),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("localhost:80:80", 403),
        ("localhost:x", 403),
        ("", 403),
        ("é", 403),
    ] {
        assert_eq!(knock(&mut rig, &[("host", host)]), status, "{host}");
    }
    assert_eq!(knock(&mut rig, &[]), 400, "HTTP/1.0 has none");
    for (uri, status) in [("http://evil.example/mcp", 403), ("http://localhost:1/mcp", 400)] {
        let key = rig.send(&Method::POST, uri, &[("host", "localhost")], &call("1"));
        assert_eq!(rig.read(key).status, status, "{uri}: the name in the request line counts");
    }
    rig.leaves_nothing();
}

/// What a request without a session is answered that names this host, and arrived at this address.
fn knock_at(rig: &mut Rig, host: &str, arrived_at: Option<&str>) -> Answer {
    let request = http::Request::post("/mcp").header("host", http::HeaderValue::from_bytes(host.as_bytes()).unwrap());
    let (mut head, ()) = request.body(()).unwrap().into_parts();
    if let Some(address) = arrived_at {
        head.extensions.insert(LocalAddress(address.parse().unwrap()));
    }
    let key = rig.server.handle_request(rig.now, &head, call("1").as_bytes());
    rig.read(key)
}

#[test]
fn a_server_that_was_told_no_names_goes_by_those_of_loopback_and_the_address_it_is_reached_at() {
    let mut rig = Rig::with(HttpServerConfig { hosts: HttpServerConfig::default().hosts, ..config() });
    let table = [
        ("localhost", None, true),
        ("LOCALHOST:8000", None, true),
        ("127.0.0.1", None, true),
        ("127.0.0.1:8000", None, true),
        ("127.8.9.1:80", None, true),
        ("[::1]", None, true),
        ("[::1]:8000", None, true),
        ("[0:0:0:0:0:0:0:1]:8000", None, true),
        ("[::ffff:127.0.0.1]", None, true),
        ("192.0.2.7", Some("192.0.2.7"), true),
        ("192.0.2.7:8000", Some("192.0.2.7"), true),
        ("192.0.2.7:8000", Some("::ffff:192.0.2.7"), true),
        ("[2001:db8::7]:8000", Some("2001:db8::7"), true),
        ("localhost", Some("192.0.2.7"), true),
        ("192.0.2.7", None, false),
        ("192.0.2.8", Some("192.0.2.7"), false),
        ("2001:db8::7", Some("2001:db8::7"), false),
        ("[192.0.2.7]", Some("192.0.2.7"), false),
        ("evil.example", None, false),
        ("evil.example:8000", Some("192.0.2.7"), false),
        ("localhost.evil.example", None, false),
        ("evil.localhost.example", None, false),
        ("127.0.0.1.evil.example", None, false),
        ("192.0.2.7.evil.example", Some("192.0.2.7"), false),
        ("localhost:1@evil.example", None, false),
        ("localhost:80:80", None, false),
        ("localhost:x", None, false),
        ("127.1", None, false),
        ("2130706433", None, false),
        ("0x7f.0.0.1", None, false),
        ("0.0.0.0", None, false),
        ("[::]", None, false),
        ("[::1", None, false),
        ("", None, false),
        ("é", None, false),
    ];
    for (host, arrived_at, is_served) in table {
        let answer = knock_at(&mut rig, host, arrived_at);
        assert_eq!(answer.status, if is_served { 400 } else { 403 }, "{host} at {arrived_at:?}");
        let body = answer.body.unwrap();
        assert_eq!(body.contains("HttpServerConfig::hosts"), !is_served, "{body}");
    }
    rig.leaves_nothing();
    let mut rig = Rig::with(HttpServerConfig { hosts: Hosts::Any, ..config() });
    for (host, arrived_at, _) in table {
        assert_eq!(
            knock_at(&mut rig, host, arrived_at).status,
            400,
            "{host}: a server that was told so goes by any name"
        );
    }
    rig.leaves_nothing();
}

#[test]
fn without_the_token_nothing_is_served() {
    let mut rig = Rig::with(HttpServerConfig { access: Access::token("secret"), ..config() });
    for (authorization, status) in [
        ("Bearer secret", 400),
        ("bearer secret", 400),
        ("Bearer  secret", 401),
        ("Bearer secret2", 401),
        ("Bearer secre", 401),
        ("Bearer ", 401),
        ("Bearer", 401),
        ("Basic secret", 401),
        ("secret", 401),
        ("", 401),
    ] {
        assert_eq!(knock(&mut rig, &[("authorization", authorization)]), status, "{authorization:?}");
    }
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let key = rig.send(&method, "/mcp", &[], &call("1"));
        let answer = rig.read(key);
        assert_eq!(answer.status, 401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    rig.leaves_nothing();
}

#[test]
fn a_page_may_ask_what_it_may_do_before_it_has_a_token() {
    let mut rig = Rig::with(HttpServerConfig { access: Access::token("secret"), ..config() });
    let preflight = |rig: &mut Rig, origin: &str| -> ReplyKey {
        rig.send(&Method::OPTIONS, "/mcp", &[("origin", origin), ("access-control-request-method", "POST")], "")
    };
    let key = preflight(&mut rig, "http://localhost:3000");
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.body.as_deref()), (204, Some("")));
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:3000"));
    let headers = answer.header("access-control-allow-headers").unwrap();
    for header in
        ["authorization", "content-type", "last-event-id", "mcp-method", "mcp-protocol-version", "mcp-session-id"]
    {
        assert!(headers.contains(header), "{header}");
    }
    assert_eq!(answer.header("access-control-allow-methods"), Some("POST, GET, DELETE"));
    let key = preflight(&mut rig, "https://evil.example");
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None));
    rig.leaves_nothing();
}

#[test]
fn a_page_may_read_what_it_needs() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post(&[("origin", "http://localhost:3000"), ("mcp-session-id", &client.id)], &call("1"));
    rig.pass_millis(100);
    let answer = rig.read(key);
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:3000"));
    assert!(answer.header("access-control-expose-headers").unwrap().contains("mcp-session-id"));
    assert_eq!(answer.header("vary"), Some("origin"));
    rig.leaves_nothing();
}

#[test]
fn other_paths_and_methods_are_not_served() {
    let mut rig = Rig::new();
    for path in ["/", "/mcp/", "/MCP", "/sse", "/mcp2"] {
        let key = rig.send(&Method::POST, path, &[], &call("1"));
        assert_eq!(rig.read(key).status, 404, "{path}");
    }
    let key = rig.send(&Method::POST, "/mcp?x=1", &[], &call("1"));
    assert_eq!(rig.read(key).status, 400, "what is behind the path says nothing");
    for method in [Method::PUT, Method::PATCH, Method::HEAD, Method::TRACE, Method::CONNECT] {
        let key = rig.send(&method, "/mcp", &[], "");
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST, GET, DELETE")), "{method}");
    }
    rig.leaves_nothing();
    let mut rig = Rig::with(HttpServerConfig { path: None, ..config() });
    let key = rig.send(&Method::POST, "/anything", &[], &call("1"));
    assert_eq!(rig.read(key).status, 400);
    rig.leaves_nothing();
}

#[test]
fn the_body_must_be_json() {
    let mut rig = Rig::new();
    for (content, status) in [
        (Some("application/json"), 400),
        (Some("application/json; charset=utf-8"), 400),
        (Some("Application/JSON"), 400),
        (None, 400),
        (Some("text/plain"), 415),
        (Some("application/json-patch+json"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (Some(""), 415),
        (Some("é"), 415),
    ] {
        let headers: Vec<_> = content.map(|content| ("content-type", content)).into_iter().collect();
        let key = rig.send(&Method::POST, "/mcp", &headers, &call("1"));
        assert_eq!(rig.read(key).status, status, "{content:?}");
    }
    rig.leaves_nothing();
}

#[test]
fn a_get_must_take_events() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    for (accept, status) in [("text/event-stream", 200), ("*/*", 200), ("application/json", 406)] {
        let key = rig.send(&Method::GET, "/mcp", &[("accept", accept), ("mcp-session-id", &client.id)], "");
        assert_eq!(rig.read(key).status, status, "{accept}");
    }
    let key = rig.send(&Method::GET, "/mcp", &[("accept", "text/event-stream")], "");
    assert_eq!(rig.read(key).status, 400, "no session");
    rig.leaves_nothing();
}

#[test]
fn a_program_that_has_no_use_for_callers_gets_none() {
    for passes_callers in [true, false] {
        let mut rig = Rig::with(HttpServerConfig { passes_callers, ..shared::shared() });
        let (link, client, _) = shared::pair(&mut rig);
        rig.post_to(&client, &call("1"));
        match rig.server.poll_input(link) {
            Some(LinkInput::Request(..)) => assert!(passes_callers),
            Some(LinkInput::Message(_)) => assert!(!passes_callers),
            other => panic!("{other:?}"),
        }
    }
}
