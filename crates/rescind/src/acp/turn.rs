//! Turns: one prompt, from its request to its stop reason.

use std::{borrow::Cow, future::Future, sync::Arc};

use rescind_proto::{cause::CauseCode, connection::BackgroundItem};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::{Permission, PermissionOption, V2_DRAFT};
use crate::peer::{
    Call, Context, ErrorObject, Params, ResultOf, Route,
    extract::{Extract, OnRequest},
    handler::{HandlerFuture, HandlerOutput, outcome},
    task, to_params,
};

/// The turn that a prompt handler runs; the handler takes it as a parameter.
///
/// Everything asked of the client through it, and every call that the handler makes on any connection, is part of the
/// turn and ends with it.
///
/// Background work takes one, too ([`terminal`](Self::terminal), [`tool_call`](Self::tool_call)): of the same prompt, with
/// a context and an end of its own.
#[derive(Clone, Debug)]
pub struct Turn {
    prompt: Arc<Prompt>,
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

/// The reason why a turn ended: the result of `session/prompt`, or in version 2 what the session reports when it is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
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
    /// One that this version has no name for; in version 2 also none.
    Other,
}

impl<'de> Deserialize<'de> for StopReason {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// An answer, or an update, with a reason.
        #[derive(Deserialize)]
        struct Ended {
            #[serde(rename = "stopReason", default)]
            reason: Option<Cow<'static, str>>,
        }
        Ok(match Ended::deserialize(from)?.reason.as_deref() {
            Some("end_turn") => Self::EndTurn,
            Some("max_tokens") => Self::MaxTokens,
            Some("max_turn_requests") => Self::MaxTurnRequests,
            Some("refusal") => Self::Refusal,
            Some("cancelled") => Self::Cancelled,
            Some(_) | None => Self::Other,
        })
    }
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

    /// The id of its message in the session; `None` in version 1, which has none.
    #[must_use]
    pub fn message_id(&self) -> Option<String> {
        self.context.message()
    }

    /// Sends a `session/update`. Returns `false` if the turn is over.
    pub async fn update(&self, update: &(impl Serialize + ?Sized)) -> bool {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Update<'a, T: ?Sized> {
            session_id: &'a str,
            update: &'a T,
        }
        self.context.notify("session/update", &Update { session_id: self.session(), update }).await
    }

    /// Sends a text to the user. Returns `false` if the turn is over.
    pub async fn say(&self, text: &str) -> bool {
        let content = json!({ "type": "text", "text": text });
        let mut chunk = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
        if self.is_version_2() {
            let of = self.message_id().unwrap_or_else(|| self.context.id().to_string().trim_matches('"').to_owned());
            chunk["messageId"] = format!("{of}-answer").into();
        }
        self.update(&chunk).await
    }

    /// Begins a terminal in the background: work that outlives the turn, and is listed for the client as a terminal that
    /// can be cancelled (ACP-55, ACP-56). `details` are more members of its announcement, such as `command`.
    ///
    /// The future of `work` runs until it ends, or is asked to stop: by the client's `terminal/cancel`, by the end of the
    /// session or of the connection; `session/cancel` leaves it alone. Then the token of its [context](Self::context)
    /// fires, with the grace of any handler (D22). A result that is an object is its exit status, such as
    /// `{"exitCode": 0}`.
    ///
    /// Returns `false`, and `work` is dropped, where nothing can be begun: in version 1, in a turn that was cancelled, if
    /// the id is in use, or if too many handlers are at work.
    #[must_use = "where it is `false` nothing was begun"]
    pub fn terminal<Fut, T, E>(&self, id: &str, details: &Value, work: impl FnOnce(Self) -> Fut) -> bool
    where
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + Send + 'static,
        E: Into<ErrorObject> + Send + 'static,
    {
        self.begin("terminal", id, details, work)
    }

    /// Begins a tool call in the background, as [`terminal`](Self::terminal) does a terminal. `details` are more members of
    /// its announcement, such as `title`.
    ///
    /// It is reported as `completed` if its future returns a result, as `failed` if it returns an error, and as `cancelled`
    /// if it was asked to stop and returns none, as with [`ErrorObject::cancelled`].
    #[must_use = "where it is `false` nothing was begun"]
    pub fn tool_call<Fut, T, E>(&self, id: &str, details: &Value, work: impl FnOnce(Self) -> Fut) -> bool
    where
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + Send + 'static,
        E: Into<ErrorObject> + Send + 'static,
    {
        self.begin("tool_call", id, details, work)
    }

    fn begin<Fut, T, E>(&self, kind: &str, id: &str, details: &Value, work: impl FnOnce(Self) -> Fut) -> bool
    where
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + Send + 'static,
        E: Into<ErrorObject> + Send + 'static,
    {
        let details = to_params(details).unwrap_or_default();
        let item = BackgroundItem { kind, id, details: &details };
        task::begin_background(self.context.work(), &item, |own| {
            let turn = Self { prompt: Arc::clone(&self.prompt), context: Context::new(Arc::clone(own)) };
            HandlerFuture::boxed(work(turn), outcome)
        })
    }

    /// Shows the client the message that it has sent, under its id.
    async fn show_message(&self) {
        if let Some(message) = self.message_id() {
            let content = &self.prompt.prompt;
            self.update(&json!({ "sessionUpdate": "user_message", "messageId": message, "content": content })).await;
        }
    }

    fn is_version_2(&self) -> bool {
        self.context.dialect() == &V2_DRAFT
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
        let peer = self.context.peer();
        if self.is_version_2() {
            let tool_call = serde_json::to_value(tool_call).unwrap_or_default();
            let title = tool_call["title"].as_str().unwrap_or("Permission");
            let subject = json!({ "type": "tool_call", "toolCall": tool_call });
            let request = json!({
                "sessionId": self.session(), "title": title, "subject": subject, "options": options,
            });
            return peer.request("session/request_permission", &request);
        }
        let request = Request { session_id: self.session(), tool_call, options };
        peer.request("session/request_permission", &request)
    }
}

impl Extract<OnRequest> for Turn {
    fn extract(scope: &OnRequest) -> Result<Self, ErrorObject> {
        let Params(prompt) = Params::extract(scope)?;
        Ok(Self { prompt: Arc::new(prompt), context: scope.context() })
    }
}

/// Answers cancelled turns of this route as cancelled, regardless of what their handler returned (ACP-08), and shows its
/// client each message that it inserts, where the protocol wants that.
pub(super) fn answering_cancelled(prompt: Route) -> Route {
    prompt.wrapped(move |scope, handling| {
        let Ok(turn) = Turn::extract(scope) else { return handling };
        Box::pin(async move {
            turn.show_message().await;
            match handling.await {
                HandlerOutput::Value(_) if is_cancelled(&turn.context) => {
                    HandlerOutput::Value(br#"{"stopReason":"cancelled"}"#.to_vec())
                }
                outcome @ (HandlerOutput::Value(_) | HandlerOutput::Error(_)) => outcome,
            }
        })
    })
}

/// Whether the client cancelled the turn.
fn is_cancelled(context: &Context) -> bool {
    context.cause().is_some_and(|cause| cause.code == CauseCode::Caller)
}
