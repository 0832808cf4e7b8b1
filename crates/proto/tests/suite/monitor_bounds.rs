//! Whatever passes, a monitor takes it, and its memory is bounded.

use core::time::Duration;

use rescind_proto::{
    dialect::acp,
    frame::Reason,
    framing::Framing,
    link::{Rejected, Verdict},
    monitor::{EarlyCancelLimits, Monitor, MonitorConfig, MonitorEvent},
    side::Side::{self, Client, Server},
    time::Instant,
};
use rescind_testkit::monitor_rig::MonitorRig;

fn small() -> MonitorConfig {
    MonitorConfig {
        max_message: 200,
        max_in_flight: 10,
        remembered: 3,
        remember: (Duration::from_secs(1), Duration::from_secs(60)),
        early_cancels: EarlyCancelLimits { most: 2, ..EarlyCancelLimits::STRANGER },
        max_text: 16,
        ..MonitorConfig::default()
    }
}

fn request(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":{{"_meta":{{"progressToken":{id}}}}}}}"#)
}

fn cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

fn unread(rig: &MonitorRig) -> Vec<Rejected> {
    let why = |event: &MonitorEvent| if let MonitorEvent::Rejected { why, .. } = event { Some(*why) } else { None };
    rig.events.iter().filter_map(why).collect()
}

fn is_unasked(event: &MonitorEvent) -> bool {
    matches!(event, MonitorEvent::Unasked { from: Server, .. })
}

#[test]
fn what_cannot_be_read_is_counted_and_said() {
    let mut rig = MonitorRig::new(MonitorConfig::default());
    rig.client(r#"{"jsonrpc":"2.0","method":"m"}"#);
    for bytes in
        ["", "{", "\u{0}", "[]", "7", r#"{"id":1}"#, r#"{"id":1,"id":1,"method":"m"}"#, r#"{"id":null,"method":"m"}"#]
    {
        rig.client(bytes);
    }
    rig.monitor.handle_frame(rig.now, Server, &[0xff, 0xfe]);
    rig.idle();
    let of = |side| rig.count(|event| matches!(event, MonitorEvent::Rejected { from, .. } if *from == side));
    assert_eq!((of(Client), of(Server)), (8, 1));
    assert!(unread(&rig).contains(&Rejected::Invalid(Reason::EmptyBatch)));
    assert!(unread(&rig).contains(&Rejected::Invalid(Reason::RepeatedMember)));
    assert!(unread(&rig).contains(&Rejected::NullId));
    assert_eq!(rig.monitor.residue(), 0);
}

#[test]
fn further_requests_than_the_bound_are_counted_and_their_answers_nobodys() {
    let mut rig = MonitorRig::new(small());
    for id in 0..25 {
        rig.client(&request(&id.to_string()));
    }
    assert_eq!(rig.monitor.in_flight(Client), 10);
    let too_many = |event: &MonitorEvent| matches!(event, MonitorEvent::Rejected { why: Rejected::Overloaded, .. });
    assert_eq!(rig.count(too_many), 15);
    rig.server(r#"{"jsonrpc":"2.0","id":20,"result":{}}"#);
    assert_eq!(rig.count(is_unasked), 1);
}

#[test]
fn what_is_over_is_forgotten_by_number_and_by_age() {
    let mut rig = MonitorRig::new(small());
    for id in 0..100 {
        rig.client(&request(&id.to_string()));
        rig.server(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
    rig.idle();
    assert_eq!(rig.monitor.remembered(Client).count(), 3);
    rig.pass(60_000);
    rig.idle();
    assert_eq!(rig.monitor.residue(), 0);
}

/// D8: one that may still be answered is remembered for the least time, and sixteen times as many.
#[test]
fn what_may_still_be_answered_is_remembered_longer() {
    let mut rig = MonitorRig::new(small());
    for id in 0..100 {
        rig.client(&request(&id.to_string()));
        rig.client(&cancel(&id.to_string()));
    }
    rig.idle();
    assert_eq!(rig.monitor.remembered(Client).count(), 48);
    rig.pass(1000);
    rig.idle();
    assert_eq!(rig.monitor.remembered(Client).count(), 3);
    rig.server(r#"{"jsonrpc":"2.0","id":"7","result":{}}"#);
    assert_eq!(rig.count(is_unasked), 1, "it may be that of one forgotten: no loose match");
}

#[test]
fn long_texts_are_cut_or_left_out() {
    let long = "x".repeat(1000);
    let mut rig = MonitorRig::new(small());
    rig.client(&request(&format!("\"{long}\"")));
    let too_long = |event: &MonitorEvent| matches!(event, MonitorEvent::Rejected { why: Rejected::LongId, .. });
    assert_eq!((rig.count(too_long), rig.monitor.in_flight(Client)), (1, 0));
    rig.client(&cancel(&format!("\"{long}\"")));
    assert_eq!(rig.verdicts(), [Verdict::Unknown], "it is not held either");
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1}}}"#);
    rig.server(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":1,"message":"{long}"}}}}"#
    ));
    assert_eq!(rig.request(Client, "1").progress.unwrap().message.as_deref().map(str::len), Some(16));
}

#[test]
fn cancels_for_nothing_are_held_up_to_a_bound() {
    let mut rig = MonitorRig::new(small());
    for id in 0..4 {
        rig.client(&cancel(&id.to_string()));
    }
    assert_eq!(rig.verdicts(), [Verdict::Held, Verdict::Held, Verdict::Unknown, Verdict::Unknown]);
    assert_eq!(rig.monitor.poll_timeout(), Some(rig.now + Duration::from_millis(250)));
}

/// A message too long to keep is known by its envelope.
#[test]
fn an_over_long_message_is_followed_by_its_id() {
    let mut rig = MonitorRig::new(small());
    let long = "x".repeat(500);
    let bytes = |side: Side, rig: &mut MonitorRig, body: &str| {
        let mut framed = Vec::new();
        Framing::Line.write(&mut framed, body.as_bytes());
        rig.monitor.handle_input(rig.now, side, &framed);
        while let Some(event) = rig.monitor.poll_event() {
            rig.events.push(event);
        }
    };
    bytes(Client, &mut rig, &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"t":"{long}"}}}}"#));
    assert_eq!((rig.monitor.in_flight(Client), rig.request(Client, "1").method), (1, "m"));
    bytes(Server, &mut rig, &format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{long}"}}"#));
    assert_eq!((rig.monitor.in_flight(Client), unread(&rig)), (0, vec![Rejected::TooLarge; 2]));
}

