//! Who is turned away.

use std::io::{Read, Write};

use rescind_testkit::fake_shim::request;

use super::rig::{Answer, Rig};

/// What every answer says to the browser, whoever asked for whatever.
pub(super) fn check_headers(answer: &Answer) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
    }
    let policy = answer.header("content-security-policy").unwrap();
    for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn nothing_is_told_without_the_key() {
    let rig = Rig::new();
    let shim = rig.shim("4711");
    shim.put([request(1, "tools/call", Some("secret-tool"), 0)]);
    let almost = format!("/{}x/events", &rig.key[..31]);
    let shorter = format!("/{}/events", &rig.key[..31]);
    for path in ["/", "/events", "/metrics", "/favicon.ico", "/console.js", "//", "/x/", &almost, &shorter, "/?token="]
    {
        let answer = rig.read(path, &[]);
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.body.contains("rescind console"), "{}", answer.body);
        for secret in [&rig.key, &rig.token, "secret-tool", "4711"] {
            assert!(!answer.body.contains(secret) && !format!("{:?}", answer.headers).contains(secret), "{answer:?}");
        }
        check_headers(&answer);
    }
}

#[test]
fn a_link_works_once_and_leads_to_the_page() {
    let rig = Rig::new();
    let link = format!("/?token={}", rig.token);
    for wrong in ["/?token=00000000000000000000000000000000", "/?token=", "/?x=1", "/x?token=1"] {
        assert_eq!(rig.read(wrong, &[]).status, 403, "{wrong}");
    }
    // None of these spends it: no wrong one, no other method, no browser that looks ahead, no other site.
    assert_eq!(rig.ask("HEAD", &link, &rig.with_host(&[]), b"").status, 403);
    assert_eq!(rig.ask("POST", &link, &rig.with_host(&[]), b"").status, 403);
    assert_eq!(rig.read(&link, &["Sec-Purpose: prefetch;prerender"]).status, 403);
    assert_eq!(rig.read(&link, &["Sec-Fetch-Site: cross-site"]).status, 403);
    let first = rig.read(&link, &["Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"]);
    assert_eq!((first.status, first.header("location")), (303, Some(rig.inside("").as_str())));
    check_headers(&first);
    let again = rig.read(&link, &[]);
    assert_eq!(again.status, 403);
    assert!(again.body.contains("has been used"), "{}", again.body);
    let page = rig.read(&rig.inside(""), &["Sec-Fetch-Site: none"]);
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    check_headers(&page);
}

#[test]
fn a_name_that_was_made_to_mean_this_machine_is_turned_away() {
    let rig = Rig::new();
    let port = rig.port;
    let inside = rig.inside("");
    let ask = |headers: &[String]| rig.ask("GET", &inside, headers, b"");
    for host in [
        "evil.example".into(),
        format!("evil.example:{port}"),
        "127.0.0.1".into(),
        "127.0.0.1:1".into(),
        format!("127.0.0.1.evil.example:{port}"),
        format!("[::1]:{port}"),
        format!("0.0.0.0:{port}"),
        format!("localhost:{port}:{port}"),
    ] {
        let answer = ask(&[format!("Host: {host}")]);
        assert_eq!(answer.status, 421, "{host}");
        check_headers(&answer);
    }
    assert_eq!(ask(&[format!("Host: localhost:{port}")]).status, 200);
    assert_eq!(ask(&[]).status, 421);
    let twice = [format!("Host: 127.0.0.1:{port}"), "Host: evil.example".into()];
    assert!(matches!(ask(&twice).status, 400 | 421));
}

