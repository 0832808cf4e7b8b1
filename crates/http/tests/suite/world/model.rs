//! What must pass, said once more and in another way than the machine says it.
//!
//! Of each stream the model keeps a log of all that was said on it, and how far its client has got. What the machine sends
//! is compared with that; what it hands to programs is expected one by one.

use core::hash::{Hash, Hasher};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use rescind_http::server::{LinkInput, LinkKey, Sessions, Stateless};
use rescind_proto::time::Instant;
use rescind_testkit::sim::world::Broken;

use super::{
    scene::{Kind, SHORT, Scene},
    text,
};

pub(crate) type Verdict = Result<(), Broken>;

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) scene: Arc<Scene>,
    pub(crate) clients: Vec<Client>,
    pub(crate) links: Vec<Link>,
    pub(crate) asks: Vec<Ask>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) era: Era,
    /// The links that stateless clients share, by person.
    pub(crate) shared: BTreeMap<Person, usize>,
    pub(crate) plains: usize,
}

/// The person as whom a client signs in; 0 for all where nobody does.
pub(crate) type Person = u8;

/// A client, and how much of what it may do it has done.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Client {
    pub(crate) kind: Kind,
    pub(crate) person: Person,
    pub(crate) sign_ins: usize,
    /// That of its session.
    pub(crate) link: Option<usize>,
    pub(crate) asks: usize,
    pub(crate) cancels: usize,
    pub(crate) breaks: usize,
    pub(crate) returns: usize,
    pub(crate) listens: usize,
}

/// A link: a program, and what it must receive next. Or a session on the link of a program that sessions share.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) client: Option<usize>,
    /// The link of the program, if this is only a session.
    pub(crate) joint: Option<usize>,
    pub(crate) session: Option<String>,
    pub(crate) key: Option<LinkKey>,
    /// To whom belongs what is said on it now.
    pub(crate) person: Person,
    /// Its session goes on.
    pub(crate) is_open: bool,
    /// Its program is there.
    pub(crate) is_served: bool,
    /// Its program has ended, and another was started for the sessions that share it. Once; what comes then is in no hurry.
    pub(crate) has_restarted: bool,
    /// When its session was opened.
    opened: Instant,
    /// When the client of its session last said something, or was being answered.
    pub(crate) heard: Instant,
    pub(crate) expects: VecDeque<Expected>,
    /// Ids that were seen there, where each must be another.
    ids: Vec<String>,
    /// The id of the question which era it speaks.
    pub(crate) question: Option<String>,
    pub(crate) plains: usize,
}

/// What a program must receive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Expected {
    Request(usize),
    /// A cancel of this id.
    Cancel(String),
    /// The end of the stream of this request.
    Closed(usize),
    /// What follows belongs to this person.
    Credentials(Person),
    Question,
    End,
}

/// A request.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Ask {
    pub(crate) client: usize,
    pub(crate) id: &'static str,
    pub(crate) listens: bool,
    pub(crate) token: Option<&'static str>,
    pub(crate) link: Option<usize>,
    pub(crate) stream: Option<usize>,
    /// The id and the token under which its program knows it.
    pub(crate) known: Option<(String, Option<String>)>,
    pub(crate) state: AskState,
    pub(crate) reports: u8,
    pub(crate) answers: u8,
    /// Its program has received a cancel of it.
    pub(crate) is_cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AskState {
    /// Waits until it is known which era the server speaks; its response is this one.
    Held(usize),
    Refused,
    /// In flight.
    Waiting,
    Answered,
    /// Cancelled, in silence.
    Settled,
    /// Its client has hung up, which cancelled it.
    Closed,
    /// Its link ended before it.
    Ended,
}

/// A stream: what was said on it, and who has heard what.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) link: usize,
    pub(crate) is_resumable: bool,
    /// It is that of a GET.
    pub(crate) listens: bool,
    asks: Vec<usize>,
    log: Vec<Entry>,
    /// How much of the log was handed out, or is on its way to one who came back.
    sent: usize,
    /// How much of the log its client has read.
    got: usize,
    /// Its number and that of the last event that its client has read.
    pub(crate) last: Option<(u64, u64)>,
    /// Its client was told that messages are missing.
    has_gap: bool,
    /// The response that carries it.
    pub(crate) reply: Option<usize>,
    posted: Instant,
    /// Its response is a stream of events.
    is_decided: bool,
    /// An event was made for it.
    has_begun: bool,
    /// The answer that was its whole response.
    pub(crate) whole: Option<Said>,
    ended: Option<Instant>,
    /// Its request was cancelled, or its session is over.
    is_final: bool,
    /// Nobody can read it any more.
    pub(crate) is_over: bool,
    /// It may have been forgotten, since it ended long ago, or since little is kept.
    pub(crate) may_be_over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    said: Said,
    /// Nobody carried the stream then.
    while_away: bool,
}

