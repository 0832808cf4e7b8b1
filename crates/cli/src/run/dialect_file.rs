//! A dialect of the user's own: a known one, with some of its answers replaced (D1).
//!
//! ```json
//! {
//!   "name": "my-agent",
//!   "base": "acp-v1",
//!   "cancel": { "method": "agent/abort", "id": "callId", "reason": "why" },
//!   "settlement": "silent"
//! }
//! ```

use std::{fs, io, path::Path};

use rescind_proto::{
    dialect::{
        CancelForm, CancelReply, CancelResult, Cancellers, Dialect, ErrorText, Family, IdReuse, ProgressForm,
        ReportForm, StrayError,
    },
    rule::Rule,
};
use serde::Deserialize;
use serde_json::Value;

/// Why a file gives no dialect.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialectError {
    #[error("{0}")]
    Read(#[from] io::Error),
    #[error("{0}")]
    Parse(#[from] serde_json::Error),
    #[error("\"base\": {0:?} is not a known dialect")]
    Base(String),
    #[error("\"name\": {0:?} is the name of a known dialect; take another")]
    Name(String),
}

/// The file. What is absent is as in the base.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Table {
    base: String,
    name: String,
    cancel: Option<Form>,
    aliases: Option<Vec<Form>>,
    settlement: Option<Settled>,
    cancellers: Option<Who>,
    uncancellable: Option<Vec<String>>,
    batches: Option<bool>,
    id_reuse: Option<Reuse>,
    null_ids: Option<bool>,
    sticky: Option<bool>,
    stray_error: Option<Stray>,
    cancel_results: Option<Vec<OwnResult>>,
    progress: Option<Progress>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    method: String,
    id: String,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Settled {
    Error { code: i32, message: String },
    Silent(Silent),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Silent {
    Silent,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Who {
    Both,
    Client,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Reuse {
    Never,
    AfterAnswer,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Stray {
    NullId,
    NoId,
    Invalid,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnResult {
    method: String,
    /// Where in a result to look for `value`.
    path: Vec<String>,
    value: String,
    /// The whole result.
    result: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Progress {
    method: String,
    token: String,
    asked_at: Vec<String>,
}

/// Reads a dialect. It lives as long as the process, as the known ones do.
pub(super) fn read(path: &Path) -> Result<&'static Dialect, DialectError> {
    let table = serde_json::from_slice(&fs::read(path)?)?;
    Ok(Box::leak(Box::new(dialect(table)?)))
}

fn dialect(table: Table) -> Result<Dialect, DialectError> {
    let base = Dialect::by_name(&table.base).ok_or(DialectError::Base(table.base))?;
    if Dialect::by_name(&table.name).is_some() {
        return Err(DialectError::Name(table.name));
    }
    let mut dialect = Dialect { name: text(table.name), family: Family::Custom, ..base.clone() };
    if let Some(cancel) = table.cancel {
        dialect.cancel = form(cancel);
    }
    if let Some(aliases) = table.aliases {
        dialect.aliases = list(aliases, form);
    }
    match table.settlement {
        None => {}
        Some(Settled::Silent(Silent::Silent)) => dialect.settlement = CancelReply::Silent,
        Some(Settled::Error { code, message }) => {
            dialect.settlement = CancelReply::Answered(ErrorText { code, message: text(message) });
        }
    }
    if let Some(cancellers) = table.cancellers {
        dialect.cancellers = match cancellers {
            Who::Both => Cancellers::Both,
            Who::Client => Cancellers::Client,
        };
    }
    if let Some(methods) = table.uncancellable {
        // The rule that lets a receiver ignore what cannot be cancelled, where the base has none of its own.
        dialect.uncancellable = list(methods, |method| {
            let rule = base.uncancellable(&method).unwrap_or(Rule::McpC07);
            (text(method), rule)
        });
    }
    if let Some(reuse) = table.id_reuse {
        dialect.reuse = match reuse {
            Reuse::Never => IdReuse::Never,
            Reuse::AfterAnswer => IdReuse::AfterAnswer,
        };
    }
    if let Some(stray) = table.stray_error {
        dialect.stray_error = match stray {
            Stray::NullId => StrayError::NullId,
            Stray::NoId => StrayError::NoId,
            Stray::Invalid => StrayError::Invalid,
        };
    }
    if let Some(results) = table.cancel_results {
        dialect.cancel_results = list(results, |own| CancelResult {
            method: text(own.method),
            path: list(own.path, text),
            value: text(own.value),
            json: text(own.result.to_string()),
        });
    }
    if let Some(Progress { method, token, asked_at }) = table.progress {
        // A relay passes progress on and never writes any.
        let report = ReportForm::Counted;
        let progress = ProgressForm {
            method: text(method),
            token: text(token),
            asked_at: list(asked_at, text),
            partial_at: None,
            report,
        };
        dialect.progress = Some(progress);
    }
    dialect.batches = table.batches.unwrap_or(base.batches);
    dialect.null_ids = table.null_ids.unwrap_or(base.null_ids);
    dialect.sticky = table.sticky.unwrap_or(base.sticky);
    Ok(dialect)
}

fn form(form: Form) -> CancelForm {
    CancelForm { method: text(form.method), id: text(form.id), reason: form.reason.map(text) }
}

fn text(text: String) -> &'static str {
    text.leak()
}

fn list<T, U>(list: Vec<T>, each: impl FnMut(T) -> U) -> &'static [U] {
    list.into_iter().map(each).collect::<Vec<U>>().leak()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Dialect, DialectError> {
        dialect(serde_json::from_str(json)?)
    }

    #[test]
    fn what_is_absent_is_as_in_the_base() {
        let dialect = parse(r#"{"base":"acp-v1","name":"mine"}"#).unwrap();
        let base = Dialect::by_name("acp-v1").unwrap();
        assert_eq!(dialect.cancel, base.cancel);
        assert_eq!(dialect.settlement, base.settlement);
        assert_eq!((dialect.name, dialect.family), ("mine", Family::Custom));
    }

    #[test]
    fn what_is_there_replaces_it() {
        let json = r#"{"base":"mcp-2025-11-25","name":"mine","sticky":false,"idReuse":"afterAnswer",
            "cancel":{"method":"abort","id":"call"},"settlement":{"code":-1,"message":"stopped"},
            "uncancellable":["initialize","commit"],"cancelResults":[
            {"method":"ask","path":["say"],"value":"no","result":{"say":"no"}}]}"#;
        let dialect = parse(json).unwrap();
        assert_eq!(dialect.cancel, CancelForm { method: "abort", id: "call", reason: None });
        assert_eq!(dialect.settlement, CancelReply::Answered(ErrorText { code: -1, message: "stopped" }));
        assert_eq!(dialect.uncancellable, [("initialize", Rule::McpC03), ("commit", Rule::McpC07)]);
        assert_eq!((dialect.sticky, dialect.reuse), (false, IdReuse::AfterAnswer));
        assert_eq!(dialect.cancel_results[0].json, r#"{"say":"no"}"#);
    }

    #[test]
    fn silence_is_a_word() {
        let dialect = parse(r#"{"base":"lsp","name":"mine","settlement":"silent"}"#).unwrap();
        assert_eq!(dialect.settlement, CancelReply::Silent);
    }

    #[test]
    fn mistakes_are_told() {
        for (json, told) in [
            (r#"{"base":"smtp","name":"mine"}"#, "not a known dialect"),
            (r#"{"base":"lsp","name":"lsp"}"#, "take another"),
            (r#"{"base":"lsp","name":"mine","sticki":true}"#, "unknown field `sticki`"),
            (r#"{"base":"lsp","name":"mine","settlement":"loud"}"#, "settlement"),
        ] {
            let error = parse(json).unwrap_err().to_string();
            assert!(error.contains(told) || told == "settlement", "{json}: {error}");
        }
    }
}
