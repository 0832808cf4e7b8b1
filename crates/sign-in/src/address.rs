//! URLs of servers: which of them may be asked, and which lie within others.

use std::net::IpAddr;

use http::Uri;

/// Why a URL is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressFault {
    /// It is none, or not one of HTTP, or names a user.
    #[error("is not a plain URL")]
    NotUrl,
    /// What is sent there could be read by others.
    #[error("is not https")]
    NotEncrypted,
    /// A server elsewhere names a service of this machine.
    #[error("leads to this machine, on which the server is not")]
    Here,
}

/// Reads a URL that `server` has named, to be asked on its behalf. It has to be https, except for a server on this machine.
/// Only such a server may name an address on this machine.
pub(crate) fn named_by(server: &Uri, text: &str) -> Result<Uri, AddressFault> {
    let url: Uri = text.trim().parse().map_err(|_| AddressFault::NotUrl)?;
    let is_plain = url.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    if !is_plain || !matches!(url.scheme_str(), Some("http" | "https")) {
        return Err(AddressFault::NotUrl);
    }
    match (is_here(&url), is_here(server)) {
        (true, true) => Ok(url),
        (true, false) => Err(AddressFault::Here),
        (false, _) if url.scheme_str() == Some("https") => Ok(url),
        (false, _) => Err(AddressFault::NotEncrypted),
    }
}

/// Whether a token may be sent there without being read on its way.
pub(crate) fn may_have_token(server: &Uri) -> bool {
    server.scheme_str() == Some("https") || is_here(server)
}

/// Whether the host in a URL is this machine by its form. Other names may lead here, too: the driver that connects finds
/// that out.
pub(crate) fn is_here(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    let is_here = |host: IpAddr| {
        let host = host.to_canonical();
        host.is_loopback() || host.is_unspecified()
    };
    host == "localhost" || host.ends_with(".localhost") || host.parse().is_ok_and(is_here)
}

/// Scheme, host and port, as text that is the same for the same.
pub(crate) fn origin(url: &Uri) -> String {
    let scheme = url.scheme_str().unwrap_or_default();
    let host = url.host().unwrap_or_default().to_ascii_lowercase();
    match (scheme, url.port_u16()) {
        ("http", Some(80)) | ("https", Some(443)) | (_, None) => format!("{scheme}://{host}"),
        (_, Some(port)) => format!("{scheme}://{host}:{port}"),
    }
}

/// The URL without its query, which may hold a secret, and in one form for one thing (RFC 8707, 2).
pub(crate) fn canonical(url: &Uri) -> String {
    match url.path() {
        "/" => origin(url),
        path => format!("{}{path}", origin(url)),
    }
}

/// Where the page of this name about a URL is: before its path (RFC 8414, 3.1; RFC 9728, 3.1).
pub(crate) fn well_known(url: &Uri, name: &str) -> String {
    format!("{}/.well-known/{name}{}", origin(url), url.path().trim_end_matches('/'))
}

/// Whether `inner` is `outer` or lies below it.
pub(crate) fn covers(outer: &Uri, inner: &Uri) -> bool {
    let folder = outer.path().trim_end_matches('/');
    let below = inner.path().strip_prefix(folder);
    origin(outer) == origin(inner) && below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Whether two texts name one issuer. A path that is only a slash makes no difference.
pub(crate) fn is_issuer(one: &str, other: &str) -> bool {
    let plain = |text: &str| text.strip_suffix('/').unwrap_or(text).to_owned();
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn only_what_is_encrypted_or_on_the_servers_own_machine_is_asked() {
        let (far, near) = (url("https://mcp.example/x"), url("http://127.0.0.1:9/mcp"));
        for (server, named, expected) in [
            (&far, "https://as.example/a", None),
            (&near, "https://as.example/a", None),
            (&near, "http://localhost:1/", None),
            (&near, "http://[::1]:1/", None),
            (&far, "http://as.example/a", Some(AddressFault::NotEncrypted)),
            (&near, "http://as.example/a", Some(AddressFault::NotEncrypted)),
            (&far, "https://127.0.0.1/", Some(AddressFault::Here)),
            (&far, "http://localhost/", Some(AddressFault::Here)),
            (&far, "https://user@as.example/", Some(AddressFault::NotUrl)),
            (&far, "ftp://as.example/", Some(AddressFault::NotUrl)),
            (&far, "/a", Some(AddressFault::NotUrl)),
            (&far, "", Some(AddressFault::NotUrl)),
        ] {
            assert_eq!(named_by(server, named).err(), expected, "{server} {named}");
        }
    }

    #[test]
    fn an_address_of_this_machine_is_known_in_every_form() {
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost", true),
            ("localhost.", true),
            ("a.localhost", true),
            ("a.b.localhost.", true),
            ("127.0.0.1", true),
            ("127.0.0.1.", true),
            ("127.255.255.254", true),
            ("0.0.0.0", true),
            ("[::1]", true),
            ("[0:0:0:0:0:0:0:1]", true),
            ("[::]", true),
            ("[0::0]", true),
            ("[::ffff:127.0.0.1]", true),
            ("[::ffff:7f00:1]", true),
            ("[::FFFF:127.1.2.3]", true),
            ("[::ffff:0.0.0.0]", true),
            ("localhost.test", false),
            ("notlocalhost", false),
            ("127.0.0.1.test", false),
            ("128.0.0.1", false),
            ("192.168.0.1", false),
            ("0.0.0.1", false),
            ("255.255.255.255", false),
            ("[::2]", false),
            ("[::ffff:10.0.0.1]", false),
            ("[2001:db8::1]", false),
            // Only resolving them shows where they lead.
            ("127.1", false),
            ("2130706433", false),
            ("0x7f000001", false),
            ("mcp.example", false),
        ] {
            assert_eq!(is_here(&url(&format!("https://{host}:8443/mcp"))), expected, "{host}");
            let (plain, encrypted) = (url(&format!("http://{host}/")), url(&format!("https://{host}/")));
            assert_eq!((may_have_token(&plain), may_have_token(&encrypted)), (expected, true), "{host}");
            let far = named_by(&url("https://mcp.test"), &format!("https://{host}/")).err();
            assert_eq!(far, expected.then_some(AddressFault::Here), "{host}");
        }
    }

    #[test]
    fn a_resource_covers_what_lies_below_it() {
        for (outer, inner, expected) in [
            ("https://a/mcp", "https://a/mcp", true),
            ("https://a/mcp/", "https://a/mcp", true),
            ("https://A:443", "https://a/mcp?x=1", true),
            ("https://a/mcp", "https://a/mcp/v1", true),
            ("https://a/mcp", "https://a/mcp2", false),
            ("https://a/mcp", "https://a/", false),
            ("https://a/mcp", "https://b/mcp", false),
            ("https://a/mcp", "https://a:8443/mcp", false),
            ("http://a/mcp", "https://a/mcp", false),
        ] {
            assert_eq!(covers(&url(outer), &url(inner)), expected, "{outer} {inner}");
        }
    }

    #[test]
    fn pages_about_a_url_stand_before_its_path() {
        assert_eq!(well_known(&url("https://a/t/1/"), "x"), "https://a/.well-known/x/t/1");
        assert_eq!(well_known(&url("https://a"), "x"), "https://a/.well-known/x");
        assert_eq!(canonical(&url("HTTPS://A:443/Mcp?key=1")), "https://a/Mcp");
        assert_eq!(canonical(&url("https://a/")), "https://a");
        assert!(is_issuer("https://a", "https://a/") && !is_issuer("https://a/b", "https://a"));
    }
}
