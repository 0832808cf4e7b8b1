//! Tests of the picture, and a story with chosen times.

use serde_json::json;

use super::{
    picture,
    recording::Receipt,
    story::{Answer, Call, Cancel, Canceller, Client, Story, Swallowed, Work, WorkEnd},
};
use crate::{act::End, ms::Ms, paint::Paint, sample_server::tool::Tool};

/// An act in which everything went as expected.
pub(super) fn story() -> Story {
    let calls = vec![
        Call { client: answered(201.4, None), work: work(0.3, 201.0, WorkEnd::Finished), ..call(1, Tool::Quick, 0.0) },
        Call {
            cancel: by(Canceller::Client, 401.0),
            work: Work { told_ms: Some(Ms(401.1)), ..work(0.4, 401.2, WorkEnd::Stopped) },
            receipt: receipt("caller", "sent", 401.1, None),
            ..call(2, Tool::Obeys, 0.1)
        },
        Call {
            cancel: by(Canceller::Client, 601.0),
            work: Work { told_ms: Some(Ms(601.2)), ..work(0.5, 1500.6, WorkEnd::Finished) },
            swallowed: Swallowed { progress: 8, answers: 1, answer_ms: Some(Ms(1500.9)) },
            receipt: receipt("caller", "answered_after", 601.1, Some(899.9)),
            ..call(3, Tool::Ignores, 0.2)
        },
        Call {
            cancel: by(Canceller::Client, 801.0),
            work: Work {
                answering_ms: Some(Ms(800.8)),
                told_ms: Some(Ms(801.2)),
                ..work(0.6, 800.7, WorkEnd::Finished)
            },
            swallowed: Swallowed { progress: 0, answers: 1, answer_ms: Some(Ms(801.3)) },
            receipt: receipt("caller", "answered_after", 801.1, Some(0.3)),
            ..call(4, Tool::Crosses, 0.3)
        },
        Call {
            cancel: by(Canceller::Shim, 1000.5),
            work: Work { told_ms: Some(Ms(1000.7)), ..work(0.7, 1000.8, WorkEnd::Stopped) },
            client: answered(1000.9, Some(json!({"code": -31001, "message": "no answer", "data": {"afterMs": 1000}}))),
            receipt: receipt("timeout", "sent", 1000.5, None),
            ..call(5, Tool::Sleepy, 0.4)
        },
        Call {
            work: work(1503.0, 1903.0, WorkEnd::Exited),
            client: answered(1907.0, Some(json!({"code": -31002, "message": "gone", "data": {"exitCode": 3}}))),
            ..call(6, Tool::Dies, 1502.0)
        },
    ];
    let end = End { exit_code: Some(3), left_behind: false };
    Story { protocol: "2025-11-25", calls, ping_ms: Some(Ms(0.25)), end, unexpected: Vec::new() }
}

fn call(id: u64, tool: Tool, asked: f64) -> Call {
    Call {
        id,
        tool,
        asked_ms: Some(Ms(asked)),
        cancel: None,
        work: Work::default(),
        client: Client::default(),
        swallowed: Swallowed::default(),
        receipt: None,
    }
}

fn by(by: Canceller, at: f64) -> Option<Cancel> {
    Some(Cancel { by, at_ms: Ms(at) })
}

fn work(started: f64, ended: f64, end: WorkEnd) -> Work {
    Work { started_ms: Some(Ms(started)), ended_ms: Some(Ms(ended)), end: Some(end), ..Work::default() }
}

fn answered(at: f64, error: Option<serde_json::Value>) -> Client {
    Client { answers: vec![Answer { at_ms: Ms(at), error }], ..Client::default() }
}

fn receipt(cause: &str, outcome: &str, asked: f64, after: Option<f64>) -> Option<Receipt> {
    Some(Receipt {
        cause: cause.to_owned(),
        outcome: outcome.to_owned(),
        asked_ms: Ms(asked),
        written_ms: Some(Ms(asked)),
        after_ms: after.map(Ms),
        answer: after.map(|_| "result".to_owned()),
    })
}

#[test]
fn an_act_that_went_as_expected_is_drawn_as_in_the_example() {
    assert_eq!(picture(&story(), Paint::PLAIN), include_str!("example.txt"));
}

#[test]
fn what_was_not_expected_is_listed() {
    let mut story = story();
    story.unexpected.push("obeys: the cancel must stop the work".to_owned());
    let text = picture(&story, Paint::PLAIN);
    assert!(text.ends_with("  not as expected\n  - obeys: the cancel must stop the work\n"), "{text}");
}

#[test]
fn without_colour_there_are_no_escape_codes_and_with_it_the_same_text() {
    let plain = picture(&story(), Paint::PLAIN);
    let painted = picture(&story(), Paint { has_colour: true, ..Paint::PLAIN });
    assert!(!plain.contains('\x1b'));
    let stripped: String = painted
        .split('\x1b')
        .enumerate()
        .map(|(index, part)| match index {
            0 => part,
            _ => part.split_once('m').unwrap().1,
        })
        .collect();
    assert_eq!(stripped, plain);
}

#[test]
fn no_line_is_wider_than_the_screen() {
    for width in [80, 88, 96] {
        let text = picture(&story(), Paint { width, ..Paint::PLAIN });
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{widest:?} of {width}:\n{text}");
    }
}
