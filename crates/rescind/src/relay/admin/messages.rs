//! The messages about one request, found in the frame log.
//!
//! Ids are reused, so a request is identified by its id and the time it was read. From then on these belong to it,
//! until its requester reuses the id: the answer, by the id that the other side knows; progress, by its token; cancels,
//! by its id; updates, by its session.

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
    frame_log::FrameLog,
    record::{micros, side as feed_side},
};

/// The most bytes of a message that are shown.
const MAX_SHOWN: usize = 64 * 1024;

/// The most messages that are shown: the first half of them and the latest half.
const MAX_MESSAGES: usize = 200;

/// Finds the messages about a request, in order of arrival.
pub(super) fn about<'a>(
    log: &FrameLog,
    own: impl Iterator<Item = &'a OwnMessage>,
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
    log.messages(requester, |at, body| search.visit(requester, at, body));
    let other = requester.other();
    log.messages(other, |at, body| search.visit(other, at, body));
    let mut found = search.found;
    let own = own.filter(|own| own.request == view.key);
    found.extend(own.map(|own| FrameView { by_shim: true, ..shown(own.to.other(), own.at, body_of(&own.frame)) }));
    // A stable sort: at equal times a request stays before what is sent about it.
    found.sort_by_key(|frame| frame.at);
    if found.len() > MAX_MESSAGES {
        found.drain(MAX_MESSAGES / 2..found.len() - MAX_MESSAGES / 2);
    }
    found
}

struct Search<'a> {
    view: &'a RequestView<'a>,
    dialects: [&'a Dialect; 2],
    /// The request itself was seen.
    began: bool,
    /// When its requester reused the id.
    until: Option<Instant>,
    /// The token of its progress, as JSON.
    token: Option<RequestId>,
    /// The session of a turn, as JSON.
    session: Option<Vec<u8>>,
    found: Vec<FrameView>,
}

impl Search<'_> {
    fn visit(&mut self, from: Side, at: Instant, body: &[u8]) {
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
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_SHOWN + 4)]);
    let text = cut(&text, MAX_SHOWN).to_owned();
    FrameView { at: micros(at), from: feed_side(from), text, length: body.len() as u64, by_shim: false }
}

/// A message of our own without its framing.
fn body_of(frame: &[u8]) -> &[u8] {
    let head = frame.windows(4).position(|end| end == b"\r\n\r\n");
    head.map_or(frame, |head| &frame[head + 4..]).trim_ascii_end()
}
