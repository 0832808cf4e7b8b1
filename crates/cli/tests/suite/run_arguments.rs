//! What a request in flight asks for is shown to whoever comes because it hangs, and to nobody else.

use std::fs;

use rescind_feed::{Details, Listing};
use rescind_testkit::puppet::Rig;
use serde_json::Value;

use crate::{
    operator::{say, words},
    shim::{
        PROGRAM,
        admin::Admin,
        words::{greet_mcp, pass_to_client, pass_to_server, request_with, result},
    },
};

const SECRET: &str = "hunter2";

fn rig(flags: &[&str]) -> Rig {
    let mut rig = Rig::builder(PROGRAM).flags(flags.iter().copied()).start();
    greet_mcp(&mut rig, "2025-11-25");
    rig
}

fn call(id: usize, text: &str) -> String {
    request_with(&id.to_string(), "tools/call", &format!(r#"{{"name":"index","arguments":{{"text":"{text}"}}}}"#))
}

#[test]
fn whoever_comes_because_a_call_hangs_sees_what_it_asks_for() {
    let mut rig = rig(&[]);
    pass_to_server(&mut rig, &call(1, SECRET));
    // Many came and went since, and nobody looked at any.
    for id in 2..500 {
        pass_to_server(&mut rig, &call(id, &"x".repeat(10_000)));
        pass_to_client(&mut rig, &result(&id.to_string(), "{}"));
    }
    let said = say(&rig.sockets, &["ps", "--args"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let lines: Vec<_> = said.stdout.lines().collect();
    assert!(words(lines[1])[0].ends_with("/1"), "{}", said.stdout);
    assert_eq!(lines[2..], [format!("    {{\"text\":\"{SECRET}\"}}")]);
    let said = say(&rig.sockets, &["ps", "--args", "--json"]);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    let kept = &document["sessions"][0]["requests"][0]["arguments"];
    let params: Value = serde_json::from_str(kept["text"].as_str().unwrap()).unwrap();
    assert_eq!(params["arguments"]["text"], SECRET);

    // Unless asked, it tells nothing of them; nor once the call is over.
    for arguments in [&["ps"][..], &["ps", "--json"], &["ps", "--sessions"], &["ps", "--recent", "--json"]] {
        assert!(!say(&rig.sockets, arguments).stdout.contains(SECRET), "{arguments:?}");
    }
    let admin = Admin::of(&rig);
    let key = admin.requests("id=1").remove(0).key;
    let details: Details = admin.get(&format!("/v1/requests/{key}"));
    assert!(details.arguments.unwrap().text.contains(SECRET));
    pass_to_client(&mut rig, &result("1", "{}"));
    let details: Details = admin.get(&format!("/v1/requests/{key}"));
    assert_eq!(details.arguments, None);
    let said = say(&rig.sockets, &["ps", "--args", "--recent"]);
    assert!(!said.stdout.contains(SECRET), "{}", said.stdout);
}

#[test]
fn no_event_no_counter_and_no_log_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut rig = rig(&["--log", "debug", "--log-file", log.to_str().unwrap()]);
    let admin = Admin::of(&rig);
    let mut subscriber = admin.subscribe(None);
    pass_to_server(&mut rig, &call(1, SECRET));
    subscriber.until(|known| known.of("1").is_some());
    let key = admin.requests("id=1").remove(0).key;
    assert!(serde_json::to_string(&admin.get::<Details>(&format!("/v1/requests/{key}"))).unwrap().contains(SECRET));
    for path in ["/v1/session", "/v1/counters", "/v1/requests?state=all", "/v1/requests?arguments=no"] {
        let text = admin.get::<Value>(path).to_string();
        assert!(!text.contains(SECRET), "{path}");
    }
    let events = admin.subscribe(None);
    let known = events.of("1").map(|request| serde_json::to_string(request).unwrap());
    assert!(!known.is_some_and(|text| text.contains(SECRET)));
    pass_to_client(&mut rig, &result("1", "{}"));
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let text = fs::read_to_string(&log).unwrap();
    assert!(!text.is_empty() && !text.contains(SECRET), "{text}");
}

#[test]
fn of_a_thousand_requests_of_16_kib_a_session_keeps_1_mib_and_says_so() {
    let mut rig = rig(&[]);
    for id in 1..=1000 {
        pass_to_server(&mut rig, &call(id, &"x".repeat(16 << 10)));
    }
    let listing: Listing = Admin::of(&rig).get("/v1/requests?arguments=yes");
    assert_eq!((listing.requests.len(), listing.arguments.len()), (1000, 1000));
    let held: usize = listing.arguments.values().map(|kept| kept.text.len()).sum();
    assert!((900 << 10..=1 << 20).contains(&held), "{held}");
    let cut = listing.arguments.values().filter(|kept| kept.cut).count();
    let left_out = listing.arguments.values().filter(|kept| kept.left_out).count();
    assert_eq!((cut, left_out), (60, 940));
    let said = say(&rig.sockets, &["ps", "--args"]);
    let notes = |what: &str| said.stdout.lines().filter(|line| line.contains(what)).count();
    assert_eq!(notes("(not kept: its session had no room for more arguments when it came)"), 940);
    assert_eq!(notes(" … (the first "), 60);
}

#[test]
fn of_an_argument_of_100_mib_the_beginning_is_shown_and_how_long_it_is() {
    let mut rig = rig(&["--max-message", "128MiB"]);
    let long = call(1, &"x".repeat(100 << 20));
    pass_to_server(&mut rig, &long);
    let said = say(&rig.sockets, &["ps", "--args"]);
    let line = said.stdout.lines().nth(2).unwrap();
    let length = (100 << 20) + r#"{"name":"index","arguments":{"text":""}}"#.len();
    assert!(line.starts_with("    {\"name\":\"index\",\"arguments\":{\"text\":\"xxx"), "{}", &line[..80]);
    assert!(line.ends_with(&format!(" … (the first 16384 of {length} bytes)")), "{}", &line[line.len() - 80..]);
}
