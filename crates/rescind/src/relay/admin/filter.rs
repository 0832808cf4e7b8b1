//! Which requests a client wants listed.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use rescind_proto::{
    id::RequestId,
    relay::{ChildView, Relay, RequestSummary, RequestView},
    side::Side,
    time::Instant,
};

use super::{entry_key::EntryKey, record::micros};

/// The most requests that one listing holds.
pub(super) const MAX_LISTED: usize = 1000;

/// Which requests to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestFilter {
    which: Which,
    from: Option<Side>,
    /// The ids that match: the one with this JSON text, and the string of these characters.
    ids: Option<[Option<RequestId>; 2]>,
    /// The same for a child, whose label begins with [`CHILD`].
    child_ids: Option<[Option<RequestId>; 2]>,
    /// `METHOD` or `METHOD:TOOL`.
    method: Option<String>,
    older_than: Duration,
    /// Whether it was cancelled.
    cancelled: Option<bool>,
    /// The last request of the previous page: its arrival in microseconds, and its key.
    after: Option<(u64, EntryKey)>,
    limit: Option<usize>,
    /// Whether the arguments of those in flight are listed, too.
    arguments: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Which {
    #[default]
    Open,
    Released,
    Recent,
    All,
}

impl RequestFilter {
    /// Parses the query of an address. The error is a sentence for the client.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for (name, value) in members(text) {
            let bad = || format!("invalid value: {name}={value}");
            match &*name {
                "state" => {
                    filter.which = match &*value {
                        "open" => Which::Open,
                        "released" => Which::Released,
                        "recent" => Which::Recent,
                        "all" => Which::All,
                        _ => return Err(bad()),
                    }
                }
                "from" => filter.from = Some(side(&value).ok_or_else(bad)?),
                "id" => {
                    let ids = |text: &str| Some([RequestId::from_json(text.as_bytes()), Some(RequestId::string(text))]);
                    filter.ids = ids(value.strip_prefix(TASK).unwrap_or(&value));
                    filter.child_ids = ids(value.strip_prefix(CHILD).unwrap_or(&value));
                }
                "method" => filter.method = Some(value),
                "older_than" => filter.older_than = Duration::from_micros(value.parse().map_err(|_| bad())?),
                "cancelled" => {
                    filter.cancelled = match &*value {
                        "yes" => Some(true),
                        "no" => Some(false),
                        _ => return Err(bad()),
                    }
                }
                "arguments" => {
                    filter.arguments = match &*value {
                        "yes" => true,
                        "no" => false,
                        _ => return Err(bad()),
                    }
                }
                "after" => filter.after = Some(place(&value).ok_or_else(bad)?),
                "limit" => filter.limit = Some(value.parse().map_err(|_| bad())?),
                _ => return Err(format!("unknown parameter: {name}")),
            }
        }
        Ok(filter)
    }

    /// The most requests to list.
    pub(super) fn limit(&self) -> usize {
        self.limit.unwrap_or(MAX_LISTED).min(MAX_LISTED)
    }

    /// Whether the arguments of those in flight are listed, too.
    pub(super) const fn wants_arguments(&self) -> bool {
        self.arguments
    }

    pub(super) fn sides(&self) -> impl Iterator<Item = Side> {
        Side::BOTH.into_iter().filter(|side| self.from.is_none_or(|from| from == *side))
    }

    /// Returns where a request stands in the listing, if it matches.
    pub(super) fn rank(&self, now: Instant, relay: &Relay, summary: &RequestSummary<'_>) -> Option<(u64, EntryKey)> {
        let which = match self.which {
            Which::Open => summary.is_open(),
            Which::Released => summary.is_released,
            Which::Recent => !summary.is_open(),
            Which::All => true,
        };
        let rank = (micros(summary.since), EntryKey::Request(summary.key));
        let id = |ids: &[Option<RequestId>; 2]| ids.iter().flatten().any(|id| id == summary.id);
        let matches = which
            && self.ids.as_ref().is_none_or(id)
            && now.since(summary.since) >= self.older_than
            && self.cancelled.is_none_or(|cancelled| cancelled == summary.is_cancelled)
            && self.after.is_none_or(|after| rank > after)
            && self.method.as_deref().is_none_or(|text| relay.view(summary.key).is_some_and(|view| names(text, &view)));
        matches.then_some(rank)
    }

    /// Returns where a child stands in the listing, if it matches. It works on behalf of the client.
    pub(super) fn rank_child(&self, now: Instant, child: &ChildView<'_>) -> Option<(u64, EntryKey)> {
        let is_open = child.state.is_open();
        let which = match self.which {
            Which::Open => is_open,
            // While it may be at work it is listed with what is in flight.
            Which::Released => false,
            Which::Recent => !is_open,
            Which::All => true,
        };
        let rank = (micros(child.since), EntryKey::Child(child.key));
        let id = |ids: &[Option<RequestId>; 2]| {
            let own = RequestId::from_json(child.session);
            own.is_some_and(|own| ids.iter().flatten().any(|id| *id == own))
        };
        let names = |text: &str| match text.strip_prefix(METHOD).map(|rest| (rest, rest.strip_prefix(':'))) {
            Some(("", _)) => true,
            Some((_, Some(title))) => child.title == Some(title),
            Some((_, None)) | None => false,
        };
        let matches = which
            && self.from != Some(Side::Server)
            && self.child_ids.as_ref().is_none_or(id)
            && now.since(child.since) >= self.older_than
            && self.cancelled.is_none_or(|cancelled| cancelled == child.cancel.is_some())
            && self.after.is_none_or(|after| rank > after)
            && self.method.as_deref().is_none_or(names);
        matches.then_some(rank)
    }
}

