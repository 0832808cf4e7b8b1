//! A message as it was POSTed: what is read of it, and how it becomes a line for a program.

use std::borrow::Cow;

use http::StatusCode;
use rescind_proto::{
    dialect::{Dialect, mcp},
    error_code,
    frame::{self, Frame, Malformed, Named, Params, Request},
    framing,
    id::RequestId,
    json,
    kind::MessageKind,
};

use super::{
    door::{Asker, Refusal},
    look_alike,
};

/// The member of `_meta` in which a request declares what its client can do (2026-07-28).
/// The name and version that a client gives itself, in `_meta`.
const CLIENT_IN_META: &str = "io.modelcontextprotocol/clientInfo";

const CAPABILITIES_IN_META: &str = "io.modelcontextprotocol/clientCapabilities";

/// A message as it was POSTed.
#[derive(Debug)]
pub(crate) struct Posted<'a> {
    pub(crate) asker: &'a Asker,
    pub(crate) body: &'a [u8],
    pub(crate) frame: Frame<'a>,
    pub(crate) meta: Meta<'a>,
}

/// What the `_meta` of a request says, read once.
#[derive(Debug, Default)]
pub(crate) struct Meta<'a> {
    pub(crate) version: Option<Cow<'a, str>>,
    pub(crate) capabilities: Option<&'a [u8]>,
    client: Option<&'a [u8]>,
    token: Option<&'a [u8]>,
}

impl<'a> Meta<'a> {
    pub(crate) fn of(frame: &Frame<'a>) -> Self {
        match frame {
            Frame::Request(request) => Self::of_params(&request.params),
            Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_) => Self::default(),
        }
    }

    pub(crate) fn of_params(params: &Params<'a>) -> Self {
        let mut found = Self::default();
        for member in params.meta.and_then(json::members).into_iter().flatten().map_while(Result::ok) {
            if member.key_is("progressToken") {
                found.token = Some(member.value);
            } else if member.key_is(mcp::VERSION_IN_META) {
                found.version = json::text(member.value);
            } else if member.key_is(CAPABILITIES_IN_META) {
                found.capabilities = Some(member.value);
            } else if member.key_is(CLIENT_IN_META) {
                found.client = Some(member.value);
            }
        }
        found
    }

    /// The name that the client gives itself, cut.
    pub(crate) fn client_name(&self) -> Option<String> {
        let name = json::text(json::member(self.client?, "name")?)?;
        Some(name.chars().take(MOST_OF_NAME).collect()).filter(|name: &String| !name.is_empty())
    }

    /// The dialect that it names. Whether there is a revision of that name, the server says.
    pub(crate) fn dialect(&self) -> Option<&'static Dialect> {
        self.version.as_deref().map(mcp::named_in_meta)
    }

    /// The progress token, also as it stands there.
    pub(crate) fn token(&self) -> Option<(&'a [u8], RequestId)> {
        let raw = self.token?;
        RequestId::from_json(raw).filter(|token| !token.is_null()).map(|token| (raw, token))
    }
}

/// The longest id or progress token of a request, in bytes: the machine keeps several copies of each.
pub(crate) const MAX_NAME: usize = 4096;

/// Checks that a request has an id, and that what is kept of it is not too long.
pub(crate) fn check_names(request: &Request<'_>, meta: &Meta<'_>) -> Result<(), Refusal> {
    let text = if request.id.is_null() {
        "a request id must not be null"
    } else if request.id_span.len() > MAX_NAME || meta.token.is_some_and(|raw| raw.len() > MAX_NAME) {
        "the id or the progress token is too long; the limit is 4096 bytes"
    } else {
        return Ok(());
    };
    Err(Refusal::invalid(text))
}

/// Characters of a client's name that tell it from others.
const MOST_OF_NAME: usize = 64;

/// Checks that no name in a message for a program which several clients share can be taken for another (D42).
pub(crate) fn check_look_alikes(frame: &Frame<'_>, message: &[u8]) -> Result<(), Refusal> {
    let Some(name) = look_alike::find(message) else { return Ok(()) };
    let name: String = name.chars().take(64).collect();
    let text = format!("several clients share this server, and it could take the member {name:?} for another");
    let refusal = Refusal::invalid(text);
    Err(match frame {
        Frame::Request(request) => refusal.of(&request.id),
        Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_) => refusal,
    })
}

/// What is said of a body that is no message: under its id, if it is a request that plainly has one (D43).
pub(crate) fn unreadable(body: &[u8], malformed: &Malformed) -> Refusal {
    match malformed {
        Malformed::NotJson => {
            let refusal = Refusal::new(StatusCode::BAD_REQUEST, error_code::PARSE_ERROR, "the body is not JSON");
            let Named { kind, id, .. } = frame::name(body);
            id.iter().filter(|id| kind == MessageKind::Request && !id.is_null()).fold(refusal, Refusal::of)
        }
        Malformed::Invalid { reason, id, .. } => {
            let text = format!("the body is not a message: {}", reason.as_str());
            let refusal = Refusal::invalid(text);
            id.iter().fold(refusal, Refusal::of)
        }
    }
}

/// An id as JSON.
pub(crate) fn text(id: &RequestId) -> Vec<u8> {
    let mut out = Vec::new();
    id.write(&mut out);
    out
}

/// A span of a body, and what takes its place.
pub(crate) type Edit = (core::ops::Range<usize>, Vec<u8>);

/// A body as a line, with some of its spans replaced.
pub(crate) fn line(body: &[u8], edits: Vec<Edit>) -> Vec<u8> {
    let mut out = splice(body, edits);
    out.push(b'\n');
    framing::join_lines(&mut out);
    out
}

/// A body with some of its spans replaced.
pub(crate) fn splice(body: &[u8], mut edits: Vec<Edit>) -> Vec<u8> {
    edits.sort_by_key(|(span, _)| span.start);
    let mut out = Vec::with_capacity(body.len() + 1 + edits.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut at = 0;
    for (span, text) in edits {
        out.extend_from_slice(&body[at..span.start]);
        out.extend_from_slice(&text);
        at = span.end;
    }
    out.extend_from_slice(&body[at..]);
    out
}
