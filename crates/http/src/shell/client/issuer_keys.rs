//! The keys of an issuer, found through the page that it has about itself.

use std::{convert::Infallible, fmt, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, Uri, header};
use rescind_proto::json;

use super::{ConnectConfig, Requests};
use crate::{server::KeySet, shell::Pool};

/// The longest page that is read, in bytes.
const MAX_PAGE: usize = 256 << 10;

/// Time for keys, connecting included.
const PATIENCE: Duration = Duration::from_secs(15);

/// Fetches the keys of an issuer for endpoints that judge its tokens ([`Access::Issuer`](crate::server::Access::Issuer)).
#[derive(Clone, Debug)]
pub struct IssuerKeys {
    issuer: Box<str>,
    url: Uri,
    connect: ConnectConfig,
}

/// Why keys could not be fetched.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssuerKeysError {
    /// The issuer is not named by a URL that may be asked.
    #[error("an issuer is asked over https only, unless it is on this machine")]
    NotEncrypted,
    /// A page cannot be fetched.
    #[error("{url}: {why}")]
    Page {
        /// Where it is.
        url: String,
        /// Why.
        why: String,
    },
    /// The issuer has no page about itself.
    #[error("it has no page about itself: neither oauth-authorization-server nor openid-configuration")]
    NoPage,
    /// The page is about another issuer.
    #[error("its page is about `{0}`")]
    Another(String),
    /// No answer came in time.
    #[error("no answer within {PATIENCE:?}")]
    TooSlow,
}

impl IssuerKeys {
    /// Keys of this issuer.
    ///
    /// # Errors
    ///
    /// Its URL is not one that may be asked.
    pub fn new(issuer: &str, connect: ConnectConfig) -> Result<Self, IssuerKeysError> {
        let url: Uri = issuer.parse().map_err(|_| IssuerKeysError::NotEncrypted)?;
        if !may_be_asked(&url) {
            return Err(IssuerKeysError::NotEncrypted);
        }
        Ok(Self { issuer: issuer.into(), url, connect })
    }

    /// Fetches the keys at once, and then whenever one of the endpoints wants them, for all; `report` is called for each time
    /// that failed. Call it on a tokio runtime.
    pub async fn serve(self, pool: impl Into<Pool>, mut report: impl FnMut(&IssuerKeysError)) -> Infallible {
        let pool = pool.into();
        loop {
            let fetched = tokio::time::timeout(PATIENCE, self.fetch()).await.unwrap_or(Err(IssuerKeysError::TooSlow));
            pool.supply_keys(fetched.inspect_err(&mut report).ok().as_ref());
            pool.wanted_keys().await;
        }
    }

    /// Fetches the keys once.
    ///
    /// # Errors
    ///
    /// The issuer cannot be reached, or its pages are not what they should be.
    pub async fn fetch(&self) -> Result<KeySet, IssuerKeysError> {
        let keys = self.keys_url().await?;
        let page = self.get(&keys).await?;
        let document = page.ok_or_else(|| broken(&keys, &"it is not there"))?;
        KeySet::read(&document).map_err(|error| broken(&keys, &error))
    }

    /// Where the issuer has its keys, by its own words.
    async fn keys_url(&self) -> Result<Uri, IssuerKeysError> {
        for url in self.pages() {
            let Some(page) = self.get(&url).await? else { continue };
            let text = |name| json::member(&page, name).and_then(json::text);
            let Some(named) = text("issuer") else { continue };
            if named != *self.issuer {
                return Err(IssuerKeysError::Another(named.chars().take(200).collect()));
            }
            let keys = text("jwks_uri").ok_or_else(|| broken(&url, &"it has no jwks_uri"))?;
            let keys: Uri = keys.parse().map_err(|_| broken(&url, &"its jwks_uri is not a URL"))?;
            // One on this machine is for an issuer on this machine.
            let is_asked = keys.scheme_str() == Some("https") || may_be_asked(&keys) && !is_secure(&self.url);
            return if is_asked { Ok(keys) } else { Err(broken(&url, &"its jwks_uri is not one of https")) };
        }
        Err(IssuerKeysError::NoPage)
    }

    /// Where the page may be, in the order in which it is looked for (RFC 8414, 3.1 and 5).
    fn pages(&self) -> Vec<Uri> {
        let path = self.url.path().trim_end_matches('/');
        let mut paths = vec![
            format!("/.well-known/oauth-authorization-server{path}"),
            format!("/.well-known/openid-configuration{path}"),
        ];
        if !path.is_empty() {
            paths.push(format!("{path}/.well-known/openid-configuration"));
        }
        let at = |path: String| {
            let mut parts = self.url.clone().into_parts();
            parts.path_and_query = Some(path.parse().ok()?);
            Uri::from_parts(parts).ok()
        };
        paths.into_iter().filter_map(at).collect()
    }

    /// A page; `None` if there is none. Redirects are not followed: the issuer is who was named.
    async fn get(&self, url: &Uri) -> Result<Option<Bytes>, IssuerKeysError> {
        let requests = Requests::new(url, self.connect.clone()).map_err(|error| broken(url, &error))?;
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = url.clone();
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let response = requests.send(request, MAX_PAGE).await.map_err(|error| broken(url, &error))?;
        match response.status() {
            StatusCode::OK => Ok(Some(response.into_body())),
            status if status.is_client_error() => Ok(None),
            status => Err(broken(url, &format_args!("it answered {status}"))),
        }
    }
}

fn broken(url: &Uri, why: &dyn fmt::Display) -> IssuerKeysError {
    IssuerKeysError::Page { url: url.to_string(), why: why.to_string() }
}

fn is_secure(url: &Uri) -> bool {
    url.scheme_str() == Some("https")
}

/// Whether a URL is asked: over TLS, or on this machine.
fn may_be_asked(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_secure(url) || url.scheme_str() == Some("http") && is_here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_an_issuer_are_looked_for_in_their_order() {
        for (issuer, pages) in [
            (
                "https://a",
                &["https://a/.well-known/oauth-authorization-server", "https://a/.well-known/openid-configuration"][..],
            ),
            (
                "https://a/t/1/",
                &[
                    "https://a/.well-known/oauth-authorization-server/t/1",
                    "https://a/.well-known/openid-configuration/t/1",
                    "https://a/t/1/.well-known/openid-configuration",
                ],
            ),
        ] {
            let keys = IssuerKeys::new(issuer, ConnectConfig::default()).unwrap();
            let found: Vec<String> = keys.pages().iter().map(Uri::to_string).collect();
            assert_eq!(found, pages);
        }
    }

    #[test]
    fn an_issuer_elsewhere_is_asked_over_https_only() {
        for (issuer, is_asked) in [
            ("https://a", true),
            ("http://127.0.0.1:9/x", true),
            ("http://[::1]:9", true),
            ("http://localhost:9", true),
            ("http://a", false),
            ("http://localhost.example", false),
            ("ftp://a", false),
            ("/a", false),
        ] {
            assert_eq!(IssuerKeys::new(issuer, ConnectConfig::default()).is_ok(), is_asked, "{issuer}");
        }
    }
}
