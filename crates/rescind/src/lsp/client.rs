//! A client of a language server.

use serde::Serialize;
use serde_json::{Value, json};

use super::LSP;
use crate::peer::{Builder, CallError, Peer};

/// A client of one language server. Clones share the session.
///
/// Requests are made on its [`peer`](Self::peer); dropping one cancels it, and the server still answers (LSP-01).
#[derive(Clone, Debug)]
pub struct Client {
    peer: Peer,
}

impl Client {
    /// A connection without routes: add your own, then [connect](Builder::connect) it.
    pub fn builder() -> Builder {
        Peer::builder(&LSP)
    }

    /// A client of the server at the other side of `peer`.
    #[must_use]
    pub const fn new(peer: Peer) -> Self {
        Self { peer }
    }

    /// Opens the session with these `InitializeParams`, and gives the `InitializeResult`. It is never cancelled on
    /// the wire (LSP-06). Send nothing before it is ready.
    ///
    /// # Errors
    ///
    /// The call failed.
    pub async fn initialize(&self, params: &(impl Serialize + ?Sized)) -> Result<Value, CallError> {
        let result = self.peer.request("initialize", params).await?;
        self.peer.notify_now("initialized", &json!({}))?;
        Ok(result)
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

    /// The connection beneath.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }
}
