//! `rescind demo`, run as a person runs it, and what each row must say.

use std::{
    fs,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

/// After this a run is killed, so that nothing hangs; no run that works comes near it.
const BOUND: Duration = Duration::from_secs(60);

/// Set for the demo, and so for every process that it starts: by this they are found.
const TRACE: &str = "RESCIND_DEMO_TRACE";

struct Run {
    status: ExitStatus,
    stdout: String,
    stderr: String,
    folder: TempDir,
}

impl Run {
    fn of(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_rescind"))
            .arg("demo")
            .args(flags)
            .current_dir(&folder)
            .env("TMPDIR", folder.path())
            .env(TRACE, folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pipes = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let (stdout, stderr) = pipes;
            let stderr = thread::spawn(move || std::io::read_to_string(stderr).unwrap());
            ended.send((std::io::read_to_string(stdout).unwrap(), stderr.join().unwrap()))
        });
        let Ok((stdout, stderr)) = end.recv_timeout(BOUND) else {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("killed after {BOUND:?}");
        };
        Self { status: child.wait().unwrap(), stdout, stderr, folder }
    }

    fn story(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

fn piece<'a>(act: &'a Value, name: &str) -> &'a Value {
    act["rows"].as_array().unwrap().iter().find(|row| row["piece"] == name).unwrap()
}

fn call<'a>(story: &'a Value, tool: &str) -> &'a Value {
    story["calls"].as_array().unwrap().iter().find(|call| call["tool"] == tool).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn one_stop_ends_the_work_of_every_hop() {
    let run = Run::of(&["--json"]);
    let story = &run.story()["stop"];
    assert_eq!(story["unexpected"], serde_json::json!([]), "{story:#}");
    assert_eq!(run.status.code(), Some(0));
    assert_eq!(run.stderr, "");

    for name in ["prompt", "build", "make", "compiler", "search", "permission"] {
        let row = piece(story, name);
        assert!(number(&row["startedMs"]) < number(&story["stopMs"]), "{row:#}");
        assert!(number(&row["toldMs"]) >= number(&story["stopMs"]), "{row:#}");
        assert!(number(&row["stoppedMs"]) >= number(&row["toldMs"]), "{row:#}");
        assert_eq!(row["stepsAfterTold"], 0, "{row:#}");
    }
    for name in ["make", "compiler", "search"] {
        assert!(number(&piece(story, name)["steps"]) >= 4.0, "it worked before Stop: {story:#}");
    }

    let prompt = piece(story, "prompt");
    assert_eq!(prompt["cancels"].as_array().unwrap().len(), 1);
    assert_eq!(prompt["cancels"][0]["method"], "session/cancel");
    assert_eq!(prompt["answers"][0]["answer"], serde_json::json!({"stopReason": "cancelled"}));
    assert_eq!(prompt["receipt"]["outcome"], "confirmed");

    for name in ["build", "search"] {
        let tool = piece(story, name);
        assert_eq!(tool["parent"], "prompt");
        assert_eq!(tool["cancels"].as_array().unwrap().len(), 1);
        assert_eq!(tool["cancels"][0]["method"], "notifications/cancelled");
        assert_eq!(tool["answers"], serde_json::json!([]));
        // In MCP the wire shows no more than that the cancel was sent.
        assert_eq!(tool["receipt"]["outcome"], "sent");
        assert!(number(&tool["toldMs"]) >= number(&tool["cancels"][0]["atMs"]));
    }

    let (make, compiler) = (piece(story, "make"), piece(story, "compiler"));
    assert_eq!((&make["parent"], &compiler["parent"]), (&"build".into(), &"make".into()));
    assert_eq!(make["exit"], serde_json::json!({"code": 143, "signal": null}));
    assert!(number(&make["stoppedMs"]) >= number(&compiler["stoppedMs"]));
    assert!(number(&piece(story, "build")["stoppedMs"]) >= number(&make["stoppedMs"]));

    let permission = piece(story, "permission");
    let answer = serde_json::json!({"outcome": {"outcome": "cancelled"}});
    assert_eq!(permission["answers"][0]["answer"], answer);
    assert_eq!(permission["answers"].as_array().unwrap().len(), 1);

    assert!(number(&story["wentOnMs"]) > 0.0);
    assert_eq!(story["end"], serde_json::json!({"exitCode": 0, "leftBehind": false}));
}

