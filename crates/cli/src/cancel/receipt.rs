//! Sends the cancels of one session, and reports what becomes known of them.
//!
//! `rescind cancel` and `rescind stop` share this. Each session runs in a task of its own, so a shim that does not answer
//! delays no other.
//!
//! A session has one connection: what comes of the order follows its reply. The first event has the state of a thousand
//! requests in flight and of a thousand that have ended; what it has no room for is listed on another connection.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use rescind_feed::{CancelOrder, Changes, Event, OrderOutcome, Outcome, Request, Side, Snapshot, State, WorkStatus};
use rescind_operator::{ListingQuery, Shim, ShimError, ShimEvents};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout_at},
};

use super::choice::Chosen;
use crate::{
    fleet::{self, Pages},
    screen::clean,
};

/// The most requests in one order.
const ORDER: usize = 1000;

/// How often a session is asked whether the cancel of an outer session has arrived in it.
const ARRIVAL_INTERVAL: Duration = Duration::from_millis(50);

/// Stands for a wait that the clock cannot represent: a year.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why nothing more is learnt of a session without an end that was reported.
pub(crate) const GONE: &str = "its shim is gone";

/// How to cancel.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Goes on the wire.
    pub(crate) reason: Option<String>,
    /// Leaves the children of turns alone.
    pub(crate) turn_only: bool,
    /// Until when to follow the outcome; `None` to report only whether the cancel was accepted.
    pub(crate) until: Option<Instant>,
    pub(crate) reach: Reach,
}

/// Which requests are cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Exactly those that were chosen.
    Chosen,
    /// Also those that they cause later. Requests that were cancelled already are followed, too.
    Whole {
        /// Time for the cancel of an outer session to arrive here by itself.
        head_start: Duration,
        /// A request whose protocol does not confirm cancels, or that a server made of its client, is no longer followed
        /// when nothing was heard of it for so long.
        quiet: Duration,
    },
}

/// Whether an order is to be followed by the events of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Following {
    No,
    Begins,
}

/// What became known in a session.
#[derive(Debug)]
pub(crate) enum Learnt {
    /// The receipt of a request that is followed has changed.
    Receipt(Request),
    /// The order did not cancel this request.
    NotCancelled(Request),
    /// This request began after the listing, and is not cancelled.
    Began(Request),
    /// An order failed.
    Failed(String),
    /// The outcome cannot be followed any longer, and why.
    Unheard(String),
    /// The session has ended.
    Ended(rescind_feed::End),
}

/// News of one session.
#[derive(Debug)]
pub(crate) struct News<T = Learnt> {
    pub(crate) session: String,
    pub(crate) learnt: T,
}

/// `wait` from now.
pub(crate) fn after(wait: Duration) -> Instant {
    Instant::now().checked_add(wait).unwrap_or_else(|| Instant::now() + FAR)
}

/// Cancels the chosen requests of `shim`, and follows what becomes of them until nothing more can be learnt, or the time
/// of the plan is over. `now` is the session's clock at the listing.
pub(crate) async fn cancel<T: From<Learnt> + Send>(
    shim: &Shim,
    now: u64,
    chosen: Vec<Chosen>,
    plan: &Plan,
    news: &mpsc::Sender<News<T>>,
) {
    let followed = chosen.into_iter().map(|one| (one.request.key.clone(), Followed::new(one.request, now))).collect();
    let mut session = SessionCancel { shim, now, plan, news, followed, is_over: false };
    session.run().await;
}

struct SessionCancel<'a, T> {
    shim: &'a Shim,
    now: u64,
    plan: &'a Plan,
    news: &'a mpsc::Sender<News<T>>,
    /// By key.
    followed: HashMap<String, Followed>,
    /// The session sends no more events.
    is_over: bool,
}

/// A request that is followed, as far as it is known.
struct Followed {
    request: Request,
    /// It was ordered, or need not be.
    is_ordered: bool,
    /// Its receipt was reported.
    is_reported: bool,
    heard: Instant,
}

