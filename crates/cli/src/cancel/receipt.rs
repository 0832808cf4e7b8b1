//! Sends the cancels and prints their receipts.

use std::{collections::HashMap, io::Write, time::Duration};

use rescind_console::shims::{Shim, ShimError, ShimEvents};
use rescind_feed::{Cancel, CancelOrder, Event, OrderOutcome, Outcome, Request, SettledHow, State};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::choice::{Chosen, Completion};
use crate::{fleet::report, screen::clean};

/// The most requests in one order.
const ORDER: usize = 1000;

/// Stands for a wait that the clock cannot represent: a year.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Cancels the requests of every session, and prints their receipts until `wait` is over.
pub(super) async fn cancel(sessions: Vec<Vec<Chosen>>, reason: Option<&str>, wait: Duration) -> Completion {
    let mut followed = JoinSet::new();
    for chosen in sessions {
        let reason = reason.map(str::to_owned);
        followed.spawn(async move {
            let mut session = Receipts { receipts: HashMap::new(), completion: Completion::Cancelled };
            session.run(&chosen, reason, wait).await;
            session.completion
        });
    }
    let mut completion = Completion::Cancelled;
    while let Some(done) = followed.join_next().await {
        completion = completion.max(done.unwrap_or(Completion::Failed));
    }
    completion
}

/// The receipts of one session.
struct Receipts {
    /// The last receipt printed, by key.
    receipts: HashMap<String, LastReceipt>,
    completion: Completion,
}

struct LastReceipt {
    words: String,
    /// Nothing more can be learnt.
    is_final: bool,
}

impl Receipts {
    async fn run(&mut self, chosen: &[Chosen], reason: Option<String>, wait: Duration) {
        let Some(shim) = chosen.first().map(|one| one.shim.clone()) else { return };
        // Subscribed before the cancel, so that no event is missed.
        let events = if wait.is_zero() { None } else { self.listen(&shim).await };
        let before = chosen.iter().map(|one| (one.request.key.as_str(), &one.request)).collect();
        let orders = chosen.chunks(ORDER).map(|some| some.iter().map(|one| one.request.key.clone()).collect());
        for requests in orders {
            match shim.cancel(&CancelOrder { requests, reason: reason.clone() }).await {
                Ok(reply) => reply.requests.into_iter().for_each(|stopped| self.receive(&shim, &before, stopped)),
                Err(error) => {
                    let unsure = matches!(error, ShimError::NotAnswering | ShimError::Gone(_));
                    let unsure = if unsure { "; the cancel may have been carried out" } else { "" };
                    self.fail(&shim, &format!("{error}{unsure}"));
                }
            }
        }
        if let Some(events) = events {
            let end = Instant::now().checked_add(wait).unwrap_or_else(|| Instant::now() + FAR);
            self.follow(&shim, events, end).await;
        }
    }

    async fn listen(&self, shim: &Shim) -> Option<ShimEvents> {
        let events = shim.events(None).await;
        events
            .inspect_err(|error| {
                report(&format!("note: {}: cannot follow the outcome: {}", shim.name(), clean(&error.to_string())))
            })
            .ok()
    }

    /// Handles the outcome of an order for one request.
    fn receive(&mut self, shim: &Shim, before: &HashMap<&str, &Request>, stopped: OrderOutcome) {
        let OrderOutcome { key, accepted, request } = stopped;
        let before = before.get(key.as_str()).copied();
        match (accepted, request) {
            (true, Some(request)) => self.report_receipt(shim, &request, true),
            (true, None) => {}
            (false, request) => {
                self.completion = self.completion.max(Completion::NotCancelled);
                let Some(request) = request.as_ref().or(before) else { return };
                let why = match (&request.settled, &request.cancel) {
                    (Some(settled), None) => format!("no longer in flight: {}", settled.how.as_str()),
                    (_, Some(cancel)) => format!("already cancelled: {}", clean(&cancel.words)),
                    (None, None) => "not cancelled".into(),
                };
                print_receipt(shim, request, &why);
            }
        }
    }

    async fn follow(&mut self, shim: &Shim, mut events: ShimEvents, end: Instant) {
        while self.receipts.values().any(|last| !last.is_final) {
            let Ok(next) = timeout_at(end, events.next()).await else { return };
            let requests = match next.and_then(|message| message.map(|message| message.event()).transpose()) {
                Ok(Some(Event::Snapshot(snapshot))) => snapshot.requests,
                Ok(Some(Event::Changes(changes))) => changes.requests,
                Ok(Some(Event::Ended(_))) => return report(&format!("note: {}: the session has ended", shim.name())),
                Ok(None) => return report(&format!("note: {}: its shim is gone", shim.name())),
                // What was accepted stays accepted without further reports.
                Err(ShimError::Gone(_)) => return report(&format!("note: {}: its shim is gone", shim.name())),
                Err(error) => {
                    let words = clean(&error.to_string());
                    return report(&format!("note: {}: cannot follow the outcome any longer: {words}", shim.name()));
                }
            };
            requests.iter().for_each(|request| self.report_receipt(shim, request, false));
        }
    }

    /// Prints the receipt of a cancel, if the cancel is ours and its receipt has changed.
    fn report_receipt(&mut self, shim: &Shim, request: &Request, is_new: bool) {
        let Some(cancel) = &request.cancel else { return };
        let last = self.receipts.get(&request.key);
        let known = last.is_some_and(|last| last.words == cancel.words);
        if known || (last.is_none() && !is_new) {
            return;
        }
        let (words, is_final) = (cancel.words.clone(), cancel.outcome.is_final());
        self.receipts.insert(request.key.clone(), LastReceipt { words, is_final });
        if cancel.outcome == Outcome::NotSendable {
            self.completion = self.completion.max(Completion::NotCancelled);
        }
        print_receipt(shim, request, &format!("{}{}", clean(&cancel.words), unsent(request, cancel)));
    }

    fn fail(&mut self, shim: &Shim, words: &str) {
        self.completion = Completion::Failed;
        report(&format!("error: {}: {}", shim.name(), clean(words)));
    }
}

/// Adds who knows of a cancel that cannot be sent.
fn unsent(request: &Request, cancel: &Cancel) -> String {
    if cancel.outcome != Outcome::NotSendable {
        return String::new();
    }
    let (requester, worker) = (request.from.as_str(), request.from.other().as_str());
    // Its protocol may have the requester wait for the work all the same.
    let is_answered = match &request.settled {
        Some(settled) => settled.how == SettledHow::AnsweredHere,
        None => request.state == State::Answering,
    };
    let answered = if is_answered { format!(", and the {requester} gets an error") } else { String::new() };
    format!("; the {worker} was not told{answered}")
}

/// Prints one line of a receipt.
fn print_receipt(shim: &Shim, request: &Request, words: &str) {
    // A closed stdout does not change what was done.
    let _ = writeln!(std::io::stdout(), "{}/{}: {words}", shim.name(), clean(&request.label()));
}