#[test]
fn a_page_of_another_origin_is_turned_away_even_with_the_key() {
    let rig = Rig::new();
    let shim = rig.shim("4711");
    shim.put([request(1, "tools/call", None, 0)]);
    let port = rig.port;
    for foreign in [
        "Origin: http://evil.example".into(),
        "Origin: null".into(),
        "Origin: http://127.0.0.1".into(),
        "Origin: http://127.0.0.1:1".into(),
        format!("Origin: https://127.0.0.1:{port}"),
        format!("Origin: http://localhost:{port}"),
        "Sec-Fetch-Site: cross-site".into(),
        "Sec-Fetch-Site: same-site".into(),
    ] {
        let headers = rig.with_host(&["Content-Type: application/json", &foreign]);
        let order = rig.inside("sessions/4711/cancel");
        for (method, path, body) in [("POST", &order, &b"{\"requests\":[\"c1\"]}"[..]), ("GET", &rig.inside(""), b"")] {
            let answer = rig.ask(method, path, &headers, body);
            assert_eq!(answer.status, 403, "{foreign}");
            check_headers(&answer);
        }
    }
    let own = format!("Origin: http://127.0.0.1:{port}");
    assert_eq!(rig.read(&rig.inside(""), &[&own, "Sec-Fetch-Site: same-origin"]).status, 200);
    assert!(shim.request("c1").is_some_and(|request| request.cancel.is_none()));
}

