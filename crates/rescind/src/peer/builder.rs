//! Describing a connection.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    time::Duration,
};

use rescind_proto::{
    connection::ConnectionConfig,
    dialect::{Dialect, Family},
    framing::Framing,
    link::CancelNotice,
    side::Side,
};

use super::{
    Driver, Peer,
    filter::{Message, Pass},
    handler::{IntoRoute, NotificationHandler, Service},
    shared::PeerShared,
    transport::Transport,
};

/// A connection in the making: its dialect, its handlers, its limits.
#[must_use = "nothing is connected until `serve`, `accept` or `connect`"]
pub struct Builder {
    config: ConnectionConfig,
    pub(crate) service: Service,
    framing: Option<Framing>,
    linger: Duration,
}

impl Builder {
    pub(crate) fn new(dialect: Option<&'static Dialect>) -> Self {
        let mut config = ConnectionConfig::new(Side::Client);
        config.dialect = dialect;
        config.seed = RandomState::new().hash_one(0);
        Self { config, service: Service::default(), framing: None, linger: Duration::from_secs(5) }
    }

    /// Handles requests of this method. The last handler of a method counts.
    ///
    /// Anything else is answered with -32601, unless there is a handler for [other requests](Self::on_other_requests).
    pub fn on_request<Args>(mut self, method: &str, handler: impl IntoRoute<Args>) -> Self {
        self.service.requests.insert(method.into(), handler.into_route());
        self
    }

    /// Handles requests of every other method.
    pub fn on_other_requests<Args>(mut self, handler: impl IntoRoute<Args>) -> Self {
        self.service.fallback = Some(handler.into_route());
        self
    }

    /// Handles notifications of this method, in the order of the wire.
    ///
    /// Cancels and the progress of our own calls are handled by the connection and never come here.
    pub fn on_notification<Args>(mut self, method: &str, handler: impl NotificationHandler<Args>) -> Self {
        self.service.notices.insert(method.into(), handler.erased().0);
        self
    }

    /// Handles notifications of every other method.
    pub fn on_other_notifications<Args>(mut self, handler: impl NotificationHandler<Args>) -> Self {
        self.service.other_notices = Some(handler.erased().0);
        self
    }

    /// Observes every cancel that arrives, also of unknown and malformed ids, after it was handled (case 8). Where closing the
    /// stream of a request cancels it (MCP-H03), that is one, too, with the cause `disconnect`.
    ///
    /// The reason in it is the peer's text: untrusted.
    pub fn on_cancelled(mut self, observer: impl Fn(&CancelNotice) + Send + Sync + 'static) -> Self {
        self.service.on_cancelled.push(Box::new(observer));
        self
    }

    /// Adds a filter that sees every message that arrives, cancels included, before anything else does, and may veto or
    /// rewrite it.
    ///
    /// A filter that panics lets its message pass.
    pub fn incoming(mut self, filter: impl Fn(&Message<'_>) -> Pass + Send + Sync + 'static) -> Self {
        self.service.incoming.push(Box::new(filter));
        self
    }

    /// Adds a filter that sees every message that leaves, cancels included, just before it is written, and may veto or
    /// rewrite it.
    ///
    /// A filter that panics lets its message pass.
    pub fn outgoing(mut self, filter: impl Fn(&Message<'_>) -> Pass + Send + Sync + 'static) -> Self {
        self.service.outgoing.push(Box::new(filter));
        self
    }

    /// Limits how many handlers run at once, including cancelled ones that have not ended (D12). Default 256.
    ///
    /// A handler that waits for the peer's answer to a call of its own does not count: the peer may have to send another
    /// request before it can answer. So even a limit of 1 lets handlers interleave at such calls; work that must not
    /// interleave needs a lock. All handlers together never exceed this limit plus [`max_queued`](Self::max_queued), plus
    /// those that may wait for their client to call again (`mcp::Server::suspended`).
    pub const fn max_running(mut self, handlers: usize) -> Self {
        self.config.max_running = handlers;
        self
    }

    /// Limits how many requests wait for a handler; one more is refused (D12). Default 4,096.
    pub const fn max_queued(mut self, requests: usize) -> Self {
        self.config.max_queued = requests;
        self
    }

    /// Limits how long a request of one of several clients waits for a handler; then it is refused with -31004. Default 30 s.
    ///
    /// It is for connections that several clients share, as over HTTP where they have no session. There a client also takes
    /// another of these handlers only while it has fewer than are free, so that no client has more than half of them, and
    /// the next no more than half of what is left ([`Attachment::counted_for`](super::transport::Attachment::counted_for)).
    /// A client that has a connection to itself has all of them, and its requests wait until it cancels them.
    pub const fn max_wait(mut self, time: Duration) -> Self {
        self.config.max_wait = time;
        self
    }

    /// Sets how long a cancelled handler may take to stop before it is dropped (D22). Default 5 s.
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.config.grace = grace;
        self
    }

    /// Sets how long a handler may take to stop after the end of input or a shutdown, and that of a question to a person
    /// whatever stops it (D22). Default 1 s.
    pub const fn short_grace(mut self, grace: Duration) -> Self {
        self.config.short_grace = grace;
        self
    }

    /// Sets how long requests may go on after the end of input before they are cancelled (D27). Default: they are
    /// cancelled at once.
    pub const fn drain_on_eof(mut self, time: Duration) -> Self {
        self.config.drain_on_eof = Some(time);
        self
    }

    /// Sets how long the last bytes of an ending connection wait for a peer that does not read. Default 5 s.
    pub const fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
        self
    }

