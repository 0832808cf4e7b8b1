//! What work has left that outlives its request: agents that a turn has opened, tasks, and prompts that wait (D54, D56, D59,
//! D60). With real processes: an agent reports that its work is over, and leaves the command.
#![cfg(target_os = "linux")]

use rescind_ledger::identity::ProcessId;
use serde_json::{Value, json};

use crate::{
    left_behind::eventually,
    operator::Said,
    shim::words::{notification, request_with},
    turn_processes::{World, expect_end},
};

/// An agent, or a tool server. What a prompt has it do are words, each of which waits for `go`: `opens-NAME` announces an
/// agent, waits, and starts its command; `does-NAME` starts one of the turn itself. Then the turn ends, unless it `stays`,
/// or is `slow-NAME`: then it ends some time after its cancel, and starts a command before that. The notification `_work`
/// has it start a command. A call becomes a task.
const AGENT: &str = r#"
    exec 8<>"$1/go"
    says() { echo "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":$2}"; }
    tells() {
        echo "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"$1\",\"update\":{\"sessionUpdate\":\"subagent_update\",\"sessionId\":\"$2\",$3}}}"
    }
    waits() { read -r go <&8; }
    works() { setsid sh -c "$WORKER" worker "$folder" "$1" >/dev/null 8<&- & waits; }
    folder=$1
    while read -r line; do
        id=${line#*'"id":'}; id=${id%%,*}
        session=${line#*'"sessionId":"'}; session=${session%%'"'*}
        text=${line#*'"text":"'}; text=${text%%'"'*}
        case $line in
            *'"initialize"'*'clientInfo'*)
                says "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}' ;;
            *'"initialize"'*) says "$id" '{"protocolVersion":1}' ;;
            *'"session/prompt"'*)
                for word in $(echo "$text" | tr + ' '); do
                    case $word in
                        opens-*)
                            eval "parent_${word#*-}=$session"
                            tells "$session" "${word#*-}" '"capabilities":{"cancel":{}},"state":{"state":"running"}'
                            waits
                            works "${word#*-}" ;;
                        does-*) works "${word#*-}" ;;
                        slow-*) eval "slow_$session=${word#*-}" ;;
                    esac
                done
                case $text in
                    *stays*|*slow-*) eval "turn_$session=$id" ;;
                    *) says "$id" '{"stopReason":"end_turn"}' ;;
                esac ;;
            *'"session/cancel"'*)
                eval "parent=\$parent_$session slow=\$slow_$session turn=\$turn_$session"
                if [ "$parent" ]; then
                    tells "$parent" "$session" '"state":{"state":"idle","stopReason":"cancelled"}'
                else
                    [ "$slow" ] && waits && works "$slow"
                    says "$turn" '{"stopReason":"cancelled"}'
                fi ;;
            *'"_work"'*) works "$text" ;;
            *'"tools/call"'*) works "$text"; says "$id" '{"task":{"taskId":"t","status":"working"}}' ;;
            *'"tasks/cancel"'*) says "$id" '{"taskId":"t","status":"cancelled"}' ;;
        esac
    done
"#;

