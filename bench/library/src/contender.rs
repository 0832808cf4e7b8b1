//! The contenders, and what every library among them must be able to do.

mod agent_client_protocol;
mod async_lsp;
mod engine;
mod lines;
mod raw;
mod rescind;
mod rmcp;
mod tarpc;
mod tower_lsp_server;
mod wrapped;

use std::future::Future;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use self::agent_client_protocol::Acp;
pub(crate) use self::async_lsp::AsyncLsp;
pub(crate) use self::engine::{L2, L2Inline};
pub(crate) use self::raw::{Depth, echoes};
pub(crate) use self::rescind::{Rescind, RescindInline, RescindTyped};
pub(crate) use self::rmcp::{Rmcp, RmcpDropped};
pub(crate) use self::tarpc::Tarpc;
pub(crate) use self::tower_lsp_server::TowerLsp;
pub(crate) use self::wrapped::Wrapped;
use crate::wire::End;
use crate::work::{Verb, Work};

/// Why a measurement could not be made.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Contender {
    /// Lines, sent back as they are.
    L0,
    /// Lines whose envelope is parsed on both ends.
    L1,
    /// The least engine, without robustness.
    L2,
    /// The same, each handler polled once before it is spawned.
    L2Inline,
    /// Params stay as they came.
    Rescind,
    /// The same, on a route that says that its handler never blocks.
    RescindInline,
    /// Params are read into types.
    RescindTyped,
    Rmcp,
    /// `rmcp` again, cancelled by dropping the future of the call.
    RmcpDropped,
    /// `rmcp`, the client behind a wrap.
    RmcpWrapped,
    /// Both of these.
    RmcpDroppedWrapped,
    Acp,
    /// `agent-client-protocol`, the client behind a wrap.
    AcpWrapped,
    AsyncLsp,
    TowerLsp,
    Tarpc,
}

impl Contender {
    pub(crate) const ALL: [Self; 16] = [
        Self::L0,
        Self::L1,
        Self::L2,
        Self::L2Inline,
        Self::Rescind,
        Self::RescindInline,
        Self::RescindTyped,
        Self::Tarpc,
        Self::AsyncLsp,
        Self::TowerLsp,
        Self::Rmcp,
        Self::RmcpWrapped,
        Self::RmcpDropped,
        Self::RmcpDroppedWrapped,
        Self::Acp,
        Self::AcpWrapped,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::L0 => "L0",
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::L2Inline => "L2i",
            Self::Rescind => "rescind",
            Self::RescindInline => "rescind, never blocks",
            Self::RescindTyped => "rescind, typed",
            Self::Rmcp => "rmcp",
            Self::RmcpWrapped => "rmcp, wrapped",
            Self::RmcpDropped => "rmcp, dropped",
            Self::RmcpDroppedWrapped => "rmcp, dropped, wrapped",
            Self::Acp => "agent-client-protocol",
            Self::AcpWrapped => "agent-client-protocol, wrapped",
            Self::AsyncLsp => "async-lsp",
            Self::TowerLsp => "tower-lsp-server",
            Self::Tarpc => "tarpc",
        }
    }

    /// Whether it has calls that can be cancelled, rather than lines.
    pub(crate) const fn has_calls(self) -> bool {
        !matches!(self, Self::L0 | Self::L1)
    }

    /// Whether it is made here, as a measure or to be measured.
    pub(crate) const fn is_ours(self) -> bool {
        matches!(
            self,
            Self::L0 | Self::L1 | Self::L2 | Self::L2Inline | Self::Rescind | Self::RescindInline | Self::RescindTyped
        )
    }

    /// Whether its echo is another's, so that there is nothing more to measure in it.
    pub(crate) const fn echoes_as_another(self) -> bool {
        matches!(self, Self::RmcpDropped | Self::RmcpDroppedWrapped)
    }

    /// The same without the wrap, if it has one.
    pub(crate) const fn unwrapped(self) -> Option<Self> {
        match self {
            Self::RmcpWrapped => Some(Self::Rmcp),
            Self::RmcpDroppedWrapped => Some(Self::RmcpDropped),
            Self::AcpWrapped => Some(Self::Acp),
            Self::L0
            | Self::L1
            | Self::L2
            | Self::L2Inline
            | Self::Rescind
            | Self::RescindInline
            | Self::RescindTyped
            | Self::Rmcp
            | Self::RmcpDropped
            | Self::Acp
            | Self::AsyncLsp
            | Self::TowerLsp
            | Self::Tarpc => None,
        }
    }
}

/// A library: how both ends of a session are made with it.
pub(crate) trait Library: 'static {
    type Caller: Caller;

    /// Starts both ends on this runtime. The serving end runs `work` and never has more than `limit` requests in
    /// flight: no limit of the library may come into play.
    fn open(
        client: End,
        server: End,
        work: Arc<Work>,
        limit: usize,
    ) -> impl Future<Output = Result<Self::Caller, Failure>> + Send;
}

/// The calling end.
pub(crate) trait Caller: Clone + Send + Sync + 'static {
    /// A call to a handler that takes its time.
    type Call: Future<Output = Result<(), Failure>> + Unpin + Send;

    /// A round trip; the answer has been compared.
    fn echo(&self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// A call that may be sent when it is polled first. Its answer is compared.
    fn call(&self, verb: Verb) -> Self::Call;

    /// Stops `call`, in the way the library has for it.
    fn cancel(&self, call: Self::Call) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// That an answer is what was sent.
pub(crate) fn compare<T: PartialEq + ?Sized>(answer: &T, sent: &T) -> Result<(), Failure> {
    if answer == sent { Ok(()) } else { Err("the answer is not what was sent".into()) }
}
