//! For whom something is held, as HTTP distinguishes clients.

use core::net::IpAddr;

use http::Extensions;
pub(crate) use rescind_proto::holder::{Holder, Shares};

use super::owner::Owner;

/// The address that a request came from, as an extension of its head: a [`Listener`](crate::shell::Listener) sets it, and a
/// program that mounts an endpoint may. With it, what one client makes the server hold is bounded by itself, where clients
/// have no owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// The connection that a request came on, as an extension of its head: any number that no other connection has. A program
/// that mounts an endpoint behind HTTP/2 may set it, where one connection has many requests in flight. With it, what one
/// client makes the server hold is bounded by itself, where neither owners nor addresses distinguish clients.
///
/// A [`Listener`](crate::shell::Listener) does not set it: it speaks HTTP/1.1, where each request in flight has a connection
/// of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientConnection(pub u64);

/// The holder that bodies and streams of a request are counted for: its owner, else its address, if addresses distinguish
/// clients.
pub(crate) fn holder_of(owner: Option<&Owner>, extensions: &Extensions, parts_addresses: bool) -> Holder {
    let address = || extensions.get::<ClientAddress>().filter(|_| parts_addresses);
    match (owner, address()) {
        (Some(owner), _) => Holder::Owner(owner.shared_name()),
        (None, Some(ClientAddress(address))) => Holder::at(*address),
        (None, None) => Holder::Anyone,
    }
}

/// The client that the handler of a request is counted for: its owner, else its address, else its connection;
/// [`Holder::Anyone`] if none of them is known. This machine counts as no address, since a proxy may be on it.
pub(crate) fn client_of(owner: Option<&Owner>, extensions: &Extensions, parts_addresses: bool) -> Holder {
    let known = Some(holder_of(owner, extensions, parts_addresses)).filter(is_told_apart);
    let connection = || Some(Holder::Connection(extensions.get::<ClientConnection>()?.0));
    known.or_else(connection).unwrap_or(Holder::Anyone)
}

/// Whether all that this holder has is of one client. On this machine there may be a proxy, and many behind it.
pub(crate) fn is_told_apart(holder: &Holder) -> bool {
    match holder {
        Holder::Anyone => false,
        Holder::Address(address) => match address {
            IpAddr::V4(address) => !address.is_loopback(),
            // What is left of `::1` as a network.
            IpAddr::V6(network) => !network.is_unspecified(),
        },
        Holder::Connection(_) | Holder::Session(_) | Holder::Name(_) | Holder::Owner(_) => true,
        // This machine makes no others.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_its_owner_else_its_address_elsewhere_else_its_connection() {
        let owner = Owner::new("ann");
        let remote = Holder::at(IpAddr::from([10, 0, 0, 1]));
        for (owner, address, connection, parts, client) in [
            (owner.as_ref(), Some("10.0.0.1"), Some(7), true, Holder::Owner("ann".into())),
            (owner.as_ref(), None, None, false, Holder::Owner("ann".into())),
            (None, Some("10.0.0.1"), Some(7), true, remote.clone()),
            (None, Some("::ffff:10.0.0.1"), None, true, remote),
            (None, Some("10.0.0.1"), Some(7), false, Holder::Connection(7)),
            (None, Some("10.0.0.1"), None, false, Holder::Anyone),
            (None, Some("127.0.0.1"), Some(7), true, Holder::Connection(7)),
            (None, Some("::1"), None, true, Holder::Anyone),
            (None, Some("::ffff:127.0.0.1"), None, true, Holder::Anyone),
            (None, None, Some(7), true, Holder::Connection(7)),
            (None, None, None, true, Holder::Anyone),
        ] {
            let mut extensions = Extensions::new();
            if let Some(address) = address {
                extensions.insert(ClientAddress(address.parse().expect("an address")));
            }
            if let Some(connection) = connection {
                extensions.insert(ClientConnection(connection));
            }
            assert_eq!(client_of(owner, &extensions, parts), client, "{address:?} {connection:?} {parts}");
        }
    }
}
