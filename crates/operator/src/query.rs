//! Which requests to list.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rescind_feed::Side;

/// Which requests of a shim to list. By default: all that are open, at most a thousand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingQuery {
    /// `open` (the default), `recent` or `all`.
    pub state: Option<&'static str>,
    /// Only requests that this side sent.
    pub from: Option<Side>,
    /// Only requests with this id: its JSON text, or the characters of a string id.
    pub id: Option<String>,
    /// Only requests of this `METHOD` or `METHOD:TOOL`, such as `tools/call:index`.
    pub method: Option<String>,
    /// Only requests older than this, in microseconds.
    pub older_than: Option<u64>,
    /// Only cancelled requests, or only the others.
    pub cancelled: Option<bool>,
    /// Only requests after this one in the order of listings: its arrival and its key.
    pub after: Option<(u64, String)>,
    /// The most requests to list.
    pub limit: Option<u64>,
    /// Also the arguments of those in flight. A shim that keeps none refuses this, with status 400.
    pub arguments: bool,
}

impl ListingQuery {
    /// The path and query of the request.
    pub(super) fn path(&self) -> String {
        let Self { state, from, id, method, older_than, cancelled, after, limit, arguments } = self;
        let members = [
            ("state", state.map(str::to_owned)),
            ("from", from.map(|side| side.as_str().to_owned())),
            ("id", id.as_ref().map(|id| encoded(id))),
            ("method", method.as_ref().map(|method| encoded(method))),
            ("older_than", older_than.map(|age| age.to_string())),
            ("cancelled", cancelled.map(|cancelled| if cancelled { "yes" } else { "no" }.to_owned())),
            ("after", after.as_ref().map(|(since, key)| encoded(&format!("{since},{key}")))),
            ("limit", limit.map(|limit| limit.to_string())),
            ("arguments", arguments.then(|| "yes".to_owned())),
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

/// Percent-encodes `text` for a path or query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped() {
        assert_eq!(ListingQuery::default().path(), "/v1/requests");
        let method = Some("tools/call:a&b\r\n".to_owned());
        let query = ListingQuery { method, from: Some(Side::Server), older_than: Some(7), ..ListingQuery::default() };
        assert_eq!(query.path(), "/v1/requests?from=server&method=tools%2Fcall%3Aa%26b%0D%0A&older_than=7");
    }
}
