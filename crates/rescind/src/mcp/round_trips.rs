//! A call in as many rounds as its server wants, at the client (D48).

use std::{
    borrow::Cow,
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use rescind_proto::{connection::Limit, error_code, json};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{
    Client,
    input::{InputRequired, OpenQuestions, PendingRetry},
    stop::RoundsStopState,
};
use crate::peer::{
    Call, CallError, Clock, ErrorObject, ProgressReport, ReceiptFuture, StopHandle, UnreadableAnswer, caused_by,
    current, shared::running_request::RunningRequest,
};

/// The most rounds that a server can make of one call.
const MAX_ROUNDS: u32 = 100;

/// One request to a server, in as many rounds as its result takes: a future of the result.
///
/// As a rule there is one round, and this behaves like its [`Call`]. In 2026-07-28 a server may answer that it wants input
/// first. Then the client's handlers of `elicitation/create`, `sampling/createMessage` and `roots/list` are called, as for
/// a server's own requests in earlier revisions, and the request is made again, under a new id, with their answers. All of
/// that happens while this is polled.
///
/// # Dropping it
///
/// stops the whole request: the pending round is cancelled as a [`Call`] is, the open questions are closed, and nothing is
/// asked again. A [handle](Self::handle), a token, and the end of the request that this one serves (D26) do the same.
///
/// # Panics
///
/// Polled outside of a tokio runtime when its server wants input.
#[must_use = "a call does nothing until it is awaited"]
pub struct RoundTrips<R> {
    client: Client,
    method: Cow<'static, str>,
    /// The params to send again; kept only if the server may ask for input.
    params: Option<Vec<u8>>,
    parent: Option<Arc<RunningRequest>>,
    made: Instant,
    settings: CallSettings,
    stop: OnceLock<Arc<RoundsStopState>>,
    round: u32,
    stage: RoundStage,
    /// The waiting handler of the server, until the retry is answered: a retry may be taken back, or cancelled before it
    /// starts.
    waiting: Option<Arc<PendingRetry>>,
    result: PhantomData<fn() -> R>,
}

/// The settings of every round.
#[derive(Default)]
struct CallSettings {
    response: Limit,
    /// For all rounds together.
    total: Limit,
    is_detached: bool,
    on_progress: Option<Arc<Mutex<OnProgress>>>,
    token: Option<CancellationToken>,
    reason: Option<Box<str>>,
}

type OnProgress = Box<dyn FnMut(ProgressReport) + Send>;

enum RoundStage {
    Round(Call<Box<RawValue>>),
    Between(Box<Between>),
    Over,
}

/// The server waits for input.
struct Between {
    input: OpenQuestions,
    token: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// The end of the total clock.
    limit: Option<Pin<Box<Sleep>>>,
}

impl<R> RoundTrips<R> {
    pub(super) fn new(
        client: Client,
        method: Cow<'static, str>,
        params: Result<Vec<u8>, serde_json::Error>,
        may_be_asked: bool,
    ) -> Self {
        let parent = current();
        let kept = params.as_ref().ok().filter(|_| may_be_asked).cloned();
        let call = Call::new(client.peer().clone(), method.clone(), params, parent.clone());
        Self {
            client,
            method,
            params: kept,
            parent,
            made: Instant::now(),
            settings: CallSettings::default(),
            stop: OnceLock::new(),
            round: 0,
            stage: RoundStage::Round(call),
            waiting: None,
            result: PhantomData,
        }
    }

    /// Limits the time until the answer of each round (D16). While this side answers questions only the total clock runs.
    /// No effect on a round that was sent.
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.settings.response = Limit::After(limit);
        self.with(|call| call.response_timeout(limit))
    }

    /// Limits the time until the result, for all rounds and the questions between them together. No effect once it is
    /// sent.
    pub fn total_timeout(mut self, limit: Duration) -> Self {
        self.settings.total = Limit::After(limit);
        self.with(|call| call.total_timeout(limit))
    }

    /// Stops all clocks. No effect once it is sent.
    pub fn without_timeouts(mut self) -> Self {
        (self.settings.response, self.settings.total) = (Limit::Never, Limit::Never);
        self.with(Call::without_timeouts)
    }

    /// Asks the server for progress in every round; see [`Call::progress`].
    pub fn progress(mut self, on_progress: impl FnMut(ProgressReport) + Send + 'static) -> Self {
        let on_progress: Arc<Mutex<OnProgress>> = Arc::new(Mutex::new(Box::new(on_progress)));
        self.settings.on_progress = Some(Arc::clone(&on_progress));
        self.with(|call| call.progress(relayed(on_progress)))
    }

    /// Stops the request when `token` fires: during a round at once (see [`Call::token`]), between two rounds when this is
    /// polled next.
    pub fn token(mut self, token: CancellationToken) -> Self {
        self.settings.token = Some(token.clone());
        self.with(|call| call.token(token))
    }

    /// Sets the reason that the server receives if this is dropped or its token fires (D20).
    pub fn reason(mut self, reason: &str) -> Self {
        self.settings.reason = Some(reason.into());
        self.with(|call| call.reason(reason))
    }

    /// Sends the request now instead of when it is first polled.
    pub fn send(self) -> Self {
        self.with(Call::send)
    }

    /// Sends the request now and detaches it, in whichever round it is; see [`Call::detach`]. A server that wants input
    /// gets it only if this is awaited.
    pub fn detach(mut self) -> Self {
        self.parent = None;
        self.settings.is_detached = true;
        self.with(Call::detach)
    }

    /// Returns a handle that stops the request from elsewhere, in whichever round it is.
    #[must_use]
    pub fn handle(&self) -> StopHandle {
        let stop = self.stop.get_or_init(|| {
            let stop = RoundsStopState::new(self.client.peer());
            match &self.stage {
                RoundStage::Round(call) => drop(stop.begin(call.handle())),
                RoundStage::Between(between) => stop.enter(between.input.handles(), self.waiting.as_ref()),
                RoundStage::Over => stop.end(),
            }
            Arc::new(stop)
        });
        StopHandle::new(Arc::<RoundsStopState>::clone(stop))
    }

    /// Stops the request; see [`StopHandle::cancel`].
    #[must_use = "the receipt says what came of it; dropping it does not take the cancel back"]
    pub fn cancel(self, reason: &str) -> ReceiptFuture {
        self.handle().cancel(reason)
    }

    /// Stops the request and goes on waiting for the answer of the pending round, no longer than `grace` (D4).
    pub fn cancel_and_wait(self, reason: &str, grace: Duration) -> Self {
        drop(self.handle().cancel_and_wait(reason, grace));
        self
    }

    fn with(mut self, change: impl FnOnce(Call<Box<RawValue>>) -> Call<Box<RawValue>>) -> Self {
        self.stage = match std::mem::replace(&mut self.stage, RoundStage::Over) {
            RoundStage::Round(call) => RoundStage::Round(change(call)),
            other @ (RoundStage::Between(_) | RoundStage::Over) => other,
        };
        self
    }

    /// The limit of all rounds together.
    fn total(&self) -> Option<Duration> {
        match self.settings.total {
            Limit::Default => self.client.peer().dialect().clocks.total,
            Limit::Never => None,
            Limit::After(total) => Some(total),
        }
    }

    /// Reads the questions of a round's answer; `None` if it is the result.
    fn required(&self, answer: &RawValue) -> Result<Option<InputRequired>, CallError> {
        let raw = answer.get().as_bytes();
        if self.params.is_none() || json::member(raw, "resultType") != Some(br#""input_required""#) {
            return Ok(None);
        }
        let decode = |error| CallError::Unreadable(UnreadableAnswer::Decode(error));
        serde_json::from_slice(raw).map(Some).map_err(decode)
    }

    /// Notes that the server has the retry.
    fn resumed(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.resumed();
        }
    }

    /// Takes a round's answer; `None` if it is the result.
    fn answered(&mut self, answer: &RawValue) -> Result<Option<RoundStage>, CallError> {
        let Some(required) = self.required(answer)? else { return Ok(None) };
        self.waiting = required.waiting(self.client.peer());
        self.round += 1;
        if self.round > MAX_ROUNDS {
            return Err(CallError::Input(ErrorObject::internal("the server asks again and again")));
        }
        let asking = || self.client.asking();
        let input = OpenQuestions::ask(required, self.round, asking, self.parent.as_ref());
        let token = self.settings.token.clone().map(|token| Box::pin(token.cancelled_owned()));
        let ends = self.total().and_then(|total| self.made.checked_add(total));
        let limit = ends.map(|ends| Box::pin(tokio::time::sleep_until(ends)));
        if let Some(stop) = self.stop.get() {
            stop.enter(input.handles(), self.waiting.as_ref());
        }
        Ok(Some(RoundStage::Between(Box::new(Between { input, token, limit }))))
    }

    /// Makes the request again, with these members in its params.
    fn retry(&mut self, members: &[u8]) -> Result<RoundStage, CallError> {
        let params = with_members(self.params.as_deref().unwrap_or(b"{}"), members);
        let mut call = Call::new(self.client.peer().clone(), self.method.clone(), Ok(params), self.parent.clone());
        let CallSettings { response, total, is_detached, on_progress, token, reason } = &self.settings;
        if [response, total].contains(&&Limit::Never) {
            call = call.without_timeouts();
        }
        if let Limit::After(response) = response {
            call = call.response_timeout(*response);
        }
        if let Some(total) = self.total() {
            call = call.total_timeout(total.saturating_sub(self.made.elapsed()));
        }
        if let Some(on_progress) = on_progress {
            call = call.progress(relayed(Arc::clone(on_progress)));
        }
        if let Some(token) = token {
            call = call.token(token.clone());
        }
        if let Some(reason) = reason {
            call = call.reason(reason);
        }
        if let Some(stop) = self.stop.get() {
            stop.begin(call.handle()).map_err(CallError::Cancelled)?;
        }
        Ok(RoundStage::Round(if *is_detached { call.detach() } else { call }))
    }
}

