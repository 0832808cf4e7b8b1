//! Running one handler to its end.
//!
//! The end always has the same order (D12, D22, case 72): the future is dropped; its children are cancelled; linked tasks,
//! threads and processes end; only then is the end reported to the engine, which answers the request and frees its slot.

use std::{
    borrow::Cow,
    future::Future,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

#[cfg(feature = "acp")]
use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::BackgroundItem,
};
use rescind_proto::{
    connection::{HandlerEnd, Reply},
    json,
};
#[cfg(feature = "acp")]
use tokio::runtime::Handle;

#[cfg(feature = "acp")]
use super::shared::running_request::RouteInfo;
use super::{
    current::{self, Entered},
    error::ErrorObject,
    handler::{BoxedHandler, HandlerOutput},
    shared::running_request::RunningRequest,
};

/// A running handler, as the future of a task. It takes three words: with a fourth, tokio's task would take 256 bytes in
/// place of 128.
pub(crate) struct RunningHandler {
    work: Arc<RunningRequest>,
    phase: RunningPhase,
}

const _: () = assert!(size_of::<RunningHandler>() <= 3 * size_of::<usize>());

enum RunningPhase {
    BoxedHandler(BoxedHandler),
    /// The future is gone; the tasks, threads and processes that it started are not. Boxed, since few handlers need it.
    /// `None` once they are gone, too.
    Releasing(Option<Box<OwnedHandlerEnd>>),
}

/// The end of a handler; owns the data that [`HandlerEnd`] borrows.
#[derive(Debug)]
pub(crate) enum OwnedHandlerEnd {
    Value(Vec<u8>),
    Error(ErrorObject),
    /// It was answered already.
    Answered,
    Cancelled,
    GaveUp,
    Dropped,
    Panicked,
}

impl OwnedHandlerEnd {
    /// Passes it to `take` in the engine's form.
    pub(crate) fn with<T>(&self, take: impl FnOnce(HandlerEnd<'_>) -> T) -> T {
        take(match self {
            Self::Value(_) | Self::Error(_) => HandlerEnd::Returned(self.reply()),
            Self::Answered => HandlerEnd::Answered,
            Self::Cancelled => HandlerEnd::Cancelled,
            Self::GaveUp => HandlerEnd::GaveUp,
            Self::Dropped => HandlerEnd::Dropped,
            Self::Panicked => HandlerEnd::Panicked,
        })
    }

    /// The outcome in a word, for traces: a request that was stopped is neither an error nor a success.
    const fn word(&self, was_fired: bool) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            Self::Cancelled | Self::GaveUp => "cancelled",
            Self::Value(_) | Self::Error(_) | Self::Answered if was_fired => "ran_on",
            Self::Value(_) | Self::Answered => "result",
            Self::Error(_) => "error",
            Self::Panicked => "panicked",
        }
    }

    /// The error type, for traces: the code of an error, `tool_error` for a result that is an error.
    fn error_type(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Error(error) => Some(error.code.to_string().into()),
            Self::Value(result) if json::member(result, "isError") == Some(b"true") => Some("tool_error".into()),
            Self::Panicked => Some("panic".into()),
            Self::Value(_) | Self::Answered | Self::Cancelled | Self::GaveUp | Self::Dropped => None,
        }
    }

    fn reply(&self) -> Reply<'_> {
        match self {
            Self::Value(json) => Reply::Result(json),
            Self::Error(ErrorObject { code, message, data, .. }) => {
                Reply::Error { code: *code, message, data: data.as_ref().map(|data| data.get().as_bytes()) }
            }
            Self::Answered | Self::Cancelled | Self::GaveUp | Self::Dropped | Self::Panicked => Reply::Result(b"null"),
        }
    }
}

/// The state of a handler that was just called.
pub(crate) enum Begun {
    /// It has ended, and owns nothing.
    Ended(OwnedHandlerEnd),
    /// It goes on in a task of its own.
    Pending(RunningHandler),
}

impl Begun {
    /// Whether the handler took its request, and has not failed.
    pub(crate) const fn is_successful(&self) -> bool {
        matches!(self, Self::Pending(_) | Self::Ended(OwnedHandlerEnd::Value(_)))
    }
}

/// Calls a handler. Its future is polled here only if that never blocks, and then once (D50).
pub(crate) fn begin(
    work: &Arc<RunningRequest>,
    call: impl FnOnce() -> Result<BoxedHandler, ErrorObject>,
    never_blocks: bool,
) -> Begun {
    let called = {
        let _entered = current::enter(work);
        catch_unwind(AssertUnwindSafe(call))
    };
    let mut running = match called {
        Ok(Ok(handling)) => RunningHandler { work: Arc::clone(work), phase: RunningPhase::BoxedHandler(handling) },
        Ok(Err(error)) => RunningHandler::releasing(work, OwnedHandlerEnd::Error(error)),
        Err(_panic) => RunningHandler::releasing(work, OwnedHandlerEnd::Panicked),
    };
    if !never_blocks && matches!(running.phase, RunningPhase::BoxedHandler(_)) {
        return Begun::Pending(running);
    }
    // The task that polls it next registers the waker that counts.
    match running.poll_end(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(end) => Begun::Ended(end),
        Poll::Pending => Begun::Pending(running),
    }
}

