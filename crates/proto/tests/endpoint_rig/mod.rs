//! An endpoint on a bench: lines in, lines out, a clock that moves when told.

#![expect(dead_code, reason = "each test file uses its part")]

use core::time::Duration;
use std::collections::VecDeque;

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{
        CallOptions, CancelNotice, Config, Connection, Event, HandlerEnd, IncomingKey, OutgoingKey, Refusal, Reply,
        Request, Settlement, Verdict,
    },
    dialect::Dialect,
    receipt::{Ending, Outcome, Receipt},
    rule::Rule,
    side::Side,
    time::Instant,
};

pub struct Rig {
    pub conn: Connection,
    pub now: Instant,
    /// Polled and not yet looked at.
    pub log: VecDeque<Event>,
}

pub const OK: HandlerEnd<'static> = HandlerEnd::Returned(Reply::Result(b"{}"));

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub fn server(dialect: &'static Dialect) -> Rig {
    Rig::new(config(Side::Server, dialect))
}

pub fn client(dialect: &'static Dialect) -> Rig {
    Rig::new(config(Side::Client, dialect))
}

pub fn config(role: Side, dialect: &'static Dialect) -> Config {
    let mut config = Config::new(role);
    config.dialect = Some(dialect);
    config.deadline_travels = false;
    config
}

pub fn call(id: &str, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub fn result(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

pub fn error(id: &str, code: i32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"}}}}"#)
}

pub fn mcp_cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

pub fn acp_cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#)
}

pub fn lsp_cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}"#)
}

/// The cancel that a peer of this dialect sends.
pub fn cancel_in(dialect: &Dialect, id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{}","params":{{"{}":{id}}}}}"#, dialect.cancel.method, dialect.cancel.id)
}

impl Rig {
    pub fn new(config: Config) -> Self {
        Self { conn: Connection::new(config), now: Instant::after_origin(secs(1000)), log: VecDeque::new() }
    }

    /// The peer sends these messages, each a line, in one read.
    pub fn hear(&mut self, lines: &[&str]) {
        let mut bytes = lines.join("\n").into_bytes();
        bytes.push(b'\n');
        self.conn.handle_input(self.now, &bytes);
        self.conn.check_invariants();
    }

    /// Takes what waits to be written, as lines.
    pub fn say(&mut self) -> Vec<String> {
        let mut text = Vec::new();
        while !self.conn.pending().is_empty() {
            let n = self.conn.pending().len();
            text.extend_from_slice(self.conn.pending());
            self.conn.handle_written(self.now, n);
        }
        self.conn.check_invariants();
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }

    /// Writes this many bytes.
    pub fn write(&mut self, mut bytes: usize) -> String {
        let mut text = Vec::new();
        while bytes > 0 {
            let n = self.conn.pending().len().min(bytes);
            assert!(n > 0, "nothing to write");
            text.extend_from_slice(&self.conn.pending()[..n]);
            self.conn.handle_written(self.now, n);
            bytes -= n;
        }
        String::from_utf8(text).unwrap()
    }

