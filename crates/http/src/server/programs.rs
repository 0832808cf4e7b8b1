//! The programs behind: the links to them, when each is started and ended, and what they are known to speak.

mod modern_only;

use core::{
    hash::{Hash, Hasher},
    num::NonZero,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rescind_proto::{
    back_off::BackOff,
    dialect::{DISCOVER, mcp},
    error_code,
    frame::Request,
    id::RequestId,
    json, message,
    time::Instant,
};

use super::{
    HttpServerEvent,
    config::{HttpServerConfig, Stateless},
    door::{Asker, Credentials, Refusal},
    joint::greet,
    keyed::Keyed,
    keys::LinkKey,
    link::{Link, LinkInput, LinkUse, SET_LEVEL, Urgency},
    posted::line,
    question::{About, Held, Question},
    streams::{HANDSHAKE, SUBSCRIBE},
};

pub(crate) use modern_only::{MAX_LIST, ModernOnly};

/// What is known of the program for requests outside a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Unknown,
    /// It was asked on this link, where what waits for the answer stands.
    Asked(LinkKey),
    /// It speaks a revision without sessions.
    Modern,
    Legacy,
}

/// Something that is due for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Due {
    /// Its program may be started.
    Start,
    /// Its program must have answered our question.
    Answer,
    /// Whether it is used is looked at now and then.
    Upkeep,
}

/// A link that has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lapsed {
    /// Its program has not answered our question in time.
    Unanswered(LinkKey),
    /// Nobody has used it for too long.
    Unused(LinkKey),
}

/// Links to programs.
///
/// One that serves a session is its session's. Of those for requests outside a session each asker has one, or all have the
/// same. One is shared by sessions. A link that serves several clients is there before its program is: only its
/// [`Opened`](HttpServerEvent::Opened) waits until that may be started again.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) links: Keyed<BTreeMap<LinkKey, Link>>,
    /// The links of requests outside a session: one for each asker, or one for all where askers are not distinguished.
    pub(crate) shared: Keyed<HashMap<Asker, LinkKey, FixedState>>,
    /// The link that sessions share.
    pub(crate) joint: Option<LinkKey>,
    pub(crate) era: Era,
    /// What the server speaks, if it has shown that it knows no sessions.
    pub(crate) modern_only: Option<ModernOnly>,
    /// That of the program of several clients.
    pub(crate) back_off: BackOff,
    /// How one of those last ended before it answered a question of ours, in words.
    pub(crate) last_end: Option<Box<str>>,
    /// What is due for links that are open.
    pub(crate) due: BTreeSet<(Instant, LinkKey, Due)>,
    /// What the driver has to do.
    pub(crate) events: VecDeque<HttpServerEvent>,
    rules: Rules,
}

/// What the settings say of programs.
#[derive(Clone, Copy, Debug)]
struct Rules {
    passes_credentials: bool,
    /// Each asker has a program.
    parts_people: bool,
    /// Requests outside a session have the link of sessions.
    joins_eras: bool,
    idle: Duration,
    /// The time between two looks at a link.
    upkeep: Duration,
    ask_within: Duration,
    seed: u64,
}

impl Programs {
    pub(crate) fn new(config: &HttpServerConfig) -> Self {
        Self {
            links: Keyed::default(),
            shared: Keyed(HashMap::with_hasher(FixedState::with_seed(config.seed))),
            joint: None,
            era: match config.stateless {
                Stateless::Served | Stateless::Joined => Era::Modern,
                Stateless::Refused => Era::Legacy,
                Stateless::Ask => Era::Unknown,
            },
            modern_only: None,
            back_off: BackOff::default(),
            last_end: None,
            due: BTreeSet::new(),
            events: VecDeque::new(),
            rules: Rules {
                passes_credentials: config.passes_credentials(),
                parts_people: config.parts_people(),
                joins_eras: config.joins_eras(),
                idle: config.idle,
                // At once would be for ever.
                upkeep: (config.idle.min(config.resume_within) / 4).max(Duration::from_millis(1)),
                ask_within: config.ask_within,
                seed: config.seed,
            },
        }
    }

