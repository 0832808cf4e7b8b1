//! A dialect of your own, read from JSON: a known dialect with some of its answers replaced (D1).
//!
//! `rescind run --protocol FILE.json` takes such a file, and [`read`] gives a program the same. `docs/dialects.md` lists
//! the members.
//!
//! ```
//! let json = r#"{
//!     "name": "my-agent",
//!     "base": "acp-v1",
//!     "cancel": { "method": "agent/abort", "id": "callId", "reason": "why" },
//!     "settlement": "silent"
//! }"#;
//! let dialect = rescind::dialect_file::read(json)?;
//! assert_eq!(dialect.cancel.method, "agent/abort");
//!
//! let error = rescind::dialect_file::read(&json.replace("reason", "reasons")).unwrap_err();
//! assert_eq!(error.to_string(), r#""cancel.reasons": unknown member; allowed: "method", "id" and "reason""#);
//! # Ok::<(), rescind::dialect_file::DialectFileError>(())
//! ```
//!
//! A relay takes the result with `wrap(…).dialect(…)` or `relay::Config::dialects`, a peer with
//! `Builder::dialect`.

mod node;

use rescind_proto::{
    dialect::{
        CancelForm, CancelReply, CancelResult, Cancellers, Dialect, ErrorText, Family, IdReuse, ProgressForm,
        ReportForm, StrayError,
    },
    rule::Rule,
};

use node::{Node, Object};

/// The shape of a file, for errors.
const SHAPE: &str =
    r#"a JSON object with "base" (a known dialect, such as "acp-v1"), a new "name", and what differs from the base"#;

/// Why a file is not a dialect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialectFileError {
    /// It is not JSON.
    #[error("not valid JSON: {0}; the file must be {SHAPE}")]
    Syntax(#[from] serde_json::Error),
    /// It is JSON, but not an object.
    #[error("the file must be {SHAPE}")]
    NotAnObject,
    /// A member is unknown, missing, given twice, or has a value that is not allowed.
    #[error("\"{member}\": {problem}")]
    Member {
        /// The path of the member, such as `aliases[0].method`.
        member: String,
        /// What is wrong, and what is allowed.
        problem: String,
    },
}

/// Reads a dialect. Members that are absent are as in the base.
///
/// The dialect lives as long as the process, like the known ones: read each file once.
///
/// # Errors
///
/// [`DialectFileError`], which names the member at fault and what is allowed there.
pub fn read(json: &str) -> Result<&'static Dialect, DialectFileError> {
    let table = Table::read(json)?;
    Ok(Box::leak(Box::new(table.into_dialect())))
}

/// The checked content of a file. What is absent is as in the base.
struct Table {
    base: &'static Dialect,
    name: String,
    cancel: Option<Form>,
    aliases: Option<Vec<Form>>,
    settlement: Option<Answer>,
    cancellers: Option<Cancellers>,
    uncancellable: Option<Vec<String>>,
    batches: Option<bool>,
    id_reuse: Option<IdReuse>,
    null_ids: Option<bool>,
    sticky: Option<bool>,
    stray_error: Option<StrayError>,
    cancel_results: Option<Vec<OwnResult>>,
    progress: Option<Progress>,
}

struct Form {
    method: String,
    id: String,
    reason: Option<String>,
}

/// The answer to a cancelled request.
enum Answer {
    Silent,
    Error { code: i32, message: String },
}

struct OwnResult {
    method: String,
    path: Vec<String>,
    value: String,
    result: String,
}

struct Progress {
    method: String,
    token: String,
    asked_at: Vec<String>,
}

impl Table {
    const MEMBERS: [&str; 14] = [
        "base",
        "name",
        "cancel",
        "aliases",
        "settlement",
        "cancellers",
        "uncancellable",
        "batches",
        "idReuse",
        "nullIds",
        "sticky",
        "strayError",
        "cancelResults",
        "progress",
    ];

