//! One link, watched without a word.
//!
//! A monitor is fed every message that passes between two sides, both ways, with the times at which it was seen, and
//! reconstructs from them alone what is in flight, how far it is, who cancelled what and what came of it. It never
//! speaks and never guesses: what it has not seen it calls unknown, and its receipts claim no more than the wire
//! showed where it stands. So two monitors at the two ends of a slow link may truly differ: whether an answer came
//! before a cancel depends on where one looks.
//!
//! What it cannot see, it has no outcome for: a receipt is never `Asked`, `NeverSent` or `NotSendable` here, since such
//! a cancel is on no wire.
//!
//! The driver feeds messages ([`handle_frame`](Monitor::handle_frame)) or bytes
//! ([`handle_input`](Monitor::handle_input)) and ends, then drains [`poll_event`](Monitor::poll_event). There is
//! nothing to write, and no timer that must fire: time only passes with what arrives. Whoever judges a link by the
//! rules stands on top: the [events](Event) say what happened, the [views](RequestView) what is known of each request,
//! and nothing here says whether it was lawful but for the cancels that a receiver must not heed
//! ([`Verdict::Forbidden`](crate::relay::Verdict)).
//!
//! Files: `pass` takes in requests, answers and progress; `stop` is every cancel; `observed` is one request, `table`
//! those of one side; `view` shows them; `proof` is for those who check the machine.

mod config;
mod event;
mod observed;
mod pass;
mod proof;
mod stop;
mod table;
mod view;

use std::collections::VecDeque;

pub use config::MonitorConfig;
pub use event::{MonitorEvent, ObservedAnswer, ObservedCancel, ObservedEnd};
pub use observed::{ObservedLate, ObservedProgress};
pub use view::{ObservedRequest, SideCounts};

use crate::{
    dialect::{Dialect, negotiation::Negotiation},
    early_cancels::{EarlyCancelLimits, EarlyCancels},
    frame::{self, Batch, Frame, Malformed, Mend},
    framing::{Chunk, Decoder, Framing, Leftover},
    hash::Seed,
    link::{Implementation, Rejected, RequestKey},
    method::Methods,
    receipt::Outcome,
    side::{Side, Sides},
    time::Instant,
};
use observed::Observed;
use table::Table;

/// An observer of one link between a client and a server.
///
/// Memory is bounded by its [`MonitorConfig`], whatever passes: about 300 bytes for each request in flight or remembered and
/// what it may keep of their texts, and one message for each side that is fed as bytes. Events wait until they are
/// polled; one message makes a few.
#[derive(Clone, Debug)]
pub struct Monitor {
    config: MonitorConfig,
    negotiation: Negotiation,
    framing: Framing,
    /// Absent only while its own bytes are being taken in.
    decoders: Sides<Option<Decoder>>,
    ended: Sides<bool>,
    /// By who sent the requests.
    tables: Sides<Table>,
    methods: Methods,
    /// What requests name: tools and prompts.
    names: Methods,
    /// Cancels that may be ahead of their request (D9).
    held: Sides<EarlyCancels>,
    /// What each side calls itself.
    implementations: Sides<Option<Implementation>>,
    /// The dialect that was last told of.
    spoken: &'static Dialect,
    events: VecDeque<MonitorEvent>,
    counts: Sides<SideCounts>,
}

impl Monitor {
    /// A monitor that has seen nothing.
    #[must_use]
    pub fn new(config: MonitorConfig) -> Self {
        let seed = Seed::new(config.seed);
        let framing = config.framing.unwrap_or(Framing::Line);
        let negotiation = Negotiation::new(Sides::from_fn(|_| config.dialect));
        Self {
            spoken: negotiation.of(Side::Client, framing),
            negotiation,
            framing,
            decoders: Sides::from_fn(|_| Some(Decoder::new(config.framing, config.max_message))),
            ended: Sides::default(),
            tables: Sides::from_fn(|_| Table::new(seed)),
            methods: Methods::new(seed),
            names: Methods::new(seed),
            held: Sides::from_fn(|_| {
                EarlyCancels::new(
                    EarlyCancelLimits { most: config.max_early_cancels, hold: config.early_cancels },
                    seed,
                )
            }),
            implementations: Sides::default(),
            events: VecDeque::new(),
            counts: Sides::default(),
            config,
        }
    }

    /// A whole message from `from`, without its framing; white space around it is allowed.
    ///
    /// Whatever it holds is taken: what cannot be read is counted and becomes an event. `now` must not be earlier than
    /// in any call before. Nothing is taken after [`handle_eof`](Self::handle_end).
    pub fn handle_frame(&mut self, now: Instant, from: Side, body: &[u8]) {
        if self.ended[from] {
            return;
        }
        self.catch_up(now);
        self.read(now, from, body);
        self.check();
    }

    /// Bytes from `from`, as they stand on the wire: messages with their framing, cut anywhere.
    ///
    /// As [`handle_frame`](Self::handle_frame) for each message.
    pub fn handle_input(&mut self, now: Instant, from: Side, mut bytes: &[u8]) {
        if self.ended[from] {
            return;
        }
        self.catch_up(now);
        let Some(mut decoder) = self.decoders[from].take() else { return };
        if let Some(framing) = decoder.detect(&mut bytes) {
            self.adopt_framing(framing);
        }
        while let Some(chunk) = decoder.decode(&mut bytes) {
            self.handle_chunk(now, from, chunk);
        }
        self.decoders[from] = Some(decoder);
        self.check();
    }