    /// Opens a link of this name, whose program is started as soon as it may be. `session` is the id of its session, if it has
    /// only one.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        key: NonZero<u64>,
        serves: LinkUse,
        session: Option<Box<str>>,
        asker: &Asker,
    ) -> LinkKey {
        let link = LinkKey(key);
        let Asker { owner, credentials } = asker.clone();
        let mut opened = Link::new(serves, credentials.clone(), key, now, self.rules.seed);
        let at = if self.is_of_several(serves) { self.back_off.start(now) } else { now };
        if at > now {
            opened.rests_until = Some(at);
            self.due.insert((at, link, Due::Start));
        } else {
            self.events.push_back(HttpServerEvent::Opened { link, session, credentials, owner });
        }
        match serves {
            LinkUse::Session(_) => {}
            LinkUse::Sessions => self.joint = Some(link),
            LinkUse::Stateless => _ = self.shared.insert(asker.clone(), link),
        }
        if serves == LinkUse::Sessions || serves == LinkUse::Stateless && self.rules.parts_people {
            self.due.insert((now + self.rules.upkeep, link, Due::Upkeep));
        }
        self.links.insert(link, opened);
        link
    }

    /// Takes nothing more for a link, and nothing more from it. Returns what it served, unless it was closed before.
    pub(crate) fn close(&mut self, key: LinkKey) -> Option<LinkUse> {
        let link = self.live(key)?;
        link.close();
        let (serves, is_unheard_of) = (link.serves, link.rests_until.is_some());
        self.due.retain(|(_, of, _)| *of != key);
        match serves {
            LinkUse::Session(_) => {}
            LinkUse::Sessions => self.joint = None,
            LinkUse::Stateless => self.forget_shared(key),
        }
        if is_unheard_of {
            // By the driver.
            self.links.remove(&key);
        }
        Some(serves)
    }

    /// Returns the link of an asker's requests outside a session, if it is open.
    pub(crate) fn outside_sessions(&self, asker: &Asker) -> Option<LinkKey> {
        if self.rules.joins_eras { self.joint } else { self.shared.get(asker).copied() }
    }

    /// Returns the link that sessions share. If there is none, it is opened under this name, and its program is to shake hands.
    pub(crate) fn joint_link(&mut self, now: Instant, key: NonZero<u64>) -> LinkKey {
        self.joint.unwrap_or_else(|| self.open_joint(now, key, None))
    }

    fn open_joint(&mut self, now: Instant, key: NonZero<u64>, former: Option<Bytes>) -> LinkKey {
        let link = self.open(now, key, LinkUse::Sessions, None, &Asker::default());
        self.question(now, link, About::Handshake(former), HANDSHAKE, greet);
        link
    }

    /// Has sessions go on with another program, on a link of this name, in place of one that is gone or of no use.
    pub(crate) fn replace_joint(&mut self, now: Instant, ended: LinkKey, key: NonZero<u64>) -> LinkKey {
        let (mut former, mut log_level) = (None, None);
        if let Some(link) = self.links.get_mut(&ended) {
            log_level = link.log_level.take();
            former = match &mut link.asked {
                Some(Question { about: About::Handshake(former), .. }) => former.take(),
                Some(Question { about: About::Era(_), .. }) | None => link.greeting.take(),
            };
        }
        self.close(ended);
        let next = self.open_joint(now, key, former);
        if let Some(link) = self.links.get_mut(&next) {
            link.log_level = log_level;
        }
        next
    }

    /// Lets sessions share the link of a program that was asked which era it speaks, and has said that it knows only
    /// sessions: it need not start again.
    pub(crate) fn lend_to_sessions(&mut self, now: Instant, key: LinkKey) {
        let Some(link) = self.links.get_mut(&key).filter(|_| self.joint.is_none()) else { return };
        link.serves = LinkUse::Sessions;
        self.joint = Some(key);
        self.forget_shared(key);
        self.question(now, key, About::Handshake(None), HANDSHAKE, greet);
        self.due.insert((now + self.rules.upkeep, key, Due::Upkeep));
    }

    /// Asks a program which era it speaks.
    pub(crate) fn ask_era(&mut self, now: Instant, link: LinkKey) {
        let params = |out: &mut Vec<u8>| {
            out.extend_from_slice(br#""_meta":{"#);
            mcp::LATEST_STATELESS.write_date_in_meta(out);
            out.extend_from_slice(CLIENT.as_bytes());
        };
        self.question(now, link, About::Era(Vec::new()), DISCOVER, params);
        self.era = Era::Asked(link);
    }

    /// Asks a program what others wait for. It has time for that from its start.
    fn question(&mut self, now: Instant, key: LinkKey, about: About, method: &str, params: impl FnOnce(&mut Vec<u8>)) {
        let id = self.ask(key, method, params);
        let Some(link) = self.links.get_mut(&key) else { return };
        link.asked = Some(Question { id, about });
        if link.rests_until.is_none() {
            self.due.insert((now + self.rules.ask_within, key, Due::Answer));
        }
    }

    /// Takes a question of ours back, whether it was answered or not.
    pub(crate) fn take_question(&mut self, key: LinkKey) -> Option<About> {
        let question = self.links.get_mut(&key)?.asked.take()?;
        self.due.retain(|(_, of, due)| *of != key || *due != Due::Answer);
        Some(question.about)
    }

    /// The requests that wait until it is known which era the server speaks.
    pub(crate) fn waiting(&mut self) -> Option<&mut Vec<Held>> {
        let Era::Asked(key) = self.era else { return None };
        match &mut self.links.get_mut(&key)?.asked.as_mut()?.about {
            About::Era(held) => Some(held),
            About::Handshake(_) => None,
        }
    }

    /// Sends a request of our own to a program, ahead of everything else; its id.
    fn ask(&mut self, key: LinkKey, method: &str, params: impl FnOnce(&mut Vec<u8>)) -> RequestId {
        let id = self.links.get_mut(&key).map_or(RequestId::NULL, |link| link.calls.own_id());
        let mut question = Vec::new();
        message::request(&id, method, &mut question, params);
        self.push(key, Urgency::Urgent, LinkInput::Message(line(&question, Vec::new())));
        id
    }

    /// Sends such a request about a resource.
    pub(crate) fn ask_about(&mut self, key: LinkKey, method: &str, uri: &str) {
        self.ask(key, method, |out| {
            out.extend_from_slice(br#""uri":"#);
            json::write_string(out, uri);
        });
    }

    /// Sends a program that was started again what the one before it knew.
    pub(crate) fn replay(&mut self, key: LinkKey, subscribed: &BTreeSet<&str>) {
        subscribed.iter().for_each(|uri| self.ask_about(key, SUBSCRIBE, uri));
        if let Some(level) = self.links.get(&key).and_then(|link| link.log_level.clone()) {
            self.ask(key, SET_LEVEL, |out| {
                out.extend_from_slice(br#""level":"#);
                out.extend_from_slice(&level);
            });
        }
    }

    /// The link, unless it is closed: then nobody hears what is still said on it.
    pub(crate) fn live(&mut self, key: LinkKey) -> Option<&mut Link> {
        self.links.get_mut(&key).filter(|link| !link.is_closed)
    }

    /// Reports that a message of a program was dropped.
    pub(crate) fn drop_message(&mut self, link: LinkKey, method: &str) {
        self.events.push_back(HttpServerEvent::Dropped { link, method: method.into() });
    }

    /// Answers a request of a program that several clients share. None of them is asked: it could be the wrong person
    /// (D42). Only one with sessions makes requests, also before it was asked which era it speaks.
    pub(crate) fn answer(&mut self, link: LinkKey, request: &Request<'_>) {
        let mut answer = Vec::new();
        if mcp::LATEST_LEGACY.ping == Some(&*request.method) {
            message::result(&request.id, b"{}", &mut answer);
        } else {
            let words = "several clients share this server, and none of them can be asked";
            message::error(Some(&request.id), error_code::METHOD_NOT_FOUND, words, None, &mut answer);
            self.drop_message(link, &request.method);
        }
        // It may wait for this before it shakes hands.
        self.push(link, Urgency::Urgent, LinkInput::Message(line(&answer, Vec::new())));
    }

    /// Queues input for a program.
    pub(crate) fn push(&mut self, key: LinkKey, urgency: Urgency, input: LinkInput) {
        if let Some(link) = self.links.get_mut(&key) {
            link.push(urgency, input);
            link.report(key, &mut self.events);
        }
    }

    /// Sets the credentials of what comes next on a link: of streams whose key is not below `since`.
    pub(crate) fn set_credentials(&mut self, key: LinkKey, since: NonZero<u64>, credentials: &Credentials) {
        let changed = self.links.get_mut(&key).filter(|link| link.credentials != *credentials);
        if let Some(link) = changed {
            link.set_credentials(since, credentials);
            link.report(key, &mut self.events);
        }
    }

    /// How the cancel of a request is queued that its program has taken. But for one that belongs to the credentials which
    /// were said before it, it goes before what waits, so that no flood delays it.
    pub(crate) const fn of_cancels(&self) -> Urgency {
        if self.rules.passes_credentials { Urgency::Ordinary } else { Urgency::Urgent }
    }

    /// Finds a link that has room for so many requests more, and whose program need not be waited for too long; and where
    /// that is reported.
    pub(crate) fn with_room(
        &mut self,
        config: &HttpServerConfig,
        now: Instant,
        key: LinkKey,
        requests: usize,
    ) -> Result<(&mut Link, &mut VecDeque<HttpServerEvent>), Refusal> {
        let link = self.links.get_mut(&key).ok_or_else(|| Refusal::overloaded("the server takes in nothing now"))?;
        link.check_start(now, self.last_end.as_deref())?;
        link.check_room(config, requests)?;
        Ok((link, &mut self.events))
    }

    /// Whether several clients have the program of such a link, so that it is started again when it ends.
    pub(crate) const fn is_of_several(&self, serves: LinkUse) -> bool {
        match serves {
            LinkUse::Session(_) => false,
            LinkUse::Sessions => true,
            LinkUse::Stateless => !self.rules.parts_people,
        }
    }

    /// When the next is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// Does what has become due, up to a link that has come to its end. `has_sessions` keeps the one that sessions share.
    pub(crate) fn poll_due(&mut self, now: Instant, has_sessions: bool) -> Option<Lapsed> {
        while self.next_due()? <= now {
            let (_, key, due) = self.due.pop_first()?;
            let Some(link) = self.links.get_mut(&key) else { continue };
            match due {
                Due::Start => {
                    link.rests_until = None;
                    if link.asked.is_some() {
                        self.due.insert((now + self.rules.ask_within, key, Due::Answer));
                    }
                    let credentials = link.credentials.clone();
                    let opened = HttpServerEvent::Opened { link: key, session: None, credentials, owner: None };
                    self.events.push_back(opened);
                }
                Due::Answer => return Some(Lapsed::Unanswered(key)),
                Due::Upkeep => {
                    let has_users = has_sessions && link.serves == LinkUse::Sessions;
                    let is_used = has_users || link.asked.is_some() || !link.is_idle();
                    if !is_used && now.since(link.idle_since) >= self.rules.idle {
                        return Some(Lapsed::Unused(key));
                    }
                    self.due.insert((now + self.rules.upkeep, key, Due::Upkeep));
                }
            }
        }
        None
    }

    /// The link of an asker that was idle for longest.
    pub(crate) fn yielding(&self) -> Option<LinkKey> {
        let links = self.shared.values().filter_map(|key| Some((*key, self.links.get(key)?)));
        let idle = links.filter(|(_, link)| link.is_idle() && link.asked.is_none());
        idle.map(|(key, link)| (link.idle_since, key)).min().map(|(_, key)| key)
    }

    /// Requests outside a session have this link no more.
    fn forget_shared(&mut self, key: LinkKey) {
        self.shared.retain(|_, link| *link != key);
    }

    /// Returns the links of these askers, in order.
    pub(crate) fn links_of(&self, is_one: impl Fn(&Asker) -> bool) -> Vec<LinkKey> {
        let mut links: Vec<_> = self.shared.iter().filter(|(asker, _)| is_one(asker)).map(|(_, link)| *link).collect();
        links.sort_unstable();
        links
    }

    /// How many entries its tables hold.
    pub(crate) fn residue(&self) -> usize {
        let waiting = self.links.values().filter_map(|link| link.asked.as_ref()).map(|asked| asked.waiting().len());
        self.links.len() + self.due.len() + self.events.len() + waiting.sum::<usize>()
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        self.links.values().map(Link::held).sum::<usize>()
            + self.modern_only.as_ref().map_or(0, |modern_only| modern_only.list().len())
            + self.due.len() * 2 * size_of::<(Instant, LinkKey, Due)>()
            + self.events.capacity() * size_of::<HttpServerEvent>()
    }

    /// Feeds what decides its future into a hasher, but for its links.
    pub(crate) fn hash_state(&self, now: Instant, has_no_sessions: bool, state: &mut impl Hasher) {
        let mut shared: Vec<_> = self.shared.values().map(|link| self.links.rank(*link)).collect();
        shared.sort_unstable();
        (shared, self.joint.map(|link| self.links.rank(link))).hash(state);
        core::mem::discriminant(&self.era).hash(state);
        for (at, key, due) in &self.due {
            (at.since(now), due, self.links.rank(*key)).hash(state);
        }
        let kept = self.links.values().filter(|link| link.serves.is_shared() && link.is_idle());
        // Sessions keep the one that they share, and when the last leaves it is as if it had been used.
        kept.filter(|link| has_no_sessions || link.serves != LinkUse::Sessions)
            .for_each(|link| now.since(link.idle_since).hash(state));
        self.back_off.hash_state(now, state);
        self.modern_only.as_ref().map(ModernOnly::list).hash(state);
        self.events.len().hash(state);
    }
}

/// What our question which era a server speaks says in `_meta` beside its revision.
const CLIENT: &str = concat!(
    r#","io.modelcontextprotocol/clientInfo":{"name":"rescind","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""},"io.modelcontextprotocol/clientCapabilities":{}}"#
);
