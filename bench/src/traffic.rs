//! The lines that travel: one template per payload, of which only the id
//! changes, so that making a line costs the driver next to nothing.

/// Where the ten digits of the id stand in every request and response.
const ID: std::ops::Range<usize> = 22..32;
const HEAD: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
const METHOD: &[u8] = br#","method":"tools/call","params":"#;
const RESULT: &[u8] = br#","result":"#;

/// Bytes of a small request line, its newline included.
pub const SMALL_LINE: usize = 219;
/// Bytes of a large request line, its newline included.
pub const LARGE_LINE: usize = 1 << 20;

/// What a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A `tools/call` of 219 bytes.
    Small,
    /// 1 MiB, nearly all of it one string with an escape every few characters.
    EscapedString,
    /// 1 MiB, nearly all of it one array of small objects.
    SmallObjects,
}

impl Payload {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Small, Self::EscapedString, Self::SmallObjects];
}

/// A request id of ten digits, counted in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineId([u8; 10]);

impl LineId {
    /// The first id of a session; ids of fewer digits would change the
    /// length of the line.
    #[must_use]
    pub const fn first() -> Self {
        Self(*b"1000000000")
    }

    /// The id that is `count` after the first.
    #[must_use]
    pub fn nth(count: usize) -> Self {
        let mut digits = Self::first();
        let mut left = count;
        for digit in digits.0.iter_mut().rev() {
            *digit += u8::try_from(left % 10).unwrap_or_default();
            left /= 10;
        }
        digits
    }

    /// The digits.
    #[must_use]
    pub const fn digits(&self) -> &[u8] {
        &self.0
    }

    /// Counts one further.
    pub fn advance(&mut self) {
        for digit in self.0.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
    }
}

/// Request lines of one payload, one after the other, whose ids can be set
/// without touching the rest.
#[derive(Clone, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    line: usize,
}

impl Batch {
    /// Room for `lines` lines of `payload`, or for one if it is a large one.
    #[must_use]
    pub fn new(payload: Payload, lines: usize) -> Self {
        let (target, params): (usize, fn(usize) -> Vec<u8>) = match payload {
            Payload::Small => (SMALL_LINE, escaped_string),
            Payload::EscapedString => (LARGE_LINE, escaped_string),
            Payload::SmallObjects => (LARGE_LINE, small_objects),
        };
        let head = HEAD.len() + ID.len() + METHOD.len();
        let tail = b"}\n";
        let params = params(target - head - tail.len());
        let line = [HEAD, &LineId::first().0, METHOD, &params, tail].concat();
        Self { line: line.len(), bytes: line.repeat(if target == LARGE_LINE { 1 } else { lines }) }
    }

    /// Lines there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.len() / self.line
    }

    /// Gives the first `lines` lines the ids from `next` on and moves `next`
    /// past them.
    pub fn fill(&mut self, lines: usize, next: &mut LineId) {
        for line in self.bytes.chunks_exact_mut(self.line).take(lines) {
            line[ID].copy_from_slice(&next.0);
            next.advance();
        }
    }

    /// The first `lines` lines.
    #[must_use]
    pub fn lines(&self, lines: usize) -> &[u8] {
        &self.bytes[..lines * self.line]
    }

    /// Bytes of the line that answers one of these, newline included.
    #[must_use]
    pub fn response_len(&self) -> usize {
        self.line - METHOD.len() + RESULT.len()
    }
}

/// The parts of a response to a `tools/call` line, to be written one after
/// the other: its head with the id, the params sent back as the result, the
/// end. `None` for any other line.
#[must_use]
pub fn echo_of(line: &[u8]) -> Option<[&[u8]; 4]> {
    let rest = line.strip_prefix(HEAD)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let params = rest[digits..].strip_prefix(METHOD)?;
    Some([&line[..HEAD.len() + digits], RESULT, params, b"\n"])
}

/// Whether `start`, the first bytes of a line, begin the result of `id`.
#[must_use]
pub fn begins_result_of(start: &[u8], id: LineId) -> bool {
    begins_a_result(start) && start[ID] == id.0
}

/// Whether `start` begins a result, whichever request it answers.
#[must_use]
pub fn begins_a_result(start: &[u8]) -> bool {
    start.len() >= RESPONSE_HEAD && start[ID.end..].starts_with(RESULT)
}

