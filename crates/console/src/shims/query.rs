//! Which requests to list.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rescind_feed::Side;

/// Which requests of a shim to list; by default all that are open, at most a thousand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// `open`, `recent` or `all`; `open` if not given.
    pub state: Option<&'static str>,
    /// Only those of one side.
    pub from: Option<Side>,
    /// Only those with this id: its JSON text, or its characters where it is a string.
    pub id: Option<String>,
    /// Only those of this method, or with a colon behind it of this tool: `tools/call:index`.
    pub method: Option<String>,
    /// Only those older than this, in microseconds.
    pub older_than: Option<u64>,
    /// Only those that somebody cancelled, or only the others.
    pub cancelled: Option<bool>,
    /// Only those behind this one in the order of listings: when it arrived, and its key.
    pub after: Option<(u64, String)>,
    /// At most so many.
    pub limit: Option<u64>,
}

impl Query {
    /// The path and query to ask for.
    pub(super) fn path(&self) -> String {
        let Self { state, from, id, method, older_than, cancelled, after, limit } = self;
        let members = [
            ("state", state.map(str::to_owned)),
            ("from", from.map(|side| side.as_str().to_owned())),
            ("id", id.as_ref().map(|id| encoded(id))),
            ("method", method.as_ref().map(|method| encoded(method))),
            ("older_than", older_than.map(|age| age.to_string())),
            ("cancelled", cancelled.map(|cancelled| if cancelled { "yes" } else { "no" }.to_owned())),
            ("after", after.as_ref().map(|(since, key)| encoded(&format!("{since},{key}")))),
            ("limit", limit.map(|limit| limit.to_string())),
        ];
        let mut path = String::from("/v1/requests");
        let given = members.into_iter().filter_map(|(name, value)| Some((name, value?)));
        for (n, (name, value)) in given.enumerate() {
            path.push(if n == 0 { '?' } else { '&' });
            path.push_str(name);
            path.push('=');
            path.push_str(&value);
        }
        path
    }
}

/// `text` as a part of a path or query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_cannot_leave_its_place() {
        assert_eq!(Query::default().path(), "/v1/requests");
        let method = Some("tools/call:a&b\r\n".to_owned());
        let query = Query { method, from: Some(Side::Server), older_than: Some(7), ..Query::default() };
        assert_eq!(query.path(), "/v1/requests?from=server&method=tools%2Fcall%3Aa%26b%0D%0A&older_than=7");
    }
}
