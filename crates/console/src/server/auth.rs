//! Which requests are allowed.
//!
//! The attackers are pages of other sites in the user's browser, and other users of the machine. A page of another site
//! can send requests here, but it cannot read the answers and does not know the key. The checks of `Host` (against DNS
//! rebinding), `Origin` and `Sec-Fetch-Site` reject it first. Another user can connect, but does not know the key.

use std::sync::Mutex;

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{AUTHORIZATION, HOST, HeaderName, ORIGIN},
};

use crate::AccessKey;

/// Why a request is denied: a status, and text that holds nothing from the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Denied {
    pub(super) status: StatusCode,
    pub(super) words: &'static str,
}

/// What an allowed request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// The first use of the link: redirect to the page.
    Launch,
    /// A path below the key, without its first slash.
    Inside(&'a str),
}

/// The key, and the token of the link.
#[derive(Debug)]
pub(super) struct Auth {
    port: u16,
    key: AccessKey,
    /// `None` once it is used.
    token: Mutex<Option<AccessKey>>,
}

const ELSEWHERE: Denied = Denied {
    status: StatusCode::MISDIRECTED_REQUEST,
    words: "The console of rescind answers at 127.0.0.1 only. Use the address that it printed.\n",
};

const CROSS_SITE: Denied = Denied {
    status: StatusCode::FORBIDDEN,
    words: "This request came from another site. Copy the link that `rescind console` printed into the address bar.\n",
};

const CLOSED: Denied = Denied {
    status: StatusCode::FORBIDDEN,
    words: "This is the console of rescind. Its link works once. Run `rescind console` for a new link, or copy the \
            address of a page that is already open.\n",
};

const SPENT: Denied = Denied {
    status: StatusCode::FORBIDDEN,
    words: "This link has been used. If you did not use it, stop `rescind console` now. Run it again for a new link, or \
            copy the address of a page that is already open.\n",
};

const AHEAD: Denied = Denied { status: StatusCode::FORBIDDEN, words: "Prefetching is not allowed.\n" };

impl Auth {
    pub(super) const fn new(port: u16, key: AccessKey, token: AccessKey) -> Self {
        Self { port, key, token: Mutex::new(Some(token)) }
    }

    /// The link that opens the page once; empty after it was used.
    pub(super) fn link(&self) -> String {
        let token = self.token.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let link = |token: &AccessKey| format!("http://127.0.0.1:{}/?token={}", self.port, token.reveal());
        token.as_ref().map(link).unwrap_or_default()
    }

    /// The path of the page.
    pub(super) fn inside(&self) -> String {
        format!("/{}/", self.key.reveal())
    }

    /// Checks a request and returns what it asks for.
    pub(super) fn authorize<'a>(
        &self,
        method: &Method,
        path: &'a str,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Route<'a>, Denied> {
        self.check_origin(headers)?;
        let first = path.strip_prefix('/').unwrap_or(path);
        if let Some((key, inside)) = first.split_once('/')
            && self.key.is(key)
        {
            return Ok(Route::Inside(inside));
        }
        if path == "/metrics" && bearer(headers).is_some_and(|given| self.key.is(given)) {
            return Ok(Route::Inside("metrics"));
        }
        match query.and_then(|query| query.strip_prefix("token=")) {
            Some(given) if path == "/" && method == Method::GET => self.spend(given, headers),
            _ => Err(CLOSED),
        }
    }

    /// Denies requests from pages of other sites, and to other names of 127.0.0.1.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Denied> {
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
            // A typed address has `none`, and some browsers send no header.
            Ok(None | Some("none" | "same-origin")) => Ok(()),
            Ok(Some(_)) | Err(()) => Err(CROSS_SITE),
        }
    }

    /// Accepts the token once. A prefetch does not use it up.
    fn spend(&self, given: &str, headers: &HeaderMap) -> Result<Route<'static>, Denied> {
        if ["sec-purpose", "purpose"].iter().any(|name| headers.contains_key(*name)) {
            return Err(AHEAD);
        }
        let mut token = self.token.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*token {
            Some(right) if right.is(given) => {
                *token = None;
                Ok(Route::Launch)
            }
            Some(_) => Err(CLOSED),
            None => Err(SPENT),
        }
    }
}

/// The value of a header; an error if there are two, or it is not text.
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