    fn read(json: &str) -> Result<Self, DialectFileError> {
        let file = Node::read(json)?.object(&Self::MEMBERS, SHAPE)?;
        Ok(Self {
            base: file.required("base", base)?,
            name: file.required("name", name)?,
            cancel: file.optional("cancel", Form::read)?,
            aliases: file.optional("aliases", |node| node.list(Form::read))?,
            settlement: file.optional("settlement", Answer::read)?,
            cancellers: file.optional("cancellers", |node| {
                node.choice(&[("both", Cancellers::Both), ("client", Cancellers::Client)])
            })?,
            uncancellable: file.optional("uncancellable", strings)?,
            batches: file.optional("batches", Node::flag)?,
            id_reuse: file.optional("idReuse", |node| {
                node.choice(&[("never", IdReuse::Never), ("afterAnswer", IdReuse::AfterAnswer)])
            })?,
            null_ids: file.optional("nullIds", Node::flag)?,
            sticky: file.optional("sticky", Node::flag)?,
            stray_error: file.optional("strayError", |node| {
                let (null_id, no_id) = (("nullId", StrayError::NullId), ("noId", StrayError::NoId));
                node.choice(&[null_id, no_id, ("invalid", StrayError::Invalid)])
            })?,
            cancel_results: file.optional("cancelResults", |node| node.list(OwnResult::read))?,
            progress: file.optional("progress", Progress::read)?,
        })
    }

    fn into_dialect(self) -> Dialect {
        let base = self.base;
        let mut dialect = Dialect { name: leak(self.name), family: Family::Custom, ..base.clone() };
        if let Some(form) = self.cancel {
            dialect.cancel = form.leak();
        }
        if let Some(forms) = self.aliases {
            dialect.aliases = leak_all(forms, Form::leak);
        }
        match self.settlement {
            None => {}
            Some(Answer::Silent) => dialect.settlement = CancelReply::Silent,
            Some(Answer::Error { code, message }) => {
                dialect.settlement = CancelReply::Answered(ErrorText { code, message: leak(message) });
            }
        }
        if let Some(methods) = self.uncancellable {
            // A method that the base has no rule for gets the one that lets a receiver ignore its cancel.
            dialect.uncancellable = leak_all(methods, |method| {
                let rule = base.uncancellable(&method).unwrap_or(Rule::McpC07);
                (leak(method), rule)
            });
        }
        if let Some(results) = self.cancel_results {
            dialect.cancel_results = leak_all(results, |own| CancelResult {
                method: leak(own.method),
                path: leak_all(own.path, leak),
                value: leak(own.value),
                json: leak(own.result),
            });
        }
        if let Some(Progress { method, token, asked_at }) = self.progress {
            dialect.progress = Some(ProgressForm {
                method: leak(method),
                token: leak(token),
                asked_at: leak_all(asked_at, leak),
                partial_at: None,
                report: ReportForm::Counted,
                active_only: base.progress.is_some_and(|form| form.active_only),
            });
        }
        dialect.cancellers = self.cancellers.unwrap_or(base.cancellers);
        dialect.batches = self.batches.unwrap_or(base.batches);
        dialect.reuse = self.id_reuse.unwrap_or(base.reuse);
        dialect.null_ids = self.null_ids.unwrap_or(base.null_ids);
        dialect.sticky = self.sticky.unwrap_or(base.sticky);
        dialect.stray_error = self.stray_error.unwrap_or(base.stray_error);
        dialect
    }
}

