//! The ends of a link: descriptors of this process, a process of its own, or a stream of messages.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    task::{Context, Poll},
};

use rescind_proto::id::RequestId;

use crate::message_stream::{Arrival, CancelFate, Credentials, Departure, MessageStream};
#[cfg(feature = "admin")]
use crate::message_stream::{Census, SigningIn};
pub use crate::stdio::Descriptor;

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

/// A stream of messages as an end of a link.
pub(super) struct MessageEnd {
    stream: Box<dyn MessageStream>,
}

/// What came of a stream of messages.
pub(super) enum MessageInput {
    /// A message, as a line.
    Line(Vec<u8>),
    /// The other end closed the stream of its request.
    StreamClosed(RequestId),
    /// What follows belongs to these.
    Credentials(Credentials),
    /// The other end is gone.
    End,
}

impl MessageEnd {
    pub(super) fn new(mut stream: Box<dyn MessageStream>, max_message: usize) -> Self {
        stream.limit(max_message);
        Self { stream }
    }

    pub(super) fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<MessageInput> {
        self.stream.poll_next(cx).map(|arrival| match arrival {
            Ok(Some(
                Arrival::Message(bytes)
                | Arrival::Garbage(bytes)
                | Arrival::Attached { message: bytes, .. }
                | Arrival::Unanswered { answer: bytes, .. },
            )) => {
                let mut line = Vec::from(bytes);
                if line.last() != Some(&b'\n') {
                    line.push(b'\n');
                }
                MessageInput::Line(line)
            }
            Ok(Some(Arrival::StreamClosed(id))) => MessageInput::StreamClosed(id),
            Ok(Some(Arrival::Credentials(credentials))) => MessageInput::Credentials(credentials),
            Ok(None) | Err(_) => MessageInput::End,
        })
    }

    pub(super) fn poll_departure(&mut self, cx: &mut Context<'_>) -> Poll<Departure> {
        self.stream.poll_departure(cx)
    }

    /// Takes one message, without its line break; an error if nothing can be sent any more.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        self.stream.poll_send(cx, message)
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(cx)
    }

    /// Closes the stream in order.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_close(cx)
    }

    pub(super) fn tell_fate(&mut self, id: &RequestId, fate: CancelFate) {
        self.stream.handle_cancel_fate(id, fate);
    }

    /// Has what is taken from now on belong to these.
    pub(super) fn set_credentials(&mut self, credentials: Credentials) {
        self.stream.handle_credentials(credentials);
    }

    pub(super) fn silence(&mut self, id: &RequestId) {
        self.stream.handle_silenced(id);
    }
}

impl std::fmt::Debug for MessageEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageEnd")
    }
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
