//! Answers that broken servers give, spoilt in every way of the testkit, as bodies and as events (D43): what the client gets
//! is always a message that it can read, and no other request ends.

use rescind_testkit::spoil::{Answer, Expected, Spoilt, check_answer};
use serde_json::Value;

use crate::rig::*;

/// Each of another kind.
const IDS: [&str; 2] = ["1", "\"one\""];

/// How an answer comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Body,
    Event,
    /// On the stream of the request beside it, as servers do that have one stream for all.
    OtherStream,
}

fn all() -> impl Iterator<Item = (Answer, Spoilt)> {
    IDS.into_iter().flat_map(Answer::all).flat_map(|answer| answer.spoilt().into_iter().map(move |it| (answer, it)))
}

fn lines(rig: &mut Rig) -> Vec<String> {
    core::iter::from_fn(|| rig.client.poll_message()).map(|line| String::from_utf8(line.json).expect("UTF-8")).collect()
}

fn event(text: &[u8]) -> Vec<u8> {
    [b"data: ", text, b"\n\n"].concat()
}

/// Lets the server give this as the answer to the first of two requests; what the client gets of it.
fn given(way: Way, is_modern: bool, id: &str, text: &[u8]) -> Vec<String> {
    let mut rig = if is_modern { Rig::new() } else { Rig::in_session(LEGACY) };
    let id: Value = serde_json::from_str(id).unwrap();
    let ask = |id: Value| if is_modern { modern_call(id) } else { call(id) };
    rig.say(&ask(id));
    let first = rig.sent_one();
    rig.say(&ask(2.into()));
    let second = rig.sent_one();
    match way {
        Way::Body => {
            rig.head(first.key, 200, &[("content-type", "application/json")]);
            rig.client.handle_body(rig.now, first.key, text);
            rig.end(first.key);
        }
        Way::Event => {
            rig.stream(first.key);
            rig.client.handle_body(rig.now, first.key, &event(text));
            rig.end(first.key);
        }
        Way::OtherStream => {
            rig.stream(first.key);
            rig.stream(second.key);
            rig.client.handle_body(rig.now, second.key, &event(text));
        }
    }
    let heard = lines(&mut rig);
    let whole = result(2).to_string();
    match way {
        Way::Body | Way::Event => rig.json(second.key, 200, &[], &result(2)),
        Way::OtherStream => rig.client.handle_body(rig.now, second.key, &event(whole.as_bytes())),
    }
    let [line] = &*lines(&mut rig) else { panic!("{}: the request beside it", text.escape_ascii()) };
    check_answer(line, "2", "the request beside it");
    assert!(line.contains("\"result\""), "{}: the request beside it: {line}", text.escape_ascii());
    heard
}

// D43.
#[test]
fn a_spoilt_answer_ends_its_request_and_no_other_as_a_body_and_as_an_event() {
    for (way, is_modern) in
        [(Way::Body, false), (Way::Body, true), (Way::Event, false), (Way::Event, true), (Way::OtherStream, false)]
    {
        for (answer, spoilt) in all() {
            if way == Way::OtherStream && spoilt.fate == Expected::Nameless {
                // There it is the answer to what was asked there.
                continue;
            }
            let shown = format!("{way:?}: {}: {}", spoilt.way, spoilt.text.escape_ascii());
            let lines = given(way, is_modern, answer.id, &spoilt.text);
            let [line] = &*lines else { panic!("{shown}: {lines:?}") };
            check_answer(line, answer.id, &shown);
            // A body, and what was said on a stream of its own, can answer nothing else.
            assert_eq!(line.contains("\"result\""), spoilt.fate == Expected::Whole, "{shown}: {line}");
        }
    }
}

// D43.
#[test]
fn messages_that_are_glued_in_one_body_or_event_are_all_read() {
    for between in ["", " ", "\u{feff}", " ok "] {
        let text = format!("{}{between}{}", progress("t"), result(1));
        for way in [Way::Body, Way::Event] {
            let heard = given(way, false, "1", text.as_bytes());
            assert_eq!(heard, [progress("t").to_string(), result(1).to_string()], "{way:?}: {text}");
        }
    }
}

// D43.
#[test]
fn a_mark_before_a_body_or_in_an_event_is_skipped() {
    for before in ["\u{feff}", " \u{feff}", "\u{feff}\t", "\u{feff}\u{feff}"] {
        for (way, is_modern) in [(Way::Body, false), (Way::Body, true), (Way::Event, false), (Way::Event, true)] {
            let heard = given(way, is_modern, "1", format!("{before}{}", result(1)).as_bytes());
            assert_eq!(heard, [result(1).to_string()], "{way:?}: {before:?}");
        }
    }
}
