//! Questions to the person behind a client: `elicitation/create`.

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::peer::{ErrorObject, ResultOf};

/// The params of `elicitation/create`: a form to fill in, or a page to visit.
///
/// It exists since 2025-06-18; pages since 2025-11-25.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitRequest {
    /// The question, in words for the person. At a client it is the server's text: untrusted.
    pub message: String,
    /// How the person answers.
    #[serde(default, skip_serializing_if = "ElicitMode::is_form")]
    pub mode: ElicitMode,
    /// The JSON schema of the form: an object whose members are strings, numbers, booleans or choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_schema: Option<Value>,
    /// The page to visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Names the visit in 2025-11-25, which requires it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
}

/// How a person answers an [`ElicitRequest`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElicitMode {
    /// By filling in a form.
    #[default]
    Form,
    /// On a page, outside of the protocol.
    Url,
}

impl ElicitMode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
    const fn is_form(&self) -> bool {
        matches!(self, Self::Form)
    }
}

impl ElicitRequest {
    /// A form with this JSON schema.
    #[must_use]
    pub fn with_schema(message: impl Into<String>, schema: Value) -> Self {
        Self { requested_schema: Some(schema), ..Self::of(message.into(), ElicitMode::Form) }
    }

    /// A form with the schema of `T`: a struct whose fields are strings, numbers, booleans, enums without data, lists of
    /// such enums, or `Option`s of these. The protocol allows nothing else in a form.
    ///
    /// Doc comments become descriptions; those of an enum's variants are the titles of the choices.
    #[cfg(feature = "schemars")]
    #[must_use]
    pub fn form<T: schemars::JsonSchema>(message: impl Into<String>) -> Self {
        Self::with_schema(message, super::form::schema::<T>())
    }

    /// A page to visit. `id` names the visit in 2025-11-25 and is ignored since.
    #[must_use]
    pub fn page(message: impl Into<String>, url: impl Into<String>, id: impl Into<String>) -> Self {
        let page = Self::of(message.into(), ElicitMode::Url);
        Self { url: Some(url.into()), elicitation_id: Some(id.into()), ..page }
    }

    const fn of(message: String, mode: ElicitMode) -> Self {
        Self { message, mode, requested_schema: None, url: None, elicitation_id: None }
    }
}

/// The result of `elicitation/create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitResult {
    /// What the person did.
    pub action: ElicitAction,
    /// The form as it was filled in; absent for a page, and where the person did not accept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
}

/// What a person did with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElicitAction {
    /// Answered it.
    Accept,
    /// Refused to answer.
    Decline,
    /// Closed it without a decision. This cancels no request.
    Cancel,
}

impl ResultOf<ElicitRequest> for ElicitResult {}

impl ElicitResult {
    /// The person filled in the form.
    ///
    /// # Errors
    ///
    /// `content` cannot be written as JSON.
    pub fn accepted(content: &impl Serialize) -> Result<Self, ErrorObject> {
        Ok(Self { action: ElicitAction::Accept, content: Some(serde_json::to_value(content)?) })
    }

    /// The person refused to answer.
    #[must_use]
    pub const fn declined() -> Self {
        Self { action: ElicitAction::Decline, content: None }
    }

    /// The person closed the question without a decision.
    #[must_use]
    pub const fn dismissed() -> Self {
        Self { action: ElicitAction::Cancel, content: None }
    }
}

/// The answer to a form, read as `T`; see [`Context::elicit`](crate::peer::Context::elicit).
///
/// What a person typed is untrusted, and a client may send anything: what `T` does not read is an error of the call.
///
/// It never grows: a person accepts, declines or closes the question, and a tool must decide about each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elicited<T> {
    /// The person filled in the form.
    Accepted(T),
    /// The person refused to answer.
    Declined,
    /// The person closed the question without a decision.
    Dismissed,
}

impl<T> Elicited<T> {
    /// The form, if the person filled it in.
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(form) => Some(form),
            Self::Declined | Self::Dismissed => None,
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Elicited<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ElicitResult { action, content } = ElicitResult::deserialize(deserializer)?;
        Ok(match action {
            ElicitAction::Accept => {
                let form = serde_json::from_value(content.unwrap_or_default());
                Self::Accepted(form.map_err(serde::de::Error::custom)?)
            }
            ElicitAction::Decline => Self::Declined,
            ElicitAction::Cancel => Self::Dismissed,
        })
    }
}

#[cfg(feature = "schemars")]
impl crate::peer::Context {
    /// Asks the person behind the client to fill in a form whose fields are those of `T`; see
    /// [`ElicitRequest::form`] for what they may be, and [`ask`](Self::ask) for how a question is asked, withdrawn and
    /// stopped.
    ///
    /// ```
    /// # use rescind::{mcp::Elicited, peer::{CallError, Context}};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Branch {
    ///     /// The branch to delete
    ///     name: String,
    /// }
    ///
    /// # async fn example(cx: Context) -> Result<(), CallError> {
    /// match cx.elicit::<Branch>("Which branch?").await? {
    ///     Elicited::Accepted(branch) => println!("{}", branch.name),
    ///     Elicited::Declined | Elicited::Dismissed => println!("none"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn elicit<T>(&self, message: &str) -> super::Ask<Elicited<T>>
    where
        T: DeserializeOwned + schemars::JsonSchema,
    {
        self.ask("elicitation/create", &ElicitRequest::form::<T>(message))
    }
}
