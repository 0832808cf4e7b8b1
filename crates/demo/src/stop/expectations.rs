//! What must hold in the first act.

use super::story::{Exit, Row, Story};
use crate::{
    act::unmet,
    hops::{TERMINATED, mark::Piece},
};

/// Lists what is wrong with the turn, as sentences.
pub(super) fn of_turn(story: &Story) -> Vec<String> {
    let mut found = Vec::new();
    for row in &story.rows {
        found.extend(unmet(row.name(), expectations(story, row)));
    }
    if story.went_on_ms.is_none() {
        found.push("the session must continue".to_owned());
    }
    if story.end.exit_code != Some(0) {
        found.push("the agent must exit with code 0".to_owned());
    }
    found
}

fn expectations(story: &Story, row: &Row) -> Vec<(&'static str, bool)> {
    let is_after = |later, earlier| matches!((later, earlier), (Some(later), Some(earlier)) if later >= earlier);
    let starts = ("the work must start before Stop", is_after(story.stop_ms, row.started_ms));
    if row.is_unasked() {
        return vec![starts, ("the process must end after Stop", is_after(row.stopped_ms, story.stop_ms))];
    }
    let mut must = vec![
        starts,
        ("Stop must reach the work", is_after(row.told_ms, story.stop_ms)),
        ("the work must stop after it was told to", is_after(row.stopped_ms, row.told_ms)),
        ("the work must take no step after it was told to stop", row.steps_after_told == 0),
    ];
    match row.piece {
        Piece::Prompt => must.extend([
            ("it must be cancelled by one session/cancel", cancelled_by(row) == ["session/cancel"]),
            ("it must have one answer, stopReason \"cancelled\"", answers(row, "/stopReason") == ["cancelled"]),
            ("its receipt must say confirmed", outcome(row) == "confirmed"),
        ]),
        Piece::Build | Piece::Search => must.extend([
            ("it must be cancelled by one notification", cancelled_by(row) == ["notifications/cancelled"]),
            ("it must have no answer", row.answers.is_empty()),
            ("its receipt must say no more than sent", outcome(row) == "sent"),
        ]),
        Piece::Make => must.push((
            "it must exit by itself when it is asked to",
            row.exit == Some(Exit { code: Some(TERMINATED.into()), signal: None }),
        )),
        Piece::Compiler => {
            let make = story.rows.iter().find(|row| row.piece == Piece::Make);
            let stopped = make.and_then(|make| make.stopped_ms);
            must.push(("it must stop before the process that waits for it", is_after(stopped, row.stopped_ms)));
        }
        // The editor answers when it cancels the turn, so the agent's own cancel may come too late.
        Piece::Permission => must.extend([
            ("it must have one answer, outcome \"cancelled\"", answers(row, "/outcome/outcome") == ["cancelled"]),
            (
                "its receipt must say confirmed or completed_first",
                matches!(outcome(row), "confirmed" | "completed_first"),
            ),
        ]),
    }
    must
}

fn cancelled_by(row: &Row) -> Vec<&str> {
    row.cancels.iter().map(|cancel| &*cancel.method).collect()
}

fn answers<'a>(row: &'a Row, pointer: &str) -> Vec<&'a str> {
    row.answers
        .iter()
        .map(|answer| answer.answer.pointer(pointer).and_then(|word| word.as_str()).unwrap_or(""))
        .collect()
}

fn outcome(row: &Row) -> &str {
    row.receipt.as_ref().map_or("", |receipt| receipt.outcome.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        ms::Ms,
        stop::{story::Answer, tests::story},
    };

    fn failures(change: impl FnOnce(&mut Story)) -> Vec<String> {
        let mut story = story();
        change(&mut story);
        of_turn(&story)
    }

    fn row(story: &mut Story, piece: Piece) -> &mut Row {
        story.rows.iter_mut().find(|row| row.piece == piece).unwrap()
    }

    #[test]
    fn an_act_that_went_as_expected_has_no_failures() {
        assert_eq!(failures(|_| ()), Vec::<String>::new());
        assert_eq!(story().end.unexpected(&[]), Vec::<String>::new());
    }

    #[test]
    fn a_process_that_outlives_the_turn_is_a_failure() {
        let found = failures(|story| row(story, Piece::Compiler).stopped_ms = None);
        let order = "compiler: it must stop before the process that waits for it";
        assert_eq!(found, ["compiler: the work must stop after it was told to", order]);
    }

    #[test]
    fn a_process_that_had_to_be_killed_is_a_failure() {
        let killed = Exit { code: None, signal: Some(9) };
        let found = failures(|story| row(story, Piece::Make).exit = Some(killed));
        assert_eq!(found, ["make: it must exit by itself when it is asked to"]);
    }

    #[test]
    fn work_that_stops_unasked_is_a_failure() {
        let found = failures(|story| row(story, Piece::Search).told_ms = None);
        let order = "tool search: the work must stop after it was told to";
        assert_eq!(found, ["tool search: Stop must reach the work", order]);
    }

    #[test]
    fn a_step_after_the_work_was_told_is_a_failure() {
        let found = failures(|story| row(story, Piece::Search).steps_after_told = 1);
        assert_eq!(found, ["tool search: the work must take no step after it was told to stop"]);
    }

    #[test]
    fn an_answer_to_a_cancelled_tool_call_is_a_failure() {
        let answer = Answer { at_ms: Ms(220.0), answer: json!({}) };
        let found = failures(|story| row(story, Piece::Build).answers.push(answer));
        assert_eq!(found, ["tool build: it must have no answer"]);
    }

    #[test]
    fn a_permission_that_was_granted_is_a_failure() {
        let found = failures(|story| {
            row(story, Piece::Permission).answers[0].answer = json!({"outcome": {"outcome": "selected"}});
        });
        assert_eq!(found, ["permission: it must have one answer, outcome \"cancelled\""]);
    }

    #[test]
    fn a_session_that_does_not_go_on_is_a_failure() {
        let found = failures(|story| story.went_on_ms = None);
        assert_eq!(found, ["the session must continue"]);
    }
}
