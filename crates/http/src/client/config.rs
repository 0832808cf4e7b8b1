//! The settings of an HTTP client; every bound has a default (invariant 8).

use core::hash::BuildHasher;
use std::{fmt, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use foldhash::fast::FixedState;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header, uri::Authority};
use percent_encoding::percent_decode_str;

use super::headers;

/// Settings of an [`HttpClient`](super::HttpClient).
#[derive(Clone)]
pub struct HttpClientConfig {
    pub(crate) url: Uri,
    /// Headers of every request to the origin of `url`.
    pub(crate) headers: HeaderMap,
    /// The longest message from the server, in bytes.
    pub max_message: usize,
    /// Requests in flight; one more is refused.
    pub max_in_flight: usize,
    /// HTTP requests at once whose responses carry messages; what is beyond waits. On HTTP/1.1 each has a connection of
    /// its own. Cancels, answers and notifications do not wait for these.
    pub max_fetches: usize,
    /// Answers to questions of the server, and notifications, that are being sent at once; what is beyond waits. Cancels do
    /// not wait for these either.
    pub max_posts: usize,
    /// Cancels that are being sent at once; what is beyond waits. While as many as [`max_in_flight`](Self::max_in_flight)
    /// are not taken by the server, requests are refused: so no cancel is ever dropped, and they are bounded.
    pub max_cancels: usize,
    /// Questions of the server that were not taken here, and answers that the server has not taken, together. Beyond,
    /// streams of events should not be read ([`may_read`](super::HttpClient::may_read)): a server that asks without end, and
    /// takes no answer, delays its own messages, and neither requests nor cancels.
    pub max_owed: usize,
    /// Bytes of messages that the server has not taken yet. Beyond, requests are refused. Of answers to its questions there
    /// may be as many more: from half of that on, streams of events should not be read, and beyond, answers are dropped.
    pub max_unsent: usize,
    /// Bytes of messages that wait to be taken ([`poll_message`](super::HttpClient::poll_message)). Beyond, responses should
    /// not be read ([`may_read`](super::HttpClient::may_read)).
    pub max_unread: usize,
    /// Redirects of one HTTP request that are followed.
    pub max_redirects: u32,
    /// Tools remembered that want arguments in headers; beyond, the oldest is forgotten.
    pub max_tools: usize,
    /// Pages of the list of tools that are asked for to find the headers of a call that was refused.
    pub max_pages: u32,
    /// Bytes that are read of a response that refuses a request.
    pub max_refusal: usize,
    /// How often in a row a stream is asked for again in vain before its requests are given up.
    pub max_attempts: u32,
    /// The same where the last attempt did not even reach the server: it has probably ended, and does not come back with
    /// what it had.
    pub max_unreached: u32,
    /// The shortest wait before a stream is asked for again, where the server names none. It doubles with each attempt that
    /// brings nothing.
    pub retry_first: Duration,
    /// The longest wait that doubling leads to. The server's own word counts for more.
    pub retry_most: Duration,
    /// The least time between a request in a session and its cancel, unless the response has begun: they travel on
    /// connections of their own, and to most servers a cancel that overtakes its request names none.
    pub cancel_after: Duration,
    /// How long the stream of a cancelled request in a session stays open for the server to take the cancel.
    pub cancel_patience: Duration,
    /// How long a stream may stay open after its last answer, or after the server took the cancel of its last request.
    pub end_within: Duration,
    /// How often a cancel that did not reach the server is sent again.
    pub cancel_retries: u32,
    /// How long the server may take to accept a notification, an answer or the end of the session, and for the text of a
    /// refusal.
    pub accept_within: Duration,
    /// How long messages wait for the server to accept the end of the handshake.
    pub greet_within: Duration,
    /// How long the server may take to show that it speaks the transport of 2024-11-05 only.
    pub probe_within: Duration,
    /// Whether an answer that came with a status of 429 or 500 and above gets a last member that notes it, `rescind/http`, for
    /// a gateway's [`HttpServer`](crate::server::HttpServer), which takes it off again. Off by default: other clients do not
    /// know it.
    pub notes_status: bool,
    /// Seeds the hash of ids, so that a peer cannot choose ids that collide, and spreads the attempts of many clients.
    /// With 0, the default, each [`HttpTransport`](crate::shell::client::HttpTransport) draws one from the system; a test may pin
    /// another.
    pub seed: u64,
}

/// Why a client cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpConfigError {
    /// The text is not a URL.
    #[error("not a URL")]
    NotUrl,
    /// The URL is of another kind.
    #[error("the URL does not begin with http:// or https://")]
    Scheme,
    /// The header is not written as `Name: value`.
    #[error("not a header: write it as `Name: value`")]
    NotHeader,
    /// The header is one that the transport sets itself.
    #[error("the header {0} is set by the transport itself")]
    OwnHeader(HeaderName),
}

