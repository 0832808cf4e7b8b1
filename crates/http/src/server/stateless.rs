//! Requests outside a session, and the question whether the server behind takes any: which era it speaks.

use http::StatusCode;
use rescind_proto::{
    dialect::{DISCOVER, Dialect, mcp},
    error_code,
    frame::{self, Frame, Request},
    json,
    time::Instant,
};

use super::{
    HttpServer, LinkInput, ReplyKey, StreamKey,
    door::{Asker, Head, Holder, Refusal},
    opening::{Later, Opening, check_room},
    passed_status::Unauthorized,
    posted::{Meta, Posted, check_look_alikes, line, unreadable},
    programs::{Era, Held, Question},
    streams::{Reply, Stream},
    timers::Timer,
};
use crate::mirror::{NAMED, tools::Tools};

impl HttpServer {
    /// Asks the server which era it speaks before any client wants to know, if it is to be asked
    /// ([`Stateless::Ask`](super::Stateless::Ask)), or shakes hands with it
    /// ([`Stateless::Joined`](super::Stateless::Joined)). A server that is slow to start would let clients give up.
    pub fn prepare(&mut self, now: Instant) {
        if self.is_draining {
            return;
        }
        if self.joins_eras() {
            self.joint_link(now);
        } else if let Era::Unknown = self.shared.era {
            // Without room for that, clients ask when they come.
            let _ = self.ask_era(now, &Asker::default(), &Holder::Anyone);
        }
    }

    pub(crate) fn handle_stateless(
        &mut self,
        now: Instant,
        reply: (ReplyKey, &mut Reply),
        head: &Head<'_>,
        posted: &Posted<'_>,
        dialect: &'static Dialect,
    ) -> Result<(), Refusal> {
        let Posted { asker, body, frame, meta } = posted;
        if let Era::Legacy = self.shared.era {
            return Err(no_stateless());
        }
        check_look_alikes(frame, body)?;
        match frame {
            Frame::Request(request) => {
                let link = self.known_stateless_link(asker).and_then(|link| self.links.get(&link));
                check_mirrors(head, request, meta, link.and_then(|link| link.tools.as_deref()))?;
            }
            Frame::Notification(notification) => self.check_notification(dialect, &notification.method)?,
            Frame::Response(_) | Frame::Batch(_) => {
                let text = format!("{dialect} has only single requests and notifications from clients");
                return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
            }
        }
        if let Era::Unknown | Era::Asked(..) = self.shared.era {
            return self.hold(now, reply, asker, body, dialect);
        }
        self.pass_stateless(now, reply, posted, dialect)
    }

    /// Passes on a message that belongs to no session, once it is known that the server speaks a revision without.
    fn pass_stateless(
        &mut self,
        now: Instant,
        (key, reply): (ReplyKey, &mut Reply),
        posted: &Posted<'_>,
        dialect: &'static Dialect,
    ) -> Result<(), Refusal> {
        match &posted.frame {
            Frame::Request(request) => return self.open_stateless(now, (key, reply), posted, request, dialect),
            // What is not passed on is a cancel, or of no use to a program. A cancel names a request by an id that others may
            // have, too: here closing the stream cancels (MCP-H05).
            Frame::Notification(notification) if !self.passes_notification(&notification.method) => {}
            Frame::Notification(notification) => {
                let link = self.stateless_link(now, posted.asker, &reply.holder)?;
                self.check_room(now, link, 0)?;
                let edits = self.unmarked(posted.body, notification.params.raw);
                self.push_input(link, LinkInput::Message(line(posted.body, edits)));
            }
            Frame::Response(_) | Frame::Batch(_) => {}
        }
        reply.empty(StatusCode::ACCEPTED);
        Ok(())
    }

