//! What a server asked of its client: cancelled there, and never a reason to end the server (D53). With real processes.

use std::{path::Path, thread};

use rescind_testkit::puppet::{Ends, Rig};
use serde_json::Value;

use super::servers::{Dialect, Told, stop};
use crate::shim::words::{error, pass_to_client, request, request_with, result};

/// What the client does when the card is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    /// It says nothing.
    Mute,
    /// It takes the card back and says so.
    Confirms,
    /// Its user has just answered.
    Answers,
}

/// Who is heard first after the cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Server,
    Client,
}

impl Dialect {
    /// A question that a person answers.
    pub(super) fn card(self) -> String {
        match self {
            Self::Mcp => request_with(
                "7",
                "elicitation/create",
                r#"{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}"#,
            ),
            Self::Acp => {
                request_with("7", "session/request_permission", r#"{"sessionId":"s","toolCall":{},"options":[]}"#)
            }
            Self::Lsp => request_with("7", "window/showMessageRequest", r#"{"type":1,"message":"?","actions":[]}"#),
        }
    }

    /// The server's last word about its own work, after its cancel.
    pub(super) fn over(self) -> String {
        match self {
            // Its protocol does not confirm a cancel: it has finished.
            Self::Mcp => result("1", "{}"),
            Self::Acp => result("1", r#"{"stopReason":"cancelled"}"#),
            Self::Lsp => error("1", -32800, "Request cancelled"),
        }
    }

    fn client_says(self, client: Client) -> Option<String> {
        match (client, self) {
            (Client::Mute, _) => None,
            // In MCP it says nothing of a request that its server cancelled.
            (Client::Confirms, Self::Mcp) => None,
            (Client::Confirms, Self::Acp) => Some(result("7", r#"{"outcome":{"outcome":"cancelled"}}"#)),
            (Client::Confirms, Self::Lsp) => Some(error("7", -32800, "Request cancelled")),
            (Client::Answers, _) => Some(result("7", r#"{"action":"accept"}"#)),
        }
    }
}

/// Waits until the side has received the cancel that it is to receive.
pub(super) fn heard(side: &mut Ends, dialect: Dialect, is_client: bool) {
    loop {
        let message: Value = serde_json::from_str(&side.receive()).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        let wanted = if is_client && dialect == Dialect::Acp { "$/cancel_request" } else { dialect.cancel() };
        if method == wanted {
            return;
        }
    }
}

/// The server's process lives on: a request and its answer pass, behind whatever else has been said.
pub(super) fn expect_alive(rig: &mut Rig) {
    let (asks, answers) = (request("\"alive?\"", "ping"), result("\"alive?\"", "{}"));
    rig.client.send(&asks);
    while rig.server.receive() != asks {}
    rig.server.send(&answers);
    while rig.client.receive() != answers {}
}

/// Stops a session with a call and a card in flight.
fn stop_with_card(sockets: &Path, dialect: Dialect, client: Client, first: First, arguments: &[&str]) -> (Told, Rig) {
    let mut rig = dialect.open(sockets);
    pass_to_client(&mut rig, &dialect.card());
    let served = thread::spawn(move || {
        let order = if first == First::Server { [false, true] } else { [true, false] };
        for is_client in order {
            if is_client {
                heard(&mut rig.client, dialect, true);
                dialect.client_says(client).iter().for_each(|word| rig.client.send(word));
            } else {
                heard(&mut rig.server, dialect, false);
                rig.server.send(&dialect.over());
            }
        }
        rig
    });
    let told = stop(sockets, arguments);
    (told, served.join().unwrap())
}

#[test]
fn a_card_that_its_client_does_not_take_back_never_ends_the_server() {
    let sockets = tempfile::tempdir().unwrap();
    for dialect in [Dialect::Acp, Dialect::Lsp, Dialect::Mcp] {
        for client in [Client::Mute, Client::Confirms, Client::Answers] {
            for first in [First::Server, First::Client] {
                for kill in ["--kill", "--kill=unknown"] {
                    let what = format!("{dialect:?} {client:?} {first:?} {kill}");
                    let path = sockets.path().join(what.replace([' ', '='], ""));
                    let (told, mut rig) = stop_with_card(&path, dialect, client, first, &["--within", "700ms", kill]);
                    let states = told.states.values().next().unwrap();
                    let work = if dialect == Dialect::Mcp { "finished" } else { "stopped" };
                    let card = match (client, dialect) {
                        (Client::Mute, _) | (Client::Confirms, Dialect::Mcp) => "with its client",
                        (Client::Confirms, _) => "withdrawn",
                        (Client::Answers, _) => "finished",
                    };
                    assert!(
                        states.contains(&work.to_owned()) && states.contains(&card.to_owned()),
                        "{what}: {states:?}"
                    );
                    assert_eq!((states.len(), told.code), (2, 0), "{what}: {states:?} {}", told.stderr);
                    let stopped = if dialect == Dialect::Mcp { "0 stopped" } else { "1 stopped" };
                    assert!(told.summary.starts_with(stopped), "{what}: {}", told.summary);
                    let words = told.stdout.contains("; the card may still be shown");
                    assert_eq!(words, card == "with its client", "{what}: {}", told.stdout);
                    expect_alive(&mut rig);
                }
            }
        }
    }
}

/// Nothing but the card is in flight, and its client is a process that reads nothing.
#[test]
fn a_card_alone_is_over_when_it_is_cancelled_and_the_server_lives_on() {
    let sockets = tempfile::tempdir().unwrap();
    let check = |dialect: Dialect| {
        let path = sockets.path().join(format!("{dialect:?}"));
        let mut rig = dialect.open(&path);
        rig.server.send(&dialect.over());
        rig.client.receive();
        pass_to_client(&mut rig, &dialect.card());
        // It waits no longer than its client is silent, however slow the machine is.
        let told = stop(&path, &["--within", "1h", "--kill=unknown"]);
        assert_eq!((told.code, told.summary.as_str()), (0, "0 stopped, 1 with its client"), "{}", told.stderr);
        let told = stop(&path, &["--within", "1h", "--kill"]);
        assert_eq!(told.code, 0, "{}", told.stderr);
        expect_alive(&mut rig);
    };
    thread::scope(|scope| {
        for dialect in [Dialect::Acp, Dialect::Lsp, Dialect::Mcp] {
            let check = &check;
            scope.spawn(move || check(dialect));
        }
    });
}
