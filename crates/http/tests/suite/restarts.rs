//! A program that clients share and that ends by itself: everybody is answered, and sessions go on with the next one.

use std::time::Duration;

use http::Method;
use rescind_http::server::{HttpServerConfig, LinkKey, Stateless};
use serde_json::{Value, json};

use crate::{rig::*, shared::*};

/// The program of the link that was opened last shakes hands; what it is told then.
fn shakes_again(rig: &mut Rig, result: &str) -> (LinkKey, Vec<String>) {
    let (link, id) = asked(rig);
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    let told = rig.at(link);
    assert_eq!(told[0], r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    (link, told[1..].to_vec())
}

fn method(message: &str) -> String {
    serde_json::from_str::<Value>(message).unwrap()["method"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_in_flight_is_answered_and_sessions_go_on_with_the_next_program() {
    let mut rig = Rig::with(shared());
    let (link, first, second) = pair(&mut rig);
    let keys = [&first, &second].map(|client| rig.post_to(client, &call("1")));
    let listening = rig.listen(&first);
    rig.close(link);
    for key in keys {
        assert_eq!(rig.whole(key, 200), gone("1"));
    }
    assert!(!rig.read(listening).has_ended);
    // It waits until the program is there, and one that is cancelled meanwhile never reaches it.
    let waits = rig.post_to(&first, &call("1"));
    let withdrawn = rig.post_to(&second, &call("2"));
    let cancel = rig.post_to(&second, &cancel("2"));
    assert_eq!(rig.read(cancel).header("rescind-cancel"), Some("stopped"));
    assert!(rig.read(withdrawn).has_ended);
    let (next, told) = shakes_again(&mut rig, &greeting(LEGACY));
    assert_ne!(next, link);
    let [only] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*only, call(&id_of(only)));
    rig.answer(next, &id_of(only), "done");
    assert_eq!(rig.whole(waits, 200), result_of("1", "done"));
    rig.say(next, &note("to all"));
    assert_eq!(rig.read(listening).messages(), [note("to all")]);
    assert_eq!(rig.server.census(next).restarts, 1);
    rig.end();
}

#[test]
fn the_next_program_is_told_what_the_one_before_it_knew() {
    let mut rig = Rig::with(shared());
    let (link, first, second) = pair(&mut rig);
    for (client, uri) in [(&first, "file:///a"), (&second, "file:///a"), (&second, "file:///b")] {
        rig.post_to(client, &about("1", "subscribe", uri));
        let id = id_of(&rig.at(link)[0]);
        rig.answer(link, &id, "");
    }
    rig.post_to(&first, r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}"#);
    rig.at(link);
    rig.close(link);
    let (next, told) = shakes_again(&mut rig, &greeting(LEGACY));
    let told: Vec<Value> = told.iter().map(|message| serde_json::from_str(message).unwrap()).collect();
    let told: Vec<_> = told.iter().map(|message| (&message["method"], &message["params"])).collect();
    assert_eq!(
        told,
        [
            (&json!("resources/subscribe"), &json!({"uri": "file:///a"})),
            (&json!("resources/subscribe"), &json!({"uri": "file:///b"})),
            (&json!("logging/setLevel"), &json!({"level": "debug"})),
        ]
    );
    assert_ne!(next, link);
    rig.end();
}

#[test]
fn sessions_of_a_program_that_comes_back_as_another_are_answered_and_end() {
    let mut rig = Rig::with(shared());
    let (link, first, second) = pair(&mut rig);
    rig.close(link);
    let waits = rig.post_to(&first, &call("1"));
    let joins = rig.post(&[], &initialize("1", LEGACY));
    let other = greeting(LEGACY).replace(r#""x":1"#, r#""x":2"#);
    let (_, told) = shakes_again(&mut rig, &other);
    assert_eq!(told, [""; 0]);
    assert_eq!(rig.read(waits).code(), -31002);
    for client in [&first, &second] {
        let key = rig.post_to(client, &call("2"));
        assert_eq!(rig.read(key).status, 404);
    }
    assert_eq!(rig.read(joins).json()["result"]["capabilities"]["x"], 2);
    rig.end();
}

#[test]
fn one_that_does_not_stay_is_started_later_and_later_and_requests_are_refused_meanwhile() {
    let mut rig = Rig::with(shared());
    let (mut link, first, _) = pair(&mut rig);
    for seconds in [0_u64, 1, 2, 4, 8] {
        rig.close(link);
        let opened = rig.opened.len();
        if seconds > 0 {
            assert_eq!(rig.shared(), link, "it is not started yet");
            rig.pass(Duration::from_secs(seconds) - Duration::from_millis(1));
            assert_eq!(rig.shared(), link, "{seconds}");
            rig.pass_millis(1);
            assert_eq!(rig.opened.len(), opened + 1);
        }
        assert_ne!(rig.shared(), link);
        link = rig.shared();
        rig.at(link);
    }
    rig.close(link);
    let refused = rig.post_to(&first, &call("1"));
    let refused = rig.read(refused);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("17")));
    assert_eq!(refused.json()["id"], 1);
    let stranger = rig.post(&[], &initialize("1", LEGACY));
    assert_eq!(rig.read(stranger).status, 503);
    rig.pass(Duration::from_secs(15));
    let waits = rig.post_to(&first, &call("1"));
    rig.pass(Duration::from_secs(1));
    let (next, told) = shakes_again(&mut rig, &greeting(LEGACY));
    rig.answer(next, &id_of(&told[0]), "done");
    assert_eq!(rig.read(waits).messages(), [result_of("1", "done")]);
    rig.end();
}

#[test]
fn one_that_refuses_the_handshake_of_its_next_start_answers_who_waits_and_is_tried_again() {
    let mut rig = Rig::with(shared());
    let (link, first, _) = pair(&mut rig);
    rig.close(link);
    let waits = rig.post_to(&first, &call("1"));
    let (second, id) = asked(&mut rig);
    rig.say(second, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"not today"}}}}"#));
    assert_eq!(rig.read(waits).json()["error"]["message"], "not today");
    assert_eq!(rig.at(second), ["end"]);
    rig.pass(Duration::from_secs(1));
    let (third, told) = shakes_again(&mut rig, &greeting(LEGACY));
    assert_ne!(third, second);
    assert_eq!(told, [""; 0]);
    let key = rig.post_to(&first, &call("1"));
    let id = id_of(&rig.at(third)[0]);
    rig.answer(third, &id, "done");
    assert_eq!(rig.whole(key, 200), result_of("1", "done"));
    rig.end();
}

