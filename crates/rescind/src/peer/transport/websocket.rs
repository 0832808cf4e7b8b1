//! WebSockets: one JSON-RPC message a text message.

use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_core::Stream;
use futures_sink::Sink;
use rescind_proto::cause::sanitised;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_websockets::{ClientBuilder, CloseCode, Config, Error, Limits, Message, ServerBuilder, WebSocketStream};

use super::{Arrival, MessageStream, ReadWrite, Transport};

/// The longest that the opening may take.
const OPENING: Duration = Duration::from_secs(10);

/// The most bytes that the other side may send before it is open.
const MAX_OPENING: usize = 64 * 1024;

/// Messages are gathered up to this many bytes before they are written.
const GATHERED: usize = 64 * 1024;

/// Connects to a WebSocket, `ws://host:port/path`. There is no encryption: for that, bring a stream of your own to
/// [`websocket_over`].
///
/// Each message is a text message; pings are answered. A binary message counts as garbage, and a server answers it with
/// -32700.
///
/// # Bounds
///
/// The opening may take 10 s. A message longer than the builder's [`max_message`](crate::peer::Builder::max_message)
/// closes the socket with code 1009. At most 64 KiB and one message are gathered for a peer that does not read.
///
/// # When the other side dies
///
/// The input ends, even within a message: requests in flight are cancelled, calls end as
/// [`CallError::Closed`](crate::peer::CallError::Closed). A close with any code but 1000 and 1001 is the connection's
/// error, which names the code. Only the clocks of calls notice a machine that vanishes.
///
/// # Dropping it
///
/// closes the socket at once, without the closing handshake; an ordered end of the connection does that first, for at
/// most the builder's [`linger`](crate::peer::Builder::linger). Dropping the future connects to nothing.
///
/// # Errors
///
/// Nothing accepts the connection, or the other side does not speak WebSocket.
pub async fn websocket(url: &str) -> io::Result<Transport> {
    let stream = TcpStream::connect(authority(url)?).await?;
    let _ = stream.set_nodelay(true);
    websocket_over(url, stream).await
}

