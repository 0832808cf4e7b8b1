//! The frames of the simulated parties: written here, and read back without the engine's own parser.
//!
//! Only what the parties and the machines under test write is understood; that
//! is enough, because everything else must pass unread.

use rescind_proto::{
    dialect::{CancelForm, Dialect, ProgressForm},
    error_code,
};

/// What a frame is, for whoever judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// A request; `generation` is what its sender put into the payload.
    Request {
        /// Its id as it stands there.
        id: &'a str,
        /// Its method.
        method: &'a str,
        /// Which of all requests it is.
        generation: usize,
    },
    /// A cancel in some dialect's form.
    Cancel {
        /// The notification's method.
        method: &'a str,
        /// The id that it names.
        id: &'a str,
    },
    /// A relay's own cancel of a task.
    TaskCancel {
        /// The id that the relay gave it.
        id: &'a str,
        /// Which request became the task.
        generation: usize,
    },
    /// A relay's own question how a task stands.
    TaskGet {
        /// The id that the relay gave it.
        id: &'a str,
        /// Which request became the task.
        generation: usize,
    },
    /// Progress of a request.
    Progress {
        /// Which request.
        generation: usize,
    },
    /// A result or an error.
    Answer {
        /// The id it answers, if it has one.
        id: Option<&'a str>,
        /// Whose answer it is, if a party wrote it.
        generation: Option<usize>,
        /// The error code, if it is an error.
        code: Option<i32>,
    },
    /// The cancel of a session's turn; the client's own have a number.
    TurnCancel {
        /// Which of the client's.
        number: Option<usize>,
    },
    /// An update of a session's turn.
    Update {
        /// Which.
        number: usize,
    },
    /// A notification that is nobody's business.
    Plain {
        /// Which.
        number: usize,
    },
}

/// The method of what passes unread.
pub const PLAIN: &str = "x/plain";

/// No message, and no JSON.
pub const GARBAGE: &str = "{\"jsonrpc\":\"2.0\",\"id\":";

/// A request that says which one it is, and asks for progress where its dialect can.
pub fn request(dialect: &Dialect, id: &str, method: &str, generation: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{}}}"#, params(dialect, method, generation))
}

/// The params of such a request.
pub fn params(dialect: &Dialect, method: &str, generation: usize) -> String {
    let session = if method.starts_with("session/") { r#","sessionId":"s""# } else { "" };
    let token = match dialect.progress {
        Some(form) if form.asked_at.len() > 1 => format!(r#","_meta":{{"progressToken":"t{generation}"}}"#),
        Some(form) => format!(r#","{}":"t{generation}""#, form.asked_at[0]),
        None => String::new(),
    };
    format!(r#"{{"g":{generation}{session}{token}}}"#)
}

/// A cancel without a reason.
pub fn cancel(form: CancelForm, id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{}","params":{{"{}":{id}}}}}"#, form.method, form.id)
}

/// The answer that belongs to the request of this generation.
pub fn result(id: &str, generation: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"g":{generation}}}}}"#)
}

/// A result with a byte in it that is not UTF-8, once it has become [`bytes`].
pub fn mangled(id: &str, generation: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"g":{generation},"x":"{NOT_UTF_8}"}}}}"#)
}

/// What its requester must get (D43).
pub fn mended(id: &str, generation: usize) -> String {
    mangled(id, generation).replace(NOT_UTF_8, MENDED)
}

/// What most readers make of bytes that are not UTF-8.
pub const MENDED: &str = "\u{fffd}";

/// Stands for a byte that is not UTF-8 until a frame is sent.
const NOT_UTF_8: char = '\u{e000}';

/// A frame as a party sends it, in a line.
pub fn bytes(frame: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(frame.len() + 1);
    let mut parts = frame.split(NOT_UTF_8);
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        bytes.push(0xff);
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes.push(b'\n');
    bytes
}

