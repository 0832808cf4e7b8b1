//! What connections and links share: the machine behind one lock.
//!
//! The lock is held for one step of the machine and never across an await. After each step, with the lock free, those are
//! woken whom it concerns.
//!
//! The clock is set once, and not in every step: timers of what is over stay in their lanes until they are due. A step asks
//! only whether some timer, needed or not, is sooner than what the clock waits for.

mod link;

use std::{
    collections::VecDeque,
    convert::Infallible,
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use hashbrown::HashMap;
use http::{Response, request::Parts};
use rescind::peer::{Builder, transport::Credentials};
use rescind_proto::time::Instant;
use tokio::{sync::Notify, task::JoinSet};

use super::seed;
use crate::server::{
    Access, HttpServer, HttpServerConfig, HttpServerEvent, KeySet, LinkKey, Owner, ReplyBody, ReplyKey,
};

pub use link::HttpLink;

/// An endpoint of Streamable HTTP: serves HTTP requests, and opens links for what is to answer them.
///
/// A handle: clones are of the same endpoint. With the last one its clock stops.
#[derive(Clone)]
pub struct Endpoint {
    shared: Arc<Shared>,
}

/// A link that is to be served.
#[derive(Debug)]
pub struct OpenedLink {
    /// The messages of its client.
    pub link: HttpLink,
    /// The id of its session, which only its client may know; `None` for a link that several clients share.
    pub session: Option<Box<str>>,
    /// The credentials of its first messages, where clients sign in at the server behind.
    pub credentials: Credentials,
    /// Its owner; `None` if owners share it, or there are none.
    pub owner: Option<Owner>,
}

/// A page of the server behind that a client needs to sign in there
/// ([`passes_authorization`](HttpServerConfig::passes_authorization)). Dropping it reports that there is none.
#[derive(Debug)]
pub struct WantedPage {
    /// Its path.
    pub path: Box<str>,
    endpoint: Endpoint,
    reply: ReplyKey,
    is_answered: bool,
}

impl WantedPage {
    /// Gives it, or the reason why there is none, in a few words.
    pub fn answer(mut self, page: Result<Response<Bytes>, &str>) {
        self.is_answered = true;
        self.endpoint.with(|server, _| server.handle_page(self.reply, page));
    }
}

impl Drop for WantedPage {
    fn drop(&mut self) {
        if !self.is_answered {
            self.endpoint.with(|server, _| server.handle_page(self.reply, Err("it was not asked for")));
        }
    }
}

pub(super) struct Shared {
    /// The start of the machine's clock.
    origin: tokio::time::Instant,
    max_message: usize,
    parts_addresses: bool,
    state: Mutex<State>,
    /// The earliest timer has changed.
    rearmed: Notify,
    /// It drains, and nothing is in flight any more.
    drained: Notify,
}

struct State {
    server: HttpServer,
    replies: HashMap<ReplyKey, Waker>,
    /// Links that wait for input. It is shared with its link, which sees when it is taken from here.
    links: HashMap<LinkKey, Arc<Waker>>,
    opened: VecDeque<NewLink>,
    acceptor: Option<Waker>,
    dropped: Dropped,
    pages: VecDeque<(ReplyKey, Box<str>)>,
    fetcher: Option<Waker>,
    /// The keys of the issuer are wanted.
    wants_keys: bool,
    keeper: Option<Waker>,
    /// When the clock will wake the machine.
    armed: Option<Instant>,
    /// Those to be woken; empty between steps.
    woken: Woken,
}

/// Wakers that are to be called once the lock is free. Mostly it is one, or none.
#[derive(Default)]
struct Woken {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Woken {
    fn add(&mut self, waker: Option<Waker>) {
        if self.first.is_none() {
            self.first = waker;
        } else {
            self.others.extend(waker);
        }
    }

    fn wake(self) {
        self.first.into_iter().chain(self.others).for_each(Waker::wake);
    }
}

/// Methods of messages that were dropped, each once.
#[derive(Default)]
struct Dropped {
    methods: Vec<Box<str>>,
    /// How many of them were reported.
    told: usize,
    waker: Option<Waker>,
}

impl Dropped {
    /// The most methods, and the most bytes of one: a program may make them up.
    const MOST: usize = 64;
    const LONGEST: usize = 256;

    fn add(&mut self, method: Box<str>) -> Option<Waker> {
        let is_new = self.methods.len() < Self::MOST && !self.methods.contains(&method);
        if !is_new || method.len() > Self::LONGEST {
            return None;
        }
        self.methods.push(method);
        self.waker.take()
    }

    fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Box<str>> {
        match self.methods.get(self.told) {
            Some(method) => {
                self.told += 1;
                Poll::Ready(method.clone())
            }
            None => {
                self.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A link that was not accepted yet.
struct NewLink {
    key: LinkKey,
    session: Option<Box<str>>,
    credentials: Credentials,
    owner: Option<Owner>,
}

impl Endpoint {
    /// An endpoint with these settings. Call it on a tokio runtime, which keeps its clock.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(mut config: HttpServerConfig) -> Self {
        config.seed = seed::pinned_or_drawn(config.seed);
        let (max_message, parts_addresses) = (config.max_message, config.parts_addresses);
        let state = State {
            server: HttpServer::new(config),
            replies: HashMap::new(),
            links: HashMap::new(),
            opened: VecDeque::new(),
            acceptor: None,
            dropped: Dropped::default(),
            pages: VecDeque::new(),
            fetcher: None,
            wants_keys: false,
            keeper: None,
            armed: None,
            woken: Woken::default(),
        };
        let (origin, state) = (tokio::time::Instant::now(), Mutex::new(state));
        let (rearmed, drained) = (Notify::new(), Notify::new());
        let shared = Arc::new(Shared { origin, max_message, parts_addresses, state, rearmed, drained });
        tokio::spawn(keep_time(Arc::downgrade(&shared)));
        Self { shared }
    }

    /// Has the server asked which era it speaks before any client wants to know ([`HttpServer::prepare`]).
    pub fn prepare(&self) {
        self.with(HttpServer::prepare);
    }

    /// The next link that is to be served; drop it to refuse it.
    pub async fn accept(&self) -> OpenedLink {
        let opened = poll_fn(|cx| {
            let state = &mut *self.shared.lock();
            poll_first(&mut state.opened, &mut state.acceptor, cx)
        });
        let NewLink { key, session, credentials, owner } = opened.await;
        OpenedLink { link: HttpLink::new(self.clone(), key, owner.clone()), session, credentials, owner }
    }

    /// The next page of the server behind that is to be given. None is wanted unless
    /// [`passes_authorization`](HttpServerConfig::passes_authorization) is set; then a program must take them.
    pub async fn wanted_page(&self) -> WantedPage {
        let wanted = poll_fn(|cx| {
            let state = &mut *self.shared.lock();
            poll_first(&mut state.pages, &mut state.fetcher, cx)
        });
        let (reply, path) = wanted.await;
        WantedPage { path, endpoint: self.clone(), reply, is_answered: false }
    }

    /// From now on these tokens are good ([`HttpServer::handle_access`]).
    pub fn supply_access(&self, access: Access) {
        self.with(|server, now| server.handle_access(now, access));
    }

    /// Waits until the keys of the issuer are wanted ([`Access::Issuer`](crate::server::Access)), for
    /// [`supply_keys`](Self::supply_keys).
    pub async fn wanted_keys(&self) {
        poll_fn(|cx| self.poll_wanted_keys(cx)).await;
    }

    pub(crate) fn poll_wanted_keys(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        if std::mem::take(&mut state.wants_keys) {
            return Poll::Ready(());
        }
        state.keeper = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Supplies the keys of the issuer, wanted or not; `None` if they could not be fetched, and those that are known
    /// stay.
    pub fn supply_keys(&self, keys: Option<KeySet>) {
        self.shared.step(|state, now| {
            state.wants_keys = false;
            state.server.handle_keys(now, keys);
        });
    }

    /// Serves each link in a task of its own, with the [`Builder`] or `mcp::Server` that `describe` makes: one for each
    /// session, or for all of them ([`Sessions::SharedLink`](crate::server::Sessions)), and one for all stateless requests.
    ///
    /// ```no_run
    /// # use rescind::mcp::Server;
    /// # use rescind_http::{server::{HttpServerConfig, Stateless}, shell::{Endpoint, Listener, ListenerConfig}};
    /// # async fn run() -> std::io::Result<()> {
    /// let endpoint = Endpoint::new(HttpServerConfig { stateless: Stateless::Served, ..HttpServerConfig::default() });
    /// let socket = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
    /// tokio::spawn(Listener::new(socket, endpoint.clone(), ListenerConfig::default()).serve(std::future::pending()));
    /// endpoint.serve(|| Server::new("tools", "1.0")).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Dropping the future closes every link: handlers are stopped.
    pub async fn serve<D: Into<Builder>>(&self, mut describe: impl FnMut() -> D) -> Infallible {
        let mut links = JoinSet::new();
        loop {
            while links.try_join_next().is_some() {}
            let opened = self.accept().await;
            let serving = describe().into().serve(opened.link);
            // An error concerns this link alone, and its clients see it.
            links.spawn(async move { drop(serving.await) });
        }
    }

    /// The method of a message that was dropped, since several clients share its program and it names none of them; empty
    /// for what is not a message. Each method comes once.
    pub async fn dropped(&self) -> Box<str> {
        poll_fn(|cx| self.shared.lock().dropped.poll_next(cx)).await
    }

    /// Takes no further session and no further stateless request. What is in flight goes on.
    pub fn drain(&self) {
        self.with(|server, _| server.drain());
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.with(|server, _| server.in_flight())
    }

    /// Ends every session and every link: what is in flight is cancelled and answered with an error (-31002), and streams end.
    pub fn close(&self) {
        self.with(|server, now| server.close(now));
    }

    /// Waits until nothing is in flight.
    pub async fn idle(&self) {
        while self.in_flight() > 0 {
            self.shared.drained.notified().await;
        }
    }

    /// The longest message, in bytes.
    pub(super) fn max_message(&self) -> usize {
        self.shared.max_message
    }

    /// Whether clients are distinguished by their address.
    pub(super) fn parts_addresses(&self) -> bool {
        self.shared.parts_addresses
    }

    /// Hands a request to the machine, and polls for the head of its response.
    pub(super) fn receive(&self, cx: &Context<'_>, head: &Parts, body: &[u8]) -> (ReplyKey, Poll<Response<ReplyBody>>) {
        self.shared.step(|state, now| {
            supply(&mut state.server);
            let key = state.server.handle_request(now, head, body);
            let polled = state.server.poll_head(now, key);
            (key, state.wait_for_reply(cx, key, polled))
        })
    }

    /// Performs one step with a machine that has what a request may need.
    pub(super) fn with_supplies<T>(&self, step: impl FnOnce(&mut HttpServer, Instant) -> T) -> T {
        self.with(|server, now| {
            supply(server);
            step(server, now)
        })
    }

    /// Performs one step with the machine.
    pub(super) fn with<T>(&self, step: impl FnOnce(&mut HttpServer, Instant) -> T) -> T {
        self.shared.step(|state, now| step(&mut state.server, now))
    }

    /// Polls the machine for a response, and has its task woken if there is nothing.
    pub(super) fn poll_reply<T>(
        &self,
        cx: &Context<'_>,
        key: ReplyKey,
        step: impl FnOnce(&mut HttpServer, Instant) -> Option<T>,
    ) -> Poll<T> {
        self.shared.step(|state, now| {
            let polled = step(&mut state.server, now);
            state.wait_for_reply(cx, key, polled)
        })
    }

    /// Records that this response, which has not ended, will not be polled any more.
    pub(super) fn release_reply(&self, key: ReplyKey) {
        self.shared.step(|state, now| {
            state.replies.remove(&key);
            state.server.handle_hang_up(now, key);
        });
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step<T>(&self, step: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.lock();
        // Read under the lock, so that the machine's time never runs backwards.
        let now = Instant::after_origin(self.origin.elapsed());
        let done = step(&mut state, now);
        state.collect();
        let is_rearmed = state.rearm();
        let is_drained = state.server.is_draining() && state.server.in_flight() == 0;
        let woken = std::mem::take(&mut state.woken);
        drop(state);
        woken.wake();
        if is_rearmed {
            self.rearmed.notify_one();
        }
        if is_drained {
            self.drained.notify_one();
        }
        done
    }
}

impl State {
    /// Has the task of a response woken, unless it was polled for something that is there.
    fn wait_for_reply<T>(&mut self, cx: &Context<'_>, key: ReplyKey, polled: Option<T>) -> Poll<T> {
        match polled {
            Some(done) => {
                self.replies.remove(&key);
                Poll::Ready(done)
            }
            None => {
                self.replies.insert(key, cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Collects those who are to be woken.
    fn collect(&mut self) {
        while let Some(event) = self.server.poll_event() {
            let waker = match event {
                HttpServerEvent::ReplyReady(key) => self.replies.remove(&key),
                HttpServerEvent::InputReady(key) => self.links.remove(&key).map(|shared| Waker::clone(&shared)),
                HttpServerEvent::Opened { link: key, session, credentials, owner } => {
                    let credentials = link::credentials(credentials);
                    self.opened.push_back(NewLink { key, session, credentials, owner });
                    self.acceptor.take()
                }
                HttpServerEvent::PageWanted { reply, path } => {
                    self.pages.push_back((reply, path));
                    self.fetcher.take()
                }
                HttpServerEvent::KeysWanted => {
                    self.wants_keys = true;
                    self.keeper.take()
                }
                HttpServerEvent::Dropped { link: _, method } => self.dropped.add(method),
            };
            self.woken.add(waker);
        }
    }

    /// Has the clock wake the machine sooner, if something is due before it would; `true` if so.
    fn rearm(&mut self) -> bool {
        let is_sooner = |due: &Instant| self.armed.is_none_or(|armed| *due < armed);
        // Which timers still matter is asked only when one may be sooner.
        let due =
            self.server.earliest_timer().filter(is_sooner).and_then(|_| self.server.poll_timeout()).filter(is_sooner);
        self.armed = due.or(self.armed);
        due.is_some()
    }
}

/// Takes the first of what waits; if there is nothing, this task is woken for the next.
fn poll_first<T>(waiting: &mut VecDeque<T>, waker: &mut Option<Waker>, cx: &Context<'_>) -> Poll<T> {
    let first = waiting.pop_front();
    *waker = first.is_none().then(|| cx.waker().clone());
    first.map_or(Poll::Pending, Poll::Ready)
}

/// Supplies what a request may need: the id of the session that it opens, and the time of day.
fn supply(server: &mut HttpServer) {
    if server.needs_session_id()
        && let Ok(id) = random_id()
    {
        server.supply_session_id(id);
    }
    if server.needs_time() {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // A clock that stands before 1970 judges nothing.
        server.supply_time(time.unwrap_or(Duration::MAX));
    }
}

/// The id of a session: 128 bits that cannot be guessed.
fn random_id() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Wakes the machine when something is due, until the endpoint is gone.
async fn keep_time(shared: Weak<Shared>) {
    /// How often it is looked whether the endpoint is still there.
    const LOOK: Duration = Duration::from_secs(60);

    loop {
        let Some(strong) = shared.upgrade() else { return };
        let wait = {
            let state = strong.lock();
            let now = Instant::after_origin(strong.origin.elapsed());
            state.armed.map_or(LOOK, |due| due.since(now).min(LOOK))
        };
        let rearmed = async { strong.rearmed.notified().await };
        if !wait.is_zero() && tokio::time::timeout(wait, rearmed).await.is_ok() {
            continue;
        }
        strong.step(|state, now| {
            state.armed = None;
            state.server.handle_timeout(now);
        });
    }
}
