//! A server over HTTP, as a stream of messages.

use std::{
    fmt, io,
    sync::Arc,
    task::{Context, Poll},
};

use http::HeaderValue;
use rescind::peer::{
    Transport,
    transport::{Arrival, Credentials, Departure, MessageStream, SigningIn},
};
use tokio::{runtime::Handle, task::AbortHandle};

use super::{
    authorizer::Authorizer,
    connect::{ConnectConfig, ConnectError, Sender},
    shared::{OnNotice, Shared, keep_time},
};
use crate::{
    client::{HttpClient, HttpClientConfig, HttpClientNotice, LocalMessage, headers::Origin},
    shell::seed,
};

/// The messages of a server that speaks Streamable HTTP.
///
/// Whoever sends and receives them speaks as on a pipe, cancels included. Closing it in order ends the session; dropping it
/// drops every request at once.
///
/// ```no_run
/// use rescind::mcp::Client;
/// use rescind_http::{
///     client::HttpClientConfig,
///     shell::client::{ConnectConfig, HttpTransport},
/// };
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let server = HttpClientConfig::new("https://example.com/mcp")?.header("Authorization: Bearer token")?;
/// let transport = HttpTransport::new(server, ConnectConfig::default())?;
/// let client = Client::connect(transport, "my-client", "1.0.0").await?;
/// # Ok(())
/// # }
/// ```
pub struct HttpTransport {
    shared: Arc<Shared>,
    clock: AbortHandle,
}

impl HttpTransport {
    /// A transport to the server that `config` names. Nothing is sent before the first message. Call it on a tokio runtime,
    /// which performs its requests.
    ///
    /// # Errors
    ///
    /// TLS cannot be set up.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn new(config: HttpClientConfig, connect: ConnectConfig) -> Result<Self, ConnectError> {
        Self::open(config, connect, None, None)
    }

    /// As [`new`](Self::new), and tells `on_notice` what no message tells: which notification was refused, that a session
    /// was lost, which tool was left out. It is called by whatever task finds out, and must not block.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn with_notices(
        config: HttpClientConfig,
        connect: ConnectConfig,
        on_notice: impl FnMut(HttpClientNotice) + Send + 'static,
    ) -> Result<Self, ConnectError> {
        Self::open(config, connect, None, Some(Box::new(on_notice)))
    }

    /// As [`with_notices`](Self::with_notices), with somebody who sees to the tokens that the server wants.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn authorized(
        config: HttpClientConfig,
        connect: ConnectConfig,
        authorizer: Arc<dyn Authorizer>,
        on_notice: impl FnMut(HttpClientNotice) + Send + 'static,
    ) -> Result<Self, ConnectError> {
        Self::open(config, connect, Some(authorizer), Some(Box::new(on_notice)))
    }

    fn open(
        mut config: HttpClientConfig,
        connect: ConnectConfig,
        authorizer: Option<Arc<dyn Authorizer>>,
        on_notice: Option<OnNotice>,
    ) -> Result<Self, ConnectError> {
        config.seed = seed::pinned_or_drawn(config.seed);
        let sender = Sender::new(config.url(), connect)?;
        let runtime = Handle::current();
        let authorizer = authorizer.map(|authorizer| (Origin::of(config.url()), authorizer));
        let shared = Shared::new(HttpClient::new(config), sender, authorizer, on_notice, runtime.clone());
        let clock = runtime.spawn(keep_time(Arc::downgrade(&shared))).abort_handle();
        Ok(Self { shared, clock })
    }
}

impl MessageStream for HttpTransport {
    fn protocol_name(&self) -> Option<&'static str> {
        Some("http")
    }

    fn signing_in(&self) -> Option<SigningIn> {
        self.shared.signing_in()
    }

    fn limit(&mut self, max_message: usize) {
        self.shared.step(|client, _| client.set_max_message(max_message));
    }

    fn handle_credentials(&mut self, credentials: Credentials) {
        let value = credentials.secret().cloned().and_then(|secret| HeaderValue::from_maybe_shared(secret).ok());
        self.shared.step(|client, _| client.set_credentials(value));
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Arrival>>> {
        self.shared.poll_message(cx).map(|message| {
            Ok(message.map(|LocalMessage { json, unanswered }| match unanswered {
                Some(why) => Arrival::Unanswered { answer: json.into(), why },
                None => Arrival::Message(json.into()),
            }))
        })
    }

    fn poll_send(&mut self, _cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        self.shared.step(|client, now| client.handle_message(now, message));
        Poll::Ready(Ok(()))
    }

    fn watch_departures(&mut self) -> bool {
        self.shared.watch_departures();
        true
    }

    fn poll_departure(&mut self, cx: &mut Context<'_>) -> Poll<Departure> {
        self.shared.poll_departure(cx)
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.poll_close(cx).map(Ok)
    }
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        self.clock.abort();
        self.shared.abandon();
    }
}

impl From<HttpTransport> for Transport {
    fn from(transport: HttpTransport) -> Self {
        Self::messages(transport)
    }
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").finish_non_exhaustive()
    }
}
