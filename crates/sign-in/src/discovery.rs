//! From a server to the one that gives tokens for it.

use http::{StatusCode, Uri};

use crate::{
    Challenge, Http, SignInError, address,
    authorization_server::{self, AuthorizationServer, Era},
    document::Document,
    resource::Resource,
    web::{self, Reply},
};

/// How to sign in at a server.
#[derive(Clone, Debug)]
pub(crate) struct Discovered {
    /// The server's description of itself; `None` for one of 2025-03-26.
    pub(crate) resource: Option<Resource>,
    pub(crate) authorization: AuthorizationServer,
}

/// Finds out how to sign in at `server`, which has answered a request with `challenge`. Of several authorization servers it
/// is `known`, if that is among them, or the first.
pub(crate) async fn discover(
    http: &dyn Http,
    server: &Uri,
    challenge: &Challenge,
    known: Option<&str>,
) -> Result<Discovered, SignInError> {
    let Some(resource) = resource(http, server, challenge).await? else {
        let issuer: Uri = address::origin(server).parse().map_err(|_| SignInError::NoWay)?;
        let text = address::origin(server);
        let found = authorization(http, server, &issuer, &text, Era::Of20250326).await?;
        let authorization = match found {
            Some(found) => found,
            None => AuthorizationServer::assumed(&issuer).ok_or(SignInError::NoWay)?,
        };
        return Ok(Discovered { resource: None, authorization });
    };
    let is_known = |issuer: &&String| known.is_some_and(|known| address::is_issuer(known, issuer));
    let issuer =
        resource.issuers.iter().find(is_known).or_else(|| resource.issuers.first()).ok_or(SignInError::NoWay)?;
    let url = address::named_by(server, issuer)
        .map_err(|fault| SignInError::page("page about the server", format!("its authorization server {fault}")))?;
    let found = authorization(http, server, &url, issuer, Era::Current).await?;
    let authorization = found.ok_or_else(|| {
        SignInError::page("authorization server", format!("{} has no page about itself", address::origin(&url)))
    })?;
    Ok(Discovered { resource: Some(resource), authorization })
}

/// The page of a server about itself: at the address it names, else beside its path, else at its root.
async fn resource(http: &dyn Http, server: &Uri, challenge: &Challenge) -> Result<Option<Resource>, SignInError> {
    if let Some(named) = &challenge.resource_metadata {
        let url = address::named_by(server, named)
            .map_err(|fault| SignInError::page("challenge of the server", format!("its resource_metadata {fault}")))?;
        let reply = web::get(http, &url).await?;
        return match page(&reply) {
            Some(body) => Resource::read(server, body).map(Some),
            None => Err(SignInError::page("page about the server", format!("it is not there ({})", reply.status))),
        };
    }
    let beside = address::well_known(server, "oauth-protected-resource");
    let at_root = format!("{}/.well-known/oauth-protected-resource", address::origin(server));
    let pages = if beside == at_root { vec![at_root] } else { vec![beside, at_root] };
    for url in pages {
        let url: Uri = url.parse().map_err(|_| SignInError::NoWay)?;
        if let Some(body) = page(&web::get(http, &url).await?) {
            return Resource::read(server, body).map(Some);
        }
    }
    Ok(None)
}

/// The page of an issuer, wherever it is; `None` if it has none.
async fn authorization(
    http: &dyn Http,
    server: &Uri,
    url: &Uri,
    issuer: &str,
    era: Era,
) -> Result<Option<AuthorizationServer>, SignInError> {
    for url in authorization_server::pages(url) {
        let url: Uri = url.parse().map_err(|_| SignInError::NoWay)?;
        if let Some(body) = page(&web::get(http, &url).await?) {
            return AuthorizationServer::read(server, issuer, era, body).map(Some);
        }
    }
    Ok(None)
}

/// The body of a page that is there. Servers answer for one that is not with all kinds of statuses, and with pages for
/// people.
fn page(reply: &Reply) -> Option<&[u8]> {
    let is_page = reply.status == StatusCode::OK && Document::read(&reply.body).is_some();
    is_page.then_some(&reply.body)
}
