//! Server-sent events as bytes.

use rescind_proto::json;

/// A comment: nothing to a client, and a sign of life to what lies between.
pub(crate) const COMMENT: &[u8] = b":\n\n";

/// Appends the event of one message. `id` is what a client may resume behind: the stream and the event's number in it.
pub(crate) fn write_event(id: Option<(u64, u64)>, message: &[u8], out: &mut Vec<u8>) {
    out.reserve(message.len() + 48);
    out.extend_from_slice(b"event: message\n");
    if let Some((stream, number)) = id {
        write_id(stream, number, out);
    }
    out.extend_from_slice(b"data: ");
    // A line break would end the data; between the tokens of JSON it is a space like others.
    out.extend(message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    out.extend_from_slice(b"\n\n");
}

/// Appends an event without a message, which only gives a client an id to resume behind, and the time after which to do
/// that (MCP-H07).
pub(crate) fn write_primer(stream: u64, number: u64, out: &mut Vec<u8>) {
    write_id(stream, number, out);
    out.extend_from_slice(b"retry: 1000\ndata:\n\n");
}

/// Reads the id of an event of ours.
pub(crate) fn read_id(text: &str) -> Option<(u64, u64)> {
    let (stream, number) = text.split_once('-')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

fn write_id(stream: u64, number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"id: ");
    json::write_integer(out, stream.cast_signed());
    out.push(b'-');
    json::write_integer(out, number.cast_signed());
    out.push(b'\n');
}
