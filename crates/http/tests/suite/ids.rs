//! Ids and progress tokens: as they are where one client has the program for itself, our own where several share it.

use serde_json::json;

use crate::rig::*;

/// The id of the message that a program received.
pub(crate) fn id_in(message: &str) -> String {
    serde_json::from_str::<serde_json::Value>(message).unwrap()["id"].to_string()
}

fn token_in(message: &str) -> String {
    let message: serde_json::Value = serde_json::from_str(message).unwrap();
    message["params"]["_meta"]["progressToken"].to_string()
}

#[test]
fn in_a_session_ids_pass_byte_for_byte() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    for id in ["1", "0", "-5", r#""1""#, r#""""#, r#""\u00e9""#, "123456789012345678901234567890"] {
        let key = rig.post_to(&client, &call(id));
        assert_eq!(rig.at(client.link), [call(id)]);
        rig.answer(client.link, id, "done");
        assert_eq!(rig.whole(key, 200), result_of(id, "done"));
    }
    rig.leaves_nothing();
}

#[test]
fn requests_with_the_same_id_run_in_parallel_and_each_gets_its_own_answer() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let keys: Vec<_> = (0..3).map(|_| rig.post_to(&client, &call("1"))).collect();
    let received = rig.at(client.link);
    let ids: Vec<_> = received.iter().map(|message| id_in(message)).collect();
    assert_eq!(ids[0], "1");
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    for (place, id) in ids.iter().enumerate().rev() {
        rig.answer(client.link, id, &format!("answer {place}"));
    }
    for (place, key) in keys.into_iter().enumerate() {
        assert_eq!(rig.whole(key, 200), result_of("1", &format!("answer {place}")), "D7");
    }
    rig.leaves_nothing();
}

#[test]
fn ids_of_another_type_are_other_ids() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let number = rig.post_to(&client, &call("1"));
    let text = rig.post_to(&client, &call("\"1\""));
    assert_eq!(rig.at(client.link), [call("1"), call("\"1\"")]);
    rig.answer(client.link, "\"1\"", "text");
    rig.answer(client.link, "1", "number");
    assert_eq!(rig.whole(number, 200), result_of("1", "number"));
    assert_eq!(rig.whole(text, 200), result_of("\"1\"", "text"));
    rig.leaves_nothing();
}

#[test]
fn a_client_that_uses_an_id_of_ours_is_answered_all_the_same() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let keys: Vec<_> = ["1", "1"].iter().map(|id| rig.post_to(&client, &call(id))).collect();
    let ours = id_in(&rig.at(client.link)[1]);
    let third = rig.post_to(&client, &call(&ours));
    let theirs = id_in(&rig.at(client.link)[0]);
    assert_ne!(ours, theirs);
    rig.answer(client.link, &theirs, "third");
    rig.answer(client.link, &ours, "second");
    rig.answer(client.link, "1", "first");
    assert_eq!(rig.whole(keys[0], 200), result_of("1", "first"));
    assert_eq!(rig.whole(keys[1], 200), result_of("1", "second"));
    assert_eq!(rig.whole(third, 200), result_of(&ours, "third"));
    rig.leaves_nothing();
}

#[test]
fn a_cancel_by_an_ambiguous_id_is_ignored_and_accepted() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let first = rig.post_to(&client, &call("1"));
    rig.post_to(&client, &call("1"));
    let second = id_in(&rig.at(client.link)[1]);
    let posted = rig.post_to(&client, &cancel("1"));
    assert_eq!(rig.whole(posted, 202), "", "MCP-H02");
    assert_eq!(rig.at(client.link), [""; 0], "none can be meant (D7)");
    rig.answer(client.link, "1", "done");
    rig.whole(first, 200);
    rig.post_to(&client, &cancel("1"));
    assert_eq!(rig.at(client.link), [cancel(&second)], "now only one is meant, as the program knows it (D32)");
    rig.settle(client.link, &second);
    rig.leaves_nothing();
}

#[test]
fn a_cancel_does_not_name_the_request_of_another_id_by_chance() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    rig.post_to(&client, &call("1"));
    rig.post_to(&client, &call("1"));
    let ours = id_in(&rig.at(client.link)[1]);
    rig.post_to(&client, &cancel(&ours));
    assert_eq!(rig.at(client.link), [""; 0], "its client does not know this id");
    rig.leaves_nothing();
}

