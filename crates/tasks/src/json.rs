//! JSON that is kept byte for byte.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value, byte for byte as received or written. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Parses one value.
    ///
    /// # Errors
    ///
    /// The text is not JSON, or has more than one value.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(Self::from)
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the bytes of the text.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// Wraps text that a store wrote as JSON.
    #[cfg(feature = "sqlite")]
    pub(crate) const fn stored(text: Arc<str>) -> Self {
        Self(text)
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self(raw.get().into())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self::from(&*raw))
    }
}
