//! SDKs that sign in at a real authorization server, without Rescind and through `rescind serve --upstream`: which of them
//! take a server for theirs that calls itself so or otherwise. Each signs in, loses its token within its session, and goes
//! on with another.

use std::{io::Write, process::Stdio};

use serde_json::{Value, json};

use super::parts::{not_installed, peers, text};
use super::play::{say, skip};
use super::programs::{Bench, Started};
use crate::shim::PROGRAM;

/// A client, and whether it speaks 2026-07-28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Client {
    sdk: Sdk,
    is_modern: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sdk {
    TypeScript1,
    TypeScript2,
    Python2,
}

const CLIENTS: [Client; 5] = [
    Client { sdk: Sdk::TypeScript1, is_modern: false },
    Client { sdk: Sdk::TypeScript2, is_modern: false },
    Client { sdk: Sdk::TypeScript2, is_modern: true },
    Client { sdk: Sdk::Python2, is_modern: false },
    Client { sdk: Sdk::Python2, is_modern: true },
];

/// As what the server's page names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// The URL at which its clients reach it, without Rescind.
    Direct,
    /// The URL at which its clients reach Rescind.
    AsReached,
    /// The same without its path.
    Origin,
    /// The same with another path.
    OtherPath,
    /// Its own URL, which is not that of Rescind.
    OtherOrigin,
}

/// A server, and `rescind serve --upstream` before it.
struct Rig {
    bench: Bench,
    server: Option<Started>,
    front: Option<Started>,
    /// Where clients go.
    url: String,
}

impl Rig {
    /// `None` if something is missing; a line says so.
    fn start(named: Named) -> Option<Self> {
        let missing = not_installed(&["python/.venv", "node/mcp1/node_modules", "node/mcp2/node_modules"], &["node"]);
        if let Some(part) = missing {
            assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "signing in: {part}");
            skip(part);
            return None;
        }
        let bench = Bench::new(&[]);
        let mut command = bench.command(&python("oauth_server.py"));
        command.stdin(Stdio::piped());
        let mut server = bench.start("server", command);
        let origin = server.until(|said| said.strip_suffix('\n').map(str::to_owned));
        let own = format!("{origin}/mcp");
        let words = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--upstream", &own].map(str::to_owned);
        let mut front = bench.start("front", bench.command(&words));
        let here = front.until(|said| Some(said.strip_prefix("listening on ")?.strip_suffix('\n')?.to_owned()));
        let resource = match named {
            Named::Direct | Named::OtherOrigin => own.clone(),
            Named::AsReached => here.clone(),
            Named::Origin => here.replace("/mcp", "/"),
            Named::OtherPath => here.replace("/mcp", "/other"),
        };
        let url = if named == Named::Direct { own } else { here };
        writeln!(server.child().stdin.as_mut().unwrap(), "{resource}").unwrap();
        Some(Self { bench, server: Some(server), front: Some(front), url })
    }

    /// What the server said to a client that signs in.
    fn play(&self, client: Client, flags: &[&str]) -> Value {
        let script = match client.sdk {
            Sdk::TypeScript1 => node("mcp1/oauth-client.mjs"),
            Sdk::TypeScript2 => node("mcp2/oauth-client.mjs"),
            Sdk::Python2 => python("oauth_client.py"),
        };
        let legacy: &[&str] = if client.is_modern { &[] } else { &["--legacy"] };
        let words = [&[&*self.url], legacy, flags].concat();
        let command = self.bench.command(&[script, words.iter().map(|word| (*word).to_owned()).collect()].concat());
        let ended = self.bench.run("client", command);
        serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|_| panic!("{}: {}{}", ended.exit, ended.stdout, ended.stderr))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for program in [self.front.take(), self.server.take()].into_iter().flatten() {
            program.terminate();
            program.wait();
        }
    }
}

fn node(script: &str) -> Vec<String> {
    vec!["node".to_owned(), text(&peers().join("node").join(script))]
}

fn python(script: &str) -> Vec<String> {
    let folder = peers().join("python");
    vec![text(&folder.join(".venv/bin/python")), text(&folder.join(script))]
}

/// What the page's word for the server does to each client.
fn outcomes(named: Named, flags: &[&str]) -> Vec<(Client, Value)> {
    let Some(rig) = Rig::start(named) else { return Vec::new() };
    let outcomes: Vec<_> = CLIENTS.into_iter().map(|client| (client, rig.play(client, flags))).collect();
    for (client, said) in &outcomes {
        say(&format!("signing in, {named:?} {flags:?}: {client:?}: {said}\n"));
    }
    outcomes
}

fn assert_signed_in(client: Client, said: &Value) {
    let name = match client.sdk {
        Sdk::TypeScript1 => "typescript1",
        Sdk::TypeScript2 => "typescript2",
        Sdk::Python2 => "python2",
    };
    let revision = if client.is_modern { "2026-07-28" } else { "2025-11-25" };
    assert_eq!(*said, json!({"revision": revision, "results": [name, "expired", name]}), "{client:?}");
}

fn assert_refuses(client: Client, said: &Value) {
    let error = said["error"].as_str().unwrap_or_default();
    assert!(error.contains("does not match expected"), "{client:?}: {said}");
}

#[test]
fn without_rescind_all_sign_in() {
    for (client, said) in outcomes(Named::Direct, &[]) {
        assert_signed_in(client, &said);
    }
}

#[test]
fn all_sign_in_at_a_server_that_is_called_as_they_reach_it() {
    for named in [Named::AsReached, Named::Origin] {
        for (client, said) in outcomes(named, &[]) {
            assert_signed_in(client, &said);
        }
    }
}

#[test]
fn none_signs_in_at_a_server_that_calls_itself_otherwise() {
    for named in [Named::OtherPath, Named::OtherOrigin] {
        for (client, said) in outcomes(named, &[]) {
            assert_refuses(client, &said);
        }
    }
}

/// With the callback that their SDKs have for that. Python then wants a token for the URL that it reaches, which a server
/// that looks refuses.
#[test]
fn those_that_are_told_to_take_any_name_take_it() {
    for (client, said) in outcomes(Named::OtherOrigin, &["--any-resource"]) {
        match client.sdk {
            Sdk::Python2 => {
                let error = said["error"].as_str().unwrap_or_default();
                assert!(error.contains("wants authorization (401 Unauthorized; Bearer)"), "{said}");
            }
            Sdk::TypeScript1 | Sdk::TypeScript2 => assert_signed_in(client, &said),
        }
    }
}
