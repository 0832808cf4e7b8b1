//! MCP tasks through `rescind run`, and what `ps`, `cancel` and `stop` do with them (D56). The test is the server; the work
//! of each task is a process of its own, and whether that lives is what is asserted.

use std::collections::HashMap;

use rescind_testkit::puppet::Rig;
use serde_json::{Value, json};

use crate::{
    operator::say,
    shim::{
        PROGRAM,
        at_work::{Running, Work, has, own_message},
        words::{pass_to_client, pass_to_server, request_with, result},
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    November,
    Extension,
}

impl Era {
    /// A handshake, where the era has one. The server lets tasks be cancelled.
    pub(crate) fn greet(self, rig: &mut Rig) {
        if self == Self::November {
            let info = r#"{"name":"test","version":"1"}"#;
            let params = format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{info}}}"#);
            let tasks = r#"{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}"#;
            let answer = format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{tasks},"serverInfo":{info}}}"#);
            pass_to_server(rig, &request_with("\"hello\"", "initialize", &params));
            pass_to_client(rig, &result("\"hello\"", &answer));
        }
    }

    /// A call that may become a task.
    pub(crate) fn call(self, rig: &mut Rig, id: &str) {
        let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let params = match self {
            Self::November => json!({"name": "slow", "task": {}}),
            Self::Extension => json!({"name": "slow", "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": extension,
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            }}),
        };
        pass_to_server(rig, &request_with(id, "tools/call", &params.to_string()));
    }

    /// The answer that makes a task of a call.
    pub(crate) fn handle(self, id: &str, task: &str) -> String {
        let made = match self {
            Self::November => json!({"task": {"taskId": task, "status": "working"}}),
            Self::Extension => json!({"resultType": "task", "taskId": task, "status": "working"}),
        };
        result(id, &made.to_string())
    }
}

/// What the shim asks the server next about a task: the method, the id and the task.
pub(crate) fn asked(rig: &mut Rig) -> (String, Value, String) {
    let (method, id, params) = own_message(rig);
    (method, id, params["taskId"].as_str().unwrap().to_owned())
}

/// A server with tasks.
struct Server {
    rig: Rig,
    era: Era,
    tasks: HashMap<String, Work>,
}

impl Server {
    fn new(era: Era) -> Self {
        let mut rig = Rig::start(PROGRAM);
        era.greet(&mut rig);
        Self { rig, era, tasks: HashMap::new() }
    }

    /// The client's call, which becomes a task; its work begins.
    fn call(&mut self, id: &str, task: &str) {
        self.era.call(&mut self.rig, id);
        self.tasks.insert(task.to_owned(), Work::begin());
    }

    fn task(&mut self, id: &str, task: &str) {
        self.call(id, task);
        let handle = self.era.handle(id, task);
        pass_to_client(&mut self.rig, &handle);
    }

    fn answer(&mut self, id: &Value, answer: &Value) {
        self.rig.server.send(&json!({"jsonrpc": "2.0", "id": id, "result": answer}).to_string());
    }

    /// The server ends the work as it is asked, and says so.
    fn obey(&mut self) {
        let (method, id, task) = asked(&mut self.rig);
        assert_eq!(method, "tasks/cancel");
        self.tasks.get_mut(&task).unwrap().end();
        let cancelled = json!({"resultType": "complete", "taskId": task, "status": "cancelled"});
        if self.era == Era::November {
            return self.answer(&id, &cancelled);
        }
        self.answer(&id, &json!({"resultType": "complete"}));
        let (method, id, _) = asked(&mut self.rig);
        assert_eq!(method, "tasks/get");
        self.answer(&id, &cancelled);
    }

    fn works(&mut self, task: &str) -> bool {
        self.tasks.get_mut(task).unwrap().goes_on()
    }

    fn name(&self, label: &str) -> String {
        format!("{}/{label}", self.rig.shim.id)
    }
}

#[test]
fn ps_lists_a_task_as_it_was_seen_last_until_it_is_over() {
    for era in [Era::November, Era::Extension] {
        let mut server = Server::new(era);
        server.task("7", "t-1");
        let sockets = server.rig.sockets.clone();
        let said = say(&sockets, &["ps"]);
        let row = said.stdout.lines().nth(1).unwrap();
        assert!(row.starts_with(&server.name("task:t-1")) && row.contains("task:slow"), "{row}");
        assert!(row.contains("working") && row.contains("as seen "), "{row}");
        let document: Value = serde_json::from_str(&say(&sockets, &["ps", "--json"]).stdout).unwrap();
        let task = &document["sessions"][0]["requests"][0];
        assert_eq!((&task["task"], &task["atWork"]["status"]), (&"t-1".into(), &"working".into()), "{document}");
        let method = if era == Era::November { "notifications/tasks/status" } else { "notifications/tasks" };
        let pushed =
            json!({"jsonrpc": "2.0", "method": method, "params": {"taskId": "t-1", "status": "input_required"}});
        pass_to_client(&mut server.rig, &pushed.to_string());
        assert!(say(&sockets, &["ps"]).stdout.contains("input required"));
        let pushed = json!({"jsonrpc": "2.0", "method": method, "params": {"taskId": "t-1", "status": "completed"}});
        pass_to_client(&mut server.rig, &pushed.to_string());
        assert!(say(&sockets, &["ps"]).stderr.contains("nothing is in flight"));
    }
}

