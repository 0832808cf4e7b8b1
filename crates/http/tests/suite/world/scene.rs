//! What a world plays: who is there, and how much of everything may happen.

use core::time::Duration;

use rescind_http::server::{HttpServerConfig, Sessions, Stateless};

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// One with a session, in which this revision is spoken.
    Session(&'static str),
    /// One without.
    Stateless,
}

/// How a world is set up, and its bounds.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// How many events far it is explored.
    pub(crate) depth: usize,
    pub(crate) clients: &'static [Kind],
    /// The ids that all clients use.
    pub(crate) ids: &'static [&'static str],
    /// Requests of each client.
    pub(crate) asks: usize,
    /// Whether requests ask for progress, all under the same token.
    pub(crate) tokens: bool,
    /// Whether a session's client sends its requests two at a time, in a batch.
    pub(crate) batches: bool,
    /// Whether stateless clients subscribe instead of calling.
    pub(crate) subscribes: bool,
    /// Reports of progress of one request, or messages on one subscription.
    pub(crate) reports: u8,
    /// Answers to one request: the second is one too many.
    pub(crate) answers: u8,
    /// Messages of one program that belong to no request.
    pub(crate) plains: usize,
    /// Cancels that one client posts.
    pub(crate) cancels: usize,
    /// How often the responses of one client break.
    pub(crate) breaks: usize,
    /// How often one client comes back.
    pub(crate) returns: usize,
    /// How often a session's client listens.
    pub(crate) listens: usize,
    /// How often one client signs in as another person.
    pub(crate) sign_ins: usize,
    /// Whether clients read event by event.
    pub(crate) pieces: bool,
    /// Whether sessions are deleted.
    pub(crate) deletes: bool,
    /// Whether programs end.
    pub(crate) ends: bool,
    /// Whether a client whose session has ended opens another one.
    pub(crate) reopens: bool,
    /// How often a short, and a long time passes.
    pub(crate) waits: (usize, usize),
    /// How many bytes more are in what programs say, but for answers.
    pub(crate) more: usize,
    pub(crate) config: HttpServerConfig,
}

/// Until a response begins as a stream.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// Until what has ended can no longer be fetched.
pub(crate) const LONG: Duration = Duration::from_secs(15);

/// The newest revision with sessions.
const LEGACY: Kind = Kind::Session("2025-11-25");

/// One before the event that only gives an id.
const EARLIER: Kind = Kind::Session("2025-06-18");

/// The one with batches.
const BATCHES: Kind = Kind::Session("2025-03-26");

impl Scene {
    fn new(name: &'static str, clients: &'static [Kind]) -> Self {
        Self {
            name,
            depth: 8,
            clients,
            ids: &["1"],
            asks: 1,
            tokens: true,
            batches: false,
            subscribes: false,
            reports: 1,
            answers: 1,
            plains: 0,
            cancels: 0,
            breaks: 1,
            returns: 0,
            listens: 0,
            sign_ins: 0,
            pieces: false,
            deletes: false,
            ends: false,
            reopens: false,
            waits: (1, 0),
            more: 0,
            config: HttpServerConfig {
                stateless: Stateless::Served,
                stream_after: SHORT,
                keep_alive: Duration::from_secs(3600),
                idle: Duration::from_secs(24 * 3600),
                resume_within: Duration::from_secs(10),
                ask_within: Duration::from_secs(20),
                ..HttpServerConfig::default()
            },
        }
    }

    /// The same with so much of everything that only a walk gets anywhere.
    pub(crate) fn long(self) -> Self {
        Self {
            ids: &["1", "2", "\"1\"", "1073741824"],
            asks: 60,
            reports: 6,
            answers: 2,
            plains: 30,
            cancels: 30,
            breaks: 60,
            returns: 60,
            listens: 20,
            sign_ins: 30 * self.sign_ins.min(1),
            pieces: true,
            deletes: true,
            ends: true,
            reopens: true,
            waits: (30, 10),
            ..self
        }
    }

    /// Clients sign in at the server behind.
    fn signed_in(mut self) -> Self {
        (self.config.passes_authorization, self.config.prove_within) = (true, SHORT);
        self
    }

    /// Whether so little is kept that much is lost, and reported as lost.
    pub(crate) fn is_forgetful(&self) -> bool {
        self.config.max_kept < 1 << 16 || self.is_crowded()
    }

    /// Whether all streams together may hold so little that connections are given up.
    pub(crate) fn is_crowded(&self) -> bool {
        self.config.max_unread < 1 << 20
    }
}

