//! What is said of a server that did not do as it should: in words that a person can use, and no more than a few.

use http::{HeaderMap, StatusCode, header};
pub(crate) use rescind_proto::excerpt::excerpt;
use rescind_proto::{
    frame::{Frame, ResponseBody},
    json,
};

/// The message of an error that is the whole of a body.
pub(crate) fn message_of(frame: &Frame<'_>) -> Option<String> {
    let Frame::Response(response) = frame else { return None };
    let ResponseBody::Error(error) = response.body else { return None };
    Some(excerpt(json::member(error, "message").and_then(json::text)?.as_bytes()))
}

/// The longest `Retry-After` that is passed on: a date of HTTP has 29 characters.
const MAX_RETRY_AFTER: usize = 64;

/// When the server wants the request to be tried again, as it wrote it: seconds or a date.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Box<str>> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    (!text.is_empty() && text.len() <= MAX_RETRY_AFTER).then(|| text.into())
}

/// A status, its number first.
pub(crate) fn status(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_str()),
        None => status.as_str().to_owned(),
    }
}

/// What a server wants to be told of who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// The schemes, such as `Bearer`.
    pub(crate) schemes: String,
    /// All of the header, or of several as one.
    pub(crate) whole: Box<str>,
}

impl Challenge {
    /// The longest that is kept.
    const LONGEST: usize = 16 << 10;

    /// Reads it from the head of a response.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let challenges = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let challenges: Vec<&str> = challenges.collect();
        let schemes = challenges.iter().filter_map(|challenge| challenge.split([' ', ',']).next());
        let schemes: Vec<String> =
            schemes.map(|scheme| excerpt(scheme.as_bytes())).filter(|scheme| !scheme.is_empty()).collect();
        let whole = challenges.join(", ");
        (!schemes.is_empty() && whole.len() <= Self::LONGEST)
            .then(|| Self { schemes: schemes.join(", "), whole: whole.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemes_of_a_challenge_are_named() {
        let mut headers = HeaderMap::new();
        assert_eq!(Challenge::read(&headers), None);
        headers.append("www-authenticate", r#"Bearer resource_metadata="https://x", error="y""#.parse().unwrap());
        headers.append("www-authenticate", "Basic realm=\"z\"".parse().unwrap());
        let challenge = Challenge::read(&headers).unwrap();
        assert_eq!(challenge.schemes, "Bearer, Basic");
        assert_eq!(&*challenge.whole, r#"Bearer resource_metadata="https://x", error="y", Basic realm="z""#);
        headers.append("www-authenticate", "x".repeat(Challenge::LONGEST).parse().unwrap());
        assert_eq!(Challenge::read(&headers), None);
    }
}
