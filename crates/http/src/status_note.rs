//! The status with which a server refused a request, beside the answer that it gave with it.
//!
//! A gateway's client passes an answer on as it came, through a relay that knows nothing of HTTP. So what its response said
//! goes with it as a last member of the message, which the gateway's server takes off again: the answer is then what it was.

use http::StatusCode;
use rescind_proto::{frame, json};

/// The member, which nobody else has, with its comma and colon.
const MEMBER: &str = r#","rescind/http":"#;

/// Its name alone.
const NAME: &str = "rescind/http";

/// Whether a status is passed on. Others may mean something between a server and its client, such as 404 that a session is
/// lost.
pub(crate) fn passes(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// Notes the status of the response on an answer, and when its server wants to be asked again.
#[cfg(feature = "client")]
pub(crate) fn add(answer: &mut Vec<u8>, status: StatusCode, retry_after: Option<&str>) {
    let end = answer.trim_ascii_end().len();
    if !passes(status) || end == 0 {
        return;
    }
    answer.truncate(end - 1);
    answer.extend_from_slice(MEMBER.as_bytes());
    answer.extend_from_slice(format!("{{\"httpStatus\":{}", status.as_u16()).as_bytes());
    if let Some(retry_after) = retry_after {
        answer.extend_from_slice(b",\"retryAfter\":");
        json::write_string(answer, retry_after);
    }
    answer.extend_from_slice(b"}}");
}

/// Takes the note off an answer: the answer as it was, and the note as an object.
pub(crate) fn take(answer: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let note = json::member(answer, NAME)?;
    let span = frame::span_of(answer, note)?;
    let before = answer[..span.start].strip_suffix(MEMBER.as_bytes())?;
    Some(([before, &answer[span.end..]].concat(), note))
}

#[cfg(all(test, feature = "client"))]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_what_it_was_when_its_note_is_taken_off() {
        let answer = br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"httpStatus":3}}}"#;
        for (retry_after, note) in [
            (Some("120"), r#"{"httpStatus":429,"retryAfter":"120"}"#),
            (Some("a \"b\""), r#"{"httpStatus":429,"retryAfter":"a \"b\""}"#),
            (None, r#"{"httpStatus":429}"#),
        ] {
            let mut noted = answer.to_vec();
            add(&mut noted, StatusCode::TOO_MANY_REQUESTS, retry_after);
            assert!(frame::parse(&noted).is_ok());
            assert_eq!(take(&noted), Some((answer.to_vec(), note.as_bytes())));
        }
        assert_eq!(take(answer), None);
        let mut other = answer.to_vec();
        add(&mut other, StatusCode::NOT_FOUND, Some("1"));
        assert_eq!(other, answer);
    }
}
