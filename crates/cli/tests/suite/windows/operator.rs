//! The console, what is left behind, exit codes and colours.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::Stdio,
};

use serde_json::{Value, json};

use super::world::{Reporter, World};

fn get(address: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_console_serves_its_page() {
    let Some(world) = World::new() else { return };
    let mut console = world.command(&["console", "--no-open"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut link = String::new();
    BufReader::new(console.stdout.take().unwrap()).read_line(&mut link).unwrap();
    let (address, path) = link.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
    let redirect = get(address, &format!("/{path}"));
    let inside =
        redirect.lines().find_map(|line| line.strip_prefix("location: ")).unwrap_or_else(|| panic!("{redirect}"));
    let page = get(address, inside);
    console.kill().unwrap();
    console.wait().unwrap();
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<html"), "{page}");
}

#[test]
fn what_has_the_mark_of_an_ended_session_is_reaped() {
    let Some(world) = World::new() else { return };
    let mut client = world.client(&[], &world.server(&[]));
    let family = world.family();
    client.answer(0);
    let listed = world.rescind(&["ps", "--processes", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let mark = listed["sessions"][0]["mark"].as_str().unwrap();
    client.shim.kill().unwrap();
    client.shim.wait().unwrap();
    family.into_iter().for_each(Reporter::expect_end);
    // The job has ended everything, so this stands for what has left it.
    let words = [world.port(), "grandchild".to_owned()];
    let mut left =
        world.wine(world.program("reporting_server.exe")).args(words).env("RESCIND_MARK", mark).spawn().unwrap();
    let reporter = world.reporter();
    let orphans = world.rescind(&["ps", "--orphans"]);
    let orphans = String::from_utf8_lossy(&orphans.stdout).into_owned();
    assert!(orphans.contains("grandchild") && !orphans.contains('\x1b'), "{orphans}");
    let reaped = world.rescind(&["reap", "--yes"]);
    assert_eq!(reaped.status.code(), Some(0), "{}", String::from_utf8_lossy(&reaped.stdout));
    reporter.expect_end();
    left.wait().unwrap();
}

#[test]
fn cancel_and_stop_tell_by_their_exit_codes() {
    let Some(world) = World::new() else { return };
    let mut client = world.client(&[], &world.server(&[]));
    let [mut server, ..] = world.family();
    client.answer(0);
    client.call(1, "work", &json!({}));
    assert_eq!(server.next(), json!({"works": 1}));
    let table = world.rescind(&["ps"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(!table.contains('\x1b'), "{table}");
    let request = table.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    assert_eq!(world.rescind(&["cancel", request]).status.code(), Some(0));
    assert_eq!(server.next(), json!({"cancelled": 1}));
    assert_eq!(world.rescind(&["cancel", "4711/1"]).status.code(), Some(1));
    client.call(2, "work", &json!({}));
    assert_eq!(server.next(), json!({"works": 2}));
    // This server does not say whether its work has stopped.
    assert_eq!(world.rescind(&["stop", "--within", "1s"]).status.code(), Some(1));
    assert_eq!(server.next(), json!({"cancelled": 2}));
    // And it is not forgotten (D52).
    assert_eq!(world.rescind(&["stop", "--within", "1s"]).status.code(), Some(1));
}
