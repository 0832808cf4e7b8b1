//! Peers that send anything: no input breaks an invariant, and in the end nothing is left.

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, Connection, ConnectionEvent, HandlerEnd, IncomingKey, OutgoingKey, Reply},
    dialect::Dialect,
    framing::Framing,
    side::Side,
    time::Instant,
};

use crate::endpoint_rig::*;

const RUNS: u64 = if cfg!(debug_assertions) { 25 } else { 150 };

/// Frames, whole and broken; `#` stands for a small number.
const CORPUS: [&str; 44] = [
    r##"{"jsonrpc":"2.0","id":#,"method":"work"}"##,
    r##"{"jsonrpc":"2.0","id":"#","method":"work","params":{"_meta":{"progressToken":#}}}"##,
    r##"{"jsonrpc":"2.0","id":#,"method":"work","params":{"_meta":{"dev.rescind/deadlineMs":#0}}}"##,
    r##"{"jsonrpc":"2.0","id":#,"method":"initialize","params":{"protocolVersion":1}}"##,
    r##"{"jsonrpc":"2.0","id":#,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"##,
    r##"{"jsonrpc":"2.0","id":#,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"cancellation":{"request":true}}}}"##,
    r##"{"jsonrpc":"2.0","id":null,"method":"work"}"##,
    r##"{"jsonrpc":"2.0","id":1.5,"method":"work"}"##,
    r##"{"jsonrpc":"2.0","id":#,"id":#,"method":"work"}"##,
    r##"{"jsonrpc":"2.0","id":#,"method":"shutdown"}"##,
    r##"{"jsonrpc":"2.0","id":#,"method":"session/prompt","params":{"sessionId":"#"}}"##,
    r##"{"jsonrpc":"2.0","id":#,"method":"session/request_permission","params":{"sessionId":"#"}}"##,
    r##"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"#"}}"##,
    r##"{"jsonrpc":"2.0","method":"session/cancel"}"##,
    r##"{"jsonrpc":"2.0","id":#,"method":"subscriptions/listen"}"##,
    r##"{"jsonrpc":"2.0","id":#,"method":"work","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"##,
    r##"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#}}"##,
    r##"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#","reason":"why \u0000"}}"##,
    r##"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null,"reason":5}}"##,
    r##"{"jsonrpc":"2.0","method":"notifications/cancelled"}"##,
    r##"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":#}}"##,
    r##"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":null}}"##,
    r##"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":#}}"##,
    r##"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"requestId":"#"}}"##,
    r##"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":#,"progress":1}}"##,
    r##"{"jsonrpc":"2.0","method":"$/progress","params":{"token":#}}"##,
    r##"{"jsonrpc":"2.0","method":"notifications/message"}"##,
    r##"{"jsonrpc":"2.0","id":#,"result":{}}"##,
    r##"{"jsonrpc":"2.0","id":"#","result":{"outcome":{"outcome":"cancelled"}}}"##,
    r##"{"jsonrpc":"2.0","id":#.0,"result":{"stopReason":"cancelled"}}"##,
    r##"{"jsonrpc":"2.0","id":#,"error":{"code":-32800,"message":"x"}}"##,
    r##"{"jsonrpc":"2.0","id":#,"error":{"code":"x"}}"##,
    r##"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"##,
    r##"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"##,
    r##"{"jsonrpc":"2.0","id":#,"result":1,"error":{}}"##,
    r##"{"jsonrpc":"2.0","id":#}"##,
    r##"[{"jsonrpc":"2.0","id":#,"method":"work"},{"jsonrpc":"2.0","id":#,"method":"work"}]"##,
    r##"[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#}},5,[]]"##,
    "[]",
    "{nonsense",
    "\u{fffd}",
    "",
    r##"{"jsonrpc":"2.0","id":#,"result":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"##,
    r##"{"jsonrpc":"2.0","id":#,"method":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"##,
];

/// A small generator: the same choices for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % sides as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.roll(from.len())])
    }
}

struct Driver {
    conn: Connection,
    now: Instant,
    dice: Dice,
    running: Vec<IncomingKey>,
    asked: Vec<OutgoingKey>,
    settled: usize,
}

impl Driver {
    fn new(role: Side, dialect: Option<&'static Dialect>, framing: Framing, seed: u64) -> Self {
        let mut config = rescind_proto::connection::ConnectionConfig::new(role);
        config.dialect = dialect;
        config.framing = framing;
        config.max_message = 200;
        config.max_running = 3;
        config.max_queued = 3;
        config.max_backlog = 2000;
        config.early_cancels.most = 3;
        config.remembered = 4;
        let dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let now = Instant::after_origin(secs(5));
        Self { conn: Connection::new(config), now, dice, running: Vec::new(), asked: Vec::new(), settled: 0 }
    }

    fn frame(&mut self) -> Vec<u8> {
        let template = CORPUS[self.dice.roll(CORPUS.len())];
        let body: String = template
            .split('#')
            .enumerate()
            .map(|(at, part)| if at == 0 { part.to_owned() } else { format!("{}{part}", self.dice.roll(6)) })
            .collect();
        body.into_bytes()
    }

