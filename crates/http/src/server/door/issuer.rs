//! An issuer whose signed tokens are taken: what a token must claim, and what is answered to clients without one.
//!
//! Tokens are judged by a pure function of the token, the keys and the time of day (`jwt`), none of which the machine
//! fetches. A key settles its algorithm, so a token cannot choose another for it. A claim that stands twice is refused
//! (`strict`). A request whose key may still come is kept as it came, and taken in once more when keys do (`entrance`): so
//! there is one way in. `ring` verifies, as rustls does; `jsonwebtoken` would bring a big-number and an ASN.1 library for
//! forty lines here.

pub(crate) mod jwt;
pub(crate) mod key_set;
pub(crate) mod keyring;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, Uri, header};
use rescind_proto::{error_code, json};

use self::{
    jwt::{Expected, Jwt, TokenFault},
    keyring::Keyring,
};
use super::{owner::Owner, refusal::Refusal};

/// The place of the page that names the issuer of tokens (RFC 9728).
const PAGE: &str = "/.well-known/oauth-protected-resource";

/// Signed tokens (JWT, RFC 9068) of one issuer: RS256, ES256 and EdDSA, by keys that its driver fetches
/// ([`KeysWanted`](crate::server::HttpServerEvent::KeysWanted)).
///
/// A token must be of this issuer and for this audience, not be expired, and name its subject, who is the owner. The
/// subject is needed: the name of a client in its place could be that of a person.
#[derive(Clone, Debug)]
pub struct Issuer {
    issuer: Box<str>,
    audience: Box<str>,
    /// The path of the audience.
    path: Box<str>,
    scopes: Vec<Box<str>>,
    page: Bytes,
    /// What each challenge has beside its error.
    hint: Box<str>,
}

/// Why an issuer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IssuerError {
    /// It is not named by a URL.
    #[error("the issuer is not the URL of a server")]
    Issuer,
    /// The audience is not a URL, or has a query or a fragment.
    #[error("the audience is not the URL of a server, without query and fragment")]
    Audience,
    /// A scope is empty or has characters that no scope has.
    #[error("a scope is one word of visible ASCII without quotes and backslashes")]
    Scope,
}

