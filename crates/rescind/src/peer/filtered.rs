//! The driver's input and output where filters see every message: split into messages and framed again.

use std::{
    io,
    task::{Context, Poll},
};

use rescind_proto::{
    connection::ConnectionConfig,
    framing::{Decoder, Framing},
};

use super::{
    filter::{self, Filter, FilteredMessage},
    shared::PeerShared,
    transport::{InputChunk, Io},
};

/// The state for filters; unused without any.
pub(crate) struct Filtered {
    framing: Framing,
    input: Decoder,
    /// Frames that passed, and how many of their bytes are written.
    output: Vec<u8>,
    written: usize,
}

impl Filtered {
    pub(crate) fn new(config: &ConnectionConfig) -> Self {
        let input = Decoder::new(Some(config.framing), config.max_message);
        Self { framing: config.framing, input, output: Vec::new(), written: 0 }
    }

    /// Whether everything that passed is written.
    pub(crate) fn is_written(&self) -> bool {
        self.written == self.output.len()
    }

    /// Gives back the memory that is kept for later frames.
    pub(crate) fn rest(&mut self) {
        if self.is_written() {
            (self.output, self.written) = (Vec::new(), 0);
        }
    }

    /// Applies the filters to the input, whose bytes are at the start of `buffer`; `None` without filters.
    pub(crate) fn apply_filters(
        &mut self,
        filters: &[Filter],
        read: Option<&io::Result<InputChunk>>,
        buffer: &[u8],
    ) -> Option<Vec<FilteredMessage>> {
        if filters.is_empty() {
            return None;
        }
        Some(match read? {
            Ok(InputChunk::Bytes(bytes)) => filter::decode(&mut self.input, filters, &buffer[..*bytes]),
            Ok(InputChunk::Arrivals(arrivals)) => {
                arrivals.iter().map(|arrival| FilteredMessage::of(filters, arrival.clone())).collect()
            }
            Ok(InputChunk::End) | Err(_) => filter::finish(&mut self.input, filters).into_iter().collect(),
        })
    }

    /// Writes the messages that pass the filters. Returns whether any was written, and whether the peer blocks. A message
    /// counts as sent once it has passed.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut Io,
        shared: &PeerShared,
    ) -> io::Result<(bool, bool)> {
        let mut wrote = false;
        loop {
            if !self.is_written() {
                match io.poll_write(cx, &self.output[self.written..]) {
                    Poll::Pending => return Ok((wrote, true)),
                    Poll::Ready(Ok(bytes)) if bytes > 0 => {
                        self.written += bytes;
                        wrote = true;
                    }
                    Poll::Ready(failed) => return Err(failed.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into())),
                }
                continue;
            }
            self.output.clear();
            self.written = 0;
            let Some((frame, detached)) = shared.lock().conn.detach_frame() else { return Ok((wrote, false)) };
            let passed = filter::apply(&shared.service.outgoing, filter::body(&frame, self.framing));
            if let Ok(body) = &passed {
                self.framing.write(&mut self.output, body);
            }
            shared.lock().conn.handle_detached(shared.now(), detached, passed.is_ok());
            wrote = true;
        }
    }
}
