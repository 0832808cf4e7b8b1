//! Marks: what the work itself says happened, one JSON line each, in the file named by `RESCIND_MARKS`.

use std::{fs::File, io::Write};

use serde_json::Value;

pub(crate) fn mark(work: &str, event: &str, mut more: Value) {
    let Some(path) = std::env::var_os("RESCIND_MARKS") else { return };
    more["work"] = work.into();
    more["event"] = event.into();
    more["pid"] = std::process::id().into();
    // One write, so that it stays one line beside those of others.
    let written = File::options()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(format!("{more}\n").as_bytes()));
    written.expect("marks can be written");
}
