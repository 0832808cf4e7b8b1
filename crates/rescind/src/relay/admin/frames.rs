//! The messages about one request, found on the tape.
//!
//! A request is known by its id and the moment at which it was read, since ids are used again. From there on, what
//! names it belongs to it: its answer by the id that the other side knows, progress by its token, cancels by its id,
//! updates of its session; until its requester uses the id for another.

use rescind_feed::FrameView;
use rescind_proto::{
    cause::cut,
    dialect::Dialect,
    frame::{self, Frame, Notification, Request, Response, ResponseId},
    id::RequestId,
    json,
    relay::{OwnMessage, RequestView},
    side::Side,
    time::Instant,
};

use super::{
    record::{micros, side as word},
    tape::Tape,
};

/// Bytes of a message that are shown.
const SHOWN: usize = 64 * 1024;

/// The most messages that are shown: the first of them, and then the latest.
const MANY: usize = 200;

/// What there is on the tape about a request, in the order of arrival.
pub(super) fn about<'a>(
    tape: &Tape,
    said: impl Iterator<Item = &'a OwnMessage>,
    view: &RequestView<'_>,
    dialect: &Dialect,
) -> Vec<FrameView> {
    let mut search = Search {
        view,
        dialects: [dialect, view.upstream_dialect],
        began: false,
        until: None,
        token: None,
        session: None,
        found: Vec::new(),
    };
    let requester = view.key.from;
    tape.messages(requester, |at, body| search.see(requester, at, body));
    let other = requester.other();
    tape.messages(other, |at, body| search.see(other, at, body));
    let mut found = search.found;
    let said = said.filter(|said| said.request == view.key);
    found.extend(said.map(|said| FrameView { by_shim: true, ..shown(said.to.other(), said.at, body_of(&said.frame)) }));
    // Both sides' are in order, and of one time a request comes before what is said about it.
    found.sort_by_key(|frame| frame.at);
    if found.len() > MANY {
        found.drain(MANY / 2..found.len() - MANY / 2);
    }
    found
}

struct Search<'a> {
    view: &'a RequestView<'a>,
    dialects: [&'a Dialect; 2],
    /// The request itself was seen.
    began: bool,
    /// When its requester used the id for another.
    until: Option<Instant>,
    /// Under which its progress comes, as JSON.
    token: Option<RequestId>,
    /// The session of a turn, as JSON.
    session: Option<Vec<u8>>,
    found: Vec<FrameView>,
}

impl Search<'_> {
    fn see(&mut self, from: Side, at: Instant, body: &[u8]) {
        if at < self.view.since || self.until.is_some_and(|until| at >= until) {
            return;
        }
        match frame::parse(body) {
            Ok(Frame::Batch(batch)) => {
                for member in batch.members() {
                    if frame::parse_member(member).is_ok_and(|parsed| self.concerns(from, at, &parsed)) {
                        self.keep(from, at, member);
                    }
                }
            }
            Ok(parsed) => {
                if self.concerns(from, at, &parsed) {
                    self.keep(from, at, body);
                }
            }
            Err(_) => {}
        }
    }

    fn concerns(&mut self, from: Side, at: Instant, parsed: &Frame<'_>) -> bool {
        let requester = from == self.view.key.from;
        match parsed {
            Frame::Request(request) => requester && request.id == *self.view.id && self.is_it(at, request),
            Frame::Response(Response { id, .. }) => match id {
                Some(ResponseId::Exact(id)) => !requester && id == self.view.upstream,
                Some(ResponseId::Loose(id)) => !requester && Some(*id) == self.view.upstream.as_integer(),
                None => false,
            },
            Frame::Notification(notification) => self.names_it(requester, notification),
            Frame::Batch(_) => false,
        }
    }

    fn is_it(&mut self, at: Instant, request: &Request<'_>) -> bool {
        if at > self.view.since || self.began {
            self.until = self.until.or(Some(at));
            return false;
        }
        self.began = true;
        let params = request.params.raw.unwrap_or_default();
        let asked_at = self.dialects.iter().filter_map(|dialect| dialect.progress).map(|form| form.asked_at);
        self.token = asked_at.filter_map(|path| json::lookup(params, path)).find_map(RequestId::from_json);
        let is_turn = self.dialects.iter().filter_map(|dialect| dialect.turn).any(|turn| turn.prompt == request.method);
        self.session = request.params.session_id.filter(|_| is_turn).map(Into::into);
        true
    }

    fn names_it(&self, requester: bool, notification: &Notification<'_>) -> bool {
        let Some(params) = notification.params.raw else { return false };
        let method = &*notification.method;
        let id = |name: &str| json::member(params, name).and_then(RequestId::from_json);
        let mut cancels = self.dialects.iter().flat_map(|dialect| dialect.forms()).filter(|form| form.method == method);
        let own_id = if requester { self.view.id } else { self.view.upstream };
        if cancels.any(|form| id(form.id).as_ref() == Some(own_id)) {
            return true;
        }
        let mut progress = self.dialects.iter().filter_map(|dialect| dialect.progress);
        if !requester
            && progress.any(|form| form.method == method && self.token.is_some() && id(form.token) == self.token)
        {
            return true;
        }
        let mut turns = self.dialects.iter().filter_map(|dialect| dialect.turn);
        self.session.is_some()
            && notification.params.session_id == self.session.as_deref()
            && turns.any(|turn| if requester { turn.cancel == method } else { turn.update == method })
    }

    fn keep(&mut self, from: Side, at: Instant, body: &[u8]) {
        self.found.push(shown(from, at, body));
    }
}

fn shown(from: Side, at: Instant, body: &[u8]) -> FrameView {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN + 4)]);
    let text = cut(&text, SHOWN).to_owned();
    FrameView { at: micros(at), from: word(from), text, length: body.len() as u64, by_shim: false }
}

/// A message of our own without its framing.
fn body_of(frame: &[u8]) -> &[u8] {
    let head = frame.windows(4).position(|end| end == b"\r\n\r\n");
    head.map_or(frame, |head| &frame[head + 4..]).trim_ascii_end()
}
