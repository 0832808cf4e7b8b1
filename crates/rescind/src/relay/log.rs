//! The log: what concerns cancels, one line each (D31).
//!
//! People who may not read the messages may read the log, so below `trace` it
//! holds no params and no results, nor bytes that could be part of them. Logs are
//! read on terminals, so text that a peer chose is quoted and has no control
//! characters. If the log is written too slowly, lines are left out and counted: a
//! log must not stall a link.

use std::{
    fs::File,
    io,
    time::{Duration, SystemTime},
};

use rescind_proto::{
    cause::{CauseCode, sanitised},
    id::RequestId,
    link::{CancelNotice, Rejected, Verdict},
    receipt::Outcome,
    relay::{End, RelayEvent, Settled, TaskNews, WelcomeNews},
    rule::Violations,
    side::{Side, Sides},
};

use super::sink::Sink;
use crate::process::{Suspended, ended_by::EndedBy, turn_processes::TurnProcess};

/// How much is logged. Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LogLevel {
    /// A side was given up. The first malformed cancel of each side.
    Error,
    /// Cancels of unknown or uncancellable requests, broken rules, messages not passed on, timeouts, stuck requests.
    Warn,
    /// Cancels received, decided and sent, and their outcomes.
    Info,
    /// Cancels of ended requests, late messages, and each request's start and end.
    Debug,
    /// The length of each frame, and the beginning of each message that is not passed on, which may hold secrets.
    Trace,
}

impl LogLevel {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Trace => "TRACE",
        }
    }
}

/// A log being written.
#[derive(Debug)]
pub(super) struct Log {
    level: LogLevel,
    sink: Sink,
    /// Lines left out since the last line.
    left_out: usize,
    /// Malformed cancels of each side: the first is logged, the rest only counted (D29).
    malformed: Sides<usize>,
}

/// Time to write the rest of the log at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The room in the queue without which a line is left out.
const LINE_ROOM: usize = 64 * 1024;

impl Log {
    pub(super) fn new(file: File, level: LogLevel) -> io::Result<Self> {
        Ok(Self { level, sink: Sink::new(file, "log")?, left_out: 0, malformed: Sides::default() })
    }

    /// Sends the lines to the writing thread. Returns the error of the log once, if it has failed.
    pub(super) fn commit(&mut self) -> Option<io::Error> {
        self.sink.commit();
        self.sink.remove_failure()
    }

    /// Writes the closing summary: what was only counted, and each broken rule. Returns the error if that fails.
    pub(super) fn finish(&mut self, broken: Sides<&Violations>) -> Option<io::Error> {
        for side in Side::BOTH {
            let count = self.malformed[side];
            if count > 1 {
                self.line(LogLevel::Debug, "malformed cancels", |line| {
                    line.word("from", side.as_str()).word("count", count)
                });
            }
        }
        for side in Side::BOTH {
            for (rule, count) in broken[side] {
                self.line(LogLevel::Info, "rule broken, total", |line| {
                    line.word("from", side.as_str()).word("rule", rule.number()).word("count", count)
                });
            }
        }
        self.sink.finish(FLUSH_TIMEOUT);
        self.sink.remove_failure()
    }

    pub(super) fn server_ended(&mut self, how: &End, by: Option<EndedBy>) {
        self.line(LogLevel::Info, "the server ended", |line| {
            let line = match how {
                End::Closed => line,
                End::Exited(code) => line.word("exit_code", code),
                End::Signalled(signal) => line.word("signal", signal),
                _ => line,
            };
            let line = line.word("ended_by", by.map_or("server", EndedBy::as_str));
            match by {
                None => line,
                Some(EndedBy::Client(signal)) => line.word("client_signal", signal),
                Some(EndedBy::Shim(reason)) => {
                    line.word("because", reason.as_str()).words("means", &reason.to_string())
                }
            }
        });
    }

    pub(super) fn turn_process(&mut self, one: &TurnProcess) {
        #[cfg(feature = "admin")]
        self.line(LogLevel::Info, "a process of a cancelled request", |line| {
            line.word("pid", one.pid).words("name", &one.name).words("means", &one.how)
        });
        #[cfg(not(feature = "admin"))]
        match *one {}
    }

    pub(super) fn server_restarted(&mut self, count: u64) {
        self.line(LogLevel::Info, "the server was started again", |line| line.word("count", count));
    }

