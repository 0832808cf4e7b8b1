//! Sessions are listed and named by their entries in the configurations of clients.

use rescind_feed::{EndOrder, Request, Session, State};
use rescind_testkit::{
    fake_shim::{self, FakeShim, asked, request},
    puppet::Rig,
};
use serde_json::{Value, json};

use crate::{
    operator::{Sockets, say, words},
    shim::{
        PROGRAM,
        words::{greet_mcp, pass_to_server, request_with},
    },
};

fn entry(number: &str, name: &str, client: &str, folder: &str) -> Session {
    Session {
        entry: Some(name.to_owned()),
        client_name: Some(client.to_owned()).filter(|client| !client.is_empty()),
        folder: Some(folder.to_owned()),
        ..fake_shim::session(number, &["/opt/server"])
    }
}

fn open(sockets: &Sockets, session: Session) -> FakeShim {
    let shim = sockets.shim_of(session);
    shim.put([request(17, "tools/call", Some("index"), 0)]);
    shim
}

fn is_cancelled(shim: &FakeShim) -> bool {
    shim.request("c17").is_some_and(|request| request.cancel.is_some())
}

#[test]
fn an_entry_is_listed_by_its_name_and_its_client() {
    let sockets = Sockets::new();
    let _one = open(&sockets, entry("1", "github", "cursor", "/work/a"));
    let _two = open(&sockets, fake_shim::session("2", &["/opt/server"]));
    let said = sockets.say(&["ps"]);
    let lines: Vec<_> = said.stdout.lines().map(words).collect();
    assert_eq!(lines[0], ["ID", "SERVER", "CLIENT", "FROM", "METHOD", "AGE", "STATE"]);
    assert_eq!(lines[1][..4], ["1/17", "github", "cursor", "client"]);
    assert_eq!(lines[2][..3], ["2/17", "server", "client"]);
    let said = sockets.say(&["ps", "--json"]);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    let session = &document["sessions"][0]["session"];
    assert_eq!([&session["entry"], &session["clientName"], &session["folder"]], ["github", "cursor", "/work/a"]);
    assert_eq!(document["sessions"][1]["session"].get("clientName"), None);
}

#[test]
fn entries_of_one_name_are_told_apart_by_client_and_by_folder() {
    let sockets = Sockets::new();
    let _all = [
        open(&sockets, entry("1", "github", "cursor", "/work/a")),
        open(&sockets, entry("2", "github", "cursor", "/work/b")),
        open(&sockets, entry("3", "github", "codex", "/work/a")),
        open(&sockets, entry("4", "files", "codex", "/work/a")),
    ];
    let said = sockets.say(&["ps"]);
    let lines: Vec<_> = said.stdout.lines().skip(1).map(|line| words(line)[1..3].join(" | ")).collect();
    assert_eq!(
        lines,
        ["github (/work/a) | cursor", "github (/work/b) | cursor", "github | codex", "files | codex"],
        "{}",
        said.stdout
    );
}

#[test]
fn a_name_means_its_session_wherever_a_number_does() {
    let sockets = Sockets::new();
    let one = open(&sockets, entry("1", "github", "cursor", "/work/a"));
    let two = open(&sockets, entry("2", "my server", "", "/work/a"));
    let three = open(&sockets, entry("3", "@acme/files", "codex", "/work/a"));
    for (name, number) in [("github", "1"), ("cursor:github", "1"), ("my server", "2"), ("codex:@acme/files", "3")] {
        let said = sockets.say(&["ps", "--session", name]);
        let ids: Vec<_> = said.stdout.lines().skip(1).map(|line| words(line)[0].to_owned()).collect();
        assert_eq!(ids, [format!("{number}/17")], "{said:?}");
    }
    let said = sockets.say(&["cancel", "my server/17", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "2/17: cancelling…\n"));
    let said = sockets.say(&["cancel", "@acme/files/client:17", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "3/17: cancelling…\n"));
    assert!(is_cancelled(&two) && is_cancelled(&three) && !is_cancelled(&one));
    let said = sockets.say(&["cancel", "--session", "cursor:github", "--all", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "1/17: cancelling…\n"));
    let said = sockets.say(&["cancel", "nobody/17"]);
    assert_eq!(said.code, 1);
    assert_eq!(said.stderr, "error: nobody: no such session\nhint: `rescind ps --sessions` lists all sessions\n");
}

