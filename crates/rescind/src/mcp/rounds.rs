//! A call in several rounds at the server, whose handler goes on from one round to the next (D48, MCP-M03).
//!
//! The handler's future belongs to the request of the first round, which is answered with a result that asks for input
//! and goes on without its requester. Each later round is a request of its own, whose handler ([`resume`]) brings the
//! input and takes the outcome. If a round ends early, the first request is stopped, and so the handler.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rescind_proto::{connection::Reply, json as raw, link::Attachment};
use serde_json::{Value, json, value::RawValue};
use tokio::{sync::oneshot, time::Sleep};

use super::{
    ABANDONABLE, CLIENT_CAPABILITIES,
    ask::{ASKABLE, Asking},
    suspended::{NoSuspended, Reservation, Retry, Suspended},
};
use crate::peer::{
    self, Cause, CauseCode, ErrorObject, Route, error_code,
    extract::{OnRequest, Scope},
    handler::{BoxedHandler, HandlerOutput},
    shared::running_request::RunningRequest,
};

/// Lets the handlers of this route ask the client, by a result where the revision has no other way.
pub(super) fn asking(route: Route, name: &str, suspended: &Arc<Suspended>) -> Route {
    let name: Arc<str> = name.into();
    let (table, route_name) = (Arc::clone(suspended), Arc::clone(&name));
    let mut route = route
        .wrapped(move |request, handling| match request.context().dialect().no_server_requests {
            None => handling,
            Some(_) => Box::pin(Rounds::new(request, handling, &name, &table)),
        })
        .intercepted({
            let suspended = Arc::clone(suspended);
            move |request| resume(request, &route_name, &suspended)
        });
    route.settings.may_ask = true;
    route
}

/// A handler's future and the round that it is in.
struct Rounds {
    handling: BoxedHandler,
    /// The request of the first round.
    work: Arc<RunningRequest>,
    /// Which of [`ASKABLE`] the client declared, by place.
    declared: [bool; 3],
    route: Arc<str>,
    suspended: Arc<Suspended>,
    round: Round,
    /// The handler's output, if it ended between two rounds.
    outcome: Option<HandlerOutput>,
    /// The place of its waker at the token meanwhile.
    waits_at: Option<u32>,
}

/// Why a handler is stopped that gives up its place.
const DISPLACED: &str = "too many calls wait for input: the oldest of this client gave way to a newer one";

/// The request that waits for the handler.
enum Round {
    /// The request that it began with.
    First,
    /// A later one.
    Later(oneshot::Sender<HandlerOutput>),
    /// None: the client was asked for input.
    Between(Pause),
    /// None any more.
    Over,
}

/// The wait for the client's retry.
struct Pause {
    reservation: Reservation,
    /// The end of its time.
    time: Pin<Box<Sleep>>,
    /// Whether the answer that asked the client was written; `None` once that is known.
    delivered: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
}

/// The reason why no retry comes.
enum NoRetry {
    /// The client says so.
    Abandoned,
    /// A newer call has its place.
    Displaced,
    /// The handler must stop for this cause.
    Stop(CauseCode),
}

impl Pause {
    /// Waits for the client's retry, or the reason why none comes.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Retry, NoRetry>> {
        if let Poll::Ready(retry) = Pin::new(&mut self.reservation.retry).poll(cx) {
            let is_displaced = self.reservation.is_displaced();
            let over = if is_displaced { NoRetry::Displaced } else { NoRetry::Abandoned };
            return Poll::Ready(retry.map_err(|_dropped| over));
        }
        match self.delivered.as_mut().map(|delivered| delivered.as_mut().poll(cx)) {
            // The client does not know that it was asked.
            Some(Poll::Ready(false)) => return Poll::Ready(Err(NoRetry::Stop(CauseCode::Caller))),
            Some(Poll::Ready(true)) => self.delivered = None,
            Some(Poll::Pending) | None => {}
        }
        self.time.as_mut().poll(cx).map(|()| Err(NoRetry::Stop(CauseCode::Timeout)))
    }
}

