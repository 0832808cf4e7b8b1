//! Which calls become tasks.

use std::sync::Arc;

use rescind_tasks::{AsTask, MemoryStore, Owner, TaskSupport, Tasks};
use serde_json::{Value, json};

use super::rig::{Client, Rig, Style, modern, patient, server, stubborn, task_id, watch};

fn call(tool: &str) -> Value {
    json!({ "name": tool, "arguments": { "name": "work" } })
}

fn asking(tool: &str) -> Value {
    json!({ "name": tool, "arguments": { "name": "work" }, "task": { "ttl": 60_000 } })
}

// TASK-11, TASK-24, TASK-27.
#[tokio::test]
async fn a_call_becomes_a_task_if_its_client_and_its_tool_support_it() {
    let (watch, witness) = watch();
    let tasks = Tasks::builder(Arc::new(MemoryStore::default()))
        .tool(patient(&witness).task(TaskSupport::Optional))
        .tool(stubborn(&witness).task(TaskSupport::Required))
        .start();
    // Whatever waits for the test goes on at once.
    (0..100).for_each(|_| watch.release());
    let mut november = Client::of(&tasks, Style::November).await;
    let mut june = Client::connect(tasks.serve_on(server()), Style::Extension, 64 * 1024).await;
    june.greet("2025-06-18").await;
    let mut newest = Client::of(&tasks, Style::Extension).await;

    let result = |answer: &Value| answer["result"]["content"][0]["text"].as_str().map(str::to_owned);
    let handle = |answer: &Value| answer["result"]["task"]["status"].as_str().map(str::to_owned);
    let typed = |answer: &Value| answer["result"]["resultType"].as_str().map(str::to_owned);
    let error = |answer: &Value| answer["error"]["code"].as_i64();

    // 2025-11-25: the client asks, and the tool says whether it may.
    let ask = november.ask_raw("tools/call", call("patient")).await;
    assert_eq!(result(&ask).as_deref(), Some("done"), "optional, not asked for");
    assert_eq!(handle(&november.ask_raw("tools/call", asking("patient")).await).as_deref(), Some("working"));
    assert_eq!(error(&november.ask_raw("tools/call", call("stubborn")).await), Some(-32601), "required, not asked for");
    assert_eq!(handle(&november.ask_raw("tools/call", asking("stubborn")).await).as_deref(), Some("working"));
    assert_eq!(error(&november.ask_raw("tools/call", asking("plain")).await), Some(-32601), "forbidden");
    assert_eq!(result(&november.ask_raw("tools/call", call("plain")).await).as_deref(), Some("plain"));

    // A revision without tasks: the wish means nothing.
    assert_eq!(result(&june.ask_raw("tools/call", asking("patient")).await).as_deref(), Some("done"));
    assert_eq!(result(&june.ask_raw("tools/call", asking("plain")).await).as_deref(), Some("plain"));
    assert_eq!(error(&june.ask_raw("tools/call", call("stubborn")).await), Some(-32601));
    assert_eq!(error(&june.ask_raw("tasks/get", json!({ "taskId": "x" })).await), Some(-32601));

    // 2026-07-28: the client declares, and the server decides; the old wish means nothing.
    for params in [call("patient"), asking("patient"), call("stubborn")] {
        let answer = newest.ask_raw("tools/call", modern(params, true)).await;
        assert_eq!(typed(&answer).as_deref(), Some("task"));
        assert_eq!(answer["result"]["ttlMs"], 3_600_000, "the wish of another dialect: {answer}");
    }
    for params in [call("patient"), asking("patient")] {
        let answer = newest.ask_raw("tools/call", modern(params, false)).await;
        assert_eq!((typed(&answer).as_deref(), result(&answer).as_deref()), (Some("complete"), Some("done")));
    }
    let refused = newest.ask_raw("tools/call", modern(call("stubborn"), false)).await;
    assert_eq!(error(&refused), Some(-32021));
    let needed = json!({ "requiredCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } } });
    assert_eq!(refused["error"]["data"], needed);
    assert_eq!(typed(&newest.ask_raw("tools/call", modern(asking("plain"), true)).await).as_deref(), Some("complete"));
}

// D2: one connection, era by request.
#[tokio::test]
async fn one_server_speaks_both_dialects_on_one_connection_and_a_task_has_one() {
    let (mut watch, witness) = watch();
    let tasks = Rig::memory().tasks(&witness);
    let mut client = Client::of(&tasks, Style::November).await;
    let old = client.begin("patient", "old").await;
    watch.started("old").await;
    let new = task_id(&client.ask_raw("tools/call", modern(call("patient"), true)).await);
    watch.started("work").await;
    assert_eq!(client.status(&old).await, "working");
    let get = modern(json!({ "taskId": new }), true);
    assert_eq!(client.ask_raw("tasks/get", get).await["result"]["resultType"], "complete");
    for (id, declares) in [(&old, true), (&new, false)] {
        let params = json!({ "taskId": id });
        let params = if declares { modern(params, true) } else { params };
        for method in ["tasks/get", "tasks/cancel"] {
            assert_eq!(client.ask_raw(method, params.clone()).await["error"]["code"], -32602, "{method}");
        }
    }
    assert!(watch.is_quiet(), "neither was cancelled");
}

// TASK-20, TASK-24, TASK-27: what each dialect has, and nothing else.
#[tokio::test]
async fn methods_of_the_other_dialect_do_not_exist() {
    let (mut watch, witness) = watch();
    let tasks = Rig::memory().tasks(&witness);
    let mut november = Client::of(&tasks, Style::November).await;
    let id = november.begin("patient", "old").await;
    watch.started("old").await;
    let update = json!({ "taskId": id, "inputResponses": {} });
    assert_eq!(november.ask("tasks/update", update.clone()).await["error"]["code"], -32601);
    assert_eq!(november.ask("tasks/list", json!({})).await["error"]["code"], -32601, "nobody owns any");

    let mut newest = Client::of(&tasks, Style::Extension).await;
    let id = newest.begin("patient", "new").await;
    watch.started("new").await;
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(newest.about(method, &id).await["error"]["code"], -32601, "{method}");
    }
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let params = modern(json!({ "taskId": id, "inputResponses": {} }), false);
        assert_eq!(newest.ask_raw(method, params).await["error"]["code"], -32021, "{method}");
    }
    assert!(watch.is_quiet(), "an undeclared cancel stops nothing");
}

