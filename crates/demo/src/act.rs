//! What both acts have in common.

use std::error::Error;

use serde::Serialize;

use crate::paint::{Ink, Paint, wrapped};

/// The end of the session of an act.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct End {
    /// Of the process that was started first; `null` if a signal killed it or it did not exit in time.
    pub(crate) exit_code: Option<i32>,
    /// Whether a process still held a pipe of the session.
    pub(crate) left_behind: bool,
}

impl End {
    /// Lists what is wrong however far the script got.
    pub(crate) fn unexpected(&self, unreadable: &[String]) -> Vec<String> {
        let left = self.left_behind.then(|| "no process may be left behind".to_owned());
        left.into_iter().chain(unreadable.iter().map(|line| format!("unreadable: {line}"))).collect()
    }
}

/// Names what does not hold of one piece of the work.
pub(crate) fn unmet(name: &str, expectations: Vec<(&str, bool)>) -> impl Iterator<Item = String> {
    expectations.into_iter().filter(|(_, holds)| !holds).map(move |(what, _)| format!("{name}: {what}"))
}

/// Lists what is wrong with what was played. After an error, that alone: what else is missing follows from it.
pub(crate) fn unexpected(played: Result<(), impl Error>, of_script: impl FnOnce() -> Vec<String>) -> Vec<String> {
    played.map_or_else(|error| vec![error.to_string()], |()| of_script())
}

/// Writes the last lines of an act: the summary, if it went as expected.
pub(crate) fn closing(unexpected: &[String], summary: &str, paint: Paint) -> String {
    if unexpected.is_empty() {
        return format!("  {}\n", wrapped(summary, 2, paint.width));
    }
    let mut text = paint.text(Ink::Bad, "  not as expected") + "\n";
    for sentence in unexpected {
        text += &format!("  - {}\n", wrapped(sentence, 4, paint.width));
    }
    text
}
