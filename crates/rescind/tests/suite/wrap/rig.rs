//! A wrapped connection with both ends in the test's hands: the program's halves, and the peer's side of the pipe.

use std::time::Duration;

use rescind::relay::wrap::{Handle, Reader, Wrap, Writer};
use rescind_testkit::valid::{self, Protocol};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf,
};

use crate::in_time::in_time;

/// What a pipe between processes may hold, and what wedges programs that assume more.
pub(crate) const SMALL_PIPE: usize = 4096;

/// One end that speaks lines of JSON.
#[derive(Debug)]
pub(crate) struct Lines<R, W> {
    pub(crate) reader: BufReader<R>,
    pub(crate) writer: W,
}

pub(crate) type Program = Lines<Reader, Writer>;
pub(crate) type Peer = Lines<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;
pub(crate) type Wrapping = Wrap<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;
pub(crate) type Ends = rescind::relay::wrap::Ends<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// A wrapped connection over a pipe that holds `pipe` bytes each way, its driver running.
pub(crate) fn wrapped(pipe: usize, role: impl FnOnce(Ends) -> Wrapping) -> (Program, Peer, Handle) {
    let (ends, peer) = connection(pipe);
    let (reader, writer, handle) = role(ends).spawn();
    (Lines { reader: BufReader::new(reader), writer }, peer, handle)
}

/// A connection to be wrapped, and its other end.
pub(crate) fn connection(pipe: usize) -> (Ends, Peer) {
    let (near, far) = tokio::io::duplex(pipe);
    let (reader, writer) = tokio::io::split(near);
    let (far_reader, far_writer) = tokio::io::split(far);
    (rescind::relay::wrap(reader, writer), Lines { reader: BufReader::new(far_reader), writer: far_writer })
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Lines<R, W> {
    pub(crate) async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    /// The next message; `Value::Null` at the end.
    pub(crate) async fn receive(&mut self) -> Value {
        let mut line = String::new();
        match in_time(self.reader.read_line(&mut line)).await.unwrap() {
            0 => Value::Null,
            _ => read(line.trim_end_matches('\n')),
        }
    }

    /// Everything up to the end.
    pub(crate) async fn receive_all(&mut self) -> Vec<Value> {
        let mut text = String::new();
        in_time(self.reader.read_to_string(&mut text)).await.unwrap();
        text.lines().map(read).collect()
    }
}

/// A message, which must be a valid one.
fn read(line: &str) -> Value {
    valid::check(Protocol::JsonRpc, line).unwrap_or_else(|why| panic!("{why}: {line}"));
    serde_json::from_str(line).unwrap()
}

pub(crate) fn request(id: impl Into<Value>, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method})
}

pub(crate) fn call(id: impl Into<Value>, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": {"name": tool}})
}

pub(crate) fn answer(id: impl Into<Value>, result: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": result})
}

pub(crate) fn note(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

/// A cancel as MCP has it.
pub(crate) fn cancel(id: impl Into<Value>, reason: &str) -> Value {
    let params = json!({"requestId": id.into(), "reason": reason});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
