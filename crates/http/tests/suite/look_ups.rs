//! How often a POSTed call asks a table by key, from its head to its answer. What h2 calls a pointer to an entry: it is
//! looked up once, and passed down.

use http::Request;
use rescind_http::server::{HttpServerConfig, LinkInput, LinkKey, Stateless, look_ups};

use crate::{rig::*, shared};

/// The look-ups of one call, with all that its driver does for it.
fn of_call(rig: &mut Rig, link: LinkKey, headers: &[(&str, &str)], body: &str) -> u64 {
    rig.at(link);
    let mut request = Request::post("/mcp").header("content-type", "application/json").header("accept", "*/*");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).unwrap().into_parts();

    let (server, now) = (&mut rig.server, rig.now);
    let before = look_ups();
    let key = server.handle_request(now, &head, body.as_bytes());
    let received = server.poll_input(link);
    let posted = look_ups() - before;
    let Some(LinkInput::Message(line) | LinkInput::Request(line, _)) = received else { panic!("{received:?}") };
    let id = shared::id_of(str::from_utf8(&line).unwrap());

    let before = look_ups();
    server.handle_message(now, link, result_of(&id, "done").as_bytes());
    let response = server.poll_head(now, key).expect("it is answered");
    let answered = look_ups() - before;
    assert_eq!(response.status(), 200);
    posted + answered
}

#[test]
fn a_posted_call_makes_few_look_ups_by_key() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let own = of_call(&mut rig, client.link, &[("mcp-session-id", &client.id)], &call("1"));

    let mut rig = Rig::with(shared::shared());
    let (link, client, _) = shared::pair(&mut rig);
    let shared = of_call(&mut rig, link, &[("mcp-session-id", &client.id)], &call("1"));

    let mut rig = Rig::with(HttpServerConfig { stateless: Stateless::Served, ..config() });
    let first = rig.post_modern(&modern_call("0"));
    let link = rig.shared();
    rig.at(link);
    rig.answer(link, "1", "done");
    rig.read(first);
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "slow")];
    let modern = of_call(&mut rig, link, &headers, &modern_call("1").to_string());

    assert!(
        own <= 15 && shared <= 15 && modern <= 13,
        "{own} with a child of its own, {shared} shared, {modern} without session"
    );
}
