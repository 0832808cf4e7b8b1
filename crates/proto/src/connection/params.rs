//! The params of requests: the deadline in the peer's, and what the engine adds to our own.

use crate::{
    dialect::Dialect,
    frame::{Params, span_of},
    id::RequestId,
    json,
    time::Instant,
    timer_queue::NEVER,
};

/// Where a request says how many milliseconds it has left (D17).
const DEADLINE: &str = "dev.rescind/deadlineMs";

/// A deadline further away than this is none: about 24 days, so that no peer can overflow a clock.
const FARTHEST: u64 = 1 << 31;

/// A place for more members in raw params, and what stands around them there.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    before: &'static str,
    after: &'static str,
}

impl Place {
    /// Finds the place in the `_meta` of params, or among the params themselves; `None` if they have none.
    fn of(params: &Params<'_>, in_meta: bool) -> Option<Self> {
        let Some(raw) = params.raw else {
            let (before, after) = if in_meta { (r#"{"_meta":{"#, "}}") } else { ("{", "}") };
            return Some(Self { at: 0, before, after });
        };
        let meta = params.meta.filter(|_| in_meta);
        let object = meta.unwrap_or(raw);
        let is_empty = json::members(object)?.next().is_none();
        let at = span_of(raw, object)?.start + object.iter().position(|&byte| byte == b'{')? + 1;
        let (before, after) = match (in_meta && meta.is_none(), is_empty) {
            (true, true) => (r#""_meta":{"#, "}"),
            (true, false) => (r#""_meta":{"#, "},"),
            (false, true) => ("", ""),
            (false, false) => ("", ","),
        };
        Some(Self { at, before, after })
    }

    /// Writes the params; `write` adds the members in this place.
    fn fill(self, raw: &[u8], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let (head, tail) = raw.split_at(self.at);
        out.extend_from_slice(head);
        out.extend_from_slice(self.before.as_bytes());
        write(out);
        out.extend_from_slice(self.after.as_bytes());
        out.extend_from_slice(tail);
    }
}

/// What is added to the params of a request of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParamsInsert<'a> {
    place: Place,
    /// The milliseconds that it has left.
    left: Option<u128>,
    /// A progress token, and its name.
    token: Option<(&'static str, &'a RequestId)>,
}

impl<'a> ParamsInsert<'a> {
    /// Plans what is to be added; `None` if that is nothing, or has no place.
    pub(super) fn new(
        params: &Params<'_>,
        dialect: &Dialect,
        left: Option<u128>,
        token: Option<&'a RequestId>,
    ) -> Option<Self> {
        let left = left.filter(|_| params.meta.is_none_or(|meta| json::member(meta, DEADLINE).is_none()));
        let (name, in_meta) = match dialect.progress.as_ref().map(|form| form.asked_at) {
            Some([name]) if left.is_none() => (Some(*name), false),
            Some(["_meta", name]) => (Some(*name), true),
            Some(_) | None => (None, true),
        };
        let token = name.zip(token);
        if left.is_none() && token.is_none() {
            return None;
        }
        Some(Self { place: Place::of(params, in_meta)?, left, token })
    }

    /// Writes the params with the addition.
    pub(super) fn write(&self, raw: &[u8], out: &mut Vec<u8>) {
        self.place.fill(raw, out, |out| {
            if let Some(left) = self.left {
                json::write_string(out, DEADLINE);
                out.push(b':');
                json::write_integer(out, i64::try_from(left).unwrap_or(i64::MAX));
            }
            if let Some((name, token)) = self.token {
                if self.left.is_some() {
                    out.push(b',');
                }
                json::write_string(out, name);
                out.push(b':');
                token.write(out);
            }
        });
    }
}

/// Adds members, which are JSON, to the `_meta` of params; `None` if these have no place for them.
#[must_use]
pub fn with_meta(params: &[u8], members: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(params.len() + members.len() + 16);
    Place::of(&Params::of(params), true)?.fill(params, &mut out, |out| out.extend_from_slice(members));
    Some(out)
}

/// Reads the deadline in the `_meta` of a request that arrives now; [`NEVER`] without one.
pub(super) fn deadline(now: Instant, meta: &[u8]) -> Instant {
    let left = json::member(meta, DEADLINE).and_then(RequestId::from_json).and_then(|left| left.as_integer());
    match left.map(u64::try_from) {
        Some(Ok(left)) if left <= FARTHEST => now + core::time::Duration::from_millis(left),
        Some(_) | None => NEVER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{lsp, mcp};

    fn added(dialect: &Dialect, params: &str, left: Option<u128>, token: Option<i64>) -> String {
        let mut out = Vec::new();
        let token = token.map(RequestId::integer);
        match ParamsInsert::new(&Params::of(params.as_bytes()), dialect, left, token.as_ref()) {
            Some(insert) => insert.write(params.as_bytes(), &mut out),
            None => out.extend_from_slice(params.as_bytes()),
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_deadline_and_the_token_find_their_place() {
        let mcp = |params, left, token| added(&mcp::LATEST, params, left, token);
        let key = r#""dev.rescind/deadlineMs":9"#;
        assert_eq!(mcp("", Some(9), None), format!(r#"{{"_meta":{{{key}}}}}"#));
        assert_eq!(mcp("{}", Some(9), None), format!(r#"{{"_meta":{{{key}}}}}"#));
        assert_eq!(mcp(r#"{"a":1}"#, Some(9), None), format!(r#"{{"_meta":{{{key}}},"a":1}}"#));
        assert_eq!(mcp(r#"{"_meta":{}}"#, Some(9), None), format!(r#"{{"_meta":{{{key}}}}}"#));
        assert_eq!(
            mcp(r#" { "a":1, "_meta" : { "b":2 } }"#, Some(9), Some(4)),
            format!(r#" {{ "a":1, "_meta" : {{{key},"progressToken":4, "b":2 }} }}"#)
        );
        assert_eq!(mcp("{}", None, Some(4)), r#"{"_meta":{"progressToken":4}}"#);
    }

    #[test]
    fn members_of_a_callers_own_are_added_to_the_meta() {
        let with =
            |params: &str| with_meta(params.as_bytes(), br#""own":1"#).map(|out| String::from_utf8(out).unwrap());
        assert_eq!(with(r#"{"_meta":{"b":2},"a":1}"#).as_deref(), Some(r#"{"_meta":{"own":1,"b":2},"a":1}"#));
        assert_eq!(with("").as_deref(), Some(r#"{"_meta":{"own":1}}"#));
        assert_eq!(with("[1]"), None);
    }

    #[test]
    fn what_has_no_place_for_it_is_left_alone() {
        for params in ["[1]", r#"{"_meta":5}"#, r#"{"_meta":{"dev.rescind/deadlineMs":1}}"#] {
            assert_eq!(added(&mcp::LATEST, params, Some(9), None), params);
        }
    }

    #[test]
    fn a_token_beside_the_other_params() {
        assert_eq!(added(&lsp::LSP, "", None, Some(4)), r#"{"workDoneToken":4}"#);
        assert_eq!(added(&lsp::LSP, r#"{"a":1}"#, None, Some(4)), r#"{"workDoneToken":4,"a":1}"#);
        assert_eq!(added(&lsp::LSP, "{}", None, Some(4)), r#"{"workDoneToken":4}"#);
    }
}
