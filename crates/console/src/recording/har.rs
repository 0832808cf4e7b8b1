//! A recording as HAR 1.2, which the developer tools of browsers open: one entry for each request.
//!
//! `http://www.softwareishard.com/blog/har-12-spec/`. Members that begin with `_` are ours.

use std::{
    io::{self, Write},
    time::SystemTime,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rescind_feed::Side;
use serde_json::{Value, json};

use super::{
    Message, Recording,
    exchange::{Exchange, outcome},
};

/// What is encoded in a step of a path.
const IN_STEP: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'$');

/// A JSON-RPC error is shown as a failure of the server, and a cancel as what a client that hung up gets.
const OK: u16 = 200;
const CANCELLED: u16 = 499;
const FAILED: u16 = 500;

impl Recording {
    /// Writes it as HAR 1.2. Work that is followed without a message of its own is left out. It holds what the recording
    /// holds, secrets, too.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_har(&self, mut out: impl Write) -> io::Result<()> {
        let creator = json!({"name": "rescind", "version": env!("CARGO_PKG_VERSION")});
        let comment = self.session.command.first().map_or("", String::as_str);
        write!(
            out,
            r#"{{"log":{{"version":"1.2","creator":{creator},"pages":[],"comment":{},"entries":["#,
            json!(format!("{} {comment}", self.session.program))
        )?;
        let entries = self.exchanges().filter_map(|exchange| self.entry(&exchange));
        for (number, entry) in entries.enumerate() {
            out.write_all(if number == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut out, &entry)?;
        }
        out.write_all(b"\n]}}\n")?;
        out.flush()
    }

    fn entry(&self, exchange: &Exchange<'_>) -> Option<Value> {
        let Exchange { request, positions, asked, answered } = exchange;
        let asked = asked.as_ref()?;
        let took = millis(self.end_of(request) - request.since);
        let outcome = outcome(request);
        let (status, words) = match outcome {
            Some("result") => (OK, "result".to_owned()),
            Some("cancelled" | "timed_out") => (CANCELLED, outcome.unwrap_or_default().replace('_', " ")),
            Some("error") => (FAILED, "error".to_owned()),
            // As a browser shows what was never answered.
            Some(_) | None => (0, outcome.unwrap_or("no answer").to_owned()),
        };
        let code = request.settled.as_ref().and_then(|settled| settled.code);
        let words = code.map_or_else(|| words.clone(), |code| format!("{words} {code}"));
        let shown = answered.as_ref().map_or_else(String::new, text);
        let length = answered.as_ref().map_or(0, |message| message.length);
        let messages: Vec<Value> = positions
            .iter()
            .filter_map(|position| self.frame(*position))
            .map(|frame| {
                let at = self.wall_clock(frame.at).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let kind = if frame.from == request.from { "send" } else { "receive" };
                json!({"type": kind, "time": at.as_secs_f64(), "opcode": 1, "data": frame.text})
            })
            .collect();
        let ours = json!({
            "session": self.session.name,
            "key": request.key,
            "id": request.id,
            "from": request.from.as_str(),
            "parent": request.parent,
            "outcome": outcome,
            "cancel": request.cancel,
            "late": request.late,
            "messages": messages,
        });
        let mut entry = json!({
            "startedDateTime": humantime::format_rfc3339_micros(self.wall_clock(request.since)).to_string(),
            "time": took,
            "request": {
                "method": "POST",
                "url": url(request.from, &request.method, request.name.as_deref()),
                "httpVersion": "JSON-RPC",
                "cookies": [],
                "headers": [],
                "queryString": [],
                "postData": {"mimeType": "application/json", "params": [], "text": text(asked)},
                "headersSize": -1,
                "bodySize": asked.length,
            },
            "response": {
                "status": status,
                "statusText": words,
                "httpVersion": "JSON-RPC",
                "cookies": [],
                "headers": [],
                "content": {"size": length, "mimeType": "application/json", "text": shown},
                "redirectURL": "",
                "headersSize": -1,
                "bodySize": length,
            },
            "cache": {},
            "timings": {"blocked": -1, "dns": -1, "connect": -1, "send": 0, "wait": took, "receive": 0, "ssl": -1},
            "_resourceType": "fetch",
            "_rescind": ours,
        });
        if let Some(cancel) = &request.cancel {
            entry["comment"] = json!(format!("cancelled by {}: {}", cancel.cause, cancel.words));
        }
        Some(entry)
    }
}

/// A method as an address: `rescind://server/tools/call/NAME` is a request to the server.
fn url(from: Side, method: &str, name: Option<&str>) -> String {
    let to = match from {
        Side::Client => "server",
        Side::Server => "client",
    };
    let steps = method.split('/').chain(name);
    let steps: Vec<String> = steps.map(|step| utf8_percent_encode(step, IN_STEP).to_string()).collect();
    format!("rescind://{to}/{}", steps.join("/"))
}

fn text(message: &Message) -> String {
    String::from_utf8_lossy(&message.body).into_owned()
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1000.0
}
