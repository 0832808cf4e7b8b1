//! rmcp as a server, with a raw client.

use rescind_peers_wrap::{
    Fate, Raw, Way, Work, both, call, connection, eventually, notification, request, row, seconds,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig},
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The tool `obey` stops when its token fires, `deaf` works on.
#[derive(Clone)]
pub(crate) struct Tools(pub(crate) Work);

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = call.arguments.and_then(|args| Some(args.get("work")?.as_str()?.to_owned())).unwrap_or_default();
        let done = match &*call.name {
            "obey" => self.0.run_until(&name, cx.ct.cancelled()).await,
            _ => Some(self.0.run(&name).await),
        };
        let text = done.ok_or_else(|| ErrorData::internal_error("stopped", None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// A server at work, and a client that has shaken hands.
async fn served(way: Way) -> (Work, Raw) {
    let work = Work::default();
    let (io, mut client) = connection(4096);
    let service = Tools(work.clone()).serve(way.server(io, |wrap| wrap));
    tokio::spawn(async move {
        if let Ok(running) = service.await {
            let _ = running.waiting().await;
        }
    });
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}});
    client.send(request("hello", "initialize", hello)).await;
    client.answer_to("hello").await;
    client.send(notification("notifications/initialized", json!({}))).await;
    (work, client)
}

fn cancel(id: u32) -> Value {
    notification("notifications/cancelled", json!({"requestId": id}))
}

fn text(answer: Option<Value>) -> String {
    match answer {
        None => "no answer".into(),
        Some(answer) => match answer["error"]["message"].as_str() {
            Some(message) => format!("error: {message}"),
            None => answer["result"]["content"][0]["text"].as_str().unwrap_or("?").into(),
        },
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_used_again_after_a_cancel_gets_the_result_of_its_own_call() {
    let seen = both(async |way| {
        let (work, mut client) = served(way).await;
        client.send(call(7, "deaf", "old")).await;
        work.comes_to("old", Fate::Running).await;
        client.send(cancel(7)).await;
        client.barrier("ping").await;
        client.send(call(7, "deaf", "new")).await;
        work.comes_to("new", Fate::Running).await;
        work.release("old");
        work.comes_to("old", Fate::Finished).await;
        client.barrier_beside(7).await;
        work.release("new");
        let first = text(eventually(client.answer_to(7)).await);
        format!("{first}, then {}", text(eventually(client.answer_to(7)).await))
    })
    .await;
    row("rmcp server: an id used again after a cancel gets", &seen);
    assert_eq!(seen[0], "result of old, then no answer");
    assert_eq!(seen[1], "result of new, then no answer");
}

#[tokio::test(start_paused = true)]
async fn the_first_of_two_calls_with_one_id_gets_its_own_result() {
    let seen = both(async |way| {
        let (work, mut client) = served(way).await;
        client.send(call(1, "deaf", "first")).await;
        work.comes_to("first", Fate::Running).await;
        client.send(call(1, "deaf", "second")).await;
        client.barrier("ping").await;
        work.release("second");
        if work.fate("second").is_some() {
            work.comes_to("second", Fate::Finished).await;
            client.barrier_beside(1).await;
        }
        work.release("first");
        let first = text(eventually(client.answer_to(1)).await);
        format!("{first}, then {}", text(eventually(client.answer_to(1)).await))
    })
    .await;
    row("rmcp server: two calls in flight under one id get", &seen);
    assert_eq!(seen[0], "result of second, then no answer");
    assert_eq!(seen[1], "result of first, then no answer");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_client_stops_the_work_at_once() {
    let seen = both(async |way| {
        let (work, mut client) = served(way).await;
        client.send(call(1, "obey", "long")).await;
        work.comes_to("long", Fate::Running).await;
        let left = Instant::now();
        drop(client);
        match eventually(work.comes_to("long", Fate::Stopped)).await {
            Some(()) => format!("stops after {}", seconds(left.elapsed())),
            None => "works on".into(),
        }
    })
    .await;
    row("rmcp server: the client has gone; a tool that watches its token", &seen);
    assert_eq!(seen[0], "stops after 5.0 s");
    assert_eq!(seen[1], "stops after 0.0 s");
}
