//! Who sees what is said and done, and finds fault.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What is known of each call of the local client, by its number.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    calls: BTreeMap<u64, Call>,
    questions_heard: BTreeSet<u64>,
    questions_answered: BTreeSet<u64>,
    pub(crate) tally: Tally,
}

/// How often each thing was seen: that a world is calm proves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) results: usize,
    pub(crate) errors: usize,
    /// Work that a cancel stopped.
    pub(crate) cancelled: usize,
    /// Work that the end of its stream stopped.
    pub(crate) closed: usize,
    pub(crate) progress: usize,
    pub(crate) questions: usize,
    /// Streams that were asked for again behind an event.
    pub(crate) resumed: usize,
    /// Sessions that were opened again.
    pub(crate) reopened: usize,
    /// Calls that never left, or were taken back.
    pub(crate) withdrawn: usize,
    /// How often calls came back, to be sent again.
    pub(crate) returned: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self { results, errors, cancelled, closed, progress, questions, resumed, reopened, withdrawn, returned } =
            other;
        self.results += results;
        self.errors += errors;
        self.cancelled += cancelled;
        self.closed += closed;
        self.progress += progress;
        self.questions += questions;
        self.resumed += resumed;
        self.reopened += reopened;
        self.withdrawn += withdrawn;
        self.returned += returned;
    }
}

#[derive(Debug)]
struct Call {
    id: Value,
    is_modern: bool,
    is_cancelled: bool,
    answers: usize,
    progress: u64,
    started: usize,
    /// What its client was told of its way to the server.
    left: bool,
    withdrawn: bool,
    cancel_left: bool,
    /// What the program has done with it.
    end: Option<End>,
}

/// How work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    /// By a cancel that named it.
    Cancelled,
    /// By the end of its stream.
    StreamClosed,
    /// With its program, or its session.
    Died,
}

impl Judge {
    pub(crate) fn called(&mut self, number: u64, id: Value, is_modern: bool) {
        let call = Call {
            id,
            is_modern,
            is_cancelled: false,
            answers: 0,
            progress: 0,
            started: 0,
            left: false,
            withdrawn: false,
            cancel_left: false,
            end: None,
        };
        self.calls.insert(number, call);
    }

    pub(crate) fn cancelled(&mut self, number: u64) {
        self.calls.get_mut(&number).unwrap().is_cancelled = true;
    }

    /// The client says that a call has left.
    pub(crate) fn left(&mut self, number: u64) {
        let call = self.calls.get_mut(&number).unwrap();
        assert!(!call.left && !call.withdrawn, "call {number} leaves, and that was known otherwise");
        call.left = true;
    }

    /// The client says that a call has come back.
    pub(crate) fn returned(&mut self, number: u64) {
        let call = self.calls.get_mut(&number).unwrap();
        assert!(call.left && !call.cancel_left, "call {number} comes back, and was not away");
        assert_eq!(call.started, 0, "call {number} runs, and comes back");
        call.left = false;
        self.tally.returned += 1;
    }

    /// The client says that a call was taken back; or its answer, by its cancel.
    pub(crate) fn withdrawn(&mut self, number: u64, may_lose_streams: bool) {
        let call = self.calls.get_mut(&number).unwrap();
        assert!(!call.cancel_left, "call {number} is taken back, and its cancel has left");
        let is_answered = call.is_cancelled && (call.withdrawn || call.left);
        assert!(is_answered || !call.withdrawn && !call.left, "call {number} is taken back once too often");
        let has_run = call.end == Some(End::Answered) || may_lose_streams;
        assert!(
            call.started == 0 || is_answered && call.is_modern && has_run,
            "call {number} runs, and was taken back"
        );
        call.withdrawn = true;
        self.tally.withdrawn += 1;
    }

    /// The client says that the cancel of a call has left.
    pub(crate) fn cancel_left(&mut self, number: u64) {
        let call = self.calls.get_mut(&number).unwrap();
        assert!(call.left && !call.withdrawn, "the cancel of call {number} leaves before it");
        assert!(call.is_cancelled && !call.cancel_left, "the cancel of call {number} leaves once too often");
        call.cancel_left = true;
    }

    /// At the end: of each call it is known whether it has left; and, unless something was lost, of each cancel.
    pub(crate) fn check_departures(&self, may_lose_cancels: bool) {
        for (number, call) in &self.calls {
            assert!(call.left || call.withdrawn, "it is not known whether call {number} has left");
            let is_known = call.cancel_left || call.withdrawn || call.end == Some(End::Answered);
            assert!(!call.is_cancelled || is_known || may_lose_cancels, "nor what became of its cancel: {call:?}");
        }
    }

