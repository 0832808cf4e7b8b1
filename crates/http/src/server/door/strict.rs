//! JSON of tokens, keys and tasks, read so that no other reader can read something else.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use rescind_proto::json;

/// A member stands there twice, or the object is malformed. Of two, others may read the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ambiguous;

/// The value of a member that stands there once; `None` if it does not.
pub(crate) fn only<'a>(object: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, Ambiguous> {
    let mut found = None;
    for member in json::members(object).ok_or(Ambiguous)? {
        let member = member.map_err(|_| Ambiguous)?;
        if member.key_is(name) && found.replace(member.value).is_some() {
            return Err(Ambiguous);
        }
    }
    Ok(found)
}

/// The text of a member that stands there once.
pub(crate) fn only_text(object: &[u8], name: &str) -> Option<String> {
    text(only(object, name).ok()??)
}

/// A text; `None` for anything else.
pub(crate) fn text(raw: &[u8]) -> Option<String> {
    json::text(raw).map(std::borrow::Cow::into_owned)
}

/// The elements of a list; none for anything else.
pub(crate) fn elements(raw: &[u8]) -> Vec<&[u8]> {
    json::elements(raw).map_or_else(Vec::new, |elements| elements.map_while(Result::ok).collect())
}

/// A text, or those in a list.
pub(crate) fn texts(raw: &[u8]) -> Vec<String> {
    text(raw).map_or_else(|| elements(raw).into_iter().filter_map(text).collect(), |text| vec![text])
}

/// Bytes in base64url without padding (RFC 7515).
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}
