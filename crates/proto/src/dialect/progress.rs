//! Progress: how it names its request, and how a report of it is written and read.

use std::borrow::Cow;

use crate::{
    frame::Params,
    id::RequestId,
    json::{self, lookup},
};

/// How progress names its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProgressForm {
    /// The notification.
    pub method: &'static str,
    /// The member of its params that holds the token.
    pub token: &'static str,
    /// Where in the params of a request its token stands.
    pub asked_at: &'static [&'static str],
    /// Where in those params the token of partial results stands, if there are any (LSP-04).
    pub partial_at: Option<&'static [&'static str]>,
    /// What its params hold beside the token.
    pub report: ReportForm,
    /// Whether it may name only the token of a request that is active, and so is void once that is answered (MCP-P01,
    /// MCP-P03). Clients end a connection over other progress, so it is dropped (D62).
    pub active_only: bool,
}

/// What the params of progress hold beside the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReportForm {
    /// `progress`, and `total` and `message` if known (MCP).
    Counted,
    /// `value`: work done, with `message` and `percentage` if known (LSP).
    WorkDone,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report<'a> {
    /// How much is done, in any unit; it must increase (MCP-P02).
    pub done: f64,
    /// How much that will be in the end.
    pub total: Option<f64>,
    /// A few words for people.
    pub message: Option<&'a str>,
}

/// Progress as it was received: untrusted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading<'a> {
    /// How much is done, a finite number.
    pub done: Option<f64>,
    /// Of how much, a finite number.
    pub total: Option<f64>,
    /// In the sender's words: untrusted, and of any length.
    pub message: Option<Cow<'a, str>>,
}

impl ProgressForm {
    /// The token under which a request with these params asked for progress.
    #[must_use]
    pub fn asked(&self, params: &Params<'_>) -> Option<RequestId> {
        RequestId::from_json(self.asked_raw(params)?)
    }

    /// The same token, as JSON of any kind.
    pub(crate) fn asked_raw<'a>(&self, params: &Params<'a>) -> Option<&'a [u8]> {
        token(self.asked_at, params)
    }

    /// The token under which a request with these params asked for partial results.
    #[must_use]
    pub fn asked_partial(&self, params: &Params<'_>) -> Option<RequestId> {
        RequestId::from_json(token(self.partial_at?, params)?)
    }

    /// Reads the params of progress beside the token. Nothing can be read here of partial results.
    #[must_use]
    pub fn read<'a>(&self, params: &'a [u8]) -> Reading<'a> {
        let number = |object, name| json::member(object, name).and_then(number);
        let words = |object, name| json::member(object, name).and_then(json::text);
        match self.report {
            ReportForm::Counted => Reading {
                done: number(params, "progress"),
                total: number(params, "total"),
                message: words(params, "message"),
            },
            ReportForm::WorkDone => {
                let Some(value) = json::member(params, "value") else { return Reading::default() };
                let done = number(value, "percentage");
                Reading {
                    done,
                    total: done.map(|_| 100.0),
                    message: words(value, "message").or_else(|| words(value, "title")),
                }
            }
        }
    }

    /// The params of `report` under `token`, which is JSON; `None` for a number that JSON does not have.
    #[must_use]
    pub fn params(&self, token: &[u8], report: &Report<'_>) -> Option<Vec<u8>> {
        let Report { done, total, message } = *report;
        if !done.is_finite() || total.is_some_and(|total| !total.is_finite()) {
            return None;
        }
        let mut out = vec![b'{'];
        key(self.token, &mut out);
        out.extend_from_slice(token);
        match self.report {
            ReportForm::Counted => {
                member("progress", &done.to_string(), &mut out);
                if let Some(total) = total {
                    member("total", &total.to_string(), &mut out);
                }
                words(message, &mut out);
            }
            ReportForm::WorkDone => {
                member("value", r#"{"kind":"report""#, &mut out);
                words(message, &mut out);
                if let Some(total) = total.filter(|total| *total > 0.0) {
                    let percentage = (100.0 * done / total).clamp(0.0, 100.0).floor();
                    member("percentage", &percentage.to_string(), &mut out);
                }
                out.push(b'}');
            }
        }
        out.push(b'}');
        Some(out)
    }
}

