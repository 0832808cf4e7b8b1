//! Tasks of one program that serves several owners: nobody sees or stops another's.

use rescind_http::server::{HttpServerConfig, LinkKey, ReplyKey};
use serde_json::{Value, json};

use crate::{
    owner::{join, shared},
    rig::*,
};

const ANN: &str = "token-of-ann";
const BOB: &str = "token-of-bob";

fn about(method: &str, task: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"taskId": task}}).to_string()
}

/// What the program receives, once it is all there.
fn received(rig: &mut Rig, link: LinkKey) -> Vec<Value> {
    rig.at(link).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A request in a session that the program receives; the id by which it is known there.
fn passes(rig: &mut Rig, client: &Client, message: &str) -> (ReplyKey, Value) {
    let key = rig.post_to(client, message);
    let [only] = &received(rig, client.link)[..] else { panic!("not one message for {message}") };
    (key, only["id"].clone())
}

fn answers(rig: &mut Rig, link: LinkKey, id: &Value, result: &Value) {
    rig.say(link, &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
}

/// Has a task made in a session, and reads its handle.
fn make(rig: &mut Rig, client: &Client, task: &str) {
    let (key, id) = passes(rig, client, &call("7"));
    answers(rig, client.link, &id, &json!({"task": {"taskId": task, "status": "working"}}));
    assert_eq!(rig.read(key).json()["result"]["task"]["taskId"], task);
}

/// Ann and Bob, each with a session and a task.
fn pair() -> (Rig, Client, Client) {
    let mut rig = Rig::with(shared());
    let ann = join(rig.becomes(ANN));
    let bob = join(rig.becomes(BOB));
    make(rig.becomes(ANN), &ann, "hers");
    make(rig.becomes(BOB), &bob, "his");
    (rig, ann, bob)
}

#[test]
fn the_task_of_another_is_as_one_that_there_never_was() {
    let (mut rig, ann, bob) = pair();
    rig.becomes(BOB);
    for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/update", "tasks/whatever"] {
        let answered = ["hers", "never"].map(|task| {
            let key = rig.post_to(&bob, &about(method, task));
            let answer = rig.read(key);
            (answer.status, answer.body)
        });
        assert_eq!(answered[0], answered[1], "{method}");
        let unknown = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown task"}}"#;
        assert_eq!(answered[0].1.as_deref(), Some(unknown), "{method}");
        assert!(rig.at(bob.link).is_empty(), "the program was told of {method}");
    }
    // Neither does one that says two things, or nothing.
    let says_two_things = [r#"{"taskId":"his","taskId":"hers"}"#, r#"{"taskId":"hers","task\u0049d":"his"}"#];
    for (params, code) in
        says_two_things.map(|params| (params, -32600)).into_iter().chain([("{}", -32602), (r#"{"taskId":1}"#, -32602)])
    {
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{params}}}"#);
        let key = rig.post_to(&bob, &message);
        assert_eq!(rig.read(key).code(), code, "{params}");
    }
    assert!(rig.at(bob.link).is_empty());

    // The owner's own stops it, in another session of hers, too.
    let other = join(rig.becomes("renewed"));
    for (client, method) in [(&ann, "tasks/get"), (&other, "tasks/cancel")] {
        let (key, id) = passes(&mut rig, client, &about(method, "hers"));
        answers(&mut rig, client.link, &id, &json!({"taskId": "hers", "status": "cancelled"}));
        assert_eq!(rig.read(key).json()["result"]["taskId"], "hers");
    }
    rig.end();
}

#[test]
fn a_list_of_tasks_has_only_ones_own() {
    let (mut rig, ann, bob) = pair();
    for (token, client, own) in [(ANN, &ann, "hers"), (BOB, &bob, "his")] {
        rig.becomes(token);
        let (key, id) = passes(&mut rig, client, r#"{"jsonrpc":"2.0","id":5,"method":"tasks/list"}"#);
        let tasks = json!([{"taskId": "hers"}, {"taskId": "his", "status": "working"}, {"taskId": "nobody's"}, 7]);
        answers(&mut rig, client.link, &id, &json!({"tasks": tasks, "nextCursor": "c"}));
        let answer = rig.read(key).json();
        assert_eq!(answer["id"], 5);
        let listed: Vec<&Value> =
            answer["result"]["tasks"].as_array().unwrap().iter().map(|task| &task["taskId"]).collect();
        assert_eq!((listed, &answer["result"]["nextCursor"]), (vec![&json!(own)], &json!("c")));
    }
    // Whatever stands there instead.
    for tasks in [r#"{"x":"hers"}"#, r#""hers""#, r#"[{"taskId":"hers"}],"tasks":[{"taskId":"hers"}]"#] {
        let (key, id) = passes(&mut rig, &bob, r#"{"jsonrpc":"2.0","id":5,"method":"tasks/list"}"#);
        rig.say(bob.link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tasks":{tasks}}}}}"#));
        let body = rig.read(key).body.unwrap();
        assert!(!body.contains("hers") && body.contains(r#""tasks":[]"#), "{body}");
    }
    rig.end();
}

#[test]
fn what_is_said_of_a_task_reaches_its_owner_only() {
    let (mut rig, ann, bob) = pair();
    let streams = [(ANN, &ann), (BOB, &bob)].map(|(token, client)| rig.becomes(token).listen(client));
    let status = |task: &str| {
        json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": {"taskId": task, "status": "failed"}})
            .to_string()
    };
    let log = |task: &str| {
        let meta = json!({"io.modelcontextprotocol/related-task": {"taskId": task}});
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x", "_meta": meta}}).to_string()
    };
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.to_owned();
    for message in
        [&status("hers"), &log("hers"), &status("nobody's"), &log("nobody's"), &note("about anyone"), &changed]
    {
        rig.say(ann.link, message);
    }
    let [hers, his] = streams.map(|stream| rig.read(stream).messages());
    assert_eq!(hers, [status("hers"), log("hers"), changed.clone()]);
    assert_eq!(his, [changed]);
    assert_eq!(rig.dropped, ["notifications/tasks/status", "notifications/message", "notifications/message"]);
    rig.end();
}

/// Tasks of 2026-07-28, which a request outside a session makes.
#[test]
fn tasks_of_requests_outside_a_session_have_owners_too() {
    let mut rig = Rig::with(shared());
    let link = join(rig.becomes(ANN)).link;
    let made = rig.post_modern(&modern_call("1"));
    let id = received(&mut rig, link)[0]["id"].clone();
    answers(&mut rig, link, &id, &json!({"resultType": "task", "taskId": "hers", "status": "working"}));
    assert_eq!(rig.read(made).json()["result"]["taskId"], "hers");
    let ask = |rig: &mut Rig, token: &str| {
        rig.becomes(token).post_modern(&modern("1", "tasks/cancel", &json!({"taskId": "hers"})))
    };
    let refused = ask(&mut rig, BOB);
    assert_eq!(rig.read(refused).code(), -32602);
    assert!(rig.at(link).is_empty());
    let asked = ask(&mut rig, ANN);
    let [cancel] = &received(&mut rig, link)[..] else { panic!("not one message") };
    assert_eq!(cancel["params"]["taskId"], "hers");
    let id = cancel["id"].clone();
    answers(&mut rig, link, &id, &json!({"resultType": "complete"}));
    assert_eq!(rig.read(asked).status, 200);

    // Whoever subscribes to what: of another's task he hears nothing.
    let listens = |rig: &mut Rig, token: &str| {
        let key = rig.becomes(token).post_modern(&modern("1", "subscriptions/listen", &json!({"notifications": {}})));
        let id = received(rig, link)[0]["id"].clone();
        (key, id)
    };
    let streams = [ANN, BOB].map(|token| listens(&mut rig, token));
    for (_, id) in &streams {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
        for params in [json!({"taskId": "hers", "_meta": meta}), json!({"uri": "x", "_meta": meta})] {
            rig.say(link, &json!({"jsonrpc": "2.0", "method": "notifications/x", "params": params}).to_string());
        }
    }
    assert_eq!(streams.map(|(key, _)| rig.read(key).messages().len()), [2, 1]);
    rig.end();
}

#[test]
fn a_batch_is_no_way_around_it() {
    let (mut rig, _, bob) = pair();
    let asks = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}});
    let opened = rig.becomes(BOB).post(&[], &asks.to_string());
    let id = rig.read(opened).header("mcp-session-id").unwrap().to_owned();
    let old = Client { id, link: bob.link };
    rig.at(bob.link);
    let batch = rig.post_to(&old, &format!("[{},{}]", about("tasks/cancel", "hers"), call("2")));
    let [only] = &received(&mut rig, bob.link)[..] else { panic!("not one message") };
    assert_eq!(only["method"], "tools/call");
    let answer: Value = serde_json::from_str(&rig.read(batch).messages()[0]).unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32602)));
    rig.end();
}

/// Where nobody is told apart all is as before.
#[test]
fn without_owners_tasks_are_everybodys() {
    let mut rig = Rig::with(HttpServerConfig { access: rescind_http::server::Access::token(ANN), ..shared() });
    let client = join(rig.becomes(ANN));
    let (key, id) = passes(&mut rig, &client, &about("tasks/get", "any"));
    answers(&mut rig, client.link, &id, &json!({"taskId": "any"}));
    assert_eq!(rig.read(key).json()["result"]["taskId"], "any");
    let (key, id) = passes(&mut rig, &client, r#"{"jsonrpc":"2.0","id":5,"method":"tasks/list"}"#);
    answers(&mut rig, client.link, &id, &json!({"tasks": [{"taskId": "any"}]}));
    assert_eq!(rig.read(key).json()["result"]["tasks"][0]["taskId"], "any");
    rig.end();
}
