//! The client of a link: descriptors of this process, or a stream of messages.

use std::{
    os::fd::OwnedFd,
    task::{Context, Poll},
};

use rescind_proto::id::RequestId;

#[cfg(feature = "peer")]
use crate::peer::transport::{Arrival, MessageStream};

/// Where the client of a [`Link`](super::Link) is.
pub enum LinkClient {
    /// At the other end of these. Signals to this process are for the server.
    Descriptors {
        /// The client's messages. Closed once they have ended.
        input: OwnedFd,
        /// The messages for the client. Closed at the end.
        output: OwnedFd,
    },
    /// Behind a stream, such as a session over HTTP. Its end cancels what is in flight and ends the server.
    #[cfg(feature = "peer")]
    Messages(Box<dyn MessageStream>),
}

/// The stream of a client, driven.
pub(super) struct ClientMessages {
    #[cfg(feature = "peer")]
    stream: Box<dyn MessageStream>,
    #[cfg(not(feature = "peer"))]
    never: core::convert::Infallible,
}

/// What came of a client's stream.
pub(super) enum ClientInput {
    /// A message, as a line.
    Line(Vec<u8>),
    /// The client closed the stream of this request.
    StreamClosed(RequestId),
    /// The client is gone.
    End,
}

#[cfg(feature = "peer")]
impl ClientMessages {
    pub(super) fn new(mut stream: Box<dyn MessageStream>, max_message: usize) -> Self {
        stream.limit(max_message);
        Self { stream }
    }

    pub(super) fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<ClientInput> {
        self.stream.poll_next(cx).map(|arrival| match arrival {
            Ok(Some(Arrival::Message(bytes) | Arrival::Garbage(bytes))) => {
                let mut line = Vec::from(bytes);
                if line.last() != Some(&b'\n') {
                    line.push(b'\n');
                }
                ClientInput::Line(line)
            }
            Ok(Some(Arrival::StreamClosed(id))) => ClientInput::StreamClosed(id),
            Ok(None) | Err(_) => ClientInput::End,
        })
    }

    /// Takes one message, without its line break; an error if nothing can be sent any more.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<std::io::Result<()>> {
        self.stream.poll_send(cx, message)
    }

    pub(super) fn silence(&mut self, id: &RequestId) {
        self.stream.handle_silenced(id);
    }
}

#[cfg(not(feature = "peer"))]
impl ClientMessages {
    pub(super) fn poll_input(&mut self, _cx: &mut Context<'_>) -> Poll<ClientInput> {
        match self.never {}
    }

    pub(super) fn poll_send(&mut self, _cx: &mut Context<'_>, _message: &[u8]) -> Poll<std::io::Result<()>> {
        match self.never {}
    }

    pub(super) fn silence(&mut self, _id: &RequestId) {
        match self.never {}
    }
}

impl std::fmt::Debug for ClientMessages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientMessages")
    }
}

impl std::fmt::Debug for LinkClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Descriptors { .. } => "Descriptors",
            #[cfg(feature = "peer")]
            Self::Messages(_) => "Messages",
        })
    }
}
