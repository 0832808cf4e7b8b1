//! What the requests in flight ask for: the beginning of their params, for an operator who comes because one hangs.
//!
//! Bytes are copied, and nothing is parsed. Those that came first keep theirs, since what hangs came before what is looked
//! at now; of what comes while there is no room nothing is kept, and that is said.

use hashbrown::HashTable;

use super::Relay;
use crate::{link::RequestKey, side::Side};

/// The most bytes that are kept of one request.
pub(super) const MAX_TEXT: usize = 16 << 10;

/// The most bytes that all of them hold together, with what it costs to keep them.
pub(super) const MAX_HELD: usize = 1 << 20;

/// What it costs to keep one: its entry, in a table that may have grown to more than twice what is in it.
const ENTRY: usize = 128;

/// A beginning that is shorter than this says too little to be kept where there is no room for more.
const LEAST: usize = 256;

/// Room for entries that is kept when there are none.
const KEPT_ROOM: usize = 256;

/// Buffers that wait for the next request, and how long they may be: most calls are short, and come and go a few at a time,
/// and cost no memory anew.
const SPARE: usize = 64;
const SPARE_LENGTH: usize = 1 << 10;

/// What texts and entries may cost together.
const ROOM: usize = MAX_HELD - SPARE * SPARE_LENGTH;

/// What is kept of the params of a request in flight.
///
/// It never grows: something of them is kept, or nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentsView<'a> {
    /// Their JSON text, or its beginning.
    Kept {
        /// The bytes that are kept. A cut is at the end of a character; there are none if the request has no params.
        text: &'a [u8],
        /// How long the whole text is.
        length: usize,
    },
    /// Nothing: there was no room when it came.
    LeftOut,
}

/// The arguments of the requests in flight, of both sides.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    kept: HashTable<Kept>,
    /// What that costs, as far as it counts towards [`ROOM`].
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Kept {
    request: RequestKey,
    text: Vec<u8>,
    length: usize,
}

impl Arguments {
    /// Keeps what there is room for.
    pub(super) fn keep(&mut self, request: RequestKey, params: &[u8]) {
        let whole = params.len().min(MAX_TEXT);
        let Some(room) = ROOM.checked_sub(self.bytes + ENTRY).filter(|room| *room >= whole.min(LEAST)) else { return };
        self.insert(request, beginning(params, whole.min(room)), params.len());
    }

    /// The same is true of what has come of a request.
    pub(super) fn pass_on(&mut self, request: RequestKey, to: RequestKey) {
        let Some(Kept { text, length, .. }) = self.find(request) else { return };
        if self.bytes + ENTRY + text.len() <= ROOM {
            let (text, length) = (text.clone(), *length);
            self.insert(to, &text, length);
        }
    }

    fn insert(&mut self, request: RequestKey, beginning: &[u8], length: usize) {
        let mut text = self.spare.pop().unwrap_or_default();
        text.reserve_exact(beginning.len());
        text.extend_from_slice(beginning);
        self.bytes += ENTRY + text.len();
        self.kept.insert_unique(hash(request), Kept { request, text, length }, |one| hash(one.request));
    }

    /// The request is over.
    pub(super) fn forget(&mut self, request: RequestKey) {
        let Ok(found) = self.kept.find_entry(hash(request), |one| one.request == request) else { return };
        let (Kept { mut text, .. }, _) = found.remove();
        self.bytes -= ENTRY + text.len();
        if self.spare.len() < SPARE && text.capacity() <= SPARE_LENGTH {
            text.clear();
            self.spare.push(text);
        }
        // A burst gives its room back.
        if self.kept.is_empty() && self.kept.capacity() > KEPT_ROOM {
            self.kept = HashTable::new();
        }
    }

    fn find(&self, request: RequestKey) -> Option<&Kept> {
        self.kept.find(hash(request), |one| one.request == request)
    }

    pub(super) fn has(&self, request: RequestKey) -> bool {
        self.find(request).is_some()
    }

    /// Bytes of memory held, capacities included.
    #[expect(clippy::disallowed_methods, reason = "a sum is the same in any order")]
    pub(super) fn held(&self) -> usize {
        let texts = self.kept.iter().map(|one| &one.text).chain(&self.spare).map(Vec::capacity).sum::<usize>();
        self.kept.allocation_size() + self.spare.capacity() * size_of::<Vec<u8>>() + texts
    }

    /// How many requests something is kept of.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }
}

impl Relay {
    /// What is kept of the params of a request in flight, or of work that came of one, if that is kept at all
    /// ([`RelayConfig::keeps_arguments`](super::RelayConfig::keeps_arguments)). They may hold secrets.
    #[must_use]
    pub fn arguments(&self, request: RequestKey) -> Option<ArgumentsView<'_>> {
        let kept = self.core.arguments.as_deref()?;
        let exchange = self.exchange(request).filter(|exchange| exchange.is_live() && exchange.is_theirs())?;
        match kept.find(request) {
            Some(Kept { text, length, .. }) => Some(ArgumentsView::Kept { text, length: *length }),
            // Work that is followed by itself need not have come of a request that was seen.
            None => (!exchange.is_work()).then_some(ArgumentsView::LeftOut),
        }
    }

    /// Keeps the params of a request that was taken in.
    #[inline]
    pub(super) fn keep_arguments(&mut self, request: RequestKey, params: Option<&[u8]>) {
        if let Some(arguments) = self.core.arguments.as_deref_mut() {
            arguments.keep(request, params.unwrap_or_default());
        }
    }

    /// Something at work has come of this request.
    pub(super) fn pass_arguments_on(&mut self, request: RequestKey, to: RequestKey) {
        if let Some(arguments) = self.core.arguments.as_deref_mut() {
            arguments.pass_on(request, to);
        }
    }
}

