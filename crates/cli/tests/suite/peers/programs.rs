//! Real programs with their server, without the shim and through it: what is seen has to be the same.

use std::fmt;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::parts::{not_installed, text};
use super::play::{BOUND, PATIENCE_SHIM, kill_group, read, say, skip};

const RESCIND: &str = env!("CARGO_BIN_EXE_rescind");

/// A program with its server, and what it cannot do without.
pub(crate) struct Program<'a> {
    pub(crate) title: &'a str,
    /// Folders of `peers/`.
    pub(crate) folders: &'a [&'a str],
    /// Commands of the system.
    pub(crate) commands: &'a [&'a str],
    /// The shim's own words, before the server's command.
    pub(crate) shim: &'a [&'a str],
}

impl Program<'_> {
    /// Runs it without the shim and through it, and gives both. `None`, after a line that says so, if a part is not
    /// installed; that is a failure if `RESCIND_REQUIRE_PEERS` is set.
    pub(crate) fn both(&self, run: impl Fn(&Bench) -> Seen + Sync) -> Option<[Seen; 2]> {
        if let Some(part) = not_installed(self.folders, self.commands) {
            assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{}: {part}", self.title);
            skip(part);
            return None;
        }
        let shim = [&[RESCIND], self.shim].concat();
        let [direct, shim] = thread::scope(|scope| {
            [&[], &shim[..]].map(|words| scope.spawn(|| run(&Bench::new(words)))).map(|way| way.join().unwrap())
        });
        say(&format!("\n{}\n  without the shim\n{direct}  through the shim\n{shim}", self.title));
        Some([direct, shim])
    }

    /// As [`both`](Self::both); panics if anything that was seen is not the same.
    pub(crate) fn same(&self, run: impl Fn(&Bench) -> Seen + Sync) -> Option<Seen> {
        let [direct, shim] = self.both(run)?;
        assert_eq!(direct, shim, "{}: through the shim (right) it is not as without", self.title);
        Some(shim)
    }
}

/// What can be seen of a run.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// How the program ended.
    pub(crate) exit: String,
    /// What it printed; JSON without what differs between any two runs.
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: Vec<String>,
    /// What the server's work marked: `WORK EVENT`.
    pub(crate) marks: Vec<String>,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    exit    {}", self.exit)?;
        for (name, lines) in [("stdout", &self.stdout), ("stderr", &self.stderr), ("work", &self.marks)] {
            for line in lines {
                writeln!(f, "    {name:7} {line}")?;
            }
        }
        Ok(())
    }
}

/// A folder of its own for one run, and what stands before its server's command.
pub(crate) struct Bench {
    folder: TempDir,
    shim: Vec<String>,
}

impl Bench {
    pub(crate) fn new(shim: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, shim: shim.iter().map(|word| (*word).to_owned()).collect() }
    }

    /// The command by which the server is started.
    pub(crate) fn server(&self, command: Vec<String>) -> Vec<String> {
        [self.shim.clone(), command].concat()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that finds nothing of the machine's user, and whose server marks what it does.
    pub(crate) fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("RESCIND_RUNTIME_DIR", self.file("run"))
            .env("RESCIND_MARKS", self.file("marks"))
            .env("RESCIND_PATIENCE_MS", PATIENCE_SHIM)
            .stdin(Stdio::null())
            .process_group(0);
        for (name, folder) in [("XDG_CACHE_HOME", "cache"), ("XDG_STATE_HOME", "state"), ("XDG_DATA_HOME", "data")] {
            command.env(name, self.file(folder));
        }
        command
    }

    /// Starts `command`, its output in the files `NAME.out` and `NAME.err`.
    pub(crate) fn start(&self, name: &str, mut command: Command) -> Started {
        let [stdout, stderr] = ["out", "err"].map(|kind| self.file(&format!("{name}.{kind}")));
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        Started { child: command.spawn().unwrap(), stdout, stderr }
    }

    pub(crate) fn run(&self, name: &str, command: Command) -> Ended {
        self.start(name, command).wait()
    }

    /// What was seen of a program that printed `results`.
    pub(crate) fn seen(&self, exit: String, results: &str, errors: &str) -> Seen {
        let marks = read(&self.file("marks"));
        let marks = marks.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        Seen {
            exit,
            stdout: results.lines().map(timeless).collect(),
            stderr: errors.lines().map(|line| self.nameless(line)).collect(),
            marks: marks
                .filter(|mark| mark["event"] != "progress")
                .map(|mark| format!("{} {}", mark["work"].as_str().unwrap(), mark["event"].as_str().unwrap()))
                .collect(),
        }
    }

    /// A line without the names that two runs do not share: the shim's command, folders, numbers and keys.
    fn nameless(&self, line: &str) -> String {
        let mut line = line.replace(&text(self.folder.path()), "FOLDER");
        for shim in [&self.shim[..], self.shim.strip_suffix(&["--".to_owned()]).unwrap_or_default()] {
            let words: String = shim.iter().map(|word| format!("{word} ")).collect();
            line = if words.is_empty() { line } else { line.replace(&words, "") };
        }
        let runs = line.split_inclusive(|letter: char| !letter.is_ascii_hexdigit());
        runs.map(|run| {
            let hex = run.trim_end_matches(|letter: char| !letter.is_ascii_hexdigit());
            let number = hex.contains(|letter: char| letter.is_ascii_digit());
            if number { run.replacen(hex, "#", 1) } else { run.to_owned() }
        })
        .collect()
    }
}

/// A JSON object with its members in one order and without numbers of lines and times; anything else as it is.
fn timeless(line: &str) -> String {
    match serde_json::from_str(line) {
        Ok(Value::Object(mut members)) => {
            members.retain(|name, _| name != "n" && name != "ms");
            Value::Object(members).to_string()
        }
        _ => line.to_owned(),
    }
}

/// A program that runs; killed with its group when dropped.
pub(crate) struct Started {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Started {
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// What it has printed on stderr so far.
    pub(crate) fn said(&self) -> String {
        read(&self.stderr)
    }

    pub(crate) fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Waits until `find` gives something of what it has printed on stderr.
    pub(crate) fn until<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> T {
        let found = self.waits_for(find);
        found.unwrap_or_else(|| panic!("{:?}: {}{}", self.child.try_wait(), read(&self.stdout), self.said()))
    }

    /// The same; `None` if it has ended, or is very late.
    pub(crate) fn waits_for<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> Option<T> {
        let begun = Instant::now();
        loop {
            let has_ended = self.child.try_wait().unwrap().is_some();
            let found = find(&self.said());
            if found.is_some() || has_ended || begun.elapsed() > BOUND {
                return found;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn wait(mut self) -> Ended {
        let group = Pid::from_child(&self.child);
        let (done, ended) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| done.send(self.child.wait().unwrap()));
            let in_time = ended.recv_timeout(BOUND);
            let status = in_time.or_else(|_| {
                kill_group(group);
                ended.recv()
            });
            Ended { exit: words(status.unwrap()), stdout: read(&self.stdout), stderr: read(&self.stderr) }
        })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            kill_group(Pid::from_child(&self.child));
            let _ = self.child.wait();
        }
    }
}

/// A program that has ended.
pub(crate) struct Ended {
    pub(crate) exit: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("code {code}"),
        (None, signal) => format!("signal {}", signal.unwrap()),
    }
}
