//! To whom messages belong, where clients sign in at the server behind: whose link they share, when a link changes hands,
//! and what the server says of it.
//!
//! Without sessions a link has one value of `Authorization` for its life, since everything else that it has would otherwise
//! be kept apart request by request. In a session a token is refreshed, so it changes within the link's ordered input:
//! `LinkInput::Credentials`, then the messages under it. The relay between has a queue of its own: its drive reads nothing
//! more of the client until the server's stream has taken all that was before, and only then hands the change over.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use rescind_proto::{error_code, frame::ResponseBody, json, time::Instant};

use super::{
    HttpServer, LinkInput, LinkKey, Sessions, Stateless, StreamKey, holder::Holder, is_undecided, link::LinkUse,
    owner::Asker, refusal::Refusal,
};

/// The header `Authorization` of a request, or that it has none.
pub(crate) type Credentials = Option<HeaderValue>;

/// The longest, in bytes: each link keeps some.
pub(crate) const MAX_CREDENTIALS: usize = 16 << 10;

/// Reads them. Those of a scheme that signs in a connection count as none: others would travel on it.
pub(crate) fn read(headers: &HeaderMap) -> Result<Credentials, Refusal> {
    const OF_CONNECTIONS: [&[u8]; 2] = [b"negotiate", b"ntlm"];

    let refused = |status, text: &str| Err(Refusal::new(status, error_code::INVALID_REQUEST, text));
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return refused(StatusCode::BAD_REQUEST, "the header Authorization is given twice");
    }
    if value.len() > MAX_CREDENTIALS {
        return refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the header Authorization is too long");
    }
    let scheme = value.as_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
    if OF_CONNECTIONS.iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Ok(None);
    }
    // A copy, since the head that it stands in is not kept.
    Ok(HeaderValue::from_bytes(value.as_bytes()).ok().map(|mut value| {
        value.set_sensitive(true);
        value
    }))
}

/// What the server behind said of a request in place of an answer: that it wants to know who asks, or that he may not.
#[derive(Debug)]
pub(crate) struct Unauthorized {
    pub(crate) status: StatusCode,
    challenge: Option<HeaderValue>,
}

impl Unauthorized {
    /// Reads it from the error that stands for it (`Failure::answer` of the client's side).
    pub(crate) fn read(body: &ResponseBody<'_>) -> Option<Self> {
        let ResponseBody::Error(error) = body else { return None };
        if body.error_code() != Some(i64::from(error_code::UPSTREAM_GONE)) {
            return None;
        }
        let data = json::member(error, "data")?;
        let status = json::member(data, "httpStatus").and_then(json::integer)?;
        let status = StatusCode::from_u16(status.try_into().ok()?).ok()?;
        let challenge = json::member(data, "wwwAuthenticate").and_then(json::text);
        let challenge = challenge.and_then(|challenge| HeaderValue::from_str(&challenge).ok());
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN).then_some(Self { status, challenge })
    }

    /// What is said to a request that was not passed on for it.
    pub(crate) fn refusal(&self) -> Refusal {
        let refusal = Refusal::new(self.status, error_code::UPSTREAM_GONE, "the server wants to know who asks");
        match self.header() {
            Some((name, value)) => refusal.with_header(name, value),
            None => refusal,
        }
    }

    pub(crate) fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        self.challenge.clone().map(|challenge| (header::WWW_AUTHENTICATE, challenge))
    }
}

impl HttpServer {
    /// The link of this person's requests outside a session; opened if there is none.
    pub(crate) fn stateless_link(&mut self, now: Instant, asker: &Asker, holder: &Holder) -> Result<LinkKey, Refusal> {
        if self.joins_eras() {
            let key = self.joint_link(now);
            if let Some(link) = self.links.get_mut(&key) {
                link.idle_since = now;
            }
            return Ok(key);
        }
        if let Some(key) = self.shared.links.get(asker).copied() {
            if let Some(link) = self.links.get_mut(&key) {
                link.idle_since = now;
            }
            return Ok(key);
        }
        let parts_people = self.config.parts_people();
        if parts_people {
            let place = self.find_place(now, asker, holder)?;
            self.take_place(now, place);
        }
        let at = if parts_people { now } else { self.back_off.start(now) };
        let key = self.open_link_at(now, at, LinkUse::Stateless, None, asker);
        self.shared.links.insert(asker.clone(), key);
        if parts_people {
            self.link_upkeep.arm(now, key);
        }
        Ok(key)
    }

    /// The link of such requests, if it is open.
    pub(crate) fn known_stateless_link(&self, asker: &Asker) -> Option<LinkKey> {
        if self.joins_eras() { self.joint.link() } else { self.shared.links.get(asker).copied() }
    }

    /// Whether requests outside a session go to the program that sessions share.
    pub(crate) fn joins_eras(&self) -> bool {
        self.config.stateless == Stateless::Joined && self.config.sessions == Sessions::SharedLink
    }

    /// Looks after a link of people without a session: ends it if it was idle for too long.
    pub(crate) fn keep_up_link(&mut self, now: Instant, key: LinkKey) {
        let Some(link) = self.links.get(&key).filter(|link| !link.is_closed) else { return };
        if link.is_idle() && now.since(link.idle_since) >= self.config.idle && !self.shared.is_asked(key) {
            return self.end_link(now, key);
        }
        self.link_upkeep.arm(now, key);
    }

    /// What is said next on a link belongs to these.
    pub(crate) fn set_credentials(&mut self, key: LinkKey, credentials: &Credentials) {
        if self.links.get(&key).is_none_or(|link| link.credentials == *credentials) {
            return;
        }
        let since = self.allocate_key();
        let Some(link) = self.links.get_mut(&key) else { return };
        link.credentials.clone_from(credentials);
        (link.since, link.is_proved) = (since, false);
        self.push_input(key, LinkInput::Credentials(credentials.clone()));
    }

    /// How long the response of a stream that is opened now may stay undecided. While it is not known what the server says
    /// to its client's credentials, that is long: a status can be said at the beginning only.
    pub(crate) fn arm_undecided(&mut self, now: Instant, key: StreamKey) {
        let link = self.streams.get(&key).and_then(|stream| self.links.get(&stream.link));
        let is_proved = !self.config.passes_credentials() || link.is_some_and(|link| link.is_proved);
        if is_proved { &mut self.undecided } else { &mut self.unproved }.arm(now, key);
    }

    /// The server has said something for a stream. If that is under the present credentials of its link, they are good, or
    /// are not any more.
    pub(crate) fn note_proof(&mut self, now: Instant, key: StreamKey, unauthorized: Option<&Unauthorized>) {
        if !self.config.passes_credentials() {
            return;
        }
        let Some(link) = self.streams.get(&key).and_then(|stream| self.links.get_mut(&stream.link)) else { return };
        if key.0 < link.since {
            return;
        }
        match unauthorized.map(|unauthorized| unauthorized.status) {
            Some(StatusCode::UNAUTHORIZED) => link.is_proved = false,
            _ if link.is_proved => {}
            _ => {
                link.is_proved = true;
                let (streams, replies) = (&self.streams, &self.replies);
                let waiting = link.requests.values().filter(|key| is_undecided(streams, replies, **key));
                waiting.for_each(|key| self.undecided.arm(now, *key));
            }
        }
    }
}
