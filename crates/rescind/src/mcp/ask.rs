//! Questions to the client in the middle of a request, in every revision.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context as TaskContext, Poll, Waker, ready},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::peer::{
    Call, CallError, CallMisuse, Context, ErrorObject, Peer, UnreadableAnswer, shared::running_request::RunningRequest,
};

/// The methods of questions that a result may ask.
pub(super) const ASKABLE: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

impl Context {
    /// Asks the client, or the person or model behind it, and waits for the answer: `elicitation/create`,
    /// `sampling/createMessage`, `roots/list`. `&()` means no params. The first two have types: see
    /// [`elicit`](Self::elicit) and [`sample`](Self::sample).
    ///
    /// Up to 2025-11-25 this is a request to the client, a child of the request being handled (D26). Since 2026-07-28 a
    /// server sends no requests (MCP-M03): the call is answered with a result that asks for input, and the handler waits,
    /// as if nothing had happened, until the client calls again with the input. Questions that are asked at once, as in
    /// `join!`, share one such result.
    ///
    /// A stop of the call closes the question and ends this with [`CallError::Cancelled`]. So does a client that does not
    /// call again in time: see [`Server::suspended`](super::Server::suspended).
    ///
    /// Dropping the future takes the question back. Since 2026-07-28 only the handler forgets it: a client that has the
    /// question already answers it before it calls again.
    ///
    /// # Errors
    ///
    /// The request must stop. Or the client's answer is an error, or `R` cannot be read from it; since 2026-07-28 such an
    /// error ends the client's call instead. Since 2026-07-28 a client that did not declare the capability is not asked
    /// (-32021). [`CallMisuse::NoServerRequests`] if the revision lets a server ask only in the result of a `tools/call`,
    /// `resources/read` or `prompts/get` and this request is another, or if the revision has no such question.
    pub fn ask<R>(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Ask<R> {
        let answer = ask(Arc::clone(self.work()), method.to_owned(), crate::peer::to_params(params));
        Ask { answer: Box::pin(answer), result: PhantomData }
    }
}

/// A future of the answer to a question; see [`Context::ask`]. Dropping it takes the question back.
#[must_use = "nothing is asked until it is awaited"]
pub struct Ask<R> {
    answer: Pin<Box<dyn Future<Output = Result<Value, CallError>> + Send>>,
    result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Future for Ask<R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.answer.as_mut().poll(cx))?;
        let read = serde_json::from_value(answer);
        Poll::Ready(read.map_err(|error| CallError::Unreadable(UnreadableAnswer::Decode(error))))
    }
}

debug_fields!(Ask<R>);

async fn ask(
    work: Arc<RunningRequest>,
    method: String,
    params: Result<Vec<u8>, serde_json::Error>,
) -> Result<Value, CallError> {
    if work.route_info.dialect.no_server_requests.is_none() {
        return Call::new(Peer::of(&work.shared), method.into(), params, Some(work)).await;
    }
    if !work.route_info.may_ask || !ASKABLE.contains(&&*method) {
        return Err(CallError::Misuse(CallMisuse::NoServerRequests));
    }
    let params = match params {
        Ok(params) if params.is_empty() => json!({}),
        Ok(params) => serde_json::from_slice(&params).map_err(misuse)?,
        Err(error) => return Err(misuse(error)),
    };
    let question = OpenQuestion::new(&work, method, params);
    let token = Context::new(Arc::clone(&work)).token();
    match token.run_until_cancelled_owned(question.answer()).await {
        Some(Err(error)) if error.is_cancelled => Err(CallError::Cancelled(work.cause_for_children())),
        Some(answer) => answer.map_err(CallError::Peer),
        None => Err(CallError::Cancelled(work.cause_for_children())),
    }
}

fn misuse(error: serde_json::Error) -> CallError {
    CallError::Misuse(CallMisuse::Params(error))
}

/// The open questions of one handler.
#[derive(Debug, Default)]
pub(super) struct Asking(Mutex<Questions>);

#[derive(Debug, Default)]
struct Questions {
    open: BTreeMap<u64, Question>,
    /// How many were asked so far.
    asked: u64,
}

#[derive(Debug)]
struct Question {
    method: String,
    params: Value,
    /// The client has it and has not called again since.
    is_sent: bool,
    answer: Option<Result<Value, ErrorObject>>,
    waker: Option<Waker>,
}

