//! Progress: how it names its request, and how a report of it is written.

use crate::json;

/// How progress names its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProgressForm {
    /// The notification.
    pub method: &'static str,
    /// The member of its params that holds the token.
    pub token: &'static str,
    /// Where in the params of a request its token stands.
    pub asked_at: &'static [&'static str],
    /// What its params hold beside the token.
    pub report: ReportForm,
}

/// What the params of progress hold beside the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportForm {
    /// `progress`, and `total` and `message` if known (MCP).
    Counted,
    /// `value`: work done, with `message` and `percentage` if known (LSP).
    WorkDone,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report<'a> {
    /// What is done, in whatever unit; it must increase (MCP-P02).
    pub done: f64,
    /// How much that will be in the end.
    pub total: Option<f64>,
    /// A few words for people.
    pub message: Option<&'a str>,
}

impl ProgressForm {
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
    fn a_number_that_json_does_not_have_is_no_report() {
        for number in [f64::NAN, f64::INFINITY] {
            assert_eq!(written(mcp::LATEST.progress, &Report { done: number, ..BEGUN }), None);
            assert_eq!(written(mcp::LATEST.progress, &Report { total: Some(number), ..BEGUN }), None);
        }
    }
}
