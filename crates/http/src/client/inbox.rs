//! Messages that wait for the local client.

use std::collections::{BTreeMap, VecDeque};

use rescind_proto::{id::RequestId, link::Unanswered};

use super::{ErrandKey, failure::Failure};

/// A queue of messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox {
    queue: VecDeque<Said>,
    bytes: usize,
    /// How many questions of the server wait.
    questions: usize,
    /// How many wait of each stream whose messages may be withdrawn.
    counts: BTreeMap<ErrandKey, usize>,
}

/// A request in flight that a message answers, and its stream.
pub(crate) type Answered = (RequestId, ErrandKey);

/// A message for the local client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalMessage {
    /// JSON without a line break.
    pub json: Vec<u8>,
    /// Why it answers a request in place of the server; `None` for what the server has said.
    pub unanswered: Option<Unanswered>,
}

/// A message, and where it comes from.
#[derive(Clone, Debug)]
struct Said {
    message: Vec<u8>,
    unanswered: Option<Unanswered>,
    /// The stream whose end withdraws it.
    stream: Option<ErrandKey>,
    answers: Option<Answered>,
    is_question: bool,
}

impl Inbox {
    /// Bytes that wait.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many questions of the server wait.
    pub(crate) const fn questions(&self) -> usize {
        self.questions
    }

    /// How many messages wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether the answer to this request waits.
    pub(crate) fn answers(&self, id: &RequestId) -> bool {
        self.queue.iter().any(|said| said.answers.as_ref().is_some_and(|(answered, _)| answered == id))
    }

    /// Adds a message. Line breaks in it, which can only stand between the tokens of JSON, become spaces.
    pub(crate) fn push(&mut self, message: Vec<u8>, stream: Option<ErrandKey>, answers: Option<Answered>) {
        self.push_said(Said { message, unanswered: None, stream, answers, is_question: false });
    }

    /// Adds the answer to this request that stands for one of the server.
    pub(crate) fn push_failure(
        &mut self,
        failure: &Failure,
        id: &RequestId,
        stream: Option<ErrandKey>,
        answers: Option<Answered>,
    ) {
        let (message, unanswered) = (failure.answer(id), Some(failure.unanswered()));
        self.push_said(Said { message, unanswered, stream, answers, is_question: false });
    }

    fn push_said(&mut self, mut said: Said) {
        for byte in &mut said.message {
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        self.bytes += said.message.len();
        if let Some(stream) = said.stream {
            *self.counts.entry(stream).or_default() += 1;
        }
        self.queue.push_back(said);
    }

    /// Adds a question of the server.
    pub(crate) fn push_question(&mut self, message: Vec<u8>) {
        self.push(message, None, None);
        self.queue.back_mut().expect("it was just added").is_question = true;
        self.questions += 1;
    }

    /// Takes the oldest message, with the request that it answers.
    pub(crate) fn pop(&mut self) -> Option<(LocalMessage, Option<Answered>)> {
        let said = self.queue.pop_front();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        let Said { message, unanswered, stream, answers, is_question } = said?;
        self.bytes -= message.len();
        self.questions -= usize::from(is_question);
        if let Some(stream) = stream
            && let Some(count) = self.counts.get_mut(&stream)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&stream);
            }
        }
        Some((LocalMessage { json: message, unanswered }, answers))
    }

    /// Whether messages of this stream wait that its end withdraws.
    pub(crate) fn withdraws(&self, stream: ErrandKey) -> bool {
        self.counts.contains_key(&stream)
    }

    /// Takes back what was not taken of this stream: nothing is delivered for a request after its cancel.
    pub(crate) fn withdraw(&mut self, stream: ErrandKey) {
        if self.counts.remove(&stream).is_none() {
            return;
        }
        let bytes = &mut self.bytes;
        self.queue.retain(|said| {
            let stays = said.stream != Some(stream);
            if !stays {
                *bytes -= said.message.len();
            }
            stays
        });
    }
}