impl Asking {
    /// Whether there is a question that the client has not been sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.lock().open.values().any(Question::is_unsent)
    }

    /// Answers the questions whose capability the client did not declare. Returns whether there was any.
    pub(super) fn refuse(&self, is_declared: impl Fn(&str) -> bool) -> bool {
        self.end(|question| {
            (question.is_unsent() && !is_declared(&question.method)).then(|| undeclared(&question.method))
        })
    }

    /// Answers every unsent question with this error. Returns whether there was any.
    pub(super) fn fail(&self, error: &ErrorObject) -> bool {
        self.end(|question| question.is_unsent().then(|| error.clone()))
    }

    /// Ends every question as cancelled, also those that the client has: it will not answer. Returns whether there was
    /// any.
    pub(super) fn close(&self) -> bool {
        self.end(|question| question.answer.is_none().then(ErrorObject::cancelled))
    }

    /// Ends each question for which `error` returns an error. Returns whether there was any.
    fn end(&self, error: impl Fn(&Question) -> Option<ErrorObject>) -> bool {
        let mut wakers = Vec::new();
        for question in self.lock().open.values_mut() {
            if let Some(error) = error(question) {
                wakers.extend(question.settle(Err(error)));
            }
        }
        let has_ended = !wakers.is_empty();
        wakers.into_iter().for_each(Waker::wake);
        has_ended
    }

    /// Takes the unsent questions, in the form of `inputRequests`.
    pub(super) fn send(&self) -> Value {
        let mut requests = serde_json::Map::new();
        for (number, question) in self.lock().open.iter_mut().filter(|(_, question)| question.is_unsent()) {
            question.is_sent = true;
            requests.insert(name(*number), json!({ "method": question.method, "params": question.params }));
        }
        requests.into()
    }

    /// Takes the client's `inputResponses`. A question that it left out is asked again; an answer that is not waited for is
    /// ignored.
    pub(super) fn receive(&self, responses: &Value) {
        let mut wakers = Vec::new();
        for (number, question) in self.lock().open.iter_mut().filter(|(_, question)| question.is_sent) {
            match responses.get(name(*number)) {
                Some(answer) => wakers.extend(question.settle(Ok(answer.clone()))),
                None => question.is_sent = false,
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Questions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    const fn is_unsent(&self) -> bool {
        !self.is_sent && self.answer.is_none()
    }

    fn settle(&mut self, answer: Result<Value, ErrorObject>) -> Option<Waker> {
        self.answer = Some(answer);
        // A future that was not polled yet has no waker, and finds the answer at its first poll.
        Some(self.waker.take().unwrap_or_else(|| Waker::noop().clone()))
    }
}

/// A question that is waited for; dropping it takes it back.
struct OpenQuestion {
    asking: Arc<Asking>,
    number: u64,
}

impl OpenQuestion {
    fn new(work: &RunningRequest, method: String, params: Value) -> Self {
        let asking = work.attach::<Asking>();
        let number = {
            let mut questions = asking.lock();
            questions.asked += 1;
            let number = questions.asked;
            let question = Question { method, params, is_sent: false, answer: None, waker: None };
            questions.open.insert(number, question);
            number
        };
        // The handler's task sends it, and would not be polled for a question of another task or thread.
        work.wake();
        Self { asking, number }
    }

    async fn answer(self) -> Result<Value, ErrorObject> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &TaskContext<'_>) -> Poll<Result<Value, ErrorObject>> {
        let mut questions = self.asking.lock();
        let Some(question) = questions.open.get_mut(&self.number) else {
            return Poll::Ready(Err(ErrorObject::cancelled()));
        };
        if let Some(answer) = question.answer.take() {
            return Poll::Ready(answer);
        }
        question.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let taken = self.asking.lock().open.remove(&self.number);
        drop(taken);
    }
}

/// Names a question for the client: never the same twice in one call.
fn name(number: u64) -> String {
    format!("q{number}")
}

fn undeclared(method: &str) -> ErrorObject {
    let capability = method.split('/').next().unwrap_or_default();
    let data = json!({ "requiredCapabilities": { capability: {} } });
    ErrorObject::new(super::MISSING_CLIENT_CAPABILITY, format!("the client declared no {capability}")).with_data(&data)
}
