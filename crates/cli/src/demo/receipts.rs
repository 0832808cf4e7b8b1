//! What is known of each cancel, in words that claim no more than was observed (D28).

use super::{
    paint::{Ink, Paint},
    recording::Receipt,
    story::{Call, Ms, Story, WorkEnd},
};

/// Columns before the words.
const INDENT: usize = 13;

pub(super) fn write(story: &Story, paint: Paint) -> String {
    let mut text = paint.text(Ink::Faint, "  receipts: what is known of each cancel") + "\n";
    for call in story.calls.iter().filter(|call| call.cancel.is_some()) {
        let name = paint.text(Ink::Name, format!("{:<8}", call.tool.name()));
        let known = format!("{}. {}.", outcome(call), capitalised(&work(call)));
        text += &format!("  {} {name} {}\n", call.id, wrapped(&known, paint));
    }
    if let Some(Ms(took)) = story.ping_ms {
        let name = paint.text(Ink::Name, format!("{:<10}", "session"));
        text +=
            &format!("  {name} {}\n", wrapped(&format!("went on: after all that, a ping took {took:.1} ms."), paint));
    }
    text
}

/// What the shim learnt from the wire.
fn outcome(call: &Call) -> String {
    let Some(Receipt { cause, outcome, after_ms, answer }) = &call.receipt else { return "no receipt".to_owned() };
    let mut said = outcome.replace('_', " ");
    if let Some(after) = after_ms {
        said += &format!(" {after:.1} ms");
    }
    if let Some(answer) = answer {
        said += &format!(", {} {answer}", if answer == "error" { "an" } else { "a" });
    }
    if cause == "timeout" {
        said += ", by the shim, when its clock ran out";
    }
    if outcome == "sent" {
        said += "; MCP confirms no cancel";
    }
    said
}

/// What the work marked, and what came of it.
fn work(call: &Call) -> String {
    let after = call.ended_after_cancel();
    match (call.work.end, after) {
        (Some(WorkEnd::Stopped), Some(after)) => format!("the work's own mark: stopped after {after:.1} ms"),
        (Some(WorkEnd::Finished), Some(after)) if after < 0.0 => {
            let sent = if call.work.answering_ms.is_some() { ", half its answer written" } else { "" };
            format!("the work was done before the cancel{sent}; the shim swallowed {}", swallowed(call))
        }
        (Some(WorkEnd::Finished), _) => format!("the work ran on to its end; the shim swallowed {}", swallowed(call)),
        (Some(WorkEnd::Exited), _) => "the server exited under it".to_owned(),
        (Some(WorkEnd::Stopped), None) | (None, _) => "the work has marked no end".to_owned(),
    }
}

fn swallowed(call: &Call) -> String {
    let count = |number: usize, what: &str| match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{number} {what}s")),
    };
    let progress = count(call.swallowed.progress, "progress report");
    let answers = count(call.swallowed.answers, "late answer");
    let said: Vec<String> = progress.into_iter().chain(answers).collect();
    if said.is_empty() { "nothing".to_owned() } else { said.join(" and ") }
}

fn capitalised(sentence: &str) -> String {
    let mut rest = sentence.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

/// `text` in as many lines as the width takes, the first of which has begun already.
fn wrapped(text: &str, paint: Paint) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let is_full = lines.last().is_some_and(|line| {
            !line.is_empty() && INDENT + line.chars().count() + 1 + word.chars().count() > paint.width
        });
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if !is_full => *line += &format!(" {word}"),
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines.join(&format!("\n{:INDENT$}", ""))
}
