//! What was seen of a pair, judged: one cell of the table for each thing that the two did.

use super::pair::{Case, Task};
use crate::peers::story::Story;

/// A cell of the table: its word, or what is wrong.
pub(super) type Cell = Result<&'static str, String>;

/// The columns, each with the scenario that it is seen in.
pub(super) const COLUMNS: [(&str, &str); 11] = [
    ("calls", "echo"),
    ("progress", "progress"),
    ("cancel", "silent"),
    ("cancel after progress", "ticking"),
    ("timeout", "timeout"),
    ("late answer", "late-answer"),
    ("large", "large"),
    ("list change", "subscription"),
    ("task", "task"),
    ("leaves", "closing"),
    ("death", "death"),
];

/// The cell of `scenario`, which the pair has played.
pub(super) fn judge(case: Case, scenario: &str, story: &Story) -> Cell {
    match scenario {
        "progress" => progress(story),
        "silent" | "ticking" => cancelled(story, scenario),
        "timeout" => timeout(story, case.client.tells_limits()),
        "late-answer" => late(story),
        "large" => equal(story.outcomes("large"), &["result 1048576 letters"]),
        "subscription" => equal(story.outcomes("subscription"), &["result changed"]),
        "task" => task(story, case.task()),
        "closing" if story.is_over("closing") => Ok("ok"),
        "closing" => Err("the work of a client that has left goes on".to_owned()),
        _ => calls(case, story),
    }
}

fn calls(case: Case, story: &Story) -> Cell {
    if !story.ended() {
        return Err("the client did not come to its end".to_owned());
    }
    // Clients on TypeScript 1.x do not say it on stdio.
    if story.revision().is_some_and(|revision| revision != case.revision().name()) {
        return Err(format!("it speaks {:?}", story.revision()));
    }
    equal(story.missed(), &[] as &[&str])
}

fn progress(story: &Story) -> Cell {
    equal(story.outcomes("progress"), &["result finished"])?;
    // Where the result comes in the same read, the TypeScript SDK handles it first and drops the progress before it.
    let heard = story.heard("progress");
    if [1.0, 2.0, 3.0].starts_with(&heard) { Ok("ok") } else { Err(format!("progress {heard:?}")) }
}

/// The work has stopped, its caller heard nothing more of it, and the next call is answered.
fn cancelled(story: &Story, work: &str) -> Cell {
    equal(story.events(work), &["started", "stopped"])?;
    no_result(story, work)?;
    if story.late_progress(work) > 0 {
        return Err("its caller saw progress after the cancel".to_owned());
    }
    equal(story.outcomes(&format!("after {work}")), &["result echo"])
}

/// The same of a call whose limit was over. Where the client tells nobody the work goes on, and its answer harms nobody.
fn timeout(story: &Story, is_told: bool) -> Cell {
    let ends: &[&str] = if is_told { &["started", "stopped"] } else { &["started", "released", "finished"] };
    equal(story.events("timeout"), ends)?;
    let outcomes = story.outcomes("timeout");
    if outcomes.is_empty() || !outcomes.iter().all(|outcome| outcome.starts_with("error")) {
        return Err(format!("its caller saw {outcomes:?}"));
    }
    equal(story.outcomes("after timeout"), &["result echo"])?;
    Ok(if is_told { "ok" } else { "untold" })
}

/// The server answers although it was told to stop: that reaches nobody.
fn late(story: &Story) -> Cell {
    equal(story.events("late"), &["started", "told", "answered"])?;
    no_result(story, "late")?;
    equal(story.outcomes("after late"), &["result echo"])
}

fn task(story: &Story, expected: Option<Task>) -> Cell {
    let refusal = match expected {
        Some(Task::Refused) => Some(("refused", "-32601")),
        Some(Task::Undeclared) => Some(("undeclared", "-32021")),
        Some(Task::Carried) | None => None,
    };
    if let Some((word, code)) = refusal {
        let refused = story.outcomes("task refused");
        // TypeScript 2.x shows a refusal over HTTP, which is a 404 (MCP 2026-07-28), as the text of the response.
        let is_right = matches!(&refused[..], [one] if one.starts_with("error") && one.contains(code));
        return if is_right { Ok(word) } else { Err(format!("{refused:?} {:?}", story.outcomes("task"))) };
    }
    for (step, status) in [("task", "working"), ("task now", "working"), ("task cancelled", "cancelled")] {
        equal(story.outcomes(step), &[format!("result {status}")])?;
    }
    equal(story.events("task"), &["started", "stopped"])?;
    equal(story.outcomes("after task"), &["result echo"])
}

/// The server was killed: the call in flight ends with an error, and not only when its client gives up.
pub(super) fn death(story: &Story) -> Cell {
    equal(story.events("death"), &["started"])?;
    equal(story.missed(), &[] as &[&str])?;
    let outcomes = story.outcomes("death");
    if matches!(&outcomes[..], [one] if one.starts_with("error")) {
        Ok("ok")
    } else {
        Err(format!("its caller saw {outcomes:?}"))
    }
}

fn no_result(story: &Story, call: &str) -> Cell {
    let outcomes = story.outcomes(call);
    let is_right = matches!(&outcomes[..], [one] if !one.starts_with("result"));
    if is_right { Ok("ok") } else { Err(format!("its caller saw {outcomes:?}")) }
}

fn equal<T: PartialEq<U> + std::fmt::Debug, U: std::fmt::Debug>(seen: Vec<T>, expected: &[U]) -> Cell {
    if seen[..] == *expected { Ok("ok") } else { Err(format!("{seen:?}, expected {expected:?}")) }
}
