//! Recordings of real links, shown again: what a console says of one is what happened, and what the shim itself said
//! while it ran.

use std::{collections::BTreeMap, path::Path, sync::mpsc, thread};

use rescind_console::Recording;
use rescind_feed::{CancelOrder, Changes, End, Ended, Event, Outcome, Request, SettledHow, Side, Snapshot, State};
use rescind_operator::{Directories, ListingQuery, Shim};
use rescind_testkit::puppet::Rig;
use serde_json::{Value, json};

use crate::{
    run_acp_two, run_codex,
    shim::{
        self, PROGRAM,
        words::{
            cancelled, error, greet_acp, greet_mcp, notification, pass_to_client, pass_to_server, progress, request,
            request_with, result,
        },
    },
};

/// A shim that records, and the file.
pub(crate) fn recorded(flags: &[&str]) -> (Rig, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.jsonl");
    let flags = [&["--record", file.to_str().unwrap()], flags].concat();
    (Rig::builder(PROGRAM).flags(flags).start(), folder)
}

pub(crate) fn open(folder: &Path) -> Recording {
    Recording::open(&folder.join("session.jsonl"), "session").unwrap()
}

/// Everything that a recording tells of its requests.
pub(crate) fn requests(recording: &Recording) -> Vec<Request> {
    let of = |event| match event {
        Event::Snapshot(Snapshot { requests, .. }) | Event::Changes(Changes { requests, .. }) => requests,
        Event::Ended(_) => Vec::new(),
        other => panic!("{other:?}"),
    };
    recording.events().flat_map(of).collect()
}

fn end(recording: &Recording) -> End {
    let end = |event| if let Event::Ended(Ended { how, .. }) = event { Some(how) } else { None };
    recording.events().find_map(end).unwrap()
}

fn find<'a>(requests: &'a [Request], from: Side, id: &str) -> &'a Request {
    requests.iter().find(|request| request.from == from && request.id == id).unwrap()
}

/// The texts of the messages about a request, each after who sent it.
fn messages(recording: &Recording, request: &Request) -> Vec<String> {
    let frames = recording.details(&request.key).unwrap().frames;
    frames.iter().map(|frame| format!("{} {}", frame.from.as_str(), frame.text)).collect()
}

