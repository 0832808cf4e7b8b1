//! What a server waits for, and how a result shows it.

use std::collections::VecDeque;

use crate::{
    bridge::{
        kind::{Kind, Kinds},
        rewrite,
    },
    frame::Request,
    id::RequestId,
    json,
};

/// Questions of one call or one task, in the order in which they were asked.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Questions {
    waiting: VecDeque<Question>,
    /// How many there were.
    pub(super) asked: u32,
}

#[derive(Clone, Debug, Hash)]
struct Question {
    /// The id under which the server waits for the answer.
    id: RequestId,
    kind: Option<Kind>,
    /// Its name for the client.
    key: Box<str>,
    /// The method and params, as a result has them.
    body: Box<[u8]>,
}

/// Questions of one call or one task that wait at once.
pub(super) const MOST: usize = 16;

impl Question {
    /// Bytes of memory that it holds.
    fn held(&self) -> usize {
        size_of::<Self>() + self.id.heap_bytes() + self.key.len() + self.body.len()
    }
}

impl Questions {
    /// Bytes of memory that those that wait hold.
    pub(super) fn held(&self) -> usize {
        self.waiting.iter().map(Question::held).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a question in; `false` if it does not fit into so many bytes, or there are too many.
    pub(super) fn push(&mut self, room: usize, request: &Request<'_>) -> bool {
        let kind = Kind::of(&request.method, request.params.raw);
        let key = (self.asked + 1).to_string().into();
        let question = Question { id: request.id.clone(), kind, key, body: body_of(request) };
        let fits = self.waiting.len() < MOST && question.held() <= room;
        if fits {
            self.asked += 1;
            self.waiting.push_back(question);
        }
        fits
    }

    /// Takes out those that are answered, with their answers.
    pub(super) fn take_answered<'a>(&mut self, answers: &'a [u8]) -> Vec<(RequestId, &'a [u8])> {
        let mut answered = Vec::new();
        self.waiting.retain(|Question { id, key, .. }| {
            let answer = json::member(answers, key).filter(|answer| answer.first() == Some(&b'{'));
            answered.extend(answer.map(|answer| (id.clone(), answer)));
            answer.is_none()
        });
        answered
    }

    /// Takes out those that a client does not answer which answers these kinds.
    pub(super) fn take_undeclared(&mut self, kinds: Kinds) -> Vec<RequestId> {
        let mut undeclared = Vec::new();
        self.waiting.retain(|Question { id, kind, .. }| {
            let is_declared = kind.is_some_and(|kind| kinds.contain(kind));
            undeclared.extend((!is_declared).then(|| id.clone()));
            is_declared
        });
        undeclared
    }

    /// Whether this one waits.
    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.waiting.iter().any(|question| question.id == *id)
    }

    /// The server wants no answer to this one any more.
    pub(super) fn withdraw(&mut self, id: &RequestId) {
        self.waiting.retain(|question| question.id != *id);
    }

    /// Takes out all.
    pub(super) fn take(&mut self) -> impl Iterator<Item = RequestId> + use<> {
        core::mem::take(&mut self.waiting).into_iter().map(|question| question.id)
    }

    /// Writes them as the member of a result, after others.
    pub(super) fn write(&self, members: &mut Vec<u8>) {
        let mut requests = Vec::new();
        for Question { key, body, .. } in &self.waiting {
            rewrite::raw_member(key, body, &mut requests);
        }
        rewrite::member("inputRequests", members);
        rewrite::object(&requests, None, &[], members);
    }
}

/// A question as a result has it. Of its params goes what only the older revisions have.
fn body_of(request: &Request<'_>) -> Box<[u8]> {
    let mut members = Vec::new();
    rewrite::text_member("method", &request.method, &mut members);
    if let Some(params) = request.params.raw {
        rewrite::member("params", &mut members);
        rewrite::object(b"", Some(params), &["_meta", "task", "elicitationId"], &mut members);
    }
    let mut out = Vec::new();
    rewrite::object(&members, None, &[], &mut out);
    out.into()
}