    fn open_stateless(
        &mut self,
        now: Instant,
        (key, reply): (ReplyKey, &mut Reply),
        posted: &Posted<'_>,
        request: &Request<'_>,
        dialect: &'static Dialect,
    ) -> Result<(), Refusal> {
        if self.is_draining {
            return Err(Refusal::overloaded("no further request is taken now").of(&request.id));
        }
        let Posted { asker, body, meta, .. } = posted;
        let link_key = self.stateless_link(now, asker, &reply.holder).map_err(|refusal| refusal.of(&request.id))?;
        let edits = self.unmarked(body, request.params.raw);
        let here = self.here(asker, request);
        let Some(link) = self.links.get_mut(&link_key) else { return Ok(()) };
        check_room(&self.config, &self.starts, now, (link_key, link), 1).map_err(|refusal| refusal.of(&request.id))?;
        let stream_key = StreamKey(self.streams.allocate_key());
        let mut stream = Stream::new(link_key, dialect, asker.owner.clone(), None);
        stream.answer_by(stream_key, key, reply);
        self.timers.arm(now, self.config.first_timer(stream_key, link.is_proved));
        let opening = Opening { stream_key, stream: &mut stream, body, request, meta, edits };
        let answer = opening.open(link, reply, self.config.parts_people(), here);
        link.report(link_key, &mut self.streams.events);
        self.later.extend(answer.map(|answer| Later::Answer(link_key, answer)));
        self.streams.streams.insert(stream_key, stream);
        Ok(())
    }

    /// Keeps a stateless request until the server has shown which era it speaks, and asks it if it was not asked.
    fn hold(
        &mut self,
        now: Instant,
        (key, reply): (ReplyKey, &mut Reply),
        asker: &Asker,
        body: &[u8],
        dialect: &'static Dialect,
    ) -> Result<(), Refusal> {
        if self.is_draining {
            return Err(Refusal::overloaded("no further request is taken now"));
        }
        if let Era::Unknown = self.shared.era {
            self.ask_era(now, asker, &reply.holder)?;
        }
        if let Some(question) = self.shared.question() {
            self.starts.check(now, question.link)?;
        }
        let bytes: usize = self.shared.held().iter().map(Held::bytes).sum();
        if bytes + body.len() > self.config.max_input {
            return Err(Refusal::overloaded("the server has not said yet which revision it speaks"));
        }
        if let Era::Asked(question) = &mut self.shared.era {
            question.held.push(Held { reply: key, asker: asker.clone(), body: body.to_vec().into(), dialect });
        }
        Ok(())
    }

    /// Asks the server which era it speaks.
    pub(crate) fn ask_era(&mut self, now: Instant, asker: &Asker, holder: &Holder) -> Result<(), Refusal> {
        let link = self.stateless_link(now, asker, holder)?;
        let id = self.ask_program(link, DISCOVER, |out| {
            out.extend_from_slice(br#""_meta":{"#);
            mcp::LATEST_STATELESS.write_date_in_meta(out);
            out.extend_from_slice(CLIENT.as_bytes());
        });
        if !self.starts.is_resting(link) {
            self.timers.arm(now, Timer::Ask(link));
        }
        self.shared.era = Era::Asked(Question { link, id, held: Vec::new() });
        Ok(())
    }

    /// Takes in which era the server speaks: what waited for that goes on, or is refused.
    pub(crate) fn learn_era(&mut self, now: Instant, is_modern: bool) {
        let era = if is_modern { Era::Modern } else { Era::Legacy };
        let Era::Asked(question) = core::mem::replace(&mut self.shared.era, era) else { return };
        for held in question.held {
            self.go_on_with_held(now, held.reply, |server, reply| {
                if !is_modern {
                    return Err(no_stateless());
                }
                let frame = frame::parse(&held.body).map_err(|malformed| unreadable(&held.body, &malformed))?;
                let posted = Posted { asker: &held.asker, body: &held.body, meta: Meta::of(&frame), frame };
                server.pass_stateless(now, reply, &posted, held.dialect)
            });
        }
        if !is_modern {
            for link in self.shared.links.values().copied().collect::<Vec<_>>() {
                self.end_link(now, link);
            }
        } else if self.config.access.has_owners()
            && let Some(link) = self.shared.links.get(&Asker::default()).copied()
        {
            // It was opened to ask, and has no owner.
            self.end_link(now, link);
        }
    }

    /// Refuses what waited, since the server could not answer. The next request asks it again.
    pub(crate) fn era_unsaid(&mut self, now: Instant) {
        self.learn_era(now, false);
        self.shared.era = Era::Unknown;
    }

    /// Refuses what waited under the credentials that the server did not accept. Requests under others ask it again.
    pub(crate) fn era_withheld(&mut self, now: Instant, unauthorized: &Unauthorized) {
        let Era::Asked(question) = core::mem::replace(&mut self.shared.era, Era::Unknown) else { return };
        let asked = self.links.get(&question.link).and_then(|link| link.credentials.clone());
        for held in question.held {
            self.go_on_with_held(now, held.reply, |server, reply| {
                if held.asker.credentials != asked {
                    return server.hold(now, reply, &held.asker, &held.body, held.dialect);
                }
                let refusal = unauthorized.refusal();
                Err(match frame::parse(&held.body) {
                    Ok(Frame::Request(request)) => refusal.of(&request.id),
                    Ok(Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_)) | Err(_) => refusal,
                })
            });
        }
    }

