//! What being watched costs a link, in instructions of the shim: callgrind counts them, so that no clock and no other
//! program of the machine has a part in it but one. Events come ten times a second, and under callgrind a second holds
//! a fiftieth of its messages: what each message has to bear of them is exaggerated as much.
//!
//! `cargo test --release -p rescind-cli --test suite run_admin_cost:: -- --ignored --nocapture`

#![expect(clippy::print_stdout, reason = "a test that is left out says so")]

use std::{fs, process::Command};

use rescind_testkit::puppet::Rig;

use crate::shim::{
    PROGRAM,
    admin::Admin,
    words::{greet_mcp, pass_to_client, pass_to_server, request_with, result},
};

/// Round trips of a short run and of a long one: what lies between them is counted.
const ROUND_TRIPS: [u32; 2] = [1_000, 6_000];

#[test]
#[ignore = "takes a minute; for the release build"]
fn a_subscriber_costs_a_tenth_at_most_and_none_nothing() {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "valgrind is missing");
        println!("left out: needs valgrind");
        return;
    }
    let unlisted = per_round_trip(&["--unlisted"], 0);
    let unwatched = per_round_trip(&[], 0);
    let watched = per_round_trip(&[], 1);
    let crowded = per_round_trip(&[], 4);
    let ratio = |count: f64| count / unwatched;
    println!("instructions per round trip, and their ratio to nobody watching");
    for (name, count) in
        [("no socket", unlisted), ("nobody watches", unwatched), ("one subscriber", watched), ("four", crowded)]
    {
        println!("{name:15} {count:8.0} {:6.3}", ratio(count));
    }
    assert!(ratio(watched) <= 1.1 && ratio(crowded) <= 1.1 && ratio(unlisted) >= 0.98);
}

fn per_round_trip(flags: &[&str], subscribers: usize) -> f64 {
    let [few, many] = ROUND_TRIPS.map(|count| instructions(flags, subscribers, count));
    (many - few) as f64 / f64::from(ROUND_TRIPS[1] - ROUND_TRIPS[0])
}

fn instructions(flags: &[&str], subscribers: usize, round_trips: u32) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("counts");
    let out = format!("--callgrind-out-file={}", counts.display());
    let valgrind = ["valgrind", "-q", "--tool=callgrind", "--trace-children=no", &out];
    let mut rig = Rig::builder(PROGRAM).under(valgrind).flags(flags.iter().copied()).start();
    greet_mcp(&mut rig, "2025-11-25");
    let watching: Vec<_> = (0..subscribers)
        .map(|_| {
            let mut subscriber = Admin::of(&rig).subscribe(None);
            subscriber.until(|known| known.session.is_some());
            std::thread::spawn(move || while subscriber.event().is_some() {})
        })
        .collect();
    for id in 1..=round_trips {
        let id = id.to_string();
        let params = r#"{"name":"echo","arguments":{"text":"hello there"}}"#;
        pass_to_server(&mut rig, &request_with(&id, "tools/call", params));
        pass_to_client(&mut rig, &result(&id, r#"{"content":[{"type":"text","text":"hello there"}]}"#));
    }
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    for subscriber in watching {
        subscriber.join().unwrap();
    }
    let counts = fs::read_to_string(counts).unwrap();
    let total =
        counts.lines().find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    total.unwrap().trim().parse().unwrap()
}
