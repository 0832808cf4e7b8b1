//! Writing whole messages.

use crate::{
    framing::{Framing, write_header},
    id::RequestId,
    json,
};

/// Appends one message in its framing; `body` writes the JSON.
pub fn frame(framing: Framing, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    match framing {
        Framing::Line => {
            body(out);
            out.push(b'\n');
        }
        Framing::Headers => {
            let mut text = Vec::new();
            body(&mut text);
            write_header(out, text.len());
            out.extend_from_slice(&text);
        }
    }
}

/// A request whose params object has the members that `members` writes.
pub fn request(id: &RequestId, method: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut Vec<u8>)) {
    head(Some(id), out);
    call(method, out, members);
}

/// A notification whose params object has the members that `members` writes.
pub fn notification(method: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut Vec<u8>)) {
    head(None, out);
    call(method, out, members);
}

/// A notification whose params are given as JSON; empty for none.
pub fn raw_notification(method: &str, params: &[u8], out: &mut Vec<u8>) {
    head(None, out);
    out.extend_from_slice(br#""method":"#);
    json::write_string(out, method);
    if !params.is_empty() {
        out.extend_from_slice(br#","params":"#);
        out.extend_from_slice(params);
    }
    out.push(b'}');
}

/// A result, given as JSON.
pub fn result(id: &RequestId, result: &[u8], out: &mut Vec<u8>) {
    head(Some(id), out);
    out.extend_from_slice(br#""result":"#);
    out.extend_from_slice(result);
    out.push(b'}');
}

/// An error; `id` is the text of the id member's value, left out altogether where `None`.
pub fn error(id: Option<&RequestId>, code: i32, message: &str, data: Option<&[u8]>, out: &mut Vec<u8>) {
    head(id, out);
    out.extend_from_slice(br#""error":"#);
    error_object(code, message, data, out);
    out.push(b'}');
}

/// The object that an error is, by itself.
pub fn error_object(code: i32, message: &str, data: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"code":"#);
    json::write_integer(out, i64::from(code));
    out.extend_from_slice(br#","message":"#);
    json::write_string(out, message);
    if let Some(data) = data {
        out.extend_from_slice(br#","data":"#);
        out.extend_from_slice(data);
    }
    out.push(b'}');
}

/// Appends the message that `write` writes, without its `jsonrpc` member: for protocols whose messages have none.
pub fn bare(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write(out);
    if out[start..].starts_with(HEAD) {
        out.drain(start + 1..start + HEAD.len());
    }
}

/// How each message begins.
const HEAD: &[u8] = br#"{"jsonrpc":"2.0","#;

fn head(id: Option<&RequestId>, out: &mut Vec<u8>) {
    out.extend_from_slice(HEAD);
    if let Some(id) = id {
        out.extend_from_slice(br#""id":"#);
        id.write(out);
        out.push(b',');
    }
}

fn call(method: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(br#""method":"#);
    json::write_string(out, method);
    out.extend_from_slice(br#","params":{"#);
    members(out);
    out.extend_from_slice(b"}}");
}