impl Rounds {
    fn new(request: &OnRequest, handling: BoxedHandler, route: &Arc<str>, suspended: &Arc<Suspended>) -> Self {
        let declared = request.params().and_then(|params| raw::lookup(params, &["_meta", CLIENT_CAPABILITIES]));
        let declares = |method: &str| {
            let capability = method.split('/').next().unwrap_or_default();
            declared.is_some_and(|declared| raw::member(declared, capability).is_some())
        };
        Self {
            handling,
            work: Arc::clone(request.context().work()),
            declared: ASKABLE.map(declares),
            route: Arc::clone(route),
            suspended: Arc::clone(suspended),
            round: Round::First,
            outcome: None,
            waits_at: None,
        }
    }

    /// Looks for the client's retry, or its absence.
    fn poll_retry(&mut self, cx: &mut Context<'_>) {
        let Round::Between(pause) = &mut self.round else { return };
        let cause = match pause.poll(cx) {
            Poll::Ready(Ok(retry)) => return self.begin_round(retry),
            Poll::Ready(Err(NoRetry::Stop(cause))) => Cause::new(cause),
            Poll::Ready(Err(NoRetry::Displaced)) => Cause::new(CauseCode::Policy).with_text(DISPLACED),
            Poll::Ready(Err(NoRetry::Abandoned)) => {
                self.work.abandon();
                Cause::new(CauseCode::Caller)
            }
            // The driver wakes handlers at the end of the connection: a shielded one would not notice otherwise.
            Poll::Pending if !self.work.shared.lock().conn.is_open() => Cause::new(CauseCode::Disconnect),
            Poll::Pending => return,
        };
        self.give_up(cause);
    }

    /// Stops the handler: no request will wait for it any more. Its token ends its questions; the token of a shielded
    /// handler does not fire, so they are ended here. Returns whether there were any to end.
    fn give_up(&mut self, cause: Cause) -> bool {
        self.round = Round::Over;
        let fires = self.work.stop(cause);
        !fires && self.work.attached::<Asking>().is_some_and(|asking| asking.close())
    }

    fn begin_round(&mut self, Retry { responses, work, outcome, suspended }: Retry) {
        self.work.succeed(Some(work));
        self.round = Round::Later(outcome);
        if suspended.send(Arc::clone(&self.work)).is_err() {
            // That request has ended already.
            self.work.stop(Cause::new(CauseCode::Caller));
        }
        if let Some(asking) = self.work.attached::<Asking>() {
            asking.receive(&responses);
        }
    }

    /// Asks the handler's questions, if a client waits that can be asked. Returns whether anything changed.
    fn ask(&mut self) -> bool {
        let Some(asking) = self.work.attached::<Asking>().filter(|asking| asking.has_unsent()) else { return false };
        match &self.round {
            _ if self.work.signal.is_fired() => return false,
            Round::Between(_) => return false,
            Round::Over => return self.give_up(Cause::new(CauseCode::Caller)),
            Round::First | Round::Later(_) => {}
        }
        let declared = |method: &str| ASKABLE.iter().zip(self.declared).any(|(known, is)| is && *known == method);
        if asking.refuse(declared) {
            return true;
        }
        let holder = self.work.attachment().and_then(Attachment::holder);
        let Some(reservation) = self.suspended.enter(&self.route, holder) else {
            return asking.fail(&ErrorObject::new(error_code::OVERLOADED, "too many calls wait for input"));
        };
        let result = json!({
            "resultType": "input_required",
            "inputRequests": asking.send(),
            "requestState": reservation.state,
            "_meta": { ABANDONABLE: true },
        });
        let result = result.to_string().into_bytes();
        let time = Box::pin(tokio::time::sleep(self.suspended.time()));
        let mut pause = Pause { reservation, time, delivered: None };
        match std::mem::replace(&mut self.round, Round::Over) {
            Round::First => {
                let shared = &self.work.shared;
                let now = shared.now();
                let (is_asked, is_open) = {
                    let conn = &mut shared.lock().conn;
                    (conn.suspend(now, self.work.key, Reply::Result(&result)), conn.is_open())
                };
                shared.driver_notify.notify();
                if !is_asked {
                    let cause = if is_open { CauseCode::Caller } else { CauseCode::Disconnect };
                    return self.give_up(Cause::new(cause));
                }
            }
            Round::Later(outcome) => {
                if let Some(waiting) = self.work.successor() {
                    pause.delivered = Some(Box::pin(peer::Context::new(waiting).delivered()));
                }
                self.work.succeed(None);
                // Where that request has ended, nothing is delivered.
                let _ = outcome.send(HandlerOutput::Value(result));
            }
            Round::Between(_) | Round::Over => {}
        }
        self.round = Round::Between(pause);
        true
    }