#[test]
fn stop_takes_the_names_of_entries_and_of_clients() {
    let sockets = Sockets::new();
    let all = [
        open(&sockets, entry("1", "github", "cursor", "/work/a")),
        open(&sockets, entry("2", "files", "cursor", "/work/a")),
        open(&sockets, entry("3", "github", "codex", "/work/a")),
    ];
    for shim in &all {
        shim.on_cancel(|request, reason| {
            *request = Request { state: State::Ended, cancel: Some(asked(0, reason)), ..request.clone() };
        });
    }
    let cancelled = || all.each_ref().map(is_cancelled);
    sockets.say(&["stop", "--session", "files", "--within", "5s"]);
    assert_eq!(cancelled(), [false, true, false]);
    let said = sockets.say(&["stop", "--session", "github", "--within", "5s"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.starts_with("error: github: is the name of 2 sessions: 1 (cursor"), "{said:?}");
    assert_eq!(cancelled(), [false, true, false]);
    sockets.say(&["stop", "--client", "codex", "--within", "5s"]);
    assert_eq!(cancelled(), [false, true, true]);
    sockets.say(&["stop", "--server", "github", "--within", "5s"]);
    assert_eq!(cancelled(), [true, true, true]);
}

#[test]
fn a_name_of_several_reaches_none_of_them_and_says_how_to_name_one() {
    let sockets = Sockets::new();
    let one = open(&sockets, entry("1", "github", "cursor", "/work/a"));
    let two = open(&sockets, entry("2", "github", "codex", "/work/b"));
    let expected = "error: github: is the name of 2 sessions: 1 (cursor, /work/a), 2 (codex, /work/b); name one by its number\n\
                    hint: as 1 is, or by its client: cursor:github\n";
    for (arguments, code) in [
        (&["ps", "--session", "github"][..], 2),
        (&["end", "github", "--yes"], 2),
        (&["cancel", "github/17"], 1),
        (&["cancel", "--session", "github", "--all", "--yes"], 1),
        (&["ps", "--session", "github", "--processes"], 2),
        (&["ps", "--session", "github", "--watch"], 2),
    ] {
        let said = sockets.say(arguments);
        assert_eq!((said.code, said.stderr.as_str()), (code, expected), "{arguments:?}");
    }
    assert!(!is_cancelled(&one) && !is_cancelled(&two));
    assert!([&one, &two].iter().all(|shim| shim.wait_for(|seen| Some(seen.ends.is_empty()))));
    let said = sockets.say(&["cancel", "codex:github/17", "--no-wait"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "2/17: cancelling…\n"));
}

/// Of two alike in all but their number, only that tells which is meant.
#[test]
fn two_that_nothing_but_their_number_tells_apart_are_named_by_that() {
    let sockets = Sockets::new();
    let _both = ["1", "2"].map(|number| open(&sockets, entry(number, "github", "cursor", "/work/a")));
    let said = sockets.say(&["ps", "--session", "cursor:github"]);
    assert!(said.stderr.ends_with("; name one by its number\nhint: as 1 is\n"), "{said:?}");
}

/// A session that does not answer may be the one that is meant.
#[test]
fn a_name_is_not_believed_to_be_of_one_while_another_could_not_be_asked() {
    let sockets = Sockets::new();
    let one = open(&sockets, entry("1", "github", "cursor", "/work/a"));
    let silent = open(&sockets, entry("2", "github", "codex", "/work/a"));
    silent.freeze();
    let said = sockets.say(&["end", "github", "--yes"]);
    assert_eq!(said.code, 2);
    let expected =
        "error: github: may be another session, too, since 2 could not be asked\nhint: the one that answered is 1\n";
    assert_eq!(said.stderr, expected);
    let said = sockets.say(&["ps", "--session", "files"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("no session that answered has this name, and 2 could not be asked"), "{said:?}");
    assert!(one.wait_for(|seen| Some(seen.ends.is_empty())));
    // By its number, no other is asked.
    let said = sockets.say(&["end", "1", "--yes"]);
    let orders: Vec<EndOrder> = one.wait_for(|seen| Some(seen.ends.clone()));
    assert_eq!(orders.len(), 1, "{said:?}");
}

#[test]
fn a_shim_tells_its_names_whatever_is_in_them_and_its_recording_has_them() {
    for (name, client) in [("github", "cursor"), ("it's \"mine\" – 検索", "codex"), ("-x", "--"), ("--", "-")] {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("recording.jsonl");
        let flags =
            [format!("--name={name}"), format!("--client-name={client}"), format!("--record={}", recording.display())];
        let mut rig = Rig::builder(PROGRAM).flags(flags).start();
        greet_mcp(&mut rig, "2025-11-25");
        pass_to_server(&mut rig, &request_with("1", "tools/call", r#"{"name":"index"}"#));
        let said = say(&rig.sockets, &["ps", "--json"]);
        let document: Value = serde_json::from_str(&said.stdout).unwrap();
        let session = &document["sessions"][0]["session"];
        assert_eq!([&session["entry"], &session["clientName"]], [name, client]);
        let here = std::env::current_dir().unwrap();
        assert_eq!(session["folder"], here.to_str().unwrap());
        let said = say(&rig.sockets, &["ps", &format!("--session={name}")]);
        assert_eq!((said.code, said.stdout.lines().count()), (0, 2), "{said:?}");
        rig.server.exit(0);
        rig.shim.expect_exit(0);
        let text = std::fs::read_to_string(&recording).unwrap();
        let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!([&header["entry"], &header["clientName"]], [name, client]);
    }
}

#[test]
fn an_empty_name_is_none() {
    let mut rig = Rig::builder(PROGRAM).flags(["--name=", "--client-name", ""]).start();
    greet_mcp(&mut rig, "2025-11-25");
    let said = say(&rig.sockets, &["ps", "--json", "--sessions"]);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    let session = document["sessions"][0]["session"].as_object().unwrap();
    assert!(!session.contains_key("entry") && !session.contains_key("clientName"), "{session:?}");
    assert_eq!(session["version"], json!(1));
}
