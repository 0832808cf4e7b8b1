//! What the shim wrote down of a run (`rescind run --record`).

use std::fmt;

use rescind_testkit::valid::ValidMessages;
use serde_json::Value;

/// A recording; empty for a run without the shim.
#[derive(Default)]
pub(crate) struct Recording {
    lines: Vec<Value>,
}

impl Recording {
    pub(crate) fn parse(text: &str) -> Self {
        Self { lines: text.lines().map(|line| serde_json::from_str(line).unwrap()).collect() }
    }

    /// Whether it has its last line: the shim came to its own end.
    pub(crate) fn is_complete(&self) -> bool {
        self.lines.last().is_some_and(|line| line["kind"] == "end")
    }

    /// The messages that passed a point, in order: `from_client`, `to_server`, `from_server`, `to_client`.
    pub(crate) fn messages(&self, hop: &str) -> Vec<Value> {
        self.of_kind("frame").filter(|line| line["hop"] == hop).map(message).collect()
    }

    /// The frames that passed a point, in order and byte for byte.
    pub(crate) fn frames(&self, hop: &str) -> Vec<&str> {
        self.of_kind("frame").filter(|line| line["hop"] == hop).filter_map(|line| line["frame"].as_str()).collect()
    }

    /// The first message that the client received and could not read, and why.
    pub(crate) fn invalid(&self) -> Option<String> {
        let mut valid = ValidMessages::default();
        self.of_kind("frame").find_map(|line| {
            let frame = line["frame"].as_str()?;
            // Where a message has headers, they stand in its frame.
            let frame = frame.split_once("\r\n\r\n").map_or(frame, |(_, message)| message);
            match line["hop"].as_str()? {
                "from_client" => valid.sent(frame),
                "to_client" => return valid.check(frame).err().map(|why| format!("{why}: {frame}")),
                _ => {}
            }
            None
        })
    }

    /// How far the progress for `token` had come that passed a point, message by message.
    pub(crate) fn progress(&self, hop: &str, token: &Value) -> Vec<u64> {
        let mut messages = self.messages(hop);
        messages.retain(|message| {
            message["method"] == "notifications/progress" && message["params"]["progressToken"] == *token
        });
        messages.iter().map(|message| whole(&message["params"]["progress"])).collect()
    }

    /// The ids named by the cancels that passed a point.
    pub(crate) fn cancelled(&self, hop: &str) -> Vec<Value> {
        let messages = self.messages(hop);
        let cancels = messages.iter().filter_map(|message| {
            let member = match message["method"].as_str()? {
                "notifications/cancelled" | "$/cancel_request" => "requestId",
                "$/cancelRequest" => "id",
                _ => return None,
            };
            Some(message["params"][member].clone())
        });
        cancels.collect()
    }

    /// The outcomes in every receipt, in order: what was known of cancels, and what was learnt later.
    pub(crate) fn outcomes(&self) -> Vec<&str> {
        self.of_kind("receipt").filter_map(|line| line["outcome"].as_str()).collect()
    }

    /// What the last receipt says.
    pub(crate) fn outcome(&self) -> Option<&str> {
        self.outcomes().pop()
    }

    /// What was swallowed because its request was over: `result`, `error`, `progress`.
    pub(crate) fn swallowed(&self) -> Vec<&str> {
        self.of_kind("late").filter_map(|line| line["what"].as_str()).collect()
    }

    /// The rules that somebody broke, in order.
    pub(crate) fn violations(&self) -> Vec<&str> {
        self.of_kind("violation").filter_map(|line| line["rule"].as_str()).collect()
    }

    /// What became of tasks whose handle nobody waited for any more, in order.
    pub(crate) fn orphans(&self) -> Vec<&str> {
        let orphaned = self.of_kind("task").filter(|line| line["news"] == "orphaned");
        orphaned.filter_map(|line| line["outcome"].as_str()).collect()
    }

    /// The recording up to its first line about a cancel.
    pub(crate) fn before_cancel(&self) -> Self {
        let lines = self.lines.iter().take_while(|line| line["kind"] != "cancel");
        Self { lines: lines.cloned().collect() }
    }

    fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(move |line| line["kind"] == kind)
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// Some SDKs count in floating point.
fn whole(number: &Value) -> u64 {
    number.as_f64().unwrap() as u64
}

/// The message in a frame, whatever its framing.
fn message(line: &Value) -> Value {
    let frame = line["frame"].as_str().unwrap();
    let body = frame.split_once("\r\n\r\n").map_or(frame, |(_, body)| body);
    serde_json::from_str(body).unwrap()
}
