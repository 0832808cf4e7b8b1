//! Which request a message names that is not JSON (D43).
//!
//! The rule to know first: an id counts only where it is certain that it is that
//! of the message. What a payload holds names nothing.

use crate::{framing, id::RequestId, kind::MessageKind};

/// What could be learnt of a message that is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// What it seems to be.
    pub kind: MessageKind,
    /// Its id, if that is certain.
    pub id: Option<RequestId>,
    /// Its envelope is not JSON either: it may as well be a message that a program has printed for a log.
    pub is_printed: bool,
}

/// Learns which request a message that is not JSON is, or answers.
///
/// Beside what [`framing::learn`] finds, the envelope is read with single quotes or none, with `=>` or `=` for a colon and
/// without commas, if it says that it is one of JSON-RPC 2.0; and an id that ends the message is found behind brackets that
/// do not match.
#[must_use]
pub fn name(body: &[u8]) -> Named {
    let learnt = framing::learn(body);
    let last = last_id(body);
    match (learnt.id, last) {
        // Where a bracket is missing or one too many, one of them may lie in the payload.
        (Some(id), Some(last)) if id != last => Named { kind: learnt.kind, id: None, is_printed: false },
        (Some(id), _) => Named { kind: learnt.kind, id: Some(id), is_printed: false },
        (None, Some(last)) => Named { kind: MessageKind::Response, id: Some(last), is_printed: false },
        (None, None) => match printed(body) {
            Some((kind, id)) => Named { kind, id: Some(id), is_printed: true },
            None => Named { kind: learnt.kind, id: None, is_printed: false },
        },
    }
}

