//! A result for programs and for readers.

use rescind::{
    mcp::{Content, Revision, Structured, ToolOutput, ToolResult},
    peer::ErrorObject,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A value with a schema, and the same as text for a model.
#[derive(Debug)]
pub(super) struct Readable<T> {
    pub(super) value: T,
    pub(super) text: String,
}

impl<T: Serialize + JsonSchema + Send + 'static> ToolOutput for Readable<T> {
    fn schema() -> Option<Value> {
        Structured::<T>::schema()
    }

    fn into_result(self, _revision: Revision) -> Result<ToolResult, ErrorObject> {
        let mut result = ToolResult::structured(&self.value)?;
        result.content = vec![Content::text(self.text)];
        Ok(result)
    }
}
