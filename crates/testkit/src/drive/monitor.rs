//! The monitor: beside a relay in the explorer's worlds, or fed with phrases and noise under small bounds.

use core::time::Duration;

use rescind_proto::{
    framing::Framing,
    monitor::{EarlyCancelLimits, Monitor, MonitorConfig},
    side::Side,
    time::Instant,
};

use super::{
    phrases::{line, phrase, piece},
    relay::dialect,
    walks::through_a_relay,
};
use crate::sim::{
    chooser::{ByteChooser, Chooser},
    scene::Scene,
};

/// Drives a monitor.
///
/// # Panics
///
/// Where it breaks an invariant, keeps what it should forget, or differs from a relay beside it.
pub fn monitor(bytes: &[u8]) {
    through_a_relay(bytes, Scene::witnessed, babble);
}

/// Phrases and noise from both sides, with every bound so small that it is met; `None` once the choices end.
fn babble(chooser: &mut ByteChooser<'_>) -> Option<()> {
    let config = config(chooser)?;
    let longest = config.remember.1;
    let mut monitor = Monitor::new(config);
    let mut now = Instant::ORIGIN;
    let ended = act(chooser, &mut monitor, &mut now);
    for side in Side::BOTH {
        monitor.handle_eof(now, side);
    }
    monitor.check_invariants();
    assert_eq!(monitor.in_flight(Side::Client) + monitor.in_flight(Side::Server), 0, "requests are left in flight");
    monitor.handle_timeout(now + longest);
    assert_eq!(monitor.residue(), 0, "entries are left when everything is over (invariant 6)");
    ended
}

fn act(chooser: &mut ByteChooser<'_>, monitor: &mut Monitor, now: &mut Instant) -> Option<()> {
    loop {
        let side = Side::BOTH[chooser.choose(2)?];
        match chooser.choose(16)? {
            0..=6 => monitor.handle_frame(*now, side, &phrase(chooser)?),
            7..=10 => monitor.handle_input(*now, side, &line(chooser)?),
            11 => monitor.handle_input(*now, side, &piece(chooser)?),
            12 | 13 => *now = *now + Duration::from_millis(50 * chooser.choose(256)? as u64),
            14 => monitor.handle_timeout(*now),
            _ => {
                if chooser.choose(16)? == 0 {
                    monitor.handle_eof(*now, side);
                }
            }
        }
        while monitor.poll_event().is_some() {}
        for side in Side::BOTH {
            // Every view can be looked at.
            let seen = monitor.requests(side).chain(monitor.remembered(side)).filter(|view| view.key.from == side);
            core::hint::black_box(seen.count());
        }
        monitor.check_invariants();
    }
}

fn config(chooser: &mut ByteChooser<'_>) -> Option<MonitorConfig> {
    Some(MonitorConfig {
        dialect: if chooser.choose(2)? == 0 { None } else { Some(dialect(chooser)?) },
        framing: [None, Some(Framing::Line), Some(Framing::Headers)][chooser.choose(3)?],
        max_message: 64 + 8 * chooser.choose(64)?,
        max_in_flight: 1 + chooser.choose(8)?,
        remembered: chooser.choose(4)?,
        remember: (Duration::from_secs(1), Duration::from_secs(10)),
        early_cancels: EarlyCancelLimits { most: chooser.choose(3)?, ..EarlyCancelLimits::STRANGER },
        max_text: chooser.choose(32)?,
        ..MonitorConfig::default()
    })
}
