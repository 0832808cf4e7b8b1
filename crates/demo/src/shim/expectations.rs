//! What must be so. Whatever is not, the demo says and exits 1.

use super::{
    client::Seen,
    recording::Recording,
    script,
    story::{Call, Canceller, Story, WorkEnd},
};
use crate::sample_server::tool::Tool;

/// The shim's error codes for a clock that ran out, and for a server that ended.
const TIMED_OUT: i32 = rescind_proto::error_code::TIMED_OUT;
const SERVER_GONE: i32 = rescind_proto::error_code::UPSTREAM_GONE;

/// What is not as it should be with the calls, a sentence each.
pub(super) fn of_calls(story: &Story) -> Vec<String> {
    let mut found = Vec::new();
    for call in &story.calls {
        let unmet = expectations(call).into_iter().filter(|(_, is_so)| !is_so);
        found.extend(unmet.map(|(what, _)| format!("{}: {what}", call.tool.name())));
    }
    if story.ping_ms.is_none() {
        found.push("the session must go on after late answers".to_owned());
    }
    if story.end.exit_code != Some(Tool::EXIT_CODE) {
        found.push("the shim must exit with the server's code".to_owned());
    }
    found
}

/// What must be so however far the script came.
pub(super) fn of_session(story: &Story, seen: &Seen, recording: &Recording) -> Vec<String> {
    let mut found = Vec::new();
    if story.end.left_behind {
        found.push("no process may be left".to_owned());
    }
    if !recording.is_complete {
        found.push("the recording must be complete".to_owned());
    }
    found.extend(recording.oddities.iter().map(|line| format!("recorded: {line}")));
    found.extend(seen.unreadable.iter().map(|line| format!("unreadable: {line}")));
    found
}

fn expectations(call: &Call) -> Vec<(&'static str, bool)> {
    let mut must = vec![("the work must start", call.work.started_ms.is_some())];
    match call.tool {
        Tool::Quick => must.extend([
            ("the work must finish", call.work.end == Some(WorkEnd::Finished)),
            ("the client must get one result", call.client.answers.len() == 1 && error_code(call).is_none()),
        ]),
        Tool::Obeys => {
            must.extend(cancelled_by(call, Canceller::Client));
            must.extend([
                ("the work must stop by the cancel", call.work.end == Some(WorkEnd::Stopped)),
                ("its cancel must be sent, and the receipt claim no more", is_open(call)),
            ]);
            must.extend(silence(call));
        }
        Tool::Ignores | Tool::Crosses => {
            must.extend(cancelled_by(call, Canceller::Client));
            must.extend([
                ("the work must run to its end", call.work.end == Some(WorkEnd::Finished)),
                ("its late answer must be swallowed", call.swallowed.answers == 1),
                ("the receipt must be answered_after", outcome(call) == "answered_after"),
            ]);
            must.extend(silence(call));
            if call.tool == Tool::Crosses {
                let crossed = call.work.answering_ms < call.cancel.as_ref().map(|cancel| cancel.at_ms)
                    && call.work.answering_ms.is_some();
                must.push(("the answer must be on its way before the cancel", crossed));
            }
        }
        Tool::Sleepy => {
            must.extend(cancelled_by(call, Canceller::Shim));
            let data = call.client.answers.first().and_then(|answer| answer.error.as_ref()).map(|error| &error["data"]);
            must.extend([
                ("the work must stop by the cancel", call.work.end == Some(WorkEnd::Stopped)),
                ("the client must be told of the timeout", error_code(call) == Some(TIMED_OUT)),
                ("… once", call.client.answers.len() == 1),
                ("… after how long", data.is_some_and(|data| data["afterMs"] == script::CLOCK)),
                ("its cancel must be sent, and the receipt claim no more", is_open(call)),
            ]);
        }
        Tool::Dies => must.extend([
            ("the server must exit under it", call.work.end == Some(WorkEnd::Exited)),
            ("the client must be told that the server is gone", error_code(call) == Some(SERVER_GONE)),
            ("… once", call.client.answers.len() == 1),
        ]),
    }
    must
}

