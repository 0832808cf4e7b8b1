//! What a client shows to the server behind, where that is to judge it: the value of `Authorization`.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use rescind_proto::error_code;

use super::refusal::Refusal;

/// The header `Authorization` of a request, or that it has none.
pub(crate) type Credentials = Option<HeaderValue>;

/// The longest, in bytes: each link keeps some.
pub(crate) const MAX_CREDENTIALS: usize = 16 << 10;

/// The value of `Authorization`. A request that has two is refused: others may read the other.
pub(super) fn authorization(headers: &HeaderMap) -> Result<Option<&HeaderValue>, Refusal> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next();
    if values.next().is_some() {
        let text = "the header Authorization is given twice";
        return Err(Refusal::invalid(text));
    }
    Ok(value)
}

/// Reads credentials. Those of a scheme that signs in a connection count as none: others would travel on it.
pub(super) fn read(headers: &HeaderMap) -> Result<Credentials, Refusal> {
    const OF_CONNECTIONS: [&[u8]; 2] = [b"negotiate", b"ntlm"];

    let Some(value) = authorization(headers)? else { return Ok(None) };
    if value.len() > MAX_CREDENTIALS {
        let text = "the header Authorization is too long";
        return Err(Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, error_code::INVALID_REQUEST, text));
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
