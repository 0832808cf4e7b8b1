//! What of the requests somebody wants to see.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use rescind_proto::{
    id::RequestId,
    link::RequestKey,
    relay::{Relay, RequestSummary, RequestView},
    side::Side,
    time::Instant,
};

use super::record::micros;

/// The most requests that one listing holds.
pub(super) const MAX_LISTED: usize = 1000;

/// Which requests to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    which: Which,
    from: Option<Side>,
    /// The ids that were meant: one by its JSON text, and one that is a string of these characters.
    ids: Option<[Option<RequestId>; 2]>,
    /// A method, or a method and a tool with a colon between.
    method: Option<String>,
    older_than: Duration,
    /// Whether somebody cancelled it.
    cancelled: Option<bool>,
    /// The last of the listing before: when it arrived, in microseconds, and its key.
    after: Option<(u64, RequestKey)>,
    pub(super) limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Open,
    Recent,
    All,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            which: Which::Open,
            from: None,
            ids: None,
            method: None,
            older_than: Duration::ZERO,
            cancelled: None,
            after: None,
            limit: MAX_LISTED,
        }
    }
}

impl Query {
    /// Reads the part of an address behind the question mark; says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut query = Self::default();
        for (name, value) in members(text) {
            let bad = || format!("{name}={value} cannot be read");
            match &*name {
                "state" => {
                    query.which = match &*value {
                        "open" => Which::Open,
                        "recent" => Which::Recent,
                        "all" => Which::All,
                        _ => return Err(bad()),
                    }
                }
                "from" => query.from = Some(side(&value).ok_or_else(bad)?),
                "id" => {
                    query.ids = Some([RequestId::from_json(value.as_bytes()), Some(RequestId::string(&value))]);
                }
                "method" => query.method = Some(value),
                "older_than" => query.older_than = Duration::from_micros(value.parse().map_err(|_| bad())?),
                "cancelled" => {
                    query.cancelled = match &*value {
                        "yes" => Some(true),
                        "no" => Some(false),
                        _ => return Err(bad()),
                    }
                }
                "after" => query.after = Some(place(&value).ok_or_else(bad)?),
                "limit" => query.limit = value.parse::<usize>().map_err(|_| bad())?.min(MAX_LISTED),
                _ => return Err(format!("{name} is nothing that can be asked for")),
            }
        }
        Ok(query)
    }

    pub(super) fn sides(&self) -> impl Iterator<Item = Side> {
        Side::BOTH.into_iter().filter(|side| self.from.is_none_or(|from| from == *side))
    }

    /// What a request is listed by, if it is meant.
    pub(super) fn rank(&self, now: Instant, relay: &Relay, glimpse: &RequestSummary<'_>) -> Option<(u64, RequestKey)> {
        let which = match self.which {
            Which::Open => glimpse.is_open(),
            Which::Recent => !glimpse.is_open(),
            Which::All => true,
        };
        let rank = (micros(glimpse.since), glimpse.key);
        let id = |ids: &[Option<RequestId>; 2]| ids.iter().flatten().any(|id| id == glimpse.id);
        let is_meant = which
            && self.ids.as_ref().is_none_or(id)
            && now.since(glimpse.since) >= self.older_than
            && self.cancelled.is_none_or(|cancelled| cancelled == glimpse.is_cancelled)
            && self.after.is_none_or(|after| rank > after)
            && self.method.as_deref().is_none_or(|text| relay.view(glimpse.key).is_some_and(|view| names(text, &view)));
        is_meant.then_some(rank)
    }
}

/// Whether `text` is the method, or the method and the tool.
fn names(text: &str, view: &RequestView<'_>) -> bool {
    match text.strip_prefix(view.method).map(|rest| (rest, rest.strip_prefix(':'))) {
        Some(("", _)) => true,
        Some((_, Some(tool))) => view.name.as_deref() == Some(tool),
        Some((_, None)) | None => false,
    }
}

/// Where in the order of a listing a request stands: `MICROSECONDS,KEY`.
fn place(text: &str) -> Option<(u64, RequestKey)> {
    let (since, key) = text.split_once(',')?;
    Some((since.parse().ok()?, key.parse().ok()?))
}

fn side(word: &str) -> Option<Side> {
    Side::BOTH.into_iter().find(|side| side.as_str() == word)
}

/// The members of a query, unescaped; what has no value has an empty one.
pub(super) fn members(text: &str) -> impl Iterator<Item = (String, String)> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').unwrap_or((part, ""))).map(|(name, value)| (unescape(name), unescape(value)))
}

fn unescape(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_whole_or_refused() {
        let query = Query::parse("state=all&from=server&method=tools%2Fcall:my%20tool&older_than=5&limit=7").unwrap();
        let method = Some("tools/call:my tool".to_owned());
        let older_than = Duration::from_micros(5);
        assert_eq!(
            query,
            Query { which: Which::All, from: Some(Side::Server), method, older_than, limit: 7, ..Query::default() }
        );
        assert_eq!(Query::parse("").unwrap(), Query::default());
        assert_eq!(Query::parse("limit=5000").unwrap().limit, MAX_LISTED);
        for bad in [
            "state=closed",
            "from=me",
            "older_than=-1",
            "limit=x",
            "limit=",
            "cancelled=",
            "after=7",
            "after=c0.1",
            "after=7,x",
            "methods=x",
            "=",
            "%zz=1",
        ] {
            assert!(Query::parse(bad).is_err(), "{bad}");
        }
    }
}
