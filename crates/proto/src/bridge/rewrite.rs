//! JSON text written anew, with members added and left out; every other member keeps its bytes.

use crate::{error_code, frame::Notification, id::RequestId, json, message};

/// Which era a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Style {
    /// It begins with `initialize`.
    InSession,
    /// Every request describes itself in `_meta`.
    Enveloped,
}

pub(super) const META: &str = "_meta";

/// Members of results that only 2026-07-28 has.
const OF_RESULTS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// The same, and those that list tools.
pub(super) const OF_RESULTS_OR_TOOLS: [&str; 4] = ["resultType", "ttlMs", "cacheScope", "tools"];

/// The error of the older revisions for a resource that does not exist.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// Writes an object: the members `first`, then those of `object` but for the named ones.
pub(super) fn object(first: &[u8], object: Option<&[u8]>, but: &[&str], out: &mut Vec<u8>) {
    out.push(b'{');
    out.extend_from_slice(first);
    let mut is_first = first.is_empty();
    for member in object.and_then(json::members).into_iter().flatten().map_while(Result::ok) {
        if but.iter().any(|name| member.key_is(name)) {
            continue;
        }
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        out.extend_from_slice(member.key);
        out.push(b':');
        out.extend_from_slice(member.value);
    }
    out.push(b'}');
}

/// Writes the name of a member and its colon, after a comma if others are before it.
pub(super) fn member(name: &str, out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'{' | b',')) {
        out.push(b',');
    }
    json::write_string(out, name);
    out.push(b':');
}

/// Writes a member whose value is this text.
pub(super) fn text_member(name: &str, text: &str, out: &mut Vec<u8>) {
    member(name, out);
    json::write_string(out, text);
}

/// Writes a member whose value is this JSON.
pub(super) fn raw_member(name: &str, value: &[u8], out: &mut Vec<u8>) {
    member(name, out);
    out.extend_from_slice(value);
}

/// Writes the member `_meta`, as [`object`] writes objects.
pub(super) fn meta(first: &[u8], old: Option<&[u8]>, but: &[&str], out: &mut Vec<u8>) {
    member(META, out);
    object(first, old, but, out);
}

/// Writes params with another `_meta`, which `meta` writes; none if that has no members.
pub(super) fn params(raw: Option<&[u8]>, write_meta: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    params_with(b"", raw, &[META], write_meta, out);
}

/// The same, with the members `first`, and without those in `but`.
pub(super) fn params_with(
    first: &[u8],
    raw: Option<&[u8]>,
    but: &[&str],
    write_meta: impl FnOnce(&mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    let mut members = Vec::new();
    member(META, &mut members);
    let start = members.len();
    write_meta(&mut members);
    if &members[start..] == b"{}" {
        members.clear();
    }
    if !first.is_empty() {
        if !members.is_empty() {
            members.push(b',');
        }
        members.extend_from_slice(first);
    }
    object(&members, raw, but, out);
}

/// A request whose params `params` writes.
pub(super) fn request(own: i64, method: &str, out: &mut Vec<u8>, params: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    json::write_integer(out, own);
    out.extend_from_slice(br#","method":"#);
    json::write_string(out, method);
    out.extend_from_slice(br#","params":"#);
    params(out);
    out.push(b'}');
}

/// A result that `result` writes.
pub(super) fn result(id: &RequestId, out: &mut Vec<u8>, result: impl FnOnce(&mut Vec<u8>)) {
    answer(id, "result", out, result);
}

/// An error that `error` writes.
pub(super) fn error(id: &RequestId, out: &mut Vec<u8>, error: impl FnOnce(&mut Vec<u8>)) {
    answer(id, "error", out, error);
}

fn answer(id: &RequestId, name: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    id.write(out);
    member(name, out);
    write(out);
    out.push(b'}');
}

/// Writes a result of the older revisions as one of 2026-07-28.
pub(super) fn to_modern(result: &[u8], is_cacheable: bool, out: &mut Vec<u8>) {
    let first: &[u8] = if is_cacheable { CACHEABLE } else { COMPLETE };
    if result.first() == Some(&b'{') {
        object(first, Some(result), &OF_RESULTS, out);
    } else {
        out.extend_from_slice(result);
    }
}

/// The member of every result of 2026-07-28, and those of a result that may be kept: for how long, and for whom.
pub(super) const COMPLETE: &[u8] = br#""resultType":"complete""#;
pub(super) const CACHEABLE: &[u8] = br#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;

/// Writes a result of 2026-07-28 as one of the older revisions.
pub(super) fn to_legacy(result: &[u8], out: &mut Vec<u8>) {
    if result.first() == Some(&b'{') {
        object(b"", Some(result), &OF_RESULTS, out);
    } else {
        out.extend_from_slice(result);
    }
}

/// Writes the result that ends a subscription, under the id that its client knows (MCP-M02).
pub(super) fn renamed(result: &[u8], id: &RequestId, out: &mut Vec<u8>) {
    let mut named = Vec::new();
    member(SUBSCRIPTION, &mut named);
    id.write(&mut named);
    params(Some(result), |out| object(&named, json::member(result, META), &[SUBSCRIPTION], out), out);
}

/// Where a message names its subscription, in `_meta`.
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Writes a report on a subscription, with these members of `_meta` in place of the one that names it.
pub(super) fn report(notification: &Notification<'_>, first: &[u8], out: &mut Vec<u8>) {
    let Notification { method, params: named, .. } = notification;
    let mut written = Vec::new();
    params(named.raw, |out| object(first, named.meta, &[SUBSCRIPTION], out), &mut written);
    message::raw_notification(method, &written, out);
}

/// Whether a result of 2026-07-28 is none yet.
pub(super) fn asks_for_input(result: &[u8]) -> bool {
    json::member(result, OF_RESULTS[0]).and_then(json::text).as_deref() == Some("input_required")
}

/// Writes an error of the older revisions as one of 2026-07-28.
pub(super) fn error_to_modern(error: &[u8], out: &mut Vec<u8>) {
    if json::member(error, "code").and_then(json::integer) != Some(RESOURCE_NOT_FOUND) {
        return out.extend_from_slice(error);
    }
    let mut code = Vec::new();
    member("code", &mut code);
    json::write_integer(&mut code, i64::from(error_code::INVALID_PARAMS));
    object(&code, Some(error), &["code"], out);
}
