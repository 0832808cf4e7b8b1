//! Connecting and shaking hands in one step.
//!
//! The connection gets a task of its own only after the handshake. Until then the caller's future drives it, so
//! dropping that future leaves nothing to clean up.

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    task::Poll,
};

use super::{Builder, CallError, ErrorObject, Peer, Transport};

/// Why a client could not connect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The link broke during the handshake.
    #[error("the link broke during the handshake: {0}")]
    Link(#[source] io::Error),
    /// The handshake failed.
    #[error("the handshake failed: {0}")]
    Call(#[from] CallError),
    /// The other side speaks no version of the protocol that this client speaks.
    #[error("the other side speaks version {0}, which this client does not")]
    Version(String),
}

impl From<ConnectError> for ErrorObject {
    /// A handler whose own connection failed fails with it, as with a call of its own.
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Call(error) => error.into(),
            ConnectError::Link(_) => CallError::Closed.into(),
            error @ ConnectError::Version(_) => Self::internal(error.to_string()),
        }
    }
}

/// Connects, drives the connection until `handshake` has ended, and then spawns its driver.
///
/// Dropped, or ended by an error, it closes the connection at once, as dropping a driver does.
pub(crate) async fn connect<T, F>(
    builder: Builder,
    transport: Transport,
    handshake: impl FnOnce(Peer) -> F,
) -> Result<T, ConnectError>
where
    F: Future<Output = Result<T, ConnectError>>,
{
    let (peer, mut driver) = builder.connect(transport);
    let mut handshake = pin!(handshake(peer));
    let connected = poll_fn(|cx| {
        let link = Pin::new(&mut driver).poll(cx);
        let shaken = handshake.as_mut().poll(cx);
        match (shaken, link) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            (Poll::Ready(shaken), Poll::Pending) => Poll::Ready(shaken),
            // The link's own error explains more than "the connection has ended".
            (_, Poll::Ready(Err(error))) => Poll::Ready(Err(ConnectError::Link(error))),
            (Poll::Ready(Err(error)), Poll::Ready(Ok(()))) => Poll::Ready(Err(error)),
            (Poll::Ready(Ok(_)) | Poll::Pending, Poll::Ready(Ok(()))) => {
                Poll::Ready(Err(ConnectError::Call(CallError::Closed)))
            }
        }
    });
    let connected = connected.await?;
    drop(driver.spawn());
    Ok(connected)
}