impl Followed {
    /// `now` is its session's clock.
    fn new(request: Request, now: u64) -> Self {
        let last =
            request.late.map(|late| late.at).into_iter().chain(request.cancel.as_ref().and_then(|one| one.written));
        // What was cancelled long before has been silent since.
        let silence = last.max().filter(|_| request.is_released()).map_or(0, |at| now.saturating_sub(at));
        let heard = Instant::now().checked_sub(Duration::from_micros(silence)).unwrap_or_else(Instant::now);
        Self { request, is_ordered: false, is_reported: false, heard }
    }

    /// Whether more can be learnt of it.
    fn is_open(&self, reach: Reach) -> bool {
        let Some(cancel) = &self.request.cancel else {
            // Of one that could not be ordered nothing is known; it is the order's failure that was reported.
            return matches!(reach, Reach::Whole { .. }) && self.request.is_open();
        };
        // The end of a connection is mostly that of its session, which is reported next.
        let is_ending = matches!(reach, Reach::Whole { .. }) && cancel.outcome == Outcome::Unknown;
        if self.request.child.is_some() && matches!(reach, Reach::Whole { .. }) {
            // Its parent's cancel may stop one that cannot be cancelled itself.
            return self.request.is_open();
        }
        if cancel.waited_for.is_some() && cancel.outcome == Outcome::Sent {
            return false;
        }
        is_ending || (!cancel.outcome.is_final() && self.quiet_at(reach).is_none_or(|at| at > Instant::now()))
    }

    /// When nothing more is expected of it.
    fn quiet_at(&self, reach: Reach) -> Option<Instant> {
        let Reach::Whole { quiet, .. } = reach else { return None };
        let cancel = self.request.cancel.as_ref()?;
        // A client need not confirm what its server asked, and no work depends on it (D53).
        let need_not = !cancel.confirms || self.request.from == Side::Server;
        let is_silent = need_not && cancel.written.is_some() && !cancel.works_on;
        is_silent.then(|| self.heard + quiet)
    }
}

