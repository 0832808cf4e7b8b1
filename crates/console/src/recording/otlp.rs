//! A recording as OTLP/JSON: one trace, with a span for the session and one for each request. The names are those of
//! `docs/telemetry.md`.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Write},
    time::SystemTime,
};

use rescind_feed::{Cancel, Request, SettledHow};
use serde_json::{Value, json};

use super::{
    Recording,
    exchange::{Exchange, is_tool_error, outcome, trace_parent},
};
use crate::metrics::short_command;

/// Kinds of spans, and the status of an error.
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
const ERROR: u8 = 2;

impl Recording {
    /// Writes it as one `ExportTraceServiceRequest` of OTLP/JSON, which a collector takes at `/v1/traces`. The same
    /// recording always has the same ids. No params are in it but the names of tools and prompts, and reasons of cancels.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_otlp(&self, mut out: impl Write) -> io::Result<()> {
        let scope = json!({"name": "rescind", "version": env!("CARGO_PKG_VERSION")});
        let resource = json!({"attributes": attributes([
            ("service.name", Some(json!(self.server_name()))),
            ("service.version", self.session.server.version.as_ref().map(|version| json!(version))),
            ("rescind.program", Some(json!(self.session.program))),
            ("rescind.session", Some(json!(self.session.name))),
            ("rescind.client", self.session.client.name.as_ref().map(|name| json!(name))),
        ])});
        write!(out, r#"{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{{"scope":{scope},"spans":["#)?;
        let session = self.span(&self.session.name, None, &self.server_name(), INTERNAL, (0, self.now));
        out.write_all(b"\n")?;
        serde_json::to_writer(&mut out, &session)?;
        for exchange in self.exchanges() {
            out.write_all(b",\n")?;
            serde_json::to_writer(&mut out, &self.span_of(&exchange))?;
        }
        out.write_all(b"\n]}]}]}\n")?;
        out.flush()
    }

    fn server_name(&self) -> String {
        let named = self.session.server.name.clone();
        named.unwrap_or_else(|| short_command(&self.session.command))
    }

    fn span(&self, key: &str, parent: Option<&str>, name: &str, kind: u8, (from, to): (u64, u64)) -> Value {
        let mut span = json!({
            "traceId": format!("{:016x}{:016x}", self.number("trace", 0), self.number("trace", 1)),
            "spanId": format!("{:016x}", self.number(key, 2)),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": self.nanos(from),
            "endTimeUnixNano": self.nanos(to),
            "status": {},
        });
        if let Some(parent) = parent {
            span["parentSpanId"] = json!(format!("{:016x}", self.number(parent, 2)));
        }
        span
    }

    fn span_of(&self, exchange: &Exchange<'_>) -> Value {
        let Exchange { request, asked, answered, .. } = exchange;
        let parent = request.parent.as_deref().unwrap_or(&self.session.name);
        let name = match &request.name {
            Some(name) => format!("{} {name}", request.method),
            None => request.method.clone(),
        };
        let mut span = self.span(&request.key, Some(parent), &name, CLIENT, (request.since, self.end_of(request)));
        let side = match request.from {
            rescind_feed::Side::Client => &self.session.client,
            rescind_feed::Side::Server => &self.session.server,
        };
        let revision = side.protocol.strip_prefix("mcp-");
        let name_of = |method: &str| request.name.as_ref().filter(|_| request.method == method).map(|name| json!(name));
        let is_tool_error = answered.as_ref().is_some_and(|answer| is_tool_error(&answer.body));
        let outcome = outcome(request);
        let code = request.settled.as_ref().and_then(|settled| settled.code).filter(|_| outcome == Some("error"));
        let error = match outcome {
            Some("error") => Some(code.map_or_else(|| "_OTHER".to_owned(), |code| code.to_string())),
            Some("timed_out") => Some("timeout".to_owned()),
            Some("closed") => Some("connection_closed".to_owned()),
            Some("result") if is_tool_error => Some("tool_error".to_owned()),
            _ => None,
        };
        span["attributes"] = attributes([
            ("mcp.method.name", revision.map(|_| json!(request.method))),
            ("mcp.protocol.version", revision.map(|revision| json!(revision))),
            ("rpc.method", revision.is_none().then(|| json!(request.method))),
            ("jsonrpc.request.id", Some(json!(request.id))),
            ("gen_ai.tool.name", name_of("tools/call")),
            ("gen_ai.prompt.name", name_of("prompts/get")),
            ("error.type", error.as_ref().map(|error| json!(error))),
            ("rpc.response.status_code", code.map(|code| json!(code.to_string()))),
            ("outcome", outcome.map(|outcome| json!(outcome))),
            ("cause", request.cancel.as_ref().map(|cancel| json!(cancel.cause))),
            ("rescind.from", Some(json!(request.from.as_str()))),
        ]);
        // A cancel is neither an error nor a success, nor is a requester that has left.
        if error.is_some() && request.settled.as_ref().is_none_or(|settled| settled.how != SettledHow::Gone) {
            span["status"] = json!({"code": ERROR});
        }
        span["events"] = Value::Array(self.events_of(request));
        if let Some((trace, of)) = asked.as_ref().and_then(|asked| trace_parent(&asked.body)) {
            span["links"] = json!([{"traceId": trace, "spanId": of}]);
        }
        span
    }

    /// Its cancel, what was learnt of that, and what came too late.
    fn events_of(&self, request: &Request) -> Vec<Value> {
        let event = |at: u64, name: &str, attributes: Value| json!({"timeUnixNano": self.nanos(at), "name": name, "attributes": attributes});
        let mut events = Vec::new();
        if let Some(cancel) = &request.cancel {
            let Cancel { cause, reason, asked, written, outcome, after, words, .. } = cancel;
            let reason = reason.as_ref().map(|reason| json!(reason));
            events.push(event(*asked, "cancel", attributes([("cause", Some(json!(cause))), ("reason", reason)])));
            let learnt = after.map(|after| asked + after).or(*written).unwrap_or(*asked);
            let learnt_words = [("outcome", Some(json!(outcome))), ("words", Some(json!(words)))];
            events.push(event(learnt, "receipt", attributes(learnt_words)));
        }
        if let Some(late) = &request.late {
            let counts = [("answers", Some(json!(late.answers))), ("notifications", Some(json!(late.notices)))];
            events.push(event(late.at, "late", attributes(counts)));
        }
        events
    }

    /// A number for this recording and this word.
    fn number(&self, word: &str, salt: u8) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.session.started, self.session.pid, word, salt).hash(&mut hasher);
        // Zero is not an id.
        hasher.finish().max(1)
    }

    /// A time in nanoseconds, which OTLP has as text.
    fn nanos(&self, at: u64) -> String {
        self.wall_clock(at).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
    }
}

/// Attributes; those without a value are left out. Numbers are text there.
fn attributes<const N: usize>(all: [(&str, Option<Value>); N]) -> Value {
    let of = |(key, value): (&str, Option<Value>)| {
        let value = value?;
        let value = match value.as_u64() {
            Some(number) => json!({"intValue": number.to_string()}),
            None => json!({"stringValue": value.as_str().unwrap_or_default()}),
        };
        Some(json!({"key": key, "value": value}))
    };
    Value::Array(all.into_iter().filter_map(of).collect())
}
