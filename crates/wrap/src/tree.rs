//! A document as ranges of its text, whichever syntax it is in.

use std::ops::Range;

/// A value, and where in the text it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) range: Range<usize>,
    pub(crate) value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A string, as its escapes mean it.
    String(String),
    Array(Vec<Node>),
    Object(Object),
    Flag(bool),
    /// A number, a date or nothing.
    Other,
    /// What no change of ours can follow, for this reason.
    Strange(&'static str),
}

/// Members in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) members: Vec<Member>,
    /// Whether its members are separated by commas: every JSON object, and a TOML table in braces.
    pub(crate) has_commas: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) key: String,
    /// Where the key stands, quotes included; of a dotted key its last part.
    pub(crate) key_range: Range<usize>,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            Value::Array(_) | Value::Object(_) | Value::Flag(_) | Value::Other | Value::Strange(_) => None,
        }
    }

    pub(crate) fn as_object(&self) -> Option<&Object> {
        match &self.value {
            Value::Object(object) => Some(object),
            Value::String(_) | Value::Array(_) | Value::Flag(_) | Value::Other | Value::Strange(_) => None,
        }
    }

    pub(crate) fn as_array(&self) -> Option<&[Self]> {
        match &self.value {
            Value::Array(elements) => Some(elements),
            Value::String(_) | Value::Object(_) | Value::Flag(_) | Value::Other | Value::Strange(_) => None,
        }
    }

    /// Why no change of ours can follow it, or an element of it.
    pub(crate) fn strangeness(&self) -> Option<&'static str> {
        match &self.value {
            Value::Strange(why) => Some(why),
            Value::Array(elements) => elements.iter().find_map(Self::strangeness),
            Value::String(_) | Value::Object(_) | Value::Flag(_) | Value::Other => None,
        }
    }

    /// The elements of an array that has strings only.
    pub(crate) fn as_words(&self) -> Option<Vec<&str>> {
        self.as_array()?.iter().map(Self::as_str).collect()
    }
}

impl Object {
    /// The member that counts: of several with one key the last, as every parser of JSON has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Member> {
        self.members.iter().rev().find(|member| member.key == key)
    }

    /// Whether a key stands in it twice.
    pub(crate) fn has_twice(&self) -> bool {
        let mut keys: Vec<&str> = self.members.iter().map(|member| &*member.key).collect();
        keys.sort_unstable();
        keys.windows(2).any(|pair| pair[0] == pair[1])
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)?.node.value {
            Value::Flag(flag) => Some(flag),
            Value::String(_) | Value::Array(_) | Value::Object(_) | Value::Other | Value::Strange(_) => None,
        }
    }
}
