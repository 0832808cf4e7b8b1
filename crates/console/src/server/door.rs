//! Who may come in.
//!
//! The attackers are pages of other sites in the user's browser, and other users of the machine. A page of another
//! site can send requests here, but not read the answers, and cannot know the key; the checks of `Host` (rebinding),
//! `Origin` and `Sec-Fetch-Site` turn it away before that matters. Another user can connect, and knows no key.

use std::sync::Mutex;

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{AUTHORIZATION, HOST, HeaderName, ORIGIN},
};

use crate::Key;

/// Why somebody is turned away: a status and words that hold nothing of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) words: &'static str,
}

/// What is asked for, by whoever may.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish<'a> {
    /// The first use of the link: go to the page.
    Launch,
    /// A path below the key, without the slash before it.
    Inside(&'a str),
}

/// The keeper of the key and of the link's token.
#[derive(Debug)]
pub(super) struct Door {
    port: u16,
    key: Key,
    /// Until it is spent.
    token: Mutex<Option<Key>>,
}

const ELSEWHERE: Refusal = Refusal {
    status: StatusCode::MISDIRECTED_REQUEST,
    words: "This is the console of rescind, at 127.0.0.1 only: use the address that it printed.\n",
};

const CROSS_SITE: Refusal = Refusal {
    status: StatusCode::FORBIDDEN,
    words: "Another page led here. Copy the link that `rescind console` printed into the address bar.\n",
};

const CLOSED: Refusal = Refusal {
    status: StatusCode::FORBIDDEN,
    words: "This is the console of rescind. Its link opens it once: run `rescind console` for a new one, or copy the \
            address of a page that is already open.\n",
};

const SPENT: Refusal = Refusal {
    status: StatusCode::FORBIDDEN,
    words: "This link has been used. If it was not you who used it, stop `rescind console` now. Run it again for a \
            new link, or copy the address of a page that is already open.\n",
};

const AHEAD: Refusal = Refusal { status: StatusCode::FORBIDDEN, words: "Not ahead of time.\n" };

impl Door {
    pub(super) const fn new(port: u16, key: Key, token: Key) -> Self {
        Self { port, key, token: Mutex::new(Some(token)) }
    }

    /// The link that opens the page, once; empty where it has been used.
    pub(super) fn link(&self) -> String {
        let token = self.token.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let link = |token: &Key| format!("http://127.0.0.1:{}/?token={}", self.port, token.reveal());
        token.as_ref().map(link).unwrap_or_default()
    }

    /// Where the page is.
    pub(super) fn inside(&self) -> String {
        format!("/{}/", self.key.reveal())
    }

    /// Whether a request may come in, and to what.
    pub(super) fn admit<'a>(
        &self,
        method: &Method,
        path: &'a str,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Wish<'a>, Refusal> {
        self.check_origin(headers)?;
        let first = path.strip_prefix('/').unwrap_or(path);
        if let Some((key, inside)) = first.split_once('/')
            && self.key.is(key)
        {
            return Ok(Wish::Inside(inside));
        }
        if path == "/metrics" && bearer(headers).is_some_and(|given| self.key.is(given)) {
            return Ok(Wish::Inside("metrics"));
        }
        match query.and_then(|query| query.strip_prefix("token=")) {
            Some(given) if path == "/" && method == Method::GET => self.spend(given, headers),
            _ => Err(CLOSED),
        }
    }

    /// A page of another site, or of a name that was made to mean 127.0.0.1, is turned away.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = only(headers, HOST).map_err(|()| ELSEWHERE)?.ok_or(ELSEWHERE)?;
        let name = host.strip_suffix(&format!(":{}", self.port)).ok_or(ELSEWHERE)?;
        if !matches!(name, "127.0.0.1" | "localhost") {
            return Err(ELSEWHERE);
        }
        let origin = only(headers, ORIGIN).map_err(|()| CROSS_SITE)?;
        if origin.is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
            return Err(CROSS_SITE);
        }
        match only(headers, HeaderName::from_static("sec-fetch-site")) {
            // A person's own doing has `none`, and a browser may not say.
            Ok(None | Some("none" | "same-origin")) => Ok(()),
            Ok(Some(_)) | Err(()) => Err(CROSS_SITE),
        }
    }

    /// The token counts once. A browser that looks ahead of its user does not spend it.
    fn spend(&self, given: &str, headers: &HeaderMap) -> Result<Wish<'static>, Refusal> {
        if ["sec-purpose", "purpose"].iter().any(|name| headers.contains_key(*name)) {
            return Err(AHEAD);
        }
        let mut token = self.token.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*token {
            Some(right) if right.is(given) => {
                *token = None;
                Ok(Wish::Launch)
            }
            Some(_) => Err(CLOSED),
            None => Err(SPENT),
        }
    }
}

/// The value of a header; an error where it is there twice or is no text.
fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}
