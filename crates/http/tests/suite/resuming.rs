//! A client that lost its connection comes back, and gets exactly what it has not got.

use std::time::Duration;

use http::Method;
use rescind_http::server::{BodyChunk, HttpServerConfig};
use serde_json::Value;

use crate::rig::*;

/// A stream in a session of the newest such revision, its client away after the primer.
fn away(rig: &mut Rig, client: &Client) -> String {
    let key = rig.post_to(client, &call_with_token("1", "7"));
    rig.at(client.link);
    rig.pass_millis(100);
    let last = rig.read(key).last_id().expect("a primer");
    rig.hang_up(key);
    last
}

/// Case 45.
#[test]
fn a_call_runs_on_when_its_client_hangs_up_and_its_answer_is_fetched() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let last = away(&mut rig, &client);
    rig.say(client.link, &progress("7", 1));
    rig.answer(client.link, "1", "done");
    assert_eq!(rig.at(client.link), [""; 0], "a hang-up is no cancel (MCP-H01)");
    let key = rig.come_back(&client, &last);
    let answer = rig.read(key);
    assert!(answer.is_stream() && answer.has_ended);
    assert_eq!(answer.messages(), [result_of("1", "done")], "progress would be read together with it (D62)");
    rig.leaves_nothing();
}

#[test]
fn a_client_that_comes_back_goes_on_behind_the_event_that_it_names() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    for number in 1..=4 {
        rig.say(client.link, &progress("7", number));
    }
    rig.read(key);
    rig.answer(client.link, "1", "done");
    let answer = rig.read(key);
    assert!(answer.has_ended);
    for (place, event) in answer.events.iter().enumerate() {
        let key = rig.come_back(&client, event.id.as_deref().unwrap());
        let again = rig.read(key);
        if place + 1 == answer.events.len() {
            assert_eq!(again.status, 405, "there is nothing more");
        } else {
            assert!(again.has_ended);
            assert_eq!(again.events, answer.events[place + 1..], "the same events, and no other");
        }
    }
    rig.leaves_nothing();
}

#[test]
fn a_client_may_come_back_before_its_loss_was_noticed() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let first = rig.post_to(&client, &call_with_token("1", "7"));
    rig.say(client.link, &progress("7", 1));
    let last = rig.read(first).last_id().unwrap();
    rig.say(client.link, &progress("7", 2));
    let second = rig.come_back(&client, &last);
    assert!(rig.read(first).has_ended, "its first response ends");
    rig.hang_up(first);
    rig.read(second);
    rig.answer(client.link, "1", "done");
    assert_eq!(rig.read(second).messages(), [progress("7", 2), result_of("1", "done")]);
    rig.leaves_nothing();
}

#[test]
fn a_stream_that_was_handed_out_and_lost_is_fetched_again() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    rig.say(client.link, &progress("7", 1));
    let last = rig.read(key).last_id().unwrap();
    rig.answer(client.link, "1", "done");
    assert!(rig.read(key).has_ended, "all of it was handed out, and lost on the way");
    for _ in 0..2 {
        let key = rig.come_back(&client, &last);
        assert_eq!(rig.read(key).messages(), [result_of("1", "done")]);
    }
    rig.leaves_nothing();
}

#[test]
fn ids_that_were_never_given_are_not_found() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let other = rig.session(LEGACY);
    let last = away(&mut rig, &client);
    let (stream, number) = last.split_once('-').unwrap();
    let number: u64 = number.parse().unwrap();
    rig.answer(client.link, "1", "done");
    for id in [
        format!("{stream}-{}", number + 100),
        format!("{stream}-0"),
        format!("{stream}-"),
        format!("99-{number}"),
        "x".to_owned(),
        format!("{stream}-18446744073709551616"),
        format!("{stream}--1"),
    ] {
        let key = rig.come_back(&client, &id);
        assert_eq!(rig.read(key).status, 405, "{id}");
    }
    let key = rig.come_back(&other, &last);
    assert_eq!(rig.read(key).status, 405, "another session's");
    let key = rig.come_back(&client, &last);
    assert_eq!(rig.read(key).messages(), [result_of("1", "done")]);
    rig.leaves_nothing();
}

