//! SDKs that sign in at a real authorization server, without Rescind and through `rescind serve --upstream`: which of them
//! take a server for theirs that calls itself so or otherwise. Each signs in, loses its token within its session, and goes
//! on with another.

use std::{collections::BTreeSet, fs, io::Write, process::Stdio};

use serde_json::{Value, json};

use super::parts::{not_installed, peers, text};
use super::play::{say, skip};
use super::programs::{Bench, Started};
use crate::{
    shim::{
        PROGRAM,
        words::{notification, request_with},
    },
    sign_in::{
        GREETING, call,
        person::{Person, browse, command_lines, redirect},
    },
};

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

/// A server on the official SDK that calls itself so, or by a path of its own, and where it is reached. `None` if it is not
/// installed; a line says so.
fn sdk_server(bench: &Bench, path: &str) -> Option<(Started, String)> {
    if let Some(part) = not_installed(&["python/.venv"], &[]) {
        assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "signing in: {part}");
        skip(part);
        return None;
    }
    let mut command = bench.command(&python("oauth_server.py"));
    command.stdin(Stdio::piped());
    let mut server = bench.start("server", command);
    let origin = server.until(|said| said.strip_suffix('\n').map(str::to_owned));
    writeln!(server.child().stdin.as_mut().unwrap(), "{origin}{path}").unwrap();
    Some((server, format!("{origin}/mcp")))
}

/// What is kept of a sign-in and is secret.
fn secrets(person: &Person) -> BTreeSet<String> {
    let files = fs::read_dir(person.file("vault")).unwrap().map(|file| file.unwrap().path());
    let kept = files.filter(|file| file.extension().is_some_and(|kind| kind == "json"));
    let kept: Vec<Value> = kept.map(|file| serde_json::from_slice(&fs::read(file).unwrap()).unwrap()).collect();
    let all = kept.iter().flat_map(|kept| [&kept["access"], &kept["refresh"], &kept["client"]["secret"]]);
    all.filter_map(|secret| secret.as_str().map(ToOwned::to_owned)).collect()
}

#[test]
fn rescind_signs_in_itself_and_writes_no_secret() {
    let bench = Bench::new(&[]);
    let Some((server, url)) = sdk_server(&bench, "/mcp") else { return };
    let person = Person::new();
    let (log, record) = (person.file("log"), person.file("record.jsonl"));
    let words = ["run", "--log", "trace", "--log-file", log.to_str().unwrap(), "--record", record.to_str().unwrap()];
    let mut run = person.start(&[&words[..], &["--url", &url]].concat());
    run.say(&request_with("1", "initialize", GREETING));
    let link = person.link();
    let page = redirect(&link);
    let back = redirect(&page);
    let shown = browse(&back);
    assert!(shown.contains("You are signed in."), "{shown}");
    assert!(run.hear().contains(r#""name":"oauth""#));
    let mut secrets_of_all = secrets(&person);
    run.say(&notification("notifications/initialized", "{}"));
    for (id, tool, says) in [("2", "who", "Rescind"), ("3", "expire", "expired"), ("4", "who", "Rescind")] {
        run.say(&call(id, tool));
        let answer: Value = serde_json::from_str(&run.hear()).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], says, "{answer}");
    }
    // The second pair of tokens was got with the first, and nobody was asked.
    secrets_of_all.extend(secrets(&person));
    let query = back.split_once('?').unwrap().1;
    secrets_of_all.extend(
        query
            .split('&')
            .filter(|pair| !pair.starts_with("iss="))
            .map(|pair| pair.split_once('=').unwrap().1.to_owned()),
    );
    assert!(secrets_of_all.len() >= 6, "{secrets_of_all:?}");
    let listed = person.run(&["ps", "--json"]).1;
    let seen = [link, shown, command_lines(), listed, person.run(&["whoami", &url]).1];
    assert_eq!(run.end(), 0);
    let seen = seen.concat() + &person.written();
    assert!(seen.contains("tools/call") && seen.contains("opens in the browser"), "{seen}");
    for secret in secrets_of_all {
        assert!(!seen.contains(&secret), "{secret} was written");
    }
    server.terminate();
    server.wait();
}

/// A token for that would be good elsewhere.
#[test]
fn rescind_asks_for_no_token_of_a_server_that_calls_itself_otherwise() {
    let bench = Bench::new(&[]);
    let Some((server, url)) = sdk_server(&bench, "/other") else { return };
    let person = Person::new();
    let mut run = person.start(&["run", "--url", &url]);
    run.say(&request_with("1", "initialize", GREETING));
    let answer = run.hear();
    assert!(answer.contains("and there is none: the page about the server is refused: it is about `http"), "{answer}");
    assert!(answer.contains(&format!("run `rescind login {url}`")), "{answer}");
    assert_eq!(person.kept(), 0);
    assert_eq!(run.end(), 0);
    server.terminate();
    server.wait();
}
