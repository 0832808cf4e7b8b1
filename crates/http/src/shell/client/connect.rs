//! Connections to servers: direct or through a proxy, with TLS where the URL asks for it.
//!
//! Each connection has a place that it keeps until it is closed, so the bound is on descriptors, and some are held for
//! `Lane::Reserved`. Clones share their places, and so do all sessions of `serve --upstream`.

use std::{
    error::Error,
    fmt,
    future::Future,
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Uri, header};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::{
        legacy::{
            Client, ResponseFuture,
            connect::{
                Connected, Connection, HttpConnector,
                proxy::{SocksV5, Tunnel},
            },
        },
        proxy::matcher::{Intercept, Matcher},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
#[cfg(feature = "tls")]
use rustls::{ConfigBuilder, RootCertStore, WantsVerifier, client::WantsClientCert, crypto::ring};
#[cfg(feature = "tls")]
use rustls_platform_verifier::BuilderVerifierExt;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tower_service::Service;

use super::{
    request_body::RequestBody,
    resolver::{Guard, Resolver},
};
use crate::client::Lane;
#[cfg(unix)]
use crate::shell::local;

/// How connections to a server are made.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// Time for a connection to open, a proxy and TLS included. A request waits as long for its turn to open one.
    pub patience: Duration,
    /// How long a connection that nothing uses is kept. Node and uvicorn close theirs after five seconds, and a request
    /// that meets that moment is lost: so it is less.
    pub idle: Duration,
    /// How long a connection may be silent before it is asked whether the server is still there. One that does not answer
    /// for as long again is given up.
    pub probe_after: Duration,
    /// How many may be open. Clones of these settings share this bound.
    pub connections: Connections,
    /// Which proxy is used.
    pub proxy: Proxy,
    /// How connections are opened to a server on this machine that has no port; `None` to reach servers by their URLs.
    /// Whatever the URL of a request, it goes there, without TLS.
    #[cfg(unix)]
    pub dialer: Option<Dialer>,
    /// How servers are checked over TLS; `None` for as the system does it.
    #[cfg(feature = "tls")]
    pub tls: Option<rustls::ClientConfig>,
}

/// How many connections may be open at once, those that are being opened or kept for more requests included. Each has a
/// descriptor.
///
/// Clones have one bound together: all that a program has to do with servers may share it. A request that would need one
/// more waits for [`ConnectConfig::patience`], and fails.
#[derive(Clone, Debug)]
pub struct Connections {
    open: Places,
    reserved: Places,
}

/// Some of them.
#[derive(Clone, Debug)]
struct Places {
    free: Arc<Semaphore>,
    most: usize,
}

impl Connections {
    /// So many, and so many more that are kept for what stops work: cancels, and ends of sessions. So such a request
    /// reaches a server even while all others hang. Of either there is one at least.
    #[must_use]
    pub fn new(open: usize, reserved: usize) -> Self {
        Self { open: Places::new(open), reserved: Places::new(reserved) }
    }
}

impl Default for Connections {
    /// 640, which is more than one transport needs at once by default, and 64.
    fn default() -> Self {
        Self::new(640, 64)
    }
}

impl Places {
    fn new(most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(most)), most }
    }
}

/// Which proxy connections go through.
///
/// None that is on this machine is ever reached through one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Proxy {
    /// What the environment names: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, and `NO_PROXY`.
    #[default]
    Environment,
    /// None.
    Direct,
    /// This one, such as `http://user:password@proxy:3128` or `socks5://proxy`.
    Through(String),
}

/// Opens connections to a server on this machine, over a Unix socket.
#[cfg(unix)]
#[derive(Clone)]
pub struct Dialer(Arc<Dial>);

#[cfg(unix)]
type Dial = dyn Fn() -> Pin<Box<dyn Future<Output = io::Result<UnixStream>> + Send>> + Send + Sync;

#[cfg(unix)]
impl Dialer {
    /// Has `dial` open each connection. Its errors are shown as those of a server that cannot be reached.
    pub fn new<F: Future<Output = io::Result<UnixStream>> + Send + 'static>(
        dial: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move || Box::pin(dial())))
    }

    fn connect(&self) -> Connecting<TokioIo<TcpStream>> {
        let dialing = (self.0)();
        Box::pin(async move { Ok(TokioIo::new(local::as_tcp(dialing.await?)?)) })
    }
}

