//! Our client and our server of tasks, with work that says what becomes of it, on a paused clock.

use std::{sync::Arc, time::Duration};

use rescind::{
    mcp::{Client, Server, Tool, ToolResult},
    peer::{Context, ErrorObject, Outcome, transport},
};
use rescind_tasks::{
    AsTask, MemoryStore, TaskSupport, Tasks,
    client::{TaskCallError, TaskClient, TaskNotifications},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinHandle,
};

use crate::in_time::in_time;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Style {
    November,
    Extension,
}

const STYLES: [Style; 2] = [Style::November, Style::Extension];

#[derive(Debug, PartialEq)]
enum Seen {
    Started,
    Fired,
    Gone,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

struct Guard(mpsc::UnboundedSender<Seen>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(Seen::Gone);
    }
}

/// A server over one store; every connection is to it.
struct Rig {
    tasks: Tasks,
    seen: mpsc::UnboundedReceiver<Seen>,
    gate: Arc<Semaphore>,
}

/// One connection.
struct Link {
    tasks: TaskClient,
    driver: JoinHandle<std::io::Result<()>>,
}

impl Rig {
    /// `patient` waits for the test or its token; `curious` asks its client for a name.
    fn new() -> Self {
        let (tell, seen) = mpsc::unbounded_channel();
        let gate = Arc::new(Semaphore::new(0));
        let open = Arc::clone(&gate);
        let patient = Tool::new("patient", "Waits", move |_: Nothing, cx: Context| {
            let _ = tell.send(Seen::Started);
            let (guard, gate) = (Guard(tell.clone()), Arc::clone(&open));
            async move {
                let Ok(permit) = cx.unless_cancelled(gate.acquire()).await else {
                    let _ = guard.0.send(Seen::Fired);
                    return Err(ErrorObject::cancelled());
                };
                permit.unwrap().forget();
                Ok("done")
            }
        });
        let curious = Tool::new("curious", "Asks", |_: Nothing, cx: Context| async move {
            let asks = json!({ "message": "name?", "requestedSchema": { "type": "object", "properties": {} } });
            let answer: Value = cx.peer().request("elicitation/create", &asks).await?;
            Ok::<_, ErrorObject>(format!("hello {}", answer["content"]["name"].as_str().unwrap_or("nobody")))
        });
        let tasks = Tasks::builder(Arc::new(MemoryStore::default()))
            .tool(patient.task(TaskSupport::Optional))
            .tool(curious.task(TaskSupport::Optional))
            .start();
        Self { tasks, seen, gate }
    }

    async fn connect(&self, style: Style) -> Link {
        let (near, far) = transport::memory();
        let (server, driver) = self.tasks.serve_on(Server::new("tasks", "1")).accept(far);
        drop(server);
        driver.spawn();
        let notifications = TaskNotifications::new();
        let builder = Client::peer_builder().on_request("elicitation/create", || async {
            Ok::<_, ErrorObject>(json!({ "action": "accept", "content": { "name": "Ada" } }))
        });
        let (peer, driver) = notifications.register(builder).connect(near);
        let driver = driver.spawn();
        let client = Client::new(peer, "together", "1").capability("elicitation", json!({}));
        match style {
            Style::November => drop(client.initialize().await.unwrap()),
            Style::Extension => drop(client.discover().await.unwrap()),
        }
        Link { tasks: TaskClient::of(&client).notified_by(&notifications), driver }
    }

    async fn saw(&mut self, expected: &[Seen]) {
        for expected in expected {
            assert_eq!(in_time(self.seen.recv()).await.as_ref(), Some(expected));
        }
    }
}

