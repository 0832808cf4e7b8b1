//! The script of the client: what it calls, and when it cancels.
//!
//! Each step waits for messages and marks, never for time, so the order of events is the same on any machine.

use serde_json::json;

use super::client::{Client, ScriptError, Seen};
use crate::sample_server::{REVISION, mark::Event, tool::Tool};

/// The flags of the shim.
pub(super) const FLAGS: [&str; 2] = ["--timeout", "tools/call:sleepy=1s"];

/// The timeout in those flags, in milliseconds.
pub(super) const TIMEOUT_MS: u64 = 1000;

/// The reason that the client gives for its cancels.
pub(super) const REASON: &str = "user pressed Stop";

/// The calls that run at the same time. `dies` runs alone, after them.
const TOGETHER: [Tool; 5] = [Tool::Quick, Tool::Obeys, Tool::Ignores, Tool::Crosses, Tool::Sleepy];

const INITIALIZE: u64 = 0;

/// The id of the ping that shows that the session continues.
pub(super) const PING: u64 = 100;

/// Returns the id of the only call of a tool.
pub(super) const fn id(tool: Tool) -> u64 {
    match tool {
        Tool::Quick => 1,
        Tool::Obeys => 2,
        Tool::Ignores => 3,
        Tool::Crosses => 4,
        Tool::Sleepy => 5,
        Tool::Dies => 6,
    }
}

pub(super) fn play(client: &mut Client) -> Result<(), ScriptError> {
    shake_hands(client)?;
    for tool in TOGETHER {
        call(client, tool)?;
    }
    client.wait_for("the 4th progress report of obeys", |seen| seen.has_progress(Tool::Obeys, 4))?;
    cancel(client, Tool::Obeys)?;
    client.wait_for("obeys to stop", |seen| seen.has_ended(Tool::Obeys))?;

    client.wait_for("the 6th progress report of ignores", |seen| seen.has_progress(Tool::Ignores, 6))?;
    cancel(client, Tool::Ignores)?;

    client.wait_for("the first half of the answer of crosses", |seen| {
        seen.has_mark(Tool::Crosses, |event| event == Event::Answering)
    })?;
    cancel(client, Tool::Crosses)?;

    client.wait_for("the answer to sleepy", |seen| seen.has_answer(id(Tool::Sleepy)))?;
    client.wait_for("sleepy to stop", |seen| seen.has_ended(Tool::Sleepy))?;
    client.wait_for("ignores to end", |seen| seen.has_ended(Tool::Ignores))?;
    // The answers share one stream, so once this one comes, nothing late is still on its way.
    client.request(PING, "ping", &json!({}))?;
    client.wait_for("the answer to a ping", |seen| seen.has_answer(PING))?;

    call(client, Tool::Dies)?;
    client.wait_for("the error about the dead server", |seen| seen.has_answer(id(Tool::Dies)))
}

fn shake_hands(client: &mut Client) -> Result<(), ScriptError> {
    let params = json!({
        "protocolVersion": REVISION,
        "capabilities": {},
        "clientInfo": {"name": "rescind-demo", "version": env!("CARGO_PKG_VERSION")},
    });
    client.request(INITIALIZE, "initialize", &params)?;
    client.wait_for("the answer to initialize", |seen| seen.has_answer(INITIALIZE))?;
    client.notify("notifications/initialized", &json!({}))
}

fn call(client: &mut Client, tool: Tool) -> Result<(), ScriptError> {
    let params = json!({"name": tool.name(), "arguments": {}, "_meta": {"progressToken": tool.name()}});
    client.request(id(tool), "tools/call", &params)
}

fn cancel(client: &mut Client, tool: Tool) -> Result<(), ScriptError> {
    client.notify("notifications/cancelled", &json!({"requestId": id(tool), "reason": REASON}))
}

impl Seen {
    fn has_answer(&self, id: u64) -> bool {
        self.received.iter().any(|message| message.json.get("method").is_none() && message.json["id"] == id)
    }

    fn has_progress(&self, tool: Tool, step: u64) -> bool {
        let matches = |params: &serde_json::Value| params["progressToken"] == tool.name() && params["progress"] == step;
        self.received.iter().any(|message| matches(&message.json["params"]))
    }

    fn has_ended(&self, tool: Tool) -> bool {
        self.has_mark(tool, |event| matches!(event, Event::Stopped { .. } | Event::Finished))
    }

    fn has_mark(&self, tool: Tool, matches: impl Fn(Event) -> bool) -> bool {
        self.marks.iter().any(|mark| mark.tool == tool && matches(mark.event))
    }
}