impl Form {
    fn read(node: &Node<'_>) -> Result<Self, DialectFileError> {
        let form =
            node.object(&["method", "id", "reason"], r#"an object with "method", "id" and, if it has one, "reason""#)?;
        Ok(Self {
            method: form.required("method", Node::string)?,
            id: form.required("id", Node::string)?,
            reason: form.optional("reason", Node::string)?,
        })
    }

    fn leak(self) -> CancelForm {
        CancelForm { method: leak(self.method), id: leak(self.id), reason: self.reason.map(leak) }
    }
}

impl Answer {
    fn read(node: &Node<'_>) -> Result<Self, DialectFileError> {
        const ALLOWED: &str = r#""silent", or an object with "code" and "message""#;
        if node.string().is_ok_and(|word| word == "silent") {
            return Ok(Self::Silent);
        }
        let error = node.object(&["code", "message"], ALLOWED)?;
        Ok(Self::Error {
            code: error.required("code", Node::integer)?,
            message: error.required("message", Node::string)?,
        })
    }
}

impl OwnResult {
    fn read(node: &Node<'_>) -> Result<Self, DialectFileError> {
        let members = ["method", "path", "value", "result"];
        let own = node.object(&members, r#"an object with "method", "path", "value" and "result""#)?;
        Ok(Self {
            method: own.required("method", Node::string)?,
            path: own.required("path", strings)?,
            value: own.required("value", Node::string)?,
            result: own.required("result", Node::compact)?,
        })
    }
}

impl Progress {
    fn read(node: &Node<'_>) -> Result<Self, DialectFileError> {
        let members = ["method", "token", "askedAt"];
        let progress: Object<'_> = node.object(&members, r#"an object with "method", "token" and "askedAt""#)?;
        Ok(Self {
            method: progress.required("method", Node::string)?,
            token: progress.required("token", Node::string)?,
            asked_at: progress.required("askedAt", strings)?,
        })
    }
}

fn base(node: &Node<'_>) -> Result<&'static Dialect, DialectFileError> {
    let named = Dialect::ALL.iter().map(|dialect| dialect.name);
    let known = || Vec::from_iter(["mcp", "acp"].into_iter().chain(named).map(|name| format!("{name:?}"))).join(", ");
    let known_base = Dialect::by_name(&node.string()?).filter(|dialect| !dialect.opaque);
    known_base.ok_or_else(|| node.must_be(&format!("one of {}", known())))
}

fn name(node: &Node<'_>) -> Result<String, DialectFileError> {
    let name = node.string()?;
    match Dialect::by_name(&name) {
        None if !name.is_empty() => Ok(name),
        None | Some(_) => Err(node.must_be("a new name, neither empty nor that of a known dialect")),
    }
}

fn strings(node: &Node<'_>) -> Result<Vec<String>, DialectFileError> {
    node.list(Node::string)
}

fn leak(text: String) -> &'static str {
    text.leak()
}

fn leak_all<T, U>(list: Vec<T>, each: impl FnMut(T) -> U) -> &'static [U] {
    list.into_iter().map(each).collect::<Vec<U>>().leak()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_members_are_as_in_the_base() {
        let dialect = read(r#"{"base":"acp-v1","name":"mine"}"#).unwrap();
        let base = Dialect::by_name("acp-v1").unwrap();
        assert_eq!(dialect.cancel, base.cancel);
        assert_eq!(dialect.settlement, base.settlement);
        assert_eq!((dialect.cancellers, dialect.stray_error), (base.cancellers, base.stray_error));
        assert_eq!((dialect.name, dialect.family), ("mine", Family::Custom));
    }

    #[test]
    fn every_member_replaces_that_of_the_base() {
        let dialect = read(
            r#"{"base":"mcp-2025-11-25","name":"mine","sticky":false,"idReuse":"afterAnswer","batches":true,
            "nullIds":true,"strayError":"invalid","cancellers":"client",
            "cancel":{"method":"abort","id":"call"},"settlement":{"code":-1,"message":"stopped"},
            "aliases":[{"method":"stop","id":"id","reason":"why"}],
            "uncancellable":["initialize","commit"],
            "progress":{"method":"news","token":"of","askedAt":["meta","token"]},
            "cancelResults":[{"method":"ask","path":["say"],"value":"no","result":{ "say": "no" }}]}"#,
        );
        let dialect = dialect.unwrap();
        assert_eq!(dialect.cancel, CancelForm { method: "abort", id: "call", reason: None });
        assert_eq!(dialect.aliases, [CancelForm { method: "stop", id: "id", reason: Some("why") }]);
        assert_eq!(dialect.settlement, CancelReply::Answered(ErrorText { code: -1, message: "stopped" }));
        assert_eq!(dialect.uncancellable, [("initialize", Rule::McpC03), ("commit", Rule::McpC07)]);
        assert_eq!((dialect.sticky, dialect.batches, dialect.null_ids), (false, true, true));
        assert_eq!((dialect.reuse, dialect.cancellers), (IdReuse::AfterAnswer, Cancellers::Client));
        assert_eq!(dialect.stray_error, StrayError::Invalid);
        assert_eq!(dialect.progress.map(|form| (form.method, form.asked_at)), Some(("news", &["meta", "token"][..])));
        assert_eq!(dialect.cancel_results[0].json, r#"{"say":"no"}"#);
    }

    #[test]
    fn settlement_may_be_silent() {
        let dialect = read(r#"{"base":"lsp","name":"mine","settlement":"silent"}"#).unwrap();
        assert_eq!(dialect.settlement, CancelReply::Silent);
    }

    #[test]
    fn an_error_names_the_member_and_what_is_allowed() {
        let with = |rest: &str| format!(r#"{{"base":"lsp","name":"mine",{rest}}}"#);
        for (json, message) in [
            (
                r#"{"base":"lsp","name":"lsp"}"#.into(),
                r#""name": must be a new name, neither empty nor that of a known dialect; found "lsp""#,
            ),
            (
                r#"{"base":"lsp","name":""}"#.into(),
                r#""name": must be a new name, neither empty nor that of a known dialect; found """#,
            ),
            (
                r#"{"base":"lsp"}"#.into(),
                r#""name": missing; the file must be a JSON object with "base" (a known dialect, such as "acp-v1"), a new "name", and what differs from the base"#,
            ),
            (r#"{"base":"lsp","name":7}"#.into(), r#""name": must be a string; found 7"#),
            (with(r#""base":"lsp""#), r#""base": given twice"#),
            (
                with(r#""settlement":"loud""#),
                r#""settlement": must be "silent", or an object with "code" and "message"; found "loud""#,
            ),
            (
                with(r#""settlement":{"code":1.5,"message":""}"#),
                r#""settlement.code": must be an integer of 32 bits; found 1.5"#,
            ),
            (
                with(r#""settlement":{"code":1}"#),
                r#""settlement.message": missing; "settlement" must be "silent", or an object with "code" and "message""#,
            ),
            (with(r#""idReuse":"always""#), r#""idReuse": must be "never" or "afterAnswer"; found "always""#),
            (with(r#""strayError":1"#), r#""strayError": must be "nullId", "noId" or "invalid"; found 1"#),
            (with(r#""batches":"yes""#), r#""batches": must be true or false; found "yes""#),
            (with(r#""aliases":{}"#), r#""aliases": must be a list; found {}"#),
            (
                with(r#""aliases":[{"method":"a","id":"b"},{"method":"a","id":null}]"#),
                r#""aliases[1].id": must be a string; found null"#,
            ),
            (with(r#""uncancellable":["a",2]"#), r#""uncancellable[1]": must be a string; found 2"#),
            (
                with(r#""cancel":{"metod":"a"}"#),
                r#""cancel.metod": unknown member; allowed: "method", "id" and "reason""#,
            ),
        ] {
            assert_eq!(read(&json).unwrap_err().to_string(), message, "{json}");
        }
        let unknown = read(&with(r#""sticki":true"#)).unwrap_err().to_string();
        assert!(unknown.starts_with(r#""sticki": unknown member; allowed: "base", "name", "#), "{unknown}");
        let base = read(r#"{"base":"smtp","name":"mine"}"#).unwrap_err().to_string();
        assert!(base.starts_with(r#""base": must be one of "mcp", "acp", "mcp-2024-11-05", "#), "{base}");
        assert!(base.ends_with(r#"; found "smtp""#), "{base}");
    }

    #[test]
    fn text_that_is_not_an_object_is_refused() {
        for (json, problem) in [
            ("", "not valid JSON: EOF while parsing a value at line 1 column 0; "),
            (r#"{"base":"lsp""#, "not valid JSON: EOF while parsing an object at line 1 column 13; "),
            ("[]", ""),
        ] {
            assert_eq!(read(json).unwrap_err().to_string(), format!("{problem}the file must be {SHAPE}"), "{json}");
        }
    }

    #[test]
    fn a_long_value_is_shown_in_part() {
        let json = format!(r#"{{"base":"lsp","name":"mine","sticky":"{}"}}"#, "é".repeat(1000));
        let error = read(&json).unwrap_err().to_string();
        assert!(error.len() < 200 && error.ends_with('…'), "{error}");
    }
}