/// Every scene.
pub(crate) fn all() -> Vec<Scene> {
    vec![
        Scene {
            breaks: 2,
            returns: 2,
            reports: 2,
            pieces: true,
            answers: 2,
            depth: 14,
            ..Scene::new("one call, and who comes back", &[LEGACY])
        },
        Scene {
            breaks: 2,
            returns: 2,
            reports: 2,
            pieces: true,
            depth: 16,
            ..Scene::new("one call, and who comes back, without a primer", &[EARLIER])
        },
        Scene {
            asks: 2,
            cancels: 2,
            answers: 2,
            breaks: 1,
            returns: 1,
            depth: 8,
            ..Scene::new("two calls with one id, and a cancel", &[LEGACY])
        },
        Scene {
            cancels: 1,
            breaks: 1,
            returns: 1,
            depth: 8,
            ..Scene::new("two sessions with the same ids", &[LEGACY, EARLIER])
        },
        Scene {
            asks: 2,
            answers: 2,
            breaks: 2,
            reports: 1,
            waits: (1, 0),
            depth: 12,
            ..Scene::new("a client without a session", &[Kind::Stateless])
        },
        Scene {
            plains: 1,
            breaks: 1,
            ends: true,
            depth: 8,
            ..Scene::new("two clients without a session", &[Kind::Stateless, Kind::Stateless])
        },
        Scene {
            cancels: 1,
            breaks: 1,
            returns: 1,
            reports: 1,
            depth: 9,
            ..Scene::new("a session beside a client without", &[LEGACY, Kind::Stateless])
        },
        Scene {
            plains: 2,
            listens: 2,
            breaks: 2,
            returns: 2,
            tokens: false,
            depth: 8,
            ..Scene::new("what belongs to no request", &[LEGACY])
        },
        Scene {
            deletes: true,
            ends: true,
            plains: 1,
            listens: 1,
            returns: 1,
            answers: 2,
            depth: 7,
            ..Scene::new("the end of a session", &[LEGACY])
        },
        Scene {
            batches: true,
            asks: 2,
            ids: &["1", "2"],
            cancels: 1,
            breaks: 1,
            returns: 2,
            waits: (0, 0),
            depth: 11,
            ..Scene::new("a batch", &[BATCHES])
        },
        Scene {
            subscribes: true,
            asks: 1,
            reports: 2,
            answers: 2,
            depth: 8,
            ..Scene::new("subscriptions", &[Kind::Stateless, Kind::Stateless])
        },
        Scene {
            waits: (1, 2),
            breaks: 2,
            returns: 2,
            depth: 13,
            ..Scene::new("what can be fetched for a while", &[LEGACY])
        },
        {
            let mut scene = Scene::new("a server that is asked for its era", &[Kind::Stateless, Kind::Stateless]);
            scene.config.stateless = Stateless::Ask;
            Scene { depth: 11, ends: true, waits: (0, 2), tokens: false, ..scene }
        },
        {
            let mut scene = Scene::new("little is kept", &[LEGACY]);
            scene.config.max_kept = 700;
            Scene { depth: 7, plains: 3, listens: 1, reports: 3, breaks: 2, returns: 2, ..scene }
        },
        {
            let mut scene = Scene::new("more is unread than may be", &[LEGACY, Kind::Stateless]);
            (scene.config.max_unread, scene.config.max_message) = (20_480, 0);
            let (plains, listens, reports) = (5, 1, 4);
            Scene { depth: 5, plains, listens, reports, breaks: 2, returns: 2, more: 7_000, ..scene }
        },
        {
            let mut scene = Scene::new("two sessions on one link", &[LEGACY, EARLIER]);
            scene.config.sessions = Sessions::SharedLink;
            Scene { depth: 6, cancels: 1, answers: 2, plains: 1, deletes: true, ends: true, ..scene }
        },
        {
            let mut scene = Scene::new("two sessions beside a client without", &[BATCHES, BATCHES, Kind::Stateless]);
            scene.config.sessions = Sessions::SharedLink;
            Scene { depth: 5, batches: true, asks: 2, ids: &["1", "2"], cancels: 1, returns: 1, ..scene }
        },
        Scene {
            sign_ins: 2,
            asks: 2,
            cancels: 1,
            depth: 8,
            ..Scene::new("a session that changes hands", &[LEGACY]).signed_in()
        },
        Scene {
            sign_ins: 1,
            asks: 2,
            plains: 1,
            ends: true,
            depth: 5,
            ..Scene::new("two people without a session", &[Kind::Stateless, Kind::Stateless]).signed_in()
        },
    ]
}
