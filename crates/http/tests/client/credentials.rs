//! To whom a message belongs: it is sent under those credentials and no others, however late.

use http::{HeaderValue, Method};
use rescind_http::client::HttpClientNotice;

use crate::rig::*;

fn set(rig: &mut Rig, who: &str) {
    rig.client.set_credentials((!who.is_empty()).then(|| HeaderValue::from_str(who).unwrap()));
}

#[test]
fn a_message_carries_the_credentials_of_the_moment_when_it_was_said() {
    for modern in [false, true] {
        let mut rig = if modern { Rig::new() } else { Rig::in_session(LEGACY) };
        let call = |id| if modern { modern_call(id) } else { call(id) };
        for (at, who) in ["ann", "bob", "", "ann"].into_iter().enumerate() {
            set(&mut rig, who);
            rig.say(&call(at + 10));
        }
        set(&mut rig, "eve");
        let sent = rig.sent();
        let people: Vec<_> = sent.iter().map(|sent| sent.header("authorization").unwrap_or_default()).collect();
        assert_eq!(people, ["ann", "bob", "", "ann"]);
        assert!(!format!("{sent:?} {:?}", rig.client).contains("ann"), "it is shown");
    }
}

/// Until the server has given the session's id, messages wait; and those before a change of hands stay whose they are.
#[test]
fn what_waits_for_the_session_is_sent_as_what_it_was() {
    let mut rig = Rig::new();
    set(&mut rig, "ann");
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    assert_eq!(post.header("authorization"), Some("ann"));
    rig.say(&call(1));
    rig.say(r#"{"jsonrpc":"2.0","method":"notifications/ann"}"#);
    set(&mut rig, "bob");
    rig.say(&call(2));
    rig.json(post.key, 200, &[("mcp-session-id", "s1")], &initialized(0, LEGACY));
    let people: Vec<_> = rig.sent().iter().map(|sent| sent.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(people.len(), 3);
    assert_eq!(people.iter().filter(|who| *who == "ann").count(), 2);
}

/// A session that the server has forgotten is opened again by whoever speaks now, and what was refused stays whose it is.
#[test]
fn what_is_sent_again_stays_whose_it_is() {
    let mut rig = Rig::in_session(LEGACY);
    set(&mut rig, "ann");
    rig.say(&call(1));
    let post = rig.sent_one();
    set(&mut rig, "bob");
    rig.answer(post.key, 404, &[], "");
    let again = rig.sent_one();
    assert_eq!((again.message_method().as_str(), again.header("authorization")), ("initialize", Some("bob")));
    set(&mut rig, "");
    rig.json(again.key, 200, &[("mcp-session-id", "s2")], &initialized(0, LEGACY));
    let greeting = rig.sent_one();
    assert_eq!(greeting.header("authorization"), None);
    rig.accept(greeting.key);
    let sent = rig.sent();
    let call = sent.iter().find(|sent| sent.method == Method::POST).unwrap();
    assert_eq!((call.message_method().as_str(), call.header("authorization")), ("tools/call", Some("ann")));
}

#[test]
fn a_notification_that_did_not_arrive_is_sent_again_as_what_it_was() {
    let mut rig = Rig::in_session(LEGACY);
    set(&mut rig, "ann");
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.say(&cancel(1));
    let post = rig.sent_one();
    set(&mut rig, "bob");
    rig.answer(post.key, 503, &[], "");
    rig.pass_to_timer();
    let again = rig.sent_one();
    assert_eq!(
        (again.message_method().as_str(), again.header("authorization")),
        ("notifications/cancelled", Some("ann"))
    );
}

#[test]
fn a_redirect_keeps_them_at_home_and_takes_them_nowhere_else() {
    let mut rig = Rig::new();
    set(&mut rig, "ann");
    rig.say(&modern_call(1));
    let post = rig.sent_one();
    set(&mut rig, "bob");
    rig.answer(post.key, 307, &[("location", "/there")], "");
    let there = rig.sent_one();
    assert_eq!(there.header("authorization"), Some("ann"));
    rig.answer(there.key, 307, &[("location", "https://other.test/")], "");
    assert_eq!(rig.sent_one().header("authorization"), None);
}

/// A token may have been refreshed since the stream began.
#[test]
fn a_stream_is_resumed_under_the_newest() {
    let mut rig = Rig::in_session(LEGACY);
    set(&mut rig, "old");
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.event_with_id(post.key, "e1", &progress(1));
    rig.fail(post.key, "reset");
    rig.pass_to_timer();
    let get = rig.sent_one();
    assert_eq!(get.header("authorization"), Some("old"));
    // The old one has expired. It is asked for again.
    rig.answer(get.key, 401, &[("www-authenticate", "Bearer")], "");
    assert!(rig.heard().iter().all(|heard| heard["id"].is_null()), "the call goes on");
    set(&mut rig, "new");
    rig.pass_to_timer();
    let get = rig.sent_one();
    assert_eq!((get.header("last-event-id"), get.header("authorization")), (Some("e1"), Some("new")));
    rig.stream(get.key);
    rig.event(get.key, &result(1));
    assert_eq!(rig.heard_one(), result(1));
}

#[test]
fn what_the_settings_say_stands_in_place_of_all() {
    let mut rig = Rig::with(config().header("Authorization: house").unwrap());
    for who in ["ann", ""] {
        set(&mut rig, who);
        rig.say(&modern_call(who));
        let post = rig.sent_one();
        assert_eq!(post.headers.get_all("authorization").iter().collect::<Vec<_>>(), ["house"]);
    }
}

#[test]
fn a_notification_that_is_refused_is_reported_in_words() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    let post = rig.sent_one();
    rig.answer(post.key, 401, &[("www-authenticate", "Bearer")], "");
    let why = "401 Unauthorized".into();
    assert_eq!(rig.notices(), [HttpClientNotice::NotAccepted { method: "notifications/x".into(), why }]);
}