/// The handle of the task that the request of this generation became, as the tasks extension has it.
pub fn handle(id: &str, generation: usize) -> String {
    let task = format!(r#""resultType":"task","taskId":"k{generation}","status":"working""#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"g":{generation},{task}}}}}"#)
}

/// The cancel of that task, with what its dialect demands.
pub fn task_cancel(dialect: &Dialect, id: &str, generation: usize) -> Option<String> {
    about_task(dialect, dialect.tasks?.cancel, id, generation)
}

/// The question how that task stands.
pub fn task_get(dialect: &Dialect, id: &str, generation: usize) -> Option<String> {
    about_task(dialect, dialect.tasks?.get, id, generation)
}

fn about_task(dialect: &Dialect, method: &str, id: &str, generation: usize) -> Option<String> {
    let form = dialect.tasks?;
    let meta = form.extension.map_or_else(String::new, |extension| {
        let version = dialect.date.unwrap_or_default();
        let capabilities =
            format!(r#""io.modelcontextprotocol/clientCapabilities":{{"extensions":{{"{extension}":{{}}}}}}"#);
        format!(r#","_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}",{capabilities}}}"#)
    });
    let params = format!(r#"{{"taskId":"k{generation}"{meta}}}"#);
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
}

/// That task as it stands once it was cancelled.
pub fn cancelled_task(id: &str, generation: usize) -> String {
    let task = format!(r#""taskId":"k{generation}","status":"cancelled""#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete",{task}}}}}"#)
}

/// Its acknowledgement.
pub fn acknowledged(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete"}}}}"#)
}

/// The error that says "cancelled" in the dialects that answer.
pub fn cancelled(id: &str, generation: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32800,"message":"cancelled","data":{{"g":{generation}}}}}}}"#
    )
}

/// Progress of a request; `None` where the dialect has none.
pub fn progress(dialect: &Dialect, generation: usize) -> Option<String> {
    let form = dialect.progress?;
    let params = progress_params(form, generation);
    Some(format!(r#"{{"jsonrpc":"2.0","method":"{}","params":{params}}}"#, form.method))
}

/// The params of such progress.
pub fn progress_params(form: ProgressForm, generation: usize) -> String {
    format!(r#"{{"{}":"t{generation}","v":1}}"#, form.token)
}

/// A notification of no known method, oddly spaced.
pub fn plain(number: usize) -> String {
    format!("{{ \"method\":\"{PLAIN}\" ,\"jsonrpc\":\"2.0\", \"params\" : {{\"n\":{number}}} }}")
}

/// The cancel of the turn of the one session there is, as the client or, without a number, a machine writes it.
pub fn turn_cancel(number: Option<usize>) -> String {
    let number = number.map_or_else(String::new, |number| format!(r#","c":{number}"#));
    format!(r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"s"{number}}}}}"#)
}

/// An update of that turn.
pub fn update(number: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","u":{number}}}}}"#)
}

/// Reads a frame that a party or a machine wrote; `None` if it is none of these.
pub fn read(frame: &str) -> Option<Heard<'_>> {
    let Some(method) = member(frame, "method").map(unquote) else {
        return Some(Heard::Answer {
            id: envelope_id(frame),
            generation: member(frame, "g").and_then(|text| text.parse().ok()),
            code: member(frame, "code").and_then(|text| text.parse().ok()),
        });
    };
    match method {
        PLAIN => return Some(Heard::Plain { number: member(frame, "n")?.parse().ok()? }),
        "tasks/cancel" | "tasks/get" => {
            let generation = unquote(member(frame, "taskId")?).strip_prefix('k')?.parse().ok()?;
            let id = envelope_id(frame)?;
            return Some(match method {
                "tasks/get" => Heard::TaskGet { id, generation },
                _ => Heard::TaskCancel { id, generation },
            });
        }
        "session/cancel" => {
            return Some(Heard::TurnCancel { number: member(frame, "c").and_then(|text| text.parse().ok()) });
        }
        "session/update" => return Some(Heard::Update { number: member(frame, "u")?.parse().ok()? }),
        _ => {}
    }
    if let Some(form) = Dialect::ALL.iter().flat_map(|dialect| dialect.forms()).find(|form| form.method == method) {
        let id = member(frame, form.id).or_else(|| member(frame, "id")).or_else(|| member(frame, "requestId"))?;
        return Some(Heard::Cancel { method, id });
    }
    if let Some(form) = Dialect::ALL.iter().filter_map(|dialect| dialect.progress).find(|form| form.method == method) {
        let token = unquote(member(frame, form.token)?);
        return Some(Heard::Progress { generation: token.strip_prefix('t')?.parse().ok()? });
    }
    Some(Heard::Request { id: envelope_id(frame)?, method, generation: member(frame, "g")?.parse().ok()? })
}

/// Which request has begun to leave, if that is what `begun` is.
pub fn begun_request(begun: Option<&str>) -> Option<usize> {
    if let Heard::Request { generation, .. } = read(begun?)? { Some(generation) } else { None }
}

/// Of which request progress has begun to leave.
pub fn begun_progress(begun: Option<&str>) -> Option<usize> {
    if let Heard::Progress { generation } = read(begun?)? { Some(generation) } else { None }
}

/// Whether an answer to this id has begun to leave that refuses no duplicate.
pub fn is_answering(begun: Option<&str>, id: &str) -> bool {
    let heard = begun.and_then(read);
    matches!(heard, Some(Heard::Answer { id: Some(of), code, .. }) if of == id && code != Some(error_code::INVALID_REQUEST))
}

/// Whether all brackets are closed.
pub fn is_whole(frame: &str) -> bool {
    let count = |bracket| frame.bytes().filter(|&byte| byte == bracket).count();
    frame.ends_with('}') && count(b'{') == count(b'}')
}

/// The text of the first member of this name, wherever it stands.
pub fn member<'a>(frame: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = frame;
    loop {
        let at = rest.find(name)?;
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        if before.ends_with('"')
            && let Some(value) = after.strip_prefix("\":")
        {
            return Some(token(value));
        }
        rest = after;
    }
}

