//! What must hold in the second act.

use super::{
    client::Seen,
    recording::Recording,
    script,
    story::{Call, Canceller, Story, WorkEnd},
};
use crate::{act::unmet, sample_server::tool::Tool};

/// The shim's error codes for a timeout and for a server that has exited.
const TIMED_OUT: i32 = rescind_proto::error_code::TIMED_OUT;
const SERVER_GONE: i32 = rescind_proto::error_code::UPSTREAM_GONE;

/// Lists what is wrong with the calls, as sentences.
pub(super) fn of_calls(story: &Story) -> Vec<String> {
    let mut found = Vec::new();
    for call in &story.calls {
        found.extend(unmet(call.tool.name(), expectations(call)));
    }
    if story.ping_ms.is_none() {
        found.push("the session must continue after late answers".to_owned());
    }
    if story.end.exit_code != Some(Tool::EXIT_CODE) {
        found.push("the shim must exit with the server's code".to_owned());
    }
    found
}

/// Lists what is wrong however far the script got.
pub(super) fn of_session(story: &Story, seen: &Seen, recording: &Recording) -> Vec<String> {
    let mut found = story.end.unexpected(&seen.unreadable);
    if !recording.is_complete {
        found.push("the recording must be complete".to_owned());
    }
    found.extend(recording.anomalies.iter().map(|line| format!("recorded: {line}")));
    found
}

fn expectations(call: &Call) -> Vec<(&'static str, bool)> {
    let mut must = vec![("the work must start", call.work.started_ms.is_some())];
    match call.tool {
        Tool::Quick => must.extend([
            ("the work must finish", call.work.end == Some(WorkEnd::Finished)),
            ("the client must receive one result", call.client.answers.len() == 1 && error_code(call).is_none()),
        ]),
        Tool::Obeys => {
            must.extend(cancelled_by(call, Canceller::Client));
            must.extend([
                ("the cancel must stop the work", call.work.end == Some(WorkEnd::Stopped)),
                ("its receipt must say sent, and no more", is_only_sent(call)),
            ]);
            must.extend(silence(call));
        }
        Tool::Ignores | Tool::Crosses => {
            must.extend(cancelled_by(call, Canceller::Client));
            must.extend([
                ("the work must run to its end", call.work.end == Some(WorkEnd::Finished)),
                ("its late answer must be swallowed", call.swallowed.answers == 1),
                ("its receipt must say answered_after", outcome(call) == "answered_after"),
            ]);
            must.extend(silence(call));
            if call.tool == Tool::Crosses {
                let crossed = call.work.answering_ms < call.cancel.as_ref().map(|cancel| cancel.at_ms)
                    && call.work.answering_ms.is_some();
                must.push(("the answer must begin before the cancel", crossed));
            }
        }
        Tool::Sleepy => {
            must.extend(cancelled_by(call, Canceller::Shim));
            let data = call.client.answers.first().and_then(|answer| answer.error.as_ref()).map(|error| &error["data"]);
            must.extend([
                ("the cancel must stop the work", call.work.end == Some(WorkEnd::Stopped)),
                ("the client must receive an error for the timeout", error_code(call) == Some(TIMED_OUT)),
                ("the client must receive one answer", call.client.answers.len() == 1),
                (
                    "the error must say how long the timeout was",
                    data.is_some_and(|data| data["afterMs"] == script::TIMEOUT_MS),
                ),
                ("its receipt must say sent, and no more", is_only_sent(call)),
            ]);
        }
        Tool::Dies => must.extend([
            ("the server must exit while it runs", call.work.end == Some(WorkEnd::Exited)),
            ("the client must receive an error for the dead server", error_code(call) == Some(SERVER_GONE)),
            ("the client must receive one answer", call.client.answers.len() == 1),
        ]),
    }
    must
}

fn cancelled_by(call: &Call, who: Canceller) -> [(&'static str, bool); 2] {
    let what = match who {
        Canceller::Client => "the client must cancel it",
        Canceller::Shim => "the shim must cancel it",
    };
    let holds = call.cancel.as_ref().is_some_and(|cancel| cancel.by == who);
    [(what, holds), ("the cancel must reach the server", call.work.told_ms.is_some())]
}

/// Expects silence after the client's cancel. Progress that the server wrote before it read the cancel may cross it.
fn silence(call: &Call) -> [(&'static str, bool); 2] {
    let before = call.work.progress_when_told.unwrap_or_default();
    [
        ("the client must receive no answer after its cancel", call.client.answers.is_empty()),
        ("progress after the cancel must be swallowed", call.client.progress <= before),
    ]
}

fn error_code(call: &Call) -> Option<i32> {
    let error = call.client.answers.first()?.error.as_ref()?;
    error["code"].as_i64().and_then(|code| i32::try_from(code).ok())
}

/// Whether the receipt says that the cancel was written, and nothing more.
fn is_only_sent(call: &Call) -> bool {
    outcome(call) == "sent" && call.receipt.as_ref().is_some_and(|receipt| receipt.written_ms.is_some())
}

fn outcome(call: &Call) -> &str {
    call.receipt.as_ref().map_or("", |receipt| receipt.outcome.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{moment::Moment, ms::Ms, shim::tests::story};

    fn failures(change: impl FnOnce(&mut Story)) -> Vec<String> {
        let mut story = story();
        change(&mut story);
        of_calls(&story)
    }

    #[test]
    fn an_act_that_went_as_expected_has_no_failures() {
        assert_eq!(failures(|_| ()), Vec::<String>::new());
        let recording = Recording::read(&[json!({}), json!({"kind": "end"})], Moment::now());
        assert_eq!(of_session(&story(), &Seen::default(), &recording), Vec::<String>::new());
    }

    #[test]
    fn work_that_runs_on_after_its_cancel_is_a_failure() {
        let found = failures(|story| story.calls[1].work.end = Some(WorkEnd::Finished));
        assert_eq!(found, ["obeys: the cancel must stop the work"]);
    }

    #[test]
    fn a_late_answer_that_reaches_the_client_is_a_failure() {
        let found = failures(|story| {
            let answer = std::mem::take(&mut story.calls[0].client.answers);
            story.calls[2].client.answers = answer;
            story.calls[2].swallowed.answers = 0;
        });
        let late = "ignores: the client must receive no answer after its cancel";
        assert_eq!(
            found,
            ["quick: the client must receive one result", "ignores: its late answer must be swallowed", late]
        );
    }

    #[test]
    fn a_receipt_that_claims_more_than_was_seen_is_a_failure() {
        let found = failures(|story| {
            if let Some(receipt) = &mut story.calls[1].receipt {
                receipt.outcome = "confirmed".to_owned();
            }
        });
        assert_eq!(found, ["obeys: its receipt must say sent, and no more"]);
    }

    #[test]
    fn an_answer_that_begins_after_the_cancel_is_not_a_crossing() {
        let found = failures(|story| story.calls[3].work.answering_ms = Some(Ms(802.0)));
        assert_eq!(found, ["crosses: the answer must begin before the cancel"]);
    }

    #[test]
    fn what_is_left_or_dropped_or_unreadable_is_a_failure() {
        let mut story = story();
        story.end.left_behind = true;
        let seen = Seen { unreadable: vec!["noise".to_owned()], ..Seen::default() };
        let recording = Recording::read(&[json!({}), json!({"kind": "dropped"})], Moment::now());
        let failures = [
            "no process may be left behind",
            "unreadable: noise",
            "the recording must be complete",
            "recorded: {\"kind\":\"dropped\"}",
        ];
        assert_eq!(of_session(&story, &seen, &recording), failures);
    }
}