#[test]
fn while_nobody_reads_the_newest_progress_of_each_request_says_all() {
    let mut rig = Rig::new();
    let client = rig.session("2025-03-26");
    let key = rig.post_to(&client, &format!("[{},{}]", call_with_token("1", "7"), call_with_token("2", "8")));
    rig.say(client.link, &progress("7", 1));
    let last = rig.read(key).last_id().unwrap();
    rig.hang_up(key);
    for number in 2..5 {
        rig.say(client.link, &progress("7", number));
    }
    for number in 2..5 {
        rig.say(client.link, &progress("8", number));
    }
    let key = rig.come_back(&client, &last);
    assert_eq!(rig.read(key).messages(), [progress("7", 4), progress("8", 4)]);
    rig.leaves_nothing();
}

#[test]
fn a_client_that_left_before_it_knew_of_the_stream_leaves_nothing() {
    for revision in ["2025-06-18", LEGACY] {
        let mut rig = Rig::new();
        let client = rig.session(revision);
        let key = rig.post_to(&client, &call("1"));
        rig.at(client.link);
        rig.hang_up(key);
        rig.say(client.link, &note("meanwhile"));
        rig.answer(client.link, "1", "done");
        assert_eq!(rig.at(client.link), [""; 0]);
        assert_eq!(rig.server.in_flight(), 0);
        let key = rig.listen(&client);
        assert_eq!(rig.read(key).messages(), [note("meanwhile")], "it belongs to no request");
        rig.leaves_nothing();
    }
}

#[test]
fn without_a_primer_the_first_message_gives_the_id_to_come_back_behind() {
    let mut rig = Rig::new();
    let client = rig.session("2025-06-18");
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    rig.pass_millis(100);
    let answer = rig.read(key);
    assert!(answer.is_stream() && answer.events.is_empty(), "this revision has no primer (MCP-H07)");
    rig.say(client.link, &progress("7", 1));
    let last = rig.read(key).last_id().unwrap();
    rig.hang_up(key);
    rig.answer(client.link, "1", "done");
    let key = rig.come_back(&client, &last);
    assert_eq!(rig.read(key).messages(), [result_of("1", "done")]);
    rig.leaves_nothing();
}

#[test]
fn what_ended_can_be_fetched_for_a_while_and_no_longer() {
    let within = Duration::from_secs(5 * 60);
    for (wait, status) in [(within - Duration::from_secs(1), 200), (within + within / 4, 405)] {
        let mut rig = Rig::new();
        let client = rig.session(LEGACY);
        let listening = rig.listen(&client);
        let last = away(&mut rig, &client);
        rig.answer(client.link, "1", "done");
        rig.pass(wait);
        let key = rig.come_back(&client, &last);
        assert_eq!(rig.read(key).status, status);
        rig.read(listening);
        rig.leaves_nothing();
    }
}

#[test]
fn an_answer_that_took_long_can_be_fetched_by_one_who_asks_for_it_now_and_then() {
    let mut rig = Rig::with(HttpServerConfig { idle: Duration::from_secs(600), ..config() });
    let client = rig.session(LEGACY);
    let last = away(&mut rig, &client);
    for _ in 0..12 {
        rig.pass(Duration::from_secs(299));
        let key = rig.come_back(&client, &last);
        rig.hang_up(key);
    }
    rig.answer(client.link, "1", "done");
    rig.pass(Duration::from_secs(290));
    let key = rig.come_back(&client, &last);
    assert_eq!(rig.read(key).messages(), [result_of("1", "done")]);
    rig.leaves_nothing();
}

#[test]
fn many_streams_that_ended_are_not_all_kept() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let mut first = None;
    let mut last = None;
    for id in 0..1025_u32 {
        let key = rig.post_to(&client, &call(&id.to_string()));
        rig.pass_millis(100);
        last = rig.read(key).last_id();
        first = first.or_else(|| last.clone());
        rig.answer(client.link, &id.to_string(), "done");
        rig.read(key);
    }
    let key = rig.come_back(&client, &first.unwrap());
    assert_eq!(rig.read(key).status, 405);
    let key = rig.come_back(&client, &last.unwrap());
    assert_eq!(rig.read(key).messages(), [result_of("1024", "done")]);
    rig.leaves_nothing();
}

