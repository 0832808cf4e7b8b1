//! The stand-in for `docker`, and sessions whose command it is.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rescind_ledger::{
    container::MARK_LABEL,
    identity::ProcessId,
    mark::{MARK_VARIABLE, Mark},
    record::Record,
};
use rescind_testkit::container_engine::Mode;
use serde_json::Value;
use tempfile::TempDir;

use super::worker::{ECHO, Worker};

/// An engine of its own, and the directory of the sessions' sockets beside which their records lie. Dropping it ends its
/// containers.
pub(crate) struct Engine {
    folder: TempDir,
    sockets: PathBuf,
}

impl Engine {
    pub(crate) fn new(sockets: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let build = std::env::current_exe().unwrap();
        let stand_in = build.parent().unwrap().with_file_name("examples").join("stand_in_engine");
        assert!(stand_in.exists(), "{} is missing: cargo build --examples", stand_in.display());
        symlink(stand_in, folder.path().join("docker")).unwrap();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(sockets).unwrap();
        Self { folder, sockets: sockets.to_owned() }
    }

    /// What sessions call it by.
    pub(crate) fn program(&self) -> String {
        self.folder.path().join("docker").to_str().unwrap().to_owned()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        // The stand-in complains of a container that is removed while it ends.
        command.args(words).stderr(Stdio::null());
        command
    }

    /// From now on it fails in this way, or works again.
    pub(crate) fn set(&self, mode: Option<Mode>) {
        match mode {
            Some(mode) => mode.set(self.folder.path()).unwrap(),
            None => fs::remove_file(self.folder.path().join("mode")).unwrap(),
        }
    }

    /// Waits until it is asked, while it is silent; returns the command, which runs until whoever asks gives up.
    pub(crate) fn expect_question(&self) -> ProcessId {
        let begun = Instant::now();
        loop {
            let asked = fs::read_to_string(self.folder.path().join("asked")).unwrap_or_default();
            if let Some(command) = asked.parse().ok().and_then(ProcessId::of) {
                return command;
            }
            assert!(begun.elapsed() < Duration::from_secs(30));
            std::thread::yield_now();
        }
    }

    /// The record of a session whose command is this engine with these words.
    pub(crate) fn record(&self, mark: Mark, session: &str, words: &[&str]) {
        let command = [vec![self.program()], words.iter().map(|&word| word.to_owned()).collect()].concat();
        let record = Record::new(mark, session.to_owned(), command, 5);
        fs::write(self.sockets.join(record.file_name()), serde_json::to_vec(&record).unwrap()).unwrap();
    }

    /// Starts a container with this name, and a mark if one is given; returns its id, too.
    pub(crate) fn run(&self, mark: Option<Mark>, name: &str) -> (Worker, String) {
        let label = mark.map_or_else(|| "a=b".to_owned(), |mark| format!("{MARK_LABEL}={mark}"));
        let words = ["run", "-i", "--rm", "--name", name, "--label", &label, "some/image", "sh", "-c", ECHO];
        let worker = Worker::start(self.command(&words));
        let inspected = self.command(&["inspect", "--type", "container", name]).output().unwrap();
        let inspected: Value = serde_json::from_slice(&inspected.stdout).unwrap();
        (worker, inspected[0]["Id"].as_str().unwrap().to_owned())
    }

    /// Starts a process in the container with this name.
    pub(crate) fn exec(&self, mark: Mark, name: &str) -> Worker {
        let variable = format!("{MARK_VARIABLE}={mark}");
        Worker::start(self.command(&["exec", "-i", "--env", &variable, name, "sh", "-c", ECHO]))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.path().join("mode"));
        let Ok(ids) = self.command(&["ps", "--all", "--quiet"]).output() else { return };
        for id in String::from_utf8_lossy(&ids.stdout).lines() {
            let _ = self.command(&["rm", "--force", id]).output();
        }
    }
}

/// A mark whose shim has ended.
pub(crate) fn of_a_dead_shim() -> Mark {
    let mark = Mark::next().unwrap();
    Mark { shim: ProcessId { start: mark.shim.start - 1, ..mark.shim }, ..mark }
}
