//! How a POSTed request becomes a call: the id and progress token that its program knows it by, the client that it is
//! counted for, and what is answered here in place of its program.

use bytes::Bytes;
use rescind_proto::{
    frame::{self, Request},
    id::RequestId,
};

use super::{
    HttpServerConfig, LinkInput, SessionKey, StreamKey,
    calls::{Asks, Call, Way},
    door::{Caller, Holder},
    here::Here,
    link::{Link, LinkUse, Urgency},
    posted::{Edit, Meta, line, text},
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
}

impl Opening<'_> {
    /// Enters the request among the calls of its link; the id that its program knows, and what makes its message that.
    pub(crate) fn enter(self, link: &mut Link, way: Way) -> (RequestId, Vec<Edit>) {
        let Self { stream_key, stream, body, request, meta } = self;
        let mut edits = Vec::new();
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
        config: &HttpServerConfig,
        here: Option<Here>,
    ) -> Option<Vec<u8>> {
        if let Some(here) = here {
            return Some(here.answer(&self.enter(link, Way::Here).0));
        }
        let way = if self.request.method == HANDSHAKE { Way::Passed } else { Way::Queued(link.next_input()) };
        let caller = config.passes_callers.then(|| self.caller(link, reply, config.parts_people())).flatten();
        let (body, params) = (self.body, self.request.params.raw);
        let (_, mut edits) = self.enter(link, way);
        edits.extend(config.unmarked(body, params));
        let line = line(body, edits);
        link.push(
            Urgency::Ordinary,
            match caller {
                Some(caller) => LinkInput::Request(line, caller),
                None => LinkInput::Message(line),
            },
        );
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
    /// What of a message its program is not to see.
    pub(crate) fn unmarked(&self, body: &[u8], params: Option<&[u8]>) -> Option<Edit> {
        self.pool_member.and_then(|member| member.unmark_state(body, params))
    }

    /// The timer after which the response of a new stream stays undecided no longer. It is a long one until the server has
    /// accepted its client's credentials: a response has its status at the beginning.
    pub(crate) const fn first_timer(&self, key: StreamKey, is_proved: bool) -> Timer {
        if self.passes_credentials() && !is_proved { Timer::Prove(key) } else { Timer::Begin(key) }
    }
}
