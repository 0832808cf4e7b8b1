//! Both ends of a link of each kind; and the raw bytes of one end in the test's hands.

use rescind::peer::{Builder, Transport, transport};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::rig::Served;

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    #[cfg(unix)]
    Unix,
    Tcp,
    WebSocket,
}

#[cfg(unix)]
pub(crate) const KINDS: [Kind; 3] = [Kind::Unix, Kind::Tcp, Kind::WebSocket];
#[cfg(windows)]
pub(crate) const KINDS: [Kind; 2] = [Kind::Tcp, Kind::WebSocket];

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Two connected sockets, the client's first.
async fn sockets(kind: Kind) -> (Box<dyn Stream>, Box<dyn Stream>) {
    match kind {
        #[cfg(unix)]
        Kind::Unix => {
            let (client, server) = tokio::net::UnixStream::pair().unwrap();
            return (Box::new(client), Box::new(server));
        }
        Kind::Tcp | Kind::WebSocket => {}
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (Box::new(client.unwrap()), Box::new(server.unwrap().0))
}

/// The test is the client of what is served.
pub(crate) async fn serve(kind: Kind, builder: Builder) -> (Raw, Served) {
    let (client, server) = sockets(kind).await;
    let mut raw = Raw { stream: BufReader::new(client), is_masked: true, is_socket: kind == Kind::WebSocket };
    if !raw.is_socket {
        return (raw, tokio::spawn(builder.serve(Transport::joined(server))));
    }
    let served = tokio::spawn(builder.serve(transport::accept_websocket(server)));
    raw.open(None).await;
    (raw, served)
}

/// The test is the server of what is connected.
pub(crate) async fn connect(kind: Kind) -> (Raw, Transport) {
    let (client, server) = sockets(kind).await;
    let raw = |stream, is_socket| Raw { stream: BufReader::new(stream), is_masked: false, is_socket };
    if kind != Kind::WebSocket {
        return (raw(server, false), Transport::joined(client));
    }
    let opening = tokio_websockets::ServerBuilder::new();
    let (transport, opened) =
        tokio::join!(transport::websocket_over("ws://localhost/", client), opening.accept(server));
    (raw(opened.unwrap().1.into_inner(), true), transport.unwrap())
}

/// A listener of each kind, and how to reach it.
pub(crate) async fn listen(
    kind: Kind,
    #[cfg_attr(windows, expect(unused_variables, reason = "no socket has a path there"))] folder: &tempfile::TempDir,
) -> (transport::Listener, Address) {
    match kind {
        #[cfg(unix)]
        Kind::Unix => {
            let path = folder.path().join("socket");
            (transport::Listener::unix(&path).unwrap(), Address::Path(path))
        }
        Kind::Tcp => {
            let listener = transport::Listener::tcp("127.0.0.1:0").await.unwrap();
            let address = listener.address().unwrap();
            (listener, Address::Tcp(address))
        }
        Kind::WebSocket => {
            let listener = transport::Listener::websocket("127.0.0.1:0").await.unwrap();
            let address = format!("ws://{}/any", listener.address().unwrap());
            (listener, Address::Url(address))
        }
    }
}

pub(crate) enum Address {
    #[cfg(unix)]
    Path(std::path::PathBuf),
    Tcp(std::net::SocketAddr),
    Url(String),
}

impl Address {
    pub(crate) async fn reach(&self) -> Transport {
        match self {
            #[cfg(unix)]
            Self::Path(path) => transport::unix(path).await,
            Self::Tcp(address) => transport::tcp(address).await,
            Self::Url(url) => transport::websocket(url).await,
        }
        .unwrap()
    }
}

/// One end of a link, byte by byte.
pub(crate) struct Raw {
    pub(crate) stream: BufReader<Box<dyn Stream>>,
    is_masked: bool,
    is_socket: bool,
}

/// The kinds of frames of a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Continued = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

const OPS: [Op; 6] = [Op::Continued, Op::Text, Op::Binary, Op::Close, Op::Ping, Op::Pong];

impl Raw {
    /// A client that has not said a word.
    pub(crate) fn client(stream: impl Stream + 'static) -> Self {
        Self { stream: BufReader::new(Box::new(stream)), is_masked: true, is_socket: true }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// A message as this link has it.
    pub(crate) fn message(&self, message: &Value) -> Vec<u8> {
        let text = message.to_string();
        if self.is_socket { self.frame(Op::Text, text.as_bytes(), true) } else { format!("{text}\n").into_bytes() }
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        let bytes = self.message(message);
        self.write(&bytes).await;
    }

    pub(crate) async fn hear(&mut self) -> Value {
        let text = if self.is_socket {
            let (op, payload) = self.hear_frame().await;
            assert_eq!(op, Op::Text, "{}", String::from_utf8_lossy(&payload));
            payload
        } else {
            let mut line = Vec::new();
            self.stream.read_until(b'\n', &mut line).await.unwrap();
            line
        };
        serde_json::from_slice(&text).unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&text)))
    }

    /// A frame of a WebSocket, masked by zeros where it must be.
    pub(crate) fn frame(&self, op: Op, payload: &[u8], is_last: bool) -> Vec<u8> {
        let mut frame = vec![u8::from(is_last) << 7 | op as u8];
        let mask = u8::from(self.is_masked) << 7;
        match payload.len() {
            len @ 0..126 => frame.push(mask | u8::try_from(len).unwrap()),
            len @ 126..0x1_0000 => {
                frame.push(mask | 126);
                frame.extend(u16::try_from(len).unwrap().to_be_bytes());
            }
            len => {
                frame.push(mask | 127);
                frame.extend(u64::try_from(len).unwrap().to_be_bytes());
            }
        }
        frame.extend([0; 4].iter().take(if self.is_masked { 4 } else { 0 }));
        frame.extend(payload);
        frame
    }

    pub(crate) async fn say_frame(&mut self, op: Op, payload: &[u8], is_last: bool) {
        let frame = self.frame(op, payload, is_last);
        self.write(&frame).await;
    }

    pub(crate) async fn hear_frame(&mut self) -> (Op, Vec<u8>) {
        let first = self.stream.read_u8().await.unwrap();
        let (is_last, payload) = self.rest_of_frame(first).await;
        assert!(is_last, "messages of tests are short");
        (OPS.into_iter().find(|op| *op as u8 == first & 0xf).unwrap(), payload)
    }

    /// Whether a frame is the last of its message, and what is in it.
    pub(crate) async fn rest_of_frame(&mut self, first: u8) -> (bool, Vec<u8>) {
        let second = self.stream.read_u8().await.unwrap();
        let len = match second & 0x7f {
            126 => usize::from(self.stream.read_u16().await.unwrap()),
            127 => usize::try_from(self.stream.read_u64().await.unwrap()).unwrap(),
            len => usize::from(len),
        };
        assert_eq!(second & 0x80 != 0, !self.is_masked, "only clients mask");
        let mut mask = [0; 4];
        if !self.is_masked {
            self.stream.read_exact(&mut mask).await.unwrap();
        }
        let mut payload = vec![0; len];
        self.stream.read_exact(&mut payload).await.unwrap();
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        (first & 0x80 != 0, payload)
    }

    /// The end, and what was before it.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest).await;
        rest
    }

    /// Opens a WebSocket, from a page of this origin.
    pub(crate) async fn open(&mut self, origin: Option<&str>) {
        let origin = origin.map(|origin| format!("Origin: {origin}\r\n")).unwrap_or_default();
        let request = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{origin}\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        self.write(request.as_bytes()).await;
        let answer = self.head().await;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    }

    async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }
}