    /// `side` will send nothing more.
    ///
    /// Requests that it had to answer are lost. Its own may still be answered, unless it is the server, whose end is
    /// the end of the session (D27, D35), or the other side has ended too.
    pub fn handle_eof(&mut self, now: Instant, side: Side) {
        if self.ended[side] {
            return;
        }
        self.catch_up(now);
        self.handle_leftover(now, side);
        self.ended[side] = true;
        self.events.push_back(MonitorEvent::Ended { side });
        self.give_up(now, side.other(), ObservedEnd::Lost);
        if side == Side::Server || self.ended[side.other()] {
            self.give_up(now, side, ObservedEnd::Gone);
        }
        self.check();
    }

    /// Tells what has become clear by time alone: that a cancel held for a request was for none (D9). Without this call
    /// it is told with what arrives next.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.catch_up(now);
        self.check();
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to tell.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        Side::BOTH.into_iter().filter_map(|side| self.held[side].due()).min()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<MonitorEvent> {
        self.events.pop_front()
    }

    fn handle_chunk(&mut self, now: Instant, from: Side, chunk: Chunk<'_>) {
        match chunk {
            Chunk::Frame(framed) => self.read(now, from, framed.body()),
            Chunk::Overlong(message) => self.handle_overlong(now, from, &message),
            Chunk::Broken(_) => self.note_unread(from, Rejected::Broken),
        }
    }

    fn read(&mut self, now: Instant, from: Side, body: &[u8]) {
        self.counts[from].messages += 1;
        match frame::parse(body) {
            Ok(Frame::Batch(batch)) => self.handle_batch(now, from, batch),
            Ok(message) => self.handle_message(now, from, message),
            Err(malformed) => self.handle_unread(now, from, body, malformed),
        }
    }

    /// A message that cannot be read as it is: read mended if it can be, as its receiver is presumed to read it (D43).
    fn handle_unread(&mut self, now: Instant, from: Side, body: &[u8], malformed: Malformed) {
        match frame::mend(body, self.config.max_message) {
            Mend::Mended(mended) => {
                if let Ok(message) = frame::parse_member(&mended) {
                    self.handle_message(now, from, message);
                }
            }
            Mend::TooLong(_) | Mend::No => self.handle_malformed(now, from, malformed),
        }
    }

    fn handle_batch(&mut self, now: Instant, from: Side, batch: Batch<'_>) {
        self.events.push_back(MonitorEvent::Batch { from, members: batch.len() });
        for body in batch.members() {
            match frame::parse_member(body) {
                Ok(message) => self.handle_message(now, from, message),
                Err(malformed) => self.handle_unread(now, from, body, malformed),
            }
        }
    }

    /// The last bytes of an input that ended in the middle of something.
    fn handle_leftover(&mut self, now: Instant, from: Side) {
        match self.decoders[from].as_mut().and_then(Decoder::finish) {
            None => {}
            // A last line without its line break is a message if it can be read as one.
            Some(Leftover::Line(line)) if frame::parse(&line).is_ok() => self.read(now, from, &line),
            Some(Leftover::Line(_) | Leftover::Half(_)) => self.note_unread(from, Rejected::Unfinished),
            Some(Leftover::Overlong(message)) => self.handle_overlong(now, from, &message),
        }
    }

    /// The first framing seen is the framing of both sides.
    fn adopt_framing(&mut self, framing: Framing) {
        self.framing = framing;
        for side in Side::BOTH {
            let decoder = &mut self.decoders[side];
            if decoder.as_ref().is_some_and(|decoder| decoder.framing().is_none() && decoder.buffered() == 0) {
                *decoder = Some(Decoder::new(Some(framing), self.config.max_message));
            }
        }
    }

    /// What time alone has done since the last call.
    fn catch_up(&mut self, now: Instant) {
        for side in Side::BOTH {
            while let Some(held) = self.held[side].expire(now) {
                self.note_held_in_vain(side, held);
            }
            self.tables[side].prune(now, self.config.remembered, self.config.remember);
        }
    }

    /// The requests of `from` in flight are over without an answer, and so is what could be learnt of their cancels.
    fn give_up(&mut self, now: Instant, from: Side, how: ObservedEnd) {
        for key in self.tables[from].live_by_age() {
            let request = RequestKey { from, key };
            let Some(observed) = self.tables[from].get_mut(key) else { continue };
            let confirms = !observed.dialect.is_silent();
            if let Some(cancel) = observed.cancel.as_deref_mut()
                && cancel.outcome.is_cut_short(confirms)
            {
                cancel.outcome = Outcome::Unknown;
                self.events.push_back(MonitorEvent::Receipt { request, outcome: Outcome::Unknown });
            }
            self.settle(now, request, how);
        }
    }

    fn settle(&mut self, now: Instant, request: RequestKey, how: ObservedEnd) {
        if self.tables[request.from].settle(request.key, now, how) {
            self.events.push_back(MonitorEvent::Settled { request, how });
        }
    }

    fn observed(&self, request: RequestKey) -> Option<&Observed> {
        self.tables[request.from].get(request.key)
    }

    fn observed_mut(&mut self, request: RequestKey) -> Option<&mut Observed> {
        self.tables[request.from].get_mut(request.key)
    }

    fn note_unread(&mut self, from: Side, why: Rejected) {
        self.counts[from].unread += 1;
        self.events.push_back(MonitorEvent::Rejected { from, why });
    }

    /// Tells of the dialect, if something has just shown another one.
    fn note_dialect(&mut self) {
        let dialect = self.dialect();
        if *dialect != *self.spoken {
            self.spoken = dialect;
            self.events.push_back(MonitorEvent::Dialect { dialect });
        }
    }
}
