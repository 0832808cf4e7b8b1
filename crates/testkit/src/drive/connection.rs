//! An endpoint, driven by bytes: through the explorer's worlds, or with phrases and noise under small bounds.

use core::time::Duration;

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{
        CallOptions, Connection, ConnectionConfig, ConnectionEvent, EarlyCancelLimits, HandlerEnd, IncomingKey, Limit,
        OutgoingKey, Reply,
    },
    dialect::CancelResult,
    framing::{Chunk, Decoder, Framing},
    side::Side,
    time::Instant,
};

use super::{
    phrases::{line, phrase, piece},
    relay::dialect,
    walks::through,
};
use crate::sim::{
    chain_world::ChainWorld,
    chooser::{ByteChooser, Chooser},
    pair_world::PairWorld,
    scenes,
    solo_world::SoloWorld,
};

/// Drives an endpoint, or two.
///
/// # Panics
///
/// Where a rule or an invariant breaks.
pub fn connection(bytes: &[u8]) {
    let mut chooser = ByteChooser::new(bytes);
    let mut scenes = scenes::endpoint();
    let (Some(world), Some(scene)) = (chooser.choose(5), chooser.choose(scenes.len())) else { return };
    let mut chains = scenes::chain();
    let chain = chains.swap_remove(scene % chains.len()).adversarial();
    let scene = scenes.swap_remove(scene).adversarial();
    match world {
        0 => through(&PairWorld::new(scene), &mut chooser),
        1 => through(&SoloWorld::new(scene, Side::Client), &mut chooser),
        2 => through(&SoloWorld::new(scene, Side::Server), &mut chooser),
        3 => through(&ChainWorld::new(chain), &mut chooser),
        _ => {
            let _ = babble(&mut chooser);
        }
    }
}