impl<R: DeserializeOwned> RoundTrips<R> {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<R, CallError>> {
        loop {
            match &mut self.stage {
                RoundStage::Over => return Poll::Ready(Err(CallError::Misuse(crate::peer::CallMisuse::Over))),
                RoundStage::Round(call) => {
                    let end = ready!(Pin::new(call).poll(cx));
                    if is_answer(&end) {
                        self.resumed();
                    }
                    let answer = match end {
                        Ok(answer) => answer,
                        Err(CallError::TimedOut { clock: Clock::Total, .. }) if self.round > 0 => {
                            let after = self.total().unwrap_or_default();
                            return Poll::Ready(Err(CallError::TimedOut { clock: Clock::Total, after }));
                        }
                        Err(error) => return Poll::Ready(Err(error)),
                    };
                    match self.answered(&answer)? {
                        Some(between) => self.stage = between,
                        None => {
                            let result = serde_json::from_str(answer.get());
                            return Poll::Ready(
                                result.map_err(|error| CallError::Unreadable(UnreadableAnswer::Decode(error))),
                            );
                        }
                    }
                }
                RoundStage::Between(between) => {
                    if let Some(cause) = self.stop.get().and_then(|stop| stop.pause(cx)) {
                        return Poll::Ready(Err(CallError::Cancelled(cause)));
                    }
                    if self.client.peer().shared().lock().is_over {
                        return Poll::Ready(Err(CallError::Closed));
                    }
                    let fired = between.token.as_mut().is_some_and(|token| token.as_mut().poll(cx).is_ready());
                    if fired {
                        let cause = caused_by(self.settings.reason.as_deref().unwrap_or_default());
                        if let Some(stop) = self.stop.get() {
                            stop.end_between(cause.clone());
                        }
                        return Poll::Ready(Err(CallError::Cancelled(cause)));
                    }
                    if between.limit.as_mut().is_some_and(|limit| limit.as_mut().poll(cx).is_ready()) {
                        let after = self.total().unwrap_or_default();
                        return Poll::Ready(Err(CallError::TimedOut { clock: Clock::Total, after }));
                    }
                    let members = ready!(between.input.poll(cx))?;
                    self.stage = self.retry(&members)?;
                }
            }
        }
    }
}

