//! What a turn has started and left (D59): with real processes, which are ended by their numbers alone.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rescind_ledger::identity::ProcessId;
use serde_json::{Value, json};

use crate::{
    left_behind::eventually,
    operator::{Said, say},
    shim::{
        PROGRAM,
        words::{cancelled, notification, request_with},
    },
};

/// An agent, or a tool server: a prompt or a call `NAME:KIND` has it start a command in a session of its own. It confirms
/// the cancel of a turn, or in the session `calm` ends it as if there were none, and says nothing about that of a call.
const AGENT: &str = r#"
    says() { echo "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":$2}"; }
    while read -r line; do
        id=${line#*'"id":'}; id=${id%%,*}
        session=${line#*'"sessionId":"'}; session=${session%%'"'*}
        text=${line#*'"text":"'}; text=${text%%'"'*}
        case $line in
            *'"initialize"'*'clientInfo'*)
                says "$id" '{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}' ;;
            *'"initialize"'*) says "$id" '{"protocolVersion":1}' ;;
            *'"session/prompt"'*|*'"tools/call"'*)
                setsid sh -c "$WORKER" worker "$1" "${text%%:*}" "${text#*:}" >/dev/null &
                case $text in
                    *:ends) wait $!; says "$id" '{"stopReason":"end_turn"}' ;;
                    *) case $line in *sessionId*) eval "turn_$session=$id" ;; esac ;;
                esac ;;
            *'"session/cancel"'*)
                case $session in calm) how=end_turn ;; *) how=cancelled ;; esac
                eval "says \$turn_$session '{\"stopReason\":\"$how\"}'" ;;
        esac
    done
"#;

/// A command of an agent: `worker FOLDER NAME KIND`. It writes its number into a file of its name.
const WORKER: &str = r#"
    case $3 in
        ends) setsid sh -c "$WORKER" worker "$1" "$2" stays & exit ;;
        daemon) setsid sh -c "$WORKER" worker "$1" "$2" stays & exit ;;
        deaf) trap '' TERM ;;
    esac
    echo $$ >"$1/$2.new"
    mv "$1/$2.new" "$1/$2"
    exec 9<>"$1/never"
    while :; do read line <&9; done
"#;

