//! Floods: much more passes than may ever be held, and what is held is measured in bytes, capacities included.
//!
//! A walk through small worlds ends dry before a leak of bytes shows. Here
//! queues hardly ever run dry, writes end inside a frame, a side stops reading
//! for long, requests are cancelled before they leave, and batches are bombs.

use core::{fmt::Write as _, time::Duration};

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{self, CallOptions, Connection, HandlerEnd, IncomingKey, Reply},
    dialect::mcp,
    relay::{self, Relay},
    side::{Side, Sides},
    time::Instant,
};

use super::{chooser::Chooser, world::Broken};

/// The longest message; all other bounds follow from it.
const MESSAGE: usize = 1 << 20;

/// Bytes that may wait for a side before the other is paused.
const BACKLOG: usize = 64 << 10;

/// The most that one read gives the machine.
const READ: usize = 16 << 10;

/// How a side reads for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Nothing at all.
    Stopped,
    /// Some bytes of each frame, so that the next has always begun.
    Pieces,
    /// Everything that waits.
    Fast,
}

/// Mostly pieces: a leak of what was written shows only while the queue does not run dry.
const READING: [Reading; 16] = {
    let mut reading = [Reading::Pieces; 16];
    reading[0] = Reading::Stopped;
    reading[1] = Reading::Stopped;
    reading[2] = Reading::Fast;
    reading
};

/// What a flood has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flooded {
    /// Bytes that the machine has taken in.
    pub taken: usize,
    /// The most that it held at any time, in bytes.
    pub most: usize,
    /// The most that it may hold, as documented.
    pub bound: usize,
}

/// A relay's bounds, so narrow that a flood meets all of them.
pub fn narrow_relay(config: relay::RelayConfig) -> relay::RelayConfig {
    let legacy = Some(&mcp::REVISION_2025_03_26);
    relay::RelayConfig {
        dialects: Sides { client: legacy, server: legacy },
        max_message: MESSAGE,
        max_backlog: BACKLOG,
        max_kept: BACKLOG,
        max_in_flight: 256,
        remembered: 16,
        ..config
    }
}

/// An endpoint's bounds, so narrow that a flood meets all of them.
pub fn narrow_endpoint(config: connection::ConnectionConfig) -> connection::ConnectionConfig {
    connection::ConnectionConfig {
        dialect: Some(&mcp::REVISION_2025_03_26),
        max_message: MESSAGE,
        max_backlog: BACKLOG,
        max_queued_bytes: BACKLOG,
        max_running: 16,
        max_queued: 64,
        remembered: 256,
        ..config
    }
}

/// Floods a relay from both sides until the choices end.
///
/// # Errors
///
/// When the relay holds more than is documented.
///
/// # Panics
///
/// When an invariant breaks.
pub fn relay(config: relay::RelayConfig, chooser: &mut impl Chooser) -> Result<Flooded, Broken> {
    let config = narrow_relay(config);
    let mut tally = Flooded { bound: config.most_held(READ), ..Flooded::default() };
    let mut relay = Relay::new(config);
    let mut now = Instant::ORIGIN;
    let mut reading = Sides { client: Reading::Pieces, server: Reading::Pieces };
    let mut flight = Sides { client: Flight::default(), server: Flight::default() };
    let mut next_id = 0;
    while let Some(choice) = chooser.choose(32) {
        let side = Side::BOTH[choice % 2];
        now = now + Duration::from_millis(10);
        match choice / 2 {
            0 => reading[side] = READING[chooser.choose(READING.len()).unwrap_or_default()],
            1 => relay.handle_timeout(now),
            _ => {}
        }
        for side in Side::BOTH {
            if relay.wants_input(side) {
                // Somebody types on while the other side hangs.
                let types = reading[side.other()] == Reading::Stopped;
                let read =
                    flight[side].next(|| if types { pairs(chooser, &mut next_id) } else { say(chooser, &mut next_id) });
                relay.handle_input(now, side, read);
                tally.taken += read.len();
                tally.see(relay.held())?;
            }
            while let Some(len) = read(reading[side], relay.pending(side)) {
                relay.handle_written(now, side, len);
                if reading[side] == Reading::Pieces {
                    break;
                }
            }
        }
        while relay.poll_event().is_some() {}
        relay.check_invariants();
        tally.see(relay.held())?;
    }
    Ok(tally)
}

