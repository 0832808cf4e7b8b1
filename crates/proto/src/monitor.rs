//! A passive observer of one link.
//!
//! A monitor is fed every message that passes between two sides, both ways, with its times. From these alone it
//! reconstructs which requests are in flight, how far each is, who cancelled it, and what came of that. It sends
//! nothing and guesses nothing: unseen is unknown, and a receipt claims no more than the wire showed at the monitor's
//! place. So monitors at the two ends of a slow link may differ, and both be right: whether an answer came before a
//! cancel depends on the place.
//!
//! A receipt is never `Asked`, `NeverSent` or `NotSendable` here, since such a cancel is on no wire.
//!
//! The driver feeds messages ([`handle_frame`](Monitor::handle_frame)) or bytes
//! ([`handle_input`](Monitor::handle_input)) and ends, then drains [`poll_event`](Monitor::poll_event). There is
//! nothing to write, and no timer must fire: time passes only with what arrives.
//!
//! A judge of a link stands on top. [Events](MonitorEvent) say what happened, [views](ObservedRequest) what is known of
//! each request. The monitor itself calls only one thing unlawful: a cancel that its receiver must not heed
//! ([`Verdict::Forbidden`](crate::link::Verdict)).
//!
//! Files: `pass` receives requests, answers and progress; `stop` is every cancel; `child` is the children of ACP sessions,
//! `task` MCP's tasks; `observed` is one request, `requests` those of one side; `view` shows them; `proof` holds the invariants.
//!
//! A relay mostly keeps bytes that wait to be written; here nothing waits. So the two share the small tables and words and
//! no state. An answer under an id that was used again, while the first request was still owed one, is that of the second,
//! and *doubtful*; a response to nothing known is *unasked* and not wrong, since it may be from before the monitor began.

mod child;
mod config;
mod event;
mod observed;
mod pass;
mod proof;
mod requests;
mod stop;
mod task;
mod view;

use std::collections::VecDeque;

pub use crate::early_cancels::EarlyCancelLimits;
pub use child::ObservedChild;
pub use config::MonitorConfig;
pub use event::{MonitorEvent, ObservedAnswer, ObservedCancel, ObservedEnd};
pub use observed::ObservedProgress;
pub use task::ObservedTask;
pub use view::ObservedRequest;

use crate::{
    children::Children,
    dialect::{Dialect, negotiation::Negotiation},
    early_cancels::EarlyCancels,
    frame::{self, Batch, Frame, Malformed, Mend, Piece},
    framing::{Chunk, Decoder, Framing, Leftover},
    hash::Seed,
    link::{Implementation, Rejected, RequestKey, Verdict},
    method::Methods,
    receipt::Outcome,
    side::{Side, Sides},
    time::Instant,
};
use observed::Observed;
use requests::Requests;

/// An observer of one link between a client and a server.
///
/// Its [`MonitorConfig`] bounds its memory, whatever passes: about 300 bytes and some texts for each request in flight
/// or remembered, at most 4 MiB for children of ACP sessions and 1 MiB for tasks, and one message for each side that is fed as
/// bytes. Events wait until they are polled; a message makes a few.
#[derive(Clone, Debug)]
pub struct Monitor {
    config: MonitorConfig,
    negotiation: Negotiation,
    framing: Framing,
    /// Absent only while its own bytes are being read.
    decoders: Sides<Option<Decoder>>,
    ended: Sides<bool>,
    /// By who sent the requests.
    requests: Sides<Requests>,
    methods: Methods,
    /// The tools and prompts that requests name.
    names: Methods,
    /// Cancels that may be ahead of their request (D9).
    early_cancels: Sides<EarlyCancels>,
    /// Sessions that the agent opened for parts of the work (D54).
    children: Children,
    /// What requests became (D56).
    tasks: task::Tasks,
    /// As each side's handshake says.
    implementations: Sides<Option<Implementation>>,
    /// The dialect that was last reported, or assumed at first.
    reported: &'static Dialect,
    events: VecDeque<MonitorEvent>,
}

impl Monitor {
    /// Creates a monitor that has seen nothing.
    #[must_use]
    pub fn new(config: MonitorConfig) -> Self {
        let seed = Seed::new(config.seed);
        let framing = config.framing.unwrap_or(Framing::Line);
        let negotiation = Negotiation::new(Sides::from_fn(|_| config.dialect)).or_unknown(config.unknown);
        Self {
            reported: negotiation.of(Side::Client, framing),
            negotiation,
            framing,
            decoders: Sides::from_fn(|_| Some(Decoder::new(config.framing, config.max_message))),
            ended: Sides::default(),
            requests: Sides::from_fn(|_| Requests::new(seed, config.remembered, config.remember)),
            methods: Methods::new(seed),
            names: Methods::new(seed),
            early_cancels: Sides::from_fn(|_| EarlyCancels::new(config.early_cancels, seed)),
            children: Children::new(seed),
            tasks: task::Tasks::default(),
            implementations: Sides::default(),
            events: VecDeque::new(),
            config,
        }
    }

