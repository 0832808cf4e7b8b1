//! What one run showed: the lines of the caller, the marks of the work, the shim's recording.

use std::fmt;

use rustix::process::{Pid, test_kill_process};
use serde_json::Value;

use super::recording::Recording;

/// One run of a scenario; its `Debug` form is what a failed test prints.
pub(crate) struct Story {
    in_time: bool,
    stderr: String,
    caller: Vec<Value>,
    marks: Vec<Value>,
    recording: Recording,
}

impl Story {
    pub(crate) fn new(in_time: bool, stdout: &str, stderr: &str, marks: &str) -> Self {
        Self {
            in_time,
            stderr: stderr.to_owned(),
            caller: lines(stdout),
            marks: lines(marks),
            recording: Recording::default(),
        }
    }

    pub(crate) fn recorded(self, recording: Recording) -> Self {
        Self { recording, ..self }
    }

    pub(crate) fn recording(&self) -> &Recording {
        &self.recording
    }

    /// What the caller did and saw, line by line.
    pub(crate) fn caller(&self) -> &[Value] {
        &self.caller
    }

    /// Whether the client came to its own end.
    pub(crate) fn ended(&self) -> bool {
        self.in_time && self.caller.iter().any(|line| line["did"] == "end")
    }

    /// Calls in the order they were made.
    pub(crate) fn calls(&self) -> Vec<&str> {
        let mut calls: Vec<&str> = Vec::new();
        for call in self.caller.iter().filter_map(|line| line["call"].as_str()) {
            if !calls.contains(&call) {
                calls.push(call);
            }
        }
        calls
    }

    /// How `call` settled, as often as it did: `result TEXT`, `error CODE MESSAGE`, `cancelled`.
    pub(crate) fn outcomes(&self, call: &str) -> Vec<String> {
        self.seen(&["result", "error", "cancelled"]).filter(|line| line["call"] == call).map(outcome).collect()
    }

    /// The error that settled `call`.
    pub(crate) fn error(&self, call: &str) -> Option<&Value> {
        self.seen(&["error"]).find(|line| line["call"] == call)
    }

    /// Ticks of `call` that reached the caller after it had settled.
    pub(crate) fn late_progress(&self, call: &str) -> usize {
        let settled = |line: &&Value| line["saw"] != "progress" && line["saw"].is_string();
        self.caller
            .iter()
            .filter(|line| line["call"] == call)
            .skip_while(|line| !settled(line))
            .filter(|line| line["saw"] == "progress")
            .count()
    }

    /// Messages the SDK could not place and complained about.
    pub(crate) fn callbacks(&self) -> Vec<&str> {
        self.seen(&["callback"]).map(|line| line["message"].as_str().unwrap_or_default()).collect()
    }

    /// The same, before the client did something for the first time.
    pub(crate) fn callbacks_before(&self, what: &str) -> Vec<&str> {
        let before = self.caller.iter().take_while(|line| line["did"] != what);
        before.filter(|line| line["saw"] == "callback").filter_map(|line| line["message"].as_str()).collect()
    }

    /// The revision that the client has agreed on with its server.
    pub(crate) fn revision(&self) -> Option<&str> {
        self.caller.iter().find(|line| line["did"] == "connected").and_then(|line| line["revision"].as_str())
    }

    /// The progress of `call` that reached the caller, in order.
    pub(crate) fn heard(&self, call: &str) -> Vec<f64> {
        self.seen(&["progress"]).filter(|line| line["call"] == call).filter_map(|line| line["tick"].as_f64()).collect()
    }

    /// What the server asked the client, in order.
    pub(crate) fn questions(&self) -> Vec<&str> {
        self.seen(&["asked"]).filter_map(|line| line["question"].as_str()).collect()
    }

    /// What the client waited for in vain.
    pub(crate) fn missed(&self) -> Vec<&str> {
        self.seen(&["nothing"]).filter_map(|line| line["waiting_for"].as_str()).collect()
    }

