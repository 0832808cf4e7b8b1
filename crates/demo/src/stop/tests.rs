//! Tests of the picture, and a story with chosen times.

use serde_json::{Value, json};

use super::{
    editor, picture,
    story::{Answer, Cancel, Exit, Receipt, Row, Story},
};
use crate::{
    act::End,
    hops::{TERMINATION, mark::Piece},
    ms::Ms,
    paint::Paint,
};

/// When Stop is pressed.
const STOP: f64 = 200.0;

/// A turn in which everything went as expected.
pub(super) fn story() -> Story {
    let rows = vec![
        Row {
            cancels: cancel("session/cancel", 0.1),
            answers: answer(1.1, json!({"stopReason": "cancelled"})),
            receipt: receipt("confirmed", Some(1.1)),
            ..row(Piece::Prompt, 0.2, 0.5, 0.6)
        },
        tool(row(Piece::Build, 1.0, 1.2, 2.9)),
        Row { exit: Some(Exit { code: Some(143), signal: None }), steps: 5, ..row(Piece::Make, 3.0, 1.5, 2.5) },
        Row { steps: 4, ..row(Piece::Compiler, 4.5, 1.6, 1.7) },
        Row { steps: 4, ..tool(row(Piece::Search, 1.4, 1.3, 1.31)) },
        Row {
            cancels: cancel("$/cancel_request", 0.55),
            answers: answer(0.9, json!({"outcome": {"outcome": "cancelled"}})),
            receipt: receipt("confirmed", Some(0.4)),
            ..row(Piece::Permission, 0.8, 0.3, 0.31)
        },
    ];
    Story {
        mcp: "2026-07-28",
        stop_ms: Some(Ms(STOP)),
        rows,
        went_on_ms: Some(Ms(0.9)),
        end: End { exit_code: Some(0), left_behind: false },
        unexpected: Vec::new(),
    }
}

/// A piece that was told, and stopped, this long after Stop.
fn row(piece: Piece, started: f64, told: f64, stopped: f64) -> Row {
    Row {
        started_ms: Some(Ms(started)),
        told_ms: Some(Ms(STOP + told)),
        stopped_ms: Some(Ms(STOP + stopped)),
        ..Row::empty(piece)
    }
}

fn tool(row: Row) -> Row {
    Row { cancels: cancel("notifications/cancelled", 0.7), receipt: receipt("sent", None), ..row }
}

fn cancel(method: &str, after: f64) -> Vec<Cancel> {
    vec![Cancel { method: method.to_owned(), at_ms: Ms(STOP + after) }]
}

fn answer(after: f64, answer: Value) -> Vec<Answer> {
    vec![Answer { at_ms: Ms(STOP + after), answer }]
}

fn receipt(outcome: &str, after: Option<f64>) -> Option<Receipt> {
    Some(Receipt { outcome: outcome.to_owned(), after_ms: after.map(Ms) })
}

#[test]
fn an_act_that_went_as_expected_is_drawn_as_in_the_example() {
    let example = include_str!("example.txt").replace("SIGTERM", TERMINATION);
    assert_eq!(picture(&story(), Paint::PLAIN), example);
}

#[test]
fn what_was_not_expected_is_listed() {
    let mut story = story();
    story.unexpected.push("make: the work must stop".to_owned());
    let text = picture(&story, Paint::PLAIN);
    assert!(text.ends_with("  not as expected\n  - make: the work must stop\n"), "{text}");
}

#[test]
fn an_answer_that_came_before_a_cancel_says_who_gave_it() {
    let mut story = story();
    let permission = story.rows.iter_mut().find(|row| row.name() == "permission").unwrap();
    permission.cancels.clear();
    permission.receipt.as_mut().unwrap().outcome = "completed_first".to_owned();
    let text = picture(&story, Paint::PLAIN);
    let line = "  permission   answered by the editor with outcome \"cancelled\" before a cancel was sent.\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn no_line_is_wider_than_the_screen() {
    for width in [80, 88, 96] {
        let text = picture(&story(), Paint { width, ..Paint::PLAIN });
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{widest:?} of {width}:\n{text}");
    }
}

#[test]
fn a_turn_that_never_began_can_be_drawn() {
    let text = picture(&Story::new(&editor::Seen::default()), Paint::PLAIN);
    assert!(text.contains("prompt"), "{text}");
}