/// Opens a WebSocket on a stream that is connected already: one that encrypts, or a Unix socket. `url` names the host and
/// path to ask for; everything else is as with [`websocket`].
///
/// # Errors
///
/// The other side does not speak WebSocket, or took more than 10 s.
pub async fn websocket_over(
    url: &str,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> io::Result<Transport> {
    let client = ClientBuilder::new().config(config()).uri(url).map_err(invalid)?;
    let opening = Box::pin(async move {
        let (socket, _response) = client.connect_on(OpeningGate::closed(stream)).await?;
        Ok(socket)
    });
    let socket = in_time(opening).await?;
    Ok(Transport::messages(WebSocket::new(SocketState::Open(Box::new(socket)))))
}

/// Makes the server's end of a WebSocket of a stream that was just accepted; everything else is as with [`websocket`].
///
/// The opening happens when the connection is driven; if it fails, that is the connection's error. Pages in browsers
/// are refused: see [`Listener::allow_origin`](super::Listener::allow_origin).
#[must_use]
pub fn accept_websocket(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Transport {
    accept_from(stream, Vec::new())
}

/// Accepts a WebSocket, also from pages of these origins.
pub(super) fn accept_from(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    origins: Vec<Box<str>>,
) -> Transport {
    let accepting = async move {
        let server = ServerBuilder::new().config(config());
        let (request, mut socket) = server.accept(OpeningGate::closed(stream)).await?;
        // Any page in a browser can reach loopback; browsers always send its origin.
        if let Some(origin) = request.headers().get("origin")
            && !origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes())
        {
            let refusal = Message::close(Some(CloseCode::POLICY_VIOLATION), "this origin is not allowed");
            let _ = Pin::new(&mut socket).start_send(refusal);
            let _ = poll_fn(|cx| Pin::new(&mut socket).poll_flush(cx)).await;
            return Err(Error::Io(io::Error::new(io::ErrorKind::PermissionDenied, "its origin is not allowed")));
        }
        Ok(socket)
    };
    Transport::messages(WebSocket::new(SocketState::Opening(Box::pin(in_time(accepting)))))
}

type OpenSocket = WebSocketStream<OpeningGate>;

fn config() -> Config {
    Config::default().flush_threshold(GATHERED)
}

async fn in_time(opening: impl Future<Output = Result<OpenSocket, Error>>) -> io::Result<OpenSocket> {
    let opened = tokio::time::timeout(OPENING, opening).await;
    let mut socket =
        opened.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no WebSocket was opened"))?.map_err(broken)?;
    socket.get_mut().left = None;
    Ok(socket)
}

/// The host and port of a URL.
fn authority(url: &str) -> io::Result<String> {
    let rest = url.strip_prefix("ws://").ok_or_else(|| invalid("the URL of a WebSocket starts with ws:// here"))?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    Ok(if has_port { authority.to_owned() } else { format!("{authority}:80") })
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

fn broken(error: Error) -> io::Error {
    if let Error::Io(error) = error { error } else { io::Error::new(io::ErrorKind::InvalidData, error) }
}

/// A stream that limits the bytes it passes before the opening is done.
struct OpeningGate {
    stream: Box<dyn ReadWrite>,
    left: Option<usize>,
}

impl OpeningGate {
    fn closed(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { stream: Box::new(stream), left: Some(MAX_OPENING) }
    }
}

impl AsyncRead for OpeningGate {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut *self.stream).poll_read(cx, buffer))?;
        if let Some(left) = &mut self.left {
            let read = buffer.filled().len() - before;
            *left = left.checked_sub(read).ok_or_else(|| io::Error::other("too much was sent before the opening"))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for OpeningGate {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(cx)
    }
}

/// A WebSocket as a stream of messages.
struct WebSocket {
    state: SocketState,
    limits: Limits,
    /// The gathered messages could not be written at once: no more are added.
    is_blocked: bool,
}

enum SocketState {
    Opening(Pin<Box<dyn Future<Output = io::Result<OpenSocket>> + Send>>),
    Open(Box<OpenSocket>),
    /// It could not be opened.
    Failed,
}

impl WebSocket {
    fn new(state: SocketState) -> Self {
        Self { state, limits: Limits::default(), is_blocked: false }
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut OpenSocket>>> {
        if let SocketState::Opening(opening) = &mut self.state {
            match ready!(opening.as_mut().poll(cx)) {
                Ok(mut socket) => {
                    *socket.limits_mut() = self.limits;
                    self.state = SocketState::Open(Box::new(socket));
                }
                Err(error) => {
                    self.state = SocketState::Failed;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(match &mut self.state {
            SocketState::Open(socket) => Ok(Pin::new(&mut **socket)),
            SocketState::Opening(_) | SocketState::Failed => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl MessageStream for WebSocket {
    fn protocol_name(&self) -> Option<&'static str> {
        Some("websocket")
    }

    fn limit(&mut self, max_message: usize) {
        self.limits = Limits::default().max_payload_len(Some(max_message));
        if let SocketState::Open(socket) = &mut self.state {
            *socket.limits_mut() = self.limits;
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Arrival>>> {
        let mut socket = ready!(self.poll_open(cx))?;
        loop {
            let message = match ready!(socket.as_mut().poll_next(cx)) {
                None => return Poll::Ready(Ok(None)),
                Some(Ok(message)) => message,
                Some(Err(error)) => {
                    if let Error::PayloadTooLong { max_len, .. } = &error {
                        let reason = format!("max length: {max_len}");
                        // Fails if the close was sent already.
                        let _ = socket.as_mut().start_send(Message::close(Some(CloseCode::MESSAGE_TOO_BIG), &reason));
                    }
                    let _ = socket.as_mut().poll_flush(cx);
                    return Poll::Ready(Err(broken(error)));
                }
            };
            if let Some((code, reason)) = message.as_close() {
                if !matches!(code, CloseCode::NORMAL_CLOSURE | CloseCode::GOING_AWAY | CloseCode::NO_STATUS_RECEIVED) {
                    let _ = socket.as_mut().poll_flush(cx);
                    let text = format!("the peer closed with code {}: {}", u16::from(code), sanitised(reason));
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, text)));
                }
            } else if message.is_text() {
                return Poll::Ready(Ok(Some(Arrival::Message(Bytes::from(message.into_payload())))));
            } else if message.is_binary() {
                return Poll::Ready(Ok(Some(Arrival::Garbage(Bytes::from(message.into_payload())))));
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        if self.is_blocked {
            ready!(self.poll_flush(cx))?;
        }
        let mut socket = ready!(self.poll_open(cx))?;
        ready!(socket.as_mut().poll_ready(cx)).map_err(broken)?;
        // The engine writes text only; a filter's mistake must not break the connection.
        let text = String::from_utf8_lossy(message).into_owned();
        Poll::Ready(socket.start_send(Message::text(text)).map_err(broken))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(self.poll_open(cx))?.poll_flush(cx);
        self.is_blocked = flushed.is_pending();
        flushed.map_err(broken)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            SocketState::Open(socket) => Pin::new(&mut **socket).poll_close(cx).map_err(broken),
            SocketState::Opening(_) | SocketState::Failed => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_host_and_port() {
        let leads = |url| authority(url).ok();
        assert_eq!(leads("ws://localhost/path?q"), Some("localhost:80".to_owned()));
        assert_eq!(leads("ws://[::1]:81"), Some("[::1]:81".to_owned()));
        assert_eq!(leads("ws://[::1]/"), Some("[::1]:80".to_owned()));
        assert_eq!(leads("wss://localhost"), None);
    }
}
