//! Pages of a server by which clients find out how to sign in there.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, Uri, header, uri::PathAndQuery};
use http_body_util::BodyExt;
use tokio::task::JoinSet;

use super::{
    connect::{self, ConnectConfig, ConnectError, Sender},
    request_body::RequestBody,
};
use crate::{
    client::{HttpClientConfig, Lane, headers},
    server::MAX_PAGE,
    shell::Endpoint,
};

/// Time for a page, connecting included.
const PATIENCE: Duration = Duration::from_secs(15);

/// Fetches such pages for the clients of an [`Endpoint`] in front of a server.
///
/// They get none of the headers that the settings of the server have.
#[derive(Clone, Debug)]
pub struct Discovery {
    sender: Sender,
    server: Uri,
    /// The path by which clients know the server.
    path: Box<str>,
}

impl Discovery {
    /// Pages of this server, which clients know under `path`.
    ///
    /// # Errors
    ///
    /// TLS cannot be set up.
    pub fn new(server: &HttpClientConfig, connect: ConnectConfig, path: &str) -> Result<Self, ConnectError> {
        let url = server.url();
        Ok(Self { sender: Sender::new(url, connect)?, server: url.clone(), path: path.into() })
    }

    /// Gives the pages that clients of this endpoint want. Call it on a tokio runtime.
    pub async fn serve(self, endpoint: Endpoint) -> Infallible {
        let discovery = Arc::new(self);
        let mut fetches = JoinSet::new();
        loop {
            while fetches.try_join_next().is_some() {}
            let wanted = endpoint.wanted_page().await;
            let discovery = Arc::clone(&discovery);
            fetches.spawn(async move {
                let fetched = tokio::time::timeout(PATIENCE, discovery.fetch(&wanted.path)).await;
                match fetched.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
                    Ok(page) => wanted.answer(Ok(page)),
                    Err(why) => wanted.answer(Err(&why)),
                }
            });
        }
    }

    async fn fetch(&self, path: &str) -> Result<Response<Bytes>, String> {
        let url = self.url(path).ok_or("its path cannot be one of the server")?;
        let mut request = Request::new(RequestBody::none());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = url.clone();
        request.headers_mut().insert(header::USER_AGENT, headers::AGENT);
        request.headers_mut().insert(header::ACCEPT, headers::JSON);
        let response = self.sender.send(request, Lane::Passing).await.map_err(|error| connect::words(&error))?;
        let (mut head, mut body) = response.into_parts();
        if head.headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return Err("it is compressed, which was not asked for".to_owned());
        }
        // Here it would lead elsewhere.
        if let Some(location) = head.headers.remove(header::LOCATION) {
            let location = location.to_str().ok().and_then(|location| headers::resolve(&url, location));
            let location = location.and_then(|location| HeaderValue::from_str(&location.to_string()).ok());
            head.headers.extend(location.map(|location| (header::LOCATION, location)));
        }
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| connect::words(&error))?;
            let Ok(data) = frame.into_data() else { continue };
            if read.len() + data.len() > MAX_PAGE {
                return Err(format!("it is longer than {MAX_PAGE} bytes"));
            }
            read.extend_from_slice(&data);
        }
        Ok(Response::from_parts(head, read.freeze()))
    }

    /// Where the server has the page that clients find at `path`: the server's path takes the place of the endpoint's.
    fn url(&self, path: &str) -> Option<Uri> {
        let base = path.strip_suffix(&*self.path).filter(|base| base.starts_with("/.well-known/"));
        let path = match base {
            Some(base) if !base.ends_with('/') => format!("{base}{}", self.server.path().trim_end_matches('/')),
            _ => path.to_owned(),
        };
        let mut parts = self.server.clone().into_parts();
        parts.path_and_query = Some(path.parse::<PathAndQuery>().ok()?);
        Uri::from_parts(parts).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoints_path_becomes_the_servers() {
        for (server, wanted, url) in [
            ("http://127.0.0.1:9/v1/mcp", "/.well-known/x/mcp", "http://127.0.0.1:9/.well-known/x/v1/mcp"),
            ("http://127.0.0.1:9/v1/mcp?key=1", "/.well-known/x", "http://127.0.0.1:9/.well-known/x"),
            ("http://127.0.0.1:9/mcp", "/.well-known/x/mcp", "http://127.0.0.1:9/.well-known/x/mcp"),
            ("http://127.0.0.1:9/", "/.well-known/x/mcp", "http://127.0.0.1:9/.well-known/x"),
            ("http://127.0.0.1:9/v1", "/.well-known/x/tenant/mcp2", "http://127.0.0.1:9/.well-known/x/tenant/mcp2"),
            ("http://127.0.0.1:9/v1", "/t/.well-known/x", "http://127.0.0.1:9/t/.well-known/x"),
        ] {
            let config = HttpClientConfig::new(server).unwrap();
            let discovery = Discovery::new(&config, ConnectConfig::default(), "/mcp").unwrap();
            assert_eq!(discovery.url(wanted).unwrap(), url, "{server} {wanted}");
        }
    }
}