/// Sessions know what the program before it said, and what it was asked for.
#[test]
fn what_sessions_know_outlasts_a_program_that_refuses_the_handshake() {
    for (result, is_another) in [(greeting(LEGACY), false), (greeting(LEGACY).replace(r#""x":1"#, r#""x":2"#), true)] {
        let mut rig = Rig::with(shared());
        let (link, first, _) = pair(&mut rig);
        let subscribed = rig.post_to(&first, &about("1", "subscribe", "file:///a"));
        let id = id_of(&rig.at(link)[0]);
        rig.answer(link, &id, "");
        rig.read(subscribed);
        rig.close(link);
        let (second, id) = asked(&mut rig);
        rig.say(second, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"not today"}}}}"#));
        rig.pass(Duration::from_secs(1));
        let (_, told) = shakes_again(&mut rig, &result);
        let is_told = told.iter().any(|message| method(message) == "resources/subscribe");
        assert_ne!(is_told, is_another);
        let key = rig.post_to(&first, &call("2"));
        assert_eq!(rig.read(key).status, if is_another { 404 } else { 0 });
        rig.end();
    }
}

#[test]
fn a_session_that_ends_while_nothing_runs_leaves_nothing_to_start_for() {
    let mut rig = Rig::with(shared());
    let (link, first, second) = pair(&mut rig);
    rig.close(link);
    let next = rig.shared();
    rig.close(next);
    for client in [&first, &second] {
        let key = rig.delete(client);
        assert_eq!(rig.read(key).status, 204);
    }
    rig.end();
}

