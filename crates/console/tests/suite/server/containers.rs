//! What sessions have in containers, and who may end it.

use std::thread;

use rescind_ledger::mark::Mark;
use rescind_testkit::container_engine::Mode;
use serde_json::{Value, json};

use super::{
    attacks::check_headers,
    processes::{body, start},
    rig::{Answer, Rig},
};
use crate::engine::{Engine, of_a_dead_shim};

const RUN: [&str; 2] = ["run", "some/image"];

/// The page's list.
fn listed(rig: &Rig) -> Value {
    let answer = rig.read(&rig.inside("processes/containers"), &[]);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    check_headers(&answer);
    body(&answer)
}

fn ids(list: &Value) -> Vec<&str> {
    list["containers"].as_array().unwrap().iter().map(|one| one["container"].as_str().unwrap()).collect()
}

fn order(rig: &Rig, containers: &[(Mark, &str)]) -> Answer {
    let containers: Vec<Value> =
        containers.iter().map(|(mark, container)| json!({ "mark": mark, "container": container })).collect();
    let order = json!({ "sessions": [], "containers": containers });
    rig.post("processes/reap", order.to_string().as_bytes())
}

/// How each of them ended.
fn ended(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    check_headers(answer);
    body(answer)["containers"].take()
}

#[test]
fn what_live_and_ended_sessions_have_in_containers_is_listed() {
    let rig = Rig::new();
    let engine = Engine::new(rig.sockets());
    let (live, dead) = (Mark::next().unwrap(), of_a_dead_shim());
    engine.record(live, "50", &RUN);
    engine.record(dead, "60", &RUN);
    let (_one, one) = engine.run(Some(live), "one");
    let (_two, two) = engine.run(Some(dead), "two");
    let _unmarked = engine.run(None, "other");
    let entry = |session: &str, mark: Mark, container: &str, left: bool, name: &str| {
        json!({
            "session": session, "mark": mark, "engine": engine.program(), "container": container, "left": left,
            "name": name, "image": "some/image", "state": "running",
        })
    };
    let mut list = listed(&rig);
    list["containers"].as_array_mut().unwrap().sort_by_key(|one| one["session"].to_string());
    let expected = [entry("50", live, &one, false, "one"), entry("60", dead, &two, true, "two")];
    assert_eq!(list, json!({ "containers": expected, "silent": [] }));
    assert_eq!(rig.read("/processes/containers", &[]).status, 403);
}

/// The list of processes is there while the engine is still asked.
#[test]
fn a_silent_engine_is_named_and_delays_no_list_of_processes() {
    let rig = Rig::new();
    let engine = Engine::new(rig.sockets());
    let mark = of_a_dead_shim();
    engine.record(mark, "60", &RUN);
    let (_worker, _) = engine.run(Some(mark), "one");
    engine.set(Some(Mode::Silent));
    thread::scope(|scope| {
        scope.spawn(|| {
            let list = listed(&rig);
            let said = format!("{} ps did not answer within 5 s", engine.program());
            assert_eq!(list, json!({ "containers": [], "silent": [said] }));
            // It is not asked again at once.
            engine.set(None);
            assert_eq!(listed(&rig), list);
        });
        let question = engine.expect_question();
        // Other tests have processes, too, whose shims are gone.
        let processes = body(&rig.read(&rig.inside("processes"), &[]));
        assert!(processes["sessions"].as_array().unwrap().iter().all(|one| one["mark"] != json!(mark)), "{processes}");
        assert!(question.is_alive());
    });
}