impl HttpClientConfig {
    /// Settings for the server at this URL. A user and password in it are sent as the header `Authorization`.
    ///
    /// # Errors
    ///
    /// If it is not a URL with `http` or `https`.
    pub fn new(url: &str) -> Result<Self, HttpConfigError> {
        let url: Uri = url.trim().parse().map_err(|_| HttpConfigError::NotUrl)?;
        if !matches!(url.scheme_str(), Some("http" | "https")) {
            return Err(if url.scheme().is_some() { HttpConfigError::Scheme } else { HttpConfigError::NotUrl });
        }
        let mut headers = HeaderMap::new();
        let (url, authorization) = without_user(url)?;
        headers.extend(authorization.map(|value| (header::AUTHORIZATION, value)));
        Ok(Self {
            url,
            headers,
            max_message: 64 << 20,
            max_in_flight: 65_536,
            max_fetches: 512,
            max_posts: 64,
            max_cancels: 64,
            max_owed: 1024,
            max_unsent: 16 << 20,
            max_unread: 16 << 20,
            max_redirects: 5,
            max_tools: 4096,
            max_pages: 64,
            max_refusal: 64 << 10,
            max_attempts: 10,
            max_unreached: 4,
            retry_first: Duration::from_millis(500),
            retry_most: Duration::from_secs(30),
            cancel_after: Duration::from_millis(100),
            cancel_patience: Duration::from_secs(5),
            end_within: Duration::from_secs(1),
            cancel_retries: 3,
            accept_within: Duration::from_secs(30),
            greet_within: Duration::from_secs(10),
            probe_within: Duration::from_secs(5),
            notes_status: false,
            seed: 0,
        })
    }

    /// Adds a header, as `Name: value`, to every request; a second one of the same name replaces the first. It is never
    /// shown, and never sent to another origin.
    ///
    /// # Errors
    ///
    /// If it is not a header, or one that the transport sets itself.
    pub fn header(mut self, line: &str) -> Result<Self, HttpConfigError> {
        let (name, value) = line.split_once(':').ok_or(HttpConfigError::NotHeader)?;
        let name: HeaderName = name.trim().parse().map_err(|_| HttpConfigError::NotHeader)?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| HttpConfigError::NotHeader)?;
        if headers::is_own(&name) {
            return Err(HttpConfigError::OwnHeader(name));
        }
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Whether they show who asks, so that no other credentials are sent.
    #[must_use]
    pub fn has_authorization(&self) -> bool {
        self.headers.contains_key(header::AUTHORIZATION)
    }

    /// How long to wait before the next attempt: as long as the server says, and longer the more attempts were in vain.
    pub(crate) fn delay(&self, attempts: u32, retry: Option<Duration>, salt: u64) -> Duration {
        if let Some(retry) = retry.filter(|_| attempts == 0) {
            return retry;
        }
        let doubled = self.retry_first.saturating_mul(1_u32.checked_shl(attempts).unwrap_or(u32::MAX));
        let delay = doubled.min(self.retry_most).max(retry.unwrap_or_default());
        // Clients that lost the same server should not come back at once.
        let spread = FixedState::with_seed(self.seed).hash_one((salt, attempts)) % 256;
        delay + delay / 1024 * u32::try_from(spread).unwrap_or_default()
    }

    /// The URL, without the user that it may have named.
    #[must_use]
    pub const fn url(&self) -> &Uri {
        &self.url
    }
}

impl fmt::Debug for HttpClientConfig {
    /// Shows neither the path of the URL nor the values of headers: either may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("HttpClientConfig")
            .field("origin", &headers::Origin::of(&self.url))
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// The URL without its user, who becomes a header.
fn without_user(url: Uri) -> Result<(Uri, Option<HeaderValue>), HttpConfigError> {
    let Some((user, host)) = url.authority().and_then(|authority| authority.as_str().rsplit_once('@')) else {
        return Ok((url, None));
    };
    let user: Vec<u8> = percent_decode_str(user).collect();
    let mut value = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(user)))
        .map_err(|_| HttpConfigError::NotUrl)?;
    value.set_sensitive(true);
    let authority: Authority = host.parse().map_err(|_| HttpConfigError::NotUrl)?;
    let mut parts = url.into_parts();
    parts.authority = Some(authority);
    Ok((Uri::from_parts(parts).map_err(|_| HttpConfigError::NotUrl)?, Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_in_the_url_becomes_a_header() {
        let config = HttpClientConfig::new("https://Aladdin:open%20sesame@example.com:8443/mcp?x=1").unwrap();
        assert_eq!(config.url(), "https://example.com:8443/mcp?x=1");
        assert_eq!(config.headers["authorization"], format!("Basic {}", BASE64_STANDARD.encode("Aladdin:open sesame")));
    }

    #[test]
    fn what_is_no_url_of_http_is_refused() {
        assert_eq!(HttpClientConfig::new("not a url").unwrap_err(), HttpConfigError::NotUrl);
        assert_eq!(HttpClientConfig::new("/mcp").unwrap_err(), HttpConfigError::NotUrl);
        assert_eq!(HttpClientConfig::new("example.com/mcp").unwrap_err(), HttpConfigError::NotUrl);
        assert_eq!(HttpClientConfig::new("ws://example.com/mcp").unwrap_err(), HttpConfigError::Scheme);
    }

    #[test]
    fn nothing_secret_is_shown() {
        let config = HttpClientConfig::new("https://user:hidden@example.com/hidden?hidden").unwrap();
        let config = config.header("X-Api-Key: hidden").unwrap();
        let shown = format!("{config:?} {:?}", config.headers);
        assert!(shown.contains("example.com") && shown.contains("x-api-key"), "{shown}");
        assert!(!shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn headers_of_the_transport_are_its_own() {
        let config = || HttpClientConfig::new("http://localhost/mcp").unwrap();
        for own in ["Mcp-Session-Id: 1", "accept: */*", "Content-Length: 5", "host: x"] {
            assert!(matches!(config().header(own), Err(HttpConfigError::OwnHeader(_))), "{own}");
        }
        for bad in ["no colon", ": x", "a b: c", "a: b\r\nc: d"] {
            assert_eq!(config().header(bad).unwrap_err(), HttpConfigError::NotHeader, "{bad}");
        }
        let twice = config().header("X: 1").unwrap().header("x:2").unwrap();
        assert_eq!(twice.headers.get_all("x").iter().collect::<Vec<_>>(), ["2"]);
    }
}
