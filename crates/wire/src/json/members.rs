//! The members of an object and the elements of an array.

use super::{Cursor, NotJson, unescape};

/// One member of an object, as it stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// The key with its quotes.
    pub key: &'a [u8],
    /// The text of the value.
    pub value: &'a [u8],
    /// The key has escapes.
    escaped: bool,
}

impl Member<'_> {
    /// Whether the key is `name`, however it is spelt: `"\u0069d"` is `id`.
    #[must_use]
    pub fn key_is(&self, name: &str) -> bool {
        match self.key {
            [b'"', text @ .., b'"'] if text == name.as_bytes() => true,
            key => self.escaped && unescape(key).is_some_and(|value| *value == *name.as_bytes()),
        }
    }
}

/// The members of a raw object in their order, repeated ones included; `None` if `raw` does not start as an object.
///
/// Malformed text yields one error, then the end.
#[must_use]
pub fn members(raw: &[u8]) -> Option<impl Iterator<Item = Result<Member<'_>, NotJson>>> {
    walk(raw, b'{', |cursor, first| {
        let Some(key) = cursor.next_key(first)? else { return Ok(None) };
        Ok(Some(Member { key: key.text, escaped: key.escaped, value: cursor.value()?.text }))
    })
}

/// The elements of a raw array in their order; `None` if `raw` does not start as an array.
///
/// Malformed text yields one error, then the end.
#[must_use]
pub fn elements(raw: &[u8]) -> Option<impl Iterator<Item = Result<&[u8], NotJson>>> {
    walk(raw, b'[', |cursor, first| if cursor.next_element(first)? { Ok(Some(cursor.value()?.text)) } else { Ok(None) })
}

/// The value of the member `name` of a raw object; the last one if it is repeated, as `JSON.parse` has it.
///
/// `None` if there is none, or the object is malformed.
#[must_use]
pub fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    for member in members(object)? {
        let member = member.ok()?;
        if member.key_is(name) {
            found = Some(member.value);
        }
    }
    found
}

/// The value at the end of a path of member names.
///
/// `lookup(params, &["_meta", "progressToken"])`; an empty path gives `raw` itself.
#[must_use]
pub fn lookup<'a>(raw: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    path.iter().try_fold(raw, |object, name| member(object, name))
}

fn walk<'a, T>(
    raw: &'a [u8],
    open: u8,
    next: impl Fn(&mut Cursor<'a>, bool) -> Result<Option<T>, NotJson>,
) -> Option<impl Iterator<Item = Result<T, NotJson>>> {
    let mut cursor = Cursor::new(raw);
    cursor.skip_space();
    if cursor.peek() != Some(open) {
        return None;
    }
    cursor.enter();
    let mut first = Some(true);
    Some(core::iter::from_fn(move || {
        let item = match next(&mut cursor, first.take()?) {
            // After the last one, what follows the closing bracket must be nothing.
            Ok(None) => cursor.finish().map(|()| None),
            item => item,
        };
        first = matches!(item, Ok(Some(_))).then_some(false);
        item.transpose()
    }))
}