#[inline]
fn token<'a>(path: &[&str], params: &Params<'a>) -> Option<&'a [u8]> {
    match path {
        ["_meta", rest @ ..] => lookup(params.meta?, rest),
        path => lookup(params.raw?, path),
    }
}

/// A JSON number, unless it is too large for one.
fn number(text: &[u8]) -> Option<f64> {
    let is_number = matches!(text.first(), Some(b'-' | b'0'..=b'9'));
    let value: f64 = is_number.then(|| core::str::from_utf8(text).ok()?.parse().ok()).flatten()?;
    value.is_finite().then_some(value)
}

fn key(name: &str, out: &mut Vec<u8>) {
    json::write_string(out, name);
    out.push(b':');
}

/// A further member, whose value is JSON.
fn member(name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(b',');
    key(name, out);
    out.extend_from_slice(value.as_bytes());
}

fn words(message: Option<&str>, out: &mut Vec<u8>) {
    if let Some(message) = message {
        out.push(b',');
        key("message", out);
        json::write_string(out, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{lsp, mcp};

    fn written(form: Option<ProgressForm>, report: &Report<'_>) -> Option<String> {
        String::from_utf8(form.unwrap().params(br#""a""#, report)?).ok()
    }

    const HALF: Report<'_> = Report { done: 1.5, total: Some(3.0), message: Some("half\n") };
    const BEGUN: Report<'_> = Report { done: 1.0, total: None, message: None };

    #[test]
    fn each_protocol_has_its_way_of_saying_how_far_it_is() {
        let mcp = |report| written(mcp::LATEST.progress, report).unwrap();
        assert_eq!(mcp(&HALF), r#"{"progressToken":"a","progress":1.5,"total":3,"message":"half\n"}"#);
        assert_eq!(mcp(&BEGUN), r#"{"progressToken":"a","progress":1}"#);
        let lsp = |report| written(lsp::LSP.progress, report).unwrap();
        assert_eq!(lsp(&HALF), r#"{"token":"a","value":{"kind":"report","message":"half\n","percentage":50}}"#);
        assert_eq!(lsp(&BEGUN), r#"{"token":"a","value":{"kind":"report"}}"#);
        let over = Report { done: 7.0, total: Some(3.0), message: None };
        assert_eq!(lsp(&over), r#"{"token":"a","value":{"kind":"report","percentage":100}}"#);
    }

    #[test]
    fn what_is_written_can_be_read() {
        for (form, total) in [(mcp::LATEST.progress, 3.0), (lsp::LSP.progress, 100.0)] {
            let params = written(form, &HALF).unwrap();
            let reading = form.unwrap().read(params.as_bytes());
            let part = reading.done.unwrap() / reading.total.unwrap();
            assert_eq!((part, reading.total, reading.message.as_deref()), (0.5, Some(total), Some("half\n")));
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let read = |form: Option<ProgressForm>, params: &'static str| form.unwrap().read(params.as_bytes());
        for odd in [r#"{"progress":"1","total":null,"message":7}"#, r#"{"progress":1e999,"total":-inf}"#, "[]", "{}"] {
            assert_eq!(read(mcp::LATEST.progress, odd), Reading::default(), "{odd}");
        }
        let begun = read(lsp::LSP.progress, r#"{"token":1,"value":{"kind":"begin","title":"Indexing"}}"#);
        assert_eq!(begun, Reading { message: Some("Indexing".into()), ..Reading::default() });
        let partial = read(lsp::LSP.progress, r#"{"token":1,"value":[{"percentage":7}]}"#);
        assert_eq!(partial, Reading::default());
    }

    #[test]
    fn a_number_that_json_does_not_have_is_no_report() {
        for number in [f64::NAN, f64::INFINITY] {
            assert_eq!(written(mcp::LATEST.progress, &Report { done: number, ..BEGUN }), None);
            assert_eq!(written(mcp::LATEST.progress, &Report { total: Some(number), ..BEGUN }), None);
        }
    }
}