/// A message of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    Progress(usize, u8),
    Changed(usize, u8),
    Answer(usize),
    /// The answer for a program that is gone.
    Gone(usize),
    Plain(usize),
}

/// What is known of the server behind the shared link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Unknown,
    Asked(Instant),
    Modern,
    Legacy,
}

/// What a client that comes back must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    Goes,
    Refused(u16),
    /// Either: it ended long ago.
    Perhaps,
}

impl Model {
    pub(crate) fn new(scene: Arc<Scene>) -> Self {
        let client = |(at, kind): (usize, &Kind)| Client {
            kind: *kind,
            person: if scene.config.passes_authorization { at as Person % PEOPLE } else { 0 },
            sign_ins: 0,
            link: None,
            asks: 0,
            cancels: 0,
            breaks: 0,
            returns: 0,
            listens: 0,
        };
        let era = match scene.config.stateless {
            Stateless::Served | Stateless::Joined => Era::Modern,
            Stateless::Refused => Era::Legacy,
            Stateless::Ask | _ => Era::Unknown,
        };
        Self {
            clients: scene.clients.iter().enumerate().map(client).collect(),
            scene,
            links: Vec::new(),
            asks: Vec::new(),
            streams: Vec::new(),
            era,
            shared: BTreeMap::new(),
            plains: 0,
        }
    }

    pub(crate) fn new_link(
        &mut self,
        now: Instant,
        client: Option<usize>,
        session: Option<String>,
        key: Option<LinkKey>,
    ) -> usize {
        self.links.push(Link {
            client,
            joint: None,
            session,
            key,
            person: client.map_or(0, |client| self.clients[client].person),
            is_open: true,
            is_served: true,
            has_restarted: false,
            opened: now,
            heard: now,
            expects: VecDeque::new(),
            ids: Vec::new(),
            question: None,
            plains: 0,
        });
        self.links.len() - 1
    }

    /// Opens a session on the link of a program that sessions share.
    pub(crate) fn new_session(&mut self, now: Instant, client: usize, session: String, joint: usize) -> usize {
        let new = self.new_link(now, Some(client), Some(session), None);
        (self.links[new].joint, self.links[new].is_served) = (Some(joint), false);
        new
    }

    /// The link of the program that sessions share, if it is open.
    pub(crate) fn joint_link(&self) -> Option<usize> {
        let is_joint = |link: &Link| link.client.is_none() && link.is_open && link.is_served;
        let is_shared = self.scene.config.sessions == Sessions::SharedLink;
        (0..self.links.len()).find(|at| is_shared && is_joint(&self.links[*at]) && !self.is_shared(*at))
    }

    /// The link whose program serves this one.
    pub(crate) fn program(&self, link: usize) -> usize {
        self.links[link].joint.unwrap_or(link)
    }

    fn expect(&mut self, link: usize, expected: Expected) {
        let program = self.program(link);
        self.links[program].expects.push_back(expected);
    }

    /// Whether stateless clients share this link.
    pub(crate) fn is_shared(&self, link: usize) -> bool {
        self.shared.values().any(|shared| *shared == link)
    }

    /// The link on which the server is asked for its era.
    pub(crate) fn asked_link(&self) -> Option<usize> {
        self.shared.values().copied().next()
    }

    fn shared_link(&mut self, now: Instant, client: usize) -> usize {
        let person = self.clients[client].person;
        if let Some(link) = self.shared.get(&person) {
            return *link;
        }
        let link = self.new_link(now, None, None, None);
        self.links[link].person = person;
        self.shared.insert(person, link);
        link
    }

    /// A client says something in its session: its program is told who that is, if it was another before.
    fn speaks(&mut self, client: usize, link: usize) {
        let person = self.clients[client].person;
        let before = core::mem::replace(&mut self.links[link].person, person);
        if before != person {
            self.expect(link, Expected::Credentials(person));
        }
    }

