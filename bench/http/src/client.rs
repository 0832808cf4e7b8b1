//! The load generator's end of one connection: HTTP/1.1, as little of it as the answers need.

use std::io;
use std::net::SocketAddr;

use httparse::{EMPTY_HEADER, Status};
use rescind_proto::frame::{self, Frame, ResponseBody, ResponseId};
use rescind_proto::id::RequestId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection that is kept alive; dropped, it hangs up.
#[derive(Debug)]
pub(crate) struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    read: Vec<u8>,
    /// The server closes it after this answer.
    is_last: bool,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { address, stream, read: Vec::new(), is_last: false })
    }

    pub(crate) async fn send(&mut self, request: &str) -> io::Result<()> {
        if self.is_last {
            *self = Self::open(self.address).await?;
        }
        self.stream.write_all(request.as_bytes()).await
    }

    /// The next answer, once all of it is there.
    pub(crate) async fn receive(&mut self) -> io::Result<Answer> {
        loop {
            if let Some((answer, end)) = Answer::parse(&self.read)? {
                self.read.drain(..end);
                self.is_last = answer.is_last;
                return Ok(answer);
            }
            self.fill().await?;
        }
    }

    /// Waits for the head of an answer whose end may never come.
    pub(crate) async fn head(&mut self) -> io::Result<()> {
        while memchr::memmem::find(&self.read, b"\r\n\r\n").is_none() {
            self.fill().await?;
        }
        Ok(())
    }

    async fn fill(&mut self) -> io::Result<()> {
        if self.stream.read_buf(&mut self.read).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the gateway hung up"));
        }
        Ok(())
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    body: Vec<u8>,
    is_sse: bool,
    is_last: bool,
}

impl Answer {
    /// The answer at the start of `bytes` and where it ends, if all of it is there.
    fn parse(bytes: &[u8]) -> io::Result<Option<(Self, usize)>> {
        let mut headers = [EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut headers);
        let Status::Complete(start) = head.parse(bytes).map_err(io::Error::other)? else { return Ok(None) };
        let header = |name: &str| {
            let found = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
            str::from_utf8(found.value).ok()
        };
        let mut answer = Self {
            status: head.code.unwrap_or_default(),
            session: header("mcp-session-id").map(str::to_owned),
            body: Vec::new(),
            is_sse: header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")),
            is_last: header("connection").is_some_and(|what| what.eq_ignore_ascii_case("close")),
        };
        let end = if header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            answer.take_chunks(bytes, start)?
        } else {
            let length = header("content-length").map_or(Ok(0), str::parse).map_err(io::Error::other)?;
            bytes.get(start..start + length).map(|body| {
                answer.body.extend_from_slice(body);
                start + length
            })
        };
        Ok(end.map(|end| (answer, end)))
    }

    /// Where the last chunk ends, if it is there; trailers there are none.
    fn take_chunks(&mut self, bytes: &[u8], mut at: usize) -> io::Result<Option<usize>> {
        loop {
            let rest = &bytes[at..];
            let size = httparse::parse_chunk_size(rest).map_err(|_| io::Error::other("no size of a chunk"))?;
            let Status::Complete((start, size)) = size else { return Ok(None) };
            let end = start + usize::try_from(size).map_err(io::Error::other)?;
            let Some(chunk) = rest.get(start..end + 2) else { return Ok(None) };
            self.body.extend_from_slice(&chunk[..chunk.len() - 2]);
            at += end + 2;
            if size == 0 {
                return Ok(Some(at));
            }
        }
    }

    /// Whether it is the result of this request and has `text` in it.
    pub(crate) fn is_result(&self, id: i64, text: &str) -> bool {
        let is_wanted = |message: &[u8]| {
            let Ok(Frame::Response(response)) = frame::parse(message) else { return false };
            let ResponseBody::Result(result) = response.body else { return false };
            response.id == Some(ResponseId::Exact(RequestId::integer(id)))
                && memchr::memmem::find(result, text.as_bytes()).is_some()
        };
        if !self.is_sse {
            return is_wanted(&self.body);
        }
        self.body.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"data:")).any(is_wanted)
    }

    /// Its status and the start of its body, for an error.
    pub(crate) fn describe(&self) -> String {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(160).collect();
        format!("status {}: {}", self.status, body.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_chunks_is_whole_with_its_last_chunk() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
            1b\r\nevent: message\ndata: {\"json\r\n25\r\nrpc\":\"2.0\",\"id\":7,\"result\":[\"text\"]}\n\r\n0\r\n\r\nHTTP";
        for end in 0..text.len() - 4 {
            assert!(Answer::parse(&text[..end]).expect("well-formed").is_none(), "{end}");
        }
        let (answer, end) = Answer::parse(text).expect("well-formed").expect("whole");
        assert_eq!((end, answer.is_last), (text.len() - 4, false));
        assert!(answer.is_result(7, "text"));
        assert!(!answer.is_result(8, "text") && !answer.is_result(7, "other"));
    }

    #[test]
    fn an_answer_without_a_length_has_no_body() {
        let (answer, end) = Answer::parse(b"HTTP/1.1 202 Accepted\r\n\r\n").expect("well-formed").expect("whole");
        assert_eq!((answer.status, end), (202, 25));
    }
}