/// A client with its shim and agent.
pub(crate) struct World {
    folder: tempfile::TempDir,
    shim: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl World {
    fn start(flags: &[&str], hello: &str) -> Self {
        Self::with(AGENT, flags, hello)
    }

    /// The same with this script in its place: its first argument is the folder, which has the pipes `never` and `go`.
    pub(crate) fn with(agent: &str, flags: &[&str], hello: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pipes = ["never", "go"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").args(pipes).status().unwrap().success());
        let mut shim = Command::new(PROGRAM)
            .arg("run")
            .args(flags)
            .args(["sh", "-c", agent, "agent"])
            .arg(folder.path())
            .env("RESCIND_RUNTIME_DIR", folder.path().join("sockets"))
            .env("WORKER", WORKER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = shim.stdin.take();
        let output = BufReader::new(shim.stdout.take().unwrap());
        let mut world = Self { folder, shim, input, output };
        world.send(&request_with("0", "initialize", hello));
        world.receive();
        world
    }

    /// The agent goes on that waits for this.
    pub(crate) fn go(&self) {
        fs::OpenOptions::new().append(true).open(self.folder.path().join("go")).unwrap().write_all(b"\n").unwrap();
    }

    fn agent(flags: &[&str]) -> Self {
        Self::start(flags, r#"{"protocolVersion":1}"#)
    }

    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Prompts the agent, which starts a process of this name. Returns it once it runs.
    fn prompt(&mut self, id: &str, session: &str, name: &str, kind: &str) -> ProcessId {
        let params = format!(r#"{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{name}:{kind}"}}]}}"#);
        self.send(&request_with(id, "session/prompt", &params));
        self.process(name)
    }

    /// The process that has written its number. More of the clock has passed by then than it tells apart.
    pub(crate) fn process(&self, name: &str) -> ProcessId {
        let file = self.folder.path().join(name);
        let pid = eventually("a number", || fs::read_to_string(&file).ok()?.trim().parse().ok());
        let id = ProcessId::of(pid).unwrap();
        eventually("the next tick", || (ticks() > id.start + 2).then_some(()));
        id
    }

    pub(crate) fn cancel(&mut self, session: &str) {
        self.send(&notification("session/cancel", &format!(r#"{{"sessionId":"{session}"}}"#)));
    }

    pub(crate) fn say(&self, arguments: &[&str]) -> Said {
        say(&self.folder.path().join("sockets"), arguments)
    }

    pub(crate) fn name(&self) -> String {
        self.shim.id().to_string()
    }

    fn listed(&self) -> Value {
        serde_json::from_str(&self.say(&["ps", "--processes", "--json"]).stdout).unwrap()
    }

    /// During which requests a process began, by their ids.
    pub(crate) fn began(&self, process: ProcessId) -> (String, Vec<String>) {
        let listed = self.listed();
        let session = &listed["sessions"][0];
        let all = session["processes"].as_array().unwrap();
        let began = &all.iter().find(|one| one["pid"] == process.pid).unwrap()["began"];
        let of = |key: &Value| {
            let requests = session["requests"].as_array().unwrap();
            requests.iter().find(|request| request["key"] == *key).unwrap()["id"].as_str().unwrap().to_owned()
        };
        let requests = began["requests"].as_array().map(|keys| keys.iter().map(of).collect());
        (began["when"].as_str().unwrap().to_owned(), requests.unwrap_or_default())
    }

    /// What the shim says of this process.
    pub(crate) fn told(&self, process: ProcessId) -> Option<String> {
        let listed: Value = serde_json::from_str(&self.say(&["ps", "--sessions", "--json"]).stdout).unwrap();
        let all = listed["sessions"][0]["session"]["turnProcesses"].as_array()?;
        Some(all.iter().find(|one| one["pid"] == process.pid)?["how"].as_str().unwrap().to_owned())
    }

    /// The agent still answers.
    fn expect_alive(&mut self) {
        let agent = ProcessId::of(self.server()).unwrap();
        self.prompt("90", "alive", "alive", "stays");
        self.cancel("alive");
        assert_eq!(self.receive()["result"]["stopReason"], "cancelled");
        assert!(agent.is_alive());
    }

    fn server(&self) -> u32 {
        let listed: Value = serde_json::from_str(&self.say(&["ps", "--sessions", "--json"]).stdout).unwrap();
        listed["sessions"][0]["session"]["serverPid"].as_u64().unwrap().try_into().unwrap()
    }
}

impl Drop for World {
    /// A test that fails leaves nothing either.
    fn drop(&mut self) {
        self.input = None;
        let _ = self.shim.kill();
        let _ = self.shim.wait();
        eventually("all to end", || {
            self.say(&["reap", "--yes", "--grace", "10ms"]);
            let listed = self.say(&["ps", "--orphans"]).stdout;
            listed.is_empty().then_some(())
        });
    }
}

/// The clock by which the system tells when a process started.
fn ticks() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(now.tv_sec * 100 + now.tv_nsec / 10_000_000).unwrap()
}

pub(crate) fn expect_end(process: ProcessId) {
    eventually("its end", || (!process.is_alive()).then_some(()));
}

#[test]
fn a_confirmed_cancel_names_what_its_turn_has_left_and_reap_ends_that_alone() {
    let mut world = World::agent(&[]);
    let server = world.prompt("1", "a", "server", "ends");
    assert_eq!(world.receive()["result"]["stopReason"], "end_turn");
    let command = world.prompt("2", "a", "command", "stays");
    let name = world.name();
    assert_eq!(world.began(command), ("during".into(), vec!["2".into()]));
    let said = world.say(&["cancel", &format!("{name}/2")]);
    assert!(said.stdout.contains("confirmed after"), "{said:?}");
    let pid = command.pid;
    assert_eq!(
        said.stderr,
        format!(
            "note: {name}/2: its cancel is confirmed; 1 process that began during it still runs: {pid} sh; `rescind reap \
             {pid}` ends it\n"
        )
    );
    assert_eq!(world.receive()["result"]["stopReason"], "cancelled");
    let table = world.say(&["ps", "--processes"]).stdout;
    let row = |words: &str| table.lines().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{table}"));
    let heading = row(&format!("during {name}/2 session/prompt"));
    let line = table.lines().nth(heading).unwrap();
    assert!(line.contains("confirmed after") && line.ends_with("; still runs"), "{table}");
    let earlier = row(&format!("during {name}/1 session/prompt"));
    assert!(row(&format!("{} ", server.pid)) == earlier + 1 && row(&format!("{pid} ")) == heading + 1, "{table}");
    assert!(earlier < heading && heading < row("of the session"), "{table}");

    let reaped = world.say(&["reap", "--yes", &pid.to_string()]);
    assert_eq!((reaped.code, reaped.stdout.ends_with("  ended\n")), (0, true), "{reaped:?}");
    assert!(!command.is_alive() && server.is_alive());
    world.expect_alive();
}

#[test]
fn a_stop_says_what_still_runs_of_the_turns_that_it_has_stopped() {
    let mut world = World::agent(&[]);
    let command = world.prompt("1", "a", "command", "daemon");
    let said = world.say(&["stop", "--json"]);
    assert_eq!(said.code, 1, "not all of it is over: {said:?}");
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    let left = &told["sessions"][0]["requests"][0]["processes"];
    assert_eq!(left["running"], json!([{ "pid": command.pid, "name": "sh", "began": "during" }]), "{told:#}");
    assert!(said.stderr.contains(&format!("`rescind reap {}` ends it", command.pid)), "{said:?}");
    assert!(command.is_alive());
    // What is stopped has left nothing that was not there before.
    world.receive();
    let other = world.prompt("2", "a", "other", "stays");
    let said = world.say(&["stop"]);
    assert!(
        said.stdout.ends_with("\n1 stopped; 1 process that began during a cancelled request still runs\n"),
        "{said:?}"
    );
    assert!(
        said.stderr.contains(&other.pid.to_string()) && !said.stderr.contains(&command.pid.to_string()),
        "{said:?}"
    );
}

#[test]
fn a_stop_says_what_still_runs_of_a_turn_that_ended_as_if_it_were_not_cancelled() {
    let mut world = World::agent(&[]);
    let command = world.prompt("1", "calm", "command", "stays");
    let said = world.say(&["stop"]);
    assert_eq!(said.code, 1, "not all of it is over: {said:?}");
    let summary = "\n0 stopped, 1 finished; 1 process that began during a cancelled request still runs\n";
    assert!(said.stdout.ends_with(summary), "{said:?}");
    let note =
        format!(": it was answered after its cancel; 1 process that began during it still runs: {} sh; ", command.pid);
    assert!(said.stderr.contains(&note), "{said:?}");
    assert!(command.is_alive());
}

#[test]
fn what_began_while_two_turns_were_in_flight_is_told_as_of_one_of_them() {
    let mut world = World::agent(&[]);
    world.prompt("1", "a", "first", "stays");
    let second = world.prompt("2", "b", "second", "stays");
    let name = world.name();
    assert_eq!(world.began(second), ("one_of".into(), vec!["1".into(), "2".into()]));
    let table = world.say(&["ps", "--processes"]).stdout;
    assert!(table.contains(&format!("during one of {name}/1, {name}/2")), "{table}");
    let said = world.say(&["cancel", &format!("{name}/2")]);
    let line = format!("note: {name}/2: 1 process that began during it or other work still runs: {} sh\n", second.pid);
    assert_eq!(said.stderr, line);
}

#[test]
fn what_is_named_of_a_session_that_runs_ends_only_if_it_is_of_it_and_not_its_server() {
    let mut world = World::agent(&[]);
    let command = world.prompt("1", "a", "command", "stays");
    let mut stranger = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let server = world.server();
    let guard = world.listed()["sessions"][0]["processes"][0]["pid"].to_string();
    let shim = world.name();
    for (pid, words) in [
        (server.to_string(), "is the server of session"),
        (guard, "is the server of session"),
        (shim, "is still running"),
        (stranger.id().to_string(), "no session or process of this name has left anything"),
        (std::process::id().to_string(), "no session or process of this name has left anything"),
    ] {
        let said = world.say(&["reap", "--yes", "--grace", "10ms", &pid, &command.pid.to_string()]);
        assert!(said.code == 2 && said.stderr.contains(words), "{pid}: {said:?}");
    }
    assert!(world.say(&["reap", "--yes"]).stderr.contains("no process of an ended session is left"));
    assert!(command.is_alive() && stranger.try_wait().unwrap().is_none());
    drop(stranger.stdin.take());
    stranger.wait().unwrap();
    world.expect_alive();
}

/// Such as a server that `npx` has started: its parent is not the shim.
#[test]
fn a_server_behind_its_launcher_is_not_reaped_either() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("sockets");
    let mut shim = Command::new(PROGRAM);
    shim.args(["run", "sh", "-c", "cat; exit"]).env("RESCIND_RUNTIME_DIR", &sockets);
    let mut shim = shim.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let behind = eventually("the server", || {
        let listed: Value = serde_json::from_str(&say(&sockets, &["ps", "--processes", "--json"]).stdout).ok()?;
        let all = listed["sessions"][0]["processes"].as_array()?.clone();
        all.iter().find(|one| one["name"] == "cat").map(|one| one["pid"].to_string())
    });
    let said = say(&sockets, &["reap", "--yes", &behind]);
    assert!(said.code == 2 && said.stderr.contains("is the server of session"), "{said:?}");
    drop(shim.stdin.take());
    shim.wait().unwrap();
}

#[test]
fn on_stop_ends_what_a_turn_has_left_and_nothing_of_an_earlier_one() {
    let mut world = World::agent(&["--on-stop", "end-processes"]);
    let server = world.prompt("1", "a", "server", "ends");
    world.receive();
    let first = world.prompt("2", "a", "first", "stays");
    let name = world.name();
    let said = world.say(&["cancel", &format!("{name}/2")]);
    let line = format!("note: {name}/2: of what began during it, 1 process was ended: {} sh (ended)\n", first.pid);
    assert_eq!(said.stderr, line);
    assert!(!first.is_alive() && server.is_alive());
    world.receive();
    // The client's own cancel; one that has no parent, and one that SIGTERM does not end.
    let daemon = world.prompt("3", "a", "daemon", "daemon");
    world.cancel("a");
    world.receive();
    expect_end(daemon);
    let deaf = world.prompt("4", "a", "deaf", "deaf");
    world.cancel("a");
    world.receive();
    expect_end(deaf);
    let how = eventually("the report", || world.told(deaf).filter(|how| how != "being ended"));
    assert_eq!((how.as_str(), world.told(daemon).as_deref()), ("killed", Some("ended")));
    assert!(server.is_alive());
    world.expect_alive();
}

/// SIGKILL comes 2.5 s after SIGTERM.
#[test]
fn what_is_still_being_ended_when_the_wait_is_over_is_told_so_and_not_awaited() {
    let mut world = World::agent(&["--on-stop", "end-processes"]);
    let deaf = world.prompt("1", "a", "deaf", "deaf");
    let said = world.say(&["cancel", &format!("{}/1", world.name()), "--wait", "1s"]);
    let line = format!("1 process that began during it still runs: {} sh; still being ended\n", deaf.pid);
    assert!(said.stderr.ends_with(&line), "{said:?}");
    expect_end(deaf);
}

#[test]
fn stop_as_json_says_what_is_still_being_ended_too() {
    let mut world = World::agent(&["--on-stop", "end-processes"]);
    let deaf = world.prompt("1", "a", "deaf", "deaf");
    let said = world.say(&["stop", "--json", "--within", "1s"]);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    let left = &document["sessions"][0]["requests"][0]["processes"];
    assert_eq!((&left["ending"], &left["running"][0]["pid"]), (&json!(true), &json!(deaf.pid)), "{said:?}");
    assert_eq!(document["runningProcesses"], 1);
    expect_end(deaf);
    let said = world.say(&["stop", "--json"]);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(document["runningProcesses"], 0, "{said:?}");
}

#[test]
fn on_stop_leaves_what_may_be_of_a_turn_that_goes_on_and_says_so() {
    let mut world = World::agent(&["--on-stop", "end-processes"]);
    let first = world.prompt("1", "a", "first", "stays");
    let second = world.prompt("2", "b", "second", "stays");
    let name = world.name();
    let said = world.say(&["cancel", &format!("{name}/1")]);
    assert!(said.stderr.contains(&format!("1 process was ended: {} sh (ended)", first.pid)), "{said:?}");
    let spared = format!("{} sh: not ended: it may be of other work", second.pid);
    assert!(said.stderr.contains(&format!("note: {name}/1: {spared}\n")), "{said:?}");
    assert!(!first.is_alive() && second.is_alive());
}

/// MCP confirms no cancel.
#[test]
fn on_stop_waits_a_grace_for_a_server_that_need_not_confirm() {
    let hello = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;
    let mut world = World::start(&["--on-stop", "end-processes", "--grace", "50ms"], hello);
    let call = |name: &str| format!(r#"{{"name":"tool","arguments":{{"text":"{name}:stays"}}}}"#);
    world.send(&notification("notifications/initialized", "{}"));
    world.send(&request_with("1", "tools/call", &call("first")));
    let first = world.process("first");
    world.send(&cancelled("1"));
    expect_end(first);
    assert!(Path::new(&format!("/proc/{}", world.server())).exists());
    // Without a cancel nothing ends.
    world.send(&request_with("2", "tools/call", &call("second")));
    let second = world.process("second");
    assert_eq!(world.began(second), ("during".into(), vec!["2".into()]));
}
