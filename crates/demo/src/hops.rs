//! The processes of the first act, behind the editor: `rescind __hop ROLE`.
//!
//! They are an agent, its tool server and the processes of a tool, and they use the library as any program does. None
//! has code that passes a cancel on. Each marks when its work begins, is told to stop, and has stopped.

mod agent;
pub(crate) mod mark;
mod tools;
pub(crate) mod wire;
mod work;

use std::{
    env, io,
    process::{Command, ExitCode},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use tokio::runtime;

use crate::marks::Marks;

pub(crate) use work::{TERMINATED, TERMINATION};

/// The name of the subcommand that calls [`run`].
pub const SUBCOMMAND: &str = "__hop";

/// The version by which they introduce themselves.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The prompt whose turn builds, searches and asks for permission, all at once. None of them ends by itself.
pub(crate) const BUILD_AND_SEARCH: &str = "build it, and find where it is used";

/// The prompt whose turn sends one request to the tool server and ends.
pub(crate) const GO_ON: &str = "which tools are there?";

/// The length of a step of work.
const STEP: Duration = Duration::from_millis(50);

/// The role of a process in the first act.
///
/// It never grows: the demo's picture has these four processes, and each is started by its word.
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

    /// Returns its name on a command line.
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

/// An error for a name that no [`Role`] has.
#[derive(Debug, thiserror::Error)]
#[error("unknown role")]
pub struct UnknownRole;

/// Plays a role until its work has ended, and returns the exit code for the process.
///
/// # Errors
///
/// Fails if the demo did not start this process, or if a pipe, a process or a connection fails.
pub fn run(role: Role) -> io::Result<ExitCode> {
    // A failed mark is how work notices that the demo is gone.
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

/// Makes a command that starts the running executable again, in this role.
pub(crate) fn command(role: Role) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args([SUBCOMMAND, role.as_str()]);
    Ok(command)
}

/// Creates a runtime on this thread.
pub(crate) fn runtime() -> io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}