/// So many bytes at most, up to the end of a character.
fn beginning(text: &[u8], most: usize) -> &[u8] {
    let is_within = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    // No character has more than three such bytes: what has is no text, and may be cut anywhere.
    let back =
        (0..4).find(|back| most.checked_sub(*back).and_then(|at| text.get(at)).is_none_or(|byte| !is_within(byte)));
    &text[..most.saturating_sub(back.unwrap_or_default())]
}

/// Keys are given out here, so no peer can choose those that collide.
fn hash(request: RequestKey) -> u64 {
    let side = u64::from(request.from == Side::Server);
    (request.key.word() ^ side << 63).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use super::*;
    use crate::slab::Key;

    fn request(index: u32) -> RequestKey {
        RequestKey { from: Side::Client, key: Key::from_parts(index, NonZeroU32::MIN) }
    }

    fn kept(arguments: &Arguments, index: u32) -> Option<(usize, usize)> {
        arguments.find(request(index)).map(|one| (one.text.len(), one.length))
    }

    #[test]
    fn a_text_is_cut_at_the_end_of_a_character() {
        assert_eq!(beginning("aé".as_bytes(), 3), "aé".as_bytes());
        assert_eq!(beginning("aé".as_bytes(), 2), b"a");
        assert_eq!(beginning("a検索".as_bytes(), 6), "a検".as_bytes());
        assert_eq!(beginning("a😀".as_bytes(), 4), b"a");
        assert_eq!(beginning("é".as_bytes(), 1), b"");
        assert_eq!(beginning(b"", 0), b"");
        assert_eq!(beginning(&[0x80; 9], 7), [0x80; 7]);
    }

    #[test]
    fn of_a_thousand_requests_of_16_kib_those_that_came_first_are_kept_and_all_is_within_1_mib() {
        let mut arguments = Arguments::default();
        let long = vec![b'x'; MAX_TEXT];
        for index in 0..1000 {
            arguments.keep(request(index), &long);
            assert!(arguments.held() <= MAX_HELD && arguments.bytes <= MAX_HELD);
        }
        let whole = (0..1000).take_while(|index| kept(&arguments, *index) == Some((MAX_TEXT, MAX_TEXT))).count();
        assert_eq!(whole, ROOM / (MAX_TEXT + ENTRY));
        // The next one has what is left of the room, and those behind it nothing.
        let (text, length) = kept(&arguments, whole as u32).unwrap();
        assert!((LEAST..MAX_TEXT).contains(&text) && length == MAX_TEXT, "{text}");
        assert_eq!(arguments.len(), whole + 1);
        // The room of one that is over is that of the next that comes.
        arguments.forget(request(0));
        arguments.keep(request(2000), &long);
        assert_eq!(kept(&arguments, 2000), Some((MAX_TEXT, MAX_TEXT)));
        (0..=2000).for_each(|index| arguments.forget(request(index)));
        assert_eq!((arguments.len(), arguments.bytes), (0, 0));
        assert!(arguments.held() <= 16 << 10, "{}", arguments.held());
    }

    #[test]
    fn many_short_ones_are_bounded_by_what_it_costs_to_keep_them() {
        let mut arguments = Arguments::default();
        for index in 0..100_000 {
            arguments.keep(request(index), b"{}");
        }
        assert!(arguments.held() <= MAX_HELD, "{}", arguments.held());
        assert!(arguments.len() >= 7500, "{}", arguments.len());
        (0..100_000).for_each(|index| arguments.forget(request(index)));
        assert_eq!(arguments.bytes, 0);
        assert!(arguments.held() <= SPARE * (size_of::<Vec<u8>>() + 8), "{}", arguments.held());
    }

    #[test]
    fn what_waits_for_the_next_request_is_bounded_too() {
        let mut arguments = Arguments::default();
        for round in 0..3 {
            (0..100).for_each(|index| arguments.keep(request(index), &[b'x'; SPARE_LENGTH]));
            assert!(arguments.held() <= MAX_HELD, "round {round}");
            (0..100).for_each(|index| arguments.forget(request(index)));
            assert!(arguments.held() <= 2 * SPARE * SPARE_LENGTH, "{}", arguments.held());
        }
    }

    #[test]
    fn of_a_long_one_the_beginning_is_kept_and_its_length() {
        let mut arguments = Arguments::default();
        arguments.keep(request(1), &vec![b'x'; 100 << 20]);
        assert_eq!(kept(&arguments, 1), Some((MAX_TEXT, 100 << 20)));
        assert!(arguments.held() < 2 * MAX_TEXT);
    }

    #[test]
    fn what_comes_of_a_request_keeps_its_arguments_when_that_is_over() {
        let mut arguments = Arguments::default();
        arguments.keep(request(1), b"{\"a\":1}");
        arguments.pass_on(request(1), request(2));
        arguments.pass_on(request(7), request(3));
        arguments.forget(request(1));
        assert_eq!((kept(&arguments, 1), kept(&arguments, 2), kept(&arguments, 3)), (None, Some((7, 7)), None));
        arguments.forget(request(2));
        assert_eq!(arguments.bytes, 0);
    }
}
