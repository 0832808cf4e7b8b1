//! A recording: every frame and everything that was decided, as JSON lines.
//!
//! `docs/recording.md` is the schema. A recording is never silently incomplete: if
//! the disk is slower than the link, the link waits. If the disk fails, the
//! recording ends without the line that says it is complete, and stderr says why.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    task::{Context, Poll},
    time::Duration,
};

use rescind_proto::{
    cause::sanitised,
    dialect::Dialect,
    id::RequestId,
    link::{CancelNotice, Verdict},
    receipt::{Outcome, Receipt},
    relay::{End, RelayEvent, Settled, TaskNews},
    side::{Side, Sides},
    time::Instant,
};

use super::{ends::EntryName, object::Object, recording_file::RecordingFile, sink::Sink};
use crate::process::ended_by::EndedBy;

/// The version of the schema.
const VERSION: i64 = 1;

/// Bytes after which a batch is written even if the link is busy.
const BATCH: usize = 64 * 1024;

/// Time to write the rest of the recording at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The first line of a recording.
#[derive(Debug)]
pub(super) struct RecordingHeader<'a> {
    pub(super) command: &'a [OsString],
    pub(super) entry: &'a EntryName,
    /// The dialect that each side was pinned to, or `auto`.
    pub(super) client: &'a str,
    pub(super) server: &'a str,
    /// The machine's monotonic clock at time zero of the recording.
    pub(super) monotonic_nanos: i64,
}

/// Writes a recording.
#[derive(Debug)]
pub(super) struct Recorder {
    sink: Sink,
    path: PathBuf,
}

impl Recorder {
    pub(super) fn begin(file: RecordingFile, header: &RecordingHeader<'_>) -> io::Result<Self> {
        let RecordingFile { file, path } = file;
        let mut sink = Sink::new(file, "record")?;
        let mut line = Object::open(sink.line());
        line.text("rescind", "recording");
        line.number("version", VERSION);
        line.text("program", concat!("rescind ", env!("CARGO_PKG_VERSION")));
        line.text("started", &humantime::format_rfc3339_micros(std::time::SystemTime::now()).to_string());
        line.number("monotonicNs", header.monotonic_nanos);
        line.number("pid", std::process::id().into());
        line.texts("command", header.command.iter().map(|word| word.to_string_lossy().into_owned()));
        line.text_if("entry", header.entry.name.as_deref());
        line.text_if("clientName", header.entry.client.as_deref());
        line.object("protocol", [("client", header.client), ("server", header.server)]);
        drop(line);
        Ok(Self { sink, path })
    }

