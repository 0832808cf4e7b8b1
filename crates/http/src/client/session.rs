//! The session: how it is opened, how it is opened again once the server has forgotten it, and how it ends.

use core::mem::take;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use rescind_proto::{
    dialect::{Dialect, mcp, negotiation::Negotiation},
    frame::{self, Frame, ResponseBody},
    framing::Framing,
    json,
    link::{Departure, Fault},
    side::{Side, Sides},
    time::Instant,
};

use super::{
    ErrandKey, HttpClient, HttpClientNotice,
    errand::{CallKind, Errand, OneWayKind, Role, Stage, Waiting},
    failure::Failure,
    fetch::{Aim, Fetch, Phase},
    headers::{self, Origin},
    words,
};

/// The notification that ends a handshake.
pub(crate) const INITIALIZED: &str = "notifications/initialized";

/// What is known of the session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) state: SessionState,
    /// Counts the sessions that were opened.
    pub(crate) generation: u64,
    pub(crate) negotiation: Negotiation,
    /// Its id, if the server gave it one.
    pub(crate) id: Option<HeaderValue>,
    /// Which server opened it: its id and those of its events are sent to no other.
    origin: Option<Origin>,
    /// The revision that was agreed on.
    pub(crate) version: Option<HeaderValue>,
    /// The local client's handshake, to be sent again.
    initialize: Option<Bytes>,
    pub(crate) initialized: Option<Bytes>,
    /// The errand on which the server speaks unasked.
    listen: Option<ErrandKey>,
    /// The server has accepted something in it.
    has_worked: bool,
}

/// Where a session is.
///
/// ```text
/// None ──► Opening ──► Open ──► Greeting ──► Open ──► Reopening ──► Open, and so on
///             │                                         ▲  │
///             └──► None                                 └─ Lost
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// There is none.
    None,
    /// The local client's handshake is under way.
    Opening(ErrandKey),
    /// The end of the handshake is under way, and the server has not accepted it yet.
    Greeting(ErrandKey),
    Open,
    /// A handshake of ours is under way, since the server has forgotten the session.
    Reopening(ErrandKey),
    /// It could not be opened again. The next message tries once more.
    Lost,
}

impl Session {
    pub(crate) const fn new(generation: u64, initialize: Option<Bytes>) -> Self {
        Self {
            state: SessionState::None,
            generation,
            negotiation: Negotiation::new(Sides { client: None, server: None }),
            id: None,
            origin: None,
            version: None,
            initialize,
            initialized: None,
            listen: None,
            has_worked: false,
        }
    }

    /// Its dialect, or what is taken for it.
    pub(crate) fn dialect(&self) -> &'static Dialect {
        self.negotiation.of(Side::Client, Framing::Line)
    }

    /// The dialect of a message with this `_meta`.
    pub(crate) fn dialect_of(&self, meta: Option<&[u8]>) -> &'static Dialect {
        self.negotiation.of_request(Side::Client, Framing::Line, Negotiation::named(meta))
    }

    /// Whether messages in it wait: for its id, or until the server has accepted the end of the handshake.
    pub(crate) const fn is_gated(&self) -> bool {
        matches!(self.state, SessionState::Opening(_) | SessionState::Greeting(_) | SessionState::Reopening(_))
    }

    /// Whether it was opened there; `own` is where the server is.
    pub(crate) fn is_of(&self, origin: &Origin, own: &Origin) -> bool {
        self.origin.as_ref().unwrap_or(own) == origin
    }

    /// The server has accepted something in the session of this generation.
    pub(crate) fn note_work(&mut self, generation: Option<u64>) {
        self.has_worked |= generation == Some(self.generation);
    }

    /// Notes the id of the session that a handshake opens.
    pub(crate) fn note_id(&mut self, handshake: ErrandKey, fields: &HeaderMap, origin: Origin) {
        if !matches!(self.state, SessionState::Opening(now) | SessionState::Reopening(now) if now == handshake) {
            return;
        }
        let id = fields.get(headers::SESSION).map(HeaderValue::as_bytes);
        let is_lawful = |id: &&[u8]| !id.is_empty() && id.iter().all(|byte| matches!(byte, b'!'..=b'~'));
        self.id = id.filter(is_lawful).and_then(headers::secret);
        self.origin = Some(origin);
    }

    /// The server has answered the handshake of the local client.
    pub(crate) fn note_answer(&mut self, handshake: ErrandKey, body: &ResponseBody<'_>) {
        match body {
            ResponseBody::Result(result) if self.state == SessionState::Opening(handshake) => self.open(result),
            ResponseBody::Result(_) => {}
            ResponseBody::Error(_) => drop(self.note_failure(handshake)),
        }
    }

    /// The handshake of the local client has failed; `false` if it is not the one under way.
    pub(crate) fn note_failure(&mut self, handshake: ErrandKey) -> bool {
        let is_under_way = self.state == SessionState::Opening(handshake);
        if is_under_way {
            (self.id, self.origin, self.state) = (None, None, SessionState::None);
        }
        is_under_way
    }

    fn open(&mut self, result: &[u8]) {
        self.negotiation.saw_initialize_result(result);
        let version = json::member(result, "protocolVersion").and_then(json::text);
        self.version = version.and_then(|version| HeaderValue::from_str(&version).ok());
        self.state = SessionState::Open;
    }
}

