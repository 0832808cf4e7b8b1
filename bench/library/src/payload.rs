//! What travels: the `tools/call` of 219 bytes that the shim's benchmark
//! sends, or what a library makes of the same params.

use std::sync::LazyLock;

use rescind_bench::traffic::{Batch, Payload};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::work::Verb;

/// The params of a call, and the result of an echo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Params {
    pub(crate) name: String,
    pub(crate) arguments: Arguments,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Arguments {
    path: String,
    text: String,
}

impl Params {
    /// The same for every call of a kind.
    pub(crate) fn of(verb: Verb) -> &'static Self {
        &PARAMS[verb as usize]
    }

    pub(crate) fn verb(&self) -> Option<Verb> {
        Verb::named(&self.name)
    }
}

/// What such text asks for, without parsing the rest.
pub(crate) fn verb_of(raw: &str) -> Option<Verb> {
    Verb::named(raw.strip_prefix(r#"{"name":""#)?.get(..4)?)
}

/// The same params as JSON text.
pub(crate) fn raw(verb: Verb) -> &'static RawValue {
    &RAW[verb as usize]
}

static PARAMS: LazyLock<[Params; 3]> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Line {
        params: Params,
    }
    let line: Line = serde_json::from_slice(Batch::new(Payload::Small, 1).lines(1)).expect("the line is JSON");
    Verb::ALL.map(|verb| Params { name: verb.name().to_owned(), ..line.params.clone() })
});

static RAW: LazyLock<[Box<RawValue>; 3]> = LazyLock::new(|| {
    Verb::ALL.map(|verb| serde_json::value::to_raw_value(Params::of(verb)).expect("params are plain JSON"))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_echo_is_the_line_of_the_other_benchmarks() {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1000000000,"method":"tools/call","params":{}}}{}"#,
            raw(Verb::Echo).get(),
            '\n'
        );
        assert_eq!(line.as_bytes(), Batch::new(Payload::Small, 1).lines(1));
    }

    #[test]
    fn what_is_asked_for_is_read_from_the_text() {
        for verb in Verb::ALL {
            assert_eq!(verb_of(raw(verb).get()), Some(verb));
            assert_eq!(Params::of(verb).verb(), Some(verb));
        }
    }
}