#[test]
fn a_stream_that_listens_is_fetched_by_a_plain_get_too() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.listen(&client);
    rig.read(key);
    rig.hang_up(key);
    rig.say(client.link, &note("a"));
    rig.say(client.link, &note("b"));
    let key = rig.listen(&client);
    assert_eq!(rig.read(key).messages(), [note("a"), note("b")]);
    rig.leaves_nothing();
}

#[test]
fn a_plain_get_takes_first_what_nobody_has_read() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let older = rig.listen(&client);
    let newer = rig.listen(&client);
    rig.read(older);
    rig.read(newer);
    rig.hang_up(newer);
    rig.say(client.link, &note("on the older one"));
    rig.hang_up(older);
    let key = rig.listen(&client);
    assert_eq!(rig.read(key).messages(), [note("on the older one")]);
    rig.leaves_nothing();
}

/// A session that keeps next to nothing.
fn forgetful() -> Rig {
    Rig::with(HttpServerConfig { max_kept: 1000, ..config() })
}

/// What a client is told of an answer that is gone.
fn is_not_kept(message: &str, id: u64) -> bool {
    let message: Value = serde_json::from_str(message).unwrap();
    message["error"]["code"] == -31006 && message["id"] == id
}

fn is_gap(message: &str) -> bool {
    let message: Value = serde_json::from_str(message).unwrap();
    message["method"] == "notifications/message" && message["params"]["logger"] == "rescind"
}

#[test]
fn an_answer_that_was_too_long_to_be_kept_is_replaced_by_an_error() {
    let mut rig = forgetful();
    let client = rig.session(LEGACY);
    let last = away(&mut rig, &client);
    rig.answer(client.link, "1", &"x".repeat(1200));
    let key = rig.come_back(&client, &last);
    let answer = rig.read(key);
    let [only] = &answer.messages()[..] else { panic!("{answer:?}") };
    assert!(is_not_kept(only, 1), "{only}");
    assert!(answer.has_ended);
    rig.leaves_nothing();
}

#[test]
fn messages_that_nobody_read_and_that_were_not_kept_are_reported_as_missing() {
    for plain in [false, true] {
        let mut rig = forgetful();
        let client = rig.session(LEGACY);
        let key = rig.listen(&client);
        let last = rig.read(key).last_id().unwrap();
        rig.hang_up(key);
        for _ in 0..3 {
            rig.say(client.link, &note(&"x".repeat(400)));
        }
        rig.say(client.link, &note("last"));
        let key = if plain { rig.listen(&client) } else { rig.come_back(&client, &last) };
        let messages = rig.read(key).messages();
        let [gap, rest @ ..] = &messages[..] else { panic!("nothing") };
        assert!(is_gap(gap), "{gap}");
        assert_eq!(rest.last(), Some(&note("last")));
        assert_eq!(messages.iter().filter(|message| is_gap(message)).count(), 1);
        rig.leaves_nothing();
    }
}

#[test]
fn an_answer_that_was_handed_out_and_not_kept_is_reported_as_missing() {
    let mut rig = forgetful();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    rig.say(client.link, &progress("7", 1));
    let last = rig.read(key).last_id().unwrap();
    rig.answer(client.link, "1", &"x".repeat(1200));
    assert!(rig.read(key).has_ended);
    for _ in 0..2 {
        let key = rig.come_back(&client, &last);
        let messages = rig.read(key).messages();
        let [only] = &messages[..] else { panic!("{messages:?}") };
        assert!(is_not_kept(only, 1), "{only}");
    }
    rig.leaves_nothing();
}

