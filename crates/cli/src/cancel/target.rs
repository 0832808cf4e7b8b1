//! The name of a request on the command line.

use rescind_feed::{Request, Side};

/// `SESSION/ID` or `ID`, where `ID` is a label from a list, optionally with `client:` or `server:` in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) text: String,
    pub(super) session: Option<String>,
    side: Option<Side>,
    pub(super) id: String,
}

/// How well a request matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// Its id is a string of those characters: the shell has removed the quotes.
    Unquoted,
    /// Its id is exactly this.
    Exact,
    /// Exactly what lists show, including the session.
    Listed,
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let (session, id) = match text.split_once('/') {
            Some((session, id)) if session.chars().all(plain) => (Some(session), id),
            _ => (None, text),
        };
        let (side, id) = sided(id);
        let problem = match (session, id) {
            (Some(""), _) => "has no session before the `/`; write SESSION/ID as `rescind ps` lists it",
            (_, "") => "has no id; write SESSION/ID as `rescind ps` lists it",
            (_, id) if id.starts_with('"') && serde_json::from_str::<String>(id).is_err() => {
                "the id is not a whole JSON string; quote it for the shell, as in '4711/\"a b\"'"
            }
            _ => return Ok(Self { text: text.into(), session: session.map(str::to_owned), side, id: id.into() }),
        };
        Err(problem.into())
    }

    /// Whether the session before its slash may be named in a way that is not a number.
    pub(super) fn may_name_entry(&self) -> bool {
        self.text.contains('/') && !self.id.starts_with('"')
    }

    /// The same text, read with the name of this session before a slash.
    pub(super) fn of_session(&self, name: &str) -> Option<Self> {
        let id = self.text.strip_prefix(name)?.strip_prefix('/')?;
        let (side, id) = sided(id);
        (!id.is_empty()).then(|| Self { text: self.text.clone(), session: Some(name.into()), side, id: id.into() })
    }

    /// How well it matches `request`, if at all.
    pub(super) fn fit(&self, request: &Request) -> Option<Fit> {
        if self.side.is_some_and(|side| side != request.from) {
            return None;
        }
        let label = request.label();
        if self.session.is_some() && self.side.is_none() && self.id == label {
            return Some(Fit::Listed);
        }
        let label = label.strip_prefix("server:").filter(|_| request.from == Side::Server).unwrap_or(&label);
        if self.id == request.id || self.id == label {
            return Some(Fit::Exact);
        }
        let string = serde_json::from_str::<String>(&request.id).ok();
        (string.as_ref() == Some(&self.id)).then_some(Fit::Unquoted)
    }
}

/// The side before an id, and the id.
fn sided(id: &str) -> (Option<Side>, &str) {
    let of = |side: Side| Some((Some(side), id.strip_prefix(side.as_str())?.strip_prefix(':')?));
    of(Side::Server).or_else(|| of(Side::Client)).unwrap_or((None, id))
}

#[cfg(test)]
mod tests {
    use rescind_testkit::fake_shim;

    use super::*;

    fn request(from: Side, id: &str) -> Request {
        Request { from, id: id.into(), ..fake_shim::request(1, "tools/call", None, 0) }
    }

    #[test]
    fn a_name_is_read_as_lists_show_it() {
        let parsed = |text: &str| {
            let target = Target::parse(text).unwrap();
            (target.session, target.side, target.id)
        };
        assert_eq!(parsed("17"), (None, None, "17".into()));
        assert_eq!(parsed("4711/17"), (Some("4711".into()), None, "17".into()));
        assert_eq!(parsed("4711-2/server:17"), (Some("4711-2".into()), Some(Side::Server), "17".into()));
        assert_eq!(parsed("4711/\"a/b\""), (Some("4711".into()), None, "\"a/b\"".into()));
        assert_eq!(parsed("\"a/b\""), (None, None, "\"a/b\"".into()));
        assert_eq!(parsed("client:\"server:1\""), (None, Some(Side::Client), "\"server:1\"".into()));
    }

    #[test]
    fn the_name_of_an_entry_may_stand_before_the_slash_whatever_is_in_it() {
        let read = |text: &str, name: &str| {
            let target = Target::parse(text).unwrap();
            assert!(target.may_name_entry() || target.session.is_some(), "{text}");
            let target = target.of_session(name).unwrap();
            (target.side, target.id)
        };
        assert_eq!(read("github/17", "github"), (None, "17".into()));
        assert_eq!(read("my server/server:17", "my server"), (Some(Side::Server), "17".into()));
        assert_eq!(read("@acme/files/\"a/b\"", "@acme/files"), (None, "\"a/b\"".into()));
        assert_eq!(read("cursor:github/req-1", "cursor:github"), (None, "req-1".into()));
        assert!(!Target::parse("\"a/b\"").unwrap().may_name_entry());
        assert!(Target::parse("my server/").is_ok_and(|target| target.of_session("my server").is_none()));
    }

    #[test]
    fn a_malformed_name_is_refused() {
        for (text, problem) in [
            ("", "has no id"),
            ("/17", "has no session"),
            ("/", "has no session"),
            ("4711/", "has no id"),
            ("server:", "has no id"),
            ("4711/client:", "has no id"),
            ("4711/\"a", "the id is not a whole JSON string"),
            ("\"a\"b\"", "the id is not a whole JSON string"),
        ] {
            let error = Target::parse(text).unwrap_err();
            assert!(error.starts_with(problem), "{text:?}: {error}");
        }
    }

    #[test]
    fn every_request_can_be_named_so_that_no_other_fits_as_well() {
        let ids = [(Side::Client, "17"), (Side::Server, "17"), (Side::Client, "\"17\""), (Side::Client, "\"req-1\"")];
        let requests = ids.map(|(from, id)| request(from, id));
        for (place, one) in requests.iter().enumerate() {
            let label = one.label();
            let label = label.strip_prefix("server:").unwrap_or(&label);
            let target = Target::parse(&format!("{}:{label}", one.from.as_str())).unwrap();
            let exact = requests.iter().map(|other| target.fit(other) == Some(Fit::Exact)).collect::<Vec<_>>();
            assert_eq!(exact, std::array::from_fn::<bool, 4, _>(|n| n == place), "{target:?}");
        }
        let loose = Target::parse("17").unwrap();
        let fits = requests.map(|request| loose.fit(&request));
        assert_eq!(fits, [Some(Fit::Exact), Some(Fit::Exact), Some(Fit::Unquoted), None]);
        assert_eq!(Target::parse("4711/17").unwrap().fit(&request(Side::Client, "17")), Some(Fit::Listed));
        assert_eq!(Target::parse("4711/17").unwrap().fit(&request(Side::Server, "17")), Some(Fit::Exact));
    }
}
