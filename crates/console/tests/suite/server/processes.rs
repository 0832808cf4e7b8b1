//! What sessions have started and left, and who may end it.

use std::process::Command;

use rescind_ledger::{
    identity::ProcessId,
    mark::{MARK_VARIABLE, Mark},
};
use serde_json::{Value, json};

use super::{
    attacks::check_headers,
    rig::{Answer, Rig},
};
use crate::{
    engine::of_a_dead_shim,
    worker::{ECHO, Worker},
};

const JSON: &str = "Content-Type: application/json";

/// A shell in a session of its own.
pub(super) fn start(mark: Option<Mark>) -> Worker {
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", ECHO, "worker"]);
    if let Some(mark) = mark {
        command.env(MARK_VARIABLE, mark.to_string());
    }
    Worker::start(command)
}

fn order(mark: Mark, processes: &[ProcessId]) -> Vec<u8> {
    json!({ "sessions": [{ "mark": mark, "processes": processes }] }).to_string().into_bytes()
}

pub(super) fn body(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap()
}

fn listed(rig: &Rig, mark: Mark) -> Option<Value> {
    let answer = rig.read(&rig.inside("processes"), &[]);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    check_headers(&answer);
    let all = body(&answer);
    all["sessions"].as_array().unwrap().iter().find(|one| one["mark"] == mark.to_string()).cloned()
}

#[test]
fn what_a_session_has_left_is_listed() {
    let rig = Rig::new();
    let mark = of_a_dead_shim();
    let worker = start(Some(mark));
    let session = listed(&rig, mark).unwrap();
    assert_eq!(session["shim"], json!({ "pid": mark.shim.pid, "alive": false }));
    let process = &session["processes"][0];
    assert_eq!((&process["pid"], &process["start"]), (&json!(worker.id.pid), &json!(worker.id.start)));
    assert_eq!(process["arguments"], json!(["sh", "-c", ECHO, "worker"]));
    assert_eq!(rig.read("/processes", &[]).status, 403);
}

#[test]
fn an_order_to_reap_is_guarded_as_a_cancel_is() {
    let rig = Rig::new();
    let (mark, live) = (of_a_dead_shim(), Mark::next().unwrap());
    let (mut left, mut double, mut running) = (start(Some(mark)), start(None), start(Some(live)));
    let right = order(mark, &[left.id]);
    let path = rig.inside("processes/reap");
    let status = |headers: &[&str], path: &str| rig.ask("POST", path, &rig.with_host(headers), &right).status;
    for kind in ["Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded", "X-Other: 1"] {
        assert_eq!(status(&[kind], &path), 415, "{kind}");
    }
    for foreign in ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        let answer = rig.ask("POST", &path, &rig.with_host(&[JSON, foreign]), &right);
        assert_eq!(answer.status, 403, "{foreign}");
        check_headers(&answer);
    }
    assert_eq!(rig.ask("POST", &path, &["Host: evil.example".into(), JSON.into()], &right).status, 421);
    assert_eq!(status(&[JSON], "/processes/reap"), 403);
    assert_eq!(status(&[JSON], "/nokey/processes/reap"), 403);
    let bearer = format!("Authorization: Bearer {}", rig.key);
    assert_eq!(status(&[JSON, &bearer], "/processes/reap"), 403, "the header opens only the metrics");
    assert_eq!(rig.read(&path, &[]).status, 404);
    assert_eq!(rig.ask("PUT", &path, &rig.with_host(&[JSON]), &right).status, 405);
    assert_eq!(status(&[JSON], &rig.inside("processes")), 405);
    let long = format!(r#"{{"sessions":[],"x":"{}"}}"#, "x".repeat(1 << 20));
    assert!(matches!(rig.post("processes/reap", long.as_bytes()).status, 413 | 0));
    let id = |pid: &str| format!(r#"{{"sessions":[{{"mark":"{mark}","processes":[{pid}]}}]}}"#);
    for wrong in ["", "{}", "[]", r#"{"sessions":[{"mark":"4711","processes":[]}]}"#] {
        assert_eq!(rig.post("processes/reap", wrong.as_bytes()).status, 400, "{wrong}");
    }
    for wrong in ["-1", "4711", r#"{"pid":4711}"#, r#"{"pid":-1,"start":1}"#, r#"{"pid":4294967296,"start":1}"#] {
        assert_eq!(rig.post("processes/reap", id(wrong).as_bytes()).status, 400, "{wrong}");
    }
    // A session that runs, a process of none, this test itself, and a right one together with a wrong one.
    let own = ProcessId::own().unwrap();
    for wrong in [
        order(live, &[running.id]),
        order(live, &[left.id]),
        order(mark, &[running.id]),
        order(mark, &[double.id]),
        order(mark, &[own]),
        order(mark, &[left.id, double.id]),
        order(of_a_dead_shim(), &[left.id]),
    ] {
        let answer = rig.post("processes/reap", &wrong);
        assert_eq!(answer.status, 409, "{answer:?}");
        check_headers(&answer);
        assert_eq!(body(&answer)["hint"], "nothing was ended; look at the list again");
    }
    // An earlier process with this number, and no process at all.
    let earlier = ProcessId { start: left.id.start - 1, ..left.id };
    for nothing in [order(mark, &[earlier]), order(mark, &[]), order(of_a_dead_shim(), &[])] {
        let answer = rig.post("processes/reap", &nothing);
        assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"processes":[],"containers":[]}"#));
    }
    assert!(left.works() && double.works() && running.works());
}

#[test]
fn what_was_seen_is_ended_and_nothing_else() {
    let rig = Rig::new();
    let mark = of_a_dead_shim();
    let (mut left, mut other, mut double) = (start(Some(mark)), start(Some(mark)), start(None));
    assert_eq!(listed(&rig, mark).unwrap()["processes"].as_array().unwrap().len(), 2);
    let answer = rig.post("processes/reap", &order(mark, &[left.id]));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    check_headers(&answer);
    let ProcessId { pid, start } = left.id;
    let expected = format!(
        r#"{{"processes":[{{"pid":{pid},"start":{start},"name":"sh","arguments":["sh","-c",{},"worker"],"ended":true,"how":"ended"}}],"containers":[]}}"#,
        json!(ECHO)
    );
    assert_eq!(answer.body, expected);
    assert!(!left.works());
    assert!(other.works() && double.works());
    // The list is not the one from before.
    let now = listed(&rig, mark).unwrap();
    assert_eq!((now["processes"].as_array().unwrap().len(), &now["processes"][0]["pid"]), (1, &json!(other.id.pid)));
    let answer = rig.post("processes/reap", &order(mark, &[other.id, left.id]));
    assert_eq!((body(&answer)["processes"][0]["pid"].as_u64(), other.works()), (Some(other.id.pid.into()), false));
    assert!(listed(&rig, mark).is_none());
}
