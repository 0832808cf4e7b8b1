//! Sides that do not read, through the library, where the bounds can be small (D13).

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::PathBuf,
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::shim::{
    PROGRAM,
    words::{notification, request},
};
use rescind::relay::{EntryName, Link, LinkClient, LinkEnd, LinkError, LinkServer, LogLevel, run};
use rescind_proto::relay::{End, RelayConfig};

/// A link whose sides are given up soon, and the client's ends of it.
fn link(command: &[&str]) -> (JoinHandle<Result<LinkEnd, LinkError>>, File, File) {
    link_with(10_000, None, command)
}

fn link_with(
    max_backlog: usize,
    log: Option<File>,
    command: &[&str],
) -> (JoinHandle<Result<LinkEnd, LinkError>>, File, File) {
    let (client_input, to_link) = io::pipe().unwrap();
    let (from_link, client_output) = io::pipe().unwrap();
    let link = Link {
        client: LinkClient::Descriptors { input: client_input.into(), output: client_output.into() },
        server: LinkServer::Command {
            command: command.iter().map(Into::into).collect(),
            launcher: PathBuf::from(PROGRAM),
        },
        entry: EntryName::default(),
        config: RelayConfig { max_backlog, stall_limit: Duration::from_millis(100), ..RelayConfig::default() },
        finish: None,
        recording: None,
        log: log.map(|log| (log, LogLevel::Error)),
        on_stuck: None,
        on_stop: None,
        stderr_in_errors: true,
        admin: Vec::new(),
        history: None,
        welcome: None,
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
    let ending = running.join().unwrap().unwrap();
    assert_eq!((ending.server, ending.is_output_lost), (End::Signalled(15), false));
    flood.join().unwrap();
}

#[test]
fn a_client_that_reads_nothing_is_given_up_and_the_server_ends() {
    let (running, _to_link, _from_link) = link(&["yes", &notification("x", "{}")]);
    let ending = running.join().unwrap().unwrap();
    assert!(matches!(ending.server, End::Signalled(13 | 15)) && ending.is_output_lost, "{ending:?}");
}

/// D44: the server has ended well, and what it said is not dropped without a word.
#[test]
fn a_client_that_reads_nothing_after_the_servers_end_is_given_up_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let text = r#"printf '{"method":"x","params":{"text":"%01000000d"}}\n' 0"#;
    let file = Some(File::create(&log).unwrap());
    let (running, _to_link, _from_link) = link_with(RelayConfig::default().max_backlog, file, &["sh", "-c", text]);
    let ending = running.join().unwrap().unwrap();
    assert_eq!((ending.server, ending.is_output_lost), (End::Exited(0), true));
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("ERROR does not read, given up side=client unread="), "{log}");
}
