//! An endpoint on a bench: lines in, lines out, a clock that moves when told.

use core::time::Duration;
use std::collections::VecDeque;

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{
        CallOptions, Connection, ConnectionConfig, ConnectionEvent, HandlerEnd, IncomingKey, IncomingRequest,
        IncomingState, OutgoingKey, Reply, Settlement,
    },
    dialect::Dialect,
    link::{CancelNotice, Rejected, Verdict},
    receipt::{Ending, Outcome, Receipt},
    rule::Rule,
    side::Side,
    time::Instant,
};

pub(crate) struct Rig {
    pub(crate) conn: Connection,
    pub(crate) now: Instant,
    /// Polled and not yet looked at.
    pub(crate) log: VecDeque<ConnectionEvent>,
}

pub(crate) const OK: HandlerEnd<'static> = HandlerEnd::Returned(Reply::Result(b"{}"));

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn server(dialect: &'static Dialect) -> Rig {
    Rig::new(config(Side::Server, dialect))
}

pub(crate) fn client(dialect: &'static Dialect) -> Rig {
    Rig::new(config(Side::Client, dialect))
}

pub(crate) fn config(role: Side, dialect: &'static Dialect) -> ConnectionConfig {
    let mut config = ConnectionConfig::new(role);
    config.dialect = Some(dialect);
    config.deadline_travels = false;
    config
}

pub(crate) fn call(id: &str, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub(crate) fn result(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

pub(crate) fn error(id: &str, code: i32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"}}}}"#)
}

pub(crate) fn mcp_cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

pub(crate) fn acp_cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#)
}

pub(crate) fn lsp_cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}"#)
}

/// The cancel that a peer of this dialect sends.
pub(crate) fn cancel_in(dialect: &Dialect, id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{}","params":{{"{}":{id}}}}}"#, dialect.cancel.method, dialect.cancel.id)
}

impl Rig {
    pub(crate) fn new(config: ConnectionConfig) -> Self {
        Self { conn: Connection::new(config), now: Instant::after_origin(secs(1000)), log: VecDeque::new() }
    }

    /// While it is quick; the machine itself checks too.
    pub(crate) fn check(&self) {
        if self.conn.remembered() < 256 {
            self.conn.check_invariants();
        }
    }

    /// The peer sends these messages, each a line, in one read.
    pub(crate) fn hear(&mut self, lines: &[&str]) {
        let mut bytes = lines.join("\n").into_bytes();
        bytes.push(b'\n');
        self.conn.handle_input(self.now, &bytes);
        self.check();
    }

    /// Takes what waits to be written, as lines.
    pub(crate) fn say(&mut self) -> Vec<String> {
        let mut text = Vec::new();
        while !self.conn.pending().is_empty() {
            let n = self.conn.pending().len();
            text.extend_from_slice(self.conn.pending());
            self.conn.handle_written(self.now, n);
        }
        self.check();
        String::from_utf8(text).expect("frames are text").lines().map(str::to_owned).collect()
    }

    /// Writes this many bytes.
    pub(crate) fn write(&mut self, mut bytes: usize) -> String {
        let mut text = Vec::new();
        while bytes > 0 {
            let n = self.conn.pending().len().min(bytes);
            assert!(n > 0, "nothing to write");
            text.extend_from_slice(&self.conn.pending()[..n]);
            self.conn.handle_written(self.now, n);
            bytes -= n;
        }
        String::from_utf8(text).expect("frames are text")
    }