impl<R: DeserializeOwned> Future for RoundTrips<R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let end = ready!(self.poll_end(cx));
        // Open questions are closed now, not when this is dropped.
        self.stage = RoundStage::Over;
        if let Some(stop) = self.stop.get() {
            stop.end();
        }
        self.waiting = None;
        Poll::Ready(end)
    }
}

impl<R> Drop for RoundTrips<R> {
    /// The answer that was not seen may ask for input; and a detached retry goes on.
    fn drop(&mut self) {
        let cause = || caused_by(self.settings.reason.as_deref().unwrap_or_default());
        let call = match &mut self.stage {
            RoundStage::Round(call) => call,
            RoundStage::Between(_) => {
                if let Some(stop) = self.stop.get() {
                    stop.end_between(cause());
                }
                return;
            }
            RoundStage::Over => return,
        };
        let end = call.receive_end();
        if end.as_ref().map_or(self.settings.is_detached, is_answer) {
            self.resumed();
        }
        if let Some(Ok(answer)) = end
            && let Ok(Some(required)) = self.required(&answer)
        {
            self.waiting = required.waiting(self.client.peer());
        }
    }
}

impl<R> fmt::Debug for RoundTrips<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage: &dyn fmt::Debug = match &self.stage {
            RoundStage::Round(call) => call,
            RoundStage::Between(_) => &"between rounds",
            RoundStage::Over => &"over",
        };
        f.debug_struct("RoundTrips").field("method", &self.method).field("stage", stage).finish_non_exhaustive()
    }
}

