//! What a monitor costs a message, beside the relay.
//!
//! One is fed as the other is: a link's bytes, both ways; the relay writes them out as well. Rounds are interleaved and
//! the medians of them compared: use the ratios.
//! `cargo run --release -p rescind-proto --example monitor_cost`

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use std::{hint::black_box, time::Instant};

use rescind_proto::{
    monitor::{self, Monitor},
    relay::{self, Relay},
    side::Side,
    time,
};

const ROUNDS: usize = 41;
const EXCHANGES: usize = 20_000;

/// What passes: who sends it, with `#` for the number of the exchange.
type Script = [(Side, &'static str)];

const CALL: (Side, &str) = (
    Side::Client,
    r#"{"jsonrpc":"2.0","id":#,"method":"tools/call","params":{"name":"search_files","arguments":{"path":"/home/user/project/src","pattern":"fn main","limit":50,"recursive":true},"_meta":{"progressToken":#}}}"#,
);
const RESPONSE: (Side, &str) = (
    Side::Server,
    r#"{"result":{"content":[{"type":"text","text":"a line of text with a \"quote\" and a line break\n"}],"isError":false},"jsonrpc":"2.0","id":#}"#,
);
const CANCEL: (Side, &str) = (
    Side::Client,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#,"reason":"user pressed stop"}}"#,
);
const PROGRESS: (Side, &str) = (
    Side::Server,
    r#"{"method":"notifications/progress","params":{"progressToken":#,"progress":5,"total":10},"jsonrpc":"2.0"}"#,
);

fn main() {
    let cases: [(&str, &Script); 3] = [
        ("call and answer", &[CALL, RESPONSE]),
        ("call, 4 progress, answer", &[CALL, PROGRESS, PROGRESS, PROGRESS, PROGRESS, RESPONSE]),
        ("call, cancel, late answer", &[CALL, CANCEL, RESPONSE]),
    ];
    println!("{:<28} {:>12} {:>12} {:>8}", "", "relay", "monitor", "ratio");
    for (name, script) in cases {
        let lines: Vec<Vec<(Side, Vec<u8>)>> = (0..EXCHANGES)
            .map(|number| {
                let line = |text: &str| format!("{}\n", text.replace('#', &number.to_string())).into_bytes();
                script.iter().map(|(side, text)| (*side, line(text))).collect()
            })
            .collect();
        let mut rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (through_relay(&lines), past_monitor(&lines))).collect();
        let messages = (EXCHANGES * script.len()) as f64;
        let median = |rounds: &mut Vec<(f64, f64)>, of: fn(&(f64, f64)) -> f64| {
            rounds.sort_by(|a, b| of(a).total_cmp(&of(b)));
            of(&rounds[ROUNDS / 2])
        };
        let relay = median(&mut rounds, |round| round.0);
        let monitor = median(&mut rounds, |round| round.1);
        let ratio = median(&mut rounds, |round| round.1 / round.0);
        let nanos = |seconds: f64| format!("{:.0} ns", seconds / messages * 1e9);
        println!("{name:<28} {:>12} {:>12} {ratio:>8.2}", nanos(relay), nanos(monitor));
    }
}

fn through_relay(exchanges: &[Vec<(Side, Vec<u8>)>]) -> f64 {
    let mut relay = Relay::new(relay::RelayConfig::default());
    let now = time::Instant::ORIGIN;
    let started = Instant::now();
    for (side, line) in exchanges.iter().flatten() {
        relay.handle_input(now, *side, line);
        let len = relay.pending(side.other()).len();
        relay.handle_written(now, side.other(), len);
        while let Some(event) = relay.poll_event() {
            black_box(event);
        }
    }
    started.elapsed().as_secs_f64()
}

fn past_monitor(exchanges: &[Vec<(Side, Vec<u8>)>]) -> f64 {
    let mut monitor = Monitor::new(monitor::MonitorConfig::default());
    let now = time::Instant::ORIGIN;
    let started = Instant::now();
    for (side, line) in exchanges.iter().flatten() {
        monitor.handle_input(now, *side, line);
        while let Some(event) = monitor.poll_event() {
            black_box(event);
        }
    }
    started.elapsed().as_secs_f64()
}
