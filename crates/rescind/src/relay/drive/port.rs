//! Where the bytes of one side come from and go to.

use std::io;

use crate::{
    message_stream::MessageStream,
    process::{Pipes, presence::Presence},
    relay::server_stderr::ServerStderr,
    stdio::{Descriptor, Input, Output},
};

/// The descriptors of one side, or the stream that it has in their place: each `None` once it has ended.
#[derive(Default)]
pub(crate) struct Port {
    pub(super) input: Option<Input>,
    pub(super) output: Option<Output>,
    pub(super) messages: Option<Box<dyn MessageStream>>,
    /// Detects that the client is gone.
    pub(super) presence: Option<Presence>,
    /// Its pipe, and the one its bytes go to, were made larger.
    pub(super) widened: bool,
}

impl Port {
    /// The server's pipes, and its stderr, which is read from now on.
    pub(crate) fn to_server(pipes: Pipes, stderr_in_errors: bool) -> (Self, Option<ServerStderr>) {
        let stderr = pipes.stderr.map(|stderr| ServerStderr::read(stderr, stderr_in_errors));
        (Self::new(pipes.stdout, pipes.stdin), stderr)
    }

    /// The client's streams, whatever they are.
    pub(crate) fn to_client(input: Descriptor, output: Descriptor) -> io::Result<Self> {
        let presence = Presence::of(&output)?;
        Ok(Self { presence: Some(presence), ..Self::new(Input::inherited(input)?, Output::inherited(output)?) })
    }

    /// A stream of messages.
    pub(crate) fn to_messages(mut stream: Box<dyn MessageStream>, max_message: usize) -> Self {
        stream.limit(max_message);
        Self { messages: Some(stream), ..Self::default() }
    }

    fn new(input: Input, output: Output) -> Self {
        Self { input: Some(input), output: Some(output), ..Self::default() }
    }
}
