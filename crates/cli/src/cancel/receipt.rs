//! The cancel itself, and what becomes known of it.

use std::{collections::HashMap, io::Write, time::Duration};

use rescind_console::shims::{Events, Shim, ShimError};
use rescind_feed::{CancelOrder, Event, Request, Stopped};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::choice::{Chosen, Verdict};
use crate::{fleet::speak, screen::clean};

/// How many requests go into one order.
const ORDER: usize = 1000;

/// What a wait is that no clock can count: a year.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Cancels the requests of every session, and tells what becomes known until `wait` is over.
pub(super) async fn cancel(sessions: Vec<Vec<Chosen>>, reason: Option<&str>, wait: Duration) -> Verdict {
    let mut followed = JoinSet::new();
    for chosen in sessions {
        let reason = reason.map(str::to_owned);
        followed.spawn(async move {
            let mut session = Receipts { told: HashMap::new(), verdict: Verdict::Cancelled };
            session.run(&chosen, reason, wait).await;
            session.verdict
        });
    }
    let mut verdict = Verdict::Cancelled;
    while let Some(done) = followed.join_next().await {
        verdict = verdict.max(done.unwrap_or(Verdict::Failed));
    }
    verdict
}

/// The receipts of one session.
struct Receipts {
    /// What was said last, by key.
    told: HashMap<String, Last>,
    verdict: Verdict,
}

struct Last {
    words: String,
    /// Whether nothing more can be learnt.
    is_final: bool,
}

impl Receipts {
    async fn run(&mut self, chosen: &[Chosen], reason: Option<String>, wait: Duration) {
        let Some(shim) = chosen.first().map(|one| one.shim.clone()) else { return };
        // From before the cancel, so that nothing passes unseen.
        let events = if wait.is_zero() { None } else { self.listen(&shim).await };
        let before = chosen.iter().map(|one| (one.request.key.as_str(), &one.request)).collect();
        let orders = chosen.chunks(ORDER).map(|some| some.iter().map(|one| one.request.key.clone()).collect());
        for requests in orders {
            match shim.cancel(&CancelOrder { requests, reason: reason.clone() }).await {
                Ok(reply) => reply.requests.into_iter().for_each(|stopped| self.take(&shim, &before, stopped)),
                Err(error) => {
                    let unsure = matches!(error, ShimError::Silent | ShimError::Gone(_));
                    let unsure = if unsure { "; it may have been done all the same" } else { "" };
                    self.fail(&shim, &format!("{error}{unsure}"));
                }
            }
        }
        if let Some(events) = events {
            let end = Instant::now().checked_add(wait).unwrap_or_else(|| Instant::now() + FAR);
            self.follow(&shim, events, end).await;
        }
    }

    async fn listen(&self, shim: &Shim) -> Option<Events> {
        let events = shim.events(None).await;
        events
            .inspect_err(|error| {
                speak(&format!("note: {}: what follows is not told: {}", shim.name(), clean(&error.to_string())))
            })
            .ok()
    }

    /// What the shim says of one request of the order.
    fn take(&mut self, shim: &Shim, before: &HashMap<&str, &Request>, stopped: Stopped) {
        let Stopped { key, accepted, request } = stopped;
        let before = before.get(key.as_str()).copied();
        match (accepted, request) {
            (true, Some(request)) => self.tell(shim, &request, true),
            (true, None) => {}
            (false, request) => {
                self.verdict = self.verdict.max(Verdict::NotInFlight);
                let Some(request) = request.as_ref().or(before) else { return };
                let why = match (&request.settled, &request.cancel) {
                    (Some(settled), None) => format!("not in flight any more: {}", settled.how.as_str()),
                    (_, Some(cancel)) => format!("was cancelled already: {}", clean(&cancel.words)),
                    (None, None) => "not cancelled".into(),
                };
                say(shim, request, &why);
            }
        }
    }

    async fn follow(&mut self, shim: &Shim, mut events: Events, end: Instant) {
        while self.told.values().any(|last| !last.is_final) {
            let Ok(next) = timeout_at(end, events.next()).await else { return };
            let requests = match next.and_then(|message| message.map(|message| message.event()).transpose()) {
                Ok(Some(Event::Snapshot(snapshot))) => snapshot.requests,
                Ok(Some(Event::Changes(changes))) => changes.requests,
                Ok(Some(Event::Ended(_))) => return speak(&format!("note: {}: the session has ended", shim.name())),
                Ok(None) => return speak(&format!("note: {}: its shim is gone", shim.name())),
                // What was accepted stays so, whatever becomes of whoever tells of it.
                Err(ShimError::Gone(_)) => return speak(&format!("note: {}: its shim is gone", shim.name())),
                Err(error) => {
                    let words = clean(&error.to_string());
                    return speak(&format!("note: {}: what follows is not told: {words}", shim.name()));
                }
            };
            requests.iter().for_each(|request| self.tell(shim, request, false));
        }
    }

    /// Says what is known of a cancel, if that is of our wish and has changed.
    fn tell(&mut self, shim: &Shim, request: &Request, is_new: bool) {
        let Some(cancel) = &request.cancel else { return };
        let last = self.told.get(&request.key);
        let known = last.is_some_and(|last| last.words == cancel.words);
        if known || (last.is_none() && !is_new) {
            return;
        }
        let (words, is_final) = (cancel.words.clone(), cancel.outcome.is_final());
        self.told.insert(request.key.clone(), Last { words, is_final });
        say(shim, request, &clean(&cancel.words));
    }

    fn fail(&mut self, shim: &Shim, words: &str) {
        self.verdict = Verdict::Failed;
        speak(&format!("error: {}: {}", shim.name(), clean(words)));
    }
}

/// A line of the receipt.
fn say(shim: &Shim, request: &Request, words: &str) {
    // That nobody reads it changes nothing of what was done.
    let _ = writeln!(std::io::stdout(), "{}/{}: {words}", shim.name(), clean(&request.label()));
}
