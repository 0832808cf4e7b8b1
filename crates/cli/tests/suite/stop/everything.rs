//! One stop of every kind of work at once, and a second one: each line is true of the work itself, what would not stop ends
//! with its server, and no healthy server is ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
};

use rescind_testkit::puppet::{Puppet, Rig};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    questions::{expect_alive, heard},
    servers::{Dialect, KINDS, Session, Temper, Told, stop},
};
use crate::{
    run_acp_two::{self, insert_prompt, own_message, update},
    run_codex::{begin_turn, complete, greet, own_request},
    run_tasks::{Era, asked},
    shim::{
        PROGRAM,
        words::{greet_acp, notification, pass_to_client, pass_to_server, request_with, result},
    },
};

/// A kind of session, and what is told of it. **A new kind of work gets a row.**
struct Row {
    what: &'static str,
    /// Its server has all of its work in hand.
    open: fn(&mut Stage),
    /// What the server does about the first stop.
    serve: fn(&mut Stage),
    /// What the first stop says, by the name of each request.
    told: &'static [(&'static str, &'static str)],
    /// Whether its server is one that the second stop ends.
    is_ended: bool,
}

const ROWS: &[Row] = &[
    Row {
        what: "an agent whose children may be cancelled",
        open: |stage| {
            stage.prompt();
            stage.announce("s", "a", &[GRANT, RUNNING]);
            stage.announce("a", "b", &[GRANT, RUNNING]);
            stage.announce("gone", "background", &[GRANT, RUNNING]);
        },
        serve: |stage| {
            for _ in 0..4 {
                match &*stage.cancelled() {
                    "s" => stage.end_turn(),
                    child => stage.obey(child),
                }
            }
        },
        told: &[("1", "stopped"), ("child:a", "stopped"), ("child:b", "stopped"), ("child:background", "stopped")],
        is_ended: false,
    },
    Row {
        what: "an agent with a child that may not be cancelled and one that cannot be seen",
        open: |stage| {
            stage.prompt();
            stage.announce("s", "fixed", &[RUNNING]);
            stage.announce("s", "unseen", &[r#""state":{"state":"unknown"}"#]);
        },
        serve: |stage| {
            assert_eq!(stage.cancelled(), "s");
            stage.end_turn();
        },
        told: &[("1", "stopped"), ("child:fixed", "not delivered"), ("child:unseen", "unknown")],
        is_ended: true,
    },
    Row {
        what: "an agent of ACP v2 with background items that may be cancelled",
        open: |stage| stage.begin_items(&[("terminal", "t", true), ("tool_call", "c", true)]),
        serve: |stage| (0..3).for_each(|_| stage.obey_item()),
        told: &[("3", "stopped"), ("t", "stopped"), ("c", "stopped")],
        is_ended: false,
    },
    Row {
        what: "an agent of ACP v2 with background items, one without a grant and one that accepts its cancel and goes on",
        open: |stage| {
            stage.begin_items(&[("terminal", "fixed", false), ("tool_call", DEAF, true), ("terminal", "t", true)])
        },
        serve: |stage| (0..3).for_each(|_| stage.obey_item()),
        told: &[("3", "stopped"), ("fixed", "not delivered"), (DEAF, "no answer"), ("t", "stopped")],
        is_ended: true,
    },
    Row {
        what: "Codex with a child agent, a terminal and a card",
        open: |stage| {
            stage.begin_codex(r#"{"experimentalApi":true}"#);
            let child =
                json!({"type": "collabAgentToolCall", "id": "i", "tool": "spawnAgent", "receiverThreadIds": ["c"]});
            stage.begin_item(&child);
            stage.tell("turn/started", &json!({"threadId": "c", "turn": {"id": "a", "status": "inProgress"}}));
            stage.begin("a");
            stage.begin_terminal();
            let card = json!({"method": "item/fileChange/requestApproval", "id": 0, "params": {"threadId": "t", "turnId": "u"}});
            pass_to_client(&mut stage.rig, &card.to_string());
        },
        serve: |stage| {
            let mut turns = Vec::new();
            for _ in 0..2 {
                let params = stage.confirm("turn/interrupt", &json!({}));
                turns.push((params["threadId"].clone(), params["turnId"].clone()));
            }
            stage.tell("serverRequest/resolved", &json!({"threadId": "t", "requestId": 0}));
            for (thread, turn) in turns {
                stage.end(if thread == "t" { "3" } else { "a" });
                complete(&mut stage.rig, thread.as_str().unwrap(), turn.as_str().unwrap(), "interrupted");
            }
            stage.end("long");
            stage.confirm("thread/backgroundTerminals/terminate", &json!({"terminated": true}));
        },
        told: &[("3", "stopped"), ("a", "stopped"), ("server:0", "withdrawn")],
        is_ended: false,
    },
    Row {
        what: "Codex whose terminal its client may not end",
        open: |stage| {
            stage.begin_codex("null");
            stage.begin_terminal();
        },
        serve: |stage| {
            stage.confirm("turn/interrupt", &json!({}));
            stage.end("3");
            complete(&mut stage.rig, "t", "u", "interrupted");
        },
        told: &[("3", "stopped"), ("long", "not delivered")],
        is_ended: true,
    },
    Row {
        what: "a server with an open card, whose client says nothing",
        open: |stage| stage.call(Dialect::Mcp),
        serve: |stage| {
            heard(&mut stage.rig.server, Dialect::Mcp, false);
            stage.end("1");
            stage.rig.server.send(&Dialect::Mcp.over());
            heard(&mut stage.rig.client, Dialect::Mcp, true);
        },
        told: &[("1", "finished"), ("server:7", "with its client")],
        is_ended: false,
    },
    Row {
        what: "an agent with an open card, whose client takes it back",
        open: |stage| stage.call(Dialect::Acp),
        serve: |stage| {
            heard(&mut stage.rig.server, Dialect::Acp, false);
            stage.end("1");
            stage.rig.server.send(&Dialect::Acp.over());
            heard(&mut stage.rig.client, Dialect::Acp, true);
            stage.rig.client.send(&result("7", r#"{"outcome":{"outcome":"cancelled"}}"#));
        },
        told: &[("1", "stopped"), ("server:7", "withdrawn")],
        is_ended: false,
    },
    Row {
        what: "a server with tasks of 2025-11-25, and a call that gets its handle after its cancel",
        open: |stage| {
            stage.begin_tasks(Era::November, &["one", "two"]);
            Era::November.call(&mut stage.rig, "3");
            stage.begin("3");
        },
        serve: |stage| {
            while !stage.rig.client.receive().contains("-31003") {}
            let work = stage.work.remove("3").unwrap();
            stage.work.insert("task:late".to_owned(), work);
            stage.rig.server.send(&Era::November.handle("3", "late"));
            (0..3).for_each(|_| stage.obey_task(Era::November));
        },
        told: &[("task:one", "stopped"), ("task:two", "stopped"), ("3", "stopped")],
        is_ended: false,
    },
    Row {
        what: "a server with tasks of 2025-11-25 that goes on with one",
        open: |stage| stage.begin_tasks(Era::November, &["one", DEAF]),
        serve: |stage| (0..2).for_each(|_| stage.obey_task(Era::November)),
        told: &[("task:one", "stopped"), ("task:deaf", "still working")],
        is_ended: true,
    },
    Row {
        what: "a server with tasks of 2026-07-28",
        open: |stage| stage.begin_tasks(Era::Extension, &["one", "two"]),
        serve: |stage| (0..4).for_each(|_| stage.obey_task(Era::Extension)),
        told: &[("task:one", "stopped"), ("task:two", "stopped")],
        is_ended: false,
    },
    Row {
        what: "a server with tasks of 2026-07-28 that goes on with one",
        open: |stage| stage.begin_tasks(Era::Extension, &["one", DEAF]),
        serve: |stage| (0..4).for_each(|_| stage.obey_task(Era::Extension)),
        told: &[("task:one", "stopped"), ("task:deaf", "still working")],
        is_ended: true,
    },
    Row {
        what: "a silent server that ignores everything, SIGTERM included",
        open: |stage| {
            stage.call_alone(Dialect::Mcp);
            stage.rig.server.puppet.survive(Signal::TERM.as_raw());
            stage.work.values_mut().for_each(|work| work.survive(Signal::TERM.as_raw()));
        },
        serve: |_| {},
        told: &[("1", "unknown")],
        is_ended: true,
    },
];

const GRANT: &str = r#""capabilities":{"cancel":{}}"#;
const RUNNING: &str = r#""state":{"state":"running"}"#;
const CANCELLED: &str = r#""state":{"state":"idle","stopReason":"cancelled"}"#;

/// What goes on although its cancel is accepted.
const DEAF: &str = "deaf";

/// A session of a row. Each piece of its work is a process of its server's group.
struct Stage {
    rig: Rig,
    /// The work that goes on, by the name of its request.
    work: BTreeMap<String, Puppet>,
    /// The session that each child was announced in.
    parents: BTreeMap<String, String>,
    /// What works in the background in ACP v2, as it is listed.
    background: BTreeMap<String, Value>,
}

impl Stage {
    fn begin(&mut self, name: &str) {
        let work = self.rig.grandchild();
        self.work.insert(name.to_owned(), work);
    }

    /// The server ends a piece of work: only then it says so.
    fn end(&mut self, name: &str) {
        let mut work = self.work.remove(name).unwrap_or_else(|| panic!("{name} has ended before"));
        work.exit(0);
        work.expect_death();
    }

    fn call_alone(&mut self, dialect: Dialect) {
        dialect.begin(&mut self.rig);
        self.begin("1");
    }

    /// A call, and a card that belongs to it.
    fn call(&mut self, dialect: Dialect) {
        self.call_alone(dialect);
        pass_to_client(&mut self.rig, &dialect.card());
    }

    fn prompt(&mut self) {
        greet_acp(&mut self.rig, r#","clientCapabilities":{"subagents":{}}"#, "");
        pass_to_server(&mut self.rig, &request_with("1", "session/prompt", r#"{"sessionId":"s","prompt":[]}"#));
        self.begin("1");
    }

    fn announce(&mut self, parent: &str, child: &str, members: &[&str]) {
        self.begin(&format!("child:{child}"));
        self.parents.insert(child.to_owned(), parent.to_owned());
        self.say(child, members);
    }

    fn say(&mut self, child: &str, members: &[&str]) {
        let members: String = members.iter().map(|member| format!(",{member}")).collect();
        let update = format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}"{members}}}"#);
        let params = format!(r#"{{"sessionId":"{}","update":{update}}}"#, self.parents[child]);
        pass_to_client(&mut self.rig, &notification("session/update", &params));
    }

    /// The ACP session of the next cancel that reaches the agent.
    fn cancelled(&mut self) -> String {
        let heard: Value = serde_json::from_str(&self.rig.server.receive()).unwrap();
        assert_eq!(heard["method"], "session/cancel", "{heard}");
        heard["params"]["sessionId"].as_str().unwrap().to_owned()
    }

    fn obey(&mut self, child: &str) {
        self.end(&format!("child:{child}"));
        self.say(child, &[CANCELLED]);
    }

    fn end_turn(&mut self) {
        self.end("1");
        pass_to_client(&mut self.rig, &result("1", r#"{"stopReason":"cancelled"}"#));
    }

    /// A foreground in ACP v2, and items of the background: the type and the id of each, and whether it may be cancelled.
    fn begin_items(&mut self, items: &[(&str, &str, bool)]) {
        run_acp_two::greet(&mut self.rig);
        insert_prompt(&mut self.rig);
        self.begin("3");
        for (kind, name, is_granted) in items {
            self.begin(name);
            let item = if *kind == "terminal" { "terminalId" } else { "toolCallId" };
            self.background.insert((*name).to_owned(), json!({"type": kind, item: name}));
            if *is_granted {
                update(&mut self.rig, &format!("{kind}_update"), &json!({item: name, "capabilities": {"cancel": {}}}));
            }
        }
        self.report(json!({"state": "running"}));
    }

    /// The agent reports its state, with all that works in the background.
    fn report(&mut self, mut state: Value) {
        state["background"] = self.background.values().cloned().collect();
        run_acp_two::state(&mut self.rig, &state);
    }

    /// Accepts the next cancel in ACP v2, and ends its work unless that is deaf.
    fn obey_item(&mut self) {
        let (method, id, params) = own_message(&mut self.rig);
        let (item, kind, mut over) = match &*method {
            "session/cancel" => {
                self.end("3");
                return self.report(json!({"state": "idle", "stopReason": "cancelled"}));
            }
            "terminal/cancel" => ("terminalId", "terminal_update", json!({"exitStatus": {"signal": "TERM"}})),
            "tool_call/cancel" => ("toolCallId", "tool_call_update", json!({"status": "cancelled"})),
            other => panic!("{other}"),
        };
        let name = params[item].as_str().unwrap();
        self.rig.server.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string());
        if name != DEAF {
            self.end(name);
            self.background.remove(name);
            over[item] = name.into();
            update(&mut self.rig, kind, &over);
        }
    }

    /// Calls that have become tasks.
    fn begin_tasks(&mut self, era: Era, tasks: &[&str]) {
        era.greet(&mut self.rig);
        for (id, task) in (1..).zip(tasks) {
            let id = i32::to_string(&id);
            era.call(&mut self.rig, &id);
            self.begin(&format!("task:{task}"));
            pass_to_client(&mut self.rig, &era.handle(&id, task));
        }
    }

    /// Answers what the shim asks about a task; ends the work that it cancels, unless that is deaf.
    fn obey_task(&mut self, era: Era) {
        let (method, id, task) = asked(&mut self.rig);
        let (name, is_cancel) = (format!("task:{task}"), method == "tasks/cancel");
        if is_cancel && task != DEAF {
            self.end(&name);
        }
        let status = if self.work.contains_key(&name) { "working" } else { "cancelled" };
        let answer = if is_cancel && era == Era::Extension {
            json!({"resultType": "complete"})
        } else {
            json!({"resultType": "complete", "taskId": task, "status": status})
        };
        self.rig.server.send(&json!({"jsonrpc": "2.0", "id": id, "result": answer}).to_string());
    }

    fn begin_codex(&mut self, capabilities: &str) {
        greet(&mut self.rig, capabilities);
        begin_turn(&mut self.rig, 3, "t", "u");
        self.begin("3");
    }

    fn begin_item(&mut self, item: &Value) {
        self.tell("item/started", &json!({"threadId": "t", "turnId": "u", "item": item}));
    }

    fn begin_terminal(&mut self) {
        let item = json!({"type": "commandExecution", "id": "long", "command": "sleep 1000", "processId": "71"});
        self.begin_item(&item);
        self.begin("long");
    }

    /// A notification of the Codex server.
    fn tell(&mut self, method: &str, params: &Value) {
        pass_to_client(&mut self.rig, &json!({"method": method, "params": params}).to_string());
    }

    /// Answers the shim's own next request to the Codex server; its params.
    fn confirm(&mut self, expected: &str, answer: &Value) -> Value {
        let (method, id, params) = own_request(&mut self.rig);
        assert_eq!(method, expected, "{params}");
        self.rig.server.send(&json!({"id": id, "result": answer}).to_string());
        params
    }
}

/// What was told of the requests of a session, by their names.
fn told_of(told: &Told, session: &str) -> BTreeMap<String, String> {
    let lines = told.stdout.lines().filter_map(|line| line.strip_prefix(session)?.strip_prefix('/')?.split_once(": "));
    lines.map(|(name, rest)| (name.to_owned(), rest.split(": ").next().unwrap().to_owned())).collect()
}

fn is_over(state: &str) -> bool {
    ["stopped", "finished", "ended"].contains(&state)
}

#[test]
fn a_stop_is_true_of_every_kind_of_work_and_a_second_one_leaves_nothing_and_ends_nothing_healthy() {
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let sessions: Vec<_> = KINDS.iter().map(|(dialect, temper, _)| Session::open(&path, *dialect, *temper)).collect();
    let stages: Vec<_> = ROWS
        .iter()
        .map(|row| {
            let rig = Rig::builder(PROGRAM).sockets(&path).start();
            let mut stage = Stage { rig, work: BTreeMap::new(), parents: BTreeMap::new(), background: BTreeMap::new() };
            (row.open)(&mut stage);
            stage
        })
        .collect();
    let (asleep, awake): (Vec<_>, Vec<_>) = sessions
        .into_iter()
        .zip(KINDS)
        .partition(|(one, _)| matches!(one.temper, Temper::Suspended | Temper::ShimSuspended));
    let asleep: Vec<_> = asleep.into_iter().map(|(one, kind)| (one.serve(), kind)).collect();
    let awake: Vec<_> = awake.into_iter().map(|(one, kind)| thread::spawn(move || (one.serve(), kind))).collect();
    let serving = ROWS.iter().zip(stages).map(|(row, mut stage)| {
        thread::spawn(move || {
            (row.serve)(&mut stage);
            (row, stage)
        })
    });
    let serving: Vec<_> = serving.collect();
    let first = stop(&path, &["--within", "4s"]);
    let mut stages: Vec<_> = serving.into_iter().map(|one| one.join().unwrap()).collect();
    let mut sessions: Vec<_> = awake.into_iter().map(|one| one.join().unwrap()).chain(asleep).collect();

    for (row, stage) in &mut stages {
        let expected: BTreeMap<String, String> =
            row.told.iter().map(|(name, state)| ((*name).into(), (*state).into())).collect();
        let mut told = told_of(&first, &stage.rig.shim.id.to_string());
        // A terminal that outlives its turn by a moment is seen in that moment or is not.
        told.retain(|name, state| expected.contains_key(name) || !is_over(state) || stage.work.contains_key(name));
        assert_eq!(told, expected, "{}: {}{}", row.what, first.stdout, first.stderr);
        // What is over has ended, and nothing else has.
        let over: BTreeSet<_> = row.told.iter().filter(|(_, state)| is_over(state)).map(|(name, _)| *name).collect();
        for (name, work) in &mut stage.work {
            assert!(!over.contains(&**name), "{}: {name} goes on", row.what);
            work.survive(Signal::USR1.as_raw());
        }
        let goes_on = |state| ["not delivered", "no answer", "still working", "unknown"].contains(&state);
        let going_on = row.told.iter().filter(|(_, state)| goes_on(*state));
        assert_eq!(going_on.count(), stage.work.len(), "{}", row.what);
    }
    for (session, (.., expected)) in &sessions {
        let what = format!("{:?} {:?}: {}{}", session.dialect, session.temper, first.stdout, first.stderr);
        let told = first.states.get(&session.name()).map(|states| &*states[0]);
        assert_eq!(told, Some(*expected).filter(|expected| !expected.is_empty()), "{what}");
    }
    assert_eq!(first.code, 2, "one did not answer: {}", first.stderr);
    for (session, _) in sessions.iter().filter(|(one, _)| one.temper == Temper::ShimSuspended) {
        session.rig.shim.kill(Signal::CONT);
    }

    let second = stop(&path, &["--within", "2s", "--kill=unknown"]);
    assert_eq!(second.code, 0, "{}{}", second.stdout, second.stderr);
    for (row, stage) in &mut stages {
        if row.is_ended {
            stage.rig.server.puppet.expect_death();
            stage.work.values_mut().for_each(Puppet::expect_death);
        } else {
            expect_alive(&mut stage.rig);
        }
    }
    for (session, (.., state)) in &mut sessions {
        match (session.temper, *state) {
            (Temper::Exits, _) | (_, "unknown" | "still working" | "no answer" | "") => {
                session.rig.server.puppet.expect_death();
            }
            _ => expect_alive(&mut session.rig),
        }
    }
    let third = stop(&path, &[]);
    assert_eq!((third.code, &*third.stdout, &*third.stderr), (0, "", "nothing is in flight\n"));
}