    /// Passes the outcome to the request that waits for it. If none does any more, or the handler must stop, it is the end
    /// of the first request.
    fn settle(&mut self, outcome: HandlerOutput, cx: &Context<'_>) -> Poll<HandlerOutput> {
        match std::mem::replace(&mut self.round, Round::Over) {
            Round::First | Round::Over => Poll::Ready(outcome),
            Round::Later(waiting) => {
                let _ = waiting.send(outcome);
                // It was answered long ago.
                Poll::Ready(HandlerOutput::Value(b"null".to_vec()))
            }
            Round::Between(_) if self.work.poll_fired(cx, &mut self.waits_at).is_ready() => Poll::Ready(outcome),
            between @ Round::Between(_) => {
                self.round = between;
                self.outcome = Some(outcome);
                Poll::Pending
            }
        }
    }
}

impl Future for Rounds {
    type Output = HandlerOutput;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HandlerOutput> {
        let this = &mut *self;
        loop {
            this.poll_retry(cx);
            let outcome = match this.outcome.take() {
                Some(outcome) => Poll::Ready(outcome),
                None => this.handling.as_mut().poll(cx),
            };
            match outcome {
                Poll::Ready(outcome) => return this.settle(outcome, cx),
                // The next turn looks for the client, and polls the handler again if it was answered at once.
                Poll::Pending if this.ask() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// Makes the future of a request that brings the input of an earlier one; `None` for any other request.
fn resume(
    request: &OnRequest,
    route: &str,
    suspended: &Suspended,
) -> Result<Option<impl Future<Output = Result<Box<RawValue>, ErrorObject>> + Send + use<>>, ErrorObject> {
    if request.context().dialect().no_server_requests.is_none() {
        return Ok(None);
    }
    let member = |name| request.params().and_then(|params| raw::member(params, name));
    let Some(state) = member("requestState") else { return Ok(None) };
    let refused = |reason: NoSuspended| ErrorObject::invalid_params(reason.words());
    let state = raw::text(state).ok_or_else(|| refused(NoSuspended::Unknown))?;
    let responses = member("inputResponses").map_or(Ok(Value::Null), serde_json::from_slice)?;
    let retry = suspended.remove(&state, route).map_err(refused)?;
    let (outcome, ended) = oneshot::channel();
    let (hand_over, handed) = oneshot::channel();
    let work = Arc::clone(request.context().work());
    let sent = retry.send(Retry { responses, work: Arc::clone(&work), outcome, suspended: hand_over });
    sent.map_err(|_expired| refused(NoSuspended::Over))?;
    Ok(Some(follow(work, handed, ended)))
}

/// Waits for the outcome of a round, and stops the handler if the round's own request is to stop.
async fn follow(
    work: Arc<RunningRequest>,
    handed: oneshot::Receiver<Arc<RunningRequest>>,
    mut ended: oneshot::Receiver<HandlerOutput>,
) -> Result<Box<RawValue>, ErrorObject> {
    let gone = |_| ErrorObject::cancelled();
    let mut handler = StopsWithRound { handler: handed.await.map_err(gone)?, is_over: false };
    let token = peer::Context::new(Arc::clone(&work)).token();
    let mut fired = Box::pin(token.cancelled_owned());
    let mut is_stopped = false;
    let outcome = poll_fn(|cx| {
        if !is_stopped && fired.as_mut().poll(cx).is_ready() {
            is_stopped = true;
            let cause = work.cause().unwrap_or_else(|| Cause::new(CauseCode::Caller));
            handler.handler.stop(cause);
        }
        // A stopped round is over when the handler is (D12).
        Poll::Ready(ready!(Pin::new(&mut ended).poll(cx)))
    });
    let outcome = outcome.await.map_err(gone)?;
    handler.is_over = true;
    match outcome {
        HandlerOutput::Value(json) => Ok(serde_json::from_slice(&json)?),
        HandlerOutput::Error(error) => Err(error),
    }
}

/// Stops the handler when the request of its round is dropped.
struct StopsWithRound {
    handler: Arc<RunningRequest>,
    is_over: bool,
}

impl Drop for StopsWithRound {
    fn drop(&mut self) {
        if !self.is_over {
            self.handler.stop(Cause::new(CauseCode::Caller));
        }
    }
}