/// Floods an endpoint with requests that it answers, slowly, while it notifies its peer, until the choices end.
///
/// # Errors
///
/// When the connection holds more than is documented.
///
/// # Panics
///
/// When an invariant breaks.
pub fn endpoint(config: connection::ConnectionConfig, chooser: &mut impl Chooser) -> Result<Flooded, Broken> {
    let config = narrow_endpoint(config);
    let mut tally = Flooded { bound: config.most_held(READ), ..Flooded::default() };
    let mut connection = Connection::new(config);
    let mut now = Instant::ORIGIN;
    let mut reading = Reading::Pieces;
    let mut running: Vec<IncomingKey> = Vec::new();
    let mut flight = Flight::default();
    let mut next_id = 0;
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(20_000));
    while let Some(choice) = chooser.choose(16) {
        now = now + Duration::from_millis(10);
        match choice {
            0 => reading = READING[chooser.choose(READING.len()).unwrap_or_default()],
            1 => connection.handle_timeout(now),
            // Calls that their callers drop before they have left.
            6 | 7 => {
                for _ in 0..16 {
                    let call = connection.request(now, "work", large.as_bytes(), &CallOptions::default());
                    if let Ok(key) = call {
                        connection.cancel(now, key, Cause::new(CauseCode::Caller));
                    }
                }
            }
            2..=5 => {
                let text = if choice == 2 { large.as_str() } else { "{}" };
                for key in running.drain(..) {
                    connection.ended(now, key, HandlerEnd::Returned(Reply::Result(text.as_bytes())));
                }
            }
            _ => {}
        }
        if connection.wants_input() {
            let read = flight.next(|| say(chooser, &mut next_id));
            connection.handle_input(now, read);
            tally.taken += read.len();
            tally.see(connection.held())?;
        }
        while let Some(event) = connection.poll_event() {
            if let connection::ConnectionEvent::Request(request) = event {
                running.push(request.key);
            }
        }
        while let Some(len) = read(reading, connection.pending()) {
            connection.handle_written(now, len);
            if reading == Reading::Pieces {
                break;
            }
        }
        connection.check_invariants();
        tally.see(connection.held())?;
    }
    Ok(tally)
}

impl Flooded {
    fn see(&mut self, held: usize) -> Result<(), Broken> {
        self.most = self.most.max(held);
        if held <= self.bound {
            return Ok(());
        }
        Err(Broken(format!(
            "{held} bytes are held after {} were taken in; the bound is {} (invariant 8)",
            self.taken, self.bound
        )))
    }
}

/// What a side has said and the machine has not read.
#[derive(Default)]
struct Flight {
    said: Vec<u8>,
    read: usize,
}

impl Flight {
    /// The next read; `say` makes more when there is nothing.
    fn next(&mut self, say: impl FnOnce() -> Vec<u8>) -> &[u8] {
        if self.read == self.said.len() {
            (self.said, self.read) = (say(), 0);
        }
        let start = self.read;
        self.read = (start + READ).min(self.said.len());
        &self.said[start..self.read]
    }
}

/// How many bytes a side takes in its next read; `None` when it takes nothing.
fn read(reading: Reading, pending: &[u8]) -> Option<usize> {
    match reading {
        Reading::Stopped => None,
        // Not to the end of a frame: so one has nearly always begun, and the queue hardly ever runs dry.
        Reading::Pieces => {
            let piece = &pending[..pending.len().min(2000)];
            let len = piece.strip_suffix(b"\n").unwrap_or(piece).len().max(1);
            (!piece.is_empty()).then_some(len)
        }
        Reading::Fast => (!pending.is_empty()).then_some(pending.len()),
    }
}

/// Requests that are cancelled in the same breath, as lines.
fn pairs(chooser: &mut impl Chooser, next_id: &mut u64) -> Vec<u8> {
    let params = "y".repeat(chooser.choose(256).unwrap_or_default() * 64);
    let mut text = String::new();
    for _ in 0..8 {
        *next_id += 1;
        let _ = writeln!(text, r#"{{"jsonrpc":"2.0","id":{next_id},"method":"work","params":{{"x":"{params}"}}}}"#);
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#;
        let _ = writeln!(text, "{cancel}{next_id}}}}}");
    }
    text.into_bytes()
}

/// Something that a peer says, as lines.
pub fn say(chooser: &mut impl Chooser, next_id: &mut u64) -> Vec<u8> {
    let choice = chooser.choose(16).unwrap_or_default();
    let amount = chooser.choose(256).unwrap_or_default();
    let mut text = String::new();
    let mut line = |line: core::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{line}");
    };
    match choice {
        0..=2 => return pairs(chooser, next_id),
        3 => {
            for _ in 0..amount {
                *next_id += 1;
                line(format_args!(r#"{{"jsonrpc":"2.0","id":{next_id},"method":"work"}}"#));
            }
        }
        // Answers, most of them to nothing.
        4 => {
            for back in 0..8 {
                let id = next_id.saturating_sub(back);
                line(format_args!(r#"{{"jsonrpc":"2.0","id":{id},"result":"{}"}}"#, "z".repeat(amount * 16)));
            }
        }
        5 => (0..1000).for_each(|_| line(format_args!(r#"{{"jsonrpc":"2.0","method":"note"}}"#))),
        // A bomb: each member costs two bytes, and an error for each would cost seventy times as much. A rare one, for
        // while it arrives nothing else does.
        13 if amount >= 224 => {
            let first = if amount.is_multiple_of(2) { r#"{"jsonrpc":"2.0","method":"note"}"# } else { "1" };
            line(format_args!("[{first}{}]", ",1".repeat(amount * 2000)));
        }
        6..=13 => {
            line(format_args!(r#"{{"jsonrpc":"2.0","method":"note","params":{{"x":"{}"}}}}"#, "n".repeat(amount * 110)))
        }
        // Ids as long as messages.
        14 => {
            *next_id += 1;
            let id = "i".repeat(amount * 100);
            line(format_args!(r#"{{"jsonrpc":"2.0","id":"{next_id}{id}","method":"work"}}"#));
        }
        _ => (0..200).for_each(|_| line(format_args!("not a message"))),
    }
    text.into_bytes()
}