/// Whether the server's handler ended the call. A call that was refused for lack of room, or by what is before the server,
/// never reached it.
const fn is_answer<R>(end: &Result<R, CallError>) -> bool {
    match end {
        Ok(_) => true,
        Err(CallError::Peer(error)) => error.code != error_code::OVERLOADED,
        Err(_) => false,
    }
}

/// Passes progress to the callback that all rounds share.
fn relayed(on_progress: Arc<Mutex<OnProgress>>) -> impl FnMut(ProgressReport) + Send + 'static {
    move |progress| on_progress.lock().unwrap_or_else(PoisonError::into_inner)(progress)
}

/// Appends the members of an object to another.
fn with_members(object: &[u8], members: &[u8]) -> Vec<u8> {
    let inner = |object: &[u8]| {
        let open = object.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
        let close = object.iter().rposition(|byte| *byte == b'}').unwrap_or(object.len());
        object[open..close].trim_ascii().to_vec()
    };
    let (own, added) = (inner(object), inner(members));
    let comma: &[u8] = if own.is_empty() || added.is_empty() { b"" } else { b"," };
    [b"{", &own[..], comma, &added[..], b"}"].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::peer::{Fault, TransportError, transport::memory};

    #[tokio::test]
    async fn a_stop_just_before_a_round_begins_keeps_it_from_beginning() {
        let (near, _far) = memory();
        let (peer, _driver) = Client::peer_builder().connect(near);
        let client = Client::new(peer, "test", "0");
        let mut call = RoundTrips::<Value>::new(client, "tools/call".into(), Ok(b"{}".to_vec()), true);
        let handle = call.handle();
        let waker = std::task::Waker::noop();
        let stop = Arc::clone(call.stop.get().expect("there is a handle"));
        assert_eq!(stop.pause(&Context::from_waker(waker)), None, "its caller looks");
        drop(handle.cancel("and then Stop is pressed"));
        assert!(matches!(call.retry(b"{}"), Err(CallError::Cancelled(_))), "nothing is asked again");
    }

    #[test]
    fn only_what_the_server_said_is_an_answer() {
        let refused = TransportError::new(Fault::Server, false, "https://mcp.test answered 503");
        assert!(!is_answer::<()>(&Err(CallError::Transport(Box::new(refused)))));
        assert!(!is_answer::<()>(&Err(CallError::Unreadable(UnreadableAnswer::Invalid))));
        assert!(!is_answer::<()>(&Err(CallError::Peer(ErrorObject::new(error_code::OVERLOADED, "full")))));
        assert!(is_answer::<()>(&Err(CallError::Peer(ErrorObject::internal("it failed")))));
    }

    #[test]
    fn members_are_added_behind_those_there_are() {
        let joined = |object: &str, members: &str| {
            String::from_utf8(with_members(object.as_bytes(), members.as_bytes())).expect("it was text")
        };
        assert_eq!(joined(r#"{"a":{"b":1}}"#, r#"{"c":2}"#), r#"{"a":{"b":1},"c":2}"#);
        assert_eq!(joined("{}", r#"{"c":2}"#), r#"{"c":2}"#);
        assert_eq!(joined(r#"{"a":1}"#, "{}"), r#"{"a":1}"#);
    }
}
