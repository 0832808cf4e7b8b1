//! Which addresses are asked on behalf of a server: none of this machine, unless the server is on it. Judged is where a name
//! leads when it is connected to, whatever it looks like.

use std::{
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    vec,
};

use http::Uri;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tokio::sync::OnceCell;
use tower_service::Service;

/// The port of an address where only the host matters.
const ANY_PORT: u16 = 9;

/// Resolves names as the system does, and leaves out what `guard` does.
#[derive(Clone)]
pub(super) struct Resolver {
    names: GaiResolver,
    guard: Guard,
}

/// Admits addresses; clones share what they have found out.
#[derive(Clone, Default)]
pub(super) struct Guard {
    /// On whose behalf others are asked; `None` admits every address.
    server: Option<Arc<Server>>,
}

struct Server {
    url: Uri,
    /// It is on this machine. Judged once, before anything that it names is: its name may lead elsewhere the next time.
    is_here: OnceCell<bool>,
}

impl Guard {
    /// For connections on behalf of the server at this URL.
    pub(super) fn of(url: &Uri) -> Self {
        Self { server: Some(Arc::new(Server { url: url.clone(), is_here: OnceCell::new() })) }
    }

    /// Judges a URL whose host is an address; names are for the [`Resolver`].
    pub(super) async fn admit_url(&self, url: &Uri) -> io::Result<()> {
        match literal(url) {
            Some(address) => self.admit(vec![address]).await.map(drop),
            None => Ok(()),
        }
    }

    /// Leaves out addresses of this machine, unless the server is on it; an error if none is left.
    async fn admit(&self, addresses: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
        let Some(server) = &self.server else { return Ok(addresses) };
        if server.is_here().await {
            return Ok(addresses);
        }
        let elsewhere: Vec<_> = addresses.into_iter().filter(|address| !is_here(*address)).collect();
        match elsewhere.is_empty() {
            true => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it leads to this machine, on which the server is not",
            )),
            false => Ok(elsewhere),
        }
    }
}

impl Server {
    async fn is_here(&self) -> bool {
        *self.is_here.get_or_init(|| async { self.addresses().await.is_some_and(all_are_here) }).await
    }

    /// Where its name leads; `None` if nowhere.
    async fn addresses(&self) -> Option<Vec<SocketAddr>> {
        if let Some(address) = literal(&self.url) {
            return Some(vec![address]);
        }
        let name = self.url.host()?.parse().ok()?;
        Some(GaiResolver::new().call(name).await.ok()?.collect())
    }
}

fn all_are_here(addresses: Vec<SocketAddr>) -> bool {
    !addresses.is_empty() && addresses.into_iter().all(is_here)
}

/// The address that is the host of a URL.
fn literal(url: &Uri) -> Option<SocketAddr> {
    let host: IpAddr = url.host()?.trim_matches(['[', ']']).parse().ok()?;
    Some(SocketAddr::new(host, ANY_PORT))
}

/// Whether a connection to this address would be one to this machine.
fn is_here(mut address: SocketAddr) -> bool {
    address.set_ip(address.ip().to_canonical());
    address.ip().is_loopback() || address.ip().is_unspecified() || is_own(address)
}

/// Whether an interface of this machine has this address: such is the way there, and nothing is sent to find that out.
fn is_own(mut address: SocketAddr) -> bool {
    address.set_port(ANY_PORT);
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let way = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    way.is_ok_and(|from| from.ip() == address.ip())
}

impl Resolver {
    pub(super) fn new(guard: Guard) -> Self {
        Self { names: GaiResolver::new(), guard }
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.names.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (found, guard) = (self.names.call(name), self.guard.clone());
        Box::pin(async move { Ok(guard.admit(found.await?.collect()).await?.into_iter()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_machine_is_known_in_every_form() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("127.0.0.2", true),
            ("127.1.2.3", true),
            ("127.255.255.255", true),
            ("0.0.0.0", true),
            ("::1", true),
            ("0:0:0:0:0:0:0:1", true),
            ("::", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:7f00:2", true),
            ("::ffff:127.255.0.1", true),
            ("::ffff:0.0.0.0", true),
            ("128.0.0.1", false),
            ("126.255.255.255", false),
            ("192.0.2.1", false),
            ("198.51.100.7", false),
            ("203.0.113.9", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("2001:db8::1", false),
            ("::2", false),
            ("::ffff:192.0.2.1", false),
            ("fe80::1234:5678:9abc:def0", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_here(SocketAddr::new(host.parse().unwrap(), 443)), expected, "{host}");
        }
    }
}
