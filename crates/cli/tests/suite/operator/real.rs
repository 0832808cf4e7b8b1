//! With real `rescind run` processes, the test as the client and the server of each.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::{fs::DirBuilderExt, net::UnixStream},
    path::Path,
    thread,
};

use rescind_testkit::puppet::Rig;
use rustix::{
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
    process::Signal,
};
use serde_json::Value;

use crate::{
    operator::{say, words},
    shim::{
        PROGRAM, error_of,
        words::{greet_mcp, pass_to_client, pass_to_server, progress, request_with, result},
    },
};

const MCP: &str = "2025-11-25";

fn call(id: u32, tool: &str) -> String {
    let params = format!(r#"{{"name":"{tool}","arguments":{{}},"_meta":{{"progressToken":{id}}}}}"#);
    request_with(&id.to_string(), "tools/call", &params)
}

/// A session with three calls in flight.
fn three_calls() -> Rig {
    let mut rig = Rig::start(PROGRAM);
    greet_mcp(&mut rig, MCP);
    for id in [1, 2, 3] {
        pass_to_server(&mut rig, &call(id, &format!("tool-{id}")));
    }
    rig
}

fn in_flight(rig: &Rig) -> Vec<Vec<String>> {
    let said = say(&rig.sockets, &["ps"]);
    assert_eq!(said.code, 0, "{said:?}");
    let row = |line: &str| words(line).into_iter().map(str::to_owned).collect::<Vec<_>>();
    said.stdout.lines().skip(1).map(row).collect()
}

#[test]
fn one_of_three_is_cancelled_and_the_others_finish() {
    let mut rig = three_calls();
    pass_to_client(&mut rig, &progress("2", 7));
    let rows = in_flight(&rig);
    let methods: Vec<_> = rows.iter().map(|row| (row[3].as_str(), row[5].as_str())).collect();
    assert_eq!(
        methods,
        [("tools/call:tool-1", "running"), ("tools/call:tool-2", "running"), ("tools/call:tool-3", "running")]
    );
    assert_eq!(rows[1][6], "7");
    let name = rows[1][0].clone();
    assert!(name.ends_with("/2"), "{name}");

    let said = say(&rig.sockets, &["cancel", &name, "--reason", "stuck\u{1b}[31m", "--no-wait"]);
    assert_eq!(said.code, 0, "{said:?}");
    // The work hears of it, with the operator's words.
    let heard: Value = serde_json::from_str(&rig.server.receive()).unwrap();
    assert_eq!((&heard["method"], &heard["params"]["requestId"]), (&"notifications/cancelled".into(), &2.into()));
    assert!(heard["params"]["reason"].as_str().is_some_and(|reason| reason.starts_with("stuck")), "{heard}");
    // Whoever waits for it gets its end.
    assert_eq!(error_of(&rig.client.receive(), "2")["code"], -31_003);
    pass_to_client(&mut rig, &result("1", r#"{"content":[]}"#));
    pass_to_client(&mut rig, &result("3", r#"{"content":[]}"#));
    let left = in_flight(&rig);
    let states: Vec<_> = left.iter().map(|row| (row[0].as_str(), row[5].as_str())).collect();
    assert_eq!(states, [(name.as_str(), "released")], "nothing shows that its work has stopped");
    let said = say(&rig.sockets, &["cancel", &name]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("no longer in flight"), "{said:?}");
    let said = say(&rig.sockets, &["ps", "--recent"]);
    let told = said.stdout.lines().find(|line| line.starts_with(&name)).unwrap();
    assert!(told.ends_with("sent; MCP does not confirm"), "{told}");
}

#[test]
fn the_words_of_a_server_that_goes_on_are_others() {
    let mut rig = three_calls();
    let name = in_flight(&rig)[0][0].clone();
    let mut child = super::command(&rig.sockets, &["cancel", &name, "--wait", "1h"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let cancelled = rig.server.receive();
    assert!(cancelled.contains("notifications/cancelled"), "{cancelled}");
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -31_003);
    let told = |line: String| line.strip_prefix(&format!("{name}: ")).unwrap().to_owned();
    let mut wait_for = |wanted: &str| {
        let line = lines.by_ref().map(told).find(|line| line.starts_with(wanted));
        assert!(line.is_some(), "{wanted}");
    };
    wait_for("sent; MCP does not confirm");
    rig.server.send(&progress("1", 8));
    wait_for("progress still arriving");
    rig.server.send(&result("1", r#"{"content":[]}"#));
    wait_for("answered after ");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // None of it reached the client, and the others finish.
    pass_to_client(&mut rig, &result("2", r#"{"content":[]}"#));
    pass_to_client(&mut rig, &result("3", r#"{"content":[]}"#));
}

#[test]
fn all_sessions_are_seen_and_a_killed_one_is_gone() {
    let rig = three_calls();
    let sockets = rig.sockets.clone();
    let mut other = Rig::builder(PROGRAM).sockets(&sockets).start();
    greet_mcp(&mut other, MCP);
    pass_to_server(&mut other, &call(9, "other"));
    let document: Value = serde_json::from_str(&say(&sockets, &["ps", "--json"]).stdout).unwrap();
    let counts: Vec<_> =
        document["sessions"].as_array().unwrap().iter().map(|one| one["requests"].as_array().unwrap().len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 4);
    assert_eq!(counts.len(), 2);
    let ids = document["sessions"].as_array().unwrap().iter().flat_map(|one| one["requests"].as_array().unwrap());
    assert!(ids.filter(|request| request["name"] == "other").count() == 1);
    thread::spawn(move || drop(other)).join().unwrap();
    assert_eq!(in_flight(&rig).len(), 3);
}

/// As greedy as a program of the same user can be: it connects again and again, and says nothing.
#[test]
fn silent_connections_hide_no_session() {
    let rig = three_calls();
    let socket = rig.sockets.join(format!("{}.sock", rig.shim.id));
    let silent: Vec<_> = (0..200).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let rows = in_flight(&rig);
    assert_eq!(rows.len(), 3);
    let document: Value = serde_json::from_str(&say(&rig.sockets, &["ps", "--json"]).stdout).unwrap();
    assert_eq!(document["sessions"][0]["requests"].as_array().unwrap().len(), 3);
    let said = say(&rig.sockets, &["cancel", &rows[1][0], "--no-wait"]);
    assert_eq!(said.code, 0, "{said:?}");
    drop(silent);
}

/// A shim whose process is stopped while it has all the connections it takes.
#[test]
fn a_stopped_shim_with_many_connections_is_not_answering() {
    let rig = three_calls();
    rig.shim.kill(Signal::STOP);
    let socket = rig.sockets.join(format!("{}.sock", rig.shim.id));
    // Until even the kernel takes no more.
    let connect = || {
        let address = SocketAddrUnix::new(&socket).unwrap();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        rustix::net::connect(&socket, &address).ok().map(|()| socket)
    };
    let waiting: Vec<_> = std::iter::from_fn(connect).collect();
    assert!(waiting.len() >= 64, "{}", waiting.len());
    let said = say(&rig.sockets, &["ps"]);
    assert!(said.code == 1 && said.stdout.ends_with("not answering\n"), "{said:?}");
    let said = say(&rig.sockets, &["cancel", "2"]);
    assert!(said.code == 2 && said.stderr.contains(": not answering\n"), "{said:?}");
    rig.shim.kill(Signal::CONT);
}

/// What a client leaves of the environment is not known, nor what a shell has.
#[test]
fn a_session_is_found_whatever_environment_either_side_has() {
    let around = tempfile::tempdir().unwrap();
    let given = |name: &str| {
        let path = around.path().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let (xdg, tmp, other) = (given("xdg"), given("tmp"), given("other"));
    let bare: &[(&str, &str)] = &[("PATH", "/usr/bin:/bin")];
    let codex = &[bare[0], ("HOME", "/nowhere"), ("LANG", "C"), ("TMPDIR", &tmp)];
    let shell = &[bare[0], ("HOME", "/root"), ("TMPDIR", &other), ("XDG_RUNTIME_DIR", &xdg)];
    for of_shim in [bare, codex, shell] {
        let variables = of_shim.iter().map(|(name, value)| format!("{name}={value}"));
        let under = ["env", "-i"].map(str::to_owned).into_iter().chain(variables);
        let mut rig = Rig::builder(PROGRAM).under(under).start();
        greet_mcp(&mut rig, MCP);
        pass_to_server(&mut rig, &call(1, "tool"));
        let name = rig.shim.id.to_string();
        for of_reader in [bare, codex, shell] {
            let command = |arguments: &[&str]| {
                let mut command = super::command(Path::new(""), arguments);
                command.env_clear().envs(of_reader.iter().copied());
                super::end(command)
            };
            // Other shims of this user may run, and some not answer.
            let said = command(&["ps", "--json", "--session", &name]);
            let document: Value = serde_json::from_str(&said.stdout).unwrap();
            let told = &document["sessions"][0];
            assert_eq!(told["session"]["pid"].as_i64(), Some(rig.shim.id.into()), "{of_shim:?} {of_reader:?} {said:?}");
            assert_eq!(told["requests"][0]["name"], "tool");
        }
        // Its socket lies where the user's own do.
        rig.server.exit(0);
        rig.shim.expect_exit(0);
    }
}
