//! What the relay machine is compared with: the two hash maps that any relay
//! needs, with the least reading and writing around them, and alone.

use std::hint::black_box;

use hashbrown::HashMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lines::{Kind, Lines};
use crate::subject::Subject;

/// What a relay must know of a request on one of its hops, in 64 bytes.
struct Entry {
    other_id: u64,
    is_cancelled: bool,
    /// Room for method, token, the times of asking and writing, two clocks.
    rest: [u64; 6],
}

/// Requests under the client's id, and under the server's.
#[derive(Default)]
struct Hops {
    client: HashMap<u64, Entry>,
    server: HashMap<u64, Entry>,
}

impl Hops {
    fn apply(&mut self, kind: Kind, id: u64) {
        match kind {
            Kind::Ask => {
                self.client.insert(id, Entry::new(id));
                self.server.insert(id, Entry::new(id));
            }
            Kind::Cancel => self.cancel(id),
            Kind::Answer => {
                let there = self.server.remove(&id);
                let here = there.and_then(|there| self.client.remove(&there.other_id));
                black_box(here.map(|here| (here.is_cancelled, here.rest)));
            }
        }
    }

    /// Marks the request here, looks it up there, and takes it out of both:
    /// in MCP nobody owes an answer any more.
    fn cancel(&mut self, id: u64) {
        let Some(here) = self.client.get_mut(&id) else {
            return;
        };
        here.is_cancelled = true;
        let other_id = here.other_id;
        if let Some(there) = self.server.get_mut(&other_id) {
            there.is_cancelled = true;
        }
        self.server.remove(&other_id);
        black_box(self.client.remove(&id).map(|here| here.rest));
    }
}

impl Entry {
    const fn new(id: u64) -> Self {
        Self { other_id: id, is_cancelled: false, rest: [id; 6] }
    }
}

/// The maps alone: the ids are given, nothing is read or written.
#[derive(Default)]
pub(crate) struct Maps(Hops);

impl Subject for Maps {
    fn take(&mut self, lines: &Lines) {
        for &id in lines.ids() {
            self.0.apply(lines.kind(), id);
        }
    }

    fn in_flight(&self) -> usize {
        self.0.client.len()
    }
}

/// The maps, each line's envelope parsed by `serde_json` and the line copied
/// to the other side.
#[derive(Default)]
pub(crate) struct BareTables {
    hops: Hops,
    out: Vec<u8>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    id: Option<u64>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelParams {
    request_id: u64,
}

impl Subject for BareTables {
    fn take(&mut self, lines: &Lines) {
        let bytes = lines.bytes();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            self.take_line(&bytes[start..end]);
            self.out.extend_from_slice(&bytes[start..=end]);
            start = end + 1;
        }
        black_box(&self.out);
        self.out.clear();
    }

    fn in_flight(&self) -> usize {
        self.hops.client.len()
    }
}

impl BareTables {
    fn take_line(&mut self, line: &[u8]) {
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(line) else {
            return;
        };
        match (envelope.id, envelope.method) {
            (Some(id), Some(_)) => self.hops.apply(Kind::Ask, id),
            (Some(id), None) if envelope.result.is_some() => self.hops.apply(Kind::Answer, id),
            (None, Some("notifications/cancelled")) => {
                let params = envelope.params.map_or("", RawValue::get);
                if let Ok(cancel) = serde_json::from_str::<CancelParams>(params) {
                    self.hops.apply(Kind::Cancel, cancel.request_id);
                }
            }
            (Some(_) | None, _) => {}
        }
    }
}
