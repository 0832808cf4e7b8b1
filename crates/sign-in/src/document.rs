//! JSON that somebody else wrote, read member by member. A member of another kind than it should be is not there.

use serde_json::Value;

/// A JSON object. It may hold secrets, and so has no `Debug`.
pub(crate) struct Document(Value);

impl Document {
    /// Reads an object; `None` for anything else.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        Self::of(serde_json::from_slice(text).ok()?)
    }

    fn of(value: Value) -> Option<Self> {
        value.is_object().then_some(Self(value))
    }

    /// A text that is not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// A list of texts, without its members of other types; empty if the member is not a list.
    pub(crate) fn texts(&self, name: &str) -> Option<Vec<String>> {
        let list = self.0.get(name).filter(|list| !list.is_null())?;
        let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        Some(texts.map(ToOwned::to_owned).collect())
    }

    /// A number that is whole and not negative, or a text of one, which some servers write.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let number = self.0.get(name)?;
        number.as_u64().or_else(|| number.as_str()?.parse().ok())
    }

    /// Whether a member is `true`.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool) == Some(true)
    }

    /// Takes an object out of it.
    pub(crate) fn take(&mut self, name: &str) -> Option<Self> {
        Self::of(self.0.get_mut(name)?.take())
    }
}
