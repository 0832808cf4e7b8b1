//! The session: how it is opened, how it is opened again once the server has forgotten it, and how it ends.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use rescind_proto::{
    dialect::{mcp, negotiation::Negotiation},
    frame::{self, Frame, ResponseBody},
    framing::Framing,
    id::RequestId,
    json,
    link::Fault,
    side::Sides,
    time::Instant,
};

use super::{
    FetchKey, Held, HttpClient, HttpClientNotice, StreamKey,
    failure::Failure,
    fetch::{OneWayKind, Phase, Role},
    headers::{self, Origin},
    stream::{CallKind, CallState, Purpose, Stage, Stream, Waiting},
    words,
};

/// The notification that ends a handshake.
pub(crate) const INITIALIZED: &str = "notifications/initialized";

/// What is known of the session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    pub(crate) state: SessionState,
    /// Counts the sessions that were opened.
    pub(crate) generation: u64,
    /// Its id, if the server gave it one.
    pub(crate) id: Option<HeaderValue>,
    /// Who opened it: its id and those of its events are said to nobody else.
    pub(crate) origin: Option<Origin>,
    /// The revision that was agreed on.
    pub(crate) version: Option<HeaderValue>,
    /// The local client's handshake, to be said again.
    initialize: Option<Bytes>,
    pub(crate) initialized: Option<Bytes>,
    /// The stream on which the server speaks unasked.
    listen: Option<StreamKey>,
    /// The server has accepted something in it.
    pub(crate) has_worked: bool,
}

/// Where a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// There is none.
    #[default]
    None,
    /// The local client's handshake is under way.
    Opening(StreamKey),
    /// The server was told that the handshake is over, and has not accepted that yet.
    Greeting(FetchKey),
    Open,
    /// A handshake of ours is under way, since the server has forgotten the session.
    Reopening(StreamKey),
    /// It could not be opened again. The next message tries once more.
    Lost,
}

impl HttpClient {
    /// The local client opens a session. One that it had is over.
    pub(crate) fn begin_handshake(&mut self, now: Instant, body: &Bytes, params: Option<&[u8]>) {
        let earlier = self.session.generation;
        self.end_session();
        self.fail_generation(now, earlier, "the client has opened another session");
        self.session = Session { generation: earlier + 1, initialize: Some(body.clone()), ..Session::default() };
        self.negotiation = Negotiation::new(Sides { client: None, server: None });
        self.negotiation.saw_initialize(Framing::Line, params);
        self.pull_back(now);
    }

    /// Whether this stream is a handshake, of the local client or ours.
    pub(crate) fn is_handshake(&self, key: StreamKey) -> bool {
        self.streams.get(&key).is_some_and(|stream| {
            stream.purpose == Purpose::Reopen
                || stream.waiting.iter().any(|waiting| waiting.kind == CallKind::Handshake)
        })
    }

    /// Notes the id of the session that a handshake opens.
    pub(crate) fn note_session_id(&mut self, key: StreamKey, fields: &HeaderMap, origin: Origin) {
        if !matches!(self.session.state, SessionState::Opening(now) | SessionState::Reopening(now) if now == key) {
            return;
        }
        let id = fields.get(headers::SESSION).map(HeaderValue::as_bytes);
        let is_lawful = |id: &&[u8]| !id.is_empty() && id.iter().all(|byte| matches!(byte, b'!'..=b'~'));
        self.session.id = id.filter(is_lawful).and_then(headers::secret);
        self.session.origin = Some(origin);
    }

    /// The server has answered the handshake of the local client.
    pub(crate) fn handshake_answered(&mut self, now: Instant, key: StreamKey, body: &ResponseBody<'_>) {
        if self.session.state != SessionState::Opening(key) {
            return;
        }
        match body {
            ResponseBody::Result(result) => self.note_agreement(result),
            ResponseBody::Error(_) => {
                (self.session.id, self.session.origin) = (None, None);
                self.session.state = SessionState::None;
            }
        }
        self.release_held(now);
    }

    fn note_agreement(&mut self, result: &[u8]) {
        self.negotiation.saw_initialize_result(result);
        let version = json::member(result, "protocolVersion").and_then(json::text);
        self.session.version = version.and_then(|version| HeaderValue::from_str(&version).ok());
        self.session.state = SessionState::Open;
    }

    /// Sends what has waited, as far as it may be sent now.
    pub(crate) fn release_held(&mut self, now: Instant) {
        while !self.is_gated()
            && let Some((_, held)) = self.held.pop_first()
        {
            match held {
                Held::Stream(key) => {
                    self.set_stage(key, Stage::Away);
                    self.send_in_session(now, key);
                }
                Held::OneWay(one_way) => {
                    self.unsent -= one_way.body.len();
                    self.start_one_way(one_way);
                }
            }
        }
    }