    /// Work that ran on when it should have stopped.
    pub(crate) fn running(&self) -> Vec<&str> {
        self.seen(&["running"]).filter_map(|line| line["work"].as_str()).collect()
    }

    /// What became of permission requests, in order: `asked`, `withdrawn`.
    pub(crate) fn permissions(&self) -> Vec<&str> {
        self.seen(&["permission"]).filter_map(|line| line["event"].as_str()).collect()
    }

    /// Which work stopped after the cancel of each id, in order.
    pub(crate) fn hits(&self) -> Vec<(&Value, &Value)> {
        self.seen(&["hit"]).map(|line| (&line["cancel"], &line["stopped"])).collect()
    }

    /// Answers to the raw client's own calls: id, and the error's code or null.
    pub(crate) fn answers(&self) -> Vec<(&Value, &Value)> {
        self.seen(&["answer"]).map(|line| (&line["id"], &line["code"])).collect()
    }

    /// Pieces of work in the order they started.
    pub(crate) fn works(&self) -> Vec<&str> {
        self.marks.iter().filter(|mark| mark["event"] == "started").filter_map(|mark| mark["work"].as_str()).collect()
    }

    /// All that was marked, without ticks.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &Value> {
        self.marks.iter().filter(|mark| mark["event"] != "progress")
    }

    /// What `work` marked, without its ticks.
    pub(crate) fn events(&self, work: &str) -> Vec<&str> {
        self.marks_of(work)
            .filter(|mark| mark["event"] != "progress")
            .filter_map(|mark| mark["event"].as_str())
            .collect()
    }

    /// Whether `work` has stopped, or ended with its process.
    pub(crate) fn is_over(&self, work: &str) -> bool {
        let pid = self.marks_of(work).find_map(|mark| mark["pid"].as_i64()).and_then(|pid| i32::try_from(pid).ok());
        let is_gone = pid.and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid).is_err());
        is_gone || self.events(work).contains(&"stopped")
    }

    /// Ticks that `work` marked.
    pub(crate) fn ticks(&self, work: &str) -> usize {
        self.marks_of(work).filter(|mark| mark["event"] == "progress").count()
    }

    /// The reason the work of `work` was given.
    pub(crate) fn reason(&self, work: &str) -> Option<&str> {
        self.marks_of(work).find_map(|mark| mark["reason"].as_str())
    }

    /// How the server command ended, where the client could see it.
    pub(crate) fn exit(&self) -> Option<String> {
        let line = self.seen(&["exit"]).next()?;
        Some(match line["signal"].as_str() {
            Some(signal) => signal.to_owned(),
            None => format!("code {}", line["code"]),
        })
    }

    fn marks_of(&self, work: &str) -> impl Iterator<Item = &Value> {
        self.marks.iter().filter(move |mark| mark["work"] == work)
    }

    fn seen(&self, kinds: &'static [&'static str]) -> impl Iterator<Item = &Value> {
        self.caller.iter().filter(|line| line["saw"].as_str().is_some_and(|saw| kinds.contains(&saw)))
    }
}

impl fmt::Debug for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "in time: {}", self.in_time)?;
        let parts = [("caller", &self.caller), ("work", &self.marks)];
        for (part, lines) in parts {
            writeln!(f, "{part}:")?;
            for line in lines {
                writeln!(f, "  {line}")?;
            }
        }
        writeln!(f, "recording:\n{:?}", self.recording)?;
        write!(f, "stderr:\n{}", self.stderr)
    }
}

fn outcome(line: &Value) -> String {
    let saw = line["saw"].as_str().unwrap_or_default();
    let detail = match saw {
        "result" => line["value"].as_str().unwrap_or_default().to_owned(),
        "error" => format!("{} {}", line["code"], line["message"].as_str().unwrap_or_default()),
        _ => String::new(),
    };
    format!("{saw} {detail}").trim_end().to_owned()
}

/// The JSON lines of `text`; what is no JSON (a traceback, a half line) is left out.
fn lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
