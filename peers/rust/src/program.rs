//! What the programs in `examples/` share: marks, work, and being led by a server.

use std::{
    collections::HashMap,
    env,
    fs::{self, OpenOptions},
    io::Write,
    process,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::sleep;

/// Appends a mark to the file that `RESCIND_MARKS` names: what happened to a piece of work, as it says itself.
pub fn mark(work: &str, event: &str, more: Value) {
    let Some(file) = env::var_os("RESCIND_MARKS") else { return };
    let mut line = json!({"work": work, "event": event, "pid": process::id()});
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more);
    }
    let marks = OpenOptions::new().append(true).open(file);
    marks.and_then(|mut marks| marks.write_all(format!("{line}\n").as_bytes())).expect("marks can be written");
}

/// Whether there is a mark of `event` by `work`.
pub fn marked(work: &str, event: &str) -> bool {
    mark_of(work, event).is_some()
}

/// The first mark of `event` by `work`, if it is there.
pub fn mark_of(work: &str, event: &str) -> Option<Value> {
    let marks = env::var_os("RESCIND_MARKS").and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let whole = marks.rfind('\n').map_or("", |end| &marks[..end]);
    let mut lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_default());
    lines.find(|line| line["work"] == work && line["event"] == event)
}

/// The text under `name` in what a call was given.
pub fn text<'a>(call: &'a Value, name: &str) -> &'a str {
    call[name].as_str().unwrap_or_default()
}

/// Works for thirty seconds, or as many ticks of a tenth as it is told, until it is told to stop.
pub async fn obey(call: &Value, told: impl Future<Output = ()>) -> Option<&'static str> {
    let work = text(call, "work");
    mark(work, "started", Value::Null);
    let ticks = call["ticks"].as_u64().unwrap_or(300);
    tokio::select! {
        biased;
        () = told => {
            mark(work, "stopped", Value::Null);
            None
        }
        () = sleep(Duration::from_millis(100 * ticks)) => {
            mark(work, "finished", Value::Null);
            Some("finished")
        }
    }
}

/// Marks that a caller gave its call up, once the call is gone.
struct GivenUp {
    work: String,
    is_settled: bool,
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if !self.is_settled {
            mark(&self.work, "cancelled", Value::Null);
        }
    }
}

/// Does what the server says: calls `next`, is answered with an order, does it, and calls `next` again.
///
/// `request` calls the server; dropping its future is how a call is cancelled.
pub async fn led<F>(request: impl Fn(String, Value, Option<Duration>) -> F)
where
    F: Future<Output = Result<String, String>> + Send + 'static,
{
    let mut calls = HashMap::new();
    loop {
        let order = request("next".into(), json!({}), None).await.expect("the server has orders");
        let order: Value = serde_json::from_str(&order).expect("an order is JSON");
        let work = text(&order, "work").to_owned();
        match text(&order, "do") {
            "call" => {
                let timeout = order["timeout_ms"].as_u64().map(Duration::from_millis);
                let call = request(text(&order, "behaviour").into(), json!({"work": work}), timeout);
                let mut given_up = GivenUp { work: work.clone(), is_settled: false };
                let task = tokio::spawn(async move {
                    let outcome = call.await;
                    given_up.is_settled = true;
                    match outcome {
                        Ok(value) => mark(&given_up.work, "result", json!({"value": value})),
                        Err(message) => mark(&given_up.work, "error", json!({"message": message})),
                    }
                });
                calls.insert(work, task.abort_handle());
            }
            "cancel" => {
                if let Some(call) = calls.remove(&work) {
                    call.abort();
                }
            }
            _ => return,
        }
    }
}
