//! Requests and notifications that belong to no request of a client: where they travel.

use crate::rig::*;

fn ask(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{{}}}}"#)
}

#[test]
fn a_question_travels_on_the_stream_that_listens_and_its_answer_comes_back() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let call_key = rig.post_to(&client, &call("1"));
    rig.at(client.link);
    let listening = rig.listen(&client);
    rig.say(client.link, &ask("1"));
    assert_eq!(rig.read(listening).messages(), [ask("1")]);
    let answer = rig.post_to(&client, &result_of("1", "yes"));
    assert_eq!(rig.whole(answer, 202), "");
    assert_eq!(rig.at(client.link), [result_of("1", "yes")], "its id is the server's, and no request of a client's");
    rig.answer(client.link, "1", "done");
    assert_eq!(rig.whole(call_key, 200), result_of("1", "done"));
    rig.leaves_nothing();
}

#[test]
fn without_a_stream_that_listens_it_travels_on_the_newest_that_is_open() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let older = rig.post_to(&client, &call("1"));
    let newer = rig.post_to(&client, &call("2"));
    rig.say(client.link, &ask("1"));
    assert_eq!(rig.read(newer).messages(), [ask("1")]);
    rig.answer(client.link, "2", "done");
    rig.say(client.link, &ask("2"));
    assert_eq!(rig.read(older).messages(), [ask("2")]);
    assert_eq!(rig.read(newer).messages(), [ask("1"), result_of("2", "done")], "on one stream only (MCP-H07)");
    rig.leaves_nothing();
}

#[test]
fn of_several_streams_that_listen_the_newest_takes_it() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let streams = [0; 3].map(|_| rig.listen(&client));
    rig.say(client.link, &ask("1"));
    rig.hang_up(streams[2]);
    rig.say(client.link, &ask("2"));
    assert_eq!(rig.read(streams[1]).messages(), [ask("2")]);
    assert_eq!(rig.read(streams[0]).messages(), [""; 0]);
    let back = rig.listen(&client);
    assert_eq!(rig.read(back).messages(), [ask("1")]);
    rig.leaves_nothing();
}

#[test]
fn without_any_stream_it_waits_for_one_that_listens() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    rig.say(client.link, &note("a"));
    rig.say(client.link, &ask("1"));
    let key = rig.listen(&client);
    assert_eq!(rig.read(key).messages(), [note("a"), ask("1")]);
    rig.leaves_nothing();
}

#[test]
fn a_stream_that_listens_brings_no_answers() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let listening = rig.listen(&client);
    let key = rig.post_to(&client, &call("1"));
    rig.hang_up(key);
    rig.answer(client.link, "1", "done");
    assert_eq!(rig.read(listening).messages(), [""; 0], "MCP-H07");
    rig.leaves_nothing();
}

#[test]
fn who_shares_a_server_is_asked_nothing() {
    let mut rig = Rig::new();
    let key = rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    rig.at(link);
    rig.say(link, &ask("\"q\""));
    let refused = rig.at(link);
    let refusal: serde_json::Value = serde_json::from_str(&refused[0]).unwrap();
    assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&"q".into(), &(-32601).into()), "D42, MCP-M03");
    assert_eq!(rig.dropped, ["elicitation/create"]);
    rig.pass_millis(100);
    assert_eq!(rig.read(key).messages(), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_session_listens_on_so_many_streams_and_no_more() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let streams: Vec<_> = (0..16).map(|_| rig.listen(&client)).collect();
    let one_more = rig.listen(&client);
    assert_eq!(rig.read(one_more).status, 409);
    rig.hang_up(streams[3]);
    let one_more = rig.listen(&client);
    assert_eq!(rig.read(one_more).status, 200);
    rig.leaves_nothing();
}
