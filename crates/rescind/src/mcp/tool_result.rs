//! What a tool call results in.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::peer::ErrorObject;

/// The result of a tool call.
///
/// A tool returns this, or what becomes it: text, one [`Content`] or several, or `()`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResult {
    /// For the model.
    #[serde(default)]
    pub content: Vec<Content>,
    /// For programs: an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// The tool failed, and the model is told why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Since 2026-07-28: `complete`, or what the server wants first. Absent means `complete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_type: Option<Box<str>>,
}

impl ToolResult {
    /// The tool failed, in words for the model; a protocol's error is an [`ErrorObject`] instead.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::from(message.into()) }
    }

    /// An object for programs, and the same as text for those that know no such thing.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON.
    pub fn structured(object: &impl Serialize) -> Result<Self, ErrorObject> {
        let object = serde_json::to_value(object)?;
        Ok(Self { structured_content: Some(object.clone()), ..Self::from(object.to_string()) })
    }

    /// All its text, line by line.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<_> = self.content.iter().filter_map(Content::as_text).collect();
        texts.join("\n")
    }
}

impl From<()> for ToolResult {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<String> for ToolResult {
    fn from(text: String) -> Self {
        Content::text(text).into()
    }
}

impl From<&str> for ToolResult {
    fn from(text: &str) -> Self {
        Content::text(text).into()
    }
}

impl From<Content> for ToolResult {
    fn from(content: Content) -> Self {
        vec![content].into()
    }
}

impl From<Vec<Content>> for ToolResult {
    fn from(content: Vec<Content>) -> Self {
        Self { content, ..Self::default() }
    }
}

/// One block of content, as the protocol writes it: an object with a `type`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Content(
    /// The object.
    pub Value,
);

impl Content {
    /// Text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self(json!({ "type": "text", "text": text.into() }))
    }

    /// Its text, if it is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if self.0["type"] == "text" { self.0["text"].as_str() } else { None }
    }
}
