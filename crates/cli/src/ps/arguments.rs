//! What requests in flight ask for, in words (`--args`). It may hold secrets.

use rescind_feed::Arguments;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::screen::clean;

/// Params that have arguments of their own, as those of a tool have.
#[derive(Deserialize)]
struct WithArguments<'a> {
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// On one line: the arguments, or all params of a request that has no member of that name; and how much of them is missing.
pub(super) fn words(kept: &Arguments) -> String {
    let Arguments { text, length, cut, left_out } = kept;
    match (left_out, text.is_empty()) {
        (true, _) => "(not kept: its session had no room for more arguments when it came)".to_owned(),
        (false, true) => "(no arguments)".to_owned(),
        (false, false) if *cut => format!("{} … (the first {} of {length} bytes)", on_one_line(text), text.len()),
        (false, false) => match serde_json::from_str::<WithArguments<'_>>(text) {
            Ok(own) => on_one_line(own.arguments.get()),
            Err(_) => on_one_line(text),
        },
    }
}

/// Line breaks of JSON stand between its words, never within one.
fn on_one_line(json: &str) -> String {
    clean(&json.replace(['\n', '\r', '\t'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, length: u64) -> Arguments {
        Arguments { text: text.to_owned(), length, cut: text.len() as u64 != length, left_out: false }
    }

    #[test]
    fn the_arguments_of_a_tool_are_told_and_the_params_of_what_has_none() {
        let words = |text: &str| words(&of(text, text.len() as u64));
        assert_eq!(words(r#"{"name":"index","arguments":{"path":"/etc"},"_meta":{}}"#), r#"{"path":"/etc"}"#);
        assert_eq!(words("{\"arguments\":\n\t[1]}"), "[1]");
        assert_eq!(words(r#"{"uri":"file:///a"}"#), r#"{"uri":"file:///a"}"#);
        assert_eq!(words("[1,\n2]"), "[1, 2]");
        assert_eq!(words("{\"a\":\"\u{1b}[31m\"}"), "{\"a\":\"\u{fffd}[31m\"}");
        assert_eq!(words(""), "(no arguments)");
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(words(&of("{\"arg", 5_000_000)), "{\"arg … (the first 5 of 5000000 bytes)");
        let left_out = Arguments { left_out: true, ..Arguments::default() };
        assert_eq!(words(&left_out), "(not kept: its session had no room for more arguments when it came)");
    }
}
