//! The answers of the client's own handlers to the questions in a server's answer.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ABANDONABLE, ABANDONED};
use crate::peer::{Call, CallError, Peer, StopHandle, shared::running_request::RunningRequest};

/// The shortest and the longest pause before a server is asked again that asked no question.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A result that asks for input.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputRequired {
    #[serde(default)]
    input_requests: Map<String, Value>,
    request_state: Option<String>,
    #[serde(default, rename = "_meta")]
    meta: Value,
}

impl InputRequired {
    /// Returns the waiting handler of the server, if the server wants to know that no retry comes.
    pub(super) fn waiting(&self, server: &Peer) -> Option<Arc<PendingRetry>> {
        let state = self.request_state.clone().filter(|_| self.meta[ABANDONABLE] == true)?;
        Some(Arc::new(PendingRetry { server: Mutex::new(Some(server.clone())), state }))
    }
}

/// A handler of the server that waits for a retry. Dropping it tells the server that none comes.
pub(super) struct PendingRetry {
    server: Mutex<Option<Peer>>,
    state: String,
}

impl PendingRetry {
    /// Notes that the retry was answered: the handler no longer waits.
    pub(super) fn resumed(&self) {
        self.detach_server();
    }

    /// Tells the server, once, that no retry comes. Returns whether the server was told, now or before.
    pub(super) fn abandon(&self) -> bool {
        let Some(server) = self.detach_server() else { return true };
        server.notify_now(ABANDONED, &json!({ "requestState": self.state })).is_ok()
    }

    fn detach_server(&self) -> Option<Peer> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for PendingRetry {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// The questions of one answer, while they are open. Dropping them closes them.
pub(super) struct OpenQuestions {
    open: Vec<(String, Pin<Box<Call<Value>>>)>,
    given: Map<String, Value>,
    state: Option<String>,
    /// Before a server that asks nothing is asked again.
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl OpenQuestions {
    /// Makes the calls to our handlers, through `asking`; they are sent once this is polled. `round` counts from one.
    pub(super) fn ask(
        required: InputRequired,
        round: u32,
        asking: impl FnOnce() -> Peer,
        parent: Option<&Arc<RunningRequest>>,
    ) -> Self {
        let InputRequired { input_requests, request_state, .. } = required;
        let pause = input_requests.is_empty().then(|| {
            let pause = PAUSE.0.saturating_mul(1 << round.min(10)).min(PAUSE.1);
            Box::pin(tokio::time::sleep(pause))
        });
        let mut open = Vec::new();
        if !input_requests.is_empty() {
            let handlers = asking();
            for (name, request) in input_requests {
                let method = request["method"].as_str().unwrap_or_default().to_owned();
                let params = request.get("params").map_or_else(|| Ok(b"{}".to_vec()), serde_json::to_vec);
                let call = Call::new(handlers.clone(), method.into(), params, parent.cloned());
                open.push((name, Box::pin(call.without_timeouts())));
            }
        }
        Self { open, given: Map::new(), state: request_state, pause }
    }

    /// The stop handles of the open questions.
    pub(super) fn handles(&self) -> Vec<StopHandle> {
        self.open.iter().map(|(_, call)| call.handle()).collect()
    }

    /// Waits for the members that the retry adds to its params.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, CallError>> {
        if let Some(pause) = &mut self.pause
            && pause.as_mut().poll(cx).is_pending()
        {
            return Poll::Pending;
        }
        let mut failed = None;
        self.open.retain_mut(|(name, call)| match call.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                match answer {
                    Ok(answer) => drop(self.given.insert(name.clone(), answer)),
                    Err(error) => failed = Some(error),
                }
                false
            }
        });
        match failed {
            Some(CallError::Peer(error)) => Poll::Ready(Err(CallError::Input(error))),
            Some(error) => Poll::Ready(Err(error)),
            None if self.open.is_empty() => {
                let mut members = Map::new();
                if self.pause.is_none() {
                    members.insert("inputResponses".to_owned(), std::mem::take(&mut self.given).into());
                }
                if let Some(state) = self.state.take() {
                    members.insert("requestState".to_owned(), state.into());
                }
                let members = serde_json::to_vec(&members);
                Poll::Ready(members.map_err(|error| CallError::Misuse(crate::peer::CallMisuse::Params(error))))
            }
            None => Poll::Pending,
        }
    }
}