    /// Calls that the local client waits for.
    pub(crate) fn waiting(&self) -> Vec<u64> {
        let waits = |call: &&Call| call.answers == 0 && !call.is_cancelled;
        self.calls.iter().filter(|(_, call)| waits(call)).map(|(number, _)| *number).collect()
    }

    /// Cancelled calls that a program works on.
    pub(crate) fn running_in_vain(&self) -> Vec<u64> {
        let runs = |call: &&Call| call.is_cancelled && call.started > 0 && call.end.is_none();
        self.calls.iter().filter(|(_, call)| runs(call)).map(|(number, _)| *number).collect()
    }

    pub(crate) fn is_over(&self, number: u64) -> bool {
        self.calls.get(&number).is_none_or(|call| call.answers > 0 || call.is_cancelled)
    }

    pub(crate) fn is_modern(&self, number: u64) -> bool {
        self.calls[&number].is_modern
    }

    pub(crate) fn id_of(&self, number: u64) -> Value {
        self.calls[&number].id.clone()
    }

    /// The local client hears an answer. One that is an error says nothing of whose it is, but its id does.
    pub(crate) fn heard_answer(&mut self, number: u64, answer: &Value, must_be_real: bool) {
        let call = self.calls.get_mut(&number).unwrap();
        assert_eq!(answer["id"], call.id, "an answer has the id of another call");
        call.answers += 1;
        assert_eq!(call.answers, 1, "call {number} is answered twice: {answer}");
        assert!(!(call.is_modern && call.is_cancelled), "call {number} is answered after its cancel");
        if let Some(result) = answer.get("result") {
            assert_eq!(result["call"], number, "an answer belongs to another call");
            assert_eq!(call.end, Some(End::Answered));
            self.tally.results += 1;
        } else {
            self.tally.errors += 1;
            assert!(!must_be_real, "call {number} is answered by an error: {answer}");
        }
    }

    pub(crate) fn heard_progress(&mut self, number: u64, progress: u64) {
        let call = self.calls.get_mut(&number).unwrap();
        assert!(progress > call.progress, "progress {progress} of call {number} comes after {}", call.progress);
        assert_eq!(call.answers, 0, "progress of call {number} comes after its answer");
        assert!(!(call.is_modern && call.is_cancelled), "progress of call {number} comes after its cancel");
        call.progress = progress;
        self.tally.progress += 1;
    }

    pub(crate) fn heard_question(&mut self, question: u64) {
        assert!(self.questions_heard.insert(question), "question {question} is asked twice");
    }

    pub(crate) fn question_answered(&mut self, question: u64) {
        assert!(self.questions_heard.contains(&question), "question {question} is answered by nobody");
        assert!(self.questions_answered.insert(question), "question {question} is answered twice");
        self.tally.questions += 1;
    }

    /// A program begins to work on a call.
    pub(crate) fn started(&mut self, number: u64) {
        let call = self.calls.get_mut(&number).unwrap();
        call.started += 1;
        assert_eq!(call.started, 1, "call {number} runs twice");
        // What was given up may still be on its way.
        assert!(call.left, "call {number} runs, and its client does not know that it has left");
    }

    /// A program ends its work on a call. `may_lose_streams`: a connection may have broken.
    pub(crate) fn ended(&mut self, number: u64, end: End, may_lose_streams: bool) {
        let call = self.calls.get_mut(&number).unwrap();
        assert_eq!(call.end, None, "call {number} ends twice");
        match end {
            End::Cancelled => {
                self.tally.cancelled += 1;
                assert!(
                    call.cancel_left,
                    "a cancel stops call {number}, and its client does not know that it has left"
                );
                assert!(call.is_cancelled, "a cancel stops call {number}, which nobody has cancelled");
                assert!(!call.is_modern, "a cancel was POSTed for call {number}, outside a session");
            }
            End::StreamClosed => {
                self.tally.closed += 1;
                assert!(call.is_modern, "a closed stream stops call {number}, in a session");
                assert!(call.is_cancelled || may_lose_streams, "call {number} loses its stream");
                assert!(call.cancel_left || may_lose_streams, "call {number} is stopped by a cancel that has not left");
            }
            End::Answered | End::Died => {}
        }
        call.end = Some(end);
    }
}
