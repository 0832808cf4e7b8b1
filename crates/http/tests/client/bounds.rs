//! What is in flight, queued and remembered is bounded (invariant 8).

use rescind_http::client::FetchKey;
use serde_json::json;

use crate::rig::*;

#[test]
fn one_request_too_many_is_refused() {
    let mut limited = config();
    limited.max_in_flight = 2;
    let mut rig = Rig::with(limited);
    for id in 1..=3 {
        rig.say(&modern_call(id));
    }
    assert_eq!(rig.error(3).0, -31004);
    let posts = rig.sent();
    rig.json(posts[0].key, 200, &[], &result(1));
    rig.say(&modern_call(4));
    assert_eq!(rig.heard(), [result(1), overloaded(4)], "an answer counts until it is taken");
    rig.say(&modern_call(5));
    assert_eq!(rig.sent().len(), 1);
}

fn overloaded(id: i64) -> serde_json::Value {
    error(id, -31004, "too many requests in flight; this one was not started")
}

#[test]
fn so_many_responses_are_open_and_the_others_wait() {
    let mut limited = config();
    limited.max_fetches = 2;
    let mut rig = Rig::in_session_with(limited, LEGACY);
    for id in 1..=4 {
        rig.say(&call(id));
    }
    let posts = rig.sent();
    assert_eq!(posts.len(), 2);
    rig.say(r#"{"jsonrpc":"2.0","id":"q","result":{}}"#);
    assert_eq!(rig.sent().len(), 1, "an answer does not wait");
    rig.json(posts[0].key, 200, &[], &result(1));
    assert_eq!(rig.sent_one().body, call(3));
    rig.fail(posts[1].key, "connection reset");
    assert_eq!(rig.sent_one().body, call(4));
}

#[test]
fn bytes_that_the_server_does_not_take_are_bounded() {
    let mut limited = config();
    limited.max_unsent = 10_000;
    let mut rig = Rig::in_session_with(limited, LEGACY);
    let big =
        |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "x", "params": {"a": "y".repeat(6_000)}}).to_string();
    rig.say(&big(1));
    rig.say(&big(2));
    assert_eq!(rig.error(2).0, -31004);
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.say(&big(3));
    assert_eq!(rig.sent().len(), 1);
    for _ in 0..1000 {
        rig.say(
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}}"#,
        );
    }
    assert!(rig.handed().len() < 200);
    assert!(rig.notices().len() > 800);
}

#[test]
fn a_message_alone_may_be_as_long_as_it_is() {
    let mut limited = config();
    limited.max_unsent = 100;
    let mut rig = Rig::in_session_with(limited, LEGACY);
    rig.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"a": "y".repeat(6_000)}}).to_string());
    assert_eq!(rig.sent().len(), 1);
}

