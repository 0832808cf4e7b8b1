//! `rescind run --greet-from-cache` (D70) on real processes: a server starts slowly, and its client does not fail.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use rescind_testkit::puppet::Rig;
use serde_json::{Value, json};

use crate::{
    peers::{
        parts::{not_installed, peers},
        play::skip,
    },
    shim::{
        PROGRAM, error_of, run_to_end,
        words::{cancelled, notification, pass_to_client, pass_to_server, request, request_with, result},
    },
};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const TOOLS_CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
const HELLO: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;
const TOOLS: &str = r#"{"tools":[{"name":"slow"}]}"#;

/// Only a failing test ever waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

fn welcome(revision: &str) -> String {
    let about = r#""capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"test","version":"1"}"#;
    format!(r#"{{"protocolVersion":"{revision}",{about}}}"#)
}

fn hello() -> String {
    request_with("\"hello\"", "initialize", HELLO)
}

/// A home in which what servers answered is kept, and a command in it whose server has the same words at each start.
struct Home {
    around: tempfile::TempDir,
    program: String,
}

impl Home {
    fn new() -> Self {
        let around = tempfile::tempdir().unwrap();
        let home = around.path().display();
        let program = around.path().join("rescind");
        // The last two words of a rig are its server's, and no two rigs have the same.
        let script = format!(
            "#!/bin/sh\nexport HOME='{home}' XDG_STATE_HOME='{home}/state'\nif [ \"$1\" != run ]; then exec '{PROGRAM}' \"$@\"; fi\n\
             left=$(($# - 2))\n: > \"$HOME/words\"\nfor word; do\n  shift\n  left=$((left - 1))\n  \
             if [ $left -ge 0 ]; then set -- \"$@\" \"$word\"; else printf '%s\\n' \"$word\" >> \"$HOME/words\"; fi\ndone\n\
             exec '{PROGRAM}' \"$@\" sh \"$HOME/server\"\n"
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
        let server = "{ read -r puppet; read -r address; } < \"$HOME/words\"\nexec \"$puppet\" \"$address\"\n";
        fs::write(around.path().join("server"), server).unwrap();
        std::os::unix::fs::symlink(Path::new(PROGRAM).with_file_name("examples"), around.path().join("examples"))
            .unwrap();
        Self { program: program.to_str().unwrap().to_owned(), around }
    }

    fn rig(&self, flags: &[&str]) -> Rig {
        Rig::builder(&self.program).flags(["--greet-from-cache"]).flags(flags.iter().copied()).start()
    }

    /// A start at which nothing is known, whose client reads the tools.
    fn first_start(&self) {
        let mut rig = self.rig(&[]);
        pass_to_server(&mut rig, &hello());
        pass_to_client(&mut rig, &result("\"hello\"", &welcome("2025-06-18")));
        pass_to_server(&mut rig, INITIALIZED);
        pass_to_server(&mut rig, &request("1", "tools/list"));
        pass_to_client(&mut rig, &result("1", TOOLS));
        pass_to_server(&mut rig, &request("2", "tools/call"));
        pass_to_client(&mut rig, &result("2", r#"{"content":"SECRET"}"#));
        self.until(|text| text.contains("slow"));
        rig.server.exit(0);
        rig.shim.expect_exit(0);
        rig.shim.expect_said_nothing();
    }

    /// A start whose client is answered before its server has read anything.
    fn next_start(&self, flags: &[&str]) -> Rig {
        let mut rig = self.rig(flags);
        rig.client.send(&hello());
        rig.client.expect(&result("\"hello\"", &welcome("2025-06-18")));
        rig.client.send(INITIALIZED);
        rig.client.send(&request("1", "tools/list"));
        rig.client.expect(&result("1", TOOLS));
        rig
    }

    fn folder(&self) -> PathBuf {
        let state = if cfg!(target_os = "macos") { "Library/Application Support" } else { "state" };
        self.around.path().join(state).join("rescind/last-starts")
    }

    /// The files with answers.
    fn files(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.folder()).into_iter().flatten().map(|file| file.unwrap().path());
        all.filter(|path| path.extension().is_some_and(|kind| kind == "json")).collect()
    }

    /// Waits until the one file is such; its text.
    fn until(&self, is_so: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            if let [file] = &self.files()[..]
                && let Ok(text) = fs::read_to_string(file)
                && is_so(&text)
            {
                return text;
            }
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.files());
            thread::yield_now();
        }
    }
}

/// Everything that the client has sent until now has been read.
fn barrier(rig: &mut Rig) {
    rig.client.send(&request("\"barrier\"", "ping"));
    rig.client.expect(&result("\"barrier\"", "{}"));
}

fn ps(rig: &Rig) -> String {
    let output = Command::new(PROGRAM).arg("ps").env("RESCIND_RUNTIME_DIR", &rig.sockets).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A request of the shim's own for the tools: its id.
fn own_list(rig: &mut Rig) -> String {
    let asked: Value = serde_json::from_str(&rig.server.receive()).unwrap();
    assert_eq!(asked["method"], "tools/list", "{asked}");
    asked["id"].to_string()
}

#[test]
fn the_second_client_is_answered_while_the_server_starts_and_what_it_cancels_is_never_sent() {
    let home = Home::new();
    home.first_start();
    let mut rig = home.next_start(&[]);
    rig.client.send(&request("2", "tools/call"));
    rig.client.send(&request("3", "tools/call"));
    rig.client.send(&cancelled("3"));
    barrier(&mut rig);
    let listed = ps(&rig);
    assert!(listed.contains("its client was greeted from the cache") && listed.contains("queued"), "{listed}");

    rig.server.expect(&hello());
    rig.server.send(&result("\"hello\"", &welcome("2025-06-18")));
    rig.server.expect(INITIALIZED);
    rig.server.expect(&request("2", "tools/call"));
    let own = own_list(&mut rig);
    rig.server.send(&result(&own, TOOLS));
    pass_to_client(&mut rig, &result("2", "{}"));
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
    assert!(!ps(&rig).contains("greeted from the cache"));
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    rig.shim.expect_said_nothing();
}

#[test]
fn a_list_that_has_changed_is_reported_and_the_third_client_is_told_the_new_one() {
    let home = Home::new();
    home.first_start();
    let mut rig = home.next_start(&[]);
    rig.server.expect(&hello());
    rig.server.send(&result("\"hello\"", &welcome("2025-06-18")));
    rig.server.expect(INITIALIZED);
    let own = own_list(&mut rig);
    rig.server.send(&result(&own, r#"{"tools":[{"name":"new"}]}"#));
    rig.client.expect(TOOLS_CHANGED);
    pass_to_server(&mut rig, &request("2", "tools/list"));
    pass_to_client(&mut rig, &result("2", r#"{"tools":[{"name":"new"}]}"#));
    home.until(|text| text.contains("new") && !text.contains("slow"));
    drop(rig);
    let mut third = home.rig(&[]);
    third.client.send(&hello());
    third.client.expect(&result("\"hello\"", &welcome("2025-06-18")));
    third.client.send(&request("1", "tools/list"));
    third.client.expect(&result("1", r#"{"tools":[{"name":"new"}]}"#));
}

#[test]
fn a_server_that_dies_at_its_start_gives_its_client_the_cause() {
    let home = Home::new();
    home.first_start();
    let mut rig = home.next_start(&[]);
    rig.client.send(&request("2", "tools/call"));
    barrier(&mut rig);
    rig.server.exit(3);
    let error = error_of(&rig.client.receive(), "2");
    assert_eq!((&error["code"], &error["data"]["exitCode"]), (&json!(-31002), &json!(3)), "{error}");
    rig.client.expect_end();
    rig.shim.expect_exit(3);
    // One that waits for nothing asks once more.
    let mut rig = home.next_start(&[]);
    rig.server.exit(3);
    rig.client.send(&request("2", "tools/call"));
    assert_eq!(error_of(&rig.client.receive(), "2")["code"], -31002);
    rig.shim.expect_exit(3);
}

#[test]
fn a_server_of_another_revision_is_ended_and_the_next_client_is_told_the_right_one() {
    let home = Home::new();
    home.first_start();
    let mut rig = home.next_start(&["--restart"]);
    rig.client.send(&request("2", "tools/call"));
    barrier(&mut rig);
    rig.server.expect(&hello());
    rig.server.send(&result("\"hello\"", &welcome("2025-03-26")));
    let error = error_of(&rig.client.receive(), "2");
    assert!(error["message"].as_str().unwrap().contains("2025-03-26"), "{error}");
    rig.server.puppet.expect_death();
    rig.client.expect_end();
    let said = String::from_utf8(rig.shim.stderr.rest()).unwrap();
    assert!(said.contains("error: the client was told of the server's last start"), "{said}");
    home.until(|text| text.contains("2025-03-26"));
    let mut next = home.rig(&[]);
    next.client.send(&hello());
    next.client.expect(&result("\"hello\"", &welcome("2025-03-26")));
}

#[test]
fn what_is_kept_is_its_users_and_has_no_call_and_a_spoilt_one_is_as_none() {
    let home = Home::new();
    home.first_start();
    let files = home.files();
    let text = fs::read_to_string(&files[0]).unwrap();
    assert!(!text.contains("SECRET") && !text.contains("tools/call"), "{text}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&home.folder()), mode(&files[0]), mode(&home.folder().join("key"))), (0o700, 0o600, 0o600));
    for spoilt in ["", &text[..text.len() / 2], &text.replace(r#""format":1"#, r#""format":0"#)] {
        fs::write(&files[0], spoilt).unwrap();
        let mut rig = home.rig(&[]);
        pass_to_server(&mut rig, &hello());
        pass_to_client(&mut rig, &result("\"hello\"", &welcome("2025-06-18")));
        pass_to_server(&mut rig, INITIALIZED);
        pass_to_server(&mut rig, &request("1", "tools/list"));
        pass_to_client(&mut rig, &result("1", TOOLS));
        home.until(|now| now == text);
    }
    assert_eq!(home.files(), files, "the same file for the same command");
    let mut other = home.rig(&["--client-name", "other"]);
    pass_to_server(&mut other, &hello());
    drop(other);
    let uninstall = Command::new(&home.program).args(["uninstall", "--yes"]).output().unwrap();
    assert!(uninstall.status.success(), "{uninstall:?}");
    assert!(!home.folder().exists());
}

#[test]
fn a_recording_does_not_say_that_the_server_has_answered() {
    let home = Home::new();
    home.first_start();
    let file = home.around.path().join("recording");
    let mut rig = home.next_start(&["--record", file.to_str().unwrap()]);
    rig.server.expect(&hello());
    rig.server.exit(0);
    rig.client.close_output();
    rig.shim.expect_exit(0);
    let lines = fs::read_to_string(file).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = |line: &Value| line.to_string();
    let settled: Vec<_> = lines.iter().map(text).filter(|line| line.contains("settled")).collect();
    assert_eq!(settled.iter().filter(|line| line.contains("answered_here")).count(), 2, "{settled:?}");
    assert!(!lines.iter().any(|line| text(line).contains("from_server")), "the server has said nothing");
}

#[test]
fn only_servers_of_mcp_are_greeted_early() {
    for protocol in ["acp", "lsp", "codex", "unknown"] {
        let (said, code) = run_to_end(&["run", "--greet-from-cache", "--protocol", protocol, "true"]);
        assert!(said.starts_with("error: --greet-from-cache: is for servers of MCP\nhint: "), "{protocol}: {said}");
        assert_eq!(code, 125);
    }
}

#[test]
fn wrap_takes_the_flag_for_its_shims() {
    let home = Home::new();
    let file = home.around.path().join("mcp.json");
    fs::write(&file, r#"{"mcpServers":{"slow":{"command":"npx","args":["slow"]}}}"#).unwrap();
    let mut wrap = Command::new(&home.program);
    let wrap = wrap.args(["wrap", "--yes", "--file"]).arg(&file).args(["--", "--greet-from-cache"]).output().unwrap();
    assert!(wrap.status.success(), "{wrap:?}");
    assert!(fs::read_to_string(&file).unwrap().contains("--greet-from-cache"));
}

/// A client of a shim whose server is a program, one line at a time.
struct Client {
    shim: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Client {
    fn start(home: &Path, command: &[&str]) -> Self {
        let mut shim = Command::new(PROGRAM)
            .args(["run", "--greet-from-cache"])
            .args(command)
            .env("HOME", home)
            .env("XDG_STATE_HOME", home.join("state"))
            .env("RESCIND_RUNTIME_DIR", home.join("sockets"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (shim.stdin.take(), shim.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { shim, stdin, lines }
    }

    fn send(&mut self, message: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn receive(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(PATIENCE).unwrap()).unwrap()
    }

    /// The answer to this request.
    fn ask(&mut self, id: u32, method: &str, params: &str) -> Value {
        self.send(&request_with(&id.to_string(), method, params));
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stdin = None;
        if thread::panicking() {
            let _ = self.shim.kill();
        }
        let _ = self.shim.wait();
    }
}

/// A server that does nothing before somebody opens its barrier, and notes what it gets.
const SLOW_SERVER: &str = r#"
read -r go < "$1/barrier"
while IFS= read -r line; do
  printf '%s\n' "$line" >> "$1/marks"
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *'"initialize"'*) answer='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"slow","version":"1"}}' ;;
    *'"tools/list"'*) answer='{"tools":[{"name":"slow","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) answer='{"content":[]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer"
done
"#;

/// A home with such a server.
struct Slow(tempfile::TempDir);

impl Slow {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        assert!(Command::new("mkfifo").arg(folder.path().join("barrier")).status().unwrap().success());
        Self(folder)
    }

    fn home(&self) -> &Path {
        self.0.path()
    }

    fn command(&self) -> [&str; 5] {
        ["sh", "-c", SLOW_SERVER, "slow", self.home().to_str().unwrap()]
    }

    /// Lets the server begin. It returns when the server has.
    fn open(&self) {
        fs::write(self.home().join("barrier"), "go\n").unwrap();
    }

    /// What the server has got.
    fn marks(&self) -> String {
        fs::read_to_string(self.home().join("marks")).unwrap_or_default()
    }

    fn forget_marks(&self) {
        let _ = fs::remove_file(self.home().join("marks"));
    }

    /// Waits until the tools are kept.
    fn until_kept(&self) {
        let state = if cfg!(target_os = "macos") { "Library/Application Support" } else { "state" };
        let folder = self.home().join(state).join("rescind/last-starts");
        let begun = Instant::now();
        loop {
            let files = fs::read_dir(&folder).into_iter().flatten().flatten();
            let mut texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
            if texts.any(|text| text.contains("tools/list")) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "nothing is kept");
            thread::yield_now();
        }
    }
}

#[test]
fn a_program_that_has_not_begun_is_not_missed_by_its_client() {
    let slow = Slow::new();
    let (home, command) = (slow.home(), slow.command());
    let mut first = Client::start(home, &command);
    first.send(&request_with("0", "initialize", HELLO));
    slow.open();
    let welcome = first.receive()["result"].clone();
    assert_eq!(welcome["serverInfo"]["name"], "slow");
    first.send(INITIALIZED);
    let tools = first.ask(1, "tools/list", "{}");
    slow.until_kept();
    drop(first);

    slow.forget_marks();
    let mut second = Client::start(home, &command);
    assert_eq!(second.ask(0, "initialize", HELLO), welcome);
    second.send(INITIALIZED);
    assert_eq!(second.ask(1, "tools/list", "{}"), tools);
    second.send(&request_with("2", "tools/call", "{}"));
    second.send(&request_with("3", "tools/call", "{}"));
    second.send(&notification("notifications/cancelled", r#"{"requestId":3}"#));
    assert_eq!(second.ask(4, "ping", "{}"), json!({}), "all of it was read");
    assert_eq!(slow.marks(), "", "the server has not begun");
    slow.open();
    let answer = second.receive();
    assert_eq!((&answer["id"], &answer["result"]), (&json!(2), &json!({"content": []})));
    drop(second);
    let marks = slow.marks();
    let marks: Vec<Value> = marks.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<_> = marks.iter().map(|mark| (mark["method"].as_str().unwrap(), mark["id"].as_i64())).collect();
    let expected = [("initialize", Some(0)), ("notifications/initialized", None), ("tools/call", Some(2))];
    assert_eq!(ids[..3], expected);
    assert_eq!((ids.len(), ids[3].0), (4, "tools/list"), "what its client was told is compared: {ids:?}");
}

#[test]
fn a_client_on_a_real_sdk_lists_the_tools_of_a_program_that_has_not_begun() {
    if let Some(part) = not_installed(&["node/mcp1/node_modules"], &["node"]) {
        assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{part}");
        return skip(part);
    }
    let slow = Slow::new();
    let list = || {
        let mut list = Command::new("node");
        list.arg(peers().join("node/mcp1/lister.mjs"))
            .args([PROGRAM, "run", "--greet-from-cache"])
            .args(slow.command());
        list.env("HOME", slow.home()).env("XDG_STATE_HOME", slow.home().join("state"));
        list.env("RESCIND_RUNTIME_DIR", slow.home().join("sockets")).stdout(Stdio::piped()).stderr(Stdio::null());
        list
    };
    // It gives a server five seconds, which a busy machine may not have.
    let begun = Instant::now();
    loop {
        let first = list().spawn().unwrap();
        slow.open();
        let said = first.wait_with_output().unwrap().stdout;
        if said == b"slow\n" {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&said));
    }
    slow.until_kept();
    slow.forget_marks();
    let second = list().output().unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&second), "slow\n");
    assert_eq!(slow.marks(), "", "the server has not begun");
}
