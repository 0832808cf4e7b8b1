//! Answers as broken programs write them: spoilt in one of many named ways, and what a reader may know of each.

use rescind_proto::frame::{self, Frame};
use serde_json::Value;

/// An answer that was spoilt.
#[derive(Clone, Debug)]
pub struct Spoilt {
    /// How, in a few words.
    pub way: &'static str,
    /// Its text, without framing.
    pub text: Vec<u8>,
    /// What can be known of it.
    pub fate: Expected,
}

/// What can be known of a spoilt answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The answer stands in it as it was: it is passed on.
    Whole,
    /// It names its request, which ends with an error.
    Ends,
    /// It does not say for certain which request it answers.
    Nameless,
}

/// An answer in its parts, from which it is spoilt.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Its id, as JSON.
    pub id: &'static str,
    /// Its result, an object as JSON.
    pub result: &'static str,
    /// Whether its id stands behind its result.
    pub id_last: bool,
}

/// Results that look as if they were messages themselves, or hold what is easily read wrongly.
pub const RESULTS: [&str; 6] = [
    r#"{}"#,
    r#"{"content":[{"type":"text","text":"plain"}]}"#,
    r#"{"id":2}"#,
    r#"{"items":[{"jsonrpc":"2.0","id":2,"result":{}},{"id":3,"error":{"code":1,"message":"m"}}],"id":2}"#,
    r#"{"text":"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n"}"#,
    r#"{"text":"it's [a {brace"}"#,
];

/// The first member of each message.
const VERSION: &str = "\"jsonrpc\":\"2.0\"";

impl Answer {
    /// All of them with this id: each result, with the id before and behind it.
    pub fn all(id: &'static str) -> impl Iterator<Item = Self> {
        RESULTS.into_iter().flat_map(move |result| [false, true].map(|id_last| Self { id, result, id_last }))
    }

    /// The answer as it should be.
    pub fn text(&self) -> String {
        self.with(self.result)
    }

    fn with(&self, result: &str) -> String {
        self.of(VERSION, &format!("\"id\":{}", self.id), &format!("\"result\":{result}"), ",")
    }

    fn of(&self, version: &str, id: &str, result: &str, comma: &str) -> String {
        let (second, third) = if self.id_last { (result, id) } else { (id, result) };
        format!("{{{version}{comma}{second}{comma}{third}}}")
    }

    /// Its result with one member more in front.
    fn with_member(&self, member: &str) -> String {
        let comma = if self.result == "{}" { "" } else { "," };
        self.with(&self.result.replacen('{', &format!("{{{member}{comma}"), 1))
    }

    /// As a language prints it that has other quotes, or other words.
    fn printed(&self, quote: &str, colon: &str, comma: &str) -> String {
        let quoted = |text: &str| format!("{quote}{text}{quote}");
        let id = self.id.trim_matches('"');
        let id = if self.id == id { id.to_owned() } else { format!("'{id}'") };
        let member = |name: &str, value: &str| format!("{}{colon}{value}", quoted(name));
        // What a string holds stays in its quotes.
        let result = if self.result.contains('\\') || self.result.contains("it's") { "{}" } else { self.result };
        let result = result.replace('"', "'");
        self.of(&member("jsonrpc", "'2.0'"), &member("id", &id), &member("result", &result), comma)
    }

