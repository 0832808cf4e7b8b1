//! The next turn of an ACP session waits for the last (D60), and Stop has a bound (D61): through `rescind run`, and what
//! `ps`, `cancel` and `stop` do with both. The test is the agent and the client.

use std::process::Child;

use rescind_testkit::puppet::Rig;
use serde_json::Value;

use crate::{
    operator::{command, say},
    shim::{
        PROGRAM, error_of,
        words::{greet_acp, notification, pass_to_client, pass_to_server, request_with, result},
    },
};

fn prompt(id: u32) -> String {
    request_with(&id.to_string(), "session/prompt", r#"{"sessionId":"s","prompt":[]}"#)
}

fn stopped(id: u32) -> String {
    result(&id.to_string(), r#"{"stopReason":"cancelled"}"#)
}

fn stop_turn() -> String {
    notification("session/cancel", r#"{"sessionId":"s"}"#)
}

fn update(of: &str) -> String {
    let update = format!(r#"{{"sessionUpdate":"agent_message_chunk","content":"{of}"}}"#);
    notification("session/update", &format!(r#"{{"sessionId":"s","update":{update}}}"#))
}

/// An agent with the turn of prompt 1 in flight.
fn prompted(flags: &[&str]) -> Rig {
    let mut rig = Rig::builder(PROGRAM).flags(flags).start();
    greet_acp(&mut rig, "", "");
    pass_to_server(&mut rig, &prompt(1));
    rig
}

/// The requests in flight, or not known to have ended, as `ps --json` lists them.
fn listed(rig: &Rig) -> Vec<Value> {
    let document: Value = serde_json::from_str(&say(&rig.sockets, &["ps", "--json"]).stdout).unwrap();
    document["sessions"][0]["requests"].as_array().unwrap().clone()
}

fn start(rig: &Rig, arguments: &[&str]) -> Child {
    command(&rig.sockets, arguments).spawn().unwrap()
}

fn name(rig: &Rig, id: u32) -> String {
    format!("{}/{id}", rig.shim.id)
}

#[test]
fn late_updates_of_a_stopped_turn_are_never_taken_for_those_of_the_next() {
    let mut rig = prompted(&["--grace", "session/prompt=20ms"]);
    pass_to_server(&mut rig, &stop_turn());
    rig.client.expect(&stopped(1));
    rig.client.send(&prompt(2));
    rig.server.send(&update("the first turn"));
    rig.expect_client_hears_nothing();
    rig.expect_server_hears_nothing();
    rig.server.send(&stopped(1));
    rig.server.expect(&prompt(2));
    pass_to_client(&mut rig, &update("the second turn"));
    pass_to_client(&mut rig, &result("2", r#"{"stopReason":"end_turn"}"#));
}

#[test]
fn a_prompt_that_waits_is_shown_as_queued_and_leaves_with_the_answer_of_the_turn_before() {
    let mut rig = prompted(&[]);
    pass_to_server(&mut rig, &stop_turn());
    rig.client.send(&prompt(2));
    rig.expect_server_hears_nothing();
    let requests = listed(&rig);
    let states: Vec<_> = requests.iter().map(|one| (one["state"].as_str().unwrap(), &one["waitsForTurn"])).collect();
    assert_eq!(states, [("cancelling", &Value::Null), ("queued", &Value::Bool(true))]);
    let said = say(&rig.sockets, &["ps"]);
    assert!(said.stdout.contains("queued      waits for the turn before"), "{}", said.stdout);
    pass_to_client(&mut rig, &stopped(1));
    rig.server.expect(&prompt(2));
    assert_eq!(listed(&rig)[0]["waitsForTurn"], Value::Null);
}

#[test]
fn no_hold_passes_a_prompt_at_once() {
    let mut rig = prompted(&["--no-hold"]);
    pass_to_server(&mut rig, &stop_turn());
    pass_to_server(&mut rig, &prompt(2));
}

#[test]
fn a_second_stop_of_the_client_takes_back_the_prompt_that_waits() {
    let mut rig = prompted(&[]);
    pass_to_server(&mut rig, &stop_turn());
    rig.client.send(&prompt(2));
    pass_to_server(&mut rig, &stop_turn());
    rig.client.expect(&stopped(2));
    pass_to_client(&mut rig, &stopped(1));
    rig.expect_server_hears_nothing();
}

#[test]
fn an_agent_that_dies_while_a_prompt_waits_leaves_no_client_waiting() {
    let mut rig = prompted(&[]);
    pass_to_server(&mut rig, &stop_turn());
    rig.client.send(&prompt(2));
    rig.expect_server_hears_nothing();
    rig.server.exit(3);
    rig.client.expect(&stopped(1));
    let error = error_of(&rig.client.receive(), "2");
    assert!(error["message"].as_str().unwrap().contains("exited with code 3"), "{error}");
}

#[test]
fn a_client_that_leaves_has_its_waiting_prompt_passed_on_before_the_agent_hears_of_the_end() {
    let mut rig = prompted(&[]);
    pass_to_server(&mut rig, &stop_turn());
    rig.client.send(&prompt(2));
    rig.client.close_output();
    rig.server.expect(&prompt(2));
    rig.server.expect_end();
}

#[test]
fn a_thousand_prompts_that_wait_leave_in_order() {
    let mut rig = prompted(&[]);
    pass_to_server(&mut rig, &stop_turn());
    let prompts: Vec<_> = (2..1002).map(prompt).collect();
    rig.client.send_together(&prompts.iter().map(|prompt| &**prompt).collect::<Vec<_>>());
    rig.expect_server_hears_nothing();
    rig.server.send(&stopped(1));
    for prompt in &prompts {
        rig.server.expect(prompt);
    }
}

#[test]
fn a_second_cancel_releases_the_client_and_its_receipt_says_so() {
    let mut rig = prompted(&[]);
    let name = name(&rig, 1);
    let said = say(&rig.sockets, &["cancel", &name, "--no-wait"]);
    assert_eq!(said.code, 0, "{said:?}");
    let hint = format!("`rescind cancel {name}` again answers the client now");
    assert!(said.stderr.contains(&hint), "{said:?}");
    rig.server.expect(&stop_turn());
    rig.expect_client_hears_nothing();
    let following = start(&rig, &["cancel", &name, "--wait", "1h"]);
    let answer: Value = serde_json::from_str(&rig.client.receive()).unwrap();
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&1.into(), &"cancelled".into()), "{answer}");
    let requests = listed(&rig);
    assert_eq!(
        (&requests[0]["state"], &requests[0]["cancel"]["words"]),
        (&"released".into(), &"released; not confirmed".into())
    );
    // Nobody waits for its updates, and its own answer comes too late.
    rig.server.send(&update("the turn"));
    rig.server.send(&stopped(1));
    let output = following.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.lines().last().unwrap().starts_with(&format!("{name}: confirmed after ")), "{told}");
    rig.expect_client_hears_nothing();
    rig.expect_server_hears_nothing();
    assert!(listed(&rig).is_empty());
}

#[test]
fn a_client_that_was_let_go_stays_so_in_words_when_its_turn_is_stuck() {
    let mut rig = prompted(&["--grace", "session/prompt=20ms"]);
    pass_to_server(&mut rig, &stop_turn());
    rig.client.expect(&stopped(1));
    let one = &listed(&rig)[0];
    assert_eq!(one["cancel"]["words"], "released; not confirmed", "{one}");
}

#[test]
fn the_first_cancel_after_the_clients_own_stop_says_what_the_second_does() {
    let mut rig = prompted(&[]);
    pass_to_server(&mut rig, &stop_turn());
    let name = name(&rig, 1);
    let said = say(&rig.sockets, &["cancel", &name]);
    assert!(said.code == 1 && said.stdout.contains("already cancelled"), "{said:?}");
    assert!(said.stderr.contains(" again answers the client now"), "{said:?}");
    rig.expect_client_hears_nothing();
    assert_eq!(say(&rig.sockets, &["cancel", &name, "--no-wait"]).code, 0);
    rig.client.expect(&stopped(1));
}

#[test]
fn a_second_stop_releases_the_client_that_the_first_left_waiting() {
    let mut rig = prompted(&[]);
    let mut first = start(&rig, &["stop", "--within", "1h"]);
    rig.server.expect(&stop_turn());
    first.kill().unwrap();
    first.wait().unwrap();
    rig.expect_client_hears_nothing();
    let second = start(&rig, &["stop", "--within", "1h"]);
    assert!(rig.client.receive().contains(r#""stopReason":"cancelled""#));
    rig.server.send(&stopped(1));
    let output = second.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && told.ends_with("1 stopped\n"), "{told}");
    rig.expect_server_hears_nothing();
}

#[test]
fn a_grace_that_would_make_no_difference_is_refused() {
    let said = say(tempfile::tempdir().unwrap().path(), &["run", "--grace", "session/prompt=31s", "--", "true"]);
    assert_eq!(said.code, 125, "{said:?}");
    assert!(said.stderr.contains("is longer than the 30s that hold without it"), "{said:?}");
}
