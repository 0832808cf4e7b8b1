//! Sides that do not read, through the library, where the bounds can be small (D13).

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod shim;

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::PathBuf,
    thread::{self, JoinHandle},
    time::Duration,
};

use rescind::relay::{Link, LinkError, run};
use rescind_proto::relay::{Config, End};
use shim::{
    PROGRAM,
    words::{notification, request},
};

/// A link whose sides are given up soon, and the client's ends of it.
fn link(command: &[&str]) -> (JoinHandle<Result<End, LinkError>>, File, File) {
    let (client_input, to_link) = io::pipe().unwrap();
    let (from_link, client_output) = io::pipe().unwrap();
    let link = Link {
        client_input: client_input.into(),
        client_output: client_output.into(),
        command: command.iter().map(Into::into).collect(),
        launcher: PathBuf::from(PROGRAM),
        config: Config { max_debt: 10_000, debt_limit: Duration::from_millis(100), ..Config::default() },
        finish: None,
        recording: None,
        log: None,
        on_stuck: None,
        admin: Vec::new(),
    };
    let running = thread::spawn(move || run(link));
    (running, OwnedFd::from(to_link).into(), OwnedFd::from(from_link).into())
}

/// Writes until nobody takes it any more.
fn flood(mut to: File) -> JoinHandle<()> {
    let line = notification("x", &format!(r#"{{"text":"{}"}}"#, "x".repeat(1000))) + "\n";
    thread::spawn(move || while to.write_all(line.as_bytes()).is_ok() {})
}

#[test]
fn a_server_that_reads_nothing_is_given_up_and_its_requests_answered() {
    let (running, mut to_link, mut from_link) = link(&["sleep", "1000"]);
    to_link.write_all((request("1", "tools/call") + "\n").as_bytes()).unwrap();
    let flood = flood(to_link);
    let mut heard = String::new();
    from_link.read_to_string(&mut heard).unwrap();
    assert!(heard.contains(r#""id":1,"error":{"code":-31002"#), "{heard}");
    assert_eq!(running.join().unwrap().unwrap(), End::Signalled(15));
    flood.join().unwrap();
}

#[test]
fn a_client_that_reads_nothing_is_given_up_and_the_server_ends() {
    let (running, _to_link, _from_link) = link(&["yes", &notification("x", "{}")]);
    let how = running.join().unwrap().unwrap();
    assert!(matches!(how, End::Signalled(13 | 15)), "{how:?}");
}
