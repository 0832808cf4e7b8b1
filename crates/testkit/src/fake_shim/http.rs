//! As much HTTP as a test needs: requests on a connection one after another.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
};

/// What was asked.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) last_event: Option<u64>,
    /// What comes of an order is to follow its reply.
    pub(super) follows: bool,
    pub(super) body: Vec<u8>,
}

impl Asked {
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// A member of the query, decoded.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        let query = self.target.split_once('?')?.1;
        query.split('&').find_map(|member| Some(decoded(member.strip_prefix(name)?.strip_prefix('=')?)))
    }

    pub(super) fn since(&self) -> Option<u64> {
        self.last_event.or_else(|| self.query("since")?.parse().ok())
    }
}

pub(super) fn read(stream: &UnixStream) -> io::Result<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let (mut length, mut last_event, mut follows) = (0, None, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "accept" => follows = value.trim() == "text/event-stream",
            "last-event-id" => last_event = value.trim().parse().ok(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Asked { method, target, last_event, follows, body })
}

pub(super) fn write(mut stream: &UnixStream, status: u16, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(stream, "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
}

pub(super) fn write_head(mut stream: &UnixStream, kind: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n")
}

/// The reply to an order that is followed.
pub(super) fn write_ordered(mut stream: &UnixStream, reply: &str) -> io::Result<()> {
    write!(stream, "event: ordered\ndata: {reply}\n\n")
}

/// Text of a path or query without its percent signs.
pub(super) fn decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let byte = piece.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.extend(byte);
        bytes.extend_from_slice(piece.get(2..).unwrap_or_default().as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