    /// Goes on with a request that was held.
    fn go_on_with_held(
        &mut self,
        now: Instant,
        key: ReplyKey,
        how: impl FnOnce(&mut Self, (ReplyKey, &mut Reply)) -> Result<(), Refusal>,
    ) {
        // Its client may have gone meanwhile.
        let Some(mut reply) = self.streams.replies.remove(&key) else { return };
        let done = if self.is_draining {
            Err(Refusal::overloaded("no further request is taken now"))
        } else {
            how(self, (key, &mut reply))
        };
        self.conclude(now, key, reply, done);
    }
}

/// What our question which era a server speaks says in `_meta` beside its revision.
const CLIENT: &str = concat!(
    r#","io.modelcontextprotocol/clientInfo":{"name":"rescind","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""},"io.modelcontextprotocol/clientCapabilities":{}}"#
);

/// The dialect of a message that belongs to no session, by its own words; `None` if a session is to be looked for.
pub(crate) fn dialect_of(head: &Head<'_>, meta: &Meta<'_>) -> Option<&'static Dialect> {
    // Where only one of them names it, the other is a mismatch.
    meta.dialect().filter(|dialect| dialect.stateless).or_else(|| mcp::stateless_by_version(head.version?))
}

/// Checks that the headers repeat the message (2026-07-28).
fn check_mirrors(
    head: &Head<'_>,
    request: &Request<'_>,
    meta: &Meta<'_>,
    tools: Option<&Tools>,
) -> Result<(), Refusal> {
    let refusal = |code, text: &str| Err(Refusal::new(StatusCode::BAD_REQUEST, code, text).of(&request.id));
    let mismatch = |text: &str| refusal(error_code::HEADER_MISMATCH, text);
    match (head.version, meta.version.as_deref()) {
        (Some(header), Some(body)) if header == body => {}
        (_, None) => return refusal(error_code::INVALID_PARAMS, "`_meta` names no revision"),
        (None, Some(_)) => return mismatch("the header MCP-Protocol-Version is missing"),
        (Some(_), Some(_)) => {
            return mismatch("the header MCP-Protocol-Version is not the revision that `_meta` names");
        }
    }
    if meta.capabilities.is_none() {
        return refusal(error_code::INVALID_PARAMS, "`_meta` does not declare the client's capabilities");
    }
    if head.method != Some(&*request.method) {
        return mismatch("the header Mcp-Method is missing, or not the method of the message");
    }
    if let Some((_, member)) = NAMED.iter().find(|(method, _)| *method == request.method) {
        let raw = match *member {
            "name" => request.params.name,
            member => request.params.raw.and_then(|params| json::member(params, member)),
        };
        let name = raw.and_then(json::text);
        if name.as_deref().is_some_and(|name| !head.names(name)) {
            return mismatch("the header Mcp-Name is missing, or not the name in the message");
        }
        if request.method == "tools/call" {
            let params = tools.map_or(&[][..], |tools| tools.params(name.as_deref().unwrap_or_default()));
            let arguments = request.params.raw.and_then(|params| json::member(params, "arguments"));
            if let Some(param) = params.iter().find(|param| !head.repeats(param, arguments.unwrap_or_default())) {
                return mismatch(&format!(
                    "the header {} is missing, or not the argument in the message",
                    param.header
                ));
            }
        }
    }
    Ok(())
}

/// What a server answers that only knows sessions. Clients of both eras fall back to `initialize`.
fn no_stateless() -> Refusal {
    let text = "no session: this server speaks revisions of MCP that begin with initialize";
    Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text)
}