#[test]
fn an_order_ends_no_container_but_what_the_session_has_left() {
    let rig = Rig::new();
    let engine = Engine::new(rig.sockets());
    let (live, dead, other) = (Mark::next().unwrap(), of_a_dead_shim(), of_a_dead_shim());
    engine.record(live, "50", &RUN);
    engine.record(dead, "60", &RUN);
    engine.record(other, "70", &["exec", "left", "sh"]);
    let (mut running, running_id) = engine.run(Some(live), "running");
    let (mut left, left_id) = engine.run(Some(dead), "left");
    let (mut unmarked, unmarked_id) = engine.run(None, "unmarked");
    let mut process = start(Some(dead));
    let path = rig.inside("processes/reap");
    let right = json!({ "sessions": [], "containers": [{ "mark": dead, "container": left_id }] }).to_string();
    for foreign in ["Origin: http://evil.example", "Sec-Fetch-Site: cross-site"] {
        let headers = rig.with_host(&["Content-Type: application/json", foreign]);
        assert_eq!(rig.ask("POST", &path, &headers, right.as_bytes()).status, 403, "{foreign}");
    }
    assert_eq!(rig.ask("POST", &path, &rig.with_host(&["Content-Type: text/plain"]), right.as_bytes()).status, 415);
    for wrong in [r#"[{"mark":"4711","container":"x"}]"#, r#"[{"container":"x"}]"#, "[4711]"] {
        let order = format!(r#"{{"sessions":[],"containers":{wrong}}}"#);
        assert_eq!(rig.post("processes/reap", order.as_bytes()).status, 400, "{wrong}");
    }
    let foreign = |name: &str| format!("container {name} is not one that this session has left");
    let runs = format!("the session of container {} is still running", &running_id[..12]);
    for (wrong, why) in [
        (&[(live, running_id.as_str())][..], runs.clone()),
        (&[(dead, &left_id), (live, &running_id)], runs.clone()),
        (&[(dead, &running_id)], foreign(&running_id[..12])),
        (&[(other, &left_id)], foreign(&left_id[..12])),
        (&[(dead, &left_id), (dead, &unmarked_id)], foreign(&unmarked_id[..12])),
        // No names, no beginnings of an id, no options.
        (&[(dead, "left")], foreign("left")),
        (&[(dead, &left_id[..12])], foreign(&left_id[..12])),
        (&[(dead, "--help")], foreign("--help")),
        (&[(dead, "left"), (other, "left")], foreign("left")),
    ] {
        let answer = order(&rig, wrong);
        assert_eq!((answer.status, &body(&answer)["error"]), (409, &json!(why)), "{answer:?}");
        assert_eq!(body(&answer)["hint"], "nothing was ended; look at the list again");
        check_headers(&answer);
    }
    // Nor is a process ended together with one that must not be, and the other way round.
    for (mark, container) in [(live, &running_id), (dead, &left_id)] {
        let id = if mark == live { process.id } else { running.id };
        let order = json!({
            "sessions": [{ "mark": dead, "processes": [id] }], "containers": [{ "mark": mark, "container": container }],
        });
        let answer = rig.post("processes/reap", order.to_string().as_bytes());
        assert_eq!(answer.status, 409, "{answer:?}");
    }
    assert!(running.works() && left.works() && unmarked.works() && process.works());
}

#[test]
fn a_container_that_was_seen_ends_and_no_other() {
    let rig = Rig::new();
    let engine = Engine::new(rig.sockets());
    let mark = of_a_dead_shim();
    engine.record(mark, "60", &RUN);
    let ((mut seen, id), (mut other, other_id)) = (engine.run(Some(mark), "seen"), engine.run(Some(mark), "other"));
    assert_eq!(ids(&listed(&rig)).len(), 2);
    let receipt = |id: &str| json!([{ "mark": mark, "container": id, "ended": true, "how": "ended" }]);
    assert_eq!(ended(&order(&rig, &[(mark, &id)])), receipt(&id));
    seen.expect_end();
    assert!(other.works());
    // The list is not the one from before.
    assert_eq!(ids(&listed(&rig)), [other_id.as_str()]);
    // What has ended meanwhile is left out.
    assert_eq!(ended(&order(&rig, &[(mark, &id), (mark, &other_id)])), receipt(&other_id));
    other.expect_end();
    assert_eq!(ids(&listed(&rig)), Vec::<&str>::new());
}

#[test]
fn what_exec_has_left_ends_and_its_container_does_not() {
    let rig = Rig::new();
    let engine = Engine::new(rig.sockets());
    let (mut house, _) = engine.run(None, "house");
    let mark = of_a_dead_shim();
    engine.record(mark, "60", &["exec", "-i", "house", "sh"]);
    let mut left = engine.exec(mark, "house");
    assert_eq!(ids(&listed(&rig)), ["house"]);
    let receipt = json!([{ "mark": mark, "container": "house", "ended": true, "how": "ended" }]);
    assert_eq!(ended(&order(&rig, &[(mark, "house")])), receipt);
    left.expect_end();
    assert!(house.works());
    assert_eq!(listed(&rig), json!({ "containers": [], "silent": [] }));
}

/// Whose a container is cannot be known, so it is not said to have ended.
#[test]
fn an_order_is_refused_while_the_engine_does_not_answer() {
    let rig = Rig::new();
    let engine = Engine::new(rig.sockets());
    let mark = of_a_dead_shim();
    engine.record(mark, "60", &RUN);
    let (mut left, id) = engine.run(Some(mark), "left");
    engine.set(Some(Mode::Unreachable));
    let answer = order(&rig, &[(mark, &id)]);
    assert_eq!(answer.status, 409);
    assert!(answer.body.contains("Cannot connect to the Docker daemon"), "{answer:?}");
    assert!(left.works());
}
