//! Under which names a server is reached.

use core::net::IpAddr;

use http::{HeaderMap, StatusCode, Uri, header, request::Parts};
use rescind_proto::error_code;

use super::refusal::Refusal;

/// The names that a request may have in its header `Host`, without a port. A page of a browser that reaches the server
/// under a name of its own (DNS rebinding) is refused by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hosts {
    /// `localhost` and every loopback address; and the [address](LocalAddress) at which the request arrived, if that is
    /// known: no page of another server has it.
    #[default]
    Loopback,
    /// These, and no other.
    Named(Vec<Box<str>>),
    /// Any name: for a server whose clients all show tokens, or behind something that checks the name.
    Any,
}

/// The address at which a request arrived, as an extension of its head: a [`Listener`](crate::shell::Listener) sets it, and a
/// program that mounts an endpoint may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress(pub IpAddr);

impl Hosts {
    /// These names, and no other: `mcp.example.com`, `192.0.2.7`, `[2001:db8::7]`.
    pub fn named<N: Into<Box<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Self::Named(names.into_iter().map(Into::into).collect())
    }

    /// Refuses a request for another name.
    pub(crate) fn check(&self, Parts { uri, headers, extensions, .. }: &Parts) -> Result<(), Refusal> {
        // Only HTTP/1.0 has none, and no browser speaks it.
        let Some(named) = named(uri, headers) else { return Ok(()) };
        let is_served = match self {
            Self::Any => true,
            Self::Named(names) => names.iter().any(|name| name.eq_ignore_ascii_case(named)),
            Self::Loopback => is_near(named, extensions.get::<LocalAddress>()),
        };
        if is_served {
            return Ok(());
        }
        let text = "this server does not go by that name (Host). It goes by those of loopback, or by those that it was told: \
                    `HttpServerConfig::hosts`, or `--host` of rescind serve";
        Err(Refusal::new(StatusCode::FORBIDDEN, error_code::INVALID_REQUEST, text))
    }
}

/// The name that a request is for. In the request line it counts before the header.
fn named<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let header = || headers.get(header::HOST).map(|host| without_port(host.to_str().unwrap_or_default()));
    uri.host().or_else(header)
}

/// Whether a host is this machine, or the address at which the request arrived.
fn is_near(host: &str, arrived_at: Option<&LocalAddress>) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address: Option<IpAddr> = match bare {
        Some(bare) => bare.parse().ok().filter(IpAddr::is_ipv6),
        None => host.parse().ok().filter(IpAddr::is_ipv4),
    };
    match address.map(|address| address.to_canonical()) {
        Some(address) => {
            address.is_loopback() || arrived_at.is_some_and(|LocalAddress(at)| at.to_canonical() == address)
        }
        None => host.eq_ignore_ascii_case("localhost"),
    }
}

/// A host without its port.
pub(crate) fn without_port(authority: &str) -> &str {
    let after_address = authority.rfind(']').map_or(0, |end| end + 1);
    match authority[after_address..].split_once(':') {
        Some((rest, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            &authority[..after_address + rest.len()]
        }
        Some(_) | None => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_not_part_of_a_host() {
        for (authority, host) in [
            ("localhost:80", "localhost"),
            ("localhost", "localhost"),
            ("[::1]:8000", "[::1]"),
            ("[::1]", "[::1]"),
            ("localhost:80@example.com", "localhost:80@example.com"),
            ("localhost:80:80", "localhost:80:80"),
        ] {
            assert_eq!(without_port(authority), host);
        }
    }
}
