//! What is known of each cancel, in words that claim no more than was observed (D28).

use super::story::{Call, Cancel, Canceller, Story, WorkEnd};
use crate::{
    ms::{Ms, lapse},
    paint::{Ink, Paint, wrapped},
};

/// Columns before what is said of a call.
const INDENT: usize = 13;

pub(super) fn write(story: &Story, paint: Paint) -> String {
    if story.calls.iter().all(|call| call.cancel.is_none()) {
        return paint.text(Ink::Faint, "  no receipts: nothing was cancelled") + "\n";
    }
    let heading = "receipts: what the wire showed of each cancel (MCP confirms none), and the work's own mark";
    let mut text = paint.text(Ink::Faint, format!("  {}", wrapped(heading, 2, paint.width))) + "\n";
    for call in &story.calls {
        let Some(cancel) = &call.cancel else { continue };
        let name = paint.text(Ink::Name, format!("{:<8}", call.tool.name()));
        let known = format!("{}: {}. {}.", asked(cancel), outcome(call), work(call));
        text += &format!("  {} {name} {}\n", call.id, wrapped(&known, INDENT, paint.width));
    }
    if let Some(Ms(took)) = story.ping_ms {
        let name = paint.text(Ink::Name, format!("{:<10}", "session"));
        let known = format!("went on: after the late answers a ping took {}.", lapse(took));
        text += &format!("  {name} {}\n", wrapped(&known, INDENT, paint.width));
    }
    text
}

fn asked(Cancel { by, at_ms: Ms(at) }: &Cancel) -> String {
    match by {
        Canceller::Client => format!("asked at {at:.0} ms"),
        Canceller::Shim => format!("timed out at {at:.0} ms"),
    }
}

/// What the shim learnt from the wire.
fn outcome(call: &Call) -> String {
    let Some(receipt) = &call.receipt else { return "no receipt".to_owned() };
    let word = receipt.outcome.replace('_', " ");
    let mut said = match (receipt.outcome.as_str(), receipt.written_ms) {
        ("sent", _) => "sent, not confirmed".to_owned(),
        ("unknown", Some(_)) => "sent, outcome unknown".to_owned(),
        _ => word,
    };
    if let Some(Ms(after)) = receipt.after_ms {
        said += &format!(" {}", lapse(after));
    }
    if let Some(answer) = &receipt.answer {
        said += &format!(", with {} {answer}", if answer == "error" { "an" } else { "a" });
    }
    said
}

/// What the work marked, and what came of it.
fn work(call: &Call) -> String {
    let swallowed = swallowed(call);
    match (call.work.end, call.ended_after_cancel()) {
        (Some(WorkEnd::Stopped), Some(after)) => format!("The work's mark: stopped in {}", lapse(after)),
        (Some(WorkEnd::Finished), Some(after)) if after < 0.0 => {
            let answer = if call.work.answering_ms.is_some() { ", half its answer written" } else { "" };
            format!("The work was done before{answer}; swallowed: {swallowed}")
        }
        (Some(WorkEnd::Finished), _) => format!("The work ran on to its end; swallowed: {swallowed}"),
        (Some(WorkEnd::Exited), _) => "The server exited under it".to_owned(),
        (Some(WorkEnd::Stopped), None) | (None, _) => "The work has marked no end".to_owned(),
    }
}

fn swallowed(call: &Call) -> String {
    let count = |number: usize, what: &str| match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{number} {what}s")),
    };
    let progress = count(call.swallowed.progress, "progress report");
    let answers = count(call.swallowed.answers, "answer");
    let said: Vec<String> = progress.into_iter().chain(answers).collect();
    if said.is_empty() { "nothing".to_owned() } else { said.join(", ") }
}
