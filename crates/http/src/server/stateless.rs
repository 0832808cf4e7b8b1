//! Requests outside a session, and the question whether the server behind takes any: which era it speaks.

use http::StatusCode;
use rescind_proto::{
    dialect::{Dialect, Discovered, mcp},
    error_code,
    frame::{self, Frame, Request, Response, ResponseBody},
    json,
    time::Instant,
};

use super::{
    HttpServer, LinkInput, LinkKey, ReplyKey, Sessions, StreamKey,
    door::{Asker, Credentials, Head, Holder, Refusal},
    here::Later,
    joint,
    link::{LinkUse, Urgency},
    opening::Opening,
    passed_status::Unauthorized,
    posted::{Meta, Posted, check_look_alikes, line, unreadable},
    programs::Era,
    question::{About, Held},
    streams::{Reply, Stream},
};
use crate::mirror::{NAMED, tools::Tools};

/// What was learnt of the era that a server speaks.
#[derive(Debug)]
pub(crate) enum Learned {
    /// It speaks a revision without sessions.
    Modern,
    /// It has said that it knows only sessions.
    Legacy,
    /// It has not answered in time, as servers do that know only sessions.
    Silence,
    /// It could not be asked, and why if that is known. The next request asks it again.
    Nothing(Option<Box<str>>),
    /// It did not accept the credentials under which it was asked. Requests under others ask it again.
    Withheld(Unauthorized),
}

impl Learned {
    /// What the answer to the question shows.
    fn of(answer: &ResponseBody<'_>, unauthorized: Option<Unauthorized>) -> Self {
        match unauthorized {
            Some(unauthorized) => Self::Withheld(unauthorized),
            // Ours, of a server at a URL.
            None if is_gone(answer) => Self::Nothing(end_of(answer)),
            None if matches!(Discovered::of_answer(answer), Discovered::Stateless(_)) => Self::Modern,
            None => Self::Legacy,
        }
    }
}

impl HttpServer {
    /// Asks the server which era it speaks before any client wants to know, if it is to be asked
    /// ([`Stateless::Ask`](super::Stateless::Ask)), or shakes hands with it
    /// ([`Stateless::Joined`](super::Stateless::Joined)). A server that is slow to start would let clients give up.
    pub fn prepare(&mut self, now: Instant) {
        if self.is_draining {
            return;
        }
        if self.config.joins_eras() {
            self.programs.joint_link(now, self.streams.allocate_key());
        } else if self.programs.era == Era::Unknown
            // Without room for that, clients ask when they come.
            && let Ok(link) = self.stateless_link(now, &Asker::default(), &Holder::Anyone)
        {
            self.programs.ask_era(now, link);
        }
    }

    /// Returns the link of an asker's requests outside a session; opens it if there is none.
    fn stateless_link(&mut self, now: Instant, asker: &Asker, holder: &Holder) -> Result<LinkKey, Refusal> {
        if let Some(key) = self.programs.outside_sessions(asker) {
            return Ok(key);
        }
        if self.config.joins_eras() {
            return Ok(self.programs.joint_link(now, self.streams.allocate_key()));
        }
        if self.config.parts_people() {
            let place = self.find_place(now, asker, holder)?;
            self.take_place(now, place);
        }
        Ok(self.programs.open(now, self.streams.allocate_key(), LinkUse::Stateless, None, asker))
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
        if self.programs.era == Era::Legacy {
            return Err(no_stateless());
        }
        check_look_alikes(frame, body)?;
        match frame {
            Frame::Request(request) => {
                let link = self.programs.outside_sessions(asker).and_then(|link| self.programs.links.get(&link));
                check_mirrors(head, request, meta, link.and_then(|link| link.tools.as_deref()))?;
            }
            Frame::Notification(notification) => {
                joint::check_notification(&self.config, dialect, &notification.method)?
            }
            Frame::Response(_) | Frame::Batch(_) => {
                let text = format!("{dialect} has only single requests and notifications from clients");
                return Err(Refusal::invalid(text));
            }
        }
        match self.programs.era {
            Era::Unknown | Era::Asked(_) => {
                let held = Held { reply: reply.0, asker: (*asker).clone(), body: body.to_vec().into(), dialect };
                self.hold(now, held, &reply.1.holder)
            }
            Era::Modern | Era::Legacy => self.pass_stateless(now, reply, posted, dialect),
        }
    }