    /// Ready while the disk keeps up.
    pub(super) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.sink.poll_room(cx)
    }

    /// Sends the lines to the writing thread. Returns the error of the recording once, if it has failed.
    pub(super) fn commit(&mut self) -> Option<(PathBuf, io::Error)> {
        self.sink.commit();
        self.sink.remove_failure().map(|error| (self.path.clone(), error))
    }

    /// The server has ended.
    pub(super) fn server_ended(&mut self, now: Instant, how: &End, by: Option<EndedBy>) {
        let mut line = Object::event(self.sink.line(), now, "server_ended");
        write_end(&mut line, how);
        line.text("endedBy", by.map_or("server", EndedBy::as_str));
        match by {
            None => {}
            Some(EndedBy::Client(signal)) => line.number("clientSignal", signal.into()),
            Some(EndedBy::Shim(reason)) => line.text("because", reason.as_str()),
        }
    }

    /// The server was started again, for this time (D64).
    pub(super) fn server_restarted(&mut self, now: Instant, count: u64) {
        let mut line = Object::event(self.sink.line(), now, "server_restarted");
        line.number("count", i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Writes the last line, which says that the recording is complete. `dialects` is what each side spoke in the end.
    /// Returns the error if that fails.
    pub(super) fn finish(&mut self, now: Instant, dialects: Sides<&Dialect>) -> Option<(PathBuf, io::Error)> {
        let mut line = Object::event(self.sink.line(), now, "end");
        line.object("protocol", [("client", dialects.client.name), ("server", dialects.server.name)]);
        drop(line);
        self.sink.finish(FLUSH_TIMEOUT);
        self.sink.remove_failure().map(|error| (self.path.clone(), error))
    }

    pub(super) fn event(&mut self, now: Instant, event: &RelayEvent) {
        // It is settled, which is recorded.
        if let RelayEvent::Silenced { .. } = event {
            return;
        }
        let out = self.sink.line();
        match event {
            RelayEvent::Silenced { .. } => {}
            RelayEvent::Frame { hop, bytes } => {
                let mut line = Object::event(out, now, "frame");
                line.text("hop", hop.as_str());
                line.bytes("frame", bytes);
            }
            RelayEvent::Opened { request, id, upstream, method, .. } => {
                let mut line = Object::event(out, now, "opened");
                write_request(&mut line, request.from, Some(id), Some(method));
                line.id("upstream", upstream);
            }
            RelayEvent::PartOf { request, id, method, parent, parent_id } => {
                let mut line = Object::event(out, now, "part_of");
                write_request(&mut line, request.from, Some(id), Some(method));
                line.text("parentFrom", parent.from.as_str());
                line.id("parent", parent_id);
            }
            RelayEvent::Settled { request, id, method, how } => {
                let mut line = Object::event(out, now, "settled");
                write_request(&mut line, request.from, Some(id), Some(method));
                line.text("how", how.as_str());
                if let Settled::AnsweredHere { code: Some(code) } = how {
                    line.number("code", (*code).into());
                }
            }
            RelayEvent::Cancel(notice) => write_cancel(out, now, notice),
            RelayEvent::Receipt { request, id, method, receipt, .. } => {
                let mut line = Object::event(out, now, "receipt");
                write_request(&mut line, request.from, Some(id), Some(method));
                write_receipt(&mut line, receipt);
            }
            RelayEvent::Task { request, id, task, news, .. } => {
                let mut line = Object::event(out, now, "task");
                write_request(&mut line, request.from, Some(id), None);
                line.text("task", task);
                line.text("news", news.as_str());
                if let TaskNews::Orphaned(outcome) = news {
                    line.text("outcome", outcome.as_str());
                }
            }
            RelayEvent::TimedOut { request, id, method, clock, after } => {
                let mut line = Object::event(out, now, "timed_out");
                write_request(&mut line, request.from, Some(id), Some(method));
                line.text("clock", clock.as_str());
                line.millis("afterMs", *after);
            }
            RelayEvent::Stuck { request, id, method, sign, .. } => {
                let mut line = Object::event(out, now, "stuck");
                write_request(&mut line, request.from, Some(id), Some(method));
                line.text("sign", sign.as_str());
            }
            RelayEvent::Late { from, id, what } => {
                let mut line = Object::event(out, now, "late");
                write_request(&mut line, *from, Some(id), None);
                line.text("what", what.as_str());
            }
            RelayEvent::Rejected { from, why, excerpt } => {
                let mut line = Object::event(out, now, "dropped");
                line.text("from", from.as_str());
                line.text("why", why.as_str());
                line.bytes("excerpt", excerpt);
            }
            RelayEvent::Violation { by, rule, id } => {
                let mut line = Object::event(out, now, "violation");
                write_request(&mut line, *by, id.as_ref(), None);
                line.text("rule", rule.number());
            }
            RelayEvent::GivenUp { side, unsent } => {
                let mut line = Object::event(out, now, "given_up");
                line.text("side", side.as_str());
                line.number("unread", i64::try_from(*unsent).unwrap_or(i64::MAX));
            }
        }
        if out.len() > BATCH {
            self.sink.commit();
        }
    }
}

fn write_cancel(out: &mut Vec<u8>, now: Instant, notice: &CancelNotice) {
    let CancelNotice { from, id, method, cause, reason, verdict, in_flight } = notice;
    let mut line = Object::event(out, now, "cancel");
    write_request(&mut line, *from, id.as_ref(), method.as_deref());
    line.text("cause", cause.as_str());
    line.text_if("reason", reason.as_deref().map(sanitised).as_deref());
    line.text("verdict", verdict.as_str());
    if let Verdict::Forbidden(rule) = verdict {
        line.text("rule", rule.number());
    }
    line.number("inFlight", i64::try_from(*in_flight).unwrap_or(i64::MAX));
}

fn write_request(line: &mut Object<'_>, from: Side, id: Option<&RequestId>, method: Option<&str>) {
    line.text("from", from.as_str());
    if let Some(id) = id {
        line.id("id", id);
    }
    line.text_if("method", method);
}

fn write_receipt(line: &mut Object<'_>, receipt: &Receipt) {
    let Receipt { cause, asked, written, outcome } = receipt;
    line.text("cause", cause.code.as_str());
    line.text_if("reason", cause.text().map(sanitised).as_deref());
    line.time("asked", Some(*asked));
    line.time("written", *written);
    line.text("outcome", outcome.as_str());
    if let Outcome::Confirmed { after } | Outcome::AnsweredAfter { after, .. } = outcome {
        line.millis("afterMs", *after);
    }
    if let Outcome::AnsweredAfter { answer, .. } = outcome {
        line.text("answer", answer.as_str());
    }
}

fn write_end(line: &mut Object<'_>, how: &End) {
    match how {
        End::Closed => {}
        End::Exited(code) => line.number("exitCode", (*code).into()),
        End::Signalled(signal) => line.number("signal", (*signal).into()),
        _ => {}
    }
}
