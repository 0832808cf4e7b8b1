//! A JSON value with its path, for errors that name the member at fault.

use std::{borrow::Cow, fmt};

use rescind_proto::cause::{cut, sanitised};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::DialectFileError;

/// Bytes of a value that an error shows.
const SHOWN: usize = 60;

/// A value and its path.
#[derive(Debug)]
pub(super) struct Node<'a> {
    path: String,
    json: &'a str,
}

/// An object whose members are all known and given once.
#[derive(Debug)]
pub(super) struct Object<'a> {
    path: String,
    shape: &'static str,
    members: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Node<'a> {
    /// The object that is the whole text.
    pub(super) fn read(json: &'a str) -> Result<Self, DialectFileError> {
        let value: &RawValue = serde_json::from_str(json)?;
        if !value.get().starts_with('{') {
            return Err(DialectFileError::NotAnObject);
        }
        Ok(Self { path: String::new(), json: value.get() })
    }

    pub(super) fn string(&self) -> Result<String, DialectFileError> {
        serde_json::from_str(self.json).map_err(|_| self.must_be("a string"))
    }

    pub(super) fn flag(&self) -> Result<bool, DialectFileError> {
        serde_json::from_str(self.json).map_err(|_| self.must_be("true or false"))
    }

    pub(super) fn integer(&self) -> Result<i32, DialectFileError> {
        serde_json::from_str(self.json).map_err(|_| self.must_be("an integer of 32 bits"))
    }

    /// The value as JSON without white space.
    pub(super) fn compact(&self) -> Result<String, DialectFileError> {
        Ok(serde_json::from_str::<serde_json::Value>(self.json)?.to_string())
    }

    /// The value of one of these words.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, DialectFileError> {
        let word = self.string().ok();
        let chosen = choices.iter().find(|(name, _)| word.as_deref() == Some(name));
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        chosen.map(|(_, value)| *value).ok_or_else(|| self.must_be(&either(&names, "or")))
    }

    pub(super) fn list<T>(
        &self,
        each: impl Fn(&Self) -> Result<T, DialectFileError>,
    ) -> Result<Vec<T>, DialectFileError> {
        let values: Vec<&'a RawValue> = serde_json::from_str(self.json).map_err(|_| self.must_be("a list"))?;
        let nodes = values.iter().enumerate();
        nodes.map(|(place, value)| each(&Self { path: format!("{}[{place}]", self.path), json: value.get() })).collect()
    }

    /// An object with only these members; `shape` describes it.
    pub(super) fn object(&self, known: &[&str], shape: &'static str) -> Result<Object<'a>, DialectFileError> {
        let Members(members) = serde_json::from_str(self.json).map_err(|_| self.must_be(shape))?;
        let object = Object { path: self.path.clone(), shape, members };
        for (place, (name, _)) in object.members.iter().enumerate() {
            if !known.contains(&&**name) {
                return Err(object.error(name, format!("unknown member; allowed: {}", either(known, "and"))));
            }
            if object.members[..place].iter().any(|(earlier, _)| earlier == name) {
                return Err(object.error(name, "given twice".into()));
            }
        }
        Ok(object)
    }

    /// The error for a value that is not `allowed`.
    pub(super) fn must_be(&self, allowed: &str) -> DialectFileError {
        let shown = cut(self.json, SHOWN);
        let mark = if shown.len() < self.json.len() { "…" } else { "" };
        let problem = format!("must be {allowed}; found {}{mark}", sanitised(shown));
        DialectFileError::Member { member: self.path.clone(), problem }
    }
}

impl<'a> Object<'a> {
    pub(super) fn required<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Node<'a>) -> Result<T, DialectFileError>,
    ) -> Result<T, DialectFileError> {
        self.optional(name, read)?.ok_or_else(|| {
            let whole = if self.path.is_empty() { "the file".into() } else { format!("\"{}\"", self.path) };
            self.error(name, format!("missing; {whole} must be {}", self.shape))
        })
    }

    pub(super) fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Node<'a>) -> Result<T, DialectFileError>,
    ) -> Result<Option<T>, DialectFileError> {
        let member = self.members.iter().find(|(given, _)| given == name);
        member.map(|(_, json)| read(&Node { path: self.path_of(name), json })).transpose()
    }

    fn error(&self, name: &str, problem: String) -> DialectFileError {
        DialectFileError::Member { member: sanitised(&self.path_of(name)), problem }
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

/// `"a", "b" or "c"`.
fn either(words: &[&str], last: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((end, [])) => end.clone(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
        None => String::new(),
    }
}

/// The members of an object in their order, repeated names included.
struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<Name<'de>, &RawValue>()? {
                    members.push((name.0, value.get()));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