    /// Lets time pass, timer by timer.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.conn.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.conn.handle_timeout(self.now);
            self.conn.check_invariants();
        }
        self.now = end;
    }

    /// Polls every event into the log.
    pub fn poll(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            self.log.push_back(event);
        }
        self.conn.check_invariants();
    }

    /// Polls, and takes the events that `pick` wants, in their order.
    pub fn take<T>(&mut self, mut pick: impl FnMut(&Event) -> Option<T>) -> Vec<T> {
        self.poll();
        let (mut taken, mut rest) = (Vec::new(), VecDeque::new());
        for event in self.log.drain(..) {
            match pick(&event) {
                Some(found) => taken.push(found),
                None => rest.push_back(event),
            }
        }
        self.log = rest;
        taken
    }

    /// Starts every handler that may start.
    pub fn start(&mut self) -> Vec<Request> {
        self.take(|event| match event {
            Event::Request(request) => Some(request.clone()),
            _ => None,
        })
    }

    /// The peer sends a request, whose handler starts.
    pub fn serve(&mut self, id: &str, method: &str) -> IncomingKey {
        self.hear(&[&call(id, method)]);
        let started = self.start();
        assert_eq!(started.len(), 1, "{id} {method} did not start");
        started[0].key
    }

    pub fn end(&mut self, key: IncomingKey, end: HandlerEnd<'_>) {
        self.conn.ended(self.now, key, end);
        self.conn.check_invariants();
    }

    /// Makes a request without clocks and puts it on the wire.
    pub fn call(&mut self, method: &str) -> OutgoingKey {
        let key = self.ask(method, "");
        self.say();
        key
    }

    /// Makes a request and leaves it in the queue.
    pub fn ask(&mut self, method: &str, params: &str) -> OutgoingKey {
        self.ask_with(method, params, &CallOptions::default())
    }

    pub fn ask_with(&mut self, method: &str, params: &str, options: &CallOptions) -> OutgoingKey {
        let key = self.conn.request(self.now, method, params.as_bytes(), options).unwrap();
        self.conn.check_invariants();
        key
    }

    pub fn cancel(&mut self, key: OutgoingKey) -> bool {
        self.cancel_for(key, Cause::new(CauseCode::Caller))
    }

    pub fn cancel_for(&mut self, key: OutgoingKey, cause: Cause) -> bool {
        let cancelled = self.conn.cancel(self.now, key, cause);
        self.conn.check_invariants();
        cancelled
    }

    /// How requests of ours were settled since this was last asked.
    pub fn settled(&mut self) -> Vec<(OutgoingKey, Settlement)> {
        self.take(|event| match event {
            Event::Settled { key, how } => Some((*key, how.clone())),
            _ => None,
        })
    }

    /// The latest receipt of a request.
    pub fn receipt(&mut self, key: OutgoingKey) -> Option<Receipt> {
        self.poll();
        self.log.iter().rev().find_map(|event| match event {
            Event::Receipt(notice) if notice.key == key => Some(notice.receipt.clone()),
            _ => None,
        })
    }

    pub fn outcome(&mut self, key: OutgoingKey) -> Option<Outcome> {
        self.receipt(key).map(|receipt| receipt.outcome)
    }

    /// Handlers whose token fired.
    pub fn fired(&mut self) -> Vec<(IncomingKey, CauseCode)> {
        self.take(|event| match event {
            Event::Cancelled { key, cause } => Some((*key, cause.code)),
            _ => None,
        })
    }

    pub fn dropped(&mut self) -> Vec<IncomingKey> {
        self.take(|event| match event {
            Event::Drop { key } => Some(*key),
            _ => None,
        })
    }

    pub fn endings(&mut self) -> Vec<Ending> {
        self.take(|event| match event {
            Event::Stopped(stopped) => Some(stopped.ending),
            _ => None,
        })
    }

    pub fn notices(&mut self) -> Vec<CancelNotice> {
        self.take(|event| match event {
            Event::Cancel(notice) => Some((**notice).clone()),
            _ => None,
        })
    }

    pub fn verdicts(&mut self) -> Vec<Verdict> {
        self.notices().into_iter().map(|notice| notice.verdict).collect()
    }

    pub fn violations(&mut self) -> Vec<Rule> {
        self.take(|event| match event {
            Event::Violation { rule, .. } => Some(*rule),
            _ => None,
        })
    }

    pub fn refusals(&mut self) -> Vec<Refusal> {
        self.take(|event| match event {
            Event::Refused { why, .. } => Some(*why),
            _ => None,
        })
    }

    pub fn is_closed(&mut self) -> bool {
        !self.take(|event| (*event == Event::Closed).then_some(())).is_empty()
    }

    /// Everything is over, and after the longest age nothing of it is left (invariant 6).
    pub fn leaves_nothing(mut self) {
        self.say();
        self.poll();
        assert_eq!((self.conn.running(), self.conn.queued(), self.conn.waiting()), (0, 0, 0));
        self.pass(secs(700));
        assert_eq!(self.conn.remembered(), 0, "something is remembered for ever");
        assert_eq!(self.conn.incoming().count() + self.conn.outgoing().count(), 0);
        assert_eq!(self.conn.poll_timeout(), None, "a timer is left");
    }
}
