use std::borrow::Cow;
use std::hint::black_box;
use std::io;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::Pipes;

const READ: usize = 64 * 1024;

/// The members a relay must know of; params and results stay raw.
#[derive(Deserialize)]
#[expect(dead_code, reason = "the parse is what is measured, not its result")]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

pub(super) fn forward(pipes: &mut Pipes) -> io::Result<()> {
    super::forward_on_tokio(pipes, pump, pump)
}

/// Forwards whole lines only, all that one read completed in one write.
async fn pump(mut from: Receiver, mut to: Sender) -> io::Result<()> {
    let mut buffer = vec![0; 4 * READ];
    let (mut scanned, mut end) = (0, 0);
    loop {
        if buffer.len() - end < READ {
            buffer.resize(buffer.len() * 2, 0);
        }
        let read = from.read(&mut buffer[end..]).await?;
        if read == 0 {
            return Ok(());
        }
        end += read;
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', &buffer[scanned..end]) {
            let newline = scanned + newline;
            let envelope: Envelope<'_> = serde_json::from_slice(&buffer[start..newline])?;
            black_box(envelope);
            start = newline + 1;
        }
        to.write_all(&buffer[..start]).await?;
        buffer.copy_within(start..end, 0);
        end -= start;
        scanned = end;
    }
}