#[test]
fn the_program_of_requests_outside_a_session_is_not_started_for_each_of_them_either() {
    let mut rig = Rig::with(HttpServerConfig { stateless: Stateless::Served, ..config() });
    for _ in 0..4 {
        let key = rig.post_modern(&modern_call("1"));
        rig.pass(Duration::from_secs(2));
        let link = rig.shared();
        rig.close(link);
        assert_eq!(rig.read(key).messages(), [gone("1")]);
    }
    let opened = rig.opened.len();
    let refused: Vec<_> = (0..100).map(|_| rig.post_modern(&modern_call("1"))).collect();
    for key in refused {
        assert_eq!(rig.read(key).status, 503);
    }
    assert_eq!(rig.opened.len(), opened);
    rig.end();
}

/// The cancel of a request that the program has taken goes before all that it has not.
#[test]
fn a_flood_of_one_client_does_not_delay_the_cancel_of_another() {
    let mut rig = Rig::with(shared());
    let (link, flooder, quiet) = pair(&mut rig);
    let (_, known) = calls(&mut rig, &quiet, "1");
    for id in 0..1000 {
        rig.post_to(&flooder, &call(&id.to_string()));
    }
    rig.post_to(&quiet, &cancel("1"));
    let told = rig.at(link);
    assert_eq!((told.len(), &*told[0]), (1001, &*cancel(&known)));
    rig.end();
}

/// Neither do cancels: each request has one that goes before.
#[test]
fn cancels_that_are_repeated_wait_in_line() {
    let mut rig = Rig::with(shared());
    let (link, flooder, quiet) = pair(&mut rig);
    let (_, of_quiet) = calls(&mut rig, &quiet, "1");
    let (_, of_flooder) = calls(&mut rig, &flooder, "1");
    for _ in 0..1000 {
        rig.post_to(&flooder, &cancel("1"));
    }
    rig.post_to(&quiet, &cancel("1"));
    let told = rig.at(link);
    assert_eq!(told[..2], [cancel(&of_flooder), cancel(&of_quiet)]);
    rig.end();
}

#[test]
fn a_request_that_is_cancelled_while_it_waits_never_reaches_the_program() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    let cancel = rig.post_to(&client, &cancel("1"));
    assert_eq!(rig.read(cancel).header("rescind-cancel"), Some("stopped"));
    let answer = rig.read(key);
    assert!(answer.has_ended && answer.body.is_none_or(|body| body.is_empty()));
    let outside = rig.post_modern(&modern_call("1"));
    rig.hang_up(outside);
    let shared = rig.shared();
    assert_eq!((rig.at(client.link), rig.at(shared)), (vec![], vec![]));
    rig.end();
}

/// A handshake must not be cancelled (MCP-C03): it is not withdrawn, and its cancel stays behind it.
#[test]
fn a_cancel_of_a_handshake_that_waits_does_not_overtake_it() {
    let mut rig = Rig::new();
    let key = rig.post(&[], &initialize("1", LEGACY));
    let (link, session) = rig.opened.last().cloned().unwrap();
    let client = Client { id: session.unwrap().into(), link };
    rig.post_to(&client, &cancel("1"));
    let told: Vec<String> = rig.at(link).iter().map(|message| method(message)).collect();
    assert_eq!(told, ["initialize", "notifications/cancelled"]);
    rig.answer(link, "1", "done");
    assert_eq!(rig.read(key).status, 200);
    let gone = rig.send(&Method::DELETE, "/mcp", &[("mcp-session-id", &client.id)], "");
    assert_eq!(rig.read(gone).status, 204);
    rig.end();
}

#[test]
fn the_log_level_of_clients_who_have_left_is_not_told_to_a_later_program() {
    let mut rig = Rig::with(HttpServerConfig { idle: Duration::from_secs(60), ..shared() });
    let (link, first, second) = pair(&mut rig);
    rig.post_to(&first, r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}"#);
    rig.at(link);
    for client in [&first, &second] {
        rig.delete(client);
    }
    rig.pass(Duration::from_secs(120));
    assert_eq!(rig.at(link).last().map(String::as_str), Some("end"));
    let (next, ..) = pair(&mut rig);
    rig.close(next);
    let (_, told) = shakes_again(&mut rig, &greeting(LEGACY));
    assert_eq!(told, [""; 0]);
    rig.end();
}
