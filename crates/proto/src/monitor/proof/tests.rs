use rescind_testkit::tamper::every_check_can_fail;

use super::*;
use crate::{
    dialect::acp,
    id::RequestId,
    link::RequestKey,
    monitor::{MonitorConfig, observed::Observed},
    time::Instant,
};

/// A link at work: of the client a turn in session "s", 2 with a token, 3 cancelled and 4 answered; and a cancel of a
/// request that has not come.
fn at_work() -> Monitor {
    let mut monitor = Monitor::new(MonitorConfig { dialect: Some(&acp::V1), ..MonitorConfig::default() });
    let from = |monitor: &mut Monitor, side, members: &str| {
        monitor.handle_frame(Instant::ORIGIN, side, format!(r#"{{"jsonrpc":"2.0",{members}}}"#).as_bytes());
    };
    from(&mut monitor, Side::Client, r#""id":1,"method":"session/prompt","params":{"sessionId":"s"}"#);
    for id in 2..=4 {
        from(&mut monitor, Side::Client, &format!(r#""id":{id},"method":"work""#));
    }
    from(&mut monitor, Side::Client, r#""method":"$/cancel_request","params":{"requestId":3}"#);
    from(&mut monitor, Side::Client, r#""method":"$/cancel_request","params":{"requestId":99}"#);
    from(&mut monitor, Side::Server, r#""id":4,"result":{}"#);
    monitor
}

fn request(monitor: &mut Monitor, id: i64) -> &mut Observed {
    let key = monitor.requests[Side::Client].by_id(&RequestId::integer(id)).expect("it is known");
    monitor.observed_mut(RequestKey { from: Side::Client, key }).expect("it is known")
}

fn outcome(monitor: &mut Monitor) -> &mut Outcome {
    &mut request(monitor, 3).cancel.as_mut().expect("it was cancelled").outcome
}

#[test]
fn every_check_of_a_monitor_can_fail() {
    every_check_can_fail(
        &at_work(),
        Monitor::check_invariants,
        include_str!("../proof.rs"),
        &[
            ("too many in flight", |monitor| monitor.config.max_in_flight = 1),
            ("too many early cancels", |monitor| monitor.config.early_cancels.most = 0),
            ("claims what no wire shows", |monitor| *outcome(monitor) = Outcome::Asked),
            ("claims what no wire shows", |monitor| *outcome(monitor) = Outcome::NeverSent),
            ("claims what no wire shows", |monitor| *outcome(monitor) = Outcome::NotSendable),
            ("by an answer that is not known", |monitor| request(monitor, 4).answer = None),
        ],
    );
}

#[test]
fn every_check_of_a_monitors_requests_can_fail() {
    every_check_can_fail(
        &at_work(),
        Monitor::check_invariants,
        include_str!("../requests.rs"),
        &[
            ("finds another request", |monitor| request(monitor, 2).id = RequestId::integer(3)),
            ("a token of", |monitor| request(monitor, 2).token = Some(RequestId::integer(9))),
            ("a turn or load is known", |monitor| request(monitor, 1).session = Some(b"1".as_slice().into())),
        ],
    );
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "too many early cancels")]
fn a_debug_build_checks_a_monitor_after_every_input() {
    let mut monitor = at_work();
    monitor.config.early_cancels.most = 0;
    monitor.handle_frame(Instant::ORIGIN, Side::Server, br#"{"jsonrpc":"2.0","method":"other"}"#);
}
