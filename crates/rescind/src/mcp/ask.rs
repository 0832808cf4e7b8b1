//! Asking the client something in the middle of a request, in every revision.

use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context as TaskContext, Poll, Waker, ready},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::peer::{
    Call, CallError, CallMisuse, Context, ErrorObject, Peer, UnreadableAnswer, running_request::RunningRequest,
};

/// What a result may ask a client for.
pub(super) const ASKABLE: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

impl Context {
    /// Asks the client, or the person behind it, and waits for the answer: `elicitation/create`,
    /// `sampling/createMessage`, `roots/list`. `&()` is no params.
    ///
    /// Up to 2025-11-25 this is a request to the client, a child of the one being handled (D26). Since 2026-07-28 a server
    /// sends none (MCP-M03): the call is answered with a result that asks for input, and the handler waits, as if
    /// nothing had happened, until the client calls again with the input. Several questions at once, as in `join!`, are
    /// asked in one such result.
    ///
    /// A stop of the call closes the question and ends this with [`CallError::Cancelled`], and so does a client that
    /// does not call again in time: see [`Server::suspended`](super::Server::suspended).
    ///
    /// Dropping the future takes the question back: since 2026-07-28 from the handler only, for a client that has it
    /// already answers it before it calls again.
    ///
    /// # Errors
    ///
    /// The request is to stop. The client's answer is an error, or not what `R` reads; since 2026-07-28 an error ends its
    /// call instead, and a client that did not declare that it can be asked this is not asked (-32021).
    /// [`CallMisuse::NoServerRequests`] if the revision lets the server ask in the result of a `tools/call`,
    /// `resources/read` or `prompts/get` only, and this is none; or if it cannot ask this at all.
    pub fn ask<R>(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Ask<R> {
        let answer = ask(Arc::clone(self.work()), method.to_owned(), crate::peer::to_params(params));
        Ask { answer: Box::pin(answer), result: PhantomData }
    }
}

/// The answer to a question of ours, as a future; see [`Context::ask`]. Dropping it takes the question back.
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

impl<R> fmt::Debug for Ask<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").finish_non_exhaustive()
    }
}

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

/// The questions of one handler that are open.
#[derive(Debug, Default)]
pub(super) struct Asking(Mutex<Questions>);

#[derive(Debug, Default)]
struct Questions {
    open: BTreeMap<u64, Question>,
    /// How many there were.
    asked: u64,
}

#[derive(Debug)]
struct Question {
    method: String,
    params: Value,
    /// The client has it, and was not heard of since.
    is_sent: bool,
    answer: Option<Result<Value, ErrorObject>>,
    waker: Option<Waker>,
}

impl Asking {
    /// Whether the client is to be asked something that it has not been asked.
    pub(super) fn has_unsent(&self) -> bool {
        self.lock().open.values().any(Question::is_unsent)
    }

    /// Answers, in the client's place, what it did not declare that it can be asked. Whether there was any.
    pub(super) fn refuse(&self, is_declared: impl Fn(&str) -> bool) -> bool {
        self.end(|question| {
            (question.is_unsent() && !is_declared(&question.method)).then(|| undeclared(&question.method))
        })
    }

    /// Answers everything that was to be asked with this error. Whether there was anything.
    pub(super) fn fail(&self, error: &ErrorObject) -> bool {
        self.end(|question| question.is_unsent().then(|| error.clone()))
    }

    /// Ends every question as cancelled, also those that the client has: it will not answer. Whether there was any.
    pub(super) fn close(&self) -> bool {
        self.end(|question| question.answer.is_none().then(ErrorObject::cancelled))
    }

    /// Ends each question that `error` has one for. Whether there was any.
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

    /// Takes what the client is to be asked, as `inputRequests` has it.
    pub(super) fn send(&self) -> Value {
        let mut requests = serde_json::Map::new();
        for (number, question) in self.lock().open.iter_mut().filter(|(_, question)| question.is_unsent()) {
            question.is_sent = true;
            requests.insert(name(*number), json!({ "method": question.method, "params": question.params }));
        }
        requests.into()
    }

    /// What the client sent in its `inputResponses`. What it left out is asked again; what nobody waits for is ignored.
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
        // Whoever waits has been polled once; who was not will look by itself.
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
        // The handler's task sends it, and is not polled for what another task or thread asks.
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

/// What the client calls a question: never the same twice in one call.
fn name(number: u64) -> String {
    format!("q{number}")
}

fn undeclared(method: &str) -> ErrorObject {
    let capability = method.split('/').next().unwrap_or_default();
    let data = json!({ "requiredCapabilities": { capability: {} } });
    ErrorObject::new(super::MISSING_CLIENT_CAPABILITY, format!("the client declared no {capability}")).with_data(&data)
}