    /// Lets time pass, timer by timer.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.conn.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.conn.handle_timeout(self.now);
            self.check();
        }
        self.now = end;
    }

    /// Polls every event into the log.
    pub(crate) fn poll(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            self.log.push_back(event);
        }
        self.check();
    }

    /// Polls, and takes the events that `pick` wants, in their order.
    pub(crate) fn take<T>(&mut self, mut pick: impl FnMut(&ConnectionEvent) -> Option<T>) -> Vec<T> {
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
    pub(crate) fn start(&mut self) -> Vec<IncomingRequest> {
        self.take(|event| if let ConnectionEvent::Request(request) = event { Some(request.clone()) } else { None })
    }

    /// The peer sends a request, whose handler starts.
    pub(crate) fn serve(&mut self, id: &str, method: &str) -> IncomingKey {
        self.hear(&[&call(id, method)]);
        let started = self.start();
        assert_eq!(started.len(), 1, "{id} {method} did not start");
        started[0].key
    }

    pub(crate) fn end(&mut self, key: IncomingKey, end: HandlerEnd<'_>) {
        self.conn.ended(self.now, key, end);
        self.check();
    }

    /// Makes a request without clocks and puts it on the wire.
    pub(crate) fn call(&mut self, method: &str) -> OutgoingKey {
        let key = self.ask(method, "");
        self.say();
        key
    }

    /// Makes a request and leaves it in the queue.
    pub(crate) fn ask(&mut self, method: &str, params: &str) -> OutgoingKey {
        self.ask_with(method, params, &CallOptions::default())
    }

    pub(crate) fn ask_with(&mut self, method: &str, params: &str, options: &CallOptions) -> OutgoingKey {
        let key = self.conn.request(self.now, method, params.as_bytes(), options).expect("the request is made");
        self.check();
        key
    }

    pub(crate) fn cancel(&mut self, key: OutgoingKey) -> bool {
        self.cancel_for(key, Cause::new(CauseCode::Caller))
    }

    pub(crate) fn cancel_for(&mut self, key: OutgoingKey, cause: Cause) -> bool {
        let cancelled = self.conn.cancel(self.now, key, cause);
        self.check();
        cancelled
    }

    /// How requests of ours were settled since this was last asked.
    pub(crate) fn settled(&mut self) -> Vec<(OutgoingKey, Settlement)> {
        self.take(|event| {
            if let ConnectionEvent::Settled { request: key, how } = event { Some((*key, how.clone())) } else { None }
        })
    }

    /// The latest receipt of a request.
    pub(crate) fn receipt(&mut self, key: OutgoingKey) -> Option<Receipt> {
        self.poll();
        let receipts = self
            .log
            .iter()
            .rev()
            .filter_map(|event| if let ConnectionEvent::Receipt(notice) = event { Some(notice) } else { None });
        receipts.filter(|notice| notice.request == key).map(|notice| notice.receipt.clone()).next()
    }

    pub(crate) fn outcome(&mut self, key: OutgoingKey) -> Option<Outcome> {
        self.receipt(key).map(|receipt| receipt.outcome)
    }

    /// Handlers that have started and not ended.
    pub(crate) fn running(&self) -> usize {
        let is_queued = |state| matches!(state, IncomingState::Queued | IncomingState::Answering);
        self.conn.incoming().filter(|request| !is_queued(request.state)).count()
    }

    /// Requests of the peer whose handler has not started.
    pub(crate) fn queued(&self) -> usize {
        self.conn.incoming().filter(|request| request.state == IncomingState::Queued).count()
    }

    /// Handlers whose token fired.
    pub(crate) fn fired(&mut self) -> Vec<(IncomingKey, CauseCode)> {
        self.take(|event| {
            if let ConnectionEvent::Cancelled { request: key, cause } = event { Some((*key, cause.code)) } else { None }
        })
    }

    pub(crate) fn dropped(&mut self) -> Vec<IncomingKey> {
        self.take(|event| if let ConnectionEvent::DropHandler { request: key } = event { Some(*key) } else { None })
    }

    pub(crate) fn endings(&mut self) -> Vec<Ending> {
        self.take(|event| if let ConnectionEvent::Stopped(stopped) = event { Some(stopped.ending) } else { None })
    }

    pub(crate) fn notices(&mut self) -> Vec<CancelNotice> {
        self.take(|event| if let ConnectionEvent::Cancel(notice) = event { Some((**notice).clone()) } else { None })
    }

    pub(crate) fn verdicts(&mut self) -> Vec<Verdict> {
        self.notices().into_iter().map(|notice| notice.verdict).collect()
    }

    pub(crate) fn violations(&mut self) -> Vec<Rule> {
        self.take(|event| if let ConnectionEvent::Violation { rule, .. } = event { Some(*rule) } else { None })
    }

    pub(crate) fn refusals(&mut self) -> Vec<Rejected> {
        self.take(|event| if let ConnectionEvent::Rejected { why, .. } = event { Some(*why) } else { None })
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        !self.take(|event| (*event == ConnectionEvent::Closed).then_some(())).is_empty()
    }

    /// Everything is over, and after the longest age nothing of it is left (invariant 6).
    pub(crate) fn leaves_nothing(mut self) {
        self.say();
        self.poll();
        assert!(!self.conn.has_events(), "an event is left");
        assert_eq!((self.running(), self.queued(), self.conn.waiting()), (0, 0, 0));
        self.pass(secs(700));
        assert_eq!(self.conn.remembered(), 0, "something is remembered for ever");
        assert_eq!(self.conn.incoming().count() + self.conn.outgoing().count(), 0);
        assert_eq!(self.conn.poll_timeout(), None, "a timer is left");
    }
}