/// The id of an answer that is its last member, or the last but its version, whatever lies between that and the start.
fn last_id(body: &[u8]) -> Option<RequestId> {
    let body = framing::without_mark(body).trim_ascii();
    let inner = body.strip_prefix(b"{")?.trim_ascii_start();
    let (versioned, after_version) = match strip_version(inner) {
        Some(rest) => (true, rest.trim_ascii_start().strip_prefix(b",")?.trim_ascii_start()),
        None => (false, inner),
    };
    let is_answer = [&b"\"result\""[..], b"\"error\""].into_iter().any(|name| after_version.starts_with(name));
    let before = body.strip_suffix(b"}")?.trim_ascii_end();
    let (ends_versioned, before) = match before.strip_suffix(br#""2.0""#) {
        Some(rest) => {
            let rest = rest.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end().strip_suffix(br#""jsonrpc""#)?;
            (true, rest.trim_ascii_end().strip_suffix(b",")?.trim_ascii_end())
        }
        None => (false, before),
    };
    // One that breaks off may end inside its payload.
    let count = |marks: &[u8]| body.iter().filter(|byte| marks.contains(byte)).count();
    if !is_answer || versioned == ends_versioned || count(b"}]") < count(b"{[") {
        return None;
    }
    let start = match before.last()? {
        b'"' => memchr::memrchr(b'"', &before[..before.len() - 1])?,
        _ => before.iter().rposition(|byte| !byte.is_ascii_digit() && *byte != b'-')? + 1,
    };
    let (rest, id) = before.split_at(start);
    let rest = rest.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end().strip_suffix(br#""id""#)?;
    rest.trim_ascii_end().strip_suffix(b",")?;
    RequestId::from_json(id)
}

fn strip_version(text: &[u8]) -> Option<&[u8]> {
    let value = text.strip_prefix(br#""jsonrpc""#)?.trim_ascii_start().strip_prefix(b":")?;
    value.trim_ascii_start().strip_prefix(br#""2.0""#)
}

/// What the members say of an object that was printed as another language has it.
fn printed(body: &[u8]) -> Option<(MessageKind, RequestId)> {
    let mut tokens = Tokens(framing::without_mark(body).trim_ascii());
    if tokens.next() != Some(Token::Open(b'{')) {
        return None;
    }
    let mut open = vec![b'{'];
    let (mut key, mut ids, mut is_sure) = (None::<&[u8]>, Vec::new(), true);
    let (mut has_version, mut has_method, mut has_outcome) = (false, false, false);
    while let Some(token) = tokens.next() {
        match token {
            Token::Open(bracket) => open.push(bracket),
            Token::Close(bracket) => {
                is_sure &= open.pop() == Some(if bracket == b'}' { b'{' } else { b'[' });
                if open.is_empty() {
                    break;
                }
            }
            Token::Colon if open.len() == 1 => {
                let name = key.take().unwrap_or_default();
                let value = Tokens(tokens.0).next();
                let (text, is_word) = match value {
                    Some(Token::Text(text)) => (text, false),
                    // A number that breaks off may be another.
                    Some(Token::Word(word)) if word.len() < tokens.0.trim_ascii_start().len() => (word, true),
                    Some(Token::Open(_)) => (&b"{}"[..], true),
                    _ => continue,
                };
                let is_null = is_word && matches!(text, b"null" | b"None" | b"nil" | b"undefined");
                match name {
                    b"jsonrpc" => has_version |= text == b"2.0",
                    b"method" => has_method |= !is_null,
                    b"result" => has_outcome = true,
                    b"error" => has_outcome |= !is_null,
                    b"id" if is_sure => ids.push(id_of(text, is_word)),
                    _ => {}
                }
            }
            Token::Text(text) | Token::Word(text) => key = Some(text),
            Token::Colon | Token::Comma => key = None,
        }
    }
    let kind = match (has_method, has_outcome) {
        (true, false) => MessageKind::Request,
        (false, true) => MessageKind::Response,
        _ => return None,
    };
    match &mut *ids {
        [id @ Some(_)] if has_version => id.take().map(|id| (kind, id)),
        _ => None,
    }
}

fn id_of(text: &[u8], is_word: bool) -> Option<RequestId> {
    let text = core::str::from_utf8(text).ok().filter(|text| !text.contains('\\'))?;
    if !is_word {
        return Some(RequestId::string(text));
    }
    RequestId::from_json(text.as_bytes()).filter(|id| !id.is_null())
}

/// The tokens of an object that is written as some language has it.
struct Tokens<'a>(&'a [u8]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Open(u8),
    Close(u8),
    /// `:`, `=` or `=>`.
    Colon,
    Comma,
    /// A string without its quotes, of either kind.
    Text(&'a [u8]),
    /// Anything else.
    Word(&'a [u8]),
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    /// The next token; `None` at the end, and in a string that is not closed.
    fn next(&mut self) -> Option<Token<'a>> {
        let text = self.0.trim_ascii_start();
        let first = *text.first()?;
        let (token, len) = match first {
            b'{' | b'[' => (Token::Open(first), 1),
            b'}' | b']' => (Token::Close(first), 1),
            b',' => (Token::Comma, 1),
            b':' => (Token::Colon, 1),
            b'=' => (Token::Colon, if text.starts_with(b"=>") { 2 } else { 1 }),
            b'"' | b'\'' => {
                let mut end = 1;
                while *text.get(end)? != first {
                    end += if text[end] == b'\\' { 2 } else { 1 };
                }
                (Token::Text(&text[1..end]), end + 1)
            }
            _ => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || b"{}[],:=\"".contains(byte);
                let end = text.iter().position(ends).unwrap_or(text.len());
                (Token::Word(&text[..end]), end)
            }
        };
        self.0 = &text[len..];
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(body: &str) -> Option<i64> {
        name(body.as_bytes()).id.and_then(|id| id.loose())
    }

    #[test]
    fn the_id_of_a_spoilt_envelope_is_that_of_the_message() {
        for body in [
            r"{'jsonrpc': '2.0', 'id': 1, 'result': {'id': 2}}",
            r"{'result': {'id': 2, 'it': 'it\'s'}, 'id': 1, 'jsonrpc': '2.0'}",
            r#"{'result': {"it's": [{'id': 2}]}, 'id': 1, 'jsonrpc': '2.0'}"#,
            r#"{jsonrpc: "2.0", id: 1, result: {id: 2}}"#,
            "{ jsonrpc: '2.0', id: 1, result: [Object] }",
            r#"{"jsonrpc"=>"2.0", "id"=>1, "result"=>{"id"=>2}}"#,
            "{jsonrpc=2.0, id=1, result={id=2}}",
            r#"{"jsonrpc":"2.0" "id":1 "result":{}}"#,
            r#"{'jsonrpc':'2.0','id':1,'result':{'id':2,"#,
            r#"{"jsonrpc":"2.0","result":{"a":[1}},"id":1}"#,
            r#"{"jsonrpc":"2.0","result":{"a":]}},"id":1}"#,
            r#"{"result":{"a":[{"id":2}]]}},"id":1,"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","result":{"text":"a "b"},"id": 1 }"#,
            r#"{"jsonrpc":"2.0","result":{"text":"a "}},"id":1}"#,
        ] {
            assert_eq!(number(body), Some(1), "{body}");
        }
    }

    #[test]
    fn an_id_that_may_be_of_the_payload_or_of_no_message_names_nothing() {
        for body in [
            // Not of JSON-RPC.
            "{ id: 1, name: 'x' }",
            "{'id': 1, 'result': {}}",
            "{'jsonrpc': '2.0', 'id': 1}",
            "{'jsonrpc': '2.0', 'id': 1, 'method': 'm', 'result': {}}",
            // In the payload.
            "{'jsonrpc': '2.0', 'result': {'id': 1}}",
            "{'jsonrpc': '2.0', 'result': {'a': [1}, 'id': 1}, 'id': 2}",
            r#"{"jsonrpc":"2.0","result":{"a":],"b":{"id":1}"#,
            r#"{"jsonrpc":"2.0","result":{"a":{"b":1]},"id":1},"id":2}"#,
            // Twice, cut off, or not one.
            "{'jsonrpc': '2.0', 'id': 1, 'id': 1, 'result': {}}",
            "{'jsonrpc': '2.0', 'result': {}, 'id': 1",
            "{'jsonrpc': '2.0', 'result': {}, 'id': '1",
            "{'jsonrpc': '2.0', 'result': {}, 'id': 01}",
            "{'jsonrpc': '2.0', 'result': {}, 'id': None}",
            "answer: {'jsonrpc': '2.0', 'id': 1, 'result': {}}",
            "['jsonrpc': '2.0', 'id': 1, 'result': {}]",
        ] {
            assert_eq!(number(body), None, "{body}");
        }
    }
}
