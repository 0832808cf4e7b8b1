//! One scenario: run directly and through the shim, printed side by side.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::parts::{Client, Server, missing};
use super::recording::Recording;
use super::story::Story;
use super::table::table;

/// After this a run is killed, so that nothing hangs; no run that works comes near it.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// How long a client waits for what may never come. Without the shim much never comes, and nothing is
/// asserted; through the shim it comes by its own event, however slow the machine.
pub(crate) const PATIENCE_DIRECT: &str = "4000";
pub(crate) const PATIENCE_SHIM: &str = "25000";

/// A scenario of `peers/README.md` with the two that play it.
pub(crate) struct Scenario {
    name: &'static str,
    client: Client,
    server: Server,
    flags: &'static [&'static str],
}

impl Scenario {
    pub(crate) fn new(name: &'static str, client: Client, server: Server) -> Self {
        Self { name, client, server, flags: &[] }
    }

    /// Flags for the shim.
    pub(crate) fn with(self, flags: &'static [&'static str]) -> Self {
        Self { flags, ..self }
    }

    /// Runs it through the shim; with `RESCIND_COMPARE` in the environment also without, and prints both. As
    /// [`both`](Self::both) otherwise.
    pub(crate) fn play(&self) -> Option<Story> {
        match compares() {
            true => self.both().map(|[_, shim]| shim),
            false => self.alone(),
        }
    }

    /// Runs it without the shim and through it, and prints both. `None`, after a line that says so, if a part is not
    /// installed.
    ///
    /// Panics if a run had to be killed or its client failed, and for a missing part if
    /// `RESCIND_REQUIRE_PEERS` is set.
    pub(crate) fn both(&self) -> Option<[Story; 2]> {
        let title = self.installed()?;
        // Mostly waiting: the two share a machine well.
        let (direct, shim) = thread::scope(|scope| {
            let direct = scope.spawn(|| self.run(&self.server.command(), PATIENCE_DIRECT));
            let shim = self.run_through_shim();
            (direct.join().unwrap(), shim)
        });
        say(&table(&title, &direct, &shim));
        assert!(direct.ended(), "{title}: did not run without the shim: {direct:?}");
        check_shim(&title, &shim);
        Some([direct, shim])
    }

    /// As [`both`](Self::both), but only through the shim.
    pub(crate) fn alone(&self) -> Option<Story> {
        let title = self.installed()?;
        let shim = self.run_through_shim();
        check_shim(&title, &shim);
        Some(shim)
    }

    /// What is played, in words; `None` if a part is not installed.
    fn installed(&self) -> Option<String> {
        let title = format!("{}: {}, {}", self.name, self.client.name(), self.server.name());
        let Some(part) = missing(self.client, self.server) else { return Some(title) };
        assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{title}: {part}");
        skip(part);
        None
    }

    fn run_through_shim(&self) -> Story {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recording");
        let mut command = vec![env!("CARGO_BIN_EXE_rescind"), "run", "--record", file.to_str().unwrap()];
        command.extend(self.flags);
        command.push("--");
        let shim: Vec<String> = command.into_iter().map(str::to_owned).collect();
        let story = self.run(&[shim, self.server.command()].concat(), PATIENCE_SHIM);
        story.recorded(Recording::parse(&read(&file)))
    }

    fn run(&self, server: &[String], patience: &str) -> Story {
        let folder = tempfile::tempdir().unwrap();
        let [marks, out, err] = ["marks", "out", "err"].map(|name| folder.path().join(name));
        let client = self.client.command();
        let mut child = Command::new(&client[0])
            .args(&client[1..])
            .args([self.name, "--"])
            .args(server)
            .env("RESCIND_MARKS", &marks)
            .env("RESCIND_PATIENCE_MS", patience)
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        let group = Pid::from_child(&child);
        let (done, ended) = mpsc::channel();
        thread::spawn(move || done.send(child.wait().unwrap()));
        let in_time = ended.recv_timeout(BOUND).is_ok();
        if !in_time {
            kill_group(group);
            ended.recv().unwrap();
        }
        Story::new(in_time, &read(&out), &read(&err), &read(&marks))
    }
}

/// Whether it is to be seen how things go without the shim, although nothing is asserted of that.
pub(crate) fn compares() -> bool {
    std::env::var_os("RESCIND_COMPARE").is_some()
}

fn check_shim(title: &str, story: &Story) {
    assert!(story.ended(), "{title}: did not run through the shim: {story:?}");
    assert!(story.recording().is_complete(), "{title}: the shim did not come to its own end: {story:?}");
    assert_eq!(story.recording().invalid(), None, "{title}: {story:?}");
}

/// One line for each part that is missing, however many scenarios need it.
pub(crate) fn skip(part: String) {
    static SKIPPED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = format!("skipped: real peers: {part}\n");
    if SKIPPED.lock().unwrap().insert(part) {
        say(&line);
    }
}

pub(crate) fn kill_group(leader: Pid) {
    let killed = kill_process_group(leader, Signal::KILL);
    say(&format!("killed: group {leader:?}: {killed:?}\n"));
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Past the capture of the test harness: the comparison is wanted of tests that pass, too.
pub(crate) fn say(text: &str) {
    std::io::stdout().lock().write_all(text.as_bytes()).unwrap();
}
