//! Counts, sizes, ports and addresses on the command line.

use std::{net::SocketAddr, num::NonZeroU32};

/// Reads a count.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    let count = text.parse::<NonZeroU32>().ok().and_then(|count| usize::try_from(count.get()).ok());
    count.ok_or_else(|| format!("must be a whole number from 1 to {}", u32::MAX))
}

/// Reads a count that is kept in four bytes.
pub(crate) fn small_count(text: &str) -> Result<u32, String> {
    count(text).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// Reads a port; 0 is any free one.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "must be a whole number from 1 to 65535, or 0 for any free port".into())
}

/// Reads an address with its port.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let port = text.strip_prefix("localhost").unwrap_or(text).trim_start_matches(':').parse::<u16>();
    text.parse().map_err(|_| match port {
        Ok(port) => format!("has no address; write {}", local(port)),
        Err(_) => "not an address with a port; write it as 127.0.0.1:8000, or [::1]:8000".to_owned(),
    })
}

/// The sizes of messages that make sense: a handshake fits, and a `Content-Length` can have it.
const LEAST: u64 = 256;
const MOST: u64 = 4 << 30;

/// Reads `67108864`, `64MiB` or `64MB`.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];
    let (number, unit) =
        UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes))).unwrap_or((text, 1));
    let number = number.trim_end();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(
            "not a size; write a whole number of bytes, or one with a unit, such as 512KiB, 64MiB or 1GiB".into()
        );
    }
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let size = size.filter(|size| (LEAST..=MOST).contains(size)).and_then(|size| usize::try_from(size).ok());
    size.ok_or_else(|| "must be from 256 bytes to 4GiB".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_or_is_in_bytes() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("1000"), Ok(1000));
        assert_eq!(size("2 kB"), Ok(2000));
        assert_eq!(size("4GiB"), Ok(4 << 30));
        for text in ["", "MiB", "1.5MiB", "5XB", "-1", "+300", "many"] {
            assert!(size(text).unwrap_err().starts_with("not a size; write "), "{text:?}");
        }
        for text in ["0", "1B", "255", "5GiB", "99999999999GiB", "99999999999999999999"] {
            assert_eq!(size(text).unwrap_err(), "must be from 256 bytes to 4GiB", "{text:?}");
        }
    }

    #[test]
    fn a_count_begins_at_one() {
        assert_eq!(count("1"), Ok(1));
        for text in ["", "0", "x", "-1", "1.5", "99999999999999999999"] {
            assert_eq!(count(text).unwrap_err(), "must be a whole number from 1 to 4294967295", "{text:?}");
        }
    }

    #[test]
    fn an_address_has_a_port_and_a_port_an_address() {
        assert_eq!(address("[::1]:80").unwrap().port(), 80);
        for text in ["8000", ":8000", "localhost:8000"] {
            assert_eq!(address(text).unwrap_err(), "has no address; write 127.0.0.1:8000", "{text:?}");
        }
        for text in ["", "127.0.0.1", "example.com:80", "http://127.0.0.1:80"] {
            assert!(address(text).unwrap_err().starts_with("not an address with a port; write"), "{text:?}");
        }
    }

    #[test]
    fn a_port_has_sixteen_bits() {
        assert_eq!((port("0"), port("8080")), (Ok(0), Ok(8080)));
        for text in ["", "80x", "-1", "65536"] {
            assert!(port(text).unwrap_err().starts_with("must be a whole number from 1 to 65535"), "{text:?}");
        }
    }
}