impl Issuer {
    /// Tokens of `issuer` for `audience`, the URL by which clients know this server. Each token must have all of `scopes`,
    /// if there are any.
    ///
    /// # Errors
    ///
    /// One of them is not what it should be.
    pub fn new(issuer: &str, audience: &str, scopes: &[impl AsRef<str>]) -> Result<Self, IssuerError> {
        url(issuer).ok_or(IssuerError::Issuer)?;
        let resource = url(audience).ok_or(IssuerError::Audience)?;
        let scopes: Vec<Box<str>> = scopes.iter().map(|scope| scope.as_ref().into()).collect();
        let is_scope = |scope: &&str| !scope.is_empty() && scope.bytes().all(is_plain);
        if !scopes.iter().all(|scope| is_scope(&&**scope)) {
            return Err(IssuerError::Scope);
        }
        let path = resource.path().trim_end_matches('/');
        let origin = audience.split('/').take(3).collect::<Vec<_>>().join("/");
        let mut hint = format!(r#"resource_metadata="{origin}{PAGE}{path}""#);
        if !scopes.is_empty() {
            hint.push_str(&format!(r#", scope="{}""#, scopes.join(" ")));
        }
        let page = page(issuer, audience, &scopes);
        let (issuer, audience, path, hint) = (issuer.into(), audience.into(), path.into(), hint.into());
        Ok(Self { issuer, audience, path, scopes, page, hint })
    }

    /// Whether this is the path of the page that names the issuer of tokens, for a server whose endpoint is at `endpoint`.
    pub(crate) fn is_page(&self, path: &str, endpoint: Option<&str>) -> bool {
        let is_of = |end: &str| end == &*self.path || Some(end) == endpoint;
        path.strip_prefix(PAGE).is_some_and(|end| end.is_empty() || end == "/" || is_of(end))
    }

    /// The page: JSON.
    pub(crate) const fn page(&self) -> &Bytes {
        &self.page
    }

    /// Establishes whose token this is.
    pub(crate) fn judge(&self, keyring: &Keyring, token: &[u8]) -> Result<Owner, Refusal> {
        let invalid = |fault: TokenFault| {
            self.refusal(StatusCode::UNAUTHORIZED, Some("invalid_token"), &format!("the token {fault}"))
        };
        let jwt = Jwt::read(token).map_err(invalid)?;
        let Some(keys) = &keyring.keys else {
            return Err(Refusal::unavailable(RETRY_AFTER, "the keys of the issuer are not known yet"));
        };
        let expected = Expected { issuer: &self.issuer, audience: &self.audience };
        let claims = jwt.verified(keys).map_err(invalid)?;
        let owner = claims.owner(&expected, keyring.time_of_day).map_err(invalid)?;
        if !claims.has_scopes(&self.scopes).map_err(invalid)? {
            let text = "the token has not the scope that is needed here";
            return Err(self.refusal(StatusCode::FORBIDDEN, Some("insufficient_scope"), text));
        }
        Ok(owner)
    }

    /// Refuses a request without a token.
    pub(crate) fn wanted(&self) -> Refusal {
        self.refusal(StatusCode::UNAUTHORIZED, None, "a bearer token is needed")
    }

    fn refusal(&self, status: StatusCode, error: Option<&str>, text: &str) -> Refusal {
        let error = error.map_or_else(String::new, |error| format!(r#"error="{error}", "#));
        let challenge = HeaderValue::try_from(format!("Bearer {error}{}", self.hint));
        let challenge = challenge.unwrap_or(HeaderValue::from_static("Bearer"));
        Refusal::new(status, error_code::INVALID_REQUEST, text).with_header(header::WWW_AUTHENTICATE, challenge)
    }
}

/// When a client may come again who came before the keys, in seconds.
const RETRY_AFTER: u64 = 5;

/// A URL with a host, without query and fragment, in characters that may stand in quotes.
fn url(text: &str) -> Option<Uri> {
    let url: Uri = text.parse().ok()?;
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let is_of_server = matches!(url.scheme_str(), Some("http" | "https"))
        && url.host().is_some_and(|host| !host.is_empty())
        && !authority.contains('@');
    (is_of_server && text.bytes().all(|byte| is_plain(byte) && byte != b'#' && byte != b'?')).then_some(url)
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'"' && byte != b'\\'
}

fn page(issuer: &str, audience: &str, scopes: &[Box<str>]) -> Bytes {
    let mut out = br#"{"resource":"#.to_vec();
    json::write_string(&mut out, audience);
    out.extend_from_slice(br#","authorization_servers":["#);
    json::write_string(&mut out, issuer);
    out.extend_from_slice(br#"],"bearer_methods_supported":["header"]"#);
    for (at, scope) in scopes.iter().enumerate() {
        out.extend_from_slice(if at == 0 { br#","scopes_supported":["# } else { b"," });
        json::write_string(&mut out, scope);
    }
    out.extend_from_slice(if scopes.is_empty() { b"}" } else { b"]}" });
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_found_at_the_root_and_beside_the_endpoint() {
        let issuer = Issuer::new("https://as.example", "https://mcp.example/v1/mcp/", &["a", "b"]).unwrap();
        for (path, is_page) in [
            ("/.well-known/oauth-protected-resource", true),
            ("/.well-known/oauth-protected-resource/v1/mcp", true),
            ("/.well-known/oauth-protected-resource/mcp", true),
            ("/.well-known/oauth-protected-resource/other", false),
            ("/.well-known/oauth-protected-resourceful", false),
            ("/.well-known/openid-configuration", false),
        ] {
            assert_eq!(issuer.is_page(path, Some("/mcp")), is_page, "{path}");
        }
        let hint =
            r#"resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/v1/mcp", scope="a b""#;
        assert_eq!(&*issuer.hint, hint);
        let page = concat!(
            r#"{"resource":"https://mcp.example/v1/mcp/","authorization_servers":["https://as.example"],"#,
            r#""bearer_methods_supported":["header"],"scopes_supported":["a","b"]}"#
        );
        assert_eq!(issuer.page(), page);
    }

    #[test]
    fn what_could_leave_its_quotes_is_refused() {
        let good = "https://a.example/x";
        let none: [&str; 0] = [];
        for (issuer, audience, scopes, error) in [
            ("a.example", good, &none[..], IssuerError::Issuer),
            ("/a", good, &none, IssuerError::Issuer),
            (good, "api://x", &none, IssuerError::Audience),
            (good, "https://a.example/#x", &none, IssuerError::Audience),
            (good, "https://a.example?x=/y", &none, IssuerError::Audience),
            (good, "https://a:b@a.example/", &none, IssuerError::Audience),
            (good, "https://a.example/\"x", &none, IssuerError::Audience),
            (good, "", &none, IssuerError::Audience),
            (good, good, &["a b"], IssuerError::Scope),
            (good, good, &["a\"b"], IssuerError::Scope),
            (good, good, &[""], IssuerError::Scope),
        ] {
            assert_eq!(Issuer::new(issuer, audience, scopes).unwrap_err(), error, "{issuer} {audience} {scopes:?}");
        }
    }
}