    /// Passes on a message that belongs to no session, once it is known that the server speaks a revision without.
    fn pass_stateless(
        &mut self,
        now: Instant,
        (key, reply): (ReplyKey, &mut Reply),
        Posted { asker, body, frame, meta }: &Posted<'_>,
        dialect: &'static Dialect,
    ) -> Result<(), Refusal> {
        let request = match frame {
            Frame::Request(request) => request,
            Frame::Notification(notification) => {
                // What is not passed on is a cancel, or of no use to a program. A cancel names a request by an id that others
                // may have, too: here closing the stream cancels (MCP-H05).
                if self.config.passes_notification(&notification.method) {
                    let link_key = self.stateless_link(now, asker, &reply.holder)?;
                    let (link, events) = self.programs.with_room(&self.config, now, link_key, 0)?;
                    let edits = self.config.unmarked(body, notification.params.raw).into_iter().collect();
                    link.idle_since = now;
                    link.push(Urgency::Ordinary, LinkInput::Message(line(body, edits)));
                    link.report(link_key, events);
                }
                reply.empty(StatusCode::ACCEPTED);
                return Ok(());
            }
            Frame::Response(_) | Frame::Batch(_) => return Ok(()),
        };
        let of_request = |refusal: Refusal| refusal.of(&request.id);
        if self.is_draining {
            return Err(of_request(Refusal::overloaded(DRAINING)));
        }
        let link_key = self.stateless_link(now, asker, &reply.holder).map_err(of_request)?;
        let here = self.task_owners.answer(asker.owner.as_ref(), request);
        let (link, events) = self.programs.with_room(&self.config, now, link_key, 1).map_err(of_request)?;
        link.idle_since = now;
        let stream_key = StreamKey(self.streams.allocate_key());
        let mut stream = Stream::new(link_key, dialect, asker.owner.clone(), None);
        stream.answer_by(stream_key, key, reply);
        self.timers.arm(now, self.config.first_timer(stream_key, link.is_proved));
        let opening = Opening { stream_key, stream: &mut stream, body, request, meta };
        let answer = opening.open(link, reply, &self.config, here);
        link.report(link_key, events);
        self.later.extend(answer.map(|answer| Later::Answer(link_key, answer)));
        self.streams.streams.insert(stream_key, stream);
        Ok(())
    }

    /// Keeps a stateless request until the server has shown which era it speaks, and asks it if it was not asked.
    fn hold(&mut self, now: Instant, request: Held, holder: &Holder) -> Result<(), Refusal> {
        if self.is_draining {
            return Err(Refusal::overloaded(DRAINING));
        }
        if self.programs.era == Era::Unknown {
            let link = self.stateless_link(now, &request.asker, holder)?;
            self.programs.ask_era(now, link);
        }
        if let Era::Asked(link) = self.programs.era
            && let Some(link) = self.programs.links.get(&link)
        {
            link.check_start(now, self.programs.last_end.as_deref())?;
        }
        let Some(held) = self.programs.waiting() else { return Ok(()) };
        let bytes: usize = held.iter().map(Held::bytes).sum();
        if bytes + request.body.len() > self.config.max_input {
            return Err(Refusal::overloaded("the server has not said yet which revision it speaks"));
        }
        held.push(request);
        Ok(())
    }

    /// Takes in the answer to a question of ours: which era a program speaks, or its handshake for all sessions.
    pub(crate) fn handle_told(
        &mut self,
        now: Instant,
        link: LinkKey,
        message: &[u8],
        response: &Response<'_>,
        unauthorized: Option<Unauthorized>,
    ) {
        if is_gone(&response.body) {
            self.programs.last_end = end_of(&response.body);
        }
        if self.programs.era == Era::Asked(link) {
            self.learn_era(now, &Learned::of(&response.body, unauthorized));
        } else {
            self.handle_greeting(now, link, message, response);
        }
    }

