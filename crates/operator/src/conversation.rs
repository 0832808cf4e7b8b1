//! A connection to a shim, on which requests follow one another.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;

use super::{
    ShimError,
    connection::{self, Connection},
};

/// A connection on which a shim answers one request after another.
#[derive(Debug)]
pub(super) struct Conversation {
    sender: http1::SendRequest<Full<Bytes>>,
    process: Option<u32>,
}

/// Why there is no answer.
pub(super) enum Unanswered {
    /// The connection was closed before any of the request was written.
    Unsent(Box<Request<Full<Bytes>>>, ShimError),
    /// The request may have been carried out.
    Failed(ShimError),
}

impl Conversation {
    /// Begins one on a new connection, if `user` listens there.
    pub(super) async fn open(stream: Connection, user: u32) -> Result<Self, ShimError> {
        connection::check(&stream, user)?;
        let process = connection::server(&stream).map_err(ShimError::from_io)?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| ShimError::from_hyper(&error))?;
        // It ends when the conversation and the body of its last answer are dropped.
        tokio::spawn(connection);
        Ok(Self { sender, process })
    }

    /// The number of the process that listens, as the kernel knows it here.
    pub(super) const fn process(&self) -> Option<u32> {
        self.process
    }

    /// Sends a request, once the last answer was read.
    pub(super) async fn ask(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Unanswered> {
        if let Err(error) = self.sender.ready().await {
            return Err(Unanswered::Unsent(Box::new(request), ShimError::from_hyper(&error)));
        }
        self.sender.try_send_request(request).await.map_err(|mut error| {
            let request = error.take_message();
            let error = ShimError::from_hyper(error.error());
            match request {
                Some(request) => Unanswered::Unsent(Box::new(request), error),
                None => Unanswered::Failed(error),
            }
        })
    }
}