fn cancelled_by(call: &Call, who: Canceller) -> [(&'static str, bool); 2] {
    let what = match who {
        Canceller::Client => "the client must cancel it",
        Canceller::Shim => "the shim must cancel it",
    };
    let is_so = call.cancel.as_ref().is_some_and(|cancel| cancel.by == who);
    [(what, is_so), ("the cancel must reach the server", call.work.told_ms.is_some())]
}

/// Progress that the server wrote before it knew of the cancel may have crossed it.
fn silence(call: &Call) -> [(&'static str, bool); 2] {
    let unaware = call.work.progress_when_told.unwrap_or_default();
    [
        ("the client must get no answer after its cancel", call.client.answers.is_empty()),
        ("progress after the cancel must be swallowed", call.client.progress <= unaware),
    ]
}

fn error_code(call: &Call) -> Option<i32> {
    let error = call.client.answers.first()?.error.as_ref()?;
    error["code"].as_i64().and_then(|code| i32::try_from(code).ok())
}

/// The cancel has left, and MCP says no more about it.
fn is_open(call: &Call) -> bool {
    outcome(call) == "sent" && call.receipt.as_ref().is_some_and(|receipt| receipt.written_ms.is_some())
}

fn outcome(call: &Call) -> &str {
    call.receipt.as_ref().map_or("", |receipt| receipt.outcome.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ms::Ms, shim::example};

    fn disappointments(change: impl FnOnce(&mut Story)) -> Vec<String> {
        let mut story = example::story();
        change(&mut story);
        of_calls(&story)
    }

    #[test]
    fn a_run_where_all_went_well_disappoints_nobody() {
        assert_eq!(disappointments(|_| ()), Vec::<String>::new());
        let recording = Recording::read(&[json!({}), json!({"kind": "end"})]);
        assert_eq!(of_session(&example::story(), &Seen::default(), &recording), Vec::<String>::new());
    }

    #[test]
    fn work_that_runs_on_after_its_cancel_disappoints() {
        let found = disappointments(|story| story.calls[1].work.end = Some(WorkEnd::Finished));
        assert_eq!(found, ["obeys: the work must stop by the cancel"]);
    }

    #[test]
    fn a_late_answer_that_reaches_the_client_disappoints() {
        let found = disappointments(|story| {
            let answer = std::mem::take(&mut story.calls[0].client.answers);
            story.calls[2].client.answers = answer;
            story.calls[2].swallowed.answers = 0;
        });
        let told = "ignores: the client must get no answer after its cancel";
        assert_eq!(
            found,
            ["quick: the client must get one result", "ignores: its late answer must be swallowed", told]
        );
    }

    #[test]
    fn a_receipt_that_claims_more_than_was_seen_disappoints() {
        let found = disappointments(|story| {
            if let Some(receipt) = &mut story.calls[1].receipt {
                receipt.outcome = "confirmed".to_owned();
            }
        });
        assert_eq!(found, ["obeys: its cancel must be sent, and the receipt claim no more"]);
    }

    #[test]
    fn an_answer_that_set_out_after_the_cancel_is_no_crossing() {
        let found = disappointments(|story| story.calls[3].work.answering_ms = Some(Ms(802.0)));
        assert_eq!(found, ["crosses: the answer must be on its way before the cancel"]);
    }

    #[test]
    fn what_is_left_or_dropped_or_unreadable_disappoints() {
        let mut story = example::story();
        story.end.left_behind = true;
        let seen = Seen { unreadable: vec!["noise".to_owned()], ..Seen::default() };
        let recording = Recording::read(&[json!({}), json!({"kind": "dropped"})]);
        let told = [
            "no process may be left",
            "the recording must be complete",
            "recorded: {\"kind\":\"dropped\"}",
            "unreadable: noise",
        ];
        assert_eq!(of_session(&story, &seen, &recording), told);
    }
}