    pub(super) fn welcome(&mut self, news: &WelcomeNews) {
        match news {
            WelcomeNews::Welcomed => self.line(LogLevel::Info, "the client was greeted from the cache", |line| line),
            WelcomeNews::Confirmed { after, lacks } => {
                self.line(LogLevel::Info, "the server has started", |line| {
                    let line = line.word("after", format!("{after:?}"));
                    if lacks.is_empty() { line } else { line.words("lacks", &lacks.join(", ")) }
                });
            }
            WelcomeNews::Changed { list, is_reported } => {
                self.line(LogLevel::Info, "a list is another than its client was told", |line| {
                    line.word("list", list).word("reported", is_reported)
                });
            }
            WelcomeNews::Unfit(why) => {
                self.line(LogLevel::Error, "the client cannot go on with the server", |line| line.words("why", why));
            }
        }
    }

    pub(super) fn suspended(&mut self, how: Suspended) {
        self.line(LogLevel::Warn, "the server was stopped: it used its client's terminal", |line| {
            line.word("signal", how.signal)
        });
    }

    #[cfg(feature = "admin")]
    pub(super) fn unlisted(&mut self, why: &super::admin::SocketError) {
        self.line(LogLevel::Warn, "no admin socket", |line| line.words("why", &why.to_string()));
    }

    pub(super) fn event(&mut self, event: &RelayEvent, in_flight: Sides<usize>) {
        match event {
            RelayEvent::Cancel(notice) => self.cancel(notice),
            RelayEvent::Receipt { request, id, method, receipt, .. } => {
                // The cancel was logged when it was received; nothing has been sent.
                if receipt.outcome == Outcome::Asked {
                    return;
                }
                let text = if receipt.outcome == Outcome::Sent { "cancel sent" } else { "receipt" };
                self.line(LogLevel::Info, text, |line| {
                    line.request(request.from, Some(id), Some(method))
                        .word("initiator", initiator(receipt.cause.code, request.from))
                        .reason(receipt.cause.text())
                        .word("outcome", receipt.outcome.as_str())
                        .words("means", &receipt.outcome.to_string())
                        .word("in_flight", in_flight[request.from])
                });
            }
            RelayEvent::Task { request, id, task, news, .. } => {
                let (level, text) = match news {
                    TaskNews::Made => (LogLevel::Debug, "became a task"),
                    TaskNews::Orphaned(Outcome::NotSendable) => (LogLevel::Warn, "a task that cannot be cancelled"),
                    TaskNews::Orphaned(_) => (LogLevel::Info, "cancelling a task that was created after its cancel"),
                };
                self.line(level, text, |line| {
                    let line = line.request(request.from, Some(id), None).words("task", task);
                    match news {
                        TaskNews::Made => line,
                        TaskNews::Orphaned(outcome) => line.word("outcome", outcome.as_str()),
                    }
                });
            }
            RelayEvent::TimedOut { request, id, method, clock, after } => {
                self.line(LogLevel::Warn, "timed out", |line| {
                    line.request(request.from, Some(id), Some(method))
                        .word("clock", clock.as_str())
                        .word("after", format!("{after:?}"))
                });
            }
            RelayEvent::Stuck { request, id, method, sign, .. } => {
                self.line(LogLevel::Warn, "stuck after its cancel", |line| {
                    line.request(request.from, Some(id), Some(method)).word("sign", sign.as_str())
                })
            }
            RelayEvent::Late { from, id, what, .. } => self.line(LogLevel::Debug, "late, swallowed", |line| {
                line.request(*from, Some(id), None).word("what", what.as_str())
            }),
            RelayEvent::Rejected { from, why, excerpt, .. } => {
                let is_trace = self.level >= LogLevel::Trace;
                self.line(LogLevel::Warn, "not passed on", |line| {
                    let line = line.word("from", from.as_str()).word("why", why.as_str());
                    let text = String::from_utf8_lossy(excerpt);
                    if let Rejected::DuplicateId | Rejected::Overloaded = why {
                        line.words("method", &text)
                    } else if *why == Rejected::TooLarge {
                        line.words("says", &text)
                    } else if is_trace {
                        // Bytes of a message, perhaps of its params.
                        line.words("excerpt", text.trim_end())
                    } else {
                        line
                    }
                });
            }
            RelayEvent::Violation { by, rule, id, .. } => self.line(LogLevel::Warn, "rule broken", |line| {
                line.request(*by, id.as_ref(), None).word("rule", rule.number()).words("says", rule.text())
            }),
            RelayEvent::GivenUp { side, unsent } => self.line(LogLevel::Error, "does not read, given up", |line| {
                line.word("side", side.as_str()).word("unread", unsent)
            }),
            // The cancel that led to the one is logged; the other is for recordings.
            RelayEvent::Silenced { .. } | RelayEvent::PartOf { .. } => {}
            RelayEvent::Opened { request, id, method, .. } => {
                self.line(LogLevel::Debug, "request", |line| line.request(request.from, Some(id), Some(method)));
            }
            RelayEvent::Settled { request, id, method, how } => {
                self.line(LogLevel::Debug, "settled", |line| {
                    let line = line.request(request.from, Some(id), Some(method)).word("how", how.as_str());
                    if let Settled::AnsweredHere { code: Some(code) } = how { line.word("code", code) } else { line }
                });
            }
            RelayEvent::Frame { hop, bytes, .. } => {
                self.line(LogLevel::Trace, "frame", |line| line.word("hop", hop.as_str()).word("bytes", bytes.len()))
            }
        }
    }

