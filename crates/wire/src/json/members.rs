//! Iterators over the members of an object and the elements of an array.

use super::{Cursor, NotJson, unescape};

/// One member of an object, as it stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// The key with its quotes.
    pub key: &'a [u8],
    /// The text of the value.
    pub value: &'a [u8],
}

impl Member<'_> {
    /// Whether the key is `name`, however it is spelt: `"\u0069d"` is `id`.
    #[must_use]
    pub fn key_is(&self, name: &str) -> bool {
        is_key(self.key, name)
    }
}

/// Whether the quoted `key` has the value `name`.
pub(crate) fn is_key(key: &[u8], name: &str) -> bool {
    match key {
        [b'"', text @ .., b'"'] if text == name.as_bytes() => true,
        _ => key.contains(&b'\\') && unescape(key).is_some_and(|value| *value == *name.as_bytes()),
    }
}

/// The members of a raw object in their order, repeated ones included.
///
/// Malformed text yields one error, then the end.
pub struct Members<'a>(Walk<'a>);

impl<'a> Members<'a> {
    /// The members of `raw`; `None` if it does not start as an object.
    #[must_use]
    pub fn of(raw: &'a [u8]) -> Option<Self> {
        Walk::of(raw, b'{').map(Self)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<Member<'a>, NotJson>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(|cursor, first| {
            let Some(key) = cursor.next_key(first)? else { return Ok(None) };
            let value = cursor.value()?;
            Ok(Some(Member { key: key.text, value: value.text }))
        })
    }
}

/// The elements of a raw array in their order.
///
/// Malformed text yields one error, then the end.
pub struct Elements<'a>(Walk<'a>);

impl<'a> Elements<'a> {
    /// The elements of `raw`; `None` if it does not start as an array.
    #[must_use]
    pub fn of(raw: &'a [u8]) -> Option<Self> {
        Walk::of(raw, b'[').map(Self)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<&'a [u8], NotJson>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(|cursor, first| {
            if !cursor.next_element(first)? {
                return Ok(None);
            }
            let value = cursor.value()?;
            Ok(Some(value.text))
        })
    }
}

/// The value of the member `name` of a raw object; the last one if it is repeated, as `JSON.parse` has it.
///
/// `None` if there is none, or the object is malformed.
#[must_use]
pub fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    for member in Members::of(object)? {
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

struct Walk<'a> {
    cursor: Cursor<'a>,
    first: bool,
    ended: bool,
}

impl<'a> Walk<'a> {
    fn of(raw: &'a [u8], open: u8) -> Option<Self> {
        let mut cursor = Cursor::new(raw);
        cursor.skip_space();
        if cursor.peek() != Some(open) {
            return None;
        }
        cursor.enter();
        Some(Self { cursor, first: true, ended: false })
    }

    fn step<T>(
        &mut self,
        next: impl FnOnce(&mut Cursor<'a>, bool) -> Result<Option<T>, NotJson>,
    ) -> Option<Result<T, NotJson>> {
        if self.ended {
            return None;
        }
        let item = next(&mut self.cursor, core::mem::replace(&mut self.first, false));
        let item = match item {
            // After the last one, what follows the closing bracket must be nothing.
            Ok(None) => self.cursor.finish().map(|()| None),
            item => item,
        };
        self.ended = !matches!(item, Ok(Some(_)));
        item.transpose()
    }
}