pub(crate) fn call(id: &str, name: &str) -> String {
    request_with(id, "tools/call", &format!(r#"{{"name":"{name}","_meta":{{"progressToken":"p-{name}"}}}}"#))
}

/// An MCP session in which nearly everything happens that can happen to a request; `stop` is an operator's.
pub(crate) fn act_mcp(rig: &mut Rig, stop: impl FnOnce(&str)) {
    greet_mcp(rig, "2025-11-25");
    // One that works, reports and asks back.
    pass_to_server(rig, &call("1", "fine"));
    pass_to_client(rig, &progress("\"p-fine\"", 1));
    pass_to_client(rig, &progress("\"p-fine\"", 2));
    pass_to_client(rig, &request_with("7", "sampling/createMessage", "{}"));
    pass_to_server(rig, &result("7", "{}"));
    pass_to_client(rig, &result("1", r#"{"content":[]}"#));
    // One that is cancelled, and goes on.
    pass_to_server(rig, &call("2", "stubborn"));
    pass_to_server(rig, &notification("notifications/cancelled", r#"{"requestId":2,"reason":"enough"}"#));
    rig.server.send(&progress("\"p-stubborn\"", 1));
    rig.server.send(&result("2", "{}"));
    rig.expect_client_hears_nothing();
    // One that fails, under an id that the server must not be shown.
    rig.client.send(&call("0", "failing"));
    let upstream = serde_json::from_str::<serde_json::Value>(&rig.server.receive()).unwrap()["id"].to_string();
    rig.server.send(&error(&upstream, -32000, "no"));
    rig.client.expect(&error("0", -32000, "no"));
    // One that was cancelled before anybody heard of it.
    rig.client.send_together(&[&call("4", "early"), &cancelled("4")]);
    rig.expect_server_hears_nothing();
    // One whose cancel crossed its answer, and one that uses an id again.
    pass_to_server(rig, &call("5", "quick"));
    pass_to_client(rig, &result("5", "{}"));
    rig.client.send(&cancelled("5"));
    rig.expect_server_hears_nothing();
    pass_to_server(rig, &call("5", "again"));
    pass_to_server(rig, &cancelled("5"));
    // One that an operator stops.
    pass_to_server(rig, &call("6", "stopped"));
    stop("6");
    rig.server.receive();
    rig.client.receive();
    // And one that nobody ends but the end.
    pass_to_server(rig, &call("8", "last"));
}

/// Follows what a shim tells until its end, on a thread of its own.
fn follow(rig: &mut Rig) -> (mpsc::Receiver<()>, thread::JoinHandle<Vec<Request>>) {
    let shim = shim_of(rig);
    let (ready, begun) = mpsc::channel();
    let follower = thread::spawn(move || {
        let mut known: BTreeMap<String, Request> = BTreeMap::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut events = shim.events(None).await.unwrap();
            while let Some(message) = events.next().await.unwrap() {
                let requests = match message.kind.as_str() {
                    "snapshot" => serde_json::from_str::<Snapshot>(&message.data).unwrap().requests,
                    "changes" => serde_json::from_str::<Changes>(&message.data).unwrap().requests,
                    _ => break,
                };
                known.extend(requests.into_iter().map(|request| (request.key.clone(), request)));
                let _ = ready.send(());
            }
        });
        known.into_values().collect()
    });
    (begun, follower)
}

fn shim_of(rig: &mut Rig) -> Shim {
    // A link on which something passes has its socket.
    rig.expect_client_hears_nothing();
    let mut shims = Directories::at(rig.sockets.clone()).scan().unwrap().shims;
    assert_eq!(shims.len(), 1);
    shims.remove(0)
}

/// Stops the request of the client with this id.
pub(crate) fn stop(rig: &mut Rig) -> impl FnOnce(&str) + use<> {
    let shim = shim_of(rig);
    move |id| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let query = ListingQuery { id: Some(id.to_owned()), ..ListingQuery::default() };
            let key = shim.requests(&query).await.unwrap().requests[0].key.clone();
            let order = CancelOrder { requests: vec![key], reason: Some("by hand".into()), turn_only: false };
            assert!(shim.cancel(&order).await.unwrap().requests[0].accepted);
        });
    }
}

/// What two records must agree about: keys are each source's own, and parents are told by their ids.
fn comparable(requests: &[Request]) -> BTreeMap<(Side, String, u64), Request> {
    let label = |key: &String| requests.iter().find(|request| request.key == *key).map(Request::label);
    let plain = |request: &Request| Request {
        key: String::new(),
        deadline: None,
        parent: request.parent.as_ref().and_then(label),
        opened_by: request.opened_by.as_ref().and_then(label),
        ..request.clone()
    };
    requests.iter().map(|it| ((it.from, it.id.clone(), it.since), plain(it))).collect()
}

#[test]
fn a_recording_tells_of_each_request_what_the_shim_told_while_it_ran() {
    let (mut rig, folder) = recorded(&[]);
    let (begun, follower) = follow(&mut rig);
    begun.recv().unwrap();
    let stop = stop(&mut rig);
    act_mcp(&mut rig, stop);
    rig.server.exit(3);
    rig.shim.expect_exit(3);
    let live = follower.join().unwrap();
    let recording = open(folder.path());
    assert_eq!(recording.remarks().collect::<Vec<_>>(), [""; 0]);
    let (live, recorded) = (comparable(&live), comparable(&requests(&recording)));
    assert_eq!(live.keys().collect::<Vec<_>>(), recorded.keys().collect::<Vec<_>>());
    for (name, request) in live {
        assert_eq!(recorded[&name], request, "{name:?}");
    }
}

#[test]
fn a_recording_tells_what_happened() {
    let (mut rig, folder) = recorded(&[]);
    let stop = stop(&mut rig);
    act_mcp(&mut rig, stop);
    rig.server.exit(3);
    rig.shim.expect_exit(3);
    let recording = open(folder.path());
    let all = requests(&recording);
    assert_eq!(end(&recording), End::ExitCode(3));
    let Some(Event::Snapshot(first)) = recording.events().next() else { panic!("no snapshot") };
    assert_eq!(
        (first.session.client.name.as_deref(), first.session.server.protocol.as_str()),
        (Some("test"), "mcp-2025-11-25")
    );
    assert!(first.session.started > 1_700_000_000_000_000, "{}", first.session.started);

    let fine = find(&all, Side::Client, "1");
    assert_eq!((fine.name.as_deref(), fine.state), (Some("fine"), State::Ended));
    assert_eq!(fine.settled.as_ref().map(|settled| settled.how), Some(SettledHow::Result));
    assert_eq!(fine.progress.as_ref().map(|progress| (progress.count, progress.progress)), Some((2, Some(2.0))));
    assert_eq!(find(&all, Side::Server, "7").parent.as_ref(), Some(&fine.key), "asked back while it ran");
    assert_eq!(
        messages(&recording, fine),
        [
            format!("client {}", call("1", "fine")),
            format!("server {}", progress("\"p-fine\"", 1)),
            format!("server {}", progress("\"p-fine\"", 2)),
            format!("server {}", result("1", r#"{"content":[]}"#)),
        ]
    );

    let stubborn = find(&all, Side::Client, "2");
    let cancel = stubborn.cancel.as_ref().unwrap();
    assert_eq!((cancel.outcome, cancel.reason.as_deref()), (Outcome::AnsweredAfter, Some("enough")));
    assert!(cancel.words.starts_with("answered after"), "{}", cancel.words);
    assert_eq!(stubborn.late.map(|late| (late.answers, late.notices)), Some((1, 1)));
    assert_eq!(messages(&recording, stubborn).len(), 4, "also what was swallowed");

    let failing = find(&all, Side::Client, "0");
    assert_eq!(
        failing.settled.as_ref().map(|settled| (settled.how, settled.code)),
        Some((SettledHow::Error, Some(-32000)))
    );
    assert!(failing.upstream.is_some());
    assert_eq!(messages(&recording, failing).len(), 2, "under whichever id");

    let early = find(&all, Side::Client, "4").cancel.as_ref().unwrap();
    assert_eq!((early.outcome, early.written), (Outcome::NeverSent, None));
    let of_5: Vec<_> = all.iter().filter(|request| request.id == "5").collect();
    assert_eq!(of_5.len(), 2);
    let quick = of_5.iter().find(|request| request.name.as_deref() == Some("quick")).unwrap();
    assert_eq!(quick.cancel, None, "the shim had nothing to cancel");
    let again = of_5.iter().find(|request| request.name.as_deref() == Some("again")).unwrap();
    assert_eq!(again.cancel.as_ref().unwrap().words, "sent; MCP does not confirm");

    let stopped = find(&all, Side::Client, "6");
    assert_eq!(
        stopped.cancel.as_ref().map(|cancel| (&*cancel.cause, cancel.reason.as_deref())),
        Some(("operator", Some("by hand")))
    );
    assert_eq!(stopped.settled.as_ref().map(|settled| settled.how), Some(SettledHow::AnsweredHere));
    assert_eq!(
        find(&all, Side::Client, "8").settled.as_ref().map(|settled| settled.how),
        Some(SettledHow::AnsweredHere)
    );
}

#[test]
fn a_recorded_turn_is_confirmed_by_its_own_result_and_holds_what_was_asked_in_it() {
    let (mut rig, folder) = recorded(&[]);
    greet_acp(&mut rig, "", "");
    let session = r#"{"sessionId":"s"}"#;
    pass_to_server(&mut rig, &request_with("1", "session/prompt", session));
    pass_to_server(&mut rig, &request_with("2", "session/load", r#"{"sessionId":"t"}"#));
    pass_to_client(&mut rig, &notification("session/update", session));
    pass_to_client(&mut rig, &request_with("1", "session/request_permission", session));
    pass_to_server(&mut rig, &notification("session/cancel", session));
    pass_to_server(&mut rig, &result("1", r#"{"outcome":{"outcome":"cancelled"}}"#));
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"cancelled"}"#));
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let recording = open(folder.path());
    let all = requests(&recording);
    let prompt = find(&all, Side::Client, "1");
    let cancel = prompt.cancel.as_ref().unwrap();
    assert_eq!((cancel.outcome, &*cancel.protocol), (Outcome::Confirmed, "ACP"));
    assert!(cancel.words.starts_with("confirmed after"), "{}", cancel.words);
    assert_eq!(prompt.progress.as_ref().map(|progress| progress.count), Some(1));
    assert_eq!(find(&all, Side::Server, "1").parent.as_ref(), Some(&prompt.key));
    assert_eq!(messages(&recording, prompt).len(), 4, "the prompt, its update, its cancel and its answer");
}

/// An item of a turn of Codex has begun, or is over.
pub(crate) fn item(rig: &mut Rig, which: &str, thread: &str, turn: &str, item: &Value) {
    let params = json!({"threadId": thread, "turnId": turn, "item": item});
    pass_to_client(rig, &json!({"method": format!("item/{which}"), "params": params}).to_string());
}

/// A turn of Codex that no request has started.
pub(crate) fn turn(rig: &mut Rig, thread: &str, turn: &str) {
    let turn = json!({"id": turn, "status": "inProgress"});
    pass_to_client(rig, &json!({"method": "turn/started", "params": {"threadId": thread, "turn": turn}}).to_string());
}

/// The parent of each request in a recording, by their labels.
fn parents(all: &[Request]) -> BTreeMap<String, Option<String>> {
    let of = |key: &String| all.iter().find(|one| one.key == *key).map(Request::label);
    all.iter().map(|one| (one.label(), one.parent.as_ref().and_then(of))).collect()
}

/// D58: agents, what they open in turn, terminals that outlive their turn, and what a person is asked meanwhile.
#[test]
fn what_a_recorded_turn_of_codex_has_opened_stands_below_it_as_it_did_while_it_ran() {
    let (mut rig, folder) = recorded(&[]);
    let (begun, follower) = follow(&mut rig);
    begun.recv().unwrap();
    run_codex::greet(&mut rig, r#"{"experimentalApi":true}"#);
    run_codex::begin_turn(&mut rig, 3, "t", "u");
    let spawn = |id: &str, child: &str| json!({"type": "collabAgentToolCall", "id": id, "receiverThreadIds": [child]});
    item(&mut rig, "started", "t", "u", &spawn("i", "c"));
    turn(&mut rig, "c", "agent");
    // Who has opened this one is known later.
    turn(&mut rig, "d", "inner");
    item(&mut rig, "completed", "c", "agent", &spawn("j", "d"));
    let command = json!({"type": "commandExecution", "id": "long", "processId": "71"});
    item(&mut rig, "started", "t", "u", &command);
    let card =
        json!({"method": "item/fileChange/requestApproval", "id": 0, "params": {"threadId": "c", "turnId": "agent"}});
    pass_to_client(&mut rig, &card.to_string());
    run_codex::complete(&mut rig, "t", "u", "completed");
    run_codex::complete(&mut rig, "d", "inner", "completed");
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let (live, all) = (follower.join().unwrap(), requests(&open(folder.path())));
    let found = parents(&all);
    for (part, of) in [("agent", "3"), ("inner", "agent"), ("long", "3"), ("server:0", "agent")] {
        assert_eq!(found[part].as_deref(), Some(of), "{part}: {found:?}");
    }
    assert_eq!(comparable(&all), comparable(&live));
}

/// D55: what a session of ACP v2 has in the background stands below its foreground work.
#[test]
fn background_work_in_a_recording_stands_below_its_prompt() {
    let (mut rig, folder) = recorded(&[]);
    run_acp_two::begin_background(&mut rig);
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let found = parents(&requests(&open(folder.path())));
    assert_eq!(found["built"].as_deref(), Some("3"), "{found:?}");
}

/// A shim that was killed leaves a recording that says how far it is, and not how it ended.
#[test]
fn a_recording_that_breaks_off_has_no_end() {
    let (mut rig, folder) = recorded(&[]);
    let stop = stop(&mut rig);
    act_mcp(&mut rig, stop);
    rig.server.exit(3);
    rig.shim.expect_exit(3);
    let file = folder.path().join("session.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    // Before the server's end, in the middle of a line.
    let cut = text.find(r#""kind":"server_ended""#).unwrap();
    std::fs::write(&file, &text[..cut]).unwrap();
    let recording = open(folder.path());
    assert_eq!(end(&recording), End::Unknown);
    let last = &requests(&recording).into_iter().find(|request| request.id == "8").unwrap();
    assert_eq!((last.state, &last.settled), (State::Running, &None));
    let remarks: Vec<_> = recording.remarks().collect();
    assert_eq!(remarks.len(), 2, "{remarks:?}");
    assert!(remarks[0].contains("breaks off") && remarks[1].contains("incomplete"), "{remarks:?}");
}

#[test]
fn whatever_is_no_recording_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    let path = file.to_str().unwrap();
    let not_one = ("is not a recording", "name a file that `rescind run --record` has written");
    let newer = "is a recording of version 7; this program reads version 1";
    for (text, (why, hint)) in [
        ("", not_one),
        ("shopping list\n", not_one),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#, not_one),
        (r#"{"rescind":"recording","version":7}"#, (newer, "open it with the rescind that wrote it, or a newer one")),
    ] {
        std::fs::write(&file, text).unwrap();
        let (said, code) = shim::run_to_end(&["console", "--no-open", path]);
        assert_eq!((said, code), (format!("error: {path}: {why}\nhint: {hint}\n"), 2));
    }
    let gone = folder.path().join("gone");
    let (said, code) = shim::run_to_end(&["console", "--no-open", gone.to_str().unwrap()]);
    assert_eq!(code, 2);
    assert!(said.contains("No such file"), "{said}");
}

#[test]
fn an_unanswered_request_is_asked_about() {
    // The smallest recording there is: nothing happened.
    let (mut rig, folder) = recorded(&[]);
    rig.client.send(&request("1", "ping"));
    rig.server.expect(&request("1", "ping"));
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let recording = open(folder.path());
    assert_eq!(recording.details("c2").map(|details| details.request.id), None);
    let details = recording.details(&requests(&recording)[0].key).unwrap();
    assert_eq!((details.frames.len(), details.frames[0].length), (1, request("1", "ping").len() as u64));
}