impl HttpClient {
    /// The local client opens a session. One that it had is over.
    pub(crate) fn begin_handshake(&mut self, now: Instant, body: &Bytes, params: Option<&[u8]>) {
        let earlier = self.session.generation;
        self.end_session();
        self.fail_generation(now, earlier, "the client has opened another session");
        self.session = Session::new(earlier + 1, Some(body.clone()));
        self.session.negotiation.saw_initialize(Framing::Line, params);
        self.pull_back(now);
    }

    /// Sends what has waited, as far as it may be sent now.
    pub(crate) fn release_held(&mut self, now: Instant) {
        while !self.session.is_gated()
            && let Some(key) = self.errands.held.first().copied()
        {
            self.errands.take_held(key);
            self.send(now, key);
        }
    }

    /// The server has accepted that the handshake is over, or never will: perhaps it takes messages all the same.
    pub(crate) fn handle_greeted(&mut self, now: Instant, key: ErrandKey, is_accepted: bool) {
        if self.session.state == SessionState::Greeting(key) {
            self.session.state = SessionState::Open;
        }
        if is_accepted && self.session.listen.is_none() && !self.is_closing {
            self.session.has_worked = true;
            let listen = self.errands.insert(self.errand(Role::Listen, Bytes::new()));
            self.session.listen = Some(listen);
            self.errands.carry(listen, Aim::Get);
        }
        self.release_held(now);
    }

    /// The server says that it does not know the session of this generation; `true` if another is, or will be, open, in
    /// which what was refused can be sent again.
    pub(crate) fn handle_unknown_session(&mut self, now: Instant, generation: u64) -> bool {
        if generation != self.session.generation {
            return !matches!(self.session.state, SessionState::None);
        }
        if !self.session.has_worked || self.session.initialize.is_none() || self.is_closing {
            return false;
        }
        self.notice(HttpClientNotice::SessionLost);
        self.errands.events.push_back(Departure::Session.into());
        self.fail_generation(now, generation, "the session ended on the server");
        self.reopen(now);
        true
    }

    /// Opens the session again, as the local client has opened it.
    pub(crate) fn reopen(&mut self, now: Instant) {
        let Some(body) = self.session.initialize.clone() else { return };
        let Ok(Frame::Request(request)) = frame::parse(&body) else { return };
        let session = &mut self.session;
        (session.id, session.origin, session.version) = (None, None, None);
        session.has_worked = false;
        session.generation += 1;
        let mut errand = self.errand(Role::Reopen, body.clone());
        errand.dialect = &mcp::LATEST_LEGACY;
        errand.waiting.push(Waiting::new(request.id.clone(), CallKind::Handshake));
        let key = self.errands.insert(errand);
        self.session.state = SessionState::Reopening(key);
        self.pull_back(now);
        self.start(key);
    }