    /// A program has not answered a question of ours in time.
    pub(crate) fn give_up_question(&mut self, now: Instant, link: LinkKey) {
        if self.programs.era == Era::Asked(link) {
            return self.learn_era(now, &Learned::Silence);
        }
        let words = "the server has not answered initialize in time";
        self.fail_waiting(now, link, error_code::TIMED_OUT, words);
        self.abandon_joint(now, link);
    }

    /// Takes in what was learnt of the era that the server speaks, if it was asked: what waited for that goes on, or is
    /// refused.
    pub(crate) fn learn_era(&mut self, now: Instant, learned: &Learned) {
        let Era::Asked(link) = self.programs.era else { return };
        self.programs.era = match learned {
            Learned::Modern => Era::Modern,
            Learned::Legacy | Learned::Silence => Era::Legacy,
            Learned::Nothing(_) | Learned::Withheld(_) => Era::Unknown,
        };
        let Some(About::Era(held)) = self.programs.take_question(link) else { return };
        if matches!(learned, Learned::Legacy) && self.config.sessions == Sessions::SharedLink && !self.is_draining {
            self.programs.lend_to_sessions(now, link);
        }
        let credentials = self.programs.links.get(&link).and_then(|link| link.credentials.clone());
        for held in held {
            let key = held.reply;
            // Its client may have gone meanwhile.
            let Some(mut reply) = self.streams.replies.remove(&key) else { continue };
            let done = if self.is_draining {
                Err(Refusal::overloaded(DRAINING))
            } else {
                self.go_on(now, &mut reply, held, learned, &credentials)
            };
            self.conclude(now, key, reply, done);
        }
        let ended = match learned {
            Learned::Modern if !self.config.access.has_owners() => Vec::new(),
            // It was opened to ask, and has no owner.
            Learned::Modern => self.programs.links_of(|asker| *asker == Asker::default()),
            Learned::Legacy | Learned::Silence | Learned::Nothing(_) => self.programs.links_of(|_| true),
            Learned::Withheld(_) => Vec::new(),
        };
        ended.into_iter().for_each(|link| self.end_link(now, link));
    }

    /// Goes on with a request that has waited for the era, which was asked for under these credentials.
    fn go_on(
        &mut self,
        now: Instant,
        reply: &mut Reply,
        held: Held,
        learned: &Learned,
        credentials: &Credentials,
    ) -> Result<(), Refusal> {
        match learned {
            Learned::Modern => {
                let frame = frame::parse(&held.body).map_err(|malformed| unreadable(&held.body, &malformed))?;
                let posted = Posted { asker: &held.asker, body: &held.body, meta: Meta::of(&frame), frame };
                self.pass_stateless(now, (held.reply, reply), &posted, held.dialect)
            }
            Learned::Withheld(_) if held.asker.credentials != *credentials => self.hold(now, held, &reply.holder),
            Learned::Withheld(unauthorized) => {
                let refusal = unauthorized.refusal();
                Err(match frame::parse(&held.body) {
                    Ok(Frame::Request(request)) => refusal.of(&request.id),
                    Ok(Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_)) | Err(_) => refusal,
                })
            }
            // Some servers end when they are asked, and serve sessions all the same.
            Learned::Nothing(Some(why)) => {
                let text = format!("no session, and the server could not be asked which revision it speaks: {why}");
                Err(Refusal::invalid(text))
            }
            Learned::Legacy | Learned::Silence | Learned::Nothing(None) => Err(no_stateless()),
        }
    }
}

/// Whether an answer says that the program is gone.
fn is_gone(answer: &ResponseBody<'_>) -> bool {
    answer.error_code() == Some(i64::from(error_code::UPSTREAM_GONE))
}

/// How the program ended, in the words of the error about that.
fn end_of(answer: &ResponseBody<'_>) -> Option<Box<str>> {
    let ResponseBody::Error(error) = answer else { return None };
    json::member(error, "message").and_then(json::text).map(Into::into)
}

/// What is said to a request when no further one is taken.
const DRAINING: &str = "no further request is taken now";

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
    if head.method() != Some(&*request.method) {
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
    Refusal::invalid(text)
}
