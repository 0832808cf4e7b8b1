//! Single requests, beside the messages of a server.

use std::fmt;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::BodyExt;

use super::{
    connect::{self, ConnectConfig, ConnectError, Sender},
    request_body::RequestBody,
};
use crate::client::{Lane, headers};

/// Sends requests that are not messages of MCP, over connections of the same kind. It follows no redirect, and adds neither
/// credentials nor time limits.
#[derive(Clone)]
pub struct Requests {
    sender: Sender,
}

/// Why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server was not reached, or the connection broke.
    #[error("{0}")]
    Failed(String),
    /// The body of the response is longer than was wanted. The rest was not read.
    #[error("its answer is too long")]
    TooLarge,
}

impl Requests {
    /// Requests on behalf of the server at this URL. None reaches this machine unless that server is on it, whatever name
    /// or address it goes to: judged is where that leads when it is connected to. What a proxy connects to is for the proxy
    /// to judge.
    ///
    /// # Errors
    ///
    /// TLS cannot be set up.
    pub fn new(server: &Uri, connect: ConnectConfig) -> Result<Self, ConnectError> {
        Ok(Self { sender: Sender::on_behalf_of(server, connect)? })
    }

    /// Sends a request, and reads its response, of whose body at most `most` bytes are held. Dropping the future closes its
    /// connection. Call it on a tokio runtime.
    ///
    /// # Errors
    ///
    /// No response came, or one that is too long.
    pub async fn send(&self, request: Request<Bytes>, most: usize) -> Result<Response<Bytes>, RequestError> {
        let failed = |error: &(dyn std::error::Error + 'static)| RequestError::Failed(connect::words(error));
        let mut request = request.map(RequestBody::of_nobody);
        request.headers_mut().entry(header::USER_AGENT).or_insert(headers::AGENT);
        let response = self.sender.send(request, Lane::Passing).await.map_err(|error| failed(&error))?;
        let (mut head, mut body) = response.into_parts();
        let identity = HeaderValue::from_static("identity");
        if head.headers.remove(header::CONTENT_ENCODING).is_some_and(|coding| coding != identity) {
            return Err(RequestError::Failed("its answer is compressed, which was not asked for".to_owned()));
        }
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| failed(&error))?.into_data() else { continue };
            if read.len() + data.len() > most {
                return Err(RequestError::TooLarge);
            }
            read.extend_from_slice(&data);
        }
        Ok(Response::from_parts(head, read.freeze()))
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Requests")
    }
}
