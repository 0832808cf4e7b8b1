//! What sharing saves: the memory of six sessions, each with a server of its own, and of six that share one.
//!
//! A program that is not optimised is three times as large, and each shim has all of it in its resident memory. So there the
//! bound is another one.

use std::fs;

use rescind_testkit::puppet::{Ends, Sharing, Shim};

use crate::{
    peers::{
        parts::{not_installed, peers, text},
        play::{say, skip},
    },
    shim::{PROGRAM, words::request_with},
};

const SESSIONS: usize = 6;

/// The most that six sessions with one server may hold of what six with six hold.
const MOST: f64 = if cfg!(debug_assertions) { 0.55 } else { 0.4 };

const HELLO: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;

/// The resident memory of all processes that have this in their environment, in KiB: their number, the sum, and the sum
/// with what they share with others counted once.
fn held(sharing: &Sharing) -> (usize, u64, u64) {
    let variable = format!("RESCIND_RUNTIME_DIR={}", sharing.sockets.display());
    let (mut count, mut resident, mut proportional) = (0, 0, 0);
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(environment) = fs::read(process.path().join("environ")) else { continue };
        if !environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes()) {
            continue;
        }
        let Ok(rollup) = fs::read_to_string(process.path().join("smaps_rollup")) else { continue };
        let of = |name: &str| -> u64 {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        count += 1;
        resident += of("Rss:");
        proportional += of("Pss:");
    }
    (count, resident, proportional)
}

fn sessions(sharing: &Sharing, flags: &[&str], server: &[&str]) -> Vec<(Shim, Ends)> {
    let open = |_| {
        let (shim, mut client) = sharing.start(sharing.command_of(PROGRAM, flags, server));
        client.send(&request_with("0", "initialize", HELLO));
        client.receive();
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client.send(&request_with("1", "tools/list", "{}"));
        client.receive();
        (shim, client)
    };
    (0..SESSIONS).map(open).collect()
}

#[test]
fn six_sessions_that_share_a_node_server_hold_two_fifths_of_what_six_servers_hold() {
    if let Some(part) = not_installed(&["node/mcp1/node_modules"], &["node"]) {
        assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{part}");
        return skip(part);
    }
    let script = text(&peers().join("node/mcp1/server.mjs"));
    let server = ["node", &script];
    let measured = |flags: &[&str]| {
        let sharing = Sharing::new();
        let sessions = sessions(&sharing, flags, &server);
        let held = held(&sharing);
        drop(sessions);
        held
    };
    let (own, shared) = (measured(&[]), measured(&["--shared", "node"]));
    let line = |what: &str, (count, resident, proportional): (usize, u64, u64)| {
        say(&format!(
            "{what:<22} {count:>3} processes  {:>7.1} MiB resident  {:>7.1} MiB with what is common counted once\n",
            resident as f64 / 1024.0,
            proportional as f64 / 1024.0
        ));
    };
    line("six servers", own);
    line("one that six share", shared);
    let resident = shared.1 as f64 / own.1 as f64;
    let proportional = shared.2 as f64 / own.2 as f64;
    say(&format!("{resident:.2} and {proportional:.2} of it\n"));
    assert!(resident <= MOST, "{resident:.3}: {shared:?} of {own:?}");
}