/// The method that children are listed under.
const METHOD: &str = "subagent";

/// How the label of a child begins.
const CHILD: &str = "child:";

/// How the label of a task at work begins.
const TASK: &str = "task:";

/// Whether `text` is `METHOD` or `METHOD:TOOL` of the request.
fn names(text: &str, view: &RequestView<'_>) -> bool {
    match text.strip_prefix(view.method).map(|rest| (rest, rest.strip_prefix(':'))) {
        Some(("", _)) => true,
        Some((_, Some(tool))) => view.name.as_deref() == Some(tool),
        Some((_, None)) | None => false,
    }
}

/// Parses a place in a listing: `MICROSECONDS,KEY`.
fn place(text: &str) -> Option<(u64, EntryKey)> {
    let (since, key) = text.split_once(',')?;
    Some((since.parse().ok()?, key.parse().ok()?))
}

fn side(word: &str) -> Option<Side> {
    Side::BOTH.into_iter().find(|side| side.as_str() == word)
}

/// The parameters of a query, unescaped. One without `=` has an empty value.
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
    fn a_query_is_understood_whole_or_refused() {
        let filter =
            RequestFilter::parse("state=all&from=server&method=tools%2Fcall:my%20tool&older_than=5&limit=7").unwrap();
        let method = Some("tools/call:my tool".to_owned());
        let older_than = Duration::from_micros(5);
        assert_eq!(
            filter,
            RequestFilter {
                which: Which::All,
                from: Some(Side::Server),
                method,
                older_than,
                limit: Some(7),
                ..RequestFilter::default()
            }
        );
        assert_eq!(RequestFilter::parse("").unwrap(), RequestFilter::default());
        assert_eq!(RequestFilter::parse("limit=5000").unwrap().limit(), MAX_LISTED);
        for bad in [
            "state=closed",
            "from=me",
            "older_than=-1",
            "limit=x",
            "limit=",
            "cancelled=",
            "arguments=",
            "after=7",
            "after=c0.1",
            "after=7,x",
            "methods=x",
            "=",
            "%zz=1",
        ] {
            assert!(RequestFilter::parse(bad).is_err(), "{bad}");
        }
    }
}
