//! Turns: one prompt, from its request to its stop reason.

use std::collections::HashMap;

use rescind_proto::cause::CauseCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Permission, PermissionOption};
use crate::peer::{
    Call, Context, ErrorObject, Params, ResultOf, Route,
    extract::{Extract, OnRequest},
    handler::HandlerOutput,
};

/// The turn that a prompt handler runs; the handler takes it as a parameter.
///
/// Everything asked of the client through it, and every call that the handler makes on any connection, is part of the
/// turn and ends with it.
#[derive(Clone, Debug)]
pub struct Turn {
    prompt: Prompt,
    context: Context,
}

/// The params of `session/prompt`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prompt {
    session_id: String,
    #[serde(default)]
    prompt: Vec<Value>,
}

/// The reason why a turn ended: the result of `session/prompt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "stopReason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The agent is done.
    EndTurn,
    /// The model's limit of tokens.
    MaxTokens,
    /// The agent's limit of requests to the model.
    MaxTurnRequests,
    /// The agent refuses.
    Refusal,
    /// The client cancelled it (ACP-08).
    Cancelled,
    /// One that this version has no name for.
    #[serde(other)]
    Other,
}

impl ResultOf<Turn> for StopReason {}

impl Turn {
    /// The session's id.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.prompt.session_id
    }

    /// The prompt: blocks of content.
    #[must_use]
    pub fn prompt(&self) -> &[Value] {
        &self.prompt.prompt
    }

    /// Joins the text of the prompt, line by line.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<_> = self.prompt.prompt.iter().filter_map(|block| block["text"].as_str()).collect();
        texts.join("\n")
    }

    /// The request beneath, with its token, its cause, its tasks and its processes.
    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// Sends a `session/update`. Returns `false` if the turn has been answered.
    pub async fn update(&self, update: &(impl Serialize + ?Sized)) -> bool {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Update<'a, T: ?Sized> {
            session_id: &'a str,
            update: &'a T,
        }
        self.context.notify("session/update", &Update { session_id: self.session(), update }).await
    }

    /// Sends a text to the user. Returns `false` if the turn has been answered.
    pub async fn say(&self, text: &str) -> bool {
        let content = json!({ "type": "text", "text": text });
        self.update(&json!({ "sessionUpdate": "agent_message_chunk", "content": content })).await
    }

    /// Asks the user for permission for `tool_call`. No clock runs: people take their time.
    pub fn request_permission(
        &self,
        tool_call: &(impl Serialize + ?Sized),
        options: &[PermissionOption],
    ) -> Call<Permission> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Request<'a, T: ?Sized> {
            session_id: &'a str,
            tool_call: &'a T,
            options: &'a [PermissionOption],
        }
        let request = Request { session_id: self.session(), tool_call, options };
        self.context.peer().request("session/request_permission", &request)
    }
}

impl Extract<OnRequest> for Turn {
    fn extract(scope: &OnRequest) -> Result<Self, ErrorObject> {
        let Params(prompt) = Params::extract(scope)?;
        Ok(Self { prompt, context: scope.context() })
    }
}

/// The turns whose handlers run, by session.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenTurns {
    running: watch::Sender<HashMap<Box<str>, usize>>,
}

/// A turn whose handler runs; dropping it ends the turn.
struct RunningTurn {
    turns: OpenTurns,
    session: Box<str>,
}

impl OpenTurns {
    /// Tracks the turns of this route while they run, and answers cancelled ones as cancelled, regardless of what their
    /// handler returned (ACP-08).
    pub(super) fn track(&self, prompt: Route) -> Route {
        let turns = self.clone();
        prompt.wrapped(move |scope, handling| {
            let Ok(Params(Prompt { session_id, .. })) = Params::extract(scope) else { return handling };
            let (running, context) = (turns.begin(&session_id), scope.context());
            Box::pin(async move {
                let outcome = handling.await;
                drop(running);
                match outcome {
                    HandlerOutput::Value(_) if is_cancelled(&context) => {
                        HandlerOutput::Value(br#"{"stopReason":"cancelled"}"#.to_vec())
                    }
                    HandlerOutput::Value(_) | HandlerOutput::Error(_) => outcome,
                }
            })
        })
    }

    fn begin(&self, session: &str) -> RunningTurn {
        self.running.send_modify(|running| *running.entry(session.into()).or_default() += 1);
        RunningTurn { turns: self.clone(), session: session.into() }
    }

    /// Waits until no turn of this session runs.
    pub(super) async fn ended(&self, session: &str) {
        // The sender is ours: it cannot be gone.
        let _ = self.running.subscribe().wait_for(|running| !running.contains_key(session)).await;
    }
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        self.turns.running.send_modify(|running| {
            if let Some(count) = running.get_mut(&self.session) {
                *count -= 1;
                if *count == 0 {
                    running.remove(&self.session);
                }
            }
        });
    }
}

/// Whether the client cancelled the turn.
fn is_cancelled(context: &Context) -> bool {
    context.cause().is_some_and(|cause| cause.code == CauseCode::Caller)
}
