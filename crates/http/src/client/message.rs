//! Messages as bytes: what a server sends, as far as it is one at all (D43), and arrays of them (MCP-B01).

use bytes::Bytes;
use rescind_proto::{
    frame::{self, Frame, Response, ResponseBody},
    framing,
    id::RequestId,
    json,
};

/// How most begin, and so what needs no search.
const USUAL_START: &[u8] = br#"{"jsonrpc":"2.0","#;

/// The message in a whole body: without a byte order mark and the white space around it.
pub(crate) fn whole(body: &[u8]) -> &[u8] {
    framing::without_mark(body.trim_ascii_start()).trim_ascii()
}

/// Whether a message is an array of messages.
pub(crate) fn is_batch(message: &[u8]) -> bool {
    message.first() == Some(&b'[')
}

/// Whether a message is one of JSON-RPC 2.0, by its own words. Clients read no other.
pub(crate) fn has_version(message: &[u8]) -> bool {
    message.starts_with(USUAL_START)
        || json::member(message, "jsonrpc").and_then(json::text).is_some_and(|version| version == "2.0")
}

/// Whether a response is an answer: with a version, and a result, or an error with an integer as its code and a string as its
/// message. Results of MCP are objects.
pub(crate) fn is_answer(message: &[u8], response: &Response<'_>) -> bool {
    let has_outcome = match &response.body {
        ResponseBody::Result(result) => result.first() == Some(&b'{'),
        ResponseBody::Error(_) => response.body.is_readable(),
    };
    has_outcome && has_version(message)
}

/// An array of messages.
pub(crate) fn array(members: &[&[u8]]) -> Bytes {
    let mut body = vec![b'['];
    body.extend_from_slice(&members.join(&b','));
    body.push(b']');
    body.into()
}

/// A batch without the request of this id: `Some(None)` if nothing else is in it, and `None` if it is not a batch.
pub(crate) fn without(body: &[u8], id: &RequestId) -> Option<Option<Bytes>> {
    let Ok(Frame::Batch(batch)) = frame::parse(body) else { return None };
    let is_named =
        |member: &&[u8]| matches!(frame::parse_member(member), Ok(Frame::Request(request)) if request.id == *id);
    let rest: Vec<&[u8]> = batch.members().filter(|member| !is_named(member)).collect();
    Some((!rest.is_empty()).then(|| array(&rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_one(message: &str) -> bool {
        matches!(frame::parse(message.as_bytes()), Ok(Frame::Response(response)) if is_answer(message.as_bytes(), &response))
    }

    #[test]
    fn an_answer_has_a_version_and_a_result_or_a_whole_error() {
        for answer in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"id":1,"result":{"error":"x"},"jsonrpc":"2.0"}"#,
            r#"{ "jsonrpc" : "2\u002e0", "id": null, "error": {"message": "x", "code": -32601} }"#,
            r#"{"jsonrpc":"2.0","error":{"code":0,"message":""}}"#,
        ] {
            assert!(is_one(answer), "{answer}");
        }
        for other in [
            r#"{"error":"rate limited"}"#,
            r#"{"id":1,"result":{}}"#,
            r#"{"jsonrpc":2.0,"id":1,"result":{}}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":"429","message":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":{}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}"#,
        ] {
            assert!(!is_one(other), "{other}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert_eq!(whole(b"\r\n\xEF\xBB\xBF {}\n"), b"{}");
        assert_eq!(whole(b"\xEF\xBB{}"), b"\xEF\xBB{}");
    }
}