#[cfg(unix)]
impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}

/// Why a client could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL begins with `https`, and this build has no TLS.
    #[error("this build has no TLS, and so reaches no server whose URL begins with https://")]
    NoTls,
    /// TLS cannot be set up: mostly since the system has no certificates.
    #[cfg(feature = "tls")]
    #[error("TLS cannot be set up: {0}")]
    Tls(#[source] rustls::Error),
}

impl Default for ConnectConfig {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(10),
            idle: Duration::from_secs(4),
            probe_after: Duration::from_secs(15),
            connections: Connections::default(),
            proxy: Proxy::default(),
            #[cfg(unix)]
            dialer: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// What connections are made by.
#[cfg(feature = "tls")]
type Secured = hyper_rustls::HttpsConnector<Connector>;
#[cfg(not(feature = "tls"))]
type Secured = Connector;

/// Sends requests, over connections that are kept for more.
#[derive(Clone)]
pub(super) struct Sender {
    /// For requests whose responses may last. Over HTTP/2 a connection carries so many at once and no more, and what comes
    /// next waits: so a cancel must not come next.
    lasting: Pool,
    /// For what is done at once.
    passing: Pool,
    /// For what stops work.
    reserved: Pool,
    proxies: Arc<Proxies>,
}

type Pool = Client<Bounded<Secured>, RequestBody>;

impl Sender {
    /// Sends requests to the server at this URL, and wherever it redirects them.
    pub(super) fn new(url: &Uri, config: ConnectConfig) -> Result<Self, ConnectError> {
        Self::guarded(url, config, Guard::default())
    }

    /// Sends requests on behalf of the server at this URL, to nothing on this machine unless the server is. What a proxy
    /// connects to is for the proxy to judge.
    pub(super) fn on_behalf_of(url: &Uri, config: ConnectConfig) -> Result<Self, ConnectError> {
        Self::guarded(url, config, Guard::of(url))
    }

    fn guarded(url: &Uri, config: ConnectConfig, guard: Guard) -> Result<Self, ConnectError> {
        let proxies = Arc::new(Proxies::new(&config.proxy));
        let direct = tcp(HttpConnector::new_with_resolver(Resolver::new(guard.clone())), &config);
        let connector = Connector {
            direct,
            guard,
            tcp: tcp(HttpConnector::new(), &config),
            proxies: Arc::clone(&proxies),
            #[cfg(unix)]
            dialer: config.dialer.clone(),
        };
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).timer(TokioTimer::new());
        #[cfg(feature = "tls")]
        builder.http2_keep_alive_interval(config.probe_after).http2_keep_alive_timeout(config.probe_after);
        let (patience, idle) = (config.patience, config.idle);
        let Connections { open, reserved } = config.connections.clone();
        let connector = secure(url, connector, config)?;
        let mut of = |places: &Places, idle: Duration| {
            builder.pool_idle_timeout(idle);
            let (places, proxies) = (places.clone(), Arc::clone(&proxies));
            builder.build(Bounded { connector: connector.clone(), proxies, places, patience })
        };
        // The places of these are few, and the next cancel is mostly somebody else's.
        let reserved = of(&reserved, idle.min(Duration::from_millis(250)));
        let (lasting, passing) = (of(&open, idle), of(&open, idle));
        Ok(Self { lasting, passing, reserved, proxies })
    }

    /// Sends a request over connections of its lane. Not `async`: else each crate that awaits it would have hyper's client
    /// compiled once more.
    pub(super) fn send(&self, mut request: Request<RequestBody>, lane: Lane) -> ResponseFuture {
        // Through a tunnel the proxy gets them when that is opened.
        if request.uri().scheme_str() == Some("http")
            && let Some(proxy) = self.proxies.of(request.uri())
            && let Some(authorization) = proxy.basic_auth()
        {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization.clone());
        }
        let pool = match lane {
            Lane::Lasting => &self.lasting,
            Lane::Passing => &self.passing,
            Lane::Reserved => &self.reserved,
        };
        pool.request(request)
    }
}

