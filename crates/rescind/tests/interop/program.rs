//! A program of an SDK on the other end of two pipes.

use std::{future::Future, process::Stdio, sync::mpsc, thread, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::oneshot,
};

use crate::journal::{Journal, Teller, journal};

/// After this a test is given up, so that nothing hangs; none that works comes near it.
const BOUND: Duration = Duration::from_secs(60);

/// A child process that speaks a protocol on stdio, and tells its marks on stderr. Dropping it kills it.
pub(crate) struct Program {
    child: Child,
    pub(crate) journal: Journal,
}

impl Program {
    pub(crate) fn start(command: &[String]) -> (Self, ChildStdout, ChildStdin) {
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .env("RESCIND_MARKS", "/dev/stderr")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (journal, teller) = journal();
        tokio::spawn(async move {
            let mut lines = lines;
            while let Ok(Some(line)) = lines.next_line().await {
                note(&teller, &line);
            }
        });
        (Self { child, journal }, stdout, stdin)
    }

    /// Waits for its exit.
    pub(crate) async fn exited(mut self) {
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "{status}: {:?}", self.journal.events("stderr"));
    }
}

/// A mark, or a line that is none: kept, for whoever reads of a failure.
fn note(teller: &Teller, line: &str) {
    let mark: Value = serde_json::from_str(line).unwrap_or_default();
    match (mark["work"].as_str(), mark["event"].as_str()) {
        (Some(work), Some(event)) => teller.tell(work, event, mark.clone()),
        _ => teller.tell("stderr", line, Value::Null),
    }
}

/// Runs a test for no longer than the bound, by a clock that no test moves.
pub(crate) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    let (_done, ends) = mpsc::channel::<()>();
    let (ring, rings) = oneshot::channel();
    thread::spawn(move || {
        if ends.recv_timeout(BOUND) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = ring.send(());
        }
    });
    tokio::select! {
        done = test => done,
        Ok(()) = rings => panic!("given up after {BOUND:?}"),
    }
}

/// Lets the clocks of our side run for `time`, at once.
pub(crate) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
