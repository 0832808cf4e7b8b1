//! A server that does on the socket exactly what a test says.

use std::{collections::HashMap, future::poll_fn, net::SocketAddr, time::Duration};

use rescind::peer::transport::{Arrival, MessageStream};
use rescind_http::{
    client::HttpClientConfig,
    shell::client::{ConnectConfig, HttpTransport, Proxy},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct RawServer {
    listener: TcpListener,
}

/// A request, and the connection that it came on.
pub(crate) struct RawRequest {
    /// The first line.
    pub(crate) line: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
    pub(crate) stream: TcpStream,
}

impl RawServer {
    pub(crate) async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address())
    }

    pub(crate) async fn accept(&self) -> TcpStream {
        in_time(self.listener.accept()).await.unwrap().0
    }

    /// The next connection, however late it comes.
    pub(crate) async fn accept_late(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    /// The next request, on a connection of its own.
    pub(crate) async fn request(&self) -> RawRequest {
        RawRequest::read(self.accept().await).await
    }
}

impl RawRequest {
    pub(crate) async fn read(mut stream: TcpStream) -> Self {
        let mut text = Vec::new();
        loop {
            if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8(text[..end].to_vec()).unwrap();
                let mut lines = head.split("\r\n");
                let line = lines.next().unwrap().to_owned();
                let headers: HashMap<String, String> = lines
                    .map(|line| line.split_once(':').unwrap())
                    .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
                    .collect();
                let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
                let mut body = text.split_off(end + 4);
                while body.len() < length {
                    assert!(in_time(stream.read_buf(&mut body)).await.unwrap() > 0, "the body is cut off");
                }
                return Self { line, headers, body: String::from_utf8(body).unwrap(), stream };
            }
            assert!(in_time(stream.read_buf(&mut text)).await.unwrap() > 0, "the head is cut off: {text:?}");
        }
    }

    pub(crate) async fn write(&mut self, text: &str) {
        in_time(self.stream.write_all(text.as_bytes())).await.unwrap();
    }

    /// A whole response, and the connection again.
    pub(crate) async fn respond(mut self, status: &str, headers: &str, body: &str) -> TcpStream {
        let length = body.len();
        self.write(&format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}")).await;
        self.stream
    }

    pub(crate) async fn respond_json(self, body: &Value) -> TcpStream {
        self.respond("200 OK", "content-type: application/json\r\n", &body.to_string()).await
    }

    /// The head of a stream of events.
    pub(crate) async fn stream(&mut self) {
        self.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n").await;
    }

    pub(crate) async fn event(&mut self, message: &Value) {
        let event = format!("data: {message}\n\n");
        self.write(&format!("{:x}\r\n{event}\r\n", event.len())).await;
    }

    /// Waits until the client has closed the connection.
    pub(crate) async fn closed(&mut self) {
        let mut rest = Vec::new();
        // However it closes.
        let _ = in_time(self.stream.read_to_end(&mut rest)).await;
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }
}

/// A local client, on a transport.
pub(crate) struct Local(pub(crate) HttpTransport);

impl Local {
    pub(crate) fn to(url: &str) -> Self {
        Self::with(HttpClientConfig::new(url).unwrap())
    }

    pub(crate) fn with(config: HttpClientConfig) -> Self {
        Self(HttpTransport::new(config, direct()).unwrap())
    }

    pub(crate) fn say(&mut self, message: &str) {
        let polled =
            self.0.poll_send(&mut std::task::Context::from_waker(std::task::Waker::noop()), message.as_bytes());
        assert!(polled.is_ready());
    }

    pub(crate) async fn hear(&mut self) -> Value {
        let arrival = in_time(poll_fn(|cx| self.0.poll_next(cx))).await.unwrap();
        let Some(Arrival::Message(message) | Arrival::Unanswered { answer: message, .. }) = arrival else {
            panic!("{arrival:?}")
        };
        serde_json::from_slice(&message).unwrap()
    }

    pub(crate) async fn close(&mut self) {
        in_time(poll_fn(|cx| self.0.poll_close(cx))).await.unwrap();
    }

    /// Opens a session; the server does not let anyone listen.
    pub(crate) async fn open_session(&mut self, server: &RawServer) {
        self.say(&crate::rig::initialize(crate::rig::LEGACY));
        let post = server.request().await;
        let body = crate::rig::initialized(0, crate::rig::LEGACY).to_string();
        post.respond("200 OK", "content-type: application/json\r\nmcp-session-id: s1\r\nconnection: close\r\n", &body)
            .await;
        self.hear().await;
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        server.request().await.respond("202 Accepted", "connection: close\r\n", "").await;
        let get = server.request().await;
        assert!(get.line.starts_with("GET "));
        get.respond("405 Method Not Allowed", "connection: close\r\n", "").await;
    }
}

pub(crate) fn direct() -> ConnectConfig {
    ConnectConfig { proxy: Proxy::Direct, ..ConnectConfig::default() }
}

pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}