#[test]
fn an_order_to_cancel_is_json_of_bounded_length() {
    let rig = Rig::new();
    let shim = rig.shim("4711");
    shim.put([request(1, "tools/call", None, 0)]);
    let path = rig.inside("sessions/4711/cancel");
    let order = br#"{"requests":["c1"]}"#;
    // What a form of another site could send without asking.
    for kind in ["Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded", "X-Other: 1"] {
        assert_eq!(rig.ask("POST", &path, &rig.with_host(&[kind]), order).status, 415, "{kind}");
    }
    let reason = "x".repeat(1 << 20);
    let long = format!(r#"{{"requests":["c1"],"reason":"{reason}"}}"#);
    let answer = rig.post("sessions/4711/cancel", long.as_bytes());
    assert!(matches!(answer.status, 413 | 0), "{answer:?}");
    assert_eq!(rig.post("sessions/4711/cancel", b"{\"requests\":17}").status, 400);
    assert_eq!(rig.post("sessions/4711/cancel", b"").status, 400);
    assert_eq!(rig.post("sessions/4712/cancel", order).status, 404);
    assert_eq!(rig.post("sessions/..%2F4711/cancel", order).status, 404);
    assert_eq!(rig.post("sessions/4711/requests/c1", order).status, 405);
    assert!(shim.request("c1").is_some_and(|request| request.cancel.is_none()));
    let answer = rig.post("sessions/4711/cancel", br#"{"requests":["c1","c2"],"reason":"<b>why</b>\u001b[2J"}"#);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    check_headers(&answer);
    let reply: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(reply["requests"][0]["accepted"], true);
    assert_eq!(reply["requests"][1]["accepted"], false);
    let ordered = shim.wait_for(|seen| seen.orders.first().cloned());
    assert_eq!(ordered.reason.as_deref(), Some("<b>why</b>\u{1b}[2J"));
}

#[test]
fn an_order_to_end_a_server_is_guarded_as_a_cancel_is() {
    let rig = Rig::new();
    let shim = rig.shim("4711");
    let started = rescind_testkit::fake_shim::session("4711", &[]).started;
    let order = format!(r#"{{"started":{started}}}"#);
    let path = rig.inside("sessions/4711/end");
    for kind in ["Content-Type: text/plain", "X-Other: 1"] {
        assert_eq!(rig.ask("POST", &path, &rig.with_host(&[kind]), order.as_bytes()).status, 415, "{kind}");
    }
    let json = "Content-Type: application/json";
    let foreign = rig.with_host(&[json, "Origin: http://evil.example"]);
    assert_eq!(rig.ask("POST", &path, &foreign, order.as_bytes()).status, 403);
    assert_eq!(rig.ask("POST", "/nokey/sessions/4711/end", &rig.with_host(&[json]), order.as_bytes()).status, 403);
    assert_eq!(rig.read(&path, &[]).status, 404);
    assert_eq!(rig.post("sessions/4711/end", b"{}").status, 400);
    assert_eq!(rig.post("sessions/4711/end", br#"{"started":1}"#).status, 409, "another session of that name");
    assert_eq!(rig.post("sessions/4712/end", order.as_bytes()).status, 404);
    assert!(shim.wait_for(|seen| Some(seen.ends.is_empty())));
    let answer = rig.post("sessions/4711/end", order.as_bytes());
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"accepted":true}"#));
    check_headers(&answer);
    assert_eq!(shim.wait_for(|seen| Some(seen.ends.len())), 1);
}

#[test]
fn details_are_json_whatever_they_hold() {
    let rig = Rig::new();
    let shim = rig.shim("4711");
    let mut harmful = request(1, "</script><script>alert(1)</script>", None, 0);
    harmful.key = "a/b c?%".into();
    shim.put([harmful]);
    let answer = rig.read(&rig.inside("sessions/4711/requests/a%2Fb%20c%3F%25"), &[]);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert!(answer.body.contains("alert(1)"));
    check_headers(&answer);
    assert_eq!(rig.read(&rig.inside("sessions/4711/requests/none"), &[]).status, 404);
    assert_eq!(rig.read(&rig.inside("sessions/4711/requests/%ff"), &[]).status, 400);
    assert_eq!(rig.read(&rig.inside("sessions/4712/requests/c1"), &[]).status, 404);
    assert_eq!(rig.read(&rig.inside("../etc/passwd"), &[]).status, 404);
    assert_eq!(rig.ask("DELETE", &rig.inside(""), &rig.with_host(&[]), b"").status, 405);
}

#[test]
fn a_shim_that_is_stopped_is_told_of_as_such() {
    let rig = Rig::new();
    let shim = rig.shim("4711");
    shim.freeze();
    let answer = rig.post("sessions/4711/cancel", br#"{"requests":["c1"]}"#);
    assert_eq!(answer.status, 504);
    assert!(answer.body.contains("not answering"), "{}", answer.body);
    drop(shim);
    assert_eq!(rig.post("sessions/4711/cancel", br#"{"requests":["c1"]}"#).status, 404);
}

#[test]
fn heads_and_connections_are_bounded_and_what_exceeds_them_harms_nobody() {
    let rig = Rig::new();
    let long = format!("X-Long: {}", "x".repeat(200 << 10));
    assert!(matches!(rig.read(&rig.inside(""), &[&long]).status, 431 | 0));
    let many: Vec<String> = (0..200).map(|n| format!("X-{n}: 1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(matches!(rig.read(&rig.inside(""), &many).status, 431 | 0));
    assert_eq!(rig.read(&rig.inside(""), &[]).status, 200);
    // As many as there may be, none of which says anything; one more is closed.
    let mut idle: Vec<_> = (0..128).map(|_| rig.connect()).collect();
    let mut one_more = rig.connect();
    let _ = one_more.write_all(b"GET / HTTP/1.1\r\n\r\n");
    assert!(matches!(one_more.read(&mut [0; 64]), Ok(0) | Err(_)));
    // The end of one of them is seen by the server before its place is free: the others are waited for.
    idle.clear();
    let served = std::iter::repeat_with(|| rig.read(&rig.inside(""), &[]).status).find(|status| *status != 0);
    assert_eq!(served, Some(200));
}

#[test]
fn the_directory_is_judged_at_every_look() {
    use std::os::unix::fs::PermissionsExt;
    let rig = Rig::new();
    let shim = rig.shim("4711");
    shim.put([request(1, "tools/call", None, 0)]);
    std::fs::set_permissions(rig.sockets(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let answer = rig.post("sessions/4711/cancel", br#"{"requests":["c1"]}"#);
    assert_eq!(answer.status, 502);
    assert!(
        answer.body.contains("open to other users")
            && answer.body.contains("close it to others (chmod 700); if not, set RESCIND_RUNTIME_DIR to "),
        "{}",
        answer.body
    );
    assert!(shim.request("c1").is_some_and(|request| request.cancel.is_none()));
}