/// Begins background work of a session in the name of `by`, in a task of its own (ACP-56). `false` if it cannot begin.
#[cfg(feature = "acp")]
pub(crate) fn begin_background(
    by: &Arc<RunningRequest>,
    item: &BackgroundItem<'_>,
    start: impl FnOnce(&Arc<RunningRequest>) -> BoxedHandler,
) -> bool {
    let shared = &by.shared;
    let Ok(runtime) = Handle::try_current() else { return false };
    let now = shared.now();
    let Some(request) = shared.lock().conn.begin_background(now, by.key, item) else { return false };
    let key = request.key;
    let route_info = RouteInfo {
        method: item.kind.into(),
        dialect: by.route_info.dialect,
        spares_processes: false,
        #[cfg(feature = "mcp")]
        may_ask: false,
    };
    let (work, _) = RunningRequest::new(Arc::clone(shared), request, Arc::new(route_info));
    let work = Arc::new(work);
    let is_stopping = {
        let mut state = shared.lock();
        state.note_running(Arc::clone(&work));
        state.conn.is_stopping(key)
    };
    // It was stopped before there was anything to stop.
    if is_stopping {
        work.fire(Cause::new(CauseCode::Caller));
    }
    match begin(&work, || Ok(start(&work)), false) {
        Begun::Ended(end) => end.with(|end| shared.ended(key, end)),
        Begun::Pending(running) => drop(runtime.spawn(running)),
    }
    shared.notify_driver();
    true
}

impl RunningHandler {
    fn releasing(work: &Arc<RunningRequest>, end: OwnedHandlerEnd) -> Self {
        let mut running = Self { work: Arc::clone(work), phase: RunningPhase::Releasing(None) };
        let (end, _) = running.release(end);
        running.phase = RunningPhase::Releasing(Some(Box::new(end)));
        running
    }

    /// Ready once the handler has ended and everything it owned is gone.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<OwnedHandlerEnd> {
        match &mut self.phase {
            RunningPhase::BoxedHandler(handling) => {
                let is_forced = self.work.signal.poll_forced(cx).is_ready();
                let entered = current::enter(&self.work);
                let end = if is_forced {
                    OwnedHandlerEnd::Dropped
                } else {
                    match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))) {
                        Ok(polled) => self.work.end_of(ready!(polled)),
                        Err(_panic) => OwnedHandlerEnd::Panicked,
                    }
                };
                self.discard(&entered);
                drop(entered);
                let (end, has_links) = self.release(end);
                if !has_links || self.work.poll_links(cx).is_ready() {
                    return Poll::Ready(end);
                }
                self.phase = RunningPhase::Releasing(Some(Box::new(end)));
                Poll::Pending
            }
            RunningPhase::Releasing(end) => {
                ready!(self.work.poll_links(cx));
                end.take().map_or(Poll::Pending, |end| Poll::Ready(*end))
            }
        }
    }

    /// Drops the handler's future, in the name of the request; a panic in it is contained.
    fn discard(&mut self, _in_its_name: &Entered) {
        if let RunningPhase::BoxedHandler(handling) = mem::replace(&mut self.phase, RunningPhase::Releasing(None)) {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(handling)));
        }
    }

    /// Stops everything that depended on the future, which is gone. Returns the end that is left to report, and whether
    /// that waits for tasks, threads or processes.
    fn release(&self, end: OwnedHandlerEnd) -> (OwnedHandlerEnd, bool) {
        let was_fired = self.work.signal.is_fired();
        self.work.span.ended(end.word(was_fired), || end.error_type());
        self.work.retire();
        let has_links = self.work.close_links();
        // It was not stopped: the answer does not wait for the tasks and processes that it left behind.
        if has_links && !was_fired && matches!(end, OwnedHandlerEnd::Value(_) | OwnedHandlerEnd::Error(_)) {
            let shared = &self.work.shared;
            let now = shared.now();
            let is_answered = shared.lock().conn.respond(now, self.work.key, end.reply());
            shared.driver_notify.notify();
            // Work that goes on without a request ends with the last that it has started.
            if is_answered {
                return (OwnedHandlerEnd::Answered, true);
            }
        }
        (end, has_links)
    }
}

impl RunningRequest {
    fn end_of(&self, outcome: HandlerOutput) -> OwnedHandlerEnd {
        match outcome {
            HandlerOutput::Value(json) => OwnedHandlerEnd::Value(json),
            HandlerOutput::Error(error) if error.is_cancelled && self.signal.is_fired() => OwnedHandlerEnd::Cancelled,
            HandlerOutput::Error(error) if error.is_cancelled => OwnedHandlerEnd::GaveUp,
            HandlerOutput::Error(error) => OwnedHandlerEnd::Error(error),
        }
    }
}

impl Future for RunningHandler {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let end = ready!(self.poll_end(cx));
        let work = &self.work;
        end.with(|end| work.shared.ended(work.key, end));
        Poll::Ready(())
    }
}

impl Drop for RunningHandler {
    /// Ends a handler that outlives the runtime.
    fn drop(&mut self) {
        if matches!(self.phase, RunningPhase::Releasing(None)) {
            return;
        }
        self.discard(&current::enter(&self.work));
        self.work.retire();
        self.work.close_links();
        self.work.shared.ended(self.work.key, HandlerEnd::Dropped);
    }
}