fn text(result: &ToolResult) -> Value {
    serde_json::to_value(result).unwrap()["content"][0]["text"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_followed_to_the_end_of_its_task() {
    for style in STYLES {
        let mut rig = Rig::new();
        let link = rig.connect(style).await;
        let call = link.tasks.call_tool("patient", &json!({}));
        let stop = call.handle();
        let call = tokio::spawn(call);
        rig.saw(&[Seen::Started]).await;
        assert!(stop.task().is_some(), "it is a task");
        rig.gate.add_permits(1);
        assert_eq!(text(&call.await.unwrap().unwrap()), "done");
        rig.saw(&[Seen::Gone]).await;
    }
}

/// Case 52. D14, TASK-05: what a dropped call was for is stopped.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_stops_the_work() {
    for style in STYLES {
        let mut rig = Rig::new();
        let link = rig.connect(style).await;
        let call = link.tasks.call_tool("patient", &json!({}));
        let call = tokio::spawn(call);
        rig.saw(&[Seen::Started]).await;
        call.abort();
        rig.saw(&[Seen::Fired, Seen::Gone]).await;
    }
}

/// D28: each dialect lets a receipt say what it shows.
#[tokio::test(start_paused = true)]
async fn a_stop_stops_the_work_and_its_receipt_says_what_the_dialect_shows() {
    for style in STYLES {
        let mut rig = Rig::new();
        let link = rig.connect(style).await;
        let call = link.tasks.call_tool("patient", &json!({}));
        let stop = call.handle();
        let call = tokio::spawn(call);
        rig.saw(&[Seen::Started]).await;
        let receipt = stop.cancel("enough").await;
        match style {
            Style::November => assert!(matches!(receipt.outcome, Outcome::Confirmed { .. }), "{receipt:?}"),
            Style::Extension => assert_eq!((receipt.outcome, receipt.acknowledged), (Outcome::Sent, true)),
        }
        assert!(call.await.unwrap().unwrap_err().is_cancelled());
        rig.saw(&[Seen::Fired, Seen::Gone]).await;
    }
}

/// Case 59: wherever the drop falls between the request and its handle, no work goes on.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_moment_leaves_no_work_behind() {
    for style in STYLES {
        let (mut begun, mut never) = (0, 0);
        for moment in 0..40 {
            let mut rig = Rig::new();
            let link = rig.connect(style).await;
            let call = link.tasks.call_tool("patient", &json!({})).send();
            for _ in 0..moment {
                tokio::task::yield_now().await;
            }
            drop(call);
            drop(link.tasks);
            // The connection goes when nothing is left to be said.
            link.driver.await.unwrap().unwrap();
            let mut running = 0;
            let settle = Duration::from_secs(30);
            while let Ok(Some(seen)) = tokio::time::timeout(settle, rig.seen.recv()).await {
                match seen {
                    Seen::Started => (running, begun) = (running + 1, begun + 1),
                    Seen::Gone => running -= 1,
                    Seen::Fired => {}
                }
            }
            assert_eq!(running, 0, "{style:?}: an orphan after {moment} turns");
            never += usize::from(begun == 0);
        }
        assert!(begun > 0 && never > 0, "both sides of the moment were seen: {begun}, {never}");
    }
}

/// Case 60, the client's part: what outlives its connection is followed, and stopped, from another.
#[tokio::test(start_paused = true)]
async fn a_detached_task_is_followed_from_another_connection() {
    for style in STYLES {
        let mut rig = Rig::new();
        let first = rig.connect(style).await;
        let call = first.tasks.call_tool("patient", &json!({})).detach();
        let stop = call.handle();
        let (held, _) = tokio::join!(tokio::time::timeout(Duration::from_secs(1), call), rig.saw(&[Seen::Started]));
        held.unwrap_err();
        let task = stop.task().unwrap();
        drop(first.tasks);
        first.driver.await.unwrap().unwrap();
        let second = rig.connect(style).await;
        let call = second.tasks.follow::<ToolResult>(&task);
        let stop = call.handle();
        let call = tokio::spawn(call);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!call.is_finished() && rig.seen.try_recv().is_err(), "it goes on");
        drop(stop.cancel(""));
        rig.saw(&[Seen::Fired, Seen::Gone]).await;
        call.await.unwrap().unwrap_err();
        // Whoever follows it now hears how it ended.
        let late = second.tasks.follow::<ToolResult>(&task).await;
        assert!(matches!(late, Err(TaskCallError::CancelledElsewhere { .. })), "{late:?}");
    }
}

/// Case 58: the questions of a task reach its client in either dialect's way.
#[tokio::test(start_paused = true)]
async fn a_task_that_asks_is_answered() {
    for style in STYLES {
        let rig = Rig::new();
        let link = rig.connect(style).await;
        let call = link.tasks.call_tool("curious", &json!({})).on_input(|question| async move {
            assert_eq!(question.method, "elicitation/create");
            Ok(json!({ "action": "accept", "content": { "name": "Ada" } }))
        });
        assert_eq!(text(&call.await.unwrap()), "hello Ada", "{style:?}");
    }
}
