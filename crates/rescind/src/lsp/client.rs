//! A client of a language server.

use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::{Value, json};

use super::{ClientBuilder, LSP};
use crate::peer::{Builder, CallError, ConnectError, Peer, Transport};

/// A client of one language server. Clones share the session.
///
/// Requests are made on its [`peer`](Self::peer); dropping one cancels it, and the server still answers (LSP-01).
///
/// # Dropping it
///
/// The last clone, with all calls, ends the connection in order, in the background; a child process that was the server
/// is ended with it. [`close`](Self::close) ends the session first, as the protocol wants it, and waits.
#[derive(Clone, Debug)]
pub struct Client {
    peer: Peer,
    /// The `InitializeResult`, once the session is open.
    server: Arc<OnceLock<Value>>,
}

impl Client {
    /// Connects to the server behind `transport` under this name and version, opens the session, and returns the client,
    /// ready for requests.
    ///
    /// The connection then runs in a task of its own, until the last clone of the client is dropped. A client that
    /// declares capabilities, or handles what the server sends, is made with [`builder`](Self::builder).
    ///
    /// # Errors
    ///
    /// The link broke, or the handshake failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future during the handshake closes the connection at once and leaves no task behind. A server that
    /// is a [child process](crate::peer::transport::child()) is then ended: its stdin is closed, 1.5 s later it gets
    /// SIGTERM, 1 s later SIGKILL. An error closes the connection in the same way.
    pub async fn connect(transport: impl Into<Transport>, name: &str, version: &str) -> Result<Self, ConnectError> {
        Self::builder(name, version).connect(transport).await
    }

    /// Describes a client of this name and version: its handlers and capabilities.
    pub fn builder(name: &str, version: &str) -> ClientBuilder {
        ClientBuilder::new(name, version)
    }

    /// A connection without handlers, for programs that run the [driver](crate::peer::Driver) themselves: add handlers,
    /// [connect](Builder::connect) it, and [`initialize`](Self::initialize) a [client](Self::new) on it.
    pub fn peer_builder() -> Builder {
        Peer::builder(&LSP)
    }

    /// A client of the server at the other side of `peer`.
    #[must_use]
    pub fn new(peer: Peer) -> Self {
        Self { peer, server: Arc::default() }
    }

    /// Opens the session with these `InitializeParams`, and returns the `InitializeResult`. The handshake is never
    /// cancelled on the wire (LSP-06). Send nothing before it is ready.
    ///
    /// # Errors
    ///
    /// The call failed.
    pub async fn initialize(&self, params: &(impl Serialize + ?Sized)) -> Result<Value, CallError> {
        let result = self.peer.request("initialize", params).await?;
        self.peer.notify_now("initialized", &json!({}))?;
        Ok(self.server.get_or_init(|| result).clone())
    }

    /// The server's `InitializeResult`; `None` before the session is open.
    #[must_use]
    pub fn server(&self) -> Option<&Value> {
        self.server.get()
    }

    /// Closes the session: `shutdown`, its answer, `exit`. Nothing else may be sent afterwards, and cancels are not
    /// (LSP-06).
    ///
    /// # Errors
    ///
    /// The call failed; `exit` is sent nevertheless.
    pub async fn shutdown(&self) -> Result<(), CallError> {
        let answer = self.peer.request::<Option<Value>>("shutdown", &()).await;
        self.peer.notify_now("exit", &())?;
        answer.map(drop)
    }

    /// Closes the session as [`shutdown`](Self::shutdown) does, then ends the connection in order and waits until
    /// everything of it is settled; a server that is a child process has ended then.
    ///
    /// # Errors
    ///
    /// The call of `shutdown` failed; the connection is ended nevertheless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the waiting; dropped before `shutdown` is answered it leaves the session open.
    pub async fn close(self) -> Result<(), CallError> {
        let answer = self.shutdown().await;
        self.peer.shutdown();
        self.peer.closed().await;
        answer
    }

    /// The connection beneath.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }
}