    /// The server has accepted that the handshake is over, or never will.
    pub(crate) fn handle_greeted(&mut self, now: Instant, key: FetchKey, is_accepted: bool) {
        if self.session.state == SessionState::Greeting(key) {
            self.session.state = SessionState::Open;
        }
        if is_accepted && self.session.listen.is_none() && !self.is_closing {
            self.session.has_worked = true;
            let stream = Stream::new(Purpose::Listen, self.dialect(), Some(self.session.generation), Bytes::new());
            let listen = self.insert_stream(stream);
            self.session.listen = Some(listen);
            self.start_get(listen);
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
        self.fail_generation(now, generation, "the session ended on the server");
        self.reopen(now);
        true
    }

    /// Opens the session again, as the local client has opened it.
    pub(crate) fn reopen(&mut self, now: Instant) {
        let Some(body) = self.session.initialize.clone() else { return };
        let Ok(Frame::Request(request)) = frame::parse(&body) else { return };
        let id = request.id.clone();
        (self.session.id, self.session.origin, self.session.version) = (None, None, None);
        self.session.has_worked = false;
        self.session.generation += 1;
        let generation = self.session.generation;
        let mut stream = Stream::new(Purpose::Reopen, &mcp::LATEST_LEGACY, Some(generation), body.clone());
        stream.waiting.push(Waiting::new(id, CallKind::Handshake));
        let key = self.insert_stream(stream);
        self.session.state = SessionState::Reopening(key);
        self.pull_back(now);
        self.start_post(key);
    }

    /// Takes back what is to be sent in the session and was not handed out.
    fn pull_back(&mut self, now: Instant) {
        let queued = self.fetches.iter().filter(|(_, fetch)| matches!(fetch.phase, Phase::Queued | Phase::Waiting));
        for (key, fetch) in queued.map(|(key, fetch)| (*key, fetch.role.clone())).collect::<Vec<_>>() {
            match fetch {
                Role::Post(stream) if self.streams.get(&stream).is_some_and(|stream| !stream.is_stateless()) => {
                    self.remove_fetch(key);
                    self.hold(stream);
                }
                Role::OneWay(one_way) if one_way.stateless.is_none() => {
                    self.remove_fetch(key);
                    match one_way.kind {
                        OneWayKind::Cancel(stream, id) => self.cancel_settled(now, stream, &id),
                        OneWayKind::Answer => self.dropped("", "the session that asked has ended"),
                        // Said again as part of the handshake.
                        OneWayKind::Initialized => {}
                        OneWayKind::Other => {
                            let place = self.allocate_key();
                            self.unsent += one_way.body.len();
                            self.held.insert(place, Held::OneWay(*one_way));
                        }
                    }
                }
                Role::Post(_) | Role::Get(_) | Role::OneWay(_) | Role::Probe(_) | Role::End { .. } => {}
            }
        }
    }

    /// The server has answered our handshake.
    pub(crate) fn reopen_answered(&mut self, now: Instant, key: StreamKey, body: &ResponseBody<'_>) {
        if self.session.state != SessionState::Reopening(key) {
            self.forget_stream(key);
            return;
        }
        match body {
            ResponseBody::Result(result) => {
                self.note_agreement(result);
                self.forget_stream(key);
                self.notice(HttpClientNotice::SessionReopened);
                if let Some(body) = self.session.initialized.clone() {
                    self.start_one_way(self.one_way(OneWayKind::Initialized, body, INITIALIZED));
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
    pub(crate) fn reopen_failed(&mut self, now: Instant, key: StreamKey, why: &str, failure: Option<&Failure>) {
        self.forget_stream(key);
        if self.session.state != SessionState::Reopening(key) {
            return;
        }
        self.session.state = SessionState::Lost;
        let text = format!("the session ended on the server, and no new one could be opened: {why}");
        let failure = match failure {
            Some(failure) => failure.clone().into_not_run(text),
            None => Failure::not_run(Fault::Server, text),
        };
        for (_, held) in core::mem::take(&mut self.held) {
            match held {
                Held::Stream(key) => {
                    self.set_stage(key, Stage::Away);
                    self.fail_stream(now, key, &failure);
                }
                Held::OneWay(one_way) => {
                    self.unsent -= one_way.body.len();
                    self.dropped(&one_way.method, "there is no session");
                }
            }
        }
    }

    /// Ends what is under way in a session that is over.
    fn fail_generation(&mut self, now: Instant, generation: u64, why: &str) {
        let of_it = self.streams.iter().filter(|(_, stream)| stream.session == Some(generation));
        for (key, stage) in of_it.map(|(key, stream)| (*key, stream.stage.clone())).collect::<Vec<_>>() {
            match stage {
                // It may be refused as this one was, and be sent again; if it is not answered at all, it is given up.
                Stage::Posting(_) => self.arm_stream(key, Some(now + self.config.cancel_patience)),
                Stage::Held(_) | Stage::Probing(_) => {}
                Stage::Reading(_) | Stage::Away | Stage::Asking(_) | Stage::Surveying(..) => {
                    let text = format!("{why}; the request may have been carried out");
                    self.fail_stream(now, key, &Failure::unknown(Fault::Server, text));
                }
            }
        }
        self.session.listen = None;
    }

    /// Tells the server that the session is over.
    pub(crate) fn end_session(&mut self) {
        let Some(session) = self.session.id.take() else { return };
        let origin = self.session.origin.clone().unwrap_or_else(|| self.origin.clone());
        let role = Role::End { session, origin, version: self.session.version.clone(), is_repeated: false };
        self.start(self.fetch(role, Phase::Queued));
    }

    /// The server has answered the cancel of this request, or will not.
    pub(crate) fn cancel_settled(&mut self, now: Instant, key: StreamKey, id: &RequestId) {
        let end = now + self.config.end_within;
        let Some(stream) = self.streams.get_mut(&key) else { return };
        for waiting in &mut stream.waiting {
            if let CallState::Cancelled { cancel, until } = &mut waiting.state
                && waiting.id == *id
            {
                (*cancel, *until) = (None, end.min(*until));
            }
        }
        self.settle(key);
    }
}