    /// Reads a whole message from `from`, without its framing; white space around it is allowed.
    ///
    /// A message that cannot be read is an event. `now` must not be earlier than in any call before.
    /// Nothing is read after [`handle_eof`](Self::handle_eof).
    pub fn handle_frame(&mut self, now: Instant, from: Side, body: &[u8]) {
        if self.ended[from] {
            return;
        }
        self.catch_up(now);
        self.read(now, from, body);
        self.check();
    }

    /// Reads bytes from `from` as they stand on the wire: messages with their framing, cut anywhere.
    ///
    /// Equals [`handle_frame`](Self::handle_frame) for each message.
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
            match chunk {
                Chunk::Frame(framed) => self.read(now, from, framed.body()),
                Chunk::Overlong(message) => self.handle_overlong(now, from, &message),
                Chunk::Broken(_) => self.note_rejected(from, Rejected::Broken),
            }
        }
        self.decoders[from] = Some(decoder);
        self.check();
    }

    /// Notes that `side` will send nothing more.
    ///
    /// The requests that it had to answer are lost. Its own may still be answered, unless it is the server, whose end
    /// ends the session (D27, D35), or the other side has ended too.
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
        if side == Side::Server {
            self.lose_children();
            self.lose_tasks();
        }
        self.check();
    }

    /// Emits what time alone has made clear: that an early cancel was for no request (D9). Without this call, the next
    /// input emits it.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.catch_up(now);
        self.check();
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to emit.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        Side::BOTH.into_iter().filter_map(|side| self.early_cancels[side].due()).min()
    }

    /// Takes the next event.
    pub fn poll_event(&mut self) -> Option<MonitorEvent> {
        self.events.pop_front()
    }

    fn read(&mut self, now: Instant, from: Side, body: &[u8]) {
        let message = frame::parse(body);
        if self.negotiation.is_opening() {
            self.negotiation.saw_opening(from, self.framing, body, &message);
            self.note_dialect();
        }
        match message {
            Ok(Frame::Notification(_) | Frame::Batch(_)) | Err(_) if self.negotiation.is_opaque() => {}
            Ok(Frame::Batch(batch)) => self.handle_batch(now, from, batch),
            Ok(message) => self.handle_message(now, from, message),
            Err(malformed) => match frame::apart(body) {
                Some(pieces) => pieces.into_iter().for_each(|piece| match piece {
                    Piece::Noise(_) => {}
                    // One piece holds no others, so this goes one level down at most.
                    Piece::Message(message) => self.read(now, from, message),
                }),
                None => self.handle_unread(now, from, body, malformed),
            },
        }
    }

    /// Reads a message mended that cannot be read as it is, since its receiver is presumed to do so (D43).
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

    /// Reads the last bytes of an input that ended inside a message.
    fn handle_leftover(&mut self, now: Instant, from: Side) {
        match self.decoders[from].as_mut().and_then(Decoder::finish) {
            None => {}
            // A last line without its line break is a message if it can be read as one.
            Some(Leftover::Line(line)) if frame::holds_message(&line) => self.read(now, from, &line),
            Some(Leftover::Line(_) | Leftover::Half(_)) => self.note_rejected(from, Rejected::Unfinished),
            Some(Leftover::Overlong(message)) => self.handle_overlong(now, from, &message),
        }
    }

    /// Reads both sides in the framing that was seen first.
    fn adopt_framing(&mut self, framing: Framing) {
        self.framing = framing;
        for side in Side::BOTH {
            let decoder = &mut self.decoders[side];
            if decoder.as_ref().is_some_and(|decoder| decoder.framing().is_none() && decoder.buffered() == 0) {
                *decoder = Some(Decoder::new(Some(framing), self.config.max_message));
            }
        }
    }

    /// Does what was due by time since the last call.
    fn catch_up(&mut self, now: Instant) {
        for side in Side::BOTH {
            while let Some(held) = self.early_cancels[side].expire(now) {
                self.note_early_cancel(side, None, &held, Verdict::Unknown);
            }
            self.requests[side].prune(now);
        }
    }

    /// Settles the requests of `from` in flight without an answer; nothing more can be learnt of their cancels.
    fn give_up(&mut self, now: Instant, from: Side, how: ObservedEnd) {
        for key in self.requests[from].live_by_age() {
            let request = RequestKey { from, key };
            let Some(observed) = self.requests[from].table.get_mut(key) else { continue };
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
        if self.requests[request.from].settle(request.key, now, how) {
            self.events.push_back(MonitorEvent::Settled { request, how });
        }
    }

    fn observed(&self, request: RequestKey) -> Option<&Observed> {
        self.requests[request.from].table.get(request.key)
    }

    fn observed_mut(&mut self, request: RequestKey) -> Option<&mut Observed> {
        self.requests[request.from].table.get_mut(request.key)
    }

    /// The turn of a session in flight.
    fn open_turn(&self, session: Option<&[u8]>) -> Option<RequestKey> {
        Some(RequestKey { from: Side::Client, key: self.requests.client.open_turn(session?)? })
    }

    fn note_rejected(&mut self, from: Side, why: Rejected) {
        self.events.push_back(MonitorEvent::Rejected { from, why });
    }

    /// Reports the dialect, if a message has just shown another one.
    fn note_dialect(&mut self) {
        let dialect = self.dialect();
        if *dialect != *self.reported {
            self.reported = dialect;
            self.events.push_back(MonitorEvent::Dialect { dialect });
        }
    }
}