    /// Limits the length of a message that is taken in, in bytes. Default 64 MiB.
    ///
    /// A longer one is skipped in constant memory. If it is a request, it is refused; if it is an answer, its call ends
    /// with an error. A WebSocket is closed instead.
    pub const fn max_message(mut self, bytes: usize) -> Self {
        self.config.max_message = bytes;
        self
    }

    /// Sets how messages are framed, in place of the dialect's way: headers in LSP, lines elsewhere. No effect on a
    /// transport that frames messages itself.
    pub const fn framing(mut self, framing: Framing) -> Self {
        self.framing = Some(framing);
        self
    }

    /// Changes any other setting of the connection.
    pub fn configure(mut self, change: impl FnOnce(&mut ConnectionConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Serves the other side of `transport` until its input has ended and everything is settled.
    ///
    /// # Errors
    ///
    /// The link broke.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection at once, as dropping its [`Driver`] does.
    pub async fn serve(self, transport: impl Into<Transport>) -> io::Result<()> {
        let (peer, driver) = self.join(Side::Server, transport.into(), true);
        drop(peer);
        driver.await
    }

    /// Serves the other side of `transport`, and returns a handle with which to send it requests outside of handlers.
    ///
    /// The connection goes on to the end of its input, with or without handles. Nothing happens until the driver is
    /// polled.
    pub fn accept(self, transport: impl Into<Transport>) -> (Peer, Driver) {
        self.join(Side::Server, transport.into(), true)
    }

    /// Connects to a server behind `transport`.
    ///
    /// The connection shuts down when the last handle is dropped. Nothing happens until the driver is polled.
    pub fn connect(self, transport: impl Into<Transport>) -> (Peer, Driver) {
        self.join(Side::Client, transport.into(), false)
    }

    /// Connects to the handlers of `peer` from within the process. The connection ends with its last handle, and with the
    /// connection of `peer` at the latest: nothing waits for answers then.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[cfg(feature = "mcp")]
    pub(crate) fn ask_handlers_of(peer: &Peer, dialect: &'static Dialect) -> Peer {
        let (near, far) = super::transport::memory();
        let config = ConnectionConfig { dialect: Some(dialect), ..ConnectionConfig::new(Side::Client) };
        let linger = std::time::Duration::ZERO;
        let shared = PeerShared::new(config.clone(), std::sync::Arc::clone(&peer.shared().service), None);
        let answering = Peer::of(&shared);
        tokio::spawn(Driver::new(shared, near, Some(answering), linger, &config));
        let (asking, driver) = Self::new(Some(dialect)).join(Side::Server, far, false);
        let (outer, inner) = (std::sync::Arc::clone(peer.shared()), std::sync::Arc::clone(asking.shared()));
        tokio::spawn(async move {
            let (mut driver, mut closed) = (std::pin::pin!(driver), std::pin::pin!(outer.closed()));
            let mut is_closed = false;
            let _ = std::future::poll_fn(|cx| {
                if !is_closed && closed.as_mut().poll(cx).is_ready() {
                    is_closed = true;
                    inner.shutdown();
                }
                driver.as_mut().poll(cx)
            })
            .await;
        });
        asking
    }

    fn join(self, role: Side, mut transport: Transport, keeps: bool) -> (Peer, Driver) {
        let Self { mut config, service, framing, linger } = self;
        config.role = role;
        let is_lsp = config.dialect.is_some_and(|dialect| dialect.family == Family::Lsp);
        let usual = if is_lsp { Framing::Headers } else { Framing::Line };
        let demanded = transport.io.prepare(&mut config);
        config.framing = demanded.or(framing).or(transport.framing).unwrap_or(usual);
        config.reports_cancels &= cfg!(feature = "tracing") || !service.on_cancelled.is_empty();
        let shared = PeerShared::new(config.clone(), service, transport.io.protocol_name());
        let peer = Peer::of(&shared);
        let keep = keeps.then(|| peer.clone());
        (peer, Driver::new(shared, transport, keep, linger, &config))
    }
}

debug_fields!(Builder, config);
