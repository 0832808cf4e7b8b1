//! The params of requests: the deadline in the peer's, and what the engine reads in our own and adds to them.

use crate::{
    dialect::Dialect,
    frame::span_of,
    id::RequestId,
    json::{self, Members},
    time::Instant,
    timer_queue::NEVER,
};

/// Where a request says how many milliseconds it has left (D17).
const DEADLINE: &str = "dev.rescind/deadlineMs";

/// A deadline further away than this is none: about 24 days, so that no peer can overflow a clock.
const FARTHEST: u64 = 1 << 31;

/// The params of a request of ours, walked once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ParamsScan<'a> {
    raw: &'a [u8],
    /// Where its members start, if it is an object.
    open: Option<usize>,
    is_empty: bool,
    pub(super) meta: Option<&'a [u8]>,
    pub(super) session: Option<&'a [u8]>,
    pub(super) has_task: bool,
}

/// Bytes to be put into params, and where.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MetaInsert {
    at: usize,
}

impl<'a> ParamsScan<'a> {
    /// Looks at raw params; nothing if there are none.
    pub(super) fn at(raw: &'a [u8], session: Option<&str>) -> Self {
        let mut look = Self { raw, ..Self::default() };
        let Some(members) = Members::of(raw) else { return look };
        look.open = raw.iter().position(|&byte| byte == b'{').map(|at| at + 1);
        look.is_empty = true;
        for member in members.flatten() {
            look.is_empty = false;
            if member.key_is("_meta") {
                look.meta = Some(member.value);
            } else if member.key_is("task") {
                look.has_task = true;
            } else if session.is_some_and(|name| member.key_is(name)) {
                look.session = Some(member.value);
            }
        }
        look
    }

    /// The caller's own progress token.
    pub(super) fn token(&self, dialect: &Dialect) -> Option<&'a [u8]> {
        match dialect.progress.as_ref()?.asked_at {
            ["_meta", name] => json::member(self.meta?, name),
            path => json::lookup(self.raw, path),
        }
    }

    /// Writes what is to be added to `out`, and says where it belongs; `None` if there is no place for it.
    pub(super) fn add(
        &self,
        dialect: &Dialect,
        left: Option<u128>,
        token: Option<&RequestId>,
        out: &mut Vec<u8>,
    ) -> Option<MetaInsert> {
        let path = dialect.progress.as_ref().map(|form| form.asked_at);
        let beside = match (token, path) {
            (Some(token), Some([name])) => Some((*name, token)),
            (_, _) => None,
        };
        let within = match (token, path) {
            (Some(token), Some(["_meta", name])) => Some((*name, token)),
            (_, _) => None,
        };
        let left = left.filter(|_| self.meta.is_none_or(|meta| json::member(meta, DEADLINE).is_none()));
        let is_absent = self.raw.is_empty();
        if !is_absent && self.open.is_none() {
            return None;
        }
        let meta_open = self.meta.filter(|meta| meta.first() == Some(&b'{'));
        if left.is_some() || within.is_some() {
            if self.meta.is_some() && meta_open.is_none() {
                return None;
            }
            if meta_open.is_none() {
                out.extend_from_slice(if is_absent { br#"{"_meta":{"# } else { br#""_meta":{"# });
            }
            if let Some(left) = left {
                member(DEADLINE, out, |out| json::write_integer(out, i64::try_from(left).unwrap_or(i64::MAX)));
            }
            if let Some((name, token)) = within {
                if left.is_some() {
                    out.push(b',');
                }
                member(name, out, |out| token.write(out));
            }
            if let Some(meta) = meta_open {
                if Members::of(meta)?.next().is_some() {
                    out.push(b',');
                }
                return Some(MetaInsert { at: span_of(self.raw, meta)?.start + 1 });
            }
            out.push(b'}');
        } else if let Some((name, token)) = beside {
            if is_absent {
                out.push(b'{');
            }
            member(name, out, |out| token.write(out));
        } else {
            return None;
        }
        if is_absent {
            out.push(b'}');
        } else if !self.is_empty {
            out.push(b',');
        }
        Some(MetaInsert { at: self.open.unwrap_or(0) })
    }
}

impl MetaInsert {
    /// Appends `params` with the addition.
    pub(super) fn write(self, params: &[u8], added: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&params[..self.at]);
        out.extend_from_slice(added);
        out.extend_from_slice(&params[self.at..]);
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
        match ParamsScan::at(params.as_bytes(), None).add(dialect, left, token.as_ref(), &mut add) {
            Some(addition) => addition.write(params.as_bytes(), &add, &mut out),
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
