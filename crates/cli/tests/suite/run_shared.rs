//! `rescind run --shared`: several sessions before one server process.

mod ends;
mod identity;
mod memory;
mod seen;
mod work;

use rescind_testkit::puppet::{Ends, Server, Sharing, Shim};
use rustix::process::Signal;

use crate::{
    serve::LEGACY,
    shim::{
        PROGRAM, error_of,
        words::{cancelled, notification, request, request_with, result},
    },
};

const SHARED: [&str; 2] = ["--shared", "tools"];

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A session: its shim, and the test as its client.
pub(crate) struct Sharer {
    pub(crate) shim: Shim,
    pub(crate) client: Ends,
}

impl Sharer {
    fn join(sharing: &Sharing, flags: &[&str]) -> Self {
        Self::of(sharing, sharing.command(PROGRAM, &[&SHARED, flags].concat()))
    }

    /// One that has said `initialize`.
    fn of(sharing: &Sharing, command: std::process::Command) -> Self {
        let (shim, mut client) = sharing.start(command);
        let hello = r#""capabilities":{},"clientInfo":{"name":"test","version":"1"}"#;
        client.send(&request_with("0", "initialize", &format!(r#"{{"protocolVersion":"{LEGACY}",{hello}}}"#)));
        Self { shim, client }
    }

    /// Its `initialize` is answered.
    fn open(&mut self) {
        self.client.expect(&result("0", &greeting()));
        self.client.send(INITIALIZED);
    }

    /// A call with the id 1, as all have; the id by which the server knows it.
    fn call(&mut self, server: &mut Server, who: &str) -> String {
        let params = format!(r#"{{"name":"work","arguments":{{"who":"{who}"}}}}"#);
        self.client.send(&request_with("1", "tools/call", &params));
        let asked = server.receive();
        let known = id_of(&asked);
        assert_eq!(asked, request_with(&known, "tools/call", &params));
        known
    }

    /// What is asked is answered: it has the server.
    fn is_served(&mut self, server: &mut Server, id: &str) {
        self.client.send(&request(id, "resources/list"));
        let asked = server.receive();
        assert!(asked.contains("resources/list"), "{asked}");
        server.send(&result(&id_of(&asked), "{}"));
        self.client.expect(&result(id, "{}"));
    }
}

fn greeting() -> String {
    format!(r#"{{"protocolVersion":"{LEGACY}","capabilities":{{}},"serverInfo":{{"name":"test","version":"1"}}}}"#)
}

fn id_of(message: &str) -> String {
    let message: serde_json::Value = serde_json::from_str(message).unwrap();
    message["id"].to_string()
}

/// The process that the first session has started, once it has shaken hands.
fn accept(sharing: &Sharing) -> Server {
    let mut server = sharing.accept();
    let asked = server.receive();
    assert!(asked.contains(r#""method":"initialize""#) && asked.contains(r#""name":"rescind""#), "{asked}");
    server.send(&result(&id_of(&asked), &greeting()));
    server.expect(INITIALIZED);
    server
}

/// So many sessions, and the server that they share.
fn open(sharing: &Sharing, flags: &[&[&str]]) -> (Vec<Sharer>, Server) {
    let mut sharers: Vec<Sharer> = flags.iter().map(|flags| Sharer::join(sharing, flags)).collect();
    let server = accept(sharing);
    sharers.iter_mut().for_each(Sharer::open);
    (sharers, server)
}

/// The id that a cancel which the server gets is about.
fn stopped(server: &mut Server) -> String {
    let cancel: serde_json::Value = serde_json::from_str(&server.receive()).unwrap();
    assert_eq!(cancel["method"], "notifications/cancelled", "{cancel}");
    cancel["params"]["requestId"].to_string()
}

#[test]
fn six_sessions_of_four_clients_have_one_server_and_each_its_own_work() {
    const CLIENTS: [&str; 6] = ["cursor", "codex", "zed", "vscode", "cursor", "codex"];
    let sharing = Sharing::new();
    let names = CLIENTS.map(|client| ["--name=tools".to_owned(), format!("--client-name={client}")]);
    let flags: Vec<Vec<&str>> = names.iter().map(|names| names.iter().map(String::as_str).collect()).collect();
    let flags: Vec<&[&str]> = flags.iter().map(Vec::as_slice).collect();
    let (mut sharers, mut server) = open(&sharing, &flags);
    let known: Vec<String> = sharers.iter_mut().zip(CLIENTS).map(|(one, who)| one.call(&mut server, who)).collect();
    // One stops its call, and one is killed: exactly their work is stopped.
    sharers[0].client.send(&cancelled("1"));
    assert_eq!(stopped(&mut server), known[0]);
    sharers[1].shim.kill(Signal::KILL);
    assert_eq!(stopped(&mut server), known[1]);
    // One floods, and never reads an answer.
    let flood: Vec<String> = (0..400).map(|id| request(&format!("{}", 1000 + id), "flood")).collect();
    sharers[2].client.send_together(&flood.iter().map(String::as_str).collect::<Vec<_>>());
    // Meanwhile another stops its call, and others get their answers.
    sharers[3].client.send(&cancelled("1"));
    let mut floods = Vec::new();
    loop {
        let next = server.receive();
        if next.contains("notifications/cancelled") {
            assert!(next.contains(&format!(r#""requestId":{}"#, known[3])), "{next}");
            break;
        }
        assert!(next.contains("flood"), "{next}");
        floods.push(id_of(&next));
    }
    for place in [4, 5] {
        let answer = format!(r#"{{"place":{place}}}"#);
        server.send(&result(&known[place], &answer));
        sharers[place].client.expect(&result("1", &answer));
    }
    while floods.len() < flood.len() {
        floods.push(id_of(&server.receive()));
    }
    floods.iter().for_each(|id| server.send(&result(id, "{}")));
    server.send(&result(&known[2], "{}"));
    sharers[5].is_served(&mut server, "2");
    assert!(!sharing.has_another(), "there is one server");
    // The last one leaves, and the server sees its end.
    drop(sharers);
    server.expect_end();
    server.exit(0);
}

/// Whoever reads nothing has its own answers wait, and nobody else's.
#[test]
fn a_client_that_reads_nothing_delays_no_other() {
    let sharing = Sharing::new();
    let (mut sharers, mut server) = open(&sharing, &[&[], &[]]);
    let long = "x".repeat(1 << 20);
    for id in 0..24 {
        sharers[0].client.send(&request(&(100 + id).to_string(), "long"));
        let asked = server.receive();
        server.send(&result(&id_of(&asked), &format!(r#"{{"long":"{long}"}}"#)));
    }
    for id in 2..10 {
        sharers[1].is_served(&mut server, &id.to_string());
    }
    let known = sharers[1].call(&mut server, "other");
    sharers[1].client.send(&cancelled("1"));
    assert_eq!(stopped(&mut server), known);
}

#[test]
fn of_twenty_that_start_at_once_one_starts_the_server() {
    let sharing = Sharing::new();
    let mut sharers: Vec<Sharer> = (0..20).map(|_| Sharer::join(&sharing, &[])).collect();
    let mut server = accept(&sharing);
    sharers.iter_mut().for_each(Sharer::open);
    let known: Vec<String> = sharers.iter_mut().map(|one| one.call(&mut server, "x")).collect();
    for (who, (one, known)) in sharers.iter_mut().zip(&known).enumerate() {
        let answer = format!(r#"{{"who":{who}}}"#);
        server.send(&result(known, &answer));
        one.client.expect(&result("1", &answer));
    }
    assert!(!sharing.has_another(), "there is one server");
}

/// What it says to nobody in particular.
#[test]
fn what_the_server_asks_is_refused_and_its_log_reaches_all() {
    let sharing = Sharing::new();
    let (mut sharers, mut server) = open(&sharing, &[&[], &[]]);
    server.send(&request("77", "sampling/createMessage"));
    let refused = error_of(&server.receive(), "77");
    assert!(refused["message"].as_str().is_some_and(|why| !why.is_empty()), "{refused}");
    let log = notification("notifications/message", r#"{"level":"info","data":"x"}"#);
    server.send(&log);
    sharers.iter_mut().for_each(|one| one.client.expect(&log));
}