impl<T: From<Learnt> + Send> SessionCancel<'_, T> {
    async fn run(&mut self) {
        if let (Reach::Whole { head_start, .. }, Some(until)) = (self.plan.reach, self.plan.until)
            && !head_start.is_zero()
        {
            self.await_outer_cancel(until.min(Instant::now() + head_start)).await;
        }
        let Some(until) = self.plan.until else {
            self.order(Following::No).await;
            return;
        };
        let mut events = self.order(Following::Begins).await;
        if events.is_none() && self.is_open() {
            events = self.listen().await;
        }
        if let Some(mut events) = events {
            self.follow(&mut events, until).await;
        }
    }

    /// Whether more can be learnt.
    fn is_open(&self) -> bool {
        !self.is_over && self.followed.values().any(|one| one.is_open(self.plan.reach))
    }

    /// Waits until an outer session's cancel has reached everything that is followed, or until `until`.
    async fn await_outer_cancel(&mut self, until: Instant) {
        let uncancelled = ListingQuery { cancelled: Some(false), ..ListingQuery::default() };
        loop {
            let asked = timeout_at(until, fleet::ask(self.shim, uncancelled.clone(), Pages::All)).await;
            let Ok(Ok(listing)) = asked else { break };
            if !listing.requests.iter().any(|request| self.followed.contains_key(&request.key)) {
                break;
            }
            let next = Instant::now() + ARRIVAL_INTERVAL;
            if next >= until {
                break;
            }
            sleep_until(next).await;
        }
        self.list().await;
    }

    /// Asks for everything that the session remembers.
    async fn list(&mut self) {
        let all = ListingQuery { state: Some("all"), ..ListingQuery::default() };
        // What is not learnt here is not claimed, either.
        if let Ok(listing) = fleet::ask(self.shim, all, Pages::All).await {
            self.receive_all(listing.requests).await;
        }
    }

    async fn listen(&self) -> Option<ShimEvents> {
        match self.shim.events(None).await {
            Ok(events) => Some(events),
            Err(ShimError::Gone(_)) => {
                self.report(Learnt::Unheard(GONE.to_owned())).await;
                None
            }
            Err(error) => {
                self.report(Learnt::Unheard(format!("cannot follow the outcome: {}", clean(&error.to_string())))).await;
                None
            }
        }
    }

    /// Orders the cancel of everything that is followed and needs one. Returns the events that begin with the first order.
    async fn order(&mut self, following: Following) -> Option<ShimEvents> {
        let mut events = None;
        let follows_others = matches!(self.plan.reach, Reach::Whole { .. });
        let mut keys = Vec::new();
        for one in self.followed.values_mut().filter(|one| !one.is_ordered) {
            one.is_ordered = true;
            // What was cancelled before this stop is ordered again if its client waits all the same (D61), or if it is at work
            // beyond its time and may be asked once more (D55, D56, D58).
            let needs_order = one.request.cancel.is_none() && one.request.is_open();
            let is_again = one.request.may_be_released || one.request.state == State::Stuck;
            if !follows_others || needs_order || is_again {
                keys.push((one.request.since, one.request.key.clone()));
            }
        }
        // As they are listed: a request before those that it has caused.
        keys.sort();
        for requests in keys.chunks(ORDER).map(|some| some.iter().map(|(_, key)| key.clone()).collect()) {
            let Plan { reason, turn_only, .. } = self.plan;
            let order = CancelOrder { requests, reason: reason.clone(), turn_only: *turn_only };
            let begins = following == Following::Begins && events.is_none();
            let ordered = match begins {
                true => self.shim.cancel_and_follow(&order).await,
                false => self.shim.cancel(&order).await.map(|reply| (reply, None)),
            };
            match ordered {
                Ok((reply, begun)) => {
                    events = events.or(begun);
                    for outcome in reply.requests {
                        self.receive(outcome).await;
                    }
                }
                Err(ShimError::Gone(_)) if follows_others => {
                    self.report(Learnt::Unheard(format!("{GONE}; the cancel may have been carried out"))).await;
                    self.is_over = true;
                }
                Err(error) => {
                    let unsure = matches!(error, ShimError::NotAnswering | ShimError::Gone(_));
                    let unsure = if unsure { "; the cancel may have been carried out" } else { "" };
                    self.report(Learnt::Failed(format!("{}{unsure}", clean(&error.to_string())))).await;
                    self.is_over |= follows_others;
                }
            }
        }
        events
    }

    /// Handles the outcome of an order for one request.
    async fn receive(&mut self, OrderOutcome { key, accepted, request }: OrderOutcome) {
        let follows_others = matches!(self.plan.reach, Reach::Whole { .. });
        match (accepted, request) {
            (true, Some(request)) => {
                // A child or background work that was cancelled with its turn, or could not be.
                if !self.followed.contains_key(&key) {
                    self.followed
                        .insert(key, Followed { is_ordered: true, ..Followed::new(request.clone(), self.now) });
                }
                self.update(request, true).await;
            }
            (true, None) => {}
            (false, Some(request)) if follows_others => self.update(request, true).await,
            (false, request) => {
                let before = self.followed.remove(&key).map(|one| one.request);
                if let Some(request) = request.or(before) {
                    self.report(Learnt::NotCancelled(request)).await;
                }
            }
        }
    }

    /// Reports what is learnt, until `until` or until nothing more can be.
    async fn follow(&mut self, events: &mut ShimEvents, until: Instant) {
        while self.is_open() {
            let quiet = self.followed.values().filter(|one| one.is_open(self.plan.reach));
            // Wakes for each that becomes quiet.
            let wake = quiet.filter_map(|one| one.quiet_at(self.plan.reach)).min().map_or(until, |at| at.min(until));
            let next = match timeout_at(wake, events.next()).await {
                Ok(next) => next,
                Err(_) if wake < until => continue,
                Err(_) => return,
            };
            match next.and_then(|message| message.map(|message| message.event()).transpose()) {
                Ok(Some(Event::Snapshot(snapshot))) => self.receive_snapshot(snapshot).await,
                Ok(Some(Event::Changes(Changes { requests, .. }))) => self.receive_all(requests).await,
                Ok(Some(Event::Ended(ended))) => self.end(Learnt::Ended(ended.how)).await,
                Ok(Some(_)) => {}
                // What was accepted stays accepted without further reports.
                Ok(None) | Err(ShimError::Gone(_)) => self.end(Learnt::Unheard(GONE.to_owned())).await,
                Err(error) => {
                    let words = clean(&error.to_string());
                    self.end(Learnt::Unheard(format!("cannot follow the outcome any longer: {words}"))).await;
                }
            }
        }
    }

    async fn end(&mut self, why: Learnt) {
        self.is_over = true;
        self.report(why).await;
    }

    /// Handles the state of the requests, and asks for those that it has no room for.
    async fn receive_snapshot(&mut self, Snapshot { requests, in_flight, .. }: Snapshot) {
        let keys: HashSet<&str> = requests.iter().map(|request| request.key.as_str()).collect();
        let listed = requests.iter().filter(|request| request.is_open()).count() as u64;
        let is_missing =
            |(key, one): (&String, &Followed)| !keys.contains(key.as_str()) && one.is_open(self.plan.reach);
        let may_miss_children = matches!(self.plan.reach, Reach::Whole { .. }) && listed < in_flight;
        let is_cut = may_miss_children || self.followed.iter().any(is_missing);
        self.receive_all(requests).await;
        if is_cut {
            self.list().await;
        }
    }

    async fn receive_all(&mut self, requests: Vec<Request>) {
        let mut has_children = false;
        for request in requests {
            if self.followed.contains_key(&request.key) {
                self.update(request, false).await;
            } else if matches!(self.plan.reach, Reach::Whole { .. }) && request.is_open() && request.since > self.now {
                let is_caused = request.parent.as_ref().is_some_and(|parent| self.followed.contains_key(parent));
                if is_caused {
                    self.followed.insert(request.key.clone(), Followed::new(request.clone(), self.now));
                    self.update(request, true).await;
                    has_children = true;
                } else {
                    self.report(Learnt::Began(request)).await;
                }
            }
        }
        if has_children {
            self.order(Following::No).await;
        }
    }

    /// Reports the receipt of a request that is followed, if it has changed. A receipt that is not of this order `counts`
    /// only with the reach for it.
    async fn update(&mut self, request: Request, counts: bool) {
        let follows_others = matches!(self.plan.reach, Reach::Whole { .. });
        let Some(one) = self.followed.get_mut(&request.key) else { return };
        // The snapshot may be older than the order.
        let is_older = request.cancel.is_none() && one.request.cancel.is_some();
        if is_older || (!counts && !one.is_reported && !follows_others) {
            return;
        }
        let words = |request: &Request| request.cancel.as_ref().map(|cancel| cancel.words.clone());
        // As it stands now, and as it will if nothing more is heard.
        let works = |request: &Request| [true, false].map(|is_awaited| WorkStatus::of(request, is_awaited));
        let is_news = !one.is_reported
            || words(&one.request) != words(&request)
            || (follows_others && one.request.state != request.state)
            || (follows_others && works(&one.request) != works(&request));
        one.heard = Instant::now();
        one.is_reported |= request.cancel.is_some();
        one.request = request.clone();
        if is_news && (follows_others || request.cancel.is_some()) {
            self.report(Learnt::Receipt(request)).await;
        }
    }

    async fn report(&self, learnt: Learnt) {
        // Without a reader there is nobody to tell.
        let _ = self.news.send(News { session: self.shim.name().to_owned(), learnt: learnt.into() }).await;
    }
}