#[test]
fn what_is_not_taken_stops_the_reading() {
    let mut limited = config();
    limited.max_unread = 1_000;
    let mut rig = Rig::in_session_with(limited, LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    while rig.client.may_read(post.key) {
        rig.event(post.key, &progress(1));
    }
    assert!(rig.client.poll_message().is_some());
    assert!(rig.client.may_read(post.key));
}

#[test]
fn an_answer_that_is_too_long_is_replaced() {
    let mut limited = config();
    limited.max_message = 1_000;
    let long = json!({"jsonrpc": "2.0", "result": {"a": "y".repeat(5_000)}, "id": 1});
    for session in [false, true] {
        let open = || match session {
            true => Rig::in_session_with(limited.clone(), LEGACY),
            false => Rig::with(limited.clone()),
        };
        let message = if session { call(1) } else { modern_call(1) };
        // As events: the stream goes on.
        let mut rig = open();
        rig.say(&message);
        let post = rig.sent_one();
        rig.stream(post.key);
        let note = json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": "y".repeat(5_000)}});
        rig.event(post.key, &note);
        assert!(rig.heard().is_empty());
        for part in format!("data: {long}\n\n").as_bytes().chunks(100) {
            rig.client.handle_body(rig.now, post.key, part);
        }
        let (code, text) = rig.error(1);
        assert_eq!((code, &*text), (-31005, "the answer is longer than the limit of 1000 bytes"));
        rig.event(post.key, &progress(1));
        assert_eq!(rig.heard_one(), progress(1));
        rig.end(post.key);
        rig.check_empty();
        // As a whole, announced and not.
        for announced in [false, true] {
            let mut rig = open();
            rig.say(&message);
            let post = rig.sent_one();
            let length = long.to_string().len().to_string();
            let headers = [("content-type", "application/json"), ("content-length", &*length)];
            rig.head(post.key, 200, &headers[..if announced { 2 } else { 1 }]);
            if !announced {
                rig.body(post.key, &long.to_string());
            }
            assert_eq!(rig.error(1).0, -31005);
            assert_eq!(rig.take_aborted(), [post.key]);
            rig.check_empty();
        }
    }
}

#[test]
fn a_question_that_is_too_long_is_answered_for_the_local_client() {
    let mut limited = config();
    limited.max_message = 1_000;
    let mut rig = Rig::in_session_with(limited, LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    let params = json!({"a": "y".repeat(5_000)});
    rig.event(post.key, &json!({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": params}));
    assert!(rig.heard().is_empty());
    let answer = rig.sent_one();
    assert_eq!((&answer.json()["id"], &answer.json()["error"]["code"]), (&json!("q"), &json!(-31005)));
}

#[test]
fn a_flood_of_requests_and_cancels_leaves_nothing() {
    for is_session in [true, false] {
        let mut rig = if is_session { Rig::in_session(LEGACY) } else { Rig::new() };
        for id in 0..400 {
            rig.say(&if is_session { call(id) } else { modern_call(id) });
            for sent in rig.sent() {
                if id % 3 == 0 {
                    rig.stream(sent.key);
                }
            }
            if id % 7 == 0 {
                rig.pass(ms(30));
            }
            rig.say(&cancel(id));
            for sent in rig.sent().into_iter().filter(|sent| sent.body == cancel(id)) {
                rig.accept(sent.key);
            }
        }
        for _ in 0..20 {
            for sent in rig.sent() {
                if sent.body.contains("cancelled") {
                    rig.accept(sent.key);
                }
            }
            rig.pass(secs(10));
        }
        rig.check_empty();
    }
}

#[test]
fn what_is_no_request_is_answered_if_it_has_an_id() {
    let mut rig = Rig::new();
    rig.say("no json");
    rig.say("{\"jsonrpc\":\"2.0\"}");
    rig.say("[]");
    assert!(rig.heard().is_empty());
    rig.say(r#"{"jsonrpc":"2.0","id":4,"method":7}"#);
    assert_eq!(rig.error(4).0, -32600);
    rig.say(r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#);
    assert_eq!(rig.error(serde_json::Value::Null).0, -32600);
    assert!(rig.sent().is_empty());
}

/// A cancel has a place of its own, however many questions of the server are being answered.
#[test]
fn a_cancel_is_sent_while_three_thousand_pings_are_pending() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    for id in 0..3_000 {
        rig.event(post.key, &json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    }
    for ping in rig.heard() {
        rig.say(&json!({"jsonrpc": "2.0", "id": ping["id"], "result": {}}).to_string());
    }
    // The server takes none of these.
    let mut answers = rig.sent();
    assert_eq!(answers.len(), 64, "the default of max_posts");
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    assert_eq!(sent.message_method(), "notifications/cancelled");
    rig.accept(sent.key);
    // All are sent in the end, in their order.
    for id in 0..3_000 {
        let answer = answers.remove(0);
        assert_eq!(answer.json()["id"], id);
        rig.accept(answer.key);
        answers.extend(rig.sent());
        assert!(answers.len() <= 64);
    }
    assert!(answers.is_empty() && rig.notices().is_empty());
}

fn ping(id: usize) -> serde_json::Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

/// A server that asks as long as it is read, over two streams, and whose questions the local client answers at once. It
/// takes no answer. Returns what it was sent, and how often it asked.
fn flood(rig: &mut Rig, streams: &[FetchKey], most: usize) -> (Vec<Sent>, usize) {
    let (mut sent, mut asked) = (Vec::new(), 0);
    while asked < most {
        let open = streams.iter().filter(|stream| rig.client.may_read(**stream)).copied().collect::<Vec<_>>();
        if open.is_empty() {
            break;
        }
        for stream in open {
            rig.event(stream, &ping(asked));
            asked += 1;
        }
        for question in rig.heard() {
            rig.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {}}).to_string());
        }
        sent.extend(rig.sent());
    }
    (sent, asked)
}

#[test]
fn a_server_that_asks_without_end_and_takes_no_answer_is_not_read_and_its_client_goes_on() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    rig.say(&call(2));
    let posts = rig.sent();
    let streams = [posts[0].key, posts[1].key];
    for stream in streams {
        rig.stream(stream);
    }
    let (mut answers, asked) = flood(&mut rig, &streams, 2_000);
    assert!((1024..1030).contains(&asked), "the default of max_owed: {asked}");
    assert_eq!(answers.len(), 64);
    // Its client's own goes on: requests, and each cancel.
    rig.say(&call(3));
    let third = rig.sent_one();
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    assert_eq!(sent.body, cancel(1));
    assert!(rig.client.may_read(sent.key) && rig.client.may_read(third.key));
    rig.accept(sent.key);
    rig.json(third.key, 200, &[], &result(3));
    assert_eq!(rig.heard(), [result(3)]);
    // The heads of what was taken, and their bodies, are not waited for.
    let first = answers.remove(0);
    rig.head(first.key, 202, &[]);
    assert!(rig.client.may_read(first.key));
    rig.end(first.key);
    // As soon as it takes answers, it is heard again. None of them is lost.
    answers.extend(rig.sent());
    let mut taken = 1;
    while !answers.is_empty() {
        let answer = answers.remove(0);
        assert_eq!(answer.json()["id"], taken);
        rig.accept(answer.key);
        taken += 1;
        answers.extend(rig.sent());
    }
    assert_eq!(taken, asked);
    assert!(rig.client.may_read(streams[1]) && rig.notices().is_empty());
}

/// Each answer has half a minute, and its end is told; then the server is heard again.
#[test]
fn a_server_that_never_takes_answers_is_heard_again_once_they_are_given_up() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let streams = [rig.sent_one().key];
    rig.stream(streams[0]);
    let (_, asked) = flood(&mut rig, &streams, 2_000);
    assert_eq!(asked, 1024);
    rig.pass(secs(31));
    assert!(rig.client.may_read(streams[0]));
    let notices = rig.notices();
    assert_eq!(notices.len(), 64);
    assert_eq!(notices[0].to_string(), "an answer was not accepted: no answer in time");
    rig.event(streams[0], &result(1));
    assert_eq!(rig.heard(), [result(1)]);
}

#[test]
fn questions_that_nobody_takes_here_count_until_they_are_taken() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    for id in 0..1024 {
        assert!(rig.client.may_read(post.key), "{id}");
        rig.event(post.key, &ping(id));
    }
    assert!(!rig.client.may_read(post.key));
    // Whoever takes them and does not answer, for instance since a person is asked, has the server heard on.
    assert_eq!(rig.heard().len(), 1024);
    assert!(rig.client.may_read(post.key));
}

#[test]
fn answers_that_the_server_does_not_take_are_bounded_in_bytes_and_take_no_room_of_requests() {
    let mut limited = config();
    limited.max_unsent = 10_000;
    let mut rig = Rig::in_session_with(limited, LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    let answer = |id: usize| json!({"jsonrpc": "2.0", "id": id, "result": {"a": "y".repeat(1_000)}}).to_string();
    for id in 0..20 {
        rig.event(post.key, &ping(id));
    }
    assert_eq!(rig.heard().len(), 20);
    for id in 0..20 {
        assert_eq!(rig.client.may_read(post.key), id < 5, "up to half of the bytes: {id}");
        rig.say(&answer(id));
    }
    assert_eq!(rig.sent().len(), 9);
    let notices = rig.notices();
    assert_eq!(notices.len(), 11);
    assert_eq!(notices[0].to_string(), "an answer was dropped: the server takes in nothing now");
    rig.say(&call(2));
    assert_eq!(rig.sent_one().body, call(2), "requests have room of their own");
}

#[test]
fn cancels_are_sent_a_few_at_a_time_and_all_of_them() {
    let mut rig = Rig::in_session(LEGACY);
    for id in 0..300 {
        rig.say(&call(id));
    }
    for post in rig.sent() {
        rig.stream(post.key);
    }
    for id in 0..300 {
        rig.say(&cancel(id));
    }
    let mut cancels = rig.sent();
    assert_eq!(cancels.len(), 64, "the default of max_cancels");
    // What else there is does not wait for them.
    rig.say(&call(1000));
    assert_eq!(rig.sent_one().body, call(1000));
    for id in 0..300 {
        let sent = cancels.remove(0);
        assert_eq!(sent.body, cancel(id));
        rig.accept(sent.key);
        cancels.extend(rig.sent());
        assert!(cancels.len() <= 64);
    }
    assert!(cancels.is_empty() && rig.notices().is_empty());
}

/// So none has to be dropped, and there are never more of them.
#[test]
fn no_request_is_begun_while_as_many_cancels_wait() {
    let mut limited = config();
    limited.max_in_flight = 10;
    let mut rig = Rig::in_session_with(limited, LEGACY);
    for id in 0..10 {
        rig.say(&call(id));
    }
    for post in rig.sent() {
        rig.stream(post.key);
    }
    for id in 0..10 {
        rig.say(&cancel(id));
    }
    let cancels = rig.sent();
    assert_eq!(cancels.len(), 10);
    rig.say(&call(10));
    let (code, text) = rig.error(10);
    assert_eq!((code, &*text), (-31004, "the server takes in no cancels now; this request was not started"));
    rig.accept(cancels[0].key);
    rig.say(&call(11));
    assert_eq!(rig.sent_one().body, call(11));
}

/// Each request whose headers are refused has a list of tools read for it.
#[test]
fn what_is_found_out_for_requests_is_bounded_as_they_are() {
    let mut limited = config();
    limited.max_fetches = 4;
    let mut rig = Rig::with(limited);
    for id in 0..40 {
        rig.say(&modern_call(id));
    }
    for _ in 0..40 {
        for post in rig.sent().into_iter().filter(|post| post.message_method() == "tools/call") {
            rig.json(post.key, 400, &[], &error(post.json()["id"].clone(), -32020, "a header is missing"));
        }
        assert!(rig.open.len() <= 4, "{}", rig.open.len());
    }
}
