//! Events for the subscribers.
//!
//! An event is encoded once. The latest megabyte is kept for subscribers that are slow or reconnect. A subscriber has
//! no queue of its own, only the number of its last event; if the next one is no longer kept, it gets a snapshot.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rescind_feed::Event;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

/// Bytes of events that are kept.
const MAX_BYTES: usize = 1024 * 1024;

/// The most subscribers.
const MAX_SUBSCRIBERS: usize = 16;

/// How long changes are tracked after the last subscriber left.
const LINGER: Duration = Duration::from_secs(10);

/// The events of a session, shared by its subscribers.
#[derive(Debug)]
pub(super) struct EventBuffer {
    backlog: Mutex<Backlog>,
    /// The number of the last event.
    pub(super) last: watch::Sender<u64>,
    /// How many subscribers there are.
    subscribers: watch::Sender<usize>,
    /// Notified when there are changes to report.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct Backlog {
    /// The latest events, numbered without a gap.
    queue: VecDeque<Bytes>,
    bytes: usize,
    /// The number before that of the first event in the queue.
    before: u64,
    ended: bool,
}

/// What a subscriber gets next.
pub(super) enum Next {
    Event(u64, Bytes),
    /// The next event is no longer kept.
    Snapshot,
    Nothing,
    Over,
}

/// A subscription. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Subscriber(pub(super) Arc<EventBuffer>);

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.0.subscribers.send_modify(|subscribers| *subscribers -= 1);
    }
}

impl EventBuffer {
    /// Numbers the first event `start` + 1. No earlier session of the same name may have reached `start`: its subscribers
    /// may reconnect to this one.
    pub(super) fn new(start: u64) -> Self {
        Self {
            backlog: Mutex::new(Backlog { before: start, ..Backlog::default() }),
            last: watch::Sender::new(start),
            subscribers: watch::Sender::new(0),
            changed: Notify::new(),
        }
    }

    /// Adds a subscriber, unless there are too many.
    pub(super) fn subscribe(self: &Arc<Self>) -> Option<Subscriber> {
        let taken = self.subscribers.send_if_modified(|subscribers| {
            let free = *subscribers < MAX_SUBSCRIBERS;
            *subscribers += usize::from(free);
            free
        });
        taken.then(|| Subscriber(Arc::clone(self)))
    }

    pub(super) fn has_no_subscribers(&self) -> bool {
        *self.subscribers.borrow() == 0
    }

    /// Waits until there has been no subscriber for [`LINGER`].
    pub(super) async fn abandoned(&self) {
        let mut subscribers = self.subscribers.subscribe();
        loop {
            let taken = *subscribers.borrow_and_update();
            if taken > 0 {
                let _ = subscribers.changed().await;
            } else if timeout(LINGER, subscribers.changed()).await.is_err() {
                return;
            }
        }
    }

    /// The number of the last event.
    pub(super) fn last(&self) -> u64 {
        *self.last.borrow()
    }

    /// Adds an event. Its number is one more than that of the last.
    pub(super) fn push(&self, event: Bytes) {
        let mut backlog = self.backlog();
        backlog.append(event);
        drop(backlog);
        self.last.send_modify(|last| *last += 1);
    }

    /// Adds the last event of the session.
    pub(super) fn push_last(&self, event: Bytes) {
        self.backlog().ended = true;
        self.push(event);
    }

    /// Invalidates the events so far: every subscriber needs a snapshot.
    pub(super) fn restart(&self) {
        let number = self.last() + 1;
        let mut backlog = self.backlog();
        *backlog = Backlog { before: number, ended: backlog.ended, ..Backlog::default() };
        drop(backlog);
        self.last.send_replace(number);
    }

    pub(super) fn next(&self, after: u64) -> Next {
        let backlog = self.backlog();
        let last = self.last();
        if after == last && after >= backlog.before {
            return if backlog.ended { Next::Over } else { Next::Nothing };
        }
        let place = after.checked_sub(backlog.before).and_then(|place| usize::try_from(place).ok());
        match place.and_then(|place| backlog.queue.get(place)) {
            Some(event) => Next::Event(after + 1, event.clone()),
            None => Next::Snapshot,
        }
    }