/// What a route may answer when it was cancelled.
static CANCEL_RESULT: CancelResult =
    CancelResult { method: "tools/call", path: &["outcome"], value: "cancelled", json: r#"{"outcome":"cancelled"}"# };

/// What the driver of an endpoint holds.
struct Held {
    conn: Connection,
    now: Instant,
    calls: Vec<OutgoingKey>,
    works: Vec<IncomingKey>,
}

/// Phrases and noise from the peer, anything from the application, with every bound so small that it is met;
/// `None` once the choices end.
fn babble(chooser: &mut ByteChooser<'_>) -> Option<()> {
    let conn = Connection::new(config(chooser)?);
    let mut held = Held { conn, now: Instant::ORIGIN, calls: Vec::new(), works: Vec::new() };
    let ended = held.act(chooser);
    held.conn.handle_eof(held.now);
    // Whatever came, it comes to rest, and leaves nothing.
    for _ in 0..10_000 {
        held.poll();
        for key in core::mem::take(&mut held.works) {
            held.conn.ended(held.now, key, HandlerEnd::Dropped);
        }
        let len = held.conn.pending().len();
        held.conn.handle_written(held.now, len);
        held.poll();
        match held.conn.poll_timeout() {
            Some(due) => {
                held.now = due.max(held.now);
                held.conn.handle_timeout(held.now);
            }
            None if held.conn.pending().is_empty() && held.works.is_empty() => break,
            None => {}
        }
    }
    let conn = &held.conn;
    assert_eq!(conn.incoming().count() + conn.outgoing().count(), 0, "requests are left in flight");
    assert_eq!(conn.remembered(), 0, "entries are left when everything is over (invariant 6)");
    ended
}

impl Held {
    fn act(&mut self, chooser: &mut ByteChooser<'_>) -> Option<()> {
        loop {
            let now = self.now;
            match chooser.choose(24)? {
                0..=6 => self.conn.handle_input(now, &line(chooser)?),
                7 => self.conn.handle_input(now, &piece(chooser)?),
                8 | 9 => {
                    let len = self.conn.pending().len();
                    self.conn.handle_written(now, len);
                }
                10 => {
                    let len = chooser.choose(self.conn.pending().len().min(200) + 1)?;
                    self.conn.handle_written(now, len);
                }
                11 => self.now = now + Duration::from_millis(50 * chooser.choose(256)? as u64),
                12 => {
                    if let Some(due) = self.conn.poll_timeout() {
                        self.now = due.max(now);
                    }
                    self.conn.handle_timeout(self.now);
                }
                13 => self.make(chooser)?,
                14 => {
                    if let Some(&key) = pick(chooser, &self.calls)? {
                        self.settle(chooser, key)?;
                    }
                }
                15..=17 => {
                    if let Some(&key) = pick(chooser, &self.works)? {
                        self.handle(chooser, key)?;
                    }
                }
                18 => match chooser.choose(32)? {
                    0 => self.conn.handle_eof(now),
                    1 => self.conn.handle_write_closed(now),
                    2 => self.conn.shutdown(now),
                    _ => {}
                },
                19 => {
                    let _ = self.conn.notify(now, "session/cancel", br#"{"sessionId":"s"}"#);
                }
                20 => self.conn.stop_turn(now, br#""s""#),
                21 | 22 => self.filtered_in(chooser)?,
                _ => self.filtered_out(chooser)?,
            }
            if chooser.choose(3)? > 0 {
                self.poll();
            }
            self.conn.check_invariants();
        }
    }

    /// What a driver with filters does instead of `handle_input`.
    fn filtered_in(&mut self, chooser: &mut ByteChooser<'_>) -> Option<()> {
        let body = phrase(chooser)?;
        match chooser.choose(4)? {
            0 => self.conn.handle_vetoed(self.now, &body),
            1 => self.conn.handle_garbage(self.now, &body),
            2 => {
                let mut decoder = Decoder::new(Some(Framing::Line), body.len() / 2);
                let line = [&body[..], b"\n"].concat();
                if let Some(Chunk::Overlong(message)) = decoder.decode(&mut &line[..]) {
                    self.conn.handle_overlong(self.now, &message);
                }
            }
            _ => self.conn.handle_message(self.now, &body),
        }
        Some(())
    }

    /// … and instead of `handle_written`.
    fn filtered_out(&mut self, chooser: &mut ByteChooser<'_>) -> Option<()> {
        let passes = chooser.choose(2)? == 0;
        if let Some((_, detached)) = self.conn.detach_frame() {
            self.conn.handle_detached(self.now, detached, passes);
        }
        Some(())
    }

    fn make(&mut self, chooser: &mut ByteChooser<'_>) -> Option<()> {
        const MADE: [(&str, &str); 6] = [
            ("tools/call", r#"{"_meta":{"progressToken":1}}"#),
            ("initialize", r#"{"protocolVersion":1}"#),
            ("session/prompt", r#"{"sessionId":"s"}"#),
            ("session/request_permission", r#"{"sessionId":"s"}"#),
            ("subscriptions/listen", r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#),
            ("x", ""),
        ];
        let (method, params) = MADE[chooser.choose(MADE.len())?];
        let limits = [Limit::Default, Limit::Never, Limit::After(Duration::from_secs(1))];
        let options = CallOptions {
            response_timeout: limits[chooser.choose(3)?],
            total_timeout: limits[chooser.choose(3)?],
            reset_on_progress: chooser.choose(2)? == 0,
            parent: pick(chooser, &self.works)?.copied(),
            deadline: None,
            since: None,
            is_watched: chooser.choose(2)? == 0,
        };
        if let Ok(key) = self.conn.request(self.now, method, params.as_bytes(), &options) {
            self.calls.push(key);
        }
        Some(())
    }

    fn settle(&mut self, chooser: &mut ByteChooser<'_>, key: OutgoingKey) -> Option<()> {
        let cause = Cause::new(CauseCode::Caller);
        match chooser.choose(3)? {
            0 => {
                self.conn.cancel(self.now, key, cause);
            }
            1 => {
                self.conn.cancel_and_wait(self.now, key, cause, Duration::from_secs(1));
            }
            _ => self.conn.detach(key),
        }
        Some(())
    }

    fn handle(&mut self, chooser: &mut ByteChooser<'_>, key: IncomingKey) -> Option<()> {
        let now = self.now;
        let result = Reply::Result(b"{}");
        match chooser.choose(13)? {
            0 => {
                self.conn.respond(now, key, result);
            }
            1 => {
                self.conn.notify_for(now, key, "notifications/message", b"{}");
            }
            2 => {
                self.conn.stop(now, key, Cause::new(CauseCode::Operator));
            }
            3 => {
                self.conn.shield(key);
            }
            4 => self.conn.unshield(key),
            5 => {
                let graces = [Limit::Default, Limit::After(Duration::from_millis(100)), Limit::Never];
                self.conn.set_grace(key, graces[chooser.choose(graces.len())?]);
            }
            6 => self.conn.limit(now, key, Duration::from_millis(500)),
            7 => self.conn.set_cancel_result(key, &CANCEL_RESULT),
            end => {
                let ends = [
                    HandlerEnd::Returned(result),
                    HandlerEnd::Returned(Reply::Error { code: -32800, message: "c", data: None }),
                    HandlerEnd::Cancelled,
                    HandlerEnd::GaveUp,
                    HandlerEnd::Panicked,
                ];
                self.conn.ended(now, key, ends[end - 8]);
                self.works.retain(|work| *work != key);
            }
        }
        Some(())
    }

    fn poll(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            if let ConnectionEvent::Request(request) = event {
                self.works.push(request.key);
            } else if let ConnectionEvent::DropHandler { request: key } = event {
                self.works.retain(|work| *work != key);
                self.conn.ended(self.now, key, HandlerEnd::Dropped);
            }
        }
    }
}

fn pick<'a, T>(chooser: &mut ByteChooser<'_>, from: &'a [T]) -> Option<Option<&'a T>> {
    if from.is_empty() {
        return Some(None);
    }
    Some(from.get(chooser.choose(from.len())?))
}

fn config(chooser: &mut ByteChooser<'_>) -> Option<ConnectionConfig> {
    let role = Side::BOTH[chooser.choose(2)?];
    let dialect = if chooser.choose(2)? == 0 { None } else { Some(dialect(chooser)?) };
    Some(ConnectionConfig {
        dialect,
        max_message: 64 + 8 * chooser.choose(64)?,
        max_running: 1 + chooser.choose(3)?,
        max_queued: chooser.choose(4)?,
        max_in_flight: 1 + chooser.choose(6)?,
        max_backlog: 16 * chooser.choose(64)?,
        stall_limit: Duration::from_secs(2),
        grace: Duration::from_secs(1),
        early_cancels: EarlyCancelLimits { most: chooser.choose(3)?, ..EarlyCancelLimits::STRANGER },
        remembered: chooser.choose(4)?,
        remember: (Duration::from_secs(1), Duration::from_secs(10)),
        deadline_travels: chooser.choose(2)? == 0,
        drain_on_eof: [None, Some(Duration::from_secs(2))][chooser.choose(2)?],
        reports_cancels: chooser.choose(2)? == 0,
        ..ConnectionConfig::new(role)
    })
}