#[test]
fn each_of_several_answers_that_are_gone_is_reported_once_wherever_its_client_breaks_off() {
    let mut rig = forgetful();
    let client = rig.session("2025-03-26");
    let key = rig.post_to(&client, &format!("[{},{},{}]", call("1"), call("2"), call("3")));
    rig.say(client.link, &note("before"));
    let last = rig.read(key).last_id().unwrap();
    for id in 1..=3 {
        rig.answer(client.link, &id.to_string(), &"x".repeat(1200));
        rig.say(client.link, &note("between"));
    }
    assert!(!rig.read(key).events.is_empty());
    rig.hang_up(key);
    let key = rig.come_back(&client, &last);
    let all = rig.read(key);
    for id in 1..=3 {
        assert_eq!(all.messages().iter().filter(|message| is_not_kept(message, id)).count(), 1, "{all:?}");
    }
    assert_eq!(all.messages().iter().filter(|message| is_gap(message)).count(), 1);
    for (place, event) in all.events.iter().enumerate() {
        let key = rig.come_back(&client, event.id.as_deref().unwrap());
        let again = rig.read(key);
        assert_eq!(again.events, all.events[place + 1..], "behind event {place}");
    }
    rig.leaves_nothing();
}

#[test]
fn of_a_batch_with_a_cancelled_member_the_other_answers_are_fetched() {
    let mut rig = Rig::new();
    let client = rig.session("2025-03-26");
    let key = rig.post_to(&client, &format!("[{},{}]", call_with_token("1", "7"), call("2")));
    rig.at(client.link);
    rig.say(client.link, &progress("7", 1));
    let last = rig.read(key).last_id().unwrap();
    rig.hang_up(key);
    rig.answer(client.link, "1", "done");
    let posted = rig.post_to(&client, &cancel("2"));
    assert_eq!(rig.at(client.link), [cancel("2")]);
    assert_eq!(rig.whole(posted, 202), "");
    rig.settle(client.link, "2");
    let key = rig.come_back(&client, &last);
    let answer = rig.read(key);
    assert_eq!(answer.messages(), [result_of("1", "done")]);
    assert!(answer.has_ended);
    let key = rig.come_back(&client, &answer.last_id().unwrap());
    assert_eq!(rig.read(key).status, 405);
    rig.leaves_nothing();
}

#[test]
fn a_client_that_reads_nothing_is_given_up_and_comes_back_for_the_rest() {
    let mut rig = Rig::with(HttpServerConfig { max_unsent: 500, ..config() });
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    rig.say(client.link, &progress("7", 0));
    let last = rig.read(key).last_id().unwrap();
    for number in 1..20 {
        rig.say(client.link, &progress("7", number));
    }
    assert_eq!(rig.server.poll_body(rig.now, key), BodyChunk::End, "the connection is given up");
    assert_eq!(rig.at(client.link), [call_with_token("1", "7")]);
    let key = rig.come_back(&client, &last);
    rig.read(key);
    rig.answer(client.link, "1", "done");
    let messages = rig.read(key).messages();
    assert_eq!(messages.last(), Some(&result_of("1", "done")));
    assert_eq!(messages[..3], [progress("7", 1), progress("7", 2), progress("7", 3)]);
    rig.leaves_nothing();
}

#[test]
fn a_response_that_is_given_up_before_its_head_was_taken_still_has_a_head() {
    let mut rig = Rig::with(HttpServerConfig { max_unsent: 500, ..config() });
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    let reports: Vec<_> = (0..20).map(|number| progress("7", number)).collect();
    rig.say(client.link, &format!("[{}]", reports.join(",")));
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.has_ended), (200, true));
    rig.leaves_nothing();
}

#[test]
fn a_client_without_streams_does_not_take_what_belongs_to_no_request() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let headers = [("accept", "application/json"), ("mcp-session-id", &*client.id)];
    let call_key = rig.send(&Method::POST, "/mcp", &headers, &call("1"));
    rig.say(client.link, &note("for whoever listens"));
    rig.answer(client.link, "1", "done");
    assert_eq!(rig.whole(call_key, 200), result_of("1", "done"));
    let key = rig.listen(&client);
    assert_eq!(rig.read(key).messages(), [note("for whoever listens")]);
    rig.leaves_nothing();
}
