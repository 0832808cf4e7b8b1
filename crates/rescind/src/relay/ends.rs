//! The ends of a link: descriptors of this process, a process of its own, or a stream of messages.

use std::{ffi::OsString, path::PathBuf};

use crate::message_stream::MessageStream;
#[cfg(feature = "admin")]
use crate::message_stream::{Census, SigningIn};
pub use crate::stdio::Descriptor;

/// What the configuration of its client calls the server of a [`Link`](super::Link).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryName {
    /// The name of its entry.
    pub name: Option<String>,
    /// The client, such as `cursor`.
    pub client: Option<String>,
    /// The name under which its process is shared by several links, if it is.
    pub shared: Option<String>,
}

impl EntryName {
    /// Names of which an empty one counts as none.
    #[must_use]
    pub fn new(name: Option<String>, client: Option<String>) -> Self {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        Self { name: given(name), client: given(client), shared: None }
    }

    /// The same for a server whose process is shared under this name.
    #[must_use]
    pub fn sharing(self, shared: Option<String>) -> Self {
        Self { shared, ..self }
    }
}

/// Where the client of a [`Link`](super::Link) is.
#[non_exhaustive]
pub enum LinkClient {
    /// At the other end of these. Signals to this process are for the server.
    Descriptors {
        /// The client's messages. Closed once they have ended.
        input: Descriptor,
        /// The messages for the client. Closed at the end.
        output: Descriptor,
    },
    /// Behind a stream, such as a session over HTTP. Its end cancels what is in flight and ends the server.
    Messages(Box<dyn MessageStream>),
}

/// What the streams of messages at the ends of a link tell of it, where there are such.
#[cfg(feature = "admin")]
#[derive(Default)]
pub(super) struct StreamFacts {
    /// Counts who is connected.
    pub(super) census: Option<Census>,
    /// Whose the client is.
    pub(super) owner: Option<String>,
    /// Tells whether a person is being asked to sign in at the server.
    pub(super) signing_in: Option<SigningIn>,
}

#[cfg(feature = "admin")]
impl StreamFacts {
    pub(super) fn of(client: &LinkClient, server: &LinkServer) -> Self {
        let (census, owner) = match client {
            LinkClient::Descriptors { .. } => (None, None),
            LinkClient::Messages(stream) => (stream.census(), stream.owner().map(ToOwned::to_owned)),
        };
        let signing_in = match server {
            LinkServer::Command { .. } => None,
            LinkServer::Messages { stream, .. } => stream.signing_in(),
        };
        Self { census, owner, signing_in }
    }
}

/// What the server of a [`Link`](super::Link) is.
#[non_exhaustive]
pub enum LinkServer {
    /// A process that is started for the link, and ended with it.
    Command {
        /// The command and its arguments.
        command: Vec<OsString>,
        /// The absolute path of the program whose hidden subcommands call [`launch::exec`](crate::launch::exec)
        /// and [`launch::guard`](crate::launch::guard): usually this program.
        launcher: PathBuf,
    },
    /// A stream, such as one to a server over HTTP.
    Messages {
        /// The stream.
        stream: Box<dyn MessageStream>,
        /// How it is listed, in place of a command: a URL, say.
        name: Vec<OsString>,
    },
}

impl std::fmt::Debug for LinkClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Descriptors { .. } => "Descriptors",
            Self::Messages(_) => "Messages",
        })
    }
}

impl std::fmt::Debug for LinkServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command { command, .. } => f.debug_tuple("Command").field(command).finish(),
            Self::Messages { name, .. } => f.debug_tuple("Messages").field(name).finish(),
        }
    }
}
