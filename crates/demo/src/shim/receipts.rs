//! The lines about each cancel. They claim only what was observed (D28).

use super::story::{Call, Cancel, Canceller, Story, WorkEnd};
use crate::{
    ms::{Ms, lapse},
    paint::{Ink, Paint, wrapped},
};

/// Columns before the text about a call.
const INDENT: usize = 13;

pub(super) fn write(story: &Story, paint: Paint) -> String {
    if story.calls.iter().all(|call| call.cancel.is_none()) {
        return paint.text(Ink::Faint, "  no receipts: nothing was cancelled") + "\n";
    }
    let heading = "receipts: what the wire showed (MCP confirms no cancel), and what the tool itself noted";
    let mut text = paint.text(Ink::Faint, format!("  {}", wrapped(heading, 2, paint.width))) + "\n";
    for call in &story.calls {
        let Some(cancel) = &call.cancel else { continue };
        let name = paint.text(Ink::Name, format!("{:<8}", call.tool.name()));
        let known = format!("{}: {}. {}.", cancelled(cancel), outcome(call), work(call));
        text += &format!("  {} {name} {}\n", call.id, wrapped(&known, INDENT, paint.width));
    }
    if let Some(Ms(took)) = story.ping_ms {
        let name = paint.text(Ink::Name, format!("{:<10}", "session"));
        let known = format!("continues: a ping after the late answers took {}.", lapse(took));
        text += &format!("  {name} {}\n", wrapped(&known, INDENT, paint.width));
    }
    text
}

fn cancelled(Cancel { by, at_ms: Ms(at) }: &Cancel) -> String {
    match by {
        Canceller::Client => format!("cancelled at {at:.0} ms"),
        Canceller::Shim => format!("timed out at {at:.0} ms"),
    }
}

/// Writes what the shim knows from the wire.
fn outcome(call: &Call) -> String {
    let Some(receipt) = &call.receipt else { return "no receipt".to_owned() };
    let word = receipt.outcome.replace('_', " ");
    let mut text = match (receipt.outcome.as_str(), receipt.written_ms, receipt.after_ms) {
        ("sent", ..) => "sent, not confirmed".to_owned(),
        ("unknown", Some(_), _) => "sent, outcome unknown".to_owned(),
        ("answered_after", _, Some(Ms(after))) => format!("answered {} after the cancel", lapse(after)),
        (_, _, Some(Ms(after))) => format!("{word} after {}", lapse(after)),
        (_, _, None) => word,
    };
    if let Some(answer) = &receipt.answer {
        text += &format!(", with {} {answer}", if answer == "error" { "an" } else { "a" });
    }
    text
}

/// Writes what the tool noted, and what the shim swallowed.
fn work(call: &Call) -> String {
    let swallowed = swallowed(call);
    match (call.work.end, call.ended_after_cancel()) {
        (Some(WorkEnd::Stopped), Some(after)) => format!("The work stopped after {}", lapse(after)),
        (Some(WorkEnd::Finished), Some(after)) if after < 0.0 => {
            let answer = if call.work.answering_ms.is_some() { ", and half of its answer was written" } else { "" };
            format!("The work was already done when the cancel came{answer}. Swallowed: {swallowed}")
        }
        (Some(WorkEnd::Finished), _) => format!("The work ran to its end. Swallowed: {swallowed}"),
        (Some(WorkEnd::Exited), _) => "The server exited while it ran".to_owned(),
        (Some(WorkEnd::Stopped), None) | (None, _) => "The tool noted no end".to_owned(),
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
    let counts: Vec<String> = progress.into_iter().chain(answers).collect();
    if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") }
}
