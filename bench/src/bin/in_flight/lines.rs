//! What is fed to a subject: as many lines as one read of a pipe brings.

use rescind_bench::traffic::{self, Batch, LineId, Payload};

const CANCEL: &[u8] = concat!(
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","#,
    r#""params":{"requestId":1000000000,"reason":"stop"}}"#,
    "\n"
)
.as_bytes();

/// What a line does to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ask,
    Cancel,
    Answer,
}

/// Lines of one kind, and the ids in them for those who do not read.
pub(crate) struct Lines {
    kind: Kind,
    template: Vec<u8>,
    id_at: usize,
    bytes: Vec<u8>,
    ids: Vec<u64>,
}

impl Lines {
    /// Lines in one batch: what the default pipe holds of requests.
    pub(crate) const AT_ONCE: usize = 256;

    pub(crate) fn new(kind: Kind) -> Self {
        let request = Batch::new(Payload::Small, 1).lines(1).to_vec();
        let template = match kind {
            Kind::Ask => request,
            Kind::Cancel => CANCEL.to_vec(),
            Kind::Answer => traffic::echo_of(request.trim_ascii_end()).map(|parts| parts.concat()).unwrap_or_default(),
        };
        let first = LineId::first();
        let id_at = memchr::memmem::find(&template, first.digits()).unwrap_or_default();
        Self {
            kind,
            bytes: Vec::with_capacity(template.len() * Self::AT_ONCE),
            ids: Vec::with_capacity(Self::AT_ONCE),
            template,
            id_at,
        }
    }

    pub(crate) fn fill(&mut self, counts: impl Iterator<Item = usize>) {
        self.bytes.clear();
        self.ids.clear();
        for count in counts.take(Self::AT_ONCE) {
            let line = self.bytes.len();
            self.bytes.extend_from_slice(&self.template);
            let id = LineId::nth(count);
            let at = line + self.id_at;
            self.bytes[at..at + id.digits().len()].copy_from_slice(id.digits());
            self.ids.push(1_000_000_000 + count as u64);
        }
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn ids(&self) -> &[u64] {
        &self.ids
    }
}
