//! The lines about each cancel: how it was sent, what is known of it, and the answer. They claim only what was
//! observed (D28).

use super::story::{Exit, Receipt, Row, Story};
use crate::{
    hops::{TERMINATION, mark::Piece},
    ms::{Ms, lapse},
    paint::{Ink, Paint, wrapped},
};

/// Columns before the text about a piece.
const INDENT: usize = 15;

pub(super) fn write(story: &Story, paint: Paint) -> String {
    let heading = "receipts: the cancel that each requester sent, what is known of it, and the answer";
    let mut text = paint.text(Ink::Faint, format!("  {}", wrapped(heading, 2, paint.width))) + "\n";
    let mut line = |name: &str, known: &str| {
        let name = paint.text(Ink::Name, format!("{name:<12}"));
        text += &format!("  {name} {}\n", wrapped(known, INDENT, paint.width));
    };
    for row in &story.rows {
        match row.piece {
            Piece::Make => line("make", &process(row)),
            // Only its parent sees its exit; the picture shows its own mark.
            Piece::Compiler => {}
            Piece::Prompt | Piece::Build | Piece::Search | Piece::Permission => line(row.name(), &request(row)),
        }
    }
    if let Some(Ms(took)) = story.went_on_ms {
        line("session", &format!("continues: another prompt through all hops took {}.", lapse(took)));
    }
    text
}

fn request(row: &Row) -> String {
    let written: Vec<&str> = row.cancels.iter().map(|cancel| &*cancel.method).collect();
    let written = if written.is_empty() { String::new() } else { format!("{}: ", written.join(", ")) };
    let known = match &row.receipt {
        None => "no receipt".to_owned(),
        Some(receipt) if receipt.outcome == "completed_first" && !row.answers.is_empty() => {
            return format!("{written}answered by the {} with {} before a cancel was sent.", row.place(), answers(row));
        }
        Some(receipt) => outcome(receipt),
    };
    format!("{written}{known}. {}.", answer(row))
}

fn outcome(receipt: &Receipt) -> String {
    let after = receipt.after_ms.map_or_else(String::new, |Ms(after)| format!(" after {}", lapse(after)));
    match receipt.outcome.as_str() {
        "sent" => "sent, not confirmed".to_owned(),
        "completed_first" => "completed before a cancel was sent".to_owned(),
        "answered_after" => format!("answered{after}"),
        word => word.replace('_', " ") + &after,
    }
}

fn answer(row: &Row) -> String {
    match (row.answers.is_empty(), row.piece) {
        (false, _) => format!("Answer: {}", answers(row)),
        (true, Piece::Build | Piece::Search) => "No answer: MCP expects none".to_owned(),
        (true, Piece::Prompt | Piece::Make | Piece::Compiler | Piece::Permission) => "No answer".to_owned(),
    }
}

fn answers(row: &Row) -> String {
    row.answers.iter().map(|answer| words(&answer.answer)).collect::<Vec<_>>().join(", then ")
}

/// Picks from an answer what it says about the end of its request.
fn words(answer: &serde_json::Value) -> String {
    if let Some(reason) = answer["stopReason"].as_str() {
        return format!("stopReason \"{reason}\"");
    }
    if let Some(outcome) = answer["outcome"]["outcome"].as_str() {
        return format!("outcome \"{outcome}\"");
    }
    match answer["code"].as_i64() {
        Some(code) => format!("error {code}"),
        None => "a result".to_owned(),
    }
}

fn process(row: &Row) -> String {
    match row.exit {
        Some(Exit { code: Some(code), .. }) if row.told_ms.is_some() => {
            format!("{TERMINATION} to its process group, which includes the compiler. Exit code {code}.")
        }
        Some(Exit { code: Some(code), .. }) if row.is_unasked() => {
            format!(
                "ended with its job, which includes the compiler: there is no console to ask through. Exit code {code}."
            )
        }
        Some(Exit { code: Some(code), .. }) => format!("Exit code {code}."),
        Some(Exit { signal, .. }) => format!("Killed by signal {}.", signal.unwrap_or_default()),
        None => "Exit not seen.".to_owned(),
    }
}
