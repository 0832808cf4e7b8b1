//! What stands in the head of an HTTP request, and to whom it may be sent.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use rescind_proto::{dialect::mcp, frame::Request, json};

use crate::mirror::{NAMED, tools::Tools};

/// The header that names a session.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The header that names a revision.
pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The header that repeats the method (2026-07-28).
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The header that repeats the tool, prompt, resource or task (2026-07-28).
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The header that names the last event that was read.
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// What a POST may be answered with.
pub(crate) const ANY: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
pub(crate) const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Who asks, unless the user has set that.
pub(crate) const AGENT: HeaderValue = HeaderValue::from_static(concat!("rescind/", env!("CARGO_PKG_VERSION")));

/// Whether the transport sets this header itself.
pub(crate) fn is_own(name: &HeaderName) -> bool {
    let own = [
        header::ACCEPT,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::CONTENT_TYPE,
        header::HOST,
        header::TRANSFER_ENCODING,
        SESSION,
        VERSION,
        METHOD,
        NAME,
        LAST_EVENT,
    ];
    own.contains(name) || name.as_str().starts_with("mcp-param-")
}

/// A value that a peer chose, as a header that is not shown; `None` if it cannot be one.
pub(crate) fn secret(value: &[u8]) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Adds the headers that repeat parts of a request (2026-07-28).
pub(crate) fn mirror(request: &Request<'_>, tools: &Tools, headers: &mut HeaderMap) {
    headers.extend(HeaderValue::from_str(&request.method).ok().map(|method| (METHOD, method)));
    let Some(params) = request.params.raw else { return };
    let Some((_, member)) = NAMED.iter().find(|(method, _)| *method == request.method) else { return };
    let Some(name) = json::member(params, member).and_then(json::text) else { return };
    headers.extend(encoded(&name).map(|name| (NAME, name)));
    if request.method != "tools/call" {
        return;
    }
    let arguments = json::member(params, "arguments").unwrap_or_default();
    for param in tools.params(&name) {
        let value = param.value(arguments).and_then(|value| encoded(&value));
        headers.extend(value.map(|value| (param.header.clone(), value)));
    }
}

/// Text as the value of a header: as it is, or in base64 where it could not stand there.
pub(crate) fn encoded(text: &str) -> Option<HeaderValue> {
    let is_ascii = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    let is_padded = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    if is_ascii && !is_padded && !looks_encoded {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::from_str(&format!("=?base64?{}?=", BASE64_STANDARD.encode(text))).ok()
}

/// The revision that the `_meta` of a message names.
pub(crate) fn version_in(meta: &[u8]) -> Option<HeaderValue> {
    let version = json::text(json::member(meta, mcp::VERSION_IN_META)?)?;
    HeaderValue::from_str(&version).ok()
}

/// Scheme, host and port: to whom credentials may be sent.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    is_secure: bool,
    host: Box<str>,
    port: u16,
}

impl Origin {
    pub(crate) fn of(url: &Uri) -> Self {
        let is_secure = url.scheme_str() == Some("https");
        let host = url.host().unwrap_or_default().to_ascii_lowercase().into();
        Self { is_secure, host, port: url.port_u16().unwrap_or(if is_secure { 443 } else { 80 }) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_secure, host, port } = self;
        let scheme = if *is_secure { "https" } else { "http" };
        match (is_secure, port) {
            (true, 443) | (false, 80) => write!(f, "{scheme}://{host}"),
            _ => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a fetch goes. Its path may be a secret, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target(pub(crate) Uri);

impl Target {
    pub(crate) fn origin(&self) -> Origin {
        Origin::of(&self.0)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.origin(), f)
    }
}

/// Where a redirect leads that `base` answered with (RFC 3986, 5.2); `None` if that is not a URL of HTTP.
pub(crate) fn resolve(base: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next().unwrap_or_default().trim();
    let scheme = base.scheme_str()?;
    let authority = base.authority()?.as_str();
    let path = base.path();
    let text = if has_scheme(location) {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{}", without_dots(location))
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{path}{location}")
    } else if location.is_empty() {
        return Some(base.clone());
    } else {
        let folder = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
        format!("{scheme}://{authority}{}", without_dots(&format!("{folder}{location}")))
    };
    let url: Uri = text.parse().ok()?;
    let is_plain = url.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    (is_plain && matches!(url.scheme_str(), Some("http" | "https"))).then_some(url)
}

fn has_scheme(text: &str) -> bool {
    let scheme = text.split(':').next().unwrap_or_default();
    scheme.len() < text.len()
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// A path, and what follows it, without the segments `.` and `..`.
fn without_dots(text: &str) -> String {
    let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    let mut kept: Vec<&str> = Vec::new();
    let mut ends_in_folder = false;
    for segment in path.split('/').skip(1) {
        ends_in_folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    let tail = if ends_in_folder { "/" } else { "" };
    let path = format!("/{}{tail}", kept.join("/"));
    // Nothing but dots: the root.
    format!("{}{query}", if path == "//" { "/" } else { &path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_as_the_revision_shows_it() {
        for (text, value) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("a b\tc", "a b\tc"),
            ("", ""),
            ("\u{7f}", "=?base64?fw==?="),
            ("=?base64?open", "=?base64?open"),
        ] {
            assert_eq!(encoded(text).unwrap(), value, "{text:?}");
        }
    }

    #[test]
    fn a_redirect_leads_where_the_standard_says() {
        let base: Uri = "http://a:8080/b/c/d?q".parse().unwrap();
        for (location, target) in [
            ("https://x/y", "https://x/y"),
            ("//x/y", "http://x/y"),
            ("/y?z", "http://a:8080/y?z"),
            ("g", "http://a:8080/b/c/g"),
            ("./g", "http://a:8080/b/c/g"),
            ("../g", "http://a:8080/b/g"),
            ("../../../g", "http://a:8080/g"),
            ("..", "http://a:8080/b/"),
            ("../..", "http://a:8080/"),
            (".", "http://a:8080/b/c/"),
            ("?y", "http://a:8080/b/c/d?y"),
            ("g?y/../x", "http://a:8080/b/c/g?y/../x"),
            ("g#s", "http://a:8080/b/c/g"),
            ("/mcp/", "http://a:8080/mcp/"),
            ("", "http://a:8080/b/c/d?q"),
        ] {
            assert_eq!(resolve(&base, location).unwrap(), target, "{location:?}");
        }
        for location in ["ftp://x/y", "mailto:a@b", "http://user@x/", "http://", "\u{0}"] {
            assert_eq!(resolve(&base, location), None, "{location:?}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let origin = |url: &str| Origin::of(&url.parse().unwrap());
        assert_eq!(origin("http://A/x"), origin("http://a:80/y"));
        assert_eq!(origin("https://a"), origin("https://a:443"));
        assert_ne!(origin("http://a"), origin("https://a"));
        assert_ne!(origin("http://a"), origin("http://a:81"));
        assert_eq!(origin("https://a:8443/x").to_string(), "https://a:8443");
        assert_eq!(origin("http://[::1]/x").to_string(), "http://[::1]");
    }
}
