//! Two endpoints and an unreliable driver, in every dialect: whatever happens between them, in whatever order,
//! an observer who sees only the wire and the events finds no rule broken.
//!
//! Interleavings are chosen by a seeded generator: a failure names its seed.

use std::collections::{BTreeMap, HashSet};

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, Connection, ConnectionEvent, HandlerEnd, IncomingKey, Limit, OutgoingKey, Reply},
    dialect::{Dialect, acp, lsp, mcp},
    frame::{self, Frame},
    json,
    side::{Side, Sides},
    time::Instant,
};

use crate::endpoint_rig::*;

pub(crate) const DIALECTS: [&Dialect; 6] =
    [&mcp::LATEST_LEGACY, &mcp::REVISION_2025_03_26, &mcp::LATEST, &acp::V1, &acp::V2_DRAFT, &lsp::LSP];

pub(crate) const RUNS: u64 = if cfg!(debug_assertions) { 60 } else { 2000 };
const STEPS: usize = 250;

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

/// One end, and what its driver and its caller know.
struct End {
    conn: Connection,
    waiting: Vec<OutgoingKey>,
    settled: HashSet<OutgoingKey>,
    running: Vec<IncomingKey>,
    /// What it wrote and the other has not read.
    wire: Vec<u8>,
    seen: Seen,
}

/// What an observer of one direction has seen.
#[derive(Default)]
struct Seen {
    rest: Vec<u8>,
    requests: HashSet<String>,
    cancels: HashSet<String>,
    answers: BTreeMap<String, usize>,
}

impl Seen {
    fn see(&mut self, bytes: &[u8], dialect: &Dialect) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.see_line(&line, dialect);
        }
    }

    fn see_line(&mut self, line: &[u8], dialect: &Dialect) {
        let text = String::from_utf8_lossy(line);
        match frame::parse(line).expect("only whole frames are written") {
            Frame::Request(request) => {
                assert!(self.requests.insert(request.id.to_string()), "an id was used twice: {text}");
            }
            Frame::Notification(note) if note.method == dialect.cancel.method => {
                let params = note.params.raw.expect("a cancel has params");
                let id = json::member(params, dialect.cancel.id).expect("a cancel names a request");
                let id = String::from_utf8_lossy(id).into_owned();
                assert!(self.requests.contains(&id), "invariant 1: a cancel is ahead of its request: {text}");
                assert!(self.cancels.insert(id), "invariant 1: two cancels: {text}");
            }
            Frame::Response(response) => {
                let id = String::from_utf8_lossy(&line[response.id_span]).into_owned();
                *self.answers.entry(id).or_default() += 1;
            }
            Frame::Notification(_) | Frame::Batch(_) => {}
        }
    }
}

struct World {
    ends: Sides<End>,
    dialect: &'static Dialect,
    now: Instant,
    dice: Dice,
}

