//! The console's page in a real Chromium over a real `rescind run`: what an operator stops there has stopped.

#[expect(dead_code, reason = "made for the tests of the page, which need more of it")]
#[path = "../../../console/tests/suite/browser/driver.rs"]
mod driver;

use std::{
    fs::File,
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;

use driver::{Browser, key};
use rescind_testkit::puppet::Rig;

use crate::shim::{
    PROGRAM,
    words::{greet_acp, greet_mcp, pass_to_client, pass_to_server, progress, request_with, result},
};

/// The code of an operator's stop.
const STOPPED: i64 = -31_003;

/// The command, with sockets of its own.
fn rescind(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rescind"));
    command.env("RESCIND_RUNTIME_DIR", folder.join("shims")).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// A process of ours, ended with the test.
struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client of the sample server behind a shim.
struct Client {
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    shim: Ours,
}

impl Client {
    fn open(folder: &Path, marks: &Path) -> Self {
        let mut command = rescind(folder);
        command.args(["run", env!("CARGO_BIN_EXE_rescind"), "__sample-server"]).env("RESCIND_SAMPLE_MARKS", marks);
        let mut shim = command.spawn().expect("a shim");
        let input = shim.stdin.take();
        let output = BufReader::new(shim.stdout.take().expect("its output")).lines();
        let mut client = Self { input, output, shim: Ours(shim) };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "a-client", "version": "1.0" },
        });
        client.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }));
        client.answer(0);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().expect("its input"), "{message}").expect("a shim that reads");
    }

    fn call(&mut self, id: u64, tool: &str) {
        let params = json!({ "name": tool, "arguments": {}, "_meta": { "progressToken": id } });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    }

    /// Waits for the answer to a request.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = self.output.next().expect("an answer").expect("a line");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }
}

