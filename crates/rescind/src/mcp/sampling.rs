//! Requests to the model behind a client: `sampling/createMessage`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Ask, Content};
use crate::peer::{Context, ResultOf};

/// The params of `sampling/createMessage`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageRequest {
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// The most tokens that the model may write.
    pub max_tokens: u64,
    /// Which model the server prefers. The client may ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// A system prompt. The client may change it or leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Texts at which the model stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Everything else: `includeContext`, `metadata`, `tools`, `toolChoice`.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The result of `sampling/createMessage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// What the model wrote.
    #[serde(flatten)]
    pub message: SamplingMessage,
    /// The model's name.
    pub model: String,
    /// Why the model stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or the provider's own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

/// One message of a conversation with a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingMessage {
    /// Who wrote it.
    pub role: Role,
    /// Its blocks. Up to 2025-06-18 there is exactly one; a single block is written without an array.
    #[serde(serialize_with = "write_blocks", deserialize_with = "read_blocks")]
    pub content: Vec<Content>,
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// Which model a server prefers; priorities are from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Names of models, or parts of names; the first that the client knows counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// How much a low cost matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// How much speed matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// How much ability matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

/// The name of a model, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelHint {
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl CreateMessageRequest {
    /// A request to continue this conversation with at most `max_tokens` tokens.
    #[must_use]
    pub fn new(messages: Vec<SamplingMessage>, max_tokens: u64) -> Self {
        Self { messages, max_tokens, ..Self::default() }
    }
}

impl ResultOf<CreateMessageRequest> for CreateMessageResult {}

impl CreateMessageResult {
    /// What `model` wrote.
    #[must_use]
    pub fn new(model: impl Into<String>, text: impl Into<String>) -> Self {
        Self { message: SamplingMessage::assistant(text), model: model.into(), stop_reason: Some("endTurn".to_owned()) }
    }
}

impl SamplingMessage {
    /// A message of the user.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![Content::text(text)] }
    }

    /// A message of the model.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: vec![Content::text(text)] }
    }

    /// All its text, line by line.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<_> = self.content.iter().filter_map(Content::as_text).collect();
        texts.join("\n")
    }
}

impl Context {
    /// Asks the client's model to continue a conversation; see [`ask`](Self::ask) for how a question is asked,
    /// withdrawn and stopped.
    ///
    /// ```
    /// # use rescind::{mcp::{CreateMessageRequest, SamplingMessage}, peer::{CallError, Context}};
    /// # async fn example(cx: Context) -> Result<(), CallError> {
    /// let question = CreateMessageRequest::new(vec![SamplingMessage::user("A word for rescind?")], 100);
    /// let answer = cx.sample(&question).await?;
    /// println!("{}: {}", answer.model, answer.message.text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn sample(&self, request: &CreateMessageRequest) -> Ask<CreateMessageResult> {
        self.ask("sampling/createMessage", request)
    }
}

fn write_blocks<S: Serializer>(blocks: &[Content], serializer: S) -> Result<S::Ok, S::Error> {
    match blocks {
        [one] => one.serialize(serializer),
        blocks => blocks.serialize(serializer),
    }
}

fn read_blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Content>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Array(blocks) => blocks.into_iter().map(Content).collect(),
        one @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            vec![Content(one)]
        }
    })
}