#[test]
fn progress_of_requests_with_the_same_token_reaches_the_stream_of_each() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let keys = ["1", "2"].map(|id| rig.post_to(&client, &call_with_token(id, "\"t\"")));
    let received = rig.at(client.link);
    let tokens: Vec<_> = received.iter().map(|message| token_in(message)).collect();
    assert_eq!(tokens[0], "\"t\"");
    assert_ne!(tokens[0], tokens[1]);
    rig.say(client.link, &progress(&tokens[1], 2));
    rig.say(client.link, &progress(&tokens[0], 1));
    assert_eq!(rig.read(keys[0]).messages(), [progress("\"t\"", 1)]);
    assert_eq!(rig.read(keys[1]).messages(), [progress("\"t\"", 2)], "under the token that its client gave");
    rig.leaves_nothing();
}

#[test]
fn progress_that_comes_late_or_names_nobody_reaches_nobody() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    let listening = rig.listen(&client);
    rig.answer(client.link, "1", "done");
    for token in ["7", "8", "\"7\""] {
        rig.say(client.link, &progress(token, 9));
    }
    assert_eq!(rig.whole(key, 200), result_of("1", "done"));
    assert_eq!(rig.read(listening).messages(), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn clients_that_share_a_program_have_ids_and_tokens_of_ours_there() {
    let mut rig = Rig::new();
    let mut call = modern_call("5");
    call["params"]["_meta"]["progressToken"] = json!("t");
    let keys = [rig.post_modern(&call), rig.post_modern(&call)];
    let link = rig.shared();
    let received = rig.at(link);
    let ids: Vec<_> = received.iter().map(|message| id_in(message)).collect();
    let tokens: Vec<_> = received.iter().map(|message| token_in(message)).collect();
    assert!(!ids.contains(&"5".to_owned()) && ids[0] != ids[1], "D42: {ids:?}");
    assert!(!tokens.contains(&"\"t\"".to_owned()) && tokens[0] != tokens[1], "{tokens:?}");
    for (place, key) in keys.into_iter().enumerate().rev() {
        rig.say(link, &progress(&tokens[place], 1));
        rig.read(key);
        rig.answer(link, &ids[place], &format!("answer {place}"));
        let messages = rig.read(key).messages();
        assert_eq!(messages, [progress("\"t\"", 1), result_of("5", &format!("answer {place}"))]);
    }
    rig.leaves_nothing();
}

#[test]
fn two_clients_with_the_same_ids_in_two_sessions_are_apart() {
    let mut rig = Rig::new();
    let clients = [rig.session(LEGACY), rig.session(LEGACY)];
    let keys = [0, 1].map(|place| rig.post_to(&clients[place], &call_with_token("1", "1")));
    for client in &clients {
        assert_eq!(rig.at(client.link), [call_with_token("1", "1")]);
    }
    rig.say(clients[1].link, &progress("1", 1));
    rig.read(keys[1]);
    rig.answer(clients[1].link, "1", "second");
    assert_eq!(rig.read(keys[1]).messages(), [progress("1", 1), result_of("1", "second")]);
    assert_eq!(rig.read(keys[0]).status, 0);
    rig.answer(clients[0].link, "1", "first");
    assert_eq!(rig.whole(keys[0], 200), result_of("1", "first"));
    rig.leaves_nothing();
}

#[test]
fn an_answer_that_nobody_waits_for_reaches_nobody() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let listening = rig.listen(&client);
    let key = rig.post_to(&client, &call("1"));
    for id in ["2", "\"1\"", "null", "1.0"] {
        rig.answer(client.link, id, "for nobody");
    }
    rig.say(client.link, r#"{"jsonrpc":"2.0","error":{"code":1,"message":"without an id"}}"#);
    assert_eq!(rig.read(listening).messages(), [""; 0]);
    rig.answer(client.link, "1", "done");
    rig.answer(client.link, "1", "again");
    assert_eq!(rig.whole(key, 200), result_of("1", "done"));
    rig.leaves_nothing();
}