    fn cancel(&mut self, notice: &CancelNotice) {
        let CancelNotice { from, id, method, cause, reason, verdict, in_flight, .. } = notice;
        let level = match verdict {
            Verdict::Accepted | Verdict::Held => LogLevel::Info,
            Verdict::Repeated | Verdict::Completed | Verdict::Shielded => LogLevel::Debug,
            Verdict::Unknown | Verdict::Forbidden(_) => LogLevel::Warn,
            Verdict::Malformed => {
                let seen = &mut self.malformed[*from];
                *seen += 1;
                if *seen > 1 {
                    return;
                }
                LogLevel::Error
            }
            _ => LogLevel::Info,
        };
        let text = if *cause == CauseCode::Caller { "cancel received" } else { "cancel decided" };
        self.line(level, text, |line| {
            let line = line
                .request(*from, id.as_ref(), method.as_deref())
                .word("initiator", initiator(*cause, *from))
                .reason(reason.as_deref())
                .word("verdict", verdict.as_str());
            let line = if let Verdict::Forbidden(rule) = verdict { line.word("rule", rule.number()) } else { line };
            line.word("in_flight", in_flight)
        });
    }

    fn line<'a>(&'a mut self, level: LogLevel, text: &str, members: impl FnOnce(LogLine<'a>) -> LogLine<'a>) {
        if level > self.level {
            return;
        }
        if !self.sink.has_room(LINE_ROOM) {
            self.left_out += 1;
            return;
        }
        let left_out = std::mem::take(&mut self.left_out);
        let out = self.sink.line();
        if left_out > 0 {
            LogLine::begin(out, LogLevel::Warn, "lines left out").word("count", left_out).end();
        }
        members(LogLine::begin(out, level, text)).end();
    }
}

/// The origin of a cancel: the side that sent it, or what decided it here.
fn initiator(cause: CauseCode, from: Side) -> &'static str {
    if cause == CauseCode::Caller { from.as_str() } else { cause.as_str() }
}

/// A line being written: `time LEVEL text name=value name="words"`.
struct LogLine<'a>(&'a mut Vec<u8>);

impl<'a> LogLine<'a> {
    fn begin(out: &'a mut Vec<u8>, level: LogLevel, text: &str) -> Self {
        let now = humantime::format_rfc3339_micros(SystemTime::now());
        out.extend_from_slice(format!("{now} {:5} {text}", level.as_str()).as_bytes());
        Self(out)
    }

    fn word(self, name: &str, value: impl std::fmt::Display) -> Self {
        self.0.extend_from_slice(format!(" {name}={value}").as_bytes());
        self
    }

    fn words(self, name: &str, value: &str) -> Self {
        self.0.extend_from_slice(format!(" {name}=").as_bytes());
        rescind_proto::json::write_string(self.0, &sanitised(value));
        self
    }

    fn reason(self, reason: Option<&str>) -> Self {
        match reason {
            Some(reason) => self.words("reason", reason),
            None => self,
        }
    }

    fn request(self, from: Side, id: Option<&RequestId>, method: Option<&str>) -> Self {
        let line = self.word("from", from.as_str());
        let line = match id {
            Some(id) => line.word("id", sanitised(&id.to_string())),
            None => line,
        };
        match method {
            Some(method) => line.words("method", method),
            None => line,
        }
    }

    fn end(self) {
        self.0.push(b'\n');
    }
}