/// Bytes of a response that [`begins_result_of`] needs to see.
pub const RESPONSE_HEAD: usize = ID.end + RESULT.len();

/// The handshake an MCP client opens with, so that a shim which detects the
/// protocol has seen it: request and notification.
pub const INITIALIZE: &[u8] = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
    r#""capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#,
    "\n"
)
.as_bytes();
/// What the client says once the server has answered.
pub const INITIALIZED: &[u8] = concat!(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "\n").as_bytes();
/// What the server answers to [`INITIALIZE`].
pub const INITIALIZE_RESULT: &[u8] = concat!(
    r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","#,
    r#""capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"0"}}}"#,
    "\n"
)
.as_bytes();

fn escaped_string(len: usize) -> Vec<u8> {
    const OPEN: &[u8] = br#"{"name":"echo","arguments":{"path":"/tmp/a","text":""#;
    const CLOSE: &[u8] = br#""}}"#;
    const TEXT: &[u8] = br#"let line = \"one\";\n\tand \\ more of it; "#;
    let mut params = OPEN.to_vec();
    while params.len() + TEXT.len() + CLOSE.len() <= len {
        params.extend_from_slice(TEXT);
    }
    params.resize(len - CLOSE.len(), b'x');
    params.extend_from_slice(CLOSE);
    params
}

fn small_objects(len: usize) -> Vec<u8> {
    const OPEN: &[u8] = br#"{"name":"echo","arguments":{"items":["#;
    const CLOSE: &[u8] = br#"{"end":true}]}}"#;
    let mut params = OPEN.to_vec();
    for number in 0.. {
        let item = format!(r#"{{"id":{number},"kind":"entry","ok":true,"at":[{number},2.5],"of":{{"n":null}}}},"#);
        if params.len() + item.len() + CLOSE.len() > len {
            break;
        }
        params.extend_from_slice(item.as_bytes());
    }
    params.resize(len - CLOSE.len(), b' ');
    params.extend_from_slice(CLOSE);
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_json_of_the_promised_length() {
        for payload in Payload::ALL {
            let batch = Batch::new(payload, 1);
            let parsed: serde_json::Value = serde_json::from_slice(batch.lines(1)).unwrap();
            assert_eq!(parsed["id"], 1_000_000_000_u64);
            assert_eq!(batch.lines(1).last(), Some(&b'\n'));
            let expected = match payload {
                Payload::Small => SMALL_LINE,
                Payload::EscapedString | Payload::SmallObjects => LARGE_LINE,
            };
            assert_eq!(batch.lines(1).len(), expected);
        }
    }

    #[test]
    fn a_batch_counts_its_ids_line_by_line() {
        let mut batch = Batch::new(Payload::Small, 3);
        let mut next = LineId::first();
        batch.fill(2, &mut next);
        let ids: Vec<u64> = batch
            .lines(2)
            .split_inclusive(|&byte| byte == b'\n')
            .map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap())
            .map(|line| line["id"].as_u64().unwrap())
            .collect();
        assert_eq!(ids, [1_000_000_000, 1_000_000_001]);
        assert_eq!(next, LineId(*b"1000000002"));
    }

    #[test]
    fn the_echo_is_a_result_with_the_id_of_the_request() {
        for payload in Payload::ALL {
            let id = LineId(*b"1000000123");
            let mut batch = Batch::new(payload, 1);
            batch.fill(1, &mut { id });
            let response = echo_of(batch.lines(1).trim_ascii_end()).unwrap().concat();
            assert!(begins_result_of(&response, id));
            assert!(!begins_result_of(&response, LineId::first()));
            assert_eq!(response.len(), batch.response_len());
            let parsed: serde_json::Value = serde_json::from_slice(&response).unwrap();
            assert_eq!(parsed["id"], 1_000_000_123_u64);
        }
    }

    #[test]
    fn ids_carry_over() {
        let mut id = LineId(*b"1000000999");
        id.advance();
        assert_eq!(id, LineId(*b"1000001000"));
        assert_eq!(id, LineId::nth(1000));
        assert_eq!(LineId::nth(42), LineId(*b"1000000042"));
    }
}
