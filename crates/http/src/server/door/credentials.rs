//! What a client shows to the server behind, where that is to judge it: the value of `Authorization`.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use rescind_proto::error_code;

use super::refusal::Refusal;

/// The header `Authorization` of a request, or that it has none.
pub(crate) type Credentials = Option<HeaderValue>;

/// The longest, in bytes: each link keeps some.
pub(crate) const MAX_CREDENTIALS: usize = 16 << 10;

/// Reads them. Those of a scheme that signs in a connection count as none: others would travel on it.
pub(crate) fn read(headers: &HeaderMap) -> Result<Credentials, Refusal> {
    const OF_CONNECTIONS: [&[u8]; 2] = [b"negotiate", b"ntlm"];

    let refused = |status, text: &str| Err(Refusal::new(status, error_code::INVALID_REQUEST, text));
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return refused(StatusCode::BAD_REQUEST, "the header Authorization is given twice");
    }
    if value.len() > MAX_CREDENTIALS {
        return refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the header Authorization is too long");
    }
    let scheme = value.as_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
    if OF_CONNECTIONS.iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Ok(None);
    }
    // A copy, since the head that it stands in is not kept.
    Ok(HeaderValue::from_bytes(value.as_bytes()).ok().map(|mut value| {
        value.set_sensitive(true);
        value
    }))
}
