//! The members of `params` that decide how a request is treated.

use crate::json::{Cursor, NotJson, unescape};

/// Raw params, and the raw values of the members that the engine and the relay look at.
///
/// Of a repeated member the last value counts, as `JSON.parse` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params<'a> {
    /// The whole value; `None` if the message has no params. `null` is `Some`.
    pub raw: Option<&'a [u8]>,
    /// `_meta`.
    pub meta: Option<&'a [u8]>,
    /// `name`: the tool or prompt.
    pub name: Option<&'a [u8]>,
    /// `sessionId`.
    pub session_id: Option<&'a [u8]>,
    /// `task`.
    pub task: Option<&'a [u8]>,
}

impl<'a> Params<'a> {
    /// Reads params that stand alone; empty for none. Of what is not JSON, the members before the fault count.
    #[must_use]
    pub fn of(raw: &'a [u8]) -> Self {
        let mut params = Self::default();
        let mut cursor = Cursor::new(raw);
        cursor.skip_space();
        _ = params.read(&mut cursor);
        params.raw = (!raw.is_empty()).then_some(raw);
        params
    }

    /// Reads the value at the cursor, in place: it is large to move.
    #[inline(always)]
    pub(super) fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<(), NotJson> {
        let start = cursor.at();
        if cursor.peek() == Some(b'{') {
            self.read_members(cursor)?;
        } else {
            cursor.checked_value()?;
        }
        self.raw = Some(&cursor.bytes()[start..cursor.at()]);
        Ok(())
    }

    #[inline(always)]
    fn read_members(&mut self, cursor: &mut Cursor<'a>) -> Result<(), NotJson> {
        cursor.enter();
        let mut first = true;
        while let Some(key) = cursor.next_key(first)? {
            first = false;
            let value = cursor.checked_value()?.text;
            if key.escaped {
                self.note(&unescape(key.text).ok_or(NotJson)?, value);
            } else {
                self.note(key.inner(), value);
            }
        }
        Ok(())
    }

    #[inline]
    fn note(&mut self, key: &[u8], value: &'a [u8]) {
        let member = match key {
            b"_meta" => &mut self.meta,
            b"name" => &mut self.name,
            b"sessionId" => &mut self.session_id,
            b"task" => &mut self.task,
            _ => return,
        };
        *member = Some(value);
    }
}
