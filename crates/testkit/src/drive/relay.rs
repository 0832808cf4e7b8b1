//! The relay, driven by bytes: through the explorer's worlds, or with phrases and noise under small bounds.

use core::time::Duration;

use rescind_proto::{
    dialect::Dialect,
    framing::Framing,
    link::{Clock, RequestKey},
    relay::{ClockRule, EarlyCancelLimits, Emit, End, Relay, RelayConfig, RelayEvent},
    side::{Side, Sides},
    time::Instant,
};

use super::{
    phrases::{line, piece},
    walks::through_a_relay,
};
use crate::sim::{
    chooser::{ByteChooser, Chooser},
    scene::Scene,
    watcher::Watcher,
};

/// Drives a relay.
///
/// # Panics
///
/// Where a rule or an invariant breaks.
pub fn relay(bytes: &[u8]) {
    through_a_relay(bytes, Scene::watched, babble);
}

/// Phrases and noise from both sides, with every bound so small that it is met; `None` once the choices end.
fn babble(chooser: &mut ByteChooser<'_>) -> Option<()> {
    let mut relay = Relay::new(config(chooser)?);
    let mut now = Instant::ORIGIN;
    let mut keys: Vec<RequestKey> = Vec::new();
    let mut watcher = Watcher::new(&mut relay);
    let ended = act(chooser, &mut relay, &mut now, (&mut keys, &mut watcher));
    // Whatever came, it comes to rest, and leaves nothing.
    for side in Side::BOTH {
        relay.handle_eof(now, side, &End::Closed);
    }
    for _ in 0..10_000 {
        for side in Side::BOTH {
            let len = relay.pending(side).len();
            relay.handle_written(now, side, len);
        }
        while relay.poll_event().is_some() {}
        relay.check_invariants();
        follow(&mut watcher, &mut relay);
        match relay.poll_timeout() {
            Some(due) => {
                now = due.max(now);
                relay.handle_timeout(now);
            }
            None if Side::BOTH.into_iter().all(|side| relay.pending(side).is_empty()) => break,
            None => {}
        }
    }
    assert_eq!(relay.residue(), 0, "entries are left when everything is over (invariant 6)");
    assert_eq!(relay.in_flight(Side::Client) + relay.in_flight(Side::Server), 0, "requests are left in flight");
    ended
}

fn follow(watcher: &mut Watcher, relay: &mut Relay) {
    if let Err(broken) = watcher.follow(relay) {
        panic!("{}", broken.0);
    }
}

fn act(
    chooser: &mut ByteChooser<'_>,
    relay: &mut Relay,
    now: &mut Instant,
    (keys, watcher): (&mut Vec<RequestKey>, &mut Watcher),
) -> Option<()> {
    loop {
        let side = Side::BOTH[chooser.choose(2)?];
        match chooser.choose(16)? {
            0..=6 => relay.handle_input(*now, side, &line(chooser)?),
            7 => relay.handle_input(*now, side, &piece(chooser)?),
            8..=10 => {
                let len = relay.pending(side).len();
                relay.handle_written(*now, side, len);
            }
            11 => {
                let len = chooser.choose(relay.pending(side).len().min(200) + 1)?;
                relay.handle_written(*now, side, len);
            }
            12 => *now = *now + Duration::from_millis(50 * chooser.choose(256)? as u64),
            13 => {
                if let Some(due) = relay.poll_timeout() {
                    *now = due.max(*now);
                }
                relay.handle_timeout(*now);
            }
            14 => match chooser.choose(16)? {
                0 => relay.handle_eof(*now, side, &End::Exited(1)),
                1 => relay.handle_write_closed(*now, side),
                2 => relay.handle_disconnect(*now, side),
                _ => {}
            },
            _ => {
                if !keys.is_empty() {
                    let key = keys[chooser.choose(keys.len())?];
                    relay.stop(*now, key, None);
                }
            }
        }
        while let Some(event) = relay.poll_event() {
            if let RelayEvent::Opened { request, .. } = event {
                keys.push(request);
            }
        }
        relay.check_invariants();
        follow(watcher, relay);
    }
}

fn config(chooser: &mut ByteChooser<'_>) -> Option<RelayConfig> {
    let mut dialects = Sides { client: None, server: None };
    if chooser.choose(2)? == 0 {
        dialects = Sides { client: Some(dialect(chooser)?), server: Some(dialect(chooser)?) };
    }
    let clock = |clock| ClockRule { clock, method: None, name: None, limit: Duration::from_secs(3) };
    Some(RelayConfig {
        dialects,
        framing: [None, Some(Framing::Line)][chooser.choose(2)?],
        grace: Duration::from_secs(1),
        clocks: if chooser.choose(2)? == 0 { Vec::new() } else { vec![clock(Clock::Response), clock(Clock::Total)] },
        max_message: 64 + 8 * chooser.choose(64)?,
        max_in_flight: 1 + chooser.choose(8)?,
        max_backlog: 16 * chooser.choose(64)?,
        stall_limit: Duration::from_secs(2),
        early_cancels: Sides {
            client: EarlyCancelLimits { most: chooser.choose(3)?, ..EarlyCancelLimits::STRANGER },
            server: EarlyCancelLimits { most: chooser.choose(3)?, ..EarlyCancelLimits::STRANGER },
        },
        remembered: chooser.choose(4)?,
        remember: (Duration::from_secs(1), Duration::from_secs(10)),
        emit: Emit { notices: true, requests: true, frames: chooser.choose(2)? == 0, ..Emit::default() },
        ..RelayConfig::default()
    })
}

pub(super) fn dialect(chooser: &mut impl Chooser) -> Option<&'static Dialect> {
    Some(Dialect::ALL[chooser.choose(Dialect::ALL.len())?])
}
