//! The result of a tool call.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Revision;
use crate::peer::ErrorObject;

/// The result of a tool call.
///
/// A tool returns this, or a value that becomes it: text, one [`Content`] or several, or `()`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResult {
    /// The content for the model.
    #[serde(default)]
    pub content: Vec<Content>,
    /// The result for programs: an object; since 2026-07-28 any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// The tool failed, and the content says why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Since 2026-07-28: `complete`, or the kind of an incomplete result. Absent means `complete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_type: Option<Box<str>>,
}

impl ToolResult {
    /// Makes a failed result, with a message for the model. An error of the protocol is an [`ErrorObject`] instead.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::from(message.into()) }
    }

    /// Makes a result for programs, with the same JSON as text for the model and for clients that read no other.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON.
    pub fn structured(object: &impl Serialize) -> Result<Self, ErrorObject> {
        let object = serde_json::to_value(object)?;
        Ok(Self { structured_content: Some(object.clone()), ..Self::from(object.to_string()) })
    }

    /// Joins the text of its content, line by line.
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

/// A value that a tool may return: anything that becomes a [`ToolResult`], or `Structured`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    note = "a tool returns `Result<T, E>`, where `T` is text, `()`, `Content`, `ToolResult` or `Structured<…>`",
    note = "for a type of your own, return `Structured(value)`: it must be `serde::Serialize` and `schemars::JsonSchema`"
)]
pub trait ToolOutput: Send + 'static {
    /// The JSON schema of its structured content, if it has any.
    #[must_use]
    fn schema() -> Option<Value> {
        None
    }

    /// Makes the result for a client of this revision.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON.
    fn into_result(self, revision: Revision) -> Result<ToolResult, ErrorObject>;
}

impl<R: Into<ToolResult> + Send + 'static> ToolOutput for R {
    fn into_result(self, _revision: Revision) -> Result<ToolResult, ErrorObject> {
        Ok(self.into())
    }
}

/// A result for programs, whose schema is that of `T`: the tool declares it, and the call returns the value as
/// `structuredContent` and, for the model, as text.
///
/// A `T` that is written as an object can be declared since 2025-06-18, any other since 2026-07-28; clients of earlier
/// revisions get the text.
///
/// ```
/// # use rescind::{mcp::{NoArguments, Server, Structured}, peer::ErrorObject};
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Weather {
///     /// Degrees Celsius
///     temperature: f64,
/// }
///
/// async fn weather(_: NoArguments) -> Result<Structured<Weather>, ErrorObject> {
///     Ok(Structured(Weather { temperature: 21.5 }))
/// }
///
/// let server = Server::new("sky", "1.0.0").tool("weather", "The weather now", weather);
/// ```
#[cfg(feature = "schemars")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structured<T>(
    /// The value.
    pub T,
);

#[cfg(feature = "schemars")]
impl<T: Serialize + schemars::JsonSchema + Send + 'static> ToolOutput for Structured<T> {
    fn schema() -> Option<Value> {
        Some(super::schema::of::<T>())
    }

    fn into_result(self, revision: Revision) -> Result<ToolResult, ErrorObject> {
        let mut result = ToolResult::structured(&self.0)?;
        let has_a_place = |value: &Value| revision.is_stateless() || value.is_object();
        result.structured_content = result.structured_content.filter(has_a_place);
        Ok(result)
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
    /// Makes a block of text.
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