// TASK-11, TASK-27.
#[tokio::test]
async fn capabilities_and_tools_are_declared_as_each_revision_defines() {
    let (_watch, witness) = watch();
    let tasks = Rig::memory().tasks(&witness);
    let offered = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
    let mut client = Client::connect(tasks.serve_on(server()), Style::Extension, 64 * 1024).await;
    let greeting = client.greet("2025-11-25").await;
    assert_eq!(greeting["capabilities"], json!({ "tools": {}, "tasks": offered }));
    let listed = client.ask_raw("tools/list", json!({})).await["result"]["tools"].clone();
    let support = |name: &str| {
        let tool = listed.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        tool["execution"]["taskSupport"].clone()
    };
    assert_eq!(
        [support("patient"), support("stubborn"), support("plain")],
        [json!("optional"), json!("required"), Value::Null]
    );

    let discovered = client.ask("server/discover", json!({})).await["result"]["capabilities"].clone();
    let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
    assert_eq!(discovered, json!({ "tools": {}, "extensions": extensions }));
    let listed = client.ask("tools/list", json!({})).await["result"]["tools"].clone();
    assert!(listed.as_array().unwrap().iter().all(|tool| tool.get("execution").is_none()));

    let mut june = Client::connect(tasks.serve_on(server()), Style::Extension, 64 * 1024).await;
    assert_eq!(june.greet("2025-06-18").await["capabilities"], json!({ "tools": {} }));
}

// TASK-11: what a server offers is what it does.
#[tokio::test]
async fn tasks_with_owners_can_be_listed_and_the_server_declares_it() {
    let (_watch, witness) = watch();
    let tasks = Rig::memory().tasks(&witness);
    let owned = tasks.owned_by(|_| Owner::named("ada"));
    for (tasks, lists) in [(&tasks, false), (&owned, true)] {
        let mut client = Client::connect(tasks.serve_on(server()), Style::Extension, 64 * 1024).await;
        let offered = client.greet("2025-11-25").await["capabilities"]["tasks"].clone();
        assert_eq!(offered.get("list").is_some(), lists, "{offered}");
        let listed = client.ask_raw("tasks/list", json!({})).await;
        assert_eq!(listed.get("result").is_some(), lists, "{listed}");
    }
}

#[tokio::test]
async fn a_malformed_request_for_a_task_is_the_clients_error() {
    let (mut watch, witness) = watch();
    let tasks = Rig::memory().tasks(&witness);
    let mut client = Client::of(&tasks, Style::November).await;
    for wish in [json!(1), json!({ "ttl": "long" }), json!({ "ttl": -1 })] {
        let mut params = call("patient");
        params["task"] = wish;
        assert_eq!(client.ask("tools/call", params).await["error"]["code"], -32602);
    }
    assert!(watch.is_quiet());
}
