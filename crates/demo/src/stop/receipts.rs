//! What each piece was answered, and what its requester's receipt claims: no more than was observed (D28).

use super::story::{Exit, Receipt, Row, Story};
use crate::{
    hops::mark::Piece,
    ms::{Ms, lapse},
    paint::{Ink, Paint, wrapped},
};

/// Columns before what is said of a piece.
const INDENT: usize = 15;

pub(super) fn write(story: &Story, paint: Paint) -> String {
    let heading = "receipts: what each requester wrote, was answered, and may therefore claim of its cancel";
    let mut text = paint.text(Ink::Faint, format!("  {}", wrapped(heading, 2, paint.width))) + "\n";
    let mut say = |name: &str, known: &str| {
        let name = paint.text(Ink::Name, format!("{name:<12}"));
        text += &format!("  {name} {}\n", wrapped(known, INDENT, paint.width));
    };
    for row in &story.rows {
        match row.piece {
            Piece::Make => say("make", &process(row)),
            // Whose child it is collects it; the mark in the picture is all that is known.
            Piece::Compiler => {}
            Piece::Prompt | Piece::Build | Piece::Search | Piece::Permission => say(row.name(), &request(row)),
        }
    }
    if let Some(Ms(took)) = story.went_on_ms {
        say("session", &format!("went on: another prompt, through all hops, took {}.", lapse(took)));
    }
    text
}

fn request(row: &Row) -> String {
    let written: Vec<&str> = row.cancels.iter().map(|cancel| &*cancel.method).collect();
    let written = if written.is_empty() { String::new() } else { format!("{}: ", written.join(", ")) };
    let known = row.receipt.as_ref().map_or_else(|| "no receipt".to_owned(), claimed);
    format!("{written}{known}. {}.", answered(row))
}

fn claimed(receipt: &Receipt) -> String {
    let after = receipt.after_ms.map_or_else(String::new, |Ms(after)| format!(" after {}", lapse(after)));
    match receipt.outcome.as_str() {
        "sent" => "sent, not confirmed".to_owned(),
        "completed_first" => "completed first, before a cancel was written".to_owned(),
        "answered_after" => format!("answered{after}"),
        word => word.replace('_', " ") + &after,
    }
}

fn answered(row: &Row) -> String {
    let said: Vec<String> = row.answers.iter().map(|answer| words(&answer.answer)).collect();
    match (said.is_empty(), row.piece) {
        (false, _) => format!("Answered {}", said.join(", then ")),
        (true, Piece::Build | Piece::Search) => "Answered nothing, as MCP has it".to_owned(),
        (true, Piece::Prompt | Piece::Make | Piece::Compiler | Piece::Permission) => "Answered nothing".to_owned(),
    }
}

/// An answer in its own words, as far as they are about its end.
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
            format!("SIGTERM to its group, the compiler included. Exit code {code}.")
        }
        Some(Exit { code: Some(code), .. }) => format!("Exit code {code}."),
        Some(Exit { signal, .. }) => format!("Died of signal {}.", signal.unwrap_or_default()),
        None => "Not collected.".to_owned(),
    }
}