    /// Takes back what is to be sent in the session and was not handed out.
    fn pull_back(&mut self, now: Instant) {
        let unsent = self.errands.keys(|errand| match &errand.stage {
            Stage::Carried(Fetch { aim: Aim::Send, phase: Phase::Queued, .. }) => errand.session.is_some(),
            Stage::Away => errand.session.is_some() && errand.one_way().is_some(),
            Stage::Carried(_) | Stage::Held | Stage::Surveying(..) => false,
        });
        for key in unsent {
            let Some(errand) = self.errands.get(key) else { continue };
            let kind = errand.one_way().map(|one_way| one_way.kind.clone());
            if let Some(OneWayKind::Other) = kind {
                self.errands.arm(key, None);
            }
            match kind {
                None | Some(OneWayKind::Other | OneWayKind::End { .. }) => self.errands.hold(key),
                // The end of a handshake is sent again with it.
                Some(OneWayKind::Initialized) => self.errands.forget(key),
                Some(OneWayKind::Cancel { of, id, .. }) => {
                    self.errands.forget(key);
                    self.errands.cancel_settled(of, &id, now + self.config.end_within);
                }
                Some(OneWayKind::Answer) => {
                    self.errands.forget(key);
                    self.dropped("", "the session that asked has ended");
                }
            }
        }
    }

    /// The server has answered our handshake.
    pub(crate) fn reopen_answered(&mut self, now: Instant, key: ErrandKey, body: &ResponseBody<'_>) {
        match body {
            ResponseBody::Result(_) if self.session.state != SessionState::Reopening(key) => self.errands.forget(key),
            ResponseBody::Result(result) => {
                self.session.open(result);
                self.errands.forget(key);
                self.notice(HttpClientNotice::SessionReopened);
                if let Some(body) = self.session.initialized.clone() {
                    let initialized =
                        self.errands.insert(self.one_way(OneWayKind::Initialized, body, INITIALIZED, None));
                    self.start(initialized);
                }
                self.release_held(now);
            }
            ResponseBody::Error(error) => {
                let said = json::member(error, "message").and_then(json::text).unwrap_or_default();
                self.reopen_failed(now, key, &words::excerpt(said.as_bytes()), None);
            }
        }
    }

    /// The session cannot be opened again: what has waited for it is given up.
    pub(crate) fn reopen_failed(&mut self, now: Instant, key: ErrandKey, why: &str, failure: Option<&Failure>) {
        self.errands.forget(key);
        if self.session.state != SessionState::Reopening(key) {
            return;
        }
        self.session.state = SessionState::Lost;
        let text = format!("the session ended on the server, and no new one could be opened: {why}");
        let failure = match failure {
            Some(failure) => failure.clone().into_not_run(text),
            None => Failure::not_run(Fault::Server, text),
        };
        for key in take(&mut self.errands.held) {
            match self.errands.get(key).is_some_and(Errand::has_stream) {
                true => self.fail(now, key, &failure),
                false => self.drop_one_way(key, "there is no session"),
            }
        }
    }

    /// Ends what is under way in a session that is over.
    fn fail_generation(&mut self, now: Instant, generation: u64, why: &str) {
        let failure = Failure::unknown(Fault::Server, format!("{why}; the request may have been carried out"));
        for key in self.errands.keys(|errand| errand.session == Some(generation) && errand.has_stream()) {
            let Some(errand) = self.errands.get(key) else { continue };
            if errand.is_posting() {
                // It may be refused as this one was, and be sent again; if it is not answered at all, it is given up.
                self.errands.arm(key, Some(now + self.config.cancel_patience));
            } else if !matches!(errand.stage, Stage::Held | Stage::Carried(Fetch { aim: Aim::Probe(_), .. })) {
                self.fail(now, key, &failure);
            }
        }
        self.session.listen = None;
    }

    /// Tells the server that the session is over.
    pub(crate) fn end_session(&mut self) {
        let Some(session) = self.session.id.take() else { return };
        let origin = self.session.origin.clone().unwrap_or_else(|| self.origin.clone());
        let kind = OneWayKind::End { session, origin, version: self.session.version.clone() };
        let end = self.errands.insert(Errand { session: None, ..self.one_way(kind, Bytes::new(), "", None) });
        self.errands.carry(end, Aim::Send);
    }
}
