//! The relay inside a process, around a connection that another library uses.
//!
//! A program on `rmcp`, `agent-client-protocol`, `async-lsp` or its own code passes its reader and writer through
//! [`wrap`] and hands what comes back to its library. Between the two stands the machine of
//! [`rescind_proto::relay`], as `rescind run` puts it between two processes:
//!
//! ```
//! use std::time::Duration;
//! use rescind::relay;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # let (reader, writer) = tokio::io::split(tokio::io::duplex(4096).0);
//! let (reader, writer, link) = relay::wrap(reader, writer)
//!     .as_client()
//!     .response_timeout(Duration::from_secs(60))
//!     .spawn();
//! // `reader` and `writer` go to the library; `link` stays here.
//! for request in link.in_flight() {
//!     println!("{} {} for {:?}: {}", request.id, request.method, request.age, request.state.as_str());
//!     link.stop(request.key, Some("the user pressed Stop"));
//! }
//! # drop((reader, writer));
//! # }
//! ```
//!
//! `docs/wrap.md` says what this cures in which library, and what no relay can cure.

mod driver;
mod halves;
mod handle;
mod shared;

use std::{sync::Arc, time::Duration};

use rescind_proto::{
    dialect::Dialect,
    framing::Framing,
    link::Clock,
    relay::{ClockRule, EarlyCancelLimits, Emit, RelayConfig, RelayEvent},
    side::{Side, Sides},
};
use tokio::io::{AsyncRead, AsyncWrite};

pub use driver::WrapDriver;
pub use halves::{Reader, Writer};
pub use handle::{Handle, WrappedRequest};

use shared::{SharedLink, WrappedLink};

/// Wraps the two halves of a connection. Next, choose the role of the program.
///
/// `reader` and `writer` are the connection to the peer. Nothing is read or written before the [`WrapDriver`] is polled.
pub const fn wrap<R, W>(reader: R, writer: W) -> Ends<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    Ends { reader, writer }
}

/// A connection whose program has no role yet. The role matters: the protocols do not let both sides send the same
/// cancels.
#[derive(Debug)]
#[must_use = "call `as_client` or `as_server`"]
pub struct Ends<R, W> {
    reader: R,
    writer: W,
}

impl<R, W> Ends<R, W> {
    /// The wrapped program is the client: an MCP host, an ACP editor, an LSP editor.
    pub fn as_client(self) -> Wrap<R, W> {
        Wrap::new(self, Side::Client)
    }

    /// The wrapped program is the server: an MCP server, an ACP agent, a language server.
    pub fn as_server(self) -> Wrap<R, W> {
        Wrap::new(self, Side::Server)
    }
}

/// The settings of a connection to wrap.
#[must_use = "nothing happens before `spawn` or `split`"]
pub struct Wrap<R, W> {
    ends: Ends<R, W>,
    program: Side,
    config: RelayConfig,
    drain_on_eof: Duration,
    on_event: Option<OnEvent>,
}

/// How long a cancel of the wrapped program waits for its request (D9).
///
/// A library whose tasks race for the pipe may write a cancel before its request, on a busy machine long before. The
/// usual short bounds protect against strangers. This sender shares our process, so as many cancels are held as requests
/// may be in flight.
const OWN_LIBRARY_HOLD: Duration = Duration::from_secs(10);

/// The observer of events.
type OnEvent = Box<dyn FnMut(RelayEvent) + Send>;

impl<R, W> Wrap<R, W> {
    fn new(ends: Ends<R, W>, program: Side) -> Self {
        let mut config = RelayConfig { emit: Emit { notices: false, ..Emit::default() }, ..RelayConfig::default() };
        config.early_cancels[program] = EarlyCancelLimits { most: config.max_in_flight, hold: OWN_LIBRARY_HOLD };
        Self { ends, program, config, drain_on_eof: Duration::ZERO, on_event: None }
    }

    /// Changes any setting of the machine; every bound has a documented default (invariant 8).
    pub fn configure(mut self, change: impl FnOnce(&mut RelayConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Ends each request of the client that gets no answer, and no progress it asked for, for this long (D16).
    ///
    /// The other side gets a cancel, and the requester an error from the relay. The clock starts when the request
    /// reaches the relay, whether or not the peer reads. Requests that wait for people have no clock unless one is
    /// configured by name.
    pub fn response_timeout(self, limit: Duration) -> Self {
        self.clock(Clock::Response, limit)
    }

    /// Ends each request of the client that takes longer than this, with or without progress (D16).
    pub fn total_timeout(self, limit: Duration) -> Self {
        self.clock(Clock::Total, limit)
    }

    /// Time to wait for the peer's answer to a cancelled request before answering on its behalf (D34). 5 s by default.
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.config.grace = grace;
        self
    }

    /// Refuses a request that arrives while this many of its side are in flight (D12). 65,536 by default.
    ///
    /// A library that stops reading when its handlers are busy stops reading cancels, too. A limit below the
    /// library's own keeps it reading.
    pub const fn max_in_flight(mut self, most: usize) -> Self {
        self.config.max_in_flight = most;
        self
    }

    /// Fixes the dialect of both sides. By default it is detected (D2).
    pub const fn dialect(mut self, dialect: &'static Dialect) -> Self {
        self.config.dialects = Sides { client: Some(dialect), server: Some(dialect) };
        self
    }

    /// Fixes the framing of both directions. By default it is detected.
    pub const fn framing(mut self, framing: Framing) -> Self {
        self.config.framing = Some(framing);
        self
    }

    /// After the client closes its end, lets the server work for this long before requests in flight are cancelled and
    /// the server reads the end (D27). By default it gets no time.
    ///
    /// For clients that send everything at once and then wait, as in `printf … | server`.
    pub const fn drain_on_eof(mut self, limit: Duration) -> Self {
        self.drain_on_eof = limit;
        self
    }

    /// Calls `observer` with cancels, receipts, timeouts, and what was dropped or refused, in order.
    ///
    /// The driver calls it without holding a lock, so it may use the [`Handle`]. If it panics, the driver panics. With
    /// [`Emit::requests`] the start and the end of every request are reported too.
    pub fn on_event(mut self, observer: impl FnMut(RelayEvent) + Send + 'static) -> Self {
        self.config.emit.notices = true;
        self.on_event = Some(Box::new(observer));
        self
    }

    fn clock(mut self, clock: Clock, limit: Duration) -> Self {
        self.config.clocks.push(ClockRule { clock, method: None, name: None, limit });
        self
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Wrap<R, W> {
    /// Returns the program's two halves, and the driver. Nothing happens unless the driver is polled.
    ///
    /// Needs a tokio runtime with time when the driver is first polled.
    pub fn split(self) -> (Reader, Writer, WrapDriver<R, W>) {
        let Self { ends: Ends { reader, writer }, program, config, drain_on_eof, on_event } = self;
        let shared = Arc::new(SharedLink::new(WrappedLink::new(config, program, drain_on_eof)));
        let driver = WrapDriver::new(Arc::clone(&shared), reader, writer, on_event);
        (Reader(Arc::clone(&shared)), Writer(shared), driver)
    }
}

impl<R, W> Wrap<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    /// Returns the program's two halves, and runs the driver as a task of the current tokio runtime.
    ///
    /// The task ends when the connection has; [`Handle::closed`] waits for that.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn spawn(self) -> (Reader, Writer, Handle) {
        let (reader, writer, driver) = self.split();
        let handle = driver.handle();
        tokio::spawn(driver);
        (reader, writer, handle)
    }
}

debug_fields!(Wrap<R, W>, program, config);
