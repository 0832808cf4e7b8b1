//! An authorization server's description of itself (RFC 8414; OpenID Connect Discovery).

use http::Uri;

use crate::{Scopes, SignInError, address, document::Document, error::excerpt};

/// How errors name the page.
const PAGE: &str = "page about the authorization server";

/// An authorization server, as far as it was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthorizationServer {
    pub(crate) issuer: String,
    pub(crate) authorization: Uri,
    pub(crate) token: Uri,
    pub(crate) registration: Option<Uri>,
    pub(crate) device: Option<Uri>,
    pub(crate) revocation: Option<Uri>,
    /// How clients may prove who they are; `None` if it names no way.
    pub(crate) authentication: Option<Vec<String>>,
    /// It takes the URL of a document in place of a registered client.
    pub(crate) takes_documents: bool,
    /// Each of its redirects names it (RFC 9207).
    pub(crate) names_itself: bool,
    /// It may give refresh tokens only to clients that ask for [`Scopes::OFFLINE`] (OpenID Connect, 11).
    pub(crate) knows_offline: bool,
}

/// Whether the server has a page about itself as a resource. Servers of 2025-03-26 have none, and are the issuer themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// It has.
    Current,
    /// It has none.
    Of20250326,
}

/// Where the pages of an issuer may be, in the order in which they are asked for.
pub(crate) fn pages(issuer: &Uri) -> Vec<String> {
    let path = issuer.path().trim_end_matches('/');
    let mut pages = vec![
        address::well_known(issuer, "oauth-authorization-server"),
        address::well_known(issuer, "openid-configuration"),
    ];
    if !path.is_empty() {
        pages.push(format!("{}{path}/.well-known/openid-configuration", address::origin(issuer)));
    }
    pages
}

impl AuthorizationServer {
    /// Reads the page of `issuer`, on behalf of `server`.
    pub(crate) fn read(server: &Uri, issuer: &str, era: Era, body: &[u8]) -> Result<Self, SignInError> {
        let refused = |why: String| SignInError::page(PAGE, why);
        let page = Document::read(body).ok_or_else(|| refused("it cannot be read".to_owned()))?;
        let named = page.text("issuer").unwrap_or_default().to_owned();
        if !address::is_issuer(&named, issuer) {
            let named = excerpt(&named);
            return Err(refused(format!("it is about `{named}`, and {issuer} was asked")));
        }
        let proves = match page.texts("code_challenge_methods_supported") {
            Some(methods) => methods.iter().any(|method| method == "S256"),
            None => era == Era::Of20250326,
        };
        if !proves {
            return Err(refused("it does not offer PKCE with S256, without which a code could be stolen".to_owned()));
        }
        let url = |name: &str| {
            let read = page.text(name).map(|text| address::named_by(server, text)).transpose();
            read.map_err(|fault| refused(format!("its {name} {fault}")))
        };
        let needed = |name: &str| url(name)?.ok_or_else(|| refused(format!("it has no {name}")));
        Ok(Self {
            authorization: needed("authorization_endpoint")?,
            token: needed("token_endpoint")?,
            registration: url("registration_endpoint")?,
            device: url("device_authorization_endpoint")?,
            revocation: url("revocation_endpoint")?,
            authentication: page.texts("token_endpoint_auth_methods_supported"),
            takes_documents: page.is("client_id_metadata_document_supported"),
            names_itself: page.is("authorization_response_iss_parameter_supported"),
            knows_offline: page
                .texts("scopes_supported")
                .is_some_and(|known| known.iter().any(|one| one == Scopes::OFFLINE)),
            issuer: named,
        })
    }

    /// What a server of 2025-03-26 is that has no page at all.
    pub(crate) fn assumed(issuer: &Uri) -> Option<Self> {
        let at = |path: &str| format!("{}{path}", address::origin(issuer)).parse::<Uri>().ok();
        Some(Self {
            issuer: address::origin(issuer),
            authorization: at("/authorize")?,
            token: at("/token")?,
            registration: at("/register"),
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ISSUER: &str = "https://as.example/t";

    fn read(era: Era, change: impl FnOnce(&mut Value)) -> Result<AuthorizationServer, String> {
        let mut page = json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://as.example/authorize",
            "token_endpoint": "https://as.example/token",
            "code_challenge_methods_supported": ["plain", "S256"],
        });
        change(&mut page);
        let server = "https://mcp.example".parse().unwrap();
        let read = AuthorizationServer::read(&server, ISSUER, era, page.to_string().as_bytes());
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn the_pages_of_an_issuer_are_asked_for_in_their_order() {
        let of = |issuer: &str| pages(&issuer.parse().unwrap());
        assert_eq!(
            of("https://a/"),
            ["https://a/.well-known/oauth-authorization-server", "https://a/.well-known/openid-configuration",]
        );
        assert_eq!(
            of("https://a/t/1"),
            [
                "https://a/.well-known/oauth-authorization-server/t/1",
                "https://a/.well-known/openid-configuration/t/1",
                "https://a/t/1/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn a_page_about_another_issuer_is_refused() {
        for named in [json!("https://evil.example"), json!("https://as.example"), Value::Null] {
            let refused = read(Era::Current, |page| page["issuer"] = named.clone()).unwrap_err();
            assert!(refused.contains("and https://as.example/t was asked"), "{refused}");
        }
        assert!(read(Era::Current, |_| {}).is_ok());
    }

    #[test]
    fn without_pkce_nobody_signs_in() {
        let methods = |methods: Value| move |page: &mut Value| page["code_challenge_methods_supported"] = methods;
        for era in [Era::Current, Era::Of20250326] {
            assert!(read(era, methods(json!(["plain"]))).unwrap_err().contains("PKCE"));
        }
        assert!(read(Era::Current, methods(Value::Null)).unwrap_err().contains("PKCE"));
        assert!(read(Era::Of20250326, methods(Value::Null)).is_ok());
    }

    #[test]
    fn what_is_not_encrypted_is_refused_and_so_is_what_is_on_this_machine() {
        for (name, url) in [
            ("token_endpoint", "http://as.example/token"),
            ("registration_endpoint", "https://localhost/register"),
            ("revocation_endpoint", "javascript:alert(1)"),
            ("authorization_endpoint", "file:///etc/passwd"),
        ] {
            let refused = read(Era::Current, |page| page[name] = json!(url)).unwrap_err();
            assert!(refused.contains(name), "{refused}");
        }
        let refused = read(Era::Current, |page| page["token_endpoint"] = Value::Null).unwrap_err();
        assert!(refused.contains("it has no token_endpoint"), "{refused}");
    }
}