    /// This answer, spoilt in every way that there is.
    pub fn spoilt(&self) -> Vec<Spoilt> {
        use Expected::{Ends, Nameless, Whole};
        let whole = self.text();
        let is_first = !self.id_last;
        let early = if is_first { Ends } else { Nameless };
        // A number may have gone on.
        let at_end = if is_first || self.id.ends_with('"') { Ends } else { Nameless };
        let (id, result) = (format!("\"id\":{}", self.id), format!("\"result\":{}", self.result));
        let under = |id: &str| self.of(VERSION, id, &result, ",");
        let with_error = |error: &str| self.with("{}").replace("\"result\":{}", &format!("\"error\":{error}"));
        let cut = |from_end: usize| whole[..whole.len() - from_end].to_owned();
        let at_result = whole.find("\"result\"").unwrap_or_default();
        let spoilt = [
            ("nothing", whole.clone(), Whole),
            ("a mark", format!("\u{feff}{whole}"), Whole),
            ("a mark and white space", format!("\u{feff} \t{whole}"), Whole),
            ("a word before it", format!("Loading... {whole}"), Whole),
            ("escape codes before it", format!("\u{1b}[2K\u{1b}[1G{whole}"), Whole),
            ("a line of a log before it", format!("{{\"level\":\"info\",\"id\":2}} {whole}"), Whole),
            ("a level before it", format!("[INFO] {whole}"), Whole),
            ("a word behind it", format!("{whole} done"), Whole),
            ("escape codes around it", format!("\u{1b}[1m{whole}\u{1b}[0m"), Whole),
            ("no number", self.with_member("\"x\":NaN"), Ends),
            ("an infinite number", self.with_member("\"x\":-Infinity"), Ends),
            ("undefined", self.with_member("\"x\":undefined"), Ends),
            ("words of Python", self.with_member("\"x\":None,\"y\":True"), Ends),
            ("a raw tab", self.with_member("\"x\":\"a\tb\""), Ends),
            ("a raw escape code", self.with_member("\"x\":\"\u{1b}[0m\""), Ends),
            ("an escape that is none", self.with_member("\"x\":\"\\x41\""), Ends),
            ("a comment", self.with_member("/* x */\"x\":1"), Ends),
            ("a comma too many", format!("{},}}", cut(1)), Ends),
            ("a comma too many in the result", self.with_member("\"x\":[1,]"), Ends),
            ("a number with a zero before it", self.with_member("\"x\":01"), Ends),
            ("a bare key in the result", self.with_member("x:1"), Ends),
            ("single quotes in the result", self.with_member("'x':'y'"), Ends),
            ("a quote that is not escaped", self.with_member("\"x\":\"a \"b\" c\""), Ends),
            ("the wrong bracket", self.with_member("\"x\":[1}"), Ends),
            ("a bracket too many at its end", format!("{whole}}}"), Ends),
            ("cut before its end", cut(1), at_end),
            ("cut in its result", cut(if is_first { 2 } else { whole.len() - at_result - 10 }), early),
            ("cut in its id", whole[..whole.find("\"id\":").unwrap_or_default() + 5].to_owned(), Nameless),
            ("single quotes", self.printed("'", ":", ","), Ends),
            ("as Python prints it", self.printed("'", ": ", ", "), Ends),
            ("as Node prints it", self.printed("", ": ", ", "), Ends),
            ("as Ruby prints it", self.printed("\"", "=>", ", "), Ends),
            ("as Java prints it", self.printed("", "=", ", ").replace("'2.0'", "2.0"), Ends),
            ("bare keys", self.printed("", ":", ","), Ends),
            ("no commas", self.of(VERSION, &id, &result, " "), Ends),
            ("no version, as Python prints it", self.printed("'", ": ", ", ").replace("jsonrpc", "rpc"), Nameless),
            ("printed for a log", format!("answer: {}", self.printed("'", ": ", ", ")), Nameless),
            ("escaped as a whole", Value::String(whole.clone()).to_string(), Nameless),
            ("an id that is true", under("\"id\":true"), Nameless),
            ("an id that is an object", under("\"id\":{}"), Nameless),
            ("an id twice", whole.replacen("{", &format!("{{\"id\":{},", self.id), 1), Nameless),
            ("an escaped name", under(&format!("\"\\u0069d\":{}", self.id)), Nameless),
            ("an error, too", format!("{},\"error\":{{\"code\":1,\"message\":\"m\"}}}}", cut(1)), Ends),
            ("an error in words", with_error("\"rate limited\""), Ends),
            ("an error without a code", with_error("{\"message\":\"m\"}"), Ends),
            ("no outcome", format!("{{\"jsonrpc\":\"2.0\",\"id\":{}}}", self.id), Ends),
        ];
        let mut spoilt: Vec<_> =
            spoilt.into_iter().map(|(way, text, fate)| Spoilt { way, text: text.into(), fate }).collect();
        let mut mangled = self.with_member("\"x\":\"~\"").into_bytes();
        mangled.iter_mut().filter(|byte| **byte == b'~').for_each(|byte| *byte = 0xE9);
        spoilt.push(Spoilt { way: "a byte that is not UTF-8", text: mangled, fate: Whole });
        spoilt
    }
}

/// Whether a client can read this as the answer to `id`: checked without the parsers of ours.
///
/// # Panics
///
/// Panics if it is no valid message, or answers another.
pub fn check_answer(line: &str, id: &str, way: &str) {
    let message: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{way}: {line}: {error}"));
    assert_eq!((&message["jsonrpc"], message["id"].to_string()), (&"2.0".into(), id.to_owned()), "{way}: {line}");
    match (message.get("result"), message.get("error")) {
        (Some(result), None) => assert!(result.is_object(), "{way}: {line}"),
        (None, Some(error)) => assert!(error["code"].is_i64() && error["message"].is_string(), "{way}: {line}"),
        _ => panic!("{way}: {line}"),
    }
    assert!(matches!(frame::parse(line.as_bytes()), Ok(Frame::Response(_))), "{way}: {line}");
}
