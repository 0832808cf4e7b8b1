//! A fingerprint of a request's arguments, by which two requests are known to be the same.

use crate::{
    frame::{Params, span_of},
    hash::Seed,
    json,
};

/// Longer params are compared as they stand: then a fingerprint costs less than reading the message did.
const MAX_READ: usize = 64 << 10;

/// What lies deeper is compared as it stands.
const MAX_DEPTH: usize = 64;

/// A member that differs between two calls that are the same: it holds progress tokens and trace ids.
const META: &[u8] = b"\"_meta\"";

/// An object or array that has not been read to its end.
enum Open {
    Array(u64),
    /// The sum over its members, so that their order does not count, and the key whose value comes next.
    Object(u64, Option<u64>),
}

/// The fingerprint of these params: the same whatever the order of members, the white space and the escapes. Numbers count
/// as they are spelled. `_meta` does not count.
pub(crate) fn of(seed: Seed, params: &Params<'_>) -> u64 {
    let raw = params.raw.unwrap_or(b"{}");
    if raw.len() > MAX_READ {
        let span = params.meta.and_then(|meta| span_of(raw, meta)).unwrap_or(raw.len()..raw.len());
        return seed.hash(&(&raw[..span.start], &raw[span.end..]));
    }
    let meta = value(seed, META);
    let (mut open, mut at) = (Vec::new(), 0);
    while let Some(byte) = raw.get(at) {
        let found = match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' => {
                at += 1;
                continue;
            }
            b'{' | b'[' if open.len() < MAX_DEPTH => {
                at += 1;
                open.push(if *byte == b'[' { Open::Array(0) } else { Open::Object(0, None) });
                continue;
            }
            b'}' | b']' => {
                at += 1;
                match open.pop() {
                    Some(Open::Array(items)) => seed.hash(&(b'[', items)),
                    Some(Open::Object(sum, _)) => seed.hash(&(b'{', sum)),
                    None => return 0,
                }
            }
            _ => {
                let Some(end) = json::value_end(raw, at) else { return 0 };
                let text = &raw[at..end];
                at = end;
                value(seed, text)
            }
        };
        let is_outermost = open.len() == 1;
        match open.last_mut() {
            None => return found,
            Some(Open::Array(items)) => *items = seed.hash(&(*items, found)),
            Some(Open::Object(sum, key)) => match key.take() {
                None => *key = Some(found),
                Some(key) if key == meta && is_outermost => {}
                Some(key) => *sum = sum.wrapping_add(seed.hash(&(key, found))),
            },
        }
    }
    0
}

/// The hash of what is read in one piece; of a string, its value counts.
fn value(seed: Seed, text: &[u8]) -> u64 {
    match json::unescape(text) {
        Some(string) => seed.hash(&(b'"', &*string)),
        None => seed.hash(&(b'=', text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(raw: &str) -> u64 {
        of(Seed::new(7), &Params::of(raw.as_bytes()))
    }

    #[test]
    fn the_order_of_members_white_space_escapes_and_meta_do_not_count() {
        let one = r#"{"name":"a","arguments":{"x":[1,{"y":null,"z":"é"}],"w":true}}"#;
        for same in [
            "{ \"arguments\" : {\"w\":true,\n \"x\":[ 1 , {\"z\":\"\\u00e9\",\"y\":null}]},\"name\":\"\\u0061\" }",
            r#"{"_meta":{"progressToken":5},"name":"a","arguments":{"x":[1,{"y":null,"z":"é"}],"w":true}}"#,
        ] {
            assert_eq!(print(one), print(same), "{same}");
        }
        assert_eq!(print(""), print("{}"));
        assert_eq!(print("{}"), print(r#"{"_meta":{"progressToken":"a"}}"#));
    }

    #[test]
    fn what_differs_has_another_fingerprint() {
        let all = [
            "{}",
            "[]",
            "null",
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"{"a":[1]}"#,
            r#"{"a":{"1":1}}"#,
            r#"{"a":1,"b":2}"#,
            r#"{"a":2,"b":1}"#,
            r#"{"a":[1,2]}"#,
            r#"{"a":[2,1]}"#,
            r#"{"a":[[1],2]}"#,
            r#"{"a":[1,[2]]}"#,
            r#"{"a":{"b":{}}}"#,
            r#"{"a":{},"b":{}}"#,
            r#"{"a":{"_meta":1}}"#,
            r#"{"a":{"_meta":2}}"#,
        ];
        for (at, one) in all.iter().enumerate() {
            for other in &all[..at] {
                assert_ne!(print(one), print(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn what_is_huge_or_deep_is_compared_as_it_stands() {
        let huge = |middle: &str, token: u32| {
            let filler = "x".repeat(MAX_READ);
            format!(r#"{{"a":"{filler}","_meta":{{"progressToken":{token}}},"b":{middle}}}"#)
        };
        assert_eq!(print(&huge("1", 1)), print(&huge("1", 2)));
        assert_ne!(print(&huge("1", 1)), print(&huge("2", 1)));
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(print(&deep("1")), print(&deep("1")));
        assert_ne!(print(&deep("1")), print(&deep("2")));
    }
}
