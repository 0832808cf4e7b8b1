//! `subscriptions/listen`: a stream that the server ends, or the client (MCP-M01, MCP-M02).

use serde_json::{Value, json};

use crate::rig::*;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn listen(id: &str) -> Value {
    modern(id, "subscriptions/listen", &json!({"notifications": {"toolsListChanged": true}}))
}

/// What a server says on a subscription.
fn changed(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"{SUBSCRIPTION}":{id}}}}}}}"#
    )
}

/// Opens a subscription, and returns its response and the id that the program knows.
fn open(rig: &mut Rig, id: &str) -> (rescind_http::server::ReplyKey, String) {
    let key = rig.post_modern(&listen(id));
    let link = rig.shared();
    let received = rig.at(link);
    let message: Value = serde_json::from_str(received.last().unwrap()).unwrap();
    (key, message["id"].to_string())
}

#[test]
fn what_is_said_on_a_subscription_reaches_it_under_the_id_that_its_client_gave() {
    let mut rig = Rig::new();
    let (first, first_id) = open(&mut rig, "\"mine\"");
    let (second, second_id) = open(&mut rig, "\"mine\"");
    let link = rig.shared();
    assert_ne!(first_id, second_id);
    rig.say(link, &changed(&second_id));
    rig.say(link, &changed(&first_id));
    rig.say(link, &changed(&first_id));
    assert_eq!(rig.read(first).messages(), [changed("\"mine\""), changed("\"mine\"")]);
    assert_eq!(rig.read(second).messages(), [changed("\"mine\"")]);
    rig.leaves_nothing();
}

#[test]
fn a_server_ends_a_subscription_by_a_cancel_and_the_stream_ends() {
    let mut rig = Rig::new();
    let (key, id) = open(&mut rig, "1");
    let link = rig.shared();
    rig.say(link, &changed(&id));
    rig.say(link, &cancel(&id));
    let answer = rig.read(key);
    assert_eq!(answer.messages(), [changed("1")], "no cancel travels over HTTP");
    assert!(answer.has_ended);
    assert_eq!(rig.at(link), [""; 0], "nothing is cancelled there");
    rig.leaves_nothing();
}

#[test]
fn a_server_ends_a_subscription_by_a_result_which_names_it_twice() {
    for with_cancel in [false, true] {
        let mut rig = Rig::new();
        let (key, id) = open(&mut rig, "\"mine\"");
        let link = rig.shared();
        rig.say(link, &changed(&id));
        let result = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{"{SUBSCRIPTION}":{id}}}}}}}"#
            )
        };
        rig.say(link, &result(&id));
        if with_cancel {
            rig.say(link, &cancel(&id));
        }
        let answer = rig.read(key);
        assert_eq!(answer.messages(), [changed("\"mine\""), result("\"mine\"")]);
        assert!(answer.has_ended);
        rig.leaves_nothing();
    }
}

#[test]
fn a_client_ends_a_subscription_by_closing_its_stream() {
    let mut rig = Rig::new();
    let (key, id) = open(&mut rig, "1");
    let link = rig.shared();
    rig.pass_millis(100);
    rig.read(key);
    rig.hang_up(key);
    assert_eq!(rig.at(link), [format!("closed {id}")]);
    rig.leaves_nothing();
}

#[test]
fn a_subscription_to_a_program_that_is_gone_just_ends() {
    let mut rig = Rig::new();
    let (key, id) = open(&mut rig, "1");
    let link = rig.shared();
    rig.say(link, &changed(&id));
    rig.close(link);
    let answer = rig.read(key);
    assert_eq!(answer.messages(), [changed("1")]);
    assert!(answer.has_ended);
    rig.leaves_nothing();
}

#[test]
fn what_comes_late_for_a_subscription_reaches_no_other_client() {
    let mut rig = Rig::new();
    let (gone, gone_id) = open(&mut rig, "1");
    let other = rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    rig.hang_up(gone);
    rig.at(link);
    rig.say(link, &changed(&gone_id));
    rig.say(link, &cancel(&gone_id));
    rig.say(link, &changed("\"nonsense\""));
    rig.say(link, &changed("[]"));
    rig.pass_millis(100);
    assert_eq!(rig.read(other).messages(), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_server_cancels_nothing_but_subscriptions() {
    let mut rig = Rig::new();
    let key = rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    let id = serde_json::from_str::<Value>(&rig.at(link)[0]).unwrap()["id"].to_string();
    rig.say(link, &cancel(&id));
    rig.say(link, &changed(&id));
    assert_eq!(rig.dropped, ["notifications/cancelled", "notifications/tools/list_changed"], "MCP-M01");
    rig.answer(link, &id, "done");
    assert_eq!(rig.whole(key, 200), result_of("1", "done"));
    rig.leaves_nothing();
}

#[test]
fn a_subscription_that_is_alone_gets_nothing_that_does_not_name_it() {
    let mut rig = Rig::new();
    let (key, _) = open(&mut rig, "1");
    let link = rig.shared();
    rig.say(link, &note("of some request"));
    rig.pass_millis(100);
    assert_eq!(rig.read(key).messages(), [""; 0]);
    assert_eq!(rig.dropped, ["notifications/message"]);
    rig.leaves_nothing();
}