    /// A client has posted requests, to be answered by `reply`; the first of them, or the status with which they are
    /// refused.
    pub(crate) fn posted(
        &mut self,
        now: Instant,
        client: usize,
        ids: &[&'static str],
        reply: usize,
    ) -> Result<usize, u16> {
        self.clients[client].asks += ids.len();
        let is_modern = self.clients[client].kind == Kind::Stateless;
        let link = match (is_modern, self.era) {
            (true, Era::Legacy) => return Err(400),
            (true, Era::Modern) => Some(self.shared_link(now, client)),
            (true, Era::Asked(_)) => None,
            (true, Era::Unknown) => {
                let link = self.shared_link(now, client);
                self.links[link].expects.push_back(Expected::Question);
                self.era = Era::Asked(now);
                None
            }
            (false, _) => {
                let link = self.clients[client].link.filter(|link| self.links[*link].is_open).ok_or(404_u16)?;
                self.speaks(client, link);
                Some(link)
            }
        };
        let first = self.asks.len();
        for id in ids {
            self.asks.push(Ask {
                client,
                id,
                listens: is_modern && self.scene.subscribes,
                token: self.scene.tokens.then_some("\"t\""),
                link: None,
                stream: None,
                known: None,
                state: AskState::Held(reply),
                reports: 0,
                answers: 0,
                is_cancelled: false,
            });
        }
        if let Some(link) = link {
            self.open(now, link, (first..self.asks.len()).collect(), reply);
        }
        Ok(first)
    }

    /// Requests are passed on to a program, and have a stream.
    fn open(&mut self, now: Instant, link: usize, asks: Vec<usize>, reply: usize) {
        let stream = self.new_stream(now, link);
        for &ask in &asks {
            self.asks[ask].link = Some(link);
            self.asks[ask].stream = Some(stream);
            self.asks[ask].state = AskState::Waiting;
            self.expect(link, Expected::Request(ask));
        }
        self.streams[stream].is_decided = asks.len() > 1;
        self.streams[stream].asks = asks;
        self.streams[stream].reply = Some(reply);
    }

    fn new_stream(&mut self, now: Instant, link: usize) -> usize {
        self.streams.push(Stream {
            link,
            is_resumable: self.links[link].client.is_some(),
            listens: false,
            asks: Vec::new(),
            log: Vec::new(),
            sent: 0,
            got: 0,
            last: None,
            has_gap: false,
            reply: None,
            posted: now,
            is_decided: false,
            has_begun: false,
            whole: None,
            ended: None,
            is_final: false,
            is_over: false,
            may_be_over: false,
        });
        self.streams.len() - 1
    }

    fn new_listening(&mut self, now: Instant, link: usize) -> usize {
        let stream = self.new_stream(now, link);
        let new = &mut self.streams[stream];
        (new.listens, new.has_begun, new.is_decided) = (true, true, true);
        stream
    }

    fn has_primer(&self, link: usize) -> bool {
        let client = self.links[link].client.map(|client| self.clients[client].kind);
        client == Some(Kind::Session("2025-11-25"))
    }

    /// A client has posted a cancel: the status of the response, and the link that it is passed on to with the id that it
    /// names there.
    pub(crate) fn posted_cancel(&mut self, client: usize, id: &str) -> (u16, Option<(usize, String)>) {
        self.clients[client].cancels += 1;
        let Some(link) = self.clients[client].link.filter(|link| self.links[*link].is_open) else { return (404, None) };
        self.speaks(client, link);
        let waiting =
            || self.asks.iter().enumerate().filter(|(_, ask)| ask.link == Some(link) && ask.state == AskState::Waiting);
        let mut named = waiting().filter(|(_, ask)| ask.id == id);
        let known = match (named.next(), named.next()) {
            (Some((only, _)), None) => {
                self.asks[only].is_cancelled = true;
                self.asks[only].known.clone().map(|(id, _)| id).unwrap_or_default()
            }
            // None can be meant (D7).
            (Some(_), Some(_)) => return (202, None),
            // Another's may have this id.
            (None, _) if self.links[link].joint.is_some() => return (202, None),
            // It may have overtaken its request; but it must not name another.
            (None, _) if waiting().any(|(_, ask)| ask.known.as_ref().is_some_and(|(known, _)| known == id)) => {
                return (202, None);
            }
            (None, _) => id.to_owned(),
        };
        self.expect(link, Expected::Cancel(known.clone()));
        (202, Some((self.program(link), known)))
    }

    /// A program receives something.
    pub(crate) fn received(&mut self, link: usize, input: &LinkInput) -> Verdict {
        let expected = self.links[link].expects.pop_front();
        let text = match input {
            LinkInput::Message(line) | LinkInput::Request(line, _) => {
                String::from_utf8_lossy(line).trim_end().to_owned()
            }
            LinkInput::StreamClosed(_) | LinkInput::Credentials(_) | LinkInput::End => String::new(),
        };
        match (expected, input) {
            (Some(Expected::Request(ask)), LinkInput::Message(_) | LinkInput::Request(..)) => {
                return self.received_request(link, ask, &text);
            }
            (Some(Expected::Cancel(id)), LinkInput::Message(_) | LinkInput::Request(..))
                if text == text::cancel(&id) => {}
            (Some(Expected::Question), LinkInput::Message(_) | LinkInput::Request(..)) if text::is_question(&text) => {
                let id = text::id(&text).unwrap_or_default().to_owned();
                self.links[link].ids.push(id.clone());
                self.links[link].question = Some(id);
            }
            (Some(Expected::Closed(ask)), LinkInput::StreamClosed(id))
                if self.asks[ask].known.as_ref().is_some_and(|(known, _)| *known == id.to_string()) => {}
            (Some(Expected::Credentials(person)), LinkInput::Credentials(value))
                if value.as_ref().is_some_and(|value| *value == text::credentials(person)) => {}
            (Some(Expected::End), LinkInput::End) => {}
            (expected, LinkInput::Message(_) | LinkInput::Request(..)) => {
                return broken(format!("link {link} expects {expected:?} and receives {text}"));
            }
            (expected, input) => return broken(format!("link {link} expects {expected:?} and receives {input:?}")),
        }
        Ok(())
    }

    fn received_request(&mut self, link: usize, ask: usize, text: &str) -> Verdict {
        let (Some(id), token) = (text::id(text), text::token(text)) else {
            return broken(format!("request {ask} has no id: {text}"));
        };
        let Ask { id: own, token: own_token, listens, .. } = self.asks[ask];
        let is_here = |other: &&Ask| other.link.is_some_and(|other| self.program(other) == link);
        let mut others = self.asks.iter().filter(is_here).filter(|other| other.state == AskState::Waiting);
        let known = |other: &Ask, id: &str| other.known.as_ref().is_some_and(|(known, _)| known == id);
        let knows_token = |other: &Ask, token: Option<&str>| {
            other.known.as_ref().is_some_and(|(_, known)| known.is_some() && known.as_deref() == token)
        };
        if others.clone().any(|other| known(other, id)) {
            return broken(format!("request {ask} has the id {id} of another in flight"));
        }
        if others.clone().any(|other| knows_token(other, token)) {
            return broken(format!("request {ask} has the token of another in flight"));
        }
        let is_session = self.links[link].client.is_some();
        if is_session && id != own && !others.clone().any(|other| known(other, own)) {
            return broken(format!("request {ask} lost its id {own} for no reason (D32)"));
        }
        if is_session && token != own_token && !others.any(|other| knows_token(other, own_token)) {
            return broken(format!("request {ask} lost its token for no reason"));
        }
        if !is_session && self.links[link].ids.iter().any(|used| used == id) {
            return broken(format!("request {ask} has the id {id}, which was used before (D42)"));
        }
        let is_modern = self.clients[self.asks[ask].client].kind == Kind::Stateless;
        if token.is_some() != own_token.is_some() || text != text::request(id, token, ask, is_modern, listens) {
            return broken(format!("request {ask} is not passed on byte for byte (D33): {text}"));
        }
        self.links[link].ids.push(id.to_owned());
        self.asks[ask].known = Some((id.to_owned(), token.map(ToOwned::to_owned)));
        Ok(())
    }

    /// A program says something on a stream.
    fn said(&mut self, stream: usize, said: Said) {
        let stream = &mut self.streams[stream];
        if stream.reply.is_some() {
            (stream.is_decided, stream.has_begun) = (true, true);
        } else if !stream.has_begun {
            // Nobody can ask for it.
            return;
        }
        stream.log.push(Entry { said, while_away: stream.reply.is_none() });
    }

    fn is_waiting(&self, stream: usize) -> bool {
        self.streams[stream].asks.iter().any(|ask| self.asks[*ask].state == AskState::Waiting)
    }

    pub(crate) fn said_report(&mut self, ask: usize) {
        let number = self.asks[ask].reports;
        self.asks[ask].reports += 1;
        let said = if self.asks[ask].listens { Said::Changed(ask, number) } else { Said::Progress(ask, number) };
        if let (AskState::Waiting, Some(stream)) = (self.asks[ask].state, self.asks[ask].stream) {
            self.said(stream, said);
        }
    }

    pub(crate) fn said_answer(&mut self, now: Instant, ask: usize) {
        self.asks[ask].answers += 1;
        self.answered(now, ask, Said::Answer(ask));
    }

    fn answered(&mut self, now: Instant, ask: usize, said: Said) {
        let (AskState::Waiting, Some(stream)) = (self.asks[ask].state, self.asks[ask].stream) else { return };
        self.asks[ask].state = AskState::Answered;
        let is_last = !self.is_waiting(stream);
        let Stream { is_decided, has_begun, reply, .. } = self.streams[stream];
        if is_last && !is_decided && reply.is_some() {
            self.streams[stream].whole = Some(said);
            self.streams[stream].is_over = true;
            return;
        }
        self.said(stream, said);
        if is_last {
            self.streams[stream].ended = Some(now);
            self.streams[stream].is_over |= reply.is_none() && !has_begun;
        }
    }

    /// What cancelled a request has been passed on, and its program will not answer; or it ends a subscription.
    pub(crate) fn settled(&mut self, now: Instant, ask: usize) {
        let (AskState::Waiting, Some(at)) = (self.asks[ask].state, self.asks[ask].stream) else { return };
        self.asks[ask].state = AskState::Settled;
        if self.is_waiting(at) {
            return;
        }
        let stream = &mut self.streams[at];
        stream.ended = Some(now);
        let has_answered = stream.log.iter().any(|entry| matches!(entry.said, Said::Answer(_) | Said::Gone(_)));
        if !has_answered {
            stream.is_final = true;
            stream.is_over |= stream.reply.is_none();
        }
    }

    /// A program says something that belongs to no request.
    pub(crate) fn said_plain(&mut self, now: Instant, link: usize) {
        let number = self.plains;
        self.plains += 1;
        self.links[link].plains += 1;
        if self.joint_link() == Some(link) {
            for session in 0..self.links.len() {
                if self.links[session].joint == Some(link) {
                    self.hears_plain(now, session, number);
                }
            }
            return;
        }
        self.hears_plain(now, link, number);
    }

    fn hears_plain(&mut self, now: Instant, link: usize, number: usize) {
        if !self.links[link].is_open {
            return;
        }
        let target = if self.links[link].client.is_none() {
            let mut waiting = self.asks.iter().filter(|ask| ask.link == Some(link) && ask.state == AskState::Waiting);
            match (waiting.next(), waiting.next()) {
                (Some(only), None) if !only.listens => only.stream,
                _ => None,
            }
        } else {
            let of_link = || (0..self.streams.len()).rev().filter(|at| self.streams[*at].link == link);
            let is_carried = |at: &usize| {
                let stream = &self.streams[*at];
                stream.reply.is_some() && stream.ended.is_none() && !stream.is_over
            };
            let found = of_link().filter(|at| self.streams[*at].listens).find(is_carried);
            let found = found.or_else(|| of_link().find(is_carried));
            let found = found.or_else(|| of_link().find(|at| self.streams[*at].listens));
            Some(found.unwrap_or_else(|| self.new_listening(now, link)))
        };
        if let Some(target) = target {
            self.said(target, Said::Plain(number));
        }
    }

    /// The driver has taken the end of a response.
    pub(crate) fn finished(&mut self, reply: usize, stream: usize) {
        let stream = &mut self.streams[stream];
        if stream.reply == Some(reply) {
            stream.reply = None;
            stream.is_over |= stream.ended.is_some() && (stream.is_final || !stream.is_resumable || !stream.has_begun);
        }
    }

    /// The driver has reported the hang-up of a response.
    pub(crate) fn hung_up(&mut self, reply: usize, ask: Option<usize>, stream: Option<usize>) {
        if let Some(ask) = ask
            && let AskState::Held(_) = self.asks[ask].state
        {
            self.asks[ask].state = AskState::Closed;
        }
        let Some(at) = stream.filter(|stream| self.streams[*stream].reply == Some(reply)) else { return };
        self.finished(reply, at);
        let Stream { link, is_resumable, is_over, ended: None, .. } = self.streams[at] else { return };
        if is_resumable || is_over {
            return;
        }
        for ask in self.streams[at].asks.clone() {
            if self.asks[ask].state == AskState::Waiting {
                self.asks[ask].state = AskState::Closed;
                self.links[link].expects.push_back(Expected::Closed(ask));
            }
        }
        self.streams[at].is_over = true;
    }

    /// What a client must get that comes back to a stream.
    pub(crate) fn may_return(&self, stream: usize) -> Return {
        let Stream { link, is_final, is_over, may_be_over, ended, got, log, .. } = &self.streams[stream];
        if !self.links[*link].is_open {
            Return::Refused(404)
        } else if *is_final || *is_over || (ended.is_some() && *got == log.len()) {
            Return::Refused(405)
        } else if *may_be_over || (ended.is_some() && self.scene.is_forgetful()) {
            Return::Perhaps
        } else {
            Return::Goes
        }
    }

    /// A client came back, and goes on where it was; or it was refused, and whoever carried the stream before is done.
    pub(crate) fn returned(&mut self, stream: usize, reply: Option<usize>) {
        let stream = &mut self.streams[stream];
        if reply.is_none() && (stream.is_final || stream.is_over) {
            return;
        }
        stream.reply = reply;
        stream.sent = stream.got;
    }

    /// A client listens, without saying where it was.
    pub(crate) fn listens(&mut self, now: Instant, link: usize, reply: usize) -> usize {
        let known = (0..self.streams.len()).find(|at| self.streams[*at].link == link && self.streams[*at].listens);
        let at = known.unwrap_or_else(|| self.new_listening(now, link));
        let stream = &mut self.streams[at];
        // What was on its way to it is lost.
        (stream.got, stream.last) = (stream.sent, None);
        stream.has_gap |= self.scene.is_forgetful();
        stream.reply = Some(reply);
        at
    }

    /// A program is gone: what it has not answered is answered for it. Whether another takes its place.
    pub(crate) fn gone(&mut self, now: Instant, link: usize) -> bool {
        for ask in 0..self.asks.len() {
            let Ask { link: of, state, listens, .. } = self.asks[ask];
            if of.is_some_and(|of| self.program(of) == link) && state == AskState::Waiting && !listens {
                self.answered(now, ask, Said::Gone(ask));
            }
        }
        self.links[link].expects.clear();
        if self.links.iter().any(|session| session.joint == Some(link) && session.is_open) {
            for ask in 0..self.asks.len() {
                if self.asks[ask].link.is_some_and(|of| self.program(of) == link) {
                    self.asks[ask].known = None;
                }
            }
            let program = &mut self.links[link];
            (program.key, program.has_restarted) = (None, true);
            program.ids.clear();
            return true;
        }
        for session in (0..self.links.len()).filter(|at| self.program(*at) == link).collect::<Vec<_>>() {
            self.closed(now, session, false);
        }
        self.links[link].is_served = false;
        false
    }

    /// Whether a program of several clients has ended before: after its next end none is started at once.
    pub(crate) fn has_ended_once(&self, link: &Link) -> bool {
        let is_of_many = |link: &Link| link.client.is_none();
        let mut of_many = self.links.iter().filter(|link| is_of_many(link));
        is_of_many(link) && of_many.any(|link| link.has_restarted || !link.is_served)
    }

    /// A link ends: its session was deleted, or its program is gone.
    pub(crate) fn closed(&mut self, now: Instant, link: usize, is_told: bool) {
        if !self.links[link].is_open {
            return;
        }
        self.links[link].is_open = false;
        if is_told && self.links[link].joint.is_none() {
            self.expect(link, Expected::End);
        } else if is_told {
            // The program is told what is to stop, and lives on.
            let is_stopped = |ask: &Ask| ask.link == Some(link) && ask.state == AskState::Waiting;
            for ask in (0..self.asks.len()).filter(|at| is_stopped(&self.asks[*at])).collect::<Vec<_>>() {
                self.expect(link, Expected::Closed(ask));
            }
        }
        self.shared.retain(|_, shared| *shared != link);
        for ask in self.asks.iter_mut().filter(|ask| ask.link == Some(link) && ask.state == AskState::Waiting) {
            ask.state = AskState::Ended;
        }
        for stream in self.streams.iter_mut().filter(|stream| stream.link == link && !stream.is_over) {
            stream.ended.get_or_insert(now);
            stream.is_final = true;
            stream.is_over = stream.reply.is_none();
        }
    }

    /// The server has shown which era it speaks.
    pub(crate) fn learnt(&mut self, now: Instant, is_modern: bool) {
        if !matches!(self.era, Era::Asked(_)) {
            return;
        }
        self.era = if is_modern { Era::Modern } else { Era::Legacy };
        for ask in 0..self.asks.len() {
            let AskState::Held(reply) = self.asks[ask].state else { continue };
            if is_modern {
                let link = self.shared_link(now, self.asks[ask].client);
                self.open(now, link, vec![ask], reply);
            } else {
                self.asks[ask].state = AskState::Refused;
            }
        }
        if !is_modern && let Some(link) = self.asked_link() {
            self.closed(now, link, true);
        }
    }

    /// The server has ended before it showed that.
    pub(crate) fn not_learnt(&mut self, now: Instant) {
        if matches!(self.era, Era::Asked(_)) {
            self.learnt(now, false);
            self.era = Era::Unknown;
        }
    }

    /// Sessions are over that have left work behind, and whose clients have been away for too long. `busy` are those with
    /// responses that are being given.
    fn end_those_left(&mut self, now: Instant, busy: &BTreeSet<usize>) {
        let config = &self.scene.config;
        let (within, often) = (config.resume_within, config.idle.min(config.resume_within) / 4);
        for link in 0..self.links.len() {
            let Link { client, session, is_open, opened, heard, .. } = &self.links[link];
            let looks = now.since(*opened).as_nanos() / often.as_nanos();
            let looked = *opened + often * u32::try_from(looks).unwrap_or(u32::MAX);
            let is_left = *is_open && client.is_some() && session.is_some() && !busy.contains(&link);
            let is_waited_for = |ask: &Ask| ask.link == Some(link) && ask.state == AskState::Waiting;
            if is_left && looks > 0 && looked.since(*heard) >= within && self.asks.iter().any(is_waited_for) {
                self.closed(now, link, true);
            }
        }
    }

    /// Time has passed.
    pub(crate) fn passed(&mut self, now: Instant, busy: &BTreeSet<usize>) {
        self.end_those_left(now, busy);
        for at in 0..self.streams.len() {
            let has_primer = self.has_primer(self.streams[at].link);
            let stream = &mut self.streams[at];
            if stream.reply.is_some()
                && !stream.is_decided
                && !stream.is_over
                && stream.ended.is_none()
                && now.since(stream.posted) >= SHORT
            {
                stream.is_decided = true;
                stream.has_begun |= has_primer;
            }
            let is_old = stream.ended.is_some_and(|ended| now.since(ended) >= self.scene.config.resume_within);
            stream.may_be_over |= is_old;
        }
        if let Era::Asked(since) = self.era
            && now.since(since) >= self.scene.config.ask_within
        {
            self.learnt(now, false);
        }
    }

    fn text(&self, said: Said) -> String {
        match said {
            Said::Progress(ask, number) => {
                text::progress(self.asks[ask].token.unwrap_or_default(), ask, number, self.scene.more)
            }
            Said::Changed(ask, number) => text::changed(self.asks[ask].id, ask, number, self.scene.more),
            Said::Answer(ask) => text::answer(self.asks[ask].id, ask, self.asks[ask].listens),
            Said::Gone(ask) => text::gone(self.asks[ask].id),
            Said::Plain(number) => text::plain(number, self.scene.more),
        }
    }

    /// An event was handed out.
    pub(crate) fn handed_out(&mut self, stream: usize, data: &str) {
        let Stream { sent, log, .. } = &self.streams[stream];
        let found = (*sent..log.len()).find(|at| self.text(log[*at].said) == data);
        if let Some(at) = found {
            self.streams[stream].sent = at + 1;
        }
    }

    /// The client of a stream reads an event.
    pub(crate) fn read_event(&mut self, at: usize, id: Option<&str>, data: &str) -> Verdict {
        self.read_id(at, id)?;
        let stream = &self.streams[at];
        if data.is_empty() {
            let is_lawful = self.has_primer(stream.link);
            return if is_lawful { Ok(()) } else { broken(format!("stream {at} has an event without a message")) };
        }
        if text::is_gap(data) {
            self.streams[at].has_gap = true;
            return if self.scene.is_forgetful() { Ok(()) } else { broken(format!("stream {at} loses messages")) };
        }
        if let Some(id) = text::not_kept(data) {
            let lost =
                |entry: &Entry| matches!(entry.said, Said::Answer(ask) | Said::Gone(ask) if self.asks[ask].id == id);
            let place = (stream.got..stream.log.len()).find(|place| lost(&stream.log[*place]));
            let Some(place) = place.filter(|_| self.scene.is_forgetful()) else {
                return broken(format!("stream {at} loses an answer: {data}"));
            };
            return self.advance(at, place);
        }
        let place = (stream.got..stream.log.len()).find(|place| self.text(stream.log[*place].said) == data);
        let Some(place) = place else {
            let known = stream.log.iter().any(|entry| self.text(entry.said) == data);
            let what = if known { "for the second time" } else { "which was not said there" };
            return broken(format!("stream {at} brings a message {what}: {data}"));
        };
        self.advance(at, place)
    }

    /// The client of a stream has got as far as this place; what lies before must not be missing.
    fn advance(&mut self, at: usize, place: usize) -> Verdict {
        let stream = &self.streams[at];
        if let Some(missing) = (stream.got..place).find(|place| !self.may_miss(stream, *place)) {
            return broken(format!("stream {at} skips a message: {}", self.text(stream.log[missing].said)));
        }
        self.streams[at].got = place + 1;
        self.streams[at].has_gap = false;
        Ok(())
    }

    fn read_id(&mut self, at: usize, id: Option<&str>) -> Verdict {
        let stream = &self.streams[at];
        let id = id
            .map(|id| id.split_once('-').and_then(|(stream, event)| Some((stream.parse().ok()?, event.parse().ok()?))));
        let Some((number, event)): Option<(u64, u64)> = id.flatten() else {
            let is_lawful = id.is_none() && !stream.is_resumable;
            return if is_lawful {
                Ok(())
            } else {
                broken(format!("stream {at} has an event without an id to come back behind"))
            };
        };
        if !stream.is_resumable {
            return broken(format!("stream {at} has an event with an id, and cannot be resumed"));
        }
        if stream.last.is_some_and(|last| last.0 != number || last.1 >= event) {
            return broken(format!("stream {at} brings event {number}-{event} after {:?}", stream.last));
        }
        let others = self.streams.iter().enumerate().filter(|(other, _)| *other != at);
        if others
            .into_iter()
            .any(|(_, other)| other.link == stream.link && other.last.is_some_and(|last| last.0 == number))
        {
            return broken(format!("stream {at} has the number {number} of another"));
        }
        self.streams[at].last = Some((number, event));
        Ok(())
    }

    /// The client of a stream reads the head of a stream of events.
    pub(crate) fn read_head(&self, at: usize) -> Verdict {
        let stream = &self.streams[at];
        if stream.is_decided || stream.ended.is_some() {
            return Ok(());
        }
        broken(format!("stream {at} begins before its time"))
    }

    /// The client of a stream reads its whole response.
    pub(crate) fn read_whole(&self, at: usize, status: u16, body: &str) -> Verdict {
        let expected = self.streams[at].whole.map(|said| self.text(said));
        if status == 200 && expected.as_deref() == Some(body) {
            return Ok(());
        }
        broken(format!("stream {at} is answered {status} {body} instead of {expected:?}"))
    }

    /// The client of a stream reads the end of its response.
    pub(crate) fn read_end(&self, at: usize) -> Verdict {
        let stream = &self.streams[at];
        if stream.ended.is_none() {
            return broken(format!("stream {at} ends although nothing has ended it"));
        }
        self.check_read(at)
    }

    /// Checks that the client of a stream has got all that was said on it.
    pub(crate) fn check_read(&self, at: usize) -> Verdict {
        let stream = &self.streams[at];
        match (stream.got..stream.log.len()).find(|place| !self.may_miss(stream, *place)) {
            Some(missing) => broken(format!("stream {at} never brings {}", self.text(stream.log[missing].said))),
            None => Ok(()),
        }
    }

    /// Whether the message at this place may be left out: it is progress that had not been handed out when the answer of its
    /// request came (D62), or that later progress of that request has replaced while nobody read; or its client was told
    /// that messages are missing.
    fn may_miss(&self, stream: &Stream, place: usize) -> bool {
        let is_replaced = match (stream.log[place].said, stream.log.get(place + 1)) {
            (Said::Progress(ask, _), Some(Entry { said: Said::Progress(next, _), while_away: true })) => ask == *next,
            _ => false,
        };
        let is_void = match stream.log[place].said {
            Said::Progress(ask, _) => stream.log[place..]
                .iter()
                .any(|entry| matches!(entry.said, Said::Answer(of) | Said::Gone(of) if of == ask)),
            Said::Changed(..) | Said::Answer(_) | Said::Gone(_) | Said::Plain(_) => false,
        };
        // Of many streams even what is gone is forgotten, and an answer is only one of the messages that are missing.
        let is_answer = matches!(stream.log[place].said, Said::Answer(_) | Said::Gone(_)) && self.streams.len() < MANY;
        is_replaced || is_void || (stream.has_gap && !is_answer)
    }

    /// Whether a stream must have ended for whoever reads it.
    pub(crate) fn has_ended(&self, at: usize) -> bool {
        self.streams[at].ended.is_some()
    }

    /// Feeds the model into a hasher.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        (&self.clients, &self.asks, &self.shared, self.plains).hash(state);
        match self.era {
            Era::Unknown => 0_u8.hash(state),
            Era::Asked(since) => (1_u8, now.since(since)).hash(state),
            Era::Modern => 2_u8.hash(state),
            Era::Legacy => 3_u8.hash(state),
        }
        for Link {
            client,
            joint,
            session: _,
            key: _,
            person,
            is_open,
            is_served,
            has_restarted,
            opened,
            heard,
            expects,
            ids,
            question,
            plains,
        } in &self.links
        {
            (client, joint, person, is_open, is_served, has_restarted, expects, ids, question, plains).hash(state);
            (now.since(*opened), now.since(*heard)).hash(state);
        }
        for stream in &self.streams {
            let Stream { link, asks, log, sent, got, last, reply, posted, ended, .. } = stream;
            (link, asks, log, sent, got, last, reply).hash(state);
            (stream.is_resumable, stream.listens, stream.has_gap, stream.is_decided, stream.has_begun).hash(state);
            (stream.whole, stream.is_final, stream.is_over, stream.may_be_over).hash(state);
            ended.map(|ended| now.since(ended)).hash(state);
            (!stream.is_decided).then(|| now.since(*posted)).hash(state);
        }
    }
}

/// Who there is to sign in.
pub(crate) const PEOPLE: Person = 2;

/// More streams than the records of what is gone fit into what a forgetful scene keeps.
const MANY: usize = 10;

pub(crate) fn broken(text: String) -> Verdict {
    Err(Broken(text))
}
