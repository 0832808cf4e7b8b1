//! The params of requests: the deadline in the peer's, and what the engine reads in our own and adds to them.

use crate::{dialect::Dialect, frame::span_of, id::RequestId, json, time::Instant, timer_queue::NEVER};

/// Where a request says how many milliseconds it has left (D17).
const DEADLINE: &str = "dev.rescind/deadlineMs";

/// A deadline further away than this is none: about 24 days, so that no peer can overflow a clock.
const FARTHEST: u64 = 1 << 31;

/// The params of a request of ours, walked once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ParamsScan<'a> {
    pub(super) raw: &'a [u8],
    /// Where its members start, if it is an object.
    open: Option<usize>,
    is_empty: bool,
    pub(super) meta: Option<&'a [u8]>,
    pub(super) session: Option<&'a [u8]>,
    pub(super) has_task: bool,
}

/// A place for more members in raw params, and what stands around them there.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    before: &'static str,
    after: &'static str,
}

impl<'a> ParamsScan<'a> {
    /// Scans raw params; empty for none.
    pub(super) fn new(raw: &'a [u8], session: Option<&str>) -> Self {
        let mut scan = Self { raw, ..Self::default() };
        let Some(members) = json::members(raw) else { return scan };
        scan.open = raw.iter().position(|&byte| byte == b'{').map(|at| at + 1);
        scan.is_empty = true;
        for member in members.flatten() {
            scan.is_empty = false;
            if member.key_is("_meta") {
                scan.meta = Some(member.value);
            } else if member.key_is("task") {
                scan.has_task = true;
            } else if session.is_some_and(|name| member.key_is(name)) {
                scan.session = Some(member.value);
            }
        }
        scan
    }

    /// The caller's own progress token.
    pub(super) fn token(&self, dialect: &Dialect) -> Option<&'a [u8]> {
        match dialect.progress.as_ref()?.asked_at {
            ["_meta", name] => json::member(self.meta?, name),
            path => json::lookup(self.raw, path),
        }
    }

    /// Writes what is to be added to `out`, and returns where it belongs; `None` if that is nothing, or has no place.
    pub(super) fn insert(
        &self,
        dialect: &Dialect,
        left: Option<u128>,
        token: Option<&RequestId>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let left = left.filter(|_| self.meta.is_none_or(|meta| json::member(meta, DEADLINE).is_none()));
        let path = dialect.progress.as_ref().map(|form| form.asked_at);
        let (name, is_beside) = match path {
            Some([name]) if left.is_none() => (Some(name), true),
            Some(["_meta", name]) => (Some(name), false),
            Some(_) | None => (None, false),
        };
        let token = name.zip(token);
        if left.is_none() && token.is_none() {
            return None;
        }
        let Place { at, before, after } = if is_beside { self.place_beside()? } else { self.place_in_meta()? };
        out.extend_from_slice(before.as_bytes());
        if let Some(left) = left {
            member(DEADLINE, out, |out| json::write_integer(out, i64::try_from(left).unwrap_or(i64::MAX)));
        }
        if let Some((name, token)) = token {
            if left.is_some() {
                out.push(b',');
            }
            member(name, out, |out| token.write(out));
        }
        out.extend_from_slice(after.as_bytes());
        Some(at)
    }

    /// Writes the params with more members in their `_meta`; `None` if they have no place for them.
    pub(super) fn with_meta(&self, members: &[u8]) -> Option<Vec<u8>> {
        let Place { at, before, after } = self.place_in_meta()?;
        let (head, tail) = self.raw.split_at(at);
        Some([head, before.as_bytes(), members, after.as_bytes(), tail].concat())
    }

    /// The place among the params themselves.
    fn place_beside(&self) -> Option<Place> {
        if self.raw.is_empty() {
            return Some(Place { at: 0, before: "{", after: "}" });
        }
        Some(Place { at: self.open?, before: "", after: if self.is_empty { "" } else { "," } })
    }

    /// The place in their `_meta`.
    fn place_in_meta(&self) -> Option<Place> {
        if self.raw.is_empty() {
            return Some(Place { at: 0, before: r#"{"_meta":{"#, after: "}}" });
        }
        let Some(meta) = self.meta else {
            let after = if self.is_empty { "}" } else { "}," };
            return Some(Place { at: self.open?, before: r#""_meta":{"#, after });
        };
        let is_empty = json::members(meta)?.next().is_none();
        Some(Place { at: span_of(self.raw, meta)?.start + 1, before: "", after: if is_empty { "" } else { "," } })
    }
}

/// Reads the deadline in the `_meta` of a request that arrives now; [`NEVER`] without one.
pub(super) fn deadline(now: Instant, meta: &[u8]) -> Instant {
    let left = json::member(meta, DEADLINE).and_then(RequestId::from_json).and_then(|left| left.as_integer());
    match left.map(u64::try_from) {
        Some(Ok(left)) if left <= FARTHEST => now + core::time::Duration::from_millis(left),
        Some(_) | None => NEVER,
    }
}

fn member(name: &str, out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    json::write_string(out, name);
    out.push(b':');
    value(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{lsp, mcp};

    fn added(dialect: &Dialect, params: &str, left: Option<u128>, token: Option<i64>) -> String {
        let (mut add, mut out) = (Vec::new(), Vec::new());
        let token = token.map(RequestId::integer);
        match ParamsScan::new(params.as_bytes(), None).insert(dialect, left, token.as_ref(), &mut add) {
            Some(at) => out.extend([&params.as_bytes()[..at], &add, &params.as_bytes()[at..]].concat()),
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
