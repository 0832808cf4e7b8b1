//! A program that several clients share, and that reads names less exactly than we do: it folds their case, and of two takes
//! the last. No client can make it read a message about another's work.

use serde_json::Value;

use super::{
    rig::*,
    shared::{initialize, shakes, shared},
};

/// Messages of a client that are about its own work to us, and to some readers about another's: a name stands there to the
/// letter, and beside it one that is folded to it.
fn forgeries() -> Vec<String> {
    let mut forgeries = Vec::new();
    for method in ["METHOD", "Method", "meth\\u006fD", "m\\u0065thod"] {
        forgeries.push(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","{method}":"notifications/cancelled","params":{{"requestId":1}}}}"#
        ));
    }
    for id in ["ID", "Id", "iD", "\\u0130d", "\\u0131d"] {
        forgeries
            .push(format!(r#"{{"jsonrpc":"2.0","id":7,"{id}":1,"method":"tools/call","params":{{"name":"n"@META}}}}"#));
    }
    for params in ["PARAMS", "Params", "param\\u017f"] {
        forgeries.push(format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tasks/cancel","params":{{"taskId":"mine"@META}},"{params}":{{"taskId":"theirs"}}}}"#
        ));
    }
    for task in ["TASKID", "taskid", "taskID", "task_id", "Ta\\u017fkId", "tas\\u212aId"] {
        for (first, second) in [("taskId", task), (task, "taskId")] {
            forgeries.push(format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{{"{first}":"mine","{second}":"theirs"@META}}}}"#
            ));
        }
    }
    for uri in ["URI", "Uri", "ur\\u0131"] {
        forgeries.push(format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"resources/unsubscribe","params":{{"uri":"a:mine","{uri}":"a:theirs"@META}}}}"#
        ));
    }
    for meta in ["_META", "_Meta", "meta", "_\\u004deta"] {
        forgeries.push(format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"n","{meta}":{{"progressToken":1}}@META}}}}"#
        ));
    }
    for token in ["progresstoken", "PROGRESSTOKEN", "progre\\u017fsToken", "progress_token"] {
        forgeries.push(
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"n"@META}}"#
                .replace("@META", &format!(r#","_meta":{{"progressToken":7,"{token}":1,@REST}}"#)),
        );
    }
    forgeries
}

/// A client in a session of this revision, whose program others could share.
fn sharing(revision: &str) -> (Rig, Client) {
    let mut rig = Rig::with(shared());
    let key = rig.post(&[], &initialize("1", revision));
    let link = shakes(&mut rig, revision);
    let id = rig.read(key).header("mcp-session-id").expect("a session").to_owned();
    (rig, Client { id, link })
}

const REST: &str =
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

fn with_meta(message: &str) -> String {
    message.replace("@META", r#","_meta":{@REST}"#).replace("@REST", REST)
}

#[test]
pub(crate) fn what_a_careless_program_could_take_for_anothers_is_refused_outside_a_session() {
    let forgeries = forgeries();
    assert!(forgeries.len() >= 20);
    for forgery in forgeries.iter().map(|message| with_meta(message)) {
        let mut rig = Rig::new();
        rig.post_modern(&modern_call("1"));
        let link = rig.shared();
        rig.at(link);
        let parsed: Value = serde_json::from_str(&forgery).unwrap();
        let method = parsed["method"].as_str().unwrap_or_default().to_owned();
        let name =
            ["taskId", "name", "uri"].iter().find_map(|name| parsed["params"][name].as_str()).unwrap_or_default();
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", &*method), ("mcp-name", name)];
        let key = rig.post(&headers, &forgery);
        let answer = rig.read(key);
        assert_eq!(answer.status, 400, "{forgery}");
        assert_eq!(rig.at(link), [""; 0], "{forgery}");
    }
}

#[test]
pub(crate) fn what_a_careless_program_could_take_for_anothers_is_refused_in_a_session_that_shares_it() {
    for forgery in forgeries().iter().map(|message| message.replace("@META", "").replace(",@REST", "")) {
        for as_batch in [false, true] {
            let (mut rig, client) = sharing(if as_batch { "2025-03-26" } else { LEGACY });
            let posted = if as_batch { format!("[{forgery}]") } else { forgery.clone() };
            let key = rig.post_to(&client, &posted);
            assert_eq!(rig.read(key).status, 400, "{posted}");
            assert_eq!(rig.at(client.link), [""; 0], "{posted}");
        }
    }
}

/// The program of one client may read what it likes.
#[test]
fn a_program_with_one_client_gets_its_messages_as_they_are() {
    for forgery in forgeries().iter().map(|message| message.replace("@META", "").replace(",@REST", "")) {
        let mut rig = Rig::new();
        let client = rig.session(LEGACY);
        rig.post_to(&client, &forgery);
        let passed = rig.at(client.link);
        // An envelope with an escaped or doubled name is refused everywhere (D6).
        assert!(passed.is_empty() || passed == [forgery.clone()], "{passed:?}");
    }
}

#[test]
fn a_notification_that_is_not_known_is_not_sent_to_a_program_that_several_share() {
    let unknown = r#"{"jsonrpc":"2.0","method":"notifications/whatever","params":{}}"#;
    let mut rig = Rig::new();
    rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    rig.at(link);
    let key = rig.post(&[("mcp-protocol-version", MODERN)], unknown);
    assert_eq!(rig.read(key).status, 400);
    for known in ["notifications/initialized", "notifications/progress", "notifications/roots/list_changed"] {
        let known = unknown.replace("notifications/whatever", known);
        let key = rig.post(&[("mcp-protocol-version", MODERN)], &known);
        assert_eq!(rig.whole(key, 202), "");
    }
    assert_eq!(rig.at(link), [""; 0], "it asked nobody anything");
    let given_up = unknown.replace("notifications/whatever", "notifications/dev.rescind/abandoned");
    let key = rig.post(&[("mcp-protocol-version", MODERN)], &given_up);
    assert_eq!(rig.whole(key, 202), "");
    assert_eq!(rig.at(link), [given_up], "a client gives up a call that asks it something");
    let (mut rig, client) = sharing(LEGACY);
    let key = rig.post_to(&client, unknown);
    assert_eq!(rig.read(key).status, 400);
    assert_eq!(rig.at(client.link), [""; 0]);
}
