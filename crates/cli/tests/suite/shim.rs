//! What the tests of `rescind run` share.

use std::process::{Command, Stdio};

use rescind_testkit::puppet::{Shim, Transcript};
use serde_json::Value;

pub(crate) mod admin;
pub(crate) mod at_work;
pub(crate) mod process;
pub(crate) mod terminal;
pub(crate) mod words;

/// The command under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rescind");

/// Runs the command with nothing on stdin to its end: what it said on stderr, and its exit code.
pub(crate) fn run_to_end(arguments: &[&str]) -> (String, i32) {
    let sockets = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .env("RESCIND_RUNTIME_DIR", sockets.path().join("own"))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut shim = Shim::start(command, &Transcript::default());
    let said = String::from_utf8(shim.stderr.rest()).unwrap();
    (said, shim.wait().code().unwrap())
}

/// The error in this answer to the request with this id.
pub(crate) fn error_of(answer: &str, id: &str) -> Value {
    let mut answer: Value = serde_json::from_str(answer).unwrap();
    assert_eq!(answer["id"].to_string(), id, "{answer}");
    answer["error"].take()
}
