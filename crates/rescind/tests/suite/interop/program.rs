//! A program of an SDK, at the other end of its stdio.

use std::{future::Future, process::Stdio, sync::mpsc, thread, time::Duration};

use rescind::peer::{
    Transport,
    transport::child::{Child, child},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{ChildStderr, Command},
    sync::oneshot,
};

use super::journal::{Journal, Teller, journal};

/// After this a test is given up, so that nothing hangs; none that works comes near it.
const BOUND: Duration = Duration::from_secs(60);

/// A process at the other end of a connection of ours, which ends it.
pub(crate) struct Program {
    child: Child,
    pub(crate) journal: Journal,
}

impl Program {
    pub(crate) fn start(command: &[String]) -> (Self, Transport) {
        let (transport, child) = child(to_run(command)).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let journal = listen(child.take_stderr().unwrap());
        (Self { child, journal }, transport)
    }

    /// Waits for its exit, which is its own.
    pub(crate) async fn exited(mut self) {
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "{status}: {:?}", self.journal.events("stderr"));
    }
}

/// A program that speaks a protocol on stdio, and tells its marks on stderr.
pub(crate) fn to_run(command: &[String]) -> Command {
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).env("RESCIND_MARKS", "/dev/stderr").stderr(Stdio::piped());
    program
}

/// What a program tells on stderr.
pub(crate) fn listen(stderr: ChildStderr) -> Journal {
    let (journal, teller) = journal();
    tokio::spawn(async move {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            note(&teller, &line);
        }
    });
    journal
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
