//! The machine of a pool that asked a client for input. A mark before the `requestState` of the program names it, so that
//! the client's next round finds the work that waits for it (MCP-M03).
//!
//! The program gets its state back to the byte, and it alone judges what comes back: the mark only says where the round is
//! to go. A client can write any mark. It then reaches a program that does not know its state, as it would without one. A
//! state from another pool is passed on as well, since it may hold all that its call needs.

use http::request::Parts;
use memchr::memmem;
use rescind_proto::{frame, json};

use super::{placement::names_stateless, posted::Edit};

/// A machine among several that serve the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolMember {
    /// The name of the pool among all that a client may reach under one address: drawn at random when the pool is made.
    pub pool: u64,
    /// The place of the machine in it, from 0.
    pub place: u32,
}

/// The beginning of every mark.
const MARK: &str = "rescind.";
/// Hexadecimal digits of the name of a pool.
const POOL_DIGITS: usize = 16;
const STATE: &str = "requestState";
/// The `resultType` of a result that asks for input.
const WANTS_INPUT: &str = "input_required";

impl PoolMember {
    /// Returns the machine that the request's `requestState` names as the one that asked; `None` if it names none. It may be
    /// of another pool, or not exist: a client can write any mark.
    #[must_use]
    pub fn that_asked(head: &Parts, body: &[u8]) -> Option<Self> {
        if !names_stateless(head) || !may_have_mark(body) {
            return None;
        }
        split(json::lookup(body, &["params", STATE])?).map(|(member, _)| member)
    }

    /// The mark before the states of its program.
    fn mark(self) -> String {
        let Self { pool, place } = self;
        format!("{MARK}{pool:0POOL_DIGITS$x}.{place}.")
    }
}

/// Whether a message may have a mark. Few have one, and only those are read once more.
fn may_have_mark(message: &[u8]) -> bool {
    memmem::find(message, MARK.as_bytes()).is_some()
}

/// Returns the machine that a state names, and the length of its mark; `None` without a mark. `state` is JSON.
fn split(state: &[u8]) -> Option<(PoolMember, usize)> {
    let marked = state.strip_prefix(b"\"")?.strip_prefix(MARK.as_bytes())?;
    let (pool, rest) = marked.split_at_checked(POOL_DIGITS)?;
    let pool = u64::from_str_radix(str::from_utf8(pool).ok()?, 16).ok()?;
    let digits = rest.strip_prefix(b".")?.iter().take_while(|byte| byte.is_ascii_digit()).take(10).count();
    let place = str::from_utf8(rest.get(1..=digits)?).ok()?.parse().ok()?;
    let member = PoolMember { pool, place };
    let mark = member.mark();
    // There is one spelling of each: no capitals, no signs, no zeros before a number.
    state[1..].starts_with(mark.as_bytes()).then_some((member, mark.len()))
}

impl PoolMember {
    /// Puts this machine's mark before the state in a result that asks for input.
    pub(crate) fn mark_state(self, message: &[u8], result: &[u8]) -> Option<Edit> {
        memmem::find(result, WANTS_INPUT.as_bytes())?;
        let state = json::member(result, STATE).filter(|state| json::is_string(state))?;
        if json::member(result, "resultType").and_then(json::text)? != WANTS_INPUT {
            return None;
        }
        let at = frame::span_of(message, state)?.start + 1;
        Some((at..at, self.mark().into_bytes()))
    }

    /// Takes a mark off a state again, before its program sees it; that of another pool as well.
    pub(crate) fn unmark_state(self, message: &[u8], params: Option<&[u8]>) -> Option<Edit> {
        let state = json::member(params.filter(|_| may_have_mark(message))?, STATE)?;
        let (_, length) = split(state)?;
        let at = frame::span_of(message, state)?.start + 1;
        Some((at..at + length, Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::{super::door::VERSION, *};

    const POOL: u64 = 0xab;

    fn that_asked(state: &str, version: &str) -> Option<u32> {
        let head = Request::post("/mcp").header(VERSION, version).body(()).unwrap().into_parts().0;
        let body = format!(r#"{{"id":1,"params":{{"name":"tool","requestState":{state}}}}}"#);
        let asked = PoolMember::that_asked(&head, body.as_bytes());
        asked.filter(|member| member.pool == POOL).map(|member| member.place)
    }

    #[test]
    fn a_mark_names_its_member_and_leaves_the_state_as_it_was() {
        for place in [0, 1, 9, 10, u32::MAX] {
            for state in ["", "state", "rescind.00000000000000cd.7.state", r#"\"\u00e4 "#] {
                let marked = format!("\"{}{state}\"", PoolMember { pool: POOL, place }.mark());
                let (member, length) = split(marked.as_bytes()).unwrap();
                assert_eq!((member.place, &marked[1 + length..marked.len() - 1]), (place, state));
                assert_eq!(that_asked(&marked, "2026-07-28"), Some(place));
                assert_eq!(that_asked(&marked, "2025-11-25"), None, "it has sessions");
            }
        }
    }

    #[test]
    fn what_is_not_spelt_as_a_mark_names_no_member() {
        let pool = "00000000000000ab";
        for state in [
            "null".to_owned(),
            "1".to_owned(),
            "[]".to_owned(),
            format!(r#"["rescind.{pool}.1.s"]"#),
            format!(r#"{{"rescind.{pool}.1.s":1}}"#),
            r#""""#.to_owned(),
            r#""state""#.to_owned(),
            r#""rescind.""#.to_owned(),
            format!(r#""rescind.{pool}""#),
            format!(r#""rescind.{pool}.""#),
            format!(r#""rescind.{pool}.1""#),
            format!(r#""rescind.{pool}..s""#),
            format!(r#""rescind.{pool}.01.s""#),
            format!(r#""rescind.{pool}.+1.s""#),
            format!(r#""rescind.{pool}.-1.s""#),
            format!(r#""rescind.{pool}. 1.s""#),
            format!(r#""rescind.{pool}.x.s""#),
            format!(r#""rescind.{pool}.4294967296.s""#),
            format!(r#""rescind.{pool}.{}.s""#, "9".repeat(1 << 20)),
            format!(r#""rescind.{pool}ä.1.s""#),
            format!(r#"" rescind.{pool}.1.s""#),
            format!(r#""\u0072escind.{pool}.1.s""#),
            format!(r#""RESCIND.{pool}.1.s""#),
            format!(r#""rescind.{}.1.s""#, pool.to_uppercase()),
            r#""rescind.ab.1.s""#.to_owned(),
            r#""rescind.+0000000000000ab.1.s""#.to_owned(),
            r#""rescind.äääääääääääääää.1.s""#.to_owned(),
        ] {
            let shown = &state[..state.floor_char_boundary(80)];
            assert_eq!(split(state.as_bytes()), None, "{shown}");
            assert_eq!(that_asked(&state, "2026-07-28"), None, "{shown}");
        }
        let foreign = r#""rescind.00000000000000cd.1.s""#;
        assert_eq!(split(foreign.as_bytes()).map(|(_, length)| length), Some(27), "it is taken off");
        assert_eq!(that_asked(foreign, "2026-07-28"), None, "and is of another pool");
    }
}