/// The id, which our envelopes hold before everything that could contain another.
fn envelope_id(frame: &str) -> Option<&str> {
    let rest = frame.strip_prefix(r#"{"jsonrpc":"2.0","id":"#)?;
    Some(token(rest))
}

/// A scalar's text, or the first byte of something larger.
fn token(value: &str) -> &str {
    if let Some(text) = value.strip_prefix('"') {
        let mut escaped = false;
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'\\' if !escaped => escaped = true,
                b'"' if !escaped => return &value[..at + 2],
                _ => escaped = false,
            }
        }
        return value;
    }
    let end = value.find([',', '}', ']', ' ']).unwrap_or(value.len());
    &value[..end]
}

fn unquote(text: &str) -> &str {
    text.trim_matches('"')
}

#[cfg(test)]
mod tests {
    use rescind_proto::dialect::{acp, lsp, mcp};

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for dialect in [&mcp::LATEST, &acp::V1, &lsp::LSP, &acp::RFD_2025_11_13] {
            let text = request(dialect, r#""a\"b""#, "m/call", 12);
            assert_eq!(read(&text), Some(Heard::Request { id: r#""a\"b""#, method: "m/call", generation: 12 }));
            let text = cancel(dialect.cancel, "-7");
            assert_eq!(read(&text), Some(Heard::Cancel { method: dialect.cancel.method, id: "-7" }));
            if let Some(text) = progress(dialect, 3) {
                assert_eq!(read(&text), Some(Heard::Progress { generation: 3 }));
            }
        }
        let text = task_cancel(&mcp::LATEST, "7", 2).unwrap();
        assert_eq!(read(&text), Some(Heard::TaskCancel { id: "7", generation: 2 }));
        let text = result("5", 2);
        assert_eq!(read(&text), Some(Heard::Answer { id: Some("5"), generation: Some(2), code: None }));
        let text = cancelled("5", 2);
        assert_eq!(read(&text), Some(Heard::Answer { id: Some("5"), generation: Some(2), code: Some(-32800) }));
        assert_eq!(read(&plain(4)), Some(Heard::Plain { number: 4 }));
    }
}