impl World {
    fn new(dialect: &'static Dialect, seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let ends = Sides::from_fn(|role| {
            let mut config = config(role, dialect);
            config.max_running = 1 + dice.roll(4);
            config.max_queued = 1 + dice.roll(4);
            config.seed = seed;
            let conn = Connection::new(config);
            End {
                conn,
                waiting: Vec::new(),
                settled: HashSet::new(),
                running: Vec::new(),
                wire: Vec::new(),
                seen: Seen::default(),
            }
        });
        Self { ends, dialect, now: Instant::after_origin(secs(1)), dice }
    }

    fn step(&mut self) {
        let side = if self.dice.roll(2) == 0 { Side::Client } else { Side::Server };
        let (now, dialect) = (self.now, self.dialect);
        let Self { ends, dice, .. } = self;
        let end = &mut ends[side];
        match dice.roll(12) {
            // MCP-M03: the server of the newest revision asks nothing.
            0 | 1 if side == Side::Client || dialect != &mcp::LATEST => {
                let limit = if dice.roll(3) == 0 { Limit::After(millis(dice.roll(400) as u64)) } else { Limit::Never };
                let parent = if dice.roll(2) == 0 { dice.pick(&end.running) } else { None };
                let total_timeout = Limit::Never;
                let options = CallOptions { response_timeout: limit, total_timeout, parent, ..CallOptions::default() };
                if let Ok(key) = end.conn.request(now, "work", b"{}", &options) {
                    end.waiting.push(key);
                }
            }
            2 => {
                if let Some(key) = dice.pick(&end.waiting) {
                    end.conn.cancel(now, key, Cause::new(CauseCode::Caller));
                }
            }
            3 => {
                if let Some(key) = dice.pick(&end.waiting) {
                    end.conn.cancel_and_wait(now, key, Cause::new(CauseCode::Operator), millis(200));
                }
            }
            4 | 5 => {
                if !end.running.is_empty() {
                    let key = end.running.swap_remove(dice.roll(end.running.len()));
                    let ends =
                        [OK, HandlerEnd::Cancelled, HandlerEnd::GaveUp, HandlerEnd::Panicked, HandlerEnd::Dropped];
                    end.conn.ended(now, key, ends[dice.roll(ends.len())]);
                }
            }
            6 => {
                if let Some(key) = dice.pick(&end.running) {
                    match dice.roll(4) {
                        0 => drop(end.conn.respond(now, key, Reply::Result(b"1"))),
                        1 => drop(end.conn.notify_for(now, key, "note", b"{}")),
                        2 => drop(end.conn.shield(key)),
                        _ => end.conn.unshield(key),
                    }
                }
            }
            7 | 8 => {
                let n = end.conn.pending().len();
                if n > 0 {
                    let n = 1 + dice.roll(n);
                    let bytes = end.conn.pending()[..n].to_vec();
                    end.conn.handle_written(now, n);
                    end.seen.see(&bytes, dialect);
                    end.wire.extend(bytes);
                }
            }
            9 | 10 => {
                let n = end.wire.len();
                if n > 0 {
                    let bytes: Vec<u8> = end.wire.drain(..1 + dice.roll(n)).collect();
                    ends[side.other()].conn.handle_input(now, &bytes);
                }
            }
            _ => {
                self.now = now + millis(dice.roll(100) as u64);
                let now = self.now;
                for side in Side::BOTH {
                    ends[side].conn.handle_timeout(now);
                }
            }
        }
        for side in Side::BOTH {
            self.poll(side);
        }
    }

    fn poll(&mut self, side: Side) {
        let end = &mut self.ends[side];
        while let Some(event) = end.conn.poll_event() {
            match event {
                ConnectionEvent::Request(request) => end.running.push(request.key),
                ConnectionEvent::Settled { request: key, .. } => {
                    assert!(end.settled.insert(key), "invariant 3: {key:?} was settled twice");
                    end.waiting.retain(|waiting| *waiting != key);
                }
                ConnectionEvent::DropHandler { request: key } => {
                    end.running.retain(|running| *running != key);
                    end.conn.ended(self.now, key, HandlerEnd::Dropped);
                }
                ConnectionEvent::Violation { rule, id } => panic!("{rule} was broken for {id:?}"),
                ConnectionEvent::Rejected { why, id, .. } => {
                    let expected = matches!(why, rescind_proto::link::Rejected::Overloaded);
                    assert!(expected, "{why:?} {id:?}");
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
                | ConnectionEvent::GivenUp { .. }
                | ConnectionEvent::Closed => {}
            }
        }
        end.conn.check_invariants();
    }

    /// Everything ends: handlers, bytes, and at last memory.
    fn end(&mut self) {
        for _ in 0..1000 {
            for side in Side::BOTH {
                let end = &mut self.ends[side];
                for key in end.running.split_off(0) {
                    end.conn.ended(self.now, key, OK);
                }
                while !end.conn.pending().is_empty() {
                    let bytes = end.conn.pending().to_vec();
                    end.conn.handle_written(self.now, bytes.len());
                    end.seen.see(&bytes, self.dialect);
                    end.wire.extend(bytes);
                }
                let bytes = std::mem::take(&mut end.wire);
                self.ends[side.other()].conn.handle_input(self.now, &bytes);
                self.poll(Side::Client);
                self.poll(Side::Server);
            }
            self.now = self.now + secs(10);
            for side in Side::BOTH {
                self.ends[side].conn.handle_timeout(self.now);
                self.poll(side);
            }
            if Side::BOTH.iter().all(|side| self.ends[*side].conn.poll_timeout().is_none()) {
                break;
            }
        }
        for side in Side::BOTH {
            let end = &self.ends[side];
            assert_eq!(end.waiting, [], "invariant 3: somebody waits for ever");
            assert_eq!(end.conn.remembered(), 0, "invariant 6");
            assert_eq!(end.conn.incoming().count() + end.conn.outgoing().count(), 0, "invariant 6");
            assert_eq!(end.conn.poll_timeout(), None, "invariant 6: a timer is left");
            self.judge(side);
        }
    }

    /// What the requests of `side` got, seen on the wire.
    fn judge(&self, side: Side) {
        let (asked, answered) = (&self.ends[side].seen, &self.ends[side.other()].seen);
        assert!(asked.rest.is_empty(), "half a frame is left");
        for id in &asked.requests {
            let answers = answered.answers.get(id).copied().unwrap_or(0);
            let may_be_silent = self.dialect.is_silent() && asked.cancels.contains(id);
            assert!(answers == 1 || (answers == 0 && may_be_silent), "invariant 4: {id} got {answers} answers");
        }
        assert!(answered.answers.keys().all(|id| asked.requests.contains(id)), "an answer to nothing");
    }
}

/// One storm; `false` if it broke something.
pub(crate) fn storm(dialect: &'static Dialect, seed: u64) -> bool {
    let result = std::panic::catch_unwind(|| {
        let mut world = World::new(dialect, seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.end();
    });
    result.is_ok()
}

#[test]
fn whatever_happens_in_whatever_order_no_rule_is_broken() {
    for dialect in DIALECTS {
        for seed in 0..RUNS {
            assert!(storm(dialect, seed), "{dialect}, seed {seed}");
        }
    }
}
