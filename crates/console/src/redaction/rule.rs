//! What becomes of a value.

use super::vocabulary as words;

/// What becomes of the value of a member, or of an element of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The first line of a recording.
    Header,
    /// A line of a recording.
    Line,
    /// A message, or a batch of them.
    Message,
    /// Its members are looked up; other values are replaced.
    Open,
    /// Keys and values are replaced, and how they are nested is kept.
    Opaque,
    /// A number or word of the shim's own.
    Own,
    /// The words of a server's command.
    Command,
    /// The bytes of a message.
    Frame,
    /// The same in base64.
    Base64,
    /// The name of a dialect.
    Dialect,
    /// The program that wrote a recording, and when.
    Program,
    Started,
    /// An id that a side counts up, or one of the shim's own, is kept.
    Count,
    /// An id gets another name.
    Id,
    /// What names a tool or the like gets another name.
    Name,
    Method,
    /// The revision of a protocol.
    Revision,
    /// The version of JSON-RPC.
    JsonRpc,
    /// A word that a protocol defines is kept.
    Word,
    /// A text of ours is kept.
    Phrase,
    /// The code of an error.
    Code,
    /// The exit code of a process.
    ExitCode,
}

impl Rule {
    /// The rule for the value of a member; `None` if its key may be anything, and is replaced, too.
    pub(super) fn of_member(self, key: &str) -> Option<Self> {
        match self {
            Self::Header => of_header(key),
            Self::Line => of_line(key),
            Self::Message => match key {
                "jsonrpc" => Some(Self::JsonRpc),
                "id" => Some(Self::Count),
                "method" => Some(Self::Method),
                "params" | "result" | "error" => Some(Self::Open),
                _ => None,
            },
            Self::Opaque | Self::Own | Self::Command => None,
            Self::Dialect => matches!(key, "client" | "server").then_some(Self::Dialect),
            Self::Open
            | Self::Frame
            | Self::Base64
            | Self::Program
            | Self::Started
            | Self::Count
            | Self::Id
            | Self::Name
            | Self::Method
            | Self::Revision
            | Self::JsonRpc
            | Self::Word
            | Self::Phrase
            | Self::Code
            | Self::ExitCode => of_params(key),
        }
    }

    /// The rule for an element of its list.
    pub(super) const fn of_element(self, index: usize) -> Self {
        match (self, index) {
            (Self::Command, 0) => Self::Command,
            (Self::Command, _) | (Self::Header | Self::Line, _) => Self::Opaque,
            (other, _) => other,
        }
    }
}

fn of_header(key: &str) -> Option<Rule> {
    Some(match key {
        "rescind" | "version" | "monotonicNs" | "pid" => Rule::Own,
        "program" => Rule::Program,
        "started" => Rule::Started,
        "command" => Rule::Command,
        "protocol" => Rule::Dialect,
        "entry" | "clientName" => Rule::Name,
        _ => return None,
    })
}

fn of_line(key: &str) -> Option<Rule> {
    Some(match key {
        "t" | "kind" | "hop" | "from" | "parentFrom" | "how" | "code" | "cause" | "verdict" | "rule" | "inFlight"
        | "asked" | "written" | "outcome" | "afterMs" | "answer" | "news" | "clock" | "sign" | "what" | "why"
        | "side" | "unread" | "exitCode" | "signal" | "clientSignal" | "endedBy" | "because" | "count" => Rule::Own,
        "id" | "upstream" | "parent" => Rule::Count,
        "task" => Rule::Id,
        "method" => Rule::Method,
        "reason" => Rule::Phrase,
        "frame" => Rule::Frame,
        "base64" => Rule::Base64,
        "protocol" => Rule::Dialect,
        "excerpt" => Rule::Opaque,
        _ => return None,
    })
}

/// The rule for a member of params, results and errors, at any depth.
fn of_params(key: &str) -> Option<Rule> {
    Some(match key {
        "id" | "requestId" | "progressToken" | "token" | "io.modelcontextprotocol/subscriptionId" => Rule::Count,
        "method" | "optOutNotificationMethods" => Rule::Method,
        "protocolVersion"
        | "io.modelcontextprotocol/protocolVersion"
        | "requested"
        | "supported"
        | "supportedVersions" => Rule::Revision,
        "name" | "uri" | "rootUri" => Rule::Name,
        "message" | "reason" => Rule::Phrase,
        "code" => Rule::Code,
        "exitCode" => Rule::ExitCode,
        _ if words::IDS.contains(key) => Rule::Id,
        _ if words::WORDY_KEYS.contains(key) => Rule::Word,
        _ if words::OPAQUE_KEYS.contains(key) => Rule::Opaque,
        _ if words::KEYS.contains(key) => Rule::Open,
        _ => return None,
    })
}

/// Whether this can be a word of the shim's own, which a later version may have more of.
pub(super) fn is_word(text: &str) -> bool {
    text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
