//! How a POSTed request becomes a call: the id and progress token that its program knows it by, the client that it is
//! counted for, and what is answered here in place of its program.

use bytes::Bytes;
use rescind_proto::{
    error_code,
    frame::{self, Request},
    id::RequestId,
    message,
    time::Instant,
};

use super::{
    HttpServerConfig, LinkInput, LinkKey, SessionKey, StreamKey,
    calls::{Asks, Call, Way},
    door::{Caller, Holder, Refusal},
    link::{Link, LinkUse},
    posted::{Edit, Meta, line, text},
    programs::Starts,
    streams::{HANDSHAKE, Reply, Stream},
    task_owners,
    timers::Timer,
};

/// A request that is being opened, and what that touches: each was looked up once, and is passed down.
pub(crate) struct Opening<'a> {
    pub(crate) stream_key: StreamKey,
    pub(crate) stream: &'a mut Stream,
    pub(crate) body: &'a [u8],
    pub(crate) request: &'a Request<'a>,
    pub(crate) meta: &'a Meta<'a>,
    /// What of the body its program is not to see.
    pub(crate) edits: Vec<Edit>,
}

/// An answer in place of a program, which is not to see the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Here {
    /// Nothing is to be done.
    Done,
    /// Its session is subscribed to too many resources.
    TooMany,
    /// It is about another's task, and so about none (TASK-07).
    UnknownTask,
}

impl Here {
    fn answer(self, id: &RequestId) -> Vec<u8> {
        let mut answer = Vec::new();
        match self {
            Self::Done => message::result(id, b"{}", &mut answer),
            Self::TooMany => {
                let words = "this session is subscribed to too many resources";
                message::error(Some(id), error_code::OVERLOADED, words, None, &mut answer);
            }
            Self::UnknownTask => {
                message::error(Some(id), error_code::INVALID_PARAMS, "unknown task", None, &mut answer)
            }
        }
        answer
    }
}

/// What is to be done once all that was sent with it is open and its response is in its place: a stream ends with the
/// last answer that it waits for.
#[derive(Clone, Debug)]
pub(crate) enum Later {
    /// This answers a request that its program is not to see.
    Answer(LinkKey, Vec<u8>),
    /// This request was taken back before its program took it.
    Settle(LinkKey, RequestId),
}

impl Opening<'_> {
    /// Enters the request among the calls of its link; the id that its program knows, and what makes its message that.
    pub(crate) fn enter(self, link: &mut Link, way: Way) -> (RequestId, Vec<Edit>) {
        let Self { stream_key, stream, body, request, meta, mut edits } = self;
        let asks = match &*request.method {
            "tools/list" => Asks::ToolList,
            task_owners::LIST => Asks::TaskList,
            method if stream.dialect.subscription.is_some_and(|form| form.method == method) => Asks::Subscription,
            _ => Asks::Anything,
        };
        let asked = meta.token();
        let mut call = Call {
            stream: stream_key,
            session: stream.session(),
            client_id: request.id.clone(),
            link_id: request.id.clone(),
            token: asked.clone().map(|(raw, token)| (token, Bytes::copy_from_slice(raw))),
            asks,
            way,
        };
        link.calls.rename_token(&mut call);
        if let (Some((known, _)), Some((raw, token))) = (&call.token, asked)
            && *known != token
        {
            edits.extend(frame::span_of(body, raw).map(|span| (span, text(known))));
        }
        let (call, link_id) = link.calls.enter(call);
        if link_id != request.id {
            edits.push((request.id_span.clone(), text(&link_id)));
        }
        if stream.calls.is_empty() {
            // Most have one, and ten thousand of them may be open.
            stream.calls.reserve_exact(1);
        }
        stream.calls.push(call);
        (link_id, edits)
    }

    /// Has the request wait for its program to take it; or enters it, and returns what answers it here.
    pub(crate) fn open(
        self,
        link: &mut Link,
        reply: &Reply,
        parts_people: bool,
        here: Option<Here>,
    ) -> Option<Vec<u8>> {
        if let Some(here) = here {
            return Some(here.answer(&self.enter(link, Way::Here).0));
        }
        let way = if self.request.method == HANDSHAKE { Way::Passed } else { Way::Queued(link.next_input()) };
        let caller = self.caller(link, reply, parts_people);
        let body = self.body;
        let (_, edits) = self.enter(link, way);
        let line = line(body, edits);
        link.push(match caller {
            Some(caller) => LinkInput::Request(line, caller),
            None => LinkInput::Message(line),
        });
        None
    }

    /// Who asks, as its handler sees it, and the client that it is counted for.
    fn caller(&self, link: &Link, reply: &Reply, parts_people: bool) -> Option<Caller> {
        let caller = reply.caller.clone();
        match self.client(link, reply, parts_people) {
            Some(client) => Some(caller.unwrap_or_default().counted_for(client)),
            None => caller,
        }
    }

    /// The client that a request is counted for, where several share its program; `None` where it has one client alone.
    /// Where neither its owner, its address nor its connection tells it apart, its session does, or else the name that it
    /// gives itself: such a name is good enough among programs of one machine, and those who lie gain what they would have
    /// without names.
    fn client(&self, link: &Link, reply: &Reply, parts_people: bool) -> Option<Holder> {
        match link.serves {
            LinkUse::Session(_) => return None,
            // It has a program of its own.
            LinkUse::Stateless if parts_people => return Some(Holder::Anyone),
            LinkUse::Stateless | LinkUse::Sessions => {}
        }
        if reply.client != Holder::Anyone {
            return Some(reply.client.clone());
        }
        Some(match self.stream.session() {
            Some(SessionKey(session)) => Holder::Session(session.get()),
            None => self.meta.client_name().map_or(Holder::Anyone, |name| Holder::Name(name.into())),
        })
    }
}

impl HttpServerConfig {
    /// The timer after which the response of a new stream stays undecided no longer. It is a long one until the server has
    /// accepted its client's credentials: a response has its status at the beginning.
    pub(crate) const fn first_timer(&self, key: StreamKey, is_proved: bool) -> Timer {
        if self.passes_credentials() && !is_proved { Timer::Prove(key) } else { Timer::Begin(key) }
    }
}

/// Checks that a link has room for so many requests more.
pub(crate) fn check_room(
    config: &HttpServerConfig,
    starts: &Starts,
    now: Instant,
    (key, link): (LinkKey, &Link),
    requests: usize,
) -> Result<(), Refusal> {
    starts.check(now, key)?;
    if requests > 0 && link.calls.len() + requests > config.max_in_flight {
        return Err(Refusal::unavailable(1, "too many requests in flight"));
    }
    if link.input_bytes > config.max_input {
        return Err(Refusal::unavailable(1, "the server takes in nothing now"));
    }
    Ok(())
}