/// A connector with these settings.
fn tcp<R>(mut tcp: HttpConnector<R>, config: &ConnectConfig) -> HttpConnector<R> {
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(config.patience));
    tcp.set_keepalive(Some(config.probe_after));
    tcp.set_keepalive_interval(Some((config.probe_after / 3).max(Duration::from_secs(1))));
    tcp.set_keepalive_retries(Some(3));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(2 * config.probe_after));
    tcp
}

#[cfg(feature = "tls")]
fn secure(url: &Uri, connector: Connector, config: ConnectConfig) -> Result<Secured, ConnectError> {
    let unused = || tls(|tls| Ok(tls.with_root_certificates(RootCertStore::empty())));
    #[cfg(unix)]
    let is_local = config.dialer.is_some();
    #[cfg(windows)]
    let is_local = false;
    let tls = match config.tls.map_or_else(|| if is_local { unused() } else { tls_of_system() }, Ok) {
        // It needs none, unless it redirects; and then it is not known where that leads.
        Err(_) if url.scheme_str() == Some("http") => unused()?,
        tls => tls?,
    };
    let builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls);
    Ok(builder.https_or_http().enable_http1().enable_http2().wrap_connector(connector))
}

/// How the system checks servers: read once, since that takes a while.
#[cfg(feature = "tls")]
fn tls_of_system() -> Result<rustls::ClientConfig, ConnectError> {
    static SYSTEM: std::sync::OnceLock<rustls::ClientConfig> = std::sync::OnceLock::new();
    if let Some(tls) = SYSTEM.get() {
        return Ok(tls.clone());
    }
    let read = tls(BuilderVerifierExt::with_platform_verifier)?;
    Ok(SYSTEM.get_or_init(|| read).clone())
}

/// TLS in which servers are checked as `verify` has it.
#[cfg(feature = "tls")]
fn tls(
    verify: impl FnOnce(
        ConfigBuilder<rustls::ClientConfig, WantsVerifier>,
    ) -> Result<ConfigBuilder<rustls::ClientConfig, WantsClientCert>, rustls::Error>,
) -> Result<rustls::ClientConfig, ConnectError> {
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().and_then(verify).map_err(ConnectError::Tls)?;
    Ok(builder.with_no_client_auth())
}

#[cfg(not(feature = "tls"))]
fn secure(url: &Uri, connector: Connector, _config: ConnectConfig) -> Result<Secured, ConnectError> {
    if url.scheme_str() == Some("https") { Err(ConnectError::NoTls) } else { Ok(connector) }
}

/// Which proxy leads to which server.
struct Proxies(Option<Matcher>);

impl Proxies {
    fn new(proxy: &Proxy) -> Self {
        Self(match proxy {
            Proxy::Environment => Some(Matcher::from_env()),
            Proxy::Direct => None,
            Proxy::Through(proxy) => Some(Matcher::builder().all(proxy.as_str()).build()),
        })
    }

    /// The proxy that leads there; `None` if it is reached directly.
    fn of(&self, url: &Uri) -> Option<Intercept> {
        let host = url.host()?.trim_matches(['[', ']']);
        let is_here =
            host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        self.0.as_ref().filter(|_| !is_here)?.intercept(url)
    }

    /// Whether connections to there lead to a proxy that needs the whole URL.
    fn is_told(&self, url: &Uri) -> bool {
        let is_plain = url.scheme_str() == Some("http");
        is_plain && self.of(url).is_some_and(|proxy| proxy.uri().scheme_str() == Some("http"))
    }
}

/// Opens TCP connections, through a proxy if one leads to the server.
#[derive(Clone)]
struct Connector {
    /// To the server itself, or to what it names.
    direct: HttpConnector<Resolver>,
    guard: Guard,
    /// To a proxy.
    tcp: HttpConnector,
    proxies: Arc<Proxies>,
    /// To a server without a port, in place of all others.
    #[cfg(unix)]
    dialer: Option<Dialer>,
}

