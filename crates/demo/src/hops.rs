//! `rescind __hop`: the processes behind the editor of the demo.
//!
//! An agent, its tool server, and what a tool runs: ordinary users of the library. None has code that passes a
//! cancel on; each marks when its work begins, is told to stop, and has really stopped.

mod agent;
pub(crate) mod mark;
mod tools;
pub(crate) mod wire;
mod work;

use std::{io, process::ExitCode, str::FromStr, sync::Arc, time::Duration};

use tokio::runtime;

use crate::marks::Marks;

pub(crate) use agent::{BUILD_AND_SEARCH, GO_ON};

/// The name of the subcommand that calls [`run`].
pub const SUBCOMMAND: &str = "__hop";

/// What they say of themselves.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Work is done in steps of this length.
const STEP: Duration = Duration::from_millis(50);

/// What a process is in the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The editor's ACP agent.
    Agent,
    /// The agent's MCP tool server.
    Tools,
    /// The process of a tool.
    Make,
    /// The child of that process.
    Compiler,
}

impl Role {
    const ALL: [Self; 4] = [Self::Agent, Self::Tools, Self::Make, Self::Compiler];

    /// The argument that names it on a command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Tools => "tools",
            Self::Make => "make",
            Self::Compiler => "compiler",
        }
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(name: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == name).ok_or(UnknownRole)
    }
}

/// A name that is not the name of a [`Role`].
#[derive(Debug, thiserror::Error)]
#[error("unknown role")]
pub struct UnknownRole;

/// Plays that role until its work is done or was stopped, and returns the exit code of the process.
///
/// # Errors
///
/// This process was not started by the demo, or something that it needs could not be made or has failed.
pub fn run(role: Role) -> io::Result<ExitCode> {
    // Work without marks would not notice that nobody watches it any more.
    let marks = Arc::new(Marks::required()?);
    runtime()?.block_on(async {
        match role {
            Role::Agent => agent::serve(&marks).await.map(|()| ExitCode::SUCCESS),
            Role::Tools => tools::serve(&marks).await.map(|()| ExitCode::SUCCESS),
            Role::Make => work::make(&marks).await,
            Role::Compiler => work::compiler(&marks).await,
        }
    })
}

/// One thread is enough for anything here.
pub(crate) fn runtime() -> io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}