/// A console, and its page in the browser.
struct Console(#[expect(dead_code, reason = "kept until it is to end")] Ours);

impl Console {
    fn open(folder: &Path, browser: &Browser) -> Self {
        let mut console = Ours(rescind(folder).args(["console", "--no-open"]).spawn().expect("a console"));
        let mut said = BufReader::new(console.0.stdout.take().expect("its output")).lines();
        browser.go(&said.next().expect("a link").expect("a line"));
        Self(console)
    }
}

/// Waits for the work of a call to say this of itself.
fn mark(marks: &mut Lines<BufReader<File>>, call: u64, wanted: &str) -> Value {
    loop {
        let line = marks.next().expect("a mark").expect("a line");
        let mark: Value = serde_json::from_str(&line).expect("JSON");
        if mark["call"] == call && mark["mark"] == wanted {
            return mark;
        }
    }
}

#[test]
fn what_is_stopped_on_the_page_has_stopped_and_nothing_else() {
    let Some(browser) = Browser::start() else { return };
    let folder = TempDir::new().expect("a folder");
    let marks = folder.path().join("marks");
    mknodat(CWD, &marks, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    // Read and write, so that neither side waits for the other to open it.
    let pipe = File::options().read(true).write(true).open(&marks).expect("a pipe");
    let mut client = Client::open(folder.path(), &marks);
    let session = client.shim.0.id();
    client.call(1, "obeys");
    client.call(2, "sleepy");
    let mut marks = BufReader::new(pipe).lines();
    mark(&mut marks, 1, "progress");

    let _console = Console::open(folder.path(), &browser);
    let row = |id: u64, words: &str| {
        browser.until(&format!(
            "[...document.querySelectorAll('#rows tr')].some((row) => row.dataset.uid.startsWith('{session}/') && row.querySelector('.c-id').textContent === '{id}' && row.innerText.match({words:?}))"
        ));
    };
    row(1, "obeys");
    row(1, "%");
    row(2, "running");

    browser.run(
        "[...document.querySelectorAll('#rows tr')].find((row) => row.innerText.includes('obeys')).querySelector('.c-cancel button').click()",
    );
    browser.until("document.activeElement.id === 'reason'");
    browser.write("wrong branch");
    browser.press([key::ENTER]);

    let told = mark(&mut marks, 1, "stopped");
    assert_eq!(told["by"], "cancel", "{told}");
    let answer = client.answer(1);
    assert_eq!(answer["error"]["code"], STOPPED, "{answer}");
    // A report of progress may have crossed the cancel.
    row(1, "sent; MCP does not confirm|progress went on for");
    row(2, "running");

    browser.picture("real-server-1-stopped");

    // What passes while somebody watches can be read.
    client.call(3, "quick");
    client.answer(3);
    row(3, "result");
    browser.run("[...document.querySelectorAll('#rows tr')].find((row) => row.innerText.includes('quick')).click()");
    browser.click("#messages-show");
    browser.until("document.getElementById('messages').innerText.includes('\"name\": \"quick\"')");
    browser.until(
        "[...document.querySelectorAll('#messages summary')].some((line) => line.textContent.startsWith('Result'))",
    );
    browser.picture("real-server-2-messages");

    drop(client.input.take());
    browser.until("document.querySelector('.lane.is-over')?.innerText.includes('exited with 0')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The words at the cancel of the row whose id this is.
fn until_words(browser: &Browser, id: u64, words: &str) {
    browser.until(&format!(
        "[...document.querySelectorAll('#rows tr')].some((row) => row.querySelector('.c-id').textContent === '{id}' && row.querySelector('.c-cancel').innerText.includes({words:?}))"
    ));
}

/// Presses Cancel in the row of a tool.
fn cancel_on_page(browser: &Browser, id: u64) {
    browser.until(&format!(
        "[...document.querySelectorAll('#rows tr')].some((row) => row.querySelector('.c-id').textContent === '{id}' && row.querySelector('.c-cancel button'))"
    ));
    browser.run(&format!(
        "[...document.querySelectorAll('#rows tr')].find((row) => row.querySelector('.c-id').textContent === '{id}').querySelector('.c-cancel button').click()"
    ));
    browser.until("document.activeElement.id === 'reason'");
    browser.write("enough");
    browser.press([key::ENTER]);
}

#[test]
fn the_words_of_a_cancel_are_what_the_server_brings_about() {
    let Some(browser) = Browser::start() else { return };
    let folder = TempDir::new().expect("a folder");
    let mut rig = Rig::builder(PROGRAM).sockets(folder.path().join("shims")).start();
    greet_mcp(&mut rig, "2025-11-25");
    let call = |id: u64| {
        let params = format!(r#"{{"name":"tool","_meta":{{"progressToken":{id}}}}}"#);
        request_with(&id.to_string(), "tools/call", &params)
    };
    for id in 1..=3 {
        pass_to_server(&mut rig, &call(id));
    }
    pass_to_client(&mut rig, &progress("2", 1));
    let _console = Console::open(folder.path(), &browser);

    // A server that says nothing more.
    cancel_on_page(&browser, 1);
    assert!(rig.server.receive().contains(r#""requestId":1,"reason":"enough""#));
    assert!(rig.client.receive().contains(&STOPPED.to_string()));
    until_words(&browser, 1, "sent; MCP does not confirm");
    browser.until(
        "[...document.querySelectorAll('#rows tr')].some((row) => row.querySelector('.c-id').textContent === '1' && row.querySelector('.c-state').innerText.includes('stopped by you'))",
    );

    // One that works on, and answers in the end.
    cancel_on_page(&browser, 2);
    assert!(rig.server.receive().contains(r#""requestId":2"#));
    assert!(rig.client.receive().contains(&STOPPED.to_string()));
    rig.server.send(&progress("2", 2));
    until_words(&browser, 2, "progress still arriving");
    browser.picture("real-server-3-works-on");
    rig.server.send(&result("2", "{}"));
    until_words(&browser, 2, "answered after");

    // One whose answer crosses the cancel: half of it is written when it comes.
    let answer = format!("{}\n", result("3", "{}"));
    let (begun, rest) = answer.split_at(answer.len() / 2);
    rig.server.send_bytes(begun.as_bytes());
    cancel_on_page(&browser, 3);
    assert!(rig.server.receive().contains(r#""requestId":3"#));
    assert!(rig.client.receive().contains(&STOPPED.to_string()));
    rig.server.send_bytes(rest.as_bytes());
    until_words(&browser, 3, "answered after");
    rig.expect_client_hears_nothing();
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_turn_is_confirmed_by_its_agent_and_unknown_when_that_goes() {
    let Some(browser) = Browser::start() else { return };
    let folder = TempDir::new().expect("a folder");
    let mut rig = Rig::builder(PROGRAM).sockets(folder.path().join("shims")).start();
    greet_acp(&mut rig, "", "");
    let prompt = |id: u64, session: &str| {
        request_with(&id.to_string(), "session/prompt", &format!(r#"{{"sessionId":"{session}","prompt":[]}}"#))
    };
    pass_to_server(&mut rig, &prompt(1, "first"));
    pass_to_server(&mut rig, &prompt(2, "second"));
    let _console = Console::open(folder.path(), &browser);
    cancel_on_page(&browser, 1);
    assert!(rig.server.receive().contains("session/cancel"));
    until_words(&browser, 1, "sent; not confirmed yet");
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"cancelled"}"#));
    until_words(&browser, 1, "confirmed after");
    cancel_on_page(&browser, 2);
    assert!(rig.server.receive().contains("session/cancel"));
    rig.server.exit(1);
    until_words(&browser, 2, "connection ended");
    browser.picture("real-server-4-connection-ended");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Two servers, one of which does not care: the page stops the one and ends the other.
#[test]
fn everything_is_stopped_on_the_page_and_a_deaf_server_is_ended() {
    let Some(browser) = Browser::start() else { return };
    let folder = TempDir::new().expect("a folder");
    let open = || {
        let mut rig = Rig::builder(PROGRAM).sockets(folder.path().join("shims")).start();
        greet_mcp(&mut rig, "2025-11-25");
        let params = r#"{"name":"tool","_meta":{"progressToken":1}}"#;
        pass_to_server(&mut rig, &request_with("1", "tools/call", params));
        rig
    };
    let (mut obeys, mut deaf) = (open(), open());
    let _console = Console::open(folder.path(), &browser);
    browser.until("document.querySelectorAll('#rows tr[data-state=running]').length === 2");
    browser.press(['s']);
    browser.until("document.getElementById('stop-title').textContent === 'Stop 2 requests in 2 sessions?'");
    browser.click("#stop-send");
    for rig in [&mut obeys, &mut deaf] {
        assert!(rig.server.receive().contains("notifications/cancelled"));
        assert!(rig.client.receive().contains(&STOPPED.to_string()));
    }
    // Its answer is on the way already, and the other one works on.
    obeys.server.send(&result("1", "{}"));
    deaf.server.send(&progress("1", 2));
    browser.until("document.getElementById('stop-summary').textContent.includes('1 still working')");
    browser.until("document.getElementById('stop-summary').textContent.includes('1 finished')");
    browser.click("#stop-kill");
    deaf.server.puppet.expect_death();
    deaf.server.close();
    browser.until("document.getElementById('stop-summary').textContent.includes('1 ended')");
    browser.picture("real-server-5-ended");
    obeys.expect_client_hears_nothing();
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// A server that leaves a process behind, which repeats what it reads from the pipe `left/in` to `left/out`.
const LEAVES: &str = r#"
    setsid sh -c "$ECHO" worker "$FOLDER/left" &
    read started <"$FOLDER/started"
"#;

/// Repeats what it reads from a pipe, and ends with it. The other side of the output learns of its end.
const ECHO: &str = r#"exec 3<"$1/in" >"$1/out"; echo ready; while read line <&3; do echo "$line"; done"#;

/// What was left behind, or its double, as itself tells.
struct Echo {
    input: File,
    output: Lines<BufReader<File>>,
}

impl Echo {
    /// Opens its pipes, once `start` has started it.
    fn open(folder: &Path, start: impl FnOnce() -> Child) -> (Self, Ours) {
        std::fs::create_dir(folder).expect("a folder");
        for name in ["in", "out"] {
            mknodat(CWD, folder.join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        }
        let child = Ours(start());
        let input = File::options().write(true).open(folder.join("in")).expect("its input");
        let output = BufReader::new(File::open(folder.join("out")).expect("its output")).lines();
        let mut echo = Self { input, output };
        assert_eq!(echo.line().as_deref(), Some("ready"));
        (echo, child)
    }

    /// The next line that it says; none once it has ended.
    fn line(&mut self) -> Option<String> {
        self.output.next().map(|line| line.expect("a line"))
    }

    fn works(&mut self) -> bool {
        // One that has ended does not read.
        let _ = self.input.write_all(b"here\n");
        self.line().as_deref() == Some("here")
    }
}

#[test]
fn what_a_session_has_left_is_ended_from_the_page_and_its_double_lives() {
    let Some(browser) = Browser::start() else { return };
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    mknodat(CWD, path("started"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let (mut left, mut shim) = Echo::open(&path("left"), || {
        let mut command = rescind(folder.path());
        command.args(["run", "sh", "-c", LEAVES]).env("ECHO", ECHO).env("FOLDER", folder.path());
        command.spawn().expect("a shim")
    });
    let (mut double, _double) = Echo::open(&path("double"), || {
        Command::new("setsid").args(["sh", "-c", ECHO, "worker"]).arg(path("double")).spawn().expect("a double")
    });
    let mut live = Client::open(folder.path(), &path("marks"));
    let _console = Console::open(folder.path(), &browser);

    // While its session runs it is listed there, and cannot be ended. By keys alone.
    browser.until("document.getElementById('totals-calm').textContent.includes('2 sessions')");
    browser.press(['o']);
    let pid = "[...document.querySelectorAll('#processes-list tr')].find((row) => row.innerText.includes('/left'))";
    browser.until(&format!("{pid}.closest('section').innerText.includes('running; client: suite')"));
    browser.until("document.getElementById('processes-end').disabled");
    browser.picture("processes-1-running");

    std::fs::write(path("started"), "\n").expect("a server that waits");
    shim.0.wait().expect("its end");
    browser.until(&format!("{pid}.closest('section.is-left').innerText.includes('it has left 1 process')"));
    browser.until("document.querySelector('#processes-list section').className === 'is-left'");
    browser.until("document.getElementById('totals-left').textContent.includes('1 process left')");
    // The first press of Enter on the question must not end anything.
    browser.click("#processes-end");
    let question = "document.getElementById('processes-question').textContent";
    browser.until(&format!("{question}.startsWith('End 1 process of 1 ended session')"));
    browser.picture("processes-2-question");
    browser.press([key::ENTER]);
    browser.until(&format!("{question} === ''"));
    assert!(left.works() && double.works());

    browser.click("#processes-end");
    browser.click("#processes-send");
    browser.until("document.querySelector('#processes-ended li')?.innerText.includes('✓ ended')");
    browser.picture("processes-3-ended");
    assert!(!left.works());
    assert!(double.works());
    browser.until("document.getElementById('totals-left').textContent === ''");
    browser.until("document.getElementById('processes-end').disabled");
    // The session that runs was not touched.
    live.call(1, "quick");
    live.answer(1);
    browser.press([key::ESCAPE]);
    browser.until("!document.getElementById('processes').open");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
