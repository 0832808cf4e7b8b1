//! Children of ACP sessions through `rescind run`, and what `ps`, `cancel` and `stop` do with them (D54). The test is the
//! agent; the work of each child is a process of its own, and whether that lives is what is asserted.

use std::collections::HashMap;

use rescind_testkit::puppet::Rig;
use serde_json::Value;

use crate::{
    operator::say,
    shim::{
        PROGRAM,
        at_work::{Running, Work, has},
        words::{greet_acp, notification, pass_to_client, pass_to_server, request_with, result},
    },
};

const GRANT: &str = r#""capabilities":{"cancel":{}}"#;
const RUNNING: &str = r#""state":{"state":"running"}"#;
const UNKNOWN: &str = r#""state":{"state":"unknown"}"#;
const CANCELLED: &str = r#""state":{"state":"idle","stopReason":"cancelled"}"#;

/// An agent with a prompt of session "s" in flight, id 1, and its children.
struct Agent {
    rig: Rig,
    children: HashMap<&'static str, (&'static str, Work)>,
}

impl Agent {
    fn prompted() -> Self {
        let mut rig = Rig::start(PROGRAM);
        greet_acp(&mut rig, r#","clientCapabilities":{"subagents":{}}"#, "");
        pass_to_server(&mut rig, &request_with("1", "session/prompt", r#"{"sessionId":"s","prompt":[]}"#));
        Self { rig, children: HashMap::new() }
    }

    fn announce(&mut self, parent: &'static str, child: &'static str, members: &[&str]) {
        self.children.insert(child, (parent, Work::begin()));
        self.say(parent, child, members);
    }

    /// The client is told, too.
    fn say(&mut self, parent: &str, child: &str, members: &[&str]) {
        let members: String = members.iter().map(|member| format!(",{member}")).collect();
        let update = format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}"{members}}}"#);
        let params = format!(r#"{{"sessionId":"{parent}","update":{update}}}"#);
        pass_to_client(&mut self.rig, &notification("session/update", &params));
    }

    /// The session of the next `session/cancel` that reaches the agent.
    fn cancelled(&mut self) -> String {
        let heard: Value = serde_json::from_str(&self.rig.server.receive()).unwrap();
        assert_eq!(heard["method"], "session/cancel", "{heard}");
        heard["params"]["sessionId"].as_str().unwrap().to_owned()
    }

    /// The agent stops a child's work, and says so.
    fn obey(&mut self, child: &str) {
        let (parent, work) = self.children.get_mut(child).unwrap();
        work.end();
        let parent = *parent;
        self.say(parent, child, &[CANCELLED]);
    }

    fn end_turn(&mut self) {
        pass_to_client(&mut self.rig, &result("1", r#"{"stopReason":"cancelled"}"#));
    }

    fn works(&mut self, child: &str) -> bool {
        self.children.get_mut(child).unwrap().1.goes_on()
    }

    fn name(&self, id: &str) -> String {
        format!("{}/{id}", self.rig.shim.id)
    }
}

#[test]
fn ps_shows_children_below_their_parent_with_their_state_and_whether_they_can_be_cancelled() {
    let mut agent = Agent::prompted();
    agent.announce("s", "sess_a", &[r#""title":"Fix the tests""#, GRANT, RUNNING]);
    agent.announce("sess_a", "sess_b", &[RUNNING]);
    agent.announce("s", "sess_c", &[GRANT, UNKNOWN]);
    agent.announce("other", "odd id", &[GRANT]);
    agent.announce("s", "sess_idle", &[CANCELLED]);
    let said = say(&agent.rig.sockets, &["ps"]);
    let id = &agent.rig.shim.id;
    let rows: Vec<Vec<String>> = said
        .stdout
        .lines()
        .skip(1)
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect())
        .collect();
    let shown: Vec<_> = rows.iter().map(|row| (&*row[0], &*row[3], &*row[5], row.get(6).map(|cell| &**cell))).collect();
    let name = |label: &str| format!("{id}/{label}");
    let names = [name("1"), name("child:sess_a"), name("child:sess_b"), name("child:sess_c"), name("child:\"odd id\"")];
    assert_eq!(
        shown,
        [
            (&*names[0], "session/prompt", "running", Some("3 so far")),
            (&*names[1], "└ subagent:Fix the tests", "running", Some("1 so far")),
            (&*names[2], "└ subagent", "running", Some("cannot be cancelled")),
            (&*names[3], "└ subagent", "unknown", None),
            (&*names[4], "subagent", "unconfirmed", None),
        ],
        "{}",
        said.stdout
    );
    let indents: Vec<_> = said.stdout.lines().skip(1).map(|line| line.find("subagent").unwrap_or(0)).collect();
    assert!(indents[2] > indents[1] && indents[3] == indents[1], "{}", said.stdout);

    let document: Value = serde_json::from_str(&say(&agent.rig.sockets, &["ps", "--json"]).stdout).unwrap();
    let requests = document["sessions"][0]["requests"].as_array().unwrap();
    let found = |label: &str| requests.iter().find(|one| one["label"] == name(label)).unwrap();
    assert_eq!(found("child:sess_a")["parent"], found("1")["key"]);
    assert_eq!(found("child:sess_b")["parent"], found("child:sess_a")["key"]);
    let child = &found("child:sess_b")["child"];
    assert_eq!((&child["parentSession"], &child["state"]), (&"\"sess_a\"".into(), &"running".into()));
    assert_eq!((&child["canCancel"], &found("child:sess_c")["child"]["canCancel"]), (&false.into(), &true.into()));
    let recent = say(&agent.rig.sockets, &["ps", "--recent", "--method", "subagent"]);
    assert_eq!(recent.stdout.lines().count(), 1 + 5, "{}", recent.stdout);
}

#[test]
fn cancel_of_a_prompt_stops_the_work_of_its_children_that_grant_it_and_names_the_others() {
    let mut agent = Agent::prompted();
    agent.announce("s", "a", &[GRANT, RUNNING]);
    agent.announce("a", "b", &[GRANT, RUNNING]);
    agent.announce("s", "fixed", &[RUNNING]);
    agent.announce("t", "other", &[GRANT, RUNNING]);
    let sockets = agent.rig.sockets.clone();
    let running = Running::start(&sockets, &["cancel", &agent.name("1"), "--wait", "1h"]);
    assert_eq!([agent.cancelled(), agent.cancelled(), agent.cancelled()], ["s", "a", "b"]);
    for child in ["b", "a"] {
        agent.obey(child);
    }
    agent.end_turn();
    let said = running.end();
    assert_eq!(said.code, 1, "one could not be cancelled: {said:?}");
    for child in ["a", "b"] {
        assert!(has(&said, &format!("{}: confirmed after ", agent.name(&format!("child:{child}")))), "{said:?}");
        assert!(!agent.works(child));
    }
    let fixed = format!("{}: not sent: its agent does not allow", agent.name("child:fixed"));
    assert!(has(&said, &fixed) && !said.stdout.contains("other"), "{said:?}");
    assert!(said.stdout.contains("; 1 subagent still works"), "{said:?}");
    assert!(agent.works("fixed") && agent.works("other"));
    agent.rig.expect_server_hears_nothing();
}

#[test]
fn cancel_of_the_turn_only_leaves_its_children_at_work_and_says_so() {
    let mut agent = Agent::prompted();
    agent.announce("s", "a", &[GRANT, RUNNING]);
    agent.announce("s", "unseen", &[GRANT, UNKNOWN]);
    let sockets = agent.rig.sockets.clone();
    let running = Running::start(&sockets, &["cancel", "--all", "--turn-only", "--wait", "1h"]);
    assert_eq!(agent.cancelled(), "s");
    agent.end_turn();
    let said = running.end();
    assert_eq!(said.code, 0, "{said:?}");
    let last = said.stdout.lines().last().unwrap();
    assert!(
        last.contains(": confirmed after ") && last.ends_with("; 1 subagent still works; 1 subagent cannot be seen"),
        "{last}"
    );
    assert!(agent.works("a"));
    agent.rig.expect_server_hears_nothing();
    // It can be cancelled by its own name.
    let running = Running::start(&sockets, &["cancel", &agent.name("child:a"), "--wait", "1h"]);
    assert_eq!(agent.cancelled(), "a");
    agent.obey("a");
    let said = running.end();
    // Whether it was seen to be sent before it was confirmed is a matter of speed.
    assert!(said.code == 0 && has(&said, &format!("{}: confirmed after ", agent.name("child:a"))), "{said:?}");
    assert!(!agent.works("a"));
    let again = say(&sockets, &["cancel", &agent.name("child:a")]);
    assert!(again.code == 1 && again.stderr.contains("no longer in flight"), "{again:?}");
}

#[test]
fn stop_waits_for_every_child_and_says_stopped_only_of_those_that_did() {
    let mut agent = Agent::prompted();
    agent.announce("s", "a", &[GRANT, RUNNING]);
    agent.announce("a", "b", &[GRANT, RUNNING]);
    agent.announce("gone", "background", &[GRANT, RUNNING]);
    agent.announce("s", "fixed", &[RUNNING]);
    agent.announce("s", "waited for", &[RUNNING]);
    agent.announce("s", "unseen", &[UNKNOWN]);
    let sockets = agent.rig.sockets.clone();
    let running = Running::start(&sockets, &["stop", "--within", "3s"]);
    let mut cancelled: Vec<_> = (0..4).map(|_| agent.cancelled()).collect();
    cancelled.sort_unstable();
    assert_eq!(cancelled, ["a", "b", "background", "s"]);
    // The turn ends first: that says nothing of its children.
    agent.obey("waited for");
    agent.end_turn();
    for child in ["b", "a", "background"] {
        agent.obey(child);
    }
    let said = running.end();
    assert_eq!(said.code, 1, "{said:?}");
    for child in ["a", "b", "background", "\"waited for\""] {
        assert!(
            has(&said, &format!("{}: stopped: confirmed after ", agent.name(&format!("child:{child}")))),
            "{said:?}"
        );
    }
    assert!(has(&said, &format!("{}: stopped: confirmed after ", agent.name("1"))), "{said:?}");
    assert!(has(&said, &format!("{}: not delivered: not sent: its agent does not allow", agent.name("child:fixed"))));
    assert!(has(&said, &format!("{}: unknown: not sent", agent.name("child:unseen"))), "{said:?}");
    assert!(said.stdout.ends_with("5 stopped, 1 not delivered, 1 unknown\n"), "{said:?}");
    for child in ["a", "b", "background", "waited for"] {
        assert!(!agent.works(child), "{child}");
    }
    assert!(agent.works("fixed") && agent.works("unseen"));
    agent.rig.expect_server_hears_nothing();
    // What resists ends with its server.
    let said = say(&sockets, &["stop", "--within", "3s", "--kill"]);
    assert!(has(&said, &format!("{}: ended: ended with its server", agent.name("child:fixed"))), "{said:?}");
    assert!(said.code == 0 && said.stdout.ends_with("2 ended with its server\n"), "{said:?}");
}

#[test]
fn the_clients_own_stop_is_passed_on_once_and_its_receipt_tells_of_children() {
    let mut agent = Agent::prompted();
    agent.announce("s", "a", &[GRANT, RUNNING]);
    agent.announce("s", "b", &[GRANT, RUNNING]);
    pass_to_server(&mut agent.rig, &notification("session/cancel", r#"{"sessionId":"s"}"#));
    agent.end_turn();
    agent.rig.expect_server_hears_nothing();
    let recent = |agent: &Agent| {
        let said = say(&agent.rig.sockets, &["ps", "--recent", "--method", "session/prompt"]);
        said.stdout.lines().last().unwrap().to_owned()
    };
    assert!(recent(&agent).ends_with("; 2 subagents still work"), "{}", recent(&agent));
    assert!(agent.works("a") && agent.works("b"));
    agent.obey("a");
    assert!(recent(&agent).ends_with("; 1 subagent still works"), "{}", recent(&agent));
    agent.obey("b");
    assert!(!recent(&agent).contains("subagent"), "{}", recent(&agent));
    let said = say(&agent.rig.sockets, &["stop"]);
    assert_eq!((said.code, &*said.stderr), (0, "nothing is in flight\n"));
}

#[test]
fn a_watcher_sees_a_child_begin_end_and_go_with_its_parent() {
    let mut agent = Agent::prompted();
    let sockets = agent.rig.sockets.clone();
    let mut watching = Running::start(&sockets, &["ps", "--watch"]).0;
    let mut out = std::io::BufReader::new(watching.stdout.take().unwrap());
    let mut next = |wanted: &str| loop {
        let mut line = String::new();
        assert!(std::io::BufRead::read_line(&mut out, &mut line).unwrap() > 0, "{wanted} did not come");
        if line.contains(wanted) {
            return;
        }
    };
    next("session/prompt  running");
    agent.announce("s", "a", &[GRANT, RUNNING]);
    next("child:a  subagent  running");
    agent.say("s", "a", &[UNKNOWN]);
    next("child:a  subagent  unknown");
    pass_to_server(&mut agent.rig, &request_with("2", "session/close", r#"{"sessionId":"s"}"#));
    pass_to_client(&mut agent.rig, &result("2", "{}"));
    next("child:a  subagent  closed");
    watching.kill().unwrap();
    watching.wait().unwrap();
}
