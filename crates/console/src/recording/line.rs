//! One parsed line of a recording.

use std::{borrow::Cow, time::UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rescind_proto::{
    dialect::Dialect,
    id::RequestId,
    side::{Side, Sides},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::RecordingError;

/// The version of the schema that this module reads.
const VERSION: u64 = 1;

/// The first line.
#[derive(Debug, Deserialize)]
pub(crate) struct HeaderLine {
    rescind: String,
    version: u64,
    #[serde(default)]
    pub(super) program: String,
    #[serde(default)]
    started: String,
    #[serde(default)]
    pub(super) pid: u32,
    #[serde(default)]
    pub(super) command: Vec<String>,
    pub(super) entry: Option<String>,
    #[serde(rename = "clientName")]
    pub(super) client_name: Option<String>,
    protocol: Option<PinnedDialects>,
    /// Its texts were replaced.
    #[serde(default)]
    pub(crate) redacted: bool,
}

#[derive(Debug, Deserialize)]
struct PinnedDialects {
    client: String,
    server: String,
}

impl HeaderLine {
    pub(crate) fn read(text: &[u8]) -> Result<Self, RecordingError> {
        let header: Self = serde_json::from_slice(text).map_err(|_| RecordingError::NotARecording)?;
        match (header.rescind.as_str(), header.version) {
            ("recording", VERSION) => Ok(header),
            ("recording", version) => Err(RecordingError::Version(version)),
            _ => Err(RecordingError::NotARecording),
        }
    }

    /// The dialect of each side, if it was pinned to a known one.
    pub(super) fn dialects(&self) -> Sides<Option<&'static Dialect>> {
        let named = |name: &str| Dialect::by_name(name);
        self.protocol.as_ref().map_or_else(Sides::default, |protocol| Sides {
            client: named(&protocol.client),
            server: named(&protocol.server),
        })
    }

    /// When its clock began, in microseconds since 1970; zero if that is missing.
    pub(super) fn started(&self) -> u64 {
        let started = humantime::parse_rfc3339(&self.started).ok();
        let since = started.and_then(|started| started.duration_since(UNIX_EPOCH).ok());
        since.and_then(|since| since.as_micros().try_into().ok()).unwrap_or_default()
    }
}

/// Every other line. Members that are not needed are skipped.
#[derive(Debug, Deserialize)]
pub(super) struct RecordedLine<'a> {
    pub(super) t: u64,
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) hop: Option<Cow<'a, str>>,
    #[serde(borrow)]
    frame: Option<Cow<'a, str>>,
    #[serde(borrow)]
    base64: Option<Cow<'a, str>>,
    #[serde(borrow)]
    from: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    upstream: Option<&'a RawValue>,
    #[serde(borrow)]
    parent: Option<&'a RawValue>,
    #[serde(borrow, rename = "parentFrom")]
    parent_from: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) how: Option<Cow<'a, str>>,
    pub(super) code: Option<i64>,
    #[serde(borrow)]
    pub(super) cause: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) reason: Option<Cow<'a, str>>,
    pub(super) asked: Option<u64>,
    pub(super) written: Option<u64>,
    #[serde(borrow)]
    pub(super) outcome: Option<Cow<'a, str>>,
    #[serde(rename = "afterMs")]
    pub(super) after_ms: Option<f64>,
    #[serde(borrow)]
    pub(super) answer: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) task: Option<Cow<'a, str>>,
    #[serde(rename = "exitCode")]
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<i32>,
    /// The bytes that the message had without its framing, if it was redacted.
    pub(super) size: Option<u64>,
}

impl<'a> RecordedLine<'a> {
    /// `None` if it is damaged.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    /// The exact bytes of a message.
    pub(super) fn frame(&self) -> Option<Cow<'_, [u8]>> {
        match (&self.frame, &self.base64) {
            (Some(text), _) => Some(Cow::Borrowed(text.as_bytes())),
            (None, Some(coded)) => STANDARD.decode(coded.as_bytes()).ok().map(Cow::Owned),
            (None, None) => None,
        }
    }

    /// The request that the line is about: its sender, and its sender's id for it.
    pub(super) fn request(&self) -> Option<(Side, RequestId)> {
        Some((side(self.from.as_deref()?)?, RequestId::from_json(self.id?.get().as_bytes())?))
    }

    /// What that is part of, in the same way.
    pub(super) fn parent(&self) -> Option<(Side, RequestId)> {
        Some((side(self.parent_from.as_deref()?)?, RequestId::from_json(self.parent?.get().as_bytes())?))
    }

    /// Its id on the other side.
    pub(super) fn upstream(&self) -> Option<RequestId> {
        RequestId::from_json(self.upstream?.get().as_bytes())
    }
}

fn side(word: &str) -> Option<Side> {
    Side::BOTH.into_iter().find(|side| side.as_str() == word)
}