    pub(super) fn last_event(&self) -> Option<Bytes> {
        self.backlog().queue.back().cloned()
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backlog {
    fn append(&mut self, event: Bytes) {
        self.bytes += event.len();
        self.queue.push_back(event);
        while self.bytes > MAX_BYTES
            && self.queue.len() > 1
            && let Some(oldest) = self.queue.pop_front()
        {
            self.bytes -= oldest.len();
            self.before += 1;
        }
    }
}

/// Encodes an event as a server-sent event.
pub(super) fn encode(number: u64, event: &Event) -> Bytes {
    let kind = event.kind();
    let mut text = format!("event: {kind}\nid: {number}\ndata: ").into_bytes();
    // Cannot fail: every key is a string and every number finite.
    let _ = serde_json::to_writer(&mut text, event);
    text.extend_from_slice(b"\n\n");
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_event(events: &EventBuffer, after: u64) -> Option<Bytes> {
        match events.next(after) {
            Next::Event(number, event) => {
                assert_eq!(number, after + 1);
                Some(event)
            }
            Next::Snapshot | Next::Nothing | Next::Over => None,
        }
    }

    #[test]
    fn a_subscriber_goes_on_where_it_was() {
        let events = EventBuffer::new(0);
        assert!(matches!(events.next(0), Next::Nothing));
        events.push(Bytes::from_static(b"one"));
        events.push(Bytes::from_static(b"two"));
        assert_eq!(next_event(&events, 0).as_deref(), Some(&b"one"[..]));
        assert_eq!(next_event(&events, 1).as_deref(), Some(&b"two"[..]));
        assert!(matches!(events.next(2), Next::Nothing));
        assert!(matches!(events.next(3), Next::Snapshot), "a number of another session");
        events.push_last(Bytes::from_static(b"end"));
        assert_eq!(next_event(&events, 2).as_deref(), Some(&b"end"[..]));
        assert!(matches!(events.next(3), Next::Over));
    }

    #[test]
    fn a_subscriber_whose_next_event_is_gone_gets_a_snapshot() {
        let events = EventBuffer::new(0);
        let large = Bytes::from(vec![b'x'; MAX_BYTES / 4]);
        for _ in 0..6 {
            events.push(large.clone());
        }
        assert!(matches!(events.next(1), Next::Snapshot));
        assert_eq!(next_event(&events, 2).map(|event| event.len()), Some(MAX_BYTES / 4));
        events.restart();
        for number in 0..=6 {
            assert!(matches!(events.next(number), Next::Snapshot), "{number}");
        }
        assert!(matches!(events.next(events.last()), Next::Nothing));
        events.push(large);
        assert!(next_event(&events, 7).is_some());
    }

    #[test]
    fn a_number_of_an_earlier_session_of_the_same_name_is_not_resumed_from() {
        let events = EventBuffer::new(1000);
        for _ in 0..5 {
            events.push(Bytes::from_static(b"x"));
        }
        for number in [0, 3, 5, 999, 1006] {
            assert!(matches!(events.next(number), Next::Snapshot), "{number}");
        }
        assert!(next_event(&events, 1000).is_some() && matches!(events.next(1005), Next::Nothing));
    }

    #[test]
    fn an_event_larger_than_the_buffer_is_delivered_once() {
        let events = EventBuffer::new(0);
        events.push(Bytes::from(vec![b'x'; MAX_BYTES + 1]));
        assert!(next_event(&events, 0).is_some());
    }

    #[test]
    fn a_dropped_subscription_makes_room() {
        let events = Arc::new(EventBuffer::new(0));
        let subscribers: Vec<_> = std::iter::from_fn(|| events.subscribe()).collect();
        assert_eq!(subscribers.len(), MAX_SUBSCRIBERS);
        drop(subscribers);
        assert!(events.has_no_subscribers() && events.subscribe().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_is_abandoned_once_no_subscriber_has_come_back() {
        let events = Arc::new(EventBuffer::new(0));
        let subscriber = events.subscribe();
        let mut abandoned = std::pin::pin!(events.abandoned());
        let brief = LINGER - Duration::from_millis(1);
        assert!(timeout(LINGER * 3, &mut abandoned).await.is_err());
        drop(subscriber);
        assert!(timeout(brief, &mut abandoned).await.is_err());
        let back = events.subscribe();
        assert!(timeout(LINGER * 3, &mut abandoned).await.is_err());
        drop(back);
        assert!(timeout(LINGER + brief, &mut abandoned).await.is_ok());
    }
}