    fn step(&mut self, framing: Framing) {
        match self.dice.roll(14) {
            0..=4 => {
                let mut bytes = Vec::new();
                for _ in 0..=self.dice.roll(3) {
                    framing.write(&mut bytes, &self.frame());
                }
                if self.dice.roll(20) == 0 {
                    bytes.truncate(self.dice.roll(bytes.len() + 1));
                }
                if self.conn.wants_input() {
                    self.conn.handle_input(self.now, &bytes);
                }
            }
            5 => {
                let methods = [
                    "work",
                    "initialize",
                    "session/prompt",
                    "session/request_permission",
                    "shutdown",
                    "subscriptions/listen",
                ];
                let params = ["", "{}", r#"{"sessionId":"1"}"#, r#"{"_meta":{"progressToken":3}}"#, "[1]"];
                let (method, params) = (methods[self.dice.roll(6)], params[self.dice.roll(5)]);
                let parent = self.dice.pick(&self.running);
                let options =
                    CallOptions { parent, reset_on_progress: self.dice.roll(2) == 0, ..CallOptions::default() };
                if let Ok(key) = self.conn.request(self.now, method, params.as_bytes(), &options) {
                    self.asked.push(key);
                }
            }
            6 => {
                if let Some(key) = self.dice.pick(&self.asked) {
                    self.conn.cancel(self.now, key, Cause::new(CauseCode::Caller));
                }
            }
            7 => drop(self.conn.notify(self.now, "session/cancel", br#"{"sessionId":"1"}"#)),
            8 | 9 => {
                if !self.running.is_empty() {
                    let key = self.running.swap_remove(self.dice.roll(self.running.len()));
                    let ends =
                        [OK, HandlerEnd::Cancelled, HandlerEnd::Dropped, HandlerEnd::Panicked, HandlerEnd::Answered];
                    self.conn.ended(self.now, key, ends[self.dice.roll(5)]);
                }
            }
            10 => {
                if let Some(key) = self.dice.pick(&self.running) {
                    match self.dice.roll(4) {
                        0 => drop(self.conn.respond(self.now, key, Reply::Result(b"1"))),
                        1 => drop(self.conn.notify_for(self.now, key, "note", b"{}")),
                        2 => drop(self.conn.shield(key)),
                        _ => drop(self.conn.stop(self.now, key, Cause::new(CauseCode::Operator))),
                    }
                }
            }
            11 | 12 => {
                let n = self.conn.pending().len();
                self.conn.handle_written(self.now, self.dice.roll(n + 1));
            }
            _ => {
                self.now = self.now + millis(self.dice.roll(2000) as u64);
                self.conn.handle_timeout(self.now);
            }
        }
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            match event {
                ConnectionEvent::Request(request) => self.running.push(request.key),
                ConnectionEvent::Settled { .. } => self.settled += 1,
                ConnectionEvent::DropHandler { request: key } => {
                    self.running.retain(|running| *running != key);
                    self.conn.ended(self.now, key, HandlerEnd::Dropped);
                }
                ConnectionEvent::Notification(_)
                | ConnectionEvent::Progress { .. }
                | ConnectionEvent::Cancelled { .. }
                | ConnectionEvent::Delivered { .. }
                | ConnectionEvent::Silenced { .. }
                | ConnectionEvent::Stopped(_)
                | ConnectionEvent::Receipt(_)
                | ConnectionEvent::Cancel(_)
                | ConnectionEvent::Late { .. }
                | ConnectionEvent::Rejected { .. }
                | ConnectionEvent::Violation { .. }
                | ConnectionEvent::GivenUp { .. }
                | ConnectionEvent::Closed => {}
            }
        }
        // Three are at work; one that asks its peer something is not.
        assert!(self.running.len() <= 6);
        self.conn.check_invariants();
        assert!(self.conn.clone().poll_event().is_none());
    }

    fn end(mut self) {
        match self.dice.roll(3) {
            0 => self.conn.handle_eof(self.now),
            1 => self.conn.handle_write_closed(self.now),
            _ => self.conn.shutdown(self.now),
        }
        self.poll();
        for _ in 0..200 {
            for key in self.running.split_off(0) {
                self.conn.ended(self.now, key, OK);
            }
            while !self.conn.pending().is_empty() {
                self.conn.handle_written(self.now, self.conn.pending().len());
            }
            self.poll();
            let Some(due) = self.conn.poll_timeout() else { break };
            self.now = self.now.max(due);
            self.conn.handle_timeout(self.now);
            self.poll();
        }
        assert_eq!(self.settled, self.asked.len(), "invariant 3");
        assert_eq!(self.conn.remembered(), 0, "invariant 6");
        assert_eq!(self.conn.incoming().count() + self.conn.outgoing().count(), 0, "invariant 6");
        assert_eq!((self.conn.unsent(), self.conn.poll_timeout()), (0, None));
    }
}

#[test]
fn no_input_breaks_an_invariant() {
    let dialects = Dialect::ALL.into_iter().map(Some).chain([None]);
    for dialect in dialects {
        for role in Side::BOTH {
            for framing in [Framing::Line, Framing::Headers] {
                for seed in 0..RUNS {
                    let result = std::panic::catch_unwind(|| {
                        let mut driver = Driver::new(role, dialect, framing, seed);
                        for _ in 0..150 {
                            driver.step(framing);
                        }
                        driver.end();
                    });
                    assert!(
                        result.is_ok(),
                        "{:?} {role:?} {framing:?} seed {seed}",
                        dialect.map(|dialect| dialect.name)
                    );
                }
            }
        }
    }
}