#[test]
fn cancel_of_a_task_stops_its_work_and_no_other() {
    for era in [Era::November, Era::Extension] {
        let mut server = Server::new(era);
        server.task("1", "one");
        server.task("2", "two");
        let sockets = server.rig.sockets.clone();
        let running = Running::start(&sockets, &["cancel", &server.name("task:one"), "--wait", "1h"]);
        server.obey();
        let said = running.end();
        assert!(said.code == 0 && has(&said, &format!("{}: confirmed after ", server.name("task:one"))), "{said:?}");
        assert!(!server.works("one") && server.works("two"));
        server.rig.expect_client_hears_nothing();
    }
}

#[test]
fn stop_counts_tasks_and_waits_for_what_their_cancels_learn() {
    for era in [Era::November, Era::Extension] {
        let mut server = Server::new(era);
        server.task("1", "one");
        server.task("2", "two");
        let sockets = server.rig.sockets.clone();
        let running = Running::start(&sockets, &["stop", "--within", "1h"]);
        server.obey_both();
        let said = running.end();
        assert_eq!((said.code, said.stdout.lines().last()), (0, Some("2 stopped")), "{said:?}");
        assert!(!server.works("one") && !server.works("two"));
        let said = say(&sockets, &["stop"]);
        assert_eq!((said.code, &*said.stderr), (0, "nothing is in flight\n"));
    }
}

/// D56: its receipt never says that the server was not told.
#[test]
fn stop_of_a_request_before_its_handle_ends_with_what_its_task_came_to() {
    let mut server = Server::new(Era::November);
    server.call("1", "late");
    let sockets = server.rig.sockets.clone();
    let running = Running::start(&sockets, &["stop", "--within", "1h"]);
    assert!(server.rig.client.receive().contains("-31003"));
    let held = say(&sockets, &["ps"]);
    assert!(held.stdout.contains("held until its server has given its task an id"), "{held:?}");
    let handle = server.era.handle("1", "late");
    server.rig.server.send(&handle);
    server.obey();
    let said = running.end();
    assert!(said.code == 0 && has(&said, &format!("{}: stopped: confirmed after ", server.name("1"))), "{said:?}");
    assert!(!said.stdout.contains("told") && !said.stdout.contains("not sent"), "{said:?}");
    assert!(!server.works("late"));
    server.rig.expect_client_hears_nothing();
}

#[test]
fn stop_ends_the_server_of_a_task_whose_cancel_is_not_heeded() {
    for era in [Era::November, Era::Extension] {
        let mut server = Server::new(era);
        server.task("1", "deaf");
        let sockets = server.rig.sockets.clone();
        let said = say(&sockets, &["stop", "--within", "1s"]);
        assert!(has(&said, &format!("{}: no answer: sent; not confirmed yet", server.name("task:deaf"))), "{said:?}");
        assert!(said.code == 1 && said.stderr.contains("rescind stop --kill"), "{said:?}");
        assert!(say(&sockets, &["ps"]).stdout.contains("task:deaf"), "it is not known to be over");
        let said = say(&sockets, &["stop", "--within", "1s", "--kill"]);
        assert!(has(&said, &format!("{}: ended: ended with its server", server.name("task:deaf"))), "{said:?}");
        assert_eq!(said.code, 0, "{said:?}");
    }
}

#[test]
fn a_clients_own_cancel_of_its_task_is_shown() {
    let mut server = Server::new(Era::November);
    server.task("1", "t");
    pass_to_server(&mut server.rig, &request_with("2", "tasks/cancel", r#"{"taskId":"t"}"#));
    let said = say(&server.rig.sockets, &["ps", "--method", "task"]);
    let row = said.stdout.lines().nth(1).unwrap();
    assert!(row.contains("cancelling") && row.contains("sent; not confirmed yet"), "{row}");
    pass_to_client(&mut server.rig, &result("2", r#"{"taskId":"t","status":"cancelled"}"#));
    assert!(say(&server.rig.sockets, &["ps"]).stderr.contains("nothing is in flight"));
    let recent = say(&server.rig.sockets, &["ps", "--recent", "--method", "task"]);
    assert!(recent.stdout.contains("confirmed after"), "{recent:?}");
}

impl Server {
    /// Two cancels come together, before what either leads to.
    fn obey_both(&mut self) {
        if self.era == Era::November {
            self.obey();
            return self.obey();
        }
        let mut open = 2;
        while open > 0 {
            let (method, id, task) = asked(&mut self.rig);
            if method == "tasks/cancel" {
                self.tasks.get_mut(&task).unwrap().end();
                self.answer(&id, &json!({"resultType": "complete"}));
            } else {
                open -= 1;
                self.answer(&id, &json!({"resultType": "complete", "taskId": task, "status": "cancelled"}));
            }
        }
    }
}