/// A client of agents that shows what they open.
fn agent(flags: &[&str]) -> World {
    World::with(AGENT, flags, r#"{"protocolVersion":1,"clientCapabilities":{"subagents":{}}}"#)
}

impl World {
    fn ask(&mut self, id: &str, session: &str, text: &str) {
        let params = format!(r#"{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{text}"}}]}}"#);
        self.send(&request_with(id, "session/prompt", &params));
    }

    /// The command that the agent starts now.
    fn started(&self, name: &str) -> ProcessId {
        let process = self.process(name);
        self.go();
        process
    }

    /// The command of the agent that is announced now, and starts it once the client has been told.
    fn opened(&mut self, name: &str) -> ProcessId {
        let told = self.receive();
        assert_eq!(told["params"]["update"]["sessionId"], name, "{told}");
        self.go();
        self.started(name)
    }

    /// A turn opens two agents, each with a command, and has ended.
    fn two_agents(&mut self) -> [ProcessId; 2] {
        self.ask("1", "s", "opens-a+opens-b");
        let commands = ["a", "b"].map(|name| self.opened(name));
        assert_eq!(self.receive()["result"]["stopReason"], "end_turn");
        commands
    }

    fn stop(&self) -> Said {
        self.say(&["stop"])
    }

    /// What `ps --recent` lists of this method.
    fn listed_as(&self, method: &str) -> Vec<Value> {
        let listed: Value = serde_json::from_str(&self.say(&["ps", "--recent", "--json"]).stdout).unwrap();
        let requests = listed["sessions"][0]["requests"].as_array().unwrap();
        requests.iter().filter(|request| request["method"] == method).cloned().collect()
    }
}

#[test]
fn a_stop_says_what_agents_leave_that_outlived_their_turn() {
    let mut world = agent(&[]);
    let [a, b] = world.two_agents();
    let said = world.stop();
    assert_eq!(said.code, 1, "not all of it is over: {said:?}");
    let summary = "\n2 stopped; 2 processes that began during cancelled requests still run\n";
    assert!(said.stdout.ends_with(summary), "{said:?}");
    let (name, a, b) = (world.name(), a.pid, b.pid);
    let line = format!(
        "note: {name}/1: what it has opened was cancelled; 2 processes that began during it still run: {a} sh, {b} sh; \
         `rescind reap {a} {b}` ends them\n"
    );
    assert_eq!(said.stderr, line);
    let table = world.say(&["ps", "--processes"]).stdout;
    let heading = table.lines().find(|line| line.contains(&format!("during {name}/1 session/prompt"))).unwrap();
    assert!(heading.ends_with("ended; what it has opened was cancelled; still runs"), "{table}");
    // What was stopped before is not counted again.
    assert_eq!(world.stop().code, 0);
}

#[test]
fn a_child_names_the_turn_that_opened_it_after_its_end() {
    let mut world = agent(&[]);
    world.two_agents();
    let turn = world.listed_as("session/prompt")[0]["key"].clone();
    let opened = |world: &World| {
        let listed: Value = serde_json::from_str(&world.say(&["ps", "--json"]).stdout).unwrap();
        let requests = listed["sessions"][0]["requests"].as_array().unwrap().clone();
        requests.iter().map(|child| (child["openedBy"].clone(), child["parent"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(opened(&world), [(turn.clone(), Value::Null), (turn.clone(), Value::Null)]);
    let said = world.say(&["stop", "--json"]);
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    let left = &told["sessions"][0]["requests"][0]["processes"];
    assert_eq!((&left["request"], left["running"].as_array().unwrap().len()), (&turn, 2), "{told:#}");
}

#[test]
fn on_stop_ends_what_agents_leave_that_outlived_their_turn_and_nothing_from_before_they_began() {
    let mut world = agent(&["--on-stop", "end-processes"]);
    world.ask("1", "s", "does-server+opens-a");
    let server = world.started("server");
    let command = world.opened("a");
    world.receive();
    let said = world.stop();
    assert!(said.code == 0 && said.stdout.ends_with("\n1 stopped\n"), "{said:?}");
    let (name, server_pid) = (world.name(), server.pid);
    let lines = format!(
        "note: {name}/1: of what began during it, 1 process was ended: {} sh (ended)\n\
         note: {name}/1: {server_pid} sh: not ended: it may be of other work\n\
         note: {name}/1: 1 process that began during it or other work still runs: {server_pid} sh\n",
        command.pid
    );
    assert_eq!(said.stderr, lines);
    assert!(!command.is_alive() && server.is_alive());
}

#[test]
fn on_stop_leaves_what_may_be_of_an_agent_that_goes_on_and_says_so() {
    let mut world = agent(&["--on-stop", "end-processes"]);
    world.ask("1", "s", "does-own+opens-a+opens-b");
    world.started("own");
    let [a, b] = ["a", "b"].map(|name| world.opened(name));
    world.receive();
    let name = world.name();
    let said = world.say(&["cancel", &format!("{name}/child:a")]);
    // The other one had not begun when the first command did.
    assert!(said.stderr.contains(&format!("1 process was ended: {} sh (ended)", a.pid)), "{said:?}");
    let spared = format!("note: {name}/1: {} sh: not ended: it may be of other work\n", b.pid);
    assert!(said.stderr.contains(&spared), "{said:?}");
    assert!(!a.is_alive() && b.is_alive());
    let said = world.say(&["cancel", &format!("{name}/child:b")]);
    assert!(said.stderr.contains(&format!("{} sh (ended)", b.pid)), "{said:?}");
    assert!(!b.is_alive());
}

#[test]
fn of_an_agent_that_is_cancelled_during_its_turn_nothing_is_ended_that_may_be_of_the_turn() {
    let mut world = agent(&["--on-stop", "end-processes"]);
    world.ask("1", "s", "opens-a+stays");
    let command = world.opened("a");
    let name = world.name();
    let said = world.say(&["cancel", &format!("{name}/child:a")]);
    let shared =
        format!("note: {name}/1: 1 process that began during it or other work still runs: {} sh\n", command.pid);
    assert!(said.stderr.ends_with(&shared) && command.is_alive(), "{said:?}");
    assert!(world.receive()["params"]["update"]["state"]["stopReason"] == "cancelled");
    // Now all of it is.
    world.cancel("s");
    assert_eq!(world.receive()["result"]["stopReason"], "cancelled");
    expect_end(command);
}

#[test]
fn on_stop_spares_the_agents_that_a_stopped_turn_leaves_at_work() {
    let mut world = agent(&["--on-stop", "end-processes"]);
    world.ask("1", "s", "does-own+opens-a+stays");
    let own = world.started("own");
    let command = world.opened("a");
    world.cancel("s");
    assert_eq!(world.receive()["result"]["stopReason"], "cancelled");
    expect_end(own);
    let how = eventually("the report", || world.told(command));
    assert_eq!((how.as_str(), command.is_alive()), ("not ended: it may be of other work", true));
}

#[test]
fn what_an_agent_starts_after_its_turn_is_of_that_turn_while_no_other_is_in_flight() {
    let mut world = agent(&[]);
    let first = world.two_agents();
    world.send(&notification("_work", r#"{"sessionId":"a","text":"later"}"#));
    let later = world.started("later");
    assert_eq!(world.began(later), ("during".into(), vec!["1".into()]));
    let said = world.stop();
    assert_eq!(said.code, 1);
    assert!(said.stdout.contains("2 stopped; 3 processes"), "{said:?}");
    assert!(first.iter().chain([&later]).all(|one| said.stderr.contains(&one.pid.to_string())), "{said:?}");
}

#[test]
fn a_prompt_that_waits_has_started_nothing() {
    let mut world = agent(&["--on-stop", "end-processes"]);
    world.ask("1", "s", "slow-late");
    world.cancel("s");
    world.ask("2", "s", "does-second+stays");
    eventually("the second to wait", || {
        let listed: Value = serde_json::from_str(&world.say(&["ps", "--json"]).stdout).unwrap();
        let requests = listed["sessions"][0]["requests"].as_array()?.clone();
        requests.iter().any(|request| request["waitsForTurn"] == true).then_some(())
    });
    world.go();
    let late = world.process("late");
    assert_eq!(world.began(late), ("during".into(), vec!["1".into()]));
    world.go();
    assert_eq!(world.receive()["id"], 1);
    let second = world.started("second");
    // The system counts in steps of 10 ms: the first turn may have ended in the step in which this began.
    let began = world.began(second);
    assert!(began.1.contains(&"2".to_owned()) && matches!(&*began.0, "during" | "one_of"), "{began:?}");
    expect_end(late);
    assert!(second.is_alive());
}

/// A task, its call and the wait for its result are one piece of work.
#[test]
fn on_stop_ends_what_a_task_leaves_though_it_began_during_its_call() {
    let hello = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;
    let mut world = World::with(AGENT, &["--on-stop", "end-processes"], hello);
    world.send(&notification("notifications/initialized", "{}"));
    world.send(&request_with("1", "tools/call", r#"{"name":"tool","arguments":{"text":"command"},"task":{}}"#));
    let command = world.started("command");
    assert_eq!(world.receive()["result"]["task"]["taskId"], "t");
    world.send(&request_with("2", "tasks/result", r#"{"taskId":"t"}"#));
    assert_eq!(world.began(command), ("during".into(), vec!["\"t\"".into()]));
    world.say(&["cancel", &format!("{}/task:t", world.name())]);
    expect_end(command);
    eventually("the report", || world.told(command).filter(|how| how == "ended"));
    let task = world.listed_as("task").remove(0);
    let call = world.listed_as("tools/call").remove(0);
    assert_eq!((&task["openedBy"], &task["atWork"]["status"]), (&call["key"], &json!("cancelled")));
}

#[test]
fn what_was_left_and_has_ended_since_is_not_told_as_left() {
    let mut world = agent(&["--on-stop", "end-processes"]);
    world.ask("1", "s", "does-own+opens-a+opens-b");
    world.started("own");
    let [_, b] = ["a", "b"].map(|name| world.opened(name));
    let name = world.name();
    let spared = format!("{} sh: not ended", b.pid);
    assert!(world.say(&["cancel", &format!("{name}/child:a")]).stderr.contains(&spared));
    assert_eq!(world.say(&["reap", "--yes", &b.pid.to_string()]).code, 0);
    let said = world.say(&["cancel", &format!("{name}/child:b")]);
    assert!(!said.stderr.contains(&spared), "{said:?}");
}
