//! Valid JSON text in all the shapes that a sender may choose.

use proptest::{collection::vec, prelude::*};

/// What programs write between the tokens of what they take for JSON.
pub(crate) const FOREIGN: [&str; 36] = [
    "NaN",
    "Infinity",
    "-Infinity",
    "nan",
    "inf",
    "undefined",
    "None",
    "True",
    "False",
    "Null",
    "nul",
    "tru",
    "'text'",
    "text",
    "`text`",
    ",",
    ",,",
    ";",
    ":",
    "=>",
    "// comment\n",
    "/* comment */",
    "# comment\n",
    "01",
    "+1",
    ".5",
    "5.",
    "1e",
    "0x1F",
    "1_000",
    "\"\\x41\"",
    "\"\\u12\"",
    "\"\t\"",
    "\"\n\"",
    "\u{feff}",
    "\u{a0}",
];

/// White space between tokens.
pub(crate) fn space() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"]
}

/// A string with its quotes: plain, wide and escaped characters.
pub(crate) fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-zA-Z0-9 /:{}\\[\\],]{1,12}",
        2 => any::<char>()
            .prop_filter("must be escaped", |c| *c >= ' ' && *c != '"' && *c != '\\')
            .prop_map(String::from),
        1 => proptest::sample::select(vec![
            r#"\""#, r"\\", r"\/", r"\n", r"\b", r"\u00e9", r"\u0041", r"\u0000", r"\ud83d\ude00", r"\uD83D\uDE00", r"\\\\",
        ])
        .prop_map(String::from),
    ];
    vec(piece, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// A number in any form.
pub(crate) fn number() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?"
}

/// Any value, a few levels deep.
pub(crate) fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        proptest::sample::select(vec!["null", "true", "false", "[]", "{}"]).prop_map(String::from),
        number(),
        string(),
        // Runs that are longer than a block of the scanner.
        (string(), 1..12_usize).prop_map(|(text, times)| format!("\"{}\"", text[1..text.len() - 1].repeat(times * 8))),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            vec(padded(inner.clone()), 0..6).prop_map(|values| format!("[{}]", values.join(","))),
            vec((string(), inner), 0..6).prop_flat_map(object),
        ]
    })
}

/// An object of these members, in this order.
pub(crate) fn object(members: Vec<(String, String)>) -> impl Strategy<Value = String> {
    vec([space(), space(), space(), space()], members.len()).prop_map(move |spaces| {
        let members = members.iter().zip(&spaces);
        let members: Vec<_> = members.map(|((k, v), [a, b, c, d])| format!("{a}{k}{b}:{c}{v}{d}")).collect();
        format!("{{{}}}", members.join(","))
    })
}

/// A key: mostly as it is, sometimes with its first letter escaped.
pub(crate) fn key(name: &'static str, escaped_of_ten: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        10 - escaped_of_ten => Just(format!("\"{name}\"")),
        escaped_of_ten => Just(format!("\"\\u{:04x}{}\"", u32::from(name.as_bytes()[0]), &name[1..])),
    ]
}

/// An id as a sender may write it, now and then one that is none.
pub(crate) fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => any::<i64>().prop_map(|id| id.to_string()),
        4 => string(),
        2 => "-?(0|[1-9][0-9]{0,40})",
        1 => proptest::sample::select(vec!["null", "0", "-0", "5.0", "1.5", "true", "[1]", "9007199254740993"]).prop_map(String::from),
    ]
}

/// Params that hold members of interest among others.
pub(crate) fn params() -> impl Strategy<Value = String> {
    let names = [
        "_meta",
        "requestId",
        "id",
        "reason",
        "progressToken",
        "token",
        "name",
        "sessionId",
        "task",
        "protocolVersion",
        "arguments",
    ];
    let member =
        proptest::sample::select(names.to_vec()).prop_flat_map(|name| (key(name, 1), prop_oneof![id(), value()]));
    prop_oneof![4 => vec(member, 0..6).prop_flat_map(object), 1 => value()]
}

/// An object that is a message, or nearly one: members in any order, present or not, sometimes twice.
pub(crate) fn message() -> impl Strategy<Value = String> {
    let member = |name, escaped, value: BoxedStrategy<String>| (key(name, escaped), value);
    let maybe =
        |odds: f64, name, value: BoxedStrategy<String>| proptest::option::weighted(odds, member(name, 0, value));
    let method = || prop_oneof![9 => string(), 1 => value()].boxed();
    let body = (
        maybe(0.9, "jsonrpc", Just("\"2.0\"".to_owned()).boxed()),
        maybe(0.7, "id", id().boxed()),
        maybe(0.7, "method", method()),
        maybe(0.7, "params", params().boxed()),
        maybe(0.2, "result", value().boxed()),
        maybe(0.1, "error", value().boxed()),
        proptest::option::weighted(0.1, (string(), value())),
        proptest::option::weighted(
            0.1,
            prop_oneof![
                member("id", 5, id().boxed()),
                member("method", 5, method()),
                member("params", 5, value().boxed()),
                member("result", 5, value().boxed()),
            ],
        ),
    );
    let members =
        body.prop_map(|(a, b, c, d, e, f, g, h)| [a, b, c, d, e, f, g, h].into_iter().flatten().collect::<Vec<_>>());
    (space(), members.prop_shuffle().prop_flat_map(object), space()).prop_map(|(a, body, b)| format!("{a}{body}{b}"))
}

fn padded(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (space(), value, space()).prop_map(|(a, value, b)| format!("{a}{value}{b}"))
}
