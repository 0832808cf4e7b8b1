//! An end of raw messages: what no SDK can be made to send, and a peer that reads only when the test wants it to.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, split};

/// One end, in lines or, after [`headers`](Self::headers), in content-length frames.
#[derive(Debug)]
pub struct Raw {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    headers: bool,
    kept: VecDeque<Value>,
}

impl Raw {
    pub(crate) fn new(io: DuplexStream) -> Self {
        let (reader, writer) = split(io);
        Self { reader: BufReader::new(reader), writer, headers: false, kept: VecDeque::new() }
    }

    /// Frames messages as LSP does.
    pub fn headers(mut self) -> Self {
        self.headers = true;
        self
    }

    /// Sends a message.
    pub async fn send(&mut self, message: Value) {
        let frame = match self.headers {
            true => {
                let body = message.to_string();
                format!("Content-Length: {}\r\n\r\n{body}", body.len())
            }
            false => format!("{message}\n"),
        };
        self.writer.write_all(frame.as_bytes()).await.expect("the other end listens");
    }

    /// The next message; `Null` at the end.
    pub async fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.expect("the other end speaks UTF-8");
        if line.is_empty() {
            return Value::Null;
        }
        if !self.headers {
            return serde_json::from_str(&line).expect("the other end speaks JSON");
        }
        let mut length = 0;
        while line != "\r\n" {
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().expect("a length is a number");
            }
            line.clear();
            self.reader.read_line(&mut line).await.expect("headers are text");
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).await.expect("a body has its length");
        serde_json::from_slice(&body).expect("the other end speaks JSON")
    }

    /// The next message that answers `id`.
    pub async fn answer_to(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        if let Some(at) = self.kept.iter().position(|kept| kept["id"] == id) {
            return self.kept.remove(at).unwrap_or_default();
        }
        loop {
            let message = self.receive().await;
            if message.is_null() || (message.get("method").is_none() && message["id"] == id) {
                return message;
            }
        }
    }

    /// A round trip that leaves an answer to `id` unread, should it come first: it is read again by `answer_to`.
    pub async fn barrier_beside(&mut self, id: impl Into<Value>) {
        let id = id.into();
        self.send(request("barrier", "ping", json!({}))).await;
        loop {
            let message = self.receive().await;
            if message["id"] == "barrier" || message.is_null() {
                return;
            }
            if message["id"] == id {
                self.kept.push_back(message);
            }
        }
    }

    /// A round trip: everything sent before has been read when it returns.
    pub async fn barrier(&mut self, method: &str) {
        self.send(request("barrier", method, json!({}))).await;
        self.answer_to("barrier").await;
    }
}

/// A request.
pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// An MCP call of `tool`, which works under the name `work`.
pub fn call(id: impl Into<Value>, tool: &str, work: &str) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": {"work": work}}))
}

/// A notification.
pub fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// An answer.
pub fn answer(id: impl Into<Value>, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": result})
}
