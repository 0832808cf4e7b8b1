//! Cancels over HTTP: SDKs as clients, each in the eras that it speaks, before `rescind serve` and before a server of
//! ours. What is asserted of the work, the work itself says.

use super::http_run::{Run, runs};
use super::http_table::{Behaviour, Verdict};

/// Case 46, 48: before a server of ours there is no head of a response yet.
#[test]
fn a_cancel_before_the_response_has_begun_stops_the_work() {
    every_client(Behaviour::Silent);
}

/// Case 46, 48: with the head and some events of the response.
#[test]
fn a_cancel_after_progress_was_seen_stops_the_work() {
    every_client(Behaviour::Ticking);
}

/// Case 49: who asks for it all the same is told that it cannot be had, and goes on.
#[test]
fn the_stream_of_a_cancelled_call_is_not_resumed() {
    every_client(Behaviour::NotResumed);
}

/// Case 32: it reaches neither the caller nor the call after.
#[test]
fn an_answer_after_the_cancel_reaches_nobody() {
    every_client(Behaviour::LateAnswer);
}

/// Case 50: whose ids are alike since they count alike.
#[test]
fn of_two_clients_that_use_one_id_each_cancels_only_its_own_call() {
    every_client(Behaviour::Collision);
}

/// Asserts it of each run, except where the SDK is known to do otherwise; there it has to do that.
pub(crate) fn every_client(behaviour: Behaviour) {
    let complaints: Vec<_> = runs().iter().filter_map(|run| Some((run, complaint(behaviour, run)?))).collect();
    let Some((first, _)) = complaints.first() else { return };
    let all: String = complaints.iter().map(|(run, why)| format!("\n  {}: {why}", run.title())).collect();
    panic!("{}:{all}\nthe first of them: {first:?}", behaviour.words());
}

fn complaint(behaviour: Behaviour, run: &Run) -> Option<String> {
    match (behaviour.verdict(run), run.client.fault(behaviour)) {
        (Verdict::Ok | Verdict::Cannot, None) => None,
        (Verdict::Fault(fault), Some(known)) if fault == known => None,
        (Verdict::Wrong(why), _) => Some(why),
        (Verdict::Fault(fault), _) => Some(format!("it {fault}")),
        (Verdict::Ok | Verdict::Cannot, Some(known)) => Some(format!("it is no longer so that it {known}")),
    }
}