type BoxError = Box<dyn Error + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Connecting<TokioIo<TcpStream>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        #[cfg(unix)]
        if let Some(dialer) = &self.dialer {
            return dialer.connect();
        }
        let Some(proxy) = self.proxies.of(&url) else {
            let (mut direct, guard) = (self.direct.clone(), self.guard.clone());
            return Box::pin(async move {
                guard.admit_url(&url).await?;
                Ok(direct.call(url).await?)
            });
        };
        let mut tcp = self.tcp.clone();
        let is_secure = url.scheme_str() == Some("https");
        let through = proxy.uri().clone();
        match through.scheme_str() {
            Some("http") if is_secure => {
                let mut tunnel = Tunnel::new(through, tcp);
                if let Some(authorization) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(authorization.clone());
                }
                Box::pin(async move { Ok(tunnel.call(url).await?) })
            }
            Some("http") => Box::pin(async move { Ok(tcp.call(through).await?) }),
            Some(kind @ ("socks5" | "socks5h")) => {
                let mut tunnel = SocksV5::new(through.clone(), tcp).local_dns(kind == "socks5");
                if let Some((user, password)) = proxy.raw_auth() {
                    tunnel = tunnel.with_auth(user.to_owned(), password.to_owned());
                }
                Box::pin(async move { Ok(tunnel.call(url).await?) })
            }
            other => {
                let text = format!("a proxy of the kind {} cannot be used", other.unwrap_or_default());
                Box::pin(async move { Err(text.into()) })
            }
        }
    }
}

/// Opens connections where there is a place for one, and gives up those that take too long to open.
#[derive(Clone)]
struct Bounded<C> {
    connector: C,
    proxies: Arc<Proxies>,
    places: Places,
    patience: Duration,
}

impl<C> Service<Uri> for Bounded<C>
where
    C: Service<Uri> + Clone + Send + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
    C::Response: 'static,
{
    type Response = Stream<C::Response>;
    type Error = BoxError;
    type Future = Connecting<Stream<C::Response>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let (mut connector, patience) = (self.connector.clone(), self.patience);
        let Places { free, most } = self.places.clone();
        let is_proxied = self.proxies.is_told(&url);
        Box::pin(async move {
            // For no longer than it may take to open: hyper opens connections for later also, and those must not pile up.
            let place = match tokio::time::timeout(patience, free.acquire_owned()).await {
                Ok(place) => place?,
                Err(_) => return Err(format!("all {most} connections that may be open are in use").into()),
            };
            match tokio::time::timeout(patience, connector.call(url)).await {
                Ok(connected) => Ok(Stream { io: connected.map_err(Into::into)?, is_proxied, _place: place }),
                Err(_) => Err(format!("no connection within {patience:?}").into()),
            }
        })
    }
}

/// A connection, which has its place as long as it is open.
struct Stream<T> {
    io: T,
    /// It leads to a proxy that needs the whole URL.
    is_proxied: bool,
    _place: OwnedSemaphorePermit,
}

impl<T: Connection> Connection for Stream<T> {
    fn connected(&self) -> Connected {
        self.io.connected().proxy(self.is_proxied)
    }
}

impl<T: Read + Unpin> Read for Stream<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<T: Write + Unpin> Write for Stream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }
}

/// An error and what led to it, in words. Of hyper's own only those that add something.
pub(super) fn words(error: &(dyn Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        let is_said = words.last().is_some_and(|last| last.ends_with(&text));
        if !is_said && !error.is::<hyper_util::client::legacy::Error>() {
            words.push(text);
        }
        next = error.source();
    }
    if words.is_empty() { error.to_string() } else { words.join(": ") }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::HttpClientConfig;

    /// And a process that may have 1,024 descriptors has some left.
    #[test]
    fn by_default_a_transport_has_connections_for_all_that_it_sends_at_once_and_each_cancel_has_one() {
        let config = HttpClientConfig::new("http://localhost/").unwrap();
        let Connections { open, reserved } = Connections::default();
        assert!(open.most > config.max_fetches + config.max_posts, "{}", open.most);
        assert!(reserved.most >= config.max_cancels, "{}", reserved.most);
        assert!(open.most + reserved.most <= 3 * 1024 / 4);
        assert_eq!(open.free.available_permits(), open.most);
        assert_eq!(reserved.free.available_permits(), reserved.most);
    }
}