/// Everything a hostile pair of peers can make a small monitor keep, for a long time.
#[test]
fn a_flood_of_everything_stays_within_the_bounds() {
    let mut monitor = Monitor::new(small());
    let mut now = Instant::ORIGIN;
    let mut most = 0;
    for number in 0..20_000_u64 {
        let id = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 5000;
        let session =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":{id}}}}}"#);
        for (side, body) in [
            (Client, request(&id.to_string())),
            (
                Client,
                format!(r#"{{"jsonrpc":"2.0","id":"n{number}","method":"m{number}","params":{{"name":"t{number}"}}}}"#),
            ),
            (Server, request(&format!("\"{id}\""))),
            (Client, cancel(&(id / 2).to_string())),
            (Client, session),
            (Client, r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"none"}}"#.into()),
            (Server, format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id / 3)),
        ] {
            monitor.handle_frame(now, side, body.as_bytes());
            while monitor.poll_event().is_some() {}
        }
        most = most.max(monitor.residue());
        now = now + Duration::from_millis(1);
    }
    // Of each side: in flight, done, abandoned and held; in four indexes, one of them twice, and a ring.
    let requests = 10 + (3 + 1) + (16 * 3 + 1);
    assert!(most <= 2 * (6 * requests + 2), "{most}");
    for side in Side::BOTH {
        monitor.handle_eof(now, side);
    }
    monitor.check_invariants();
    assert_eq!(monitor.in_flight(Client) + monitor.in_flight(Server), 0);
    monitor.handle_timeout(now + Duration::from_secs(60));
    assert_eq!(monitor.residue(), 0);
}

#[test]
fn a_turn_is_found_again_when_the_ones_after_it_are_over_and_forgotten() {
    let mut monitor =
        Monitor::new(MonitorConfig { dialect: Some(&acp::V1), remembered: 0, ..MonitorConfig::default() });
    let now = Instant::ORIGIN;
    for id in 1..=3 {
        let ask = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"s"}}}}"#);
        monitor.handle_frame(now, Side::Client, ask.as_bytes());
    }
    for id in [2, 3] {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        monitor.handle_frame(now, Side::Server, answer.as_bytes());
        monitor.handle_timeout(now);
    }
    let update = br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#;
    monitor.handle_frame(now, Side::Server, update);
    let first = monitor.requests(Side::Client).next().unwrap();
    assert_eq!(first.progress.map(|progress| progress.count), Some(1));
}
