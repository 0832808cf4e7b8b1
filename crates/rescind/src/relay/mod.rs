//! A relay between a client on descriptors of this process and a server that it starts.

mod alarm;
mod drive;
mod group;
mod lifecycle;
mod observer;
mod signals;

use std::{ffi::OsString, future::poll_fn, io, os::fd::OwnedFd, path::PathBuf};

use rescind_proto::{
    relay::{Config, End},
    side::Sides,
};

use crate::stdio::{Input, Output};
use drive::{Drive, Port};
use group::Group;
use observer::Observer;
use signals::Signals;

/// What is to be relayed, and how.
#[derive(Debug)]
pub struct Link {
    /// Where the client's messages come from. Closed when they have ended.
    pub client_input: OwnedFd,
    /// Where messages for the client go. Closed at the end.
    pub client_output: OwnedFd,
    /// The server's command and its arguments.
    pub command: Vec<OsString>,
    /// The absolute path of the program whose hidden subcommands call [`launch::exec`](crate::launch::exec)
    /// and [`launch::watch`](crate::launch::watch): usually this program.
    pub launcher: PathBuf,
    /// What the relay machine is told.
    pub config: Config,
}

/// Why a link could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The server's process, or its watcher, could not be started by this program.
    #[error("cannot start the server's process: {0}")]
    Start(#[source] io::Error),
    /// This process's own descriptors, signals or timers cannot be used.
    #[error("cannot set up the link: {0}")]
    Setup(#[source] io::Error),
}

/// Relays until the server has ended and everything owed is written; then says how the server ended.
///
/// Blocks. Call it from the main thread, or from one that lives as long as the process: the server is
/// killed when that thread ends. Signals that would end this process (SIGTERM, SIGINT, SIGHUP) reach the
/// server instead, and go on doing so after the return.
///
/// # Errors
///
/// Only before anything was relayed. Afterwards every failure is the end of one side.
pub fn run(link: Link) -> Result<End, LinkError> {
    let origin = std::time::Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(LinkError::Setup)?;
    runtime.block_on(async {
        let Link { client_input, client_output, command, launcher, config } = link;
        // Before the server starts: a signal, or its end, must not be missed.
        let signals = Signals::listen().map_err(LinkError::Setup)?;
        let (group, pipes) = Group::start(&launcher, &command).map_err(LinkError::Start)?;
        let ports = Sides {
            client: Port {
                input: Some(Input::inherited(client_input).map_err(LinkError::Setup)?),
                output: Some(Output::inherited(client_output).map_err(LinkError::Setup)?),
            },
            server: Port::to_server(pipes).map_err(LinkError::Setup)?,
        };
        let mut drive = Drive::new(origin, config, ports, group, signals, Observer::default());
        let how = poll_fn(|cx| drive.poll(cx)).await;
        drive.finish(&how);
        Ok(how)
    })
}