#[test]
fn each_call_ends_as_its_tool_would_have_it() {
    let run = Run::of(&["--json"]);
    let story = &run.story()["shim"];
    assert_eq!(story["unexpected"], serde_json::json!([]), "{story:#}");
    assert_eq!(run.status.code(), Some(0));
    assert_eq!(run.stderr, "");

    let quick = call(story, "quick");
    assert_eq!(quick["work"]["end"], "finished");
    assert_eq!(quick["client"]["answers"][0]["error"], Value::Null);
    assert_eq!(quick["cancel"], Value::Null);
    assert_eq!(quick["receipt"], Value::Null);

    let obeys = call(story, "obeys");
    assert_eq!(obeys["cancel"]["by"], "client");
    assert_eq!(obeys["work"]["end"], "stopped");
    assert!(number(&obeys["work"]["endedMs"]) >= number(&obeys["work"]["toldMs"]));
    assert!(number(&obeys["work"]["toldMs"]) >= number(&obeys["cancel"]["atMs"]));
    assert_eq!(obeys["client"]["answers"], serde_json::json!([]));
    // In MCP the wire shows no more than that the cancel was sent.
    assert_eq!(obeys["receipt"]["outcome"], "sent");
    assert!(number(&obeys["receipt"]["writtenMs"]) >= number(&obeys["receipt"]["askedMs"]));

    let ignores = call(story, "ignores");
    assert_eq!(ignores["work"]["end"], "finished");
    assert!(number(&ignores["work"]["endedMs"]) > number(&ignores["work"]["toldMs"]));
    assert_eq!(ignores["client"]["answers"], serde_json::json!([]));
    assert_eq!(ignores["swallowed"]["answers"], 1);
    let passed_and_swallowed = number(&ignores["client"]["progress"]) + number(&ignores["swallowed"]["progress"]);
    assert_eq!(passed_and_swallowed, number(&ignores["work"]["progress"]));
    assert!(number(&ignores["swallowed"]["progress"]) > 0.0);
    assert_eq!(ignores["receipt"]["outcome"], "answered_after");
    assert_eq!(ignores["receipt"]["answer"], "result");

    let crosses = call(story, "crosses");
    assert!(number(&crosses["work"]["answeringMs"]) <= number(&crosses["cancel"]["atMs"]));
    assert_eq!(crosses["client"]["answers"], serde_json::json!([]));
    assert_eq!(crosses["swallowed"]["answers"], 1);
    assert_eq!(crosses["receipt"]["outcome"], "answered_after");

    let sleepy = call(story, "sleepy");
    assert_eq!(sleepy["cancel"]["by"], "shim");
    assert_eq!(sleepy["work"]["end"], "stopped");
    assert_eq!(sleepy["client"]["answers"][0]["error"]["code"], -31001);
    assert_eq!(sleepy["client"]["answers"][0]["error"]["data"]["clock"], "response");
    assert_eq!(sleepy["receipt"]["cause"], "timeout");

    let dies = call(story, "dies");
    assert_eq!(dies["work"]["end"], "exited");
    assert_eq!(dies["client"]["answers"][0]["error"]["code"], -31002);
    assert_eq!(dies["client"]["answers"][0]["error"]["data"]["exitCode"], 3);

    assert!(number(&story["pingMs"]) > 0.0);
    assert_eq!(story["end"], serde_json::json!({"exitCode": 3, "leftBehind": false}));
}

#[test]
fn piped_output_is_plain_text_that_fits_a_page() {
    let run = Run::of(&[]);
    assert_eq!(run.status.code(), Some(0), "{}{}", run.stdout, run.stderr);
    assert!(!run.stdout.contains('\x1b'), "{:?}", run.stdout);
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 96), "{}", run.stdout);
    assert!(run.stdout.lines().count() <= 50, "{}", run.stdout);
    for row in ["prompt", "├ tool build", "│ └ make", "│   └ compiler", "├ tool search", "└ permission"] {
        assert!(run.stdout.contains(row), "{row}: {}", run.stdout);
    }
    for row in ["1 quick", "2 obeys", "3 ignores", "4 crosses", "5 sleepy", "6 dies"] {
        assert!(run.stdout.contains(row), "{row}: {}", run.stdout);
    }
}

#[test]
fn nothing_is_left_behind() {
    let run = Run::of(&[]);
    assert_eq!(fs::read_dir(&run.folder).unwrap().count(), 0);
    if cfg!(target_os = "linux") {
        let (name, value) = std::env::vars().next().unwrap();
        assert!(!processes_with(&format!("{name}={value}")).is_empty(), "this process would not be found either");
    }
    let trace = format!("{TRACE}={}", run.folder.path().display());
    assert_eq!(processes_with(&trace), Vec::<String>::new());
}

/// The command lines of processes that have `variable` in their environment. A zombie has none.
fn processes_with(variable: &str) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter(|process| {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == variable.as_bytes())
        })
        .map(|process| fs::read_to_string(process.path().join("cmdline")).unwrap_or_default().replace('\0', " "))
        .collect()
}
