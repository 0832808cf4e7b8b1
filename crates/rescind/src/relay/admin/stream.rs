//! Changes on their way to subscribers.
//!
//! A change is encoded once and kept, up to a megabyte of them, for whoever is slow or comes back. A subscriber has a
//! place in that and no queue of its own; one whose place is gone gets a snapshot.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rescind_feed::Event;
use tokio::{
    sync::{Notify, mpsc, watch},
    task::spawn_blocking,
    time::timeout,
};

use super::{desk::Desk, watch::encode};

/// Bytes of changes that are kept.
const KEPT: usize = 1024 * 1024;

/// The most subscribers.
const SEATS: usize = 16;

/// What is kept is kept this long after the last subscriber left.
const LINGER: Duration = Duration::from_secs(10);

/// After this much silence a subscriber hears that the session lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What is told to everybody.
#[derive(Debug)]
pub(super) struct Stream {
    state: Mutex<State>,
    /// The number of the last event.
    last: watch::Sender<u64>,
    /// How many subscribe.
    seats: watch::Sender<usize>,
    /// There is something to tell.
    pub(super) stirred: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The newest events, numbered without a gap.
    events: VecDeque<Bytes>,
    bytes: usize,
    /// The number before the first of them.
    before: u64,
    ended: bool,
}

/// What a subscriber is to be told next.
pub(super) enum Next {
    Event(u64, Bytes),
    /// What it should hear next is gone: only a snapshot helps.
    Snapshot,
    Nothing,
    Over,
}

/// A subscriber's place; giving it up is dropping it.
#[derive(Debug)]
pub(super) struct Seat(Arc<Stream>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.seats.send_modify(|seats| *seats -= 1);
    }
}

impl Stream {
    /// A stream whose first event has the number after `start`: one that no earlier session of the same name, whose
    /// subscribers may come back, has got to.
    pub(super) fn new(start: u64) -> Self {
        Self {
            state: Mutex::new(State { before: start, ..State::default() }),
            last: watch::Sender::new(start),
            seats: watch::Sender::new(0),
            stirred: Notify::new(),
        }
    }

    /// A place among the subscribers, while there is one.
    pub(super) fn seat(self: &Arc<Self>) -> Option<Seat> {
        let taken = self.seats.send_if_modified(|seats| {
            let free = *seats < SEATS;
            *seats += usize::from(free);
            free
        });
        taken.then(|| Seat(Arc::clone(self)))
    }

    pub(super) fn is_deserted(&self) -> bool {
        *self.seats.borrow() == 0
    }

    /// Ready when nobody has subscribed for a while.
    pub(super) async fn deserted(&self) {
        let mut seats = self.seats.subscribe();
        loop {
            let taken = *seats.borrow_and_update();
            if taken > 0 {
                let _ = seats.changed().await;
            } else if timeout(LINGER, seats.changed()).await.is_err() {
                return;
            }
        }
    }

    /// The number of the last event.
    pub(super) fn last(&self) -> u64 {
        *self.last.borrow()
    }

    /// Tells everybody an event, whose number is one more than that of the last.
    pub(super) fn tell(&self, event: Bytes) {
        let mut state = self.state();
        state.push(event);
        drop(state);
        self.last.send_modify(|last| *last += 1);
    }

    /// Tells everybody the last event.
    pub(super) fn end(&self, event: Bytes) {
        self.state().ended = true;
        self.tell(event);
    }

    /// What was told until now helps nobody to go on from: each subscriber needs a snapshot.
    pub(super) fn begin_anew(&self) {
        let number = self.last() + 1;
        let mut state = self.state();
        *state = State { before: number, ended: state.ended, ..State::default() };
        drop(state);
        self.last.send_replace(number);
    }

    pub(super) fn next(&self, after: u64) -> Next {
        let state = self.state();
        let last = self.last();
        if after == last && after >= state.before {
            return if state.ended { Next::Over } else { Next::Nothing };
        }
        let place = after.checked_sub(state.before).and_then(|place| usize::try_from(place).ok());
        match place.and_then(|place| state.events.get(place)) {
            Some(event) => Next::Event(after + 1, event.clone()),
            None => Next::Snapshot,
        }
    }

    fn last_event(&self) -> Option<Bytes> {
        self.state().events.back().cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, event: Bytes) {
        self.bytes += event.len();
        self.events.push_back(event);
        while self.bytes > KEPT
            && self.events.len() > 1
            && let Some(oldest) = self.events.pop_front()
        {
            self.bytes -= oldest.len();
            self.before += 1;
        }
    }
}

/// Tells one subscriber everything after the event `after`, as fast as it reads, until the session is over or it
/// has gone.
pub(super) async fn feed(seat: Seat, desk: Arc<Desk>, mut after: Option<u64>, subscriber: mpsc::Sender<Bytes>) {
    let stream = Arc::clone(&seat.0);
    let mut last = stream.last.subscribe();
    loop {
        last.mark_unchanged();
        let event = match after.map_or(Next::Snapshot, |after| stream.next(after)) {
            Next::Event(number, event) => {
                after = Some(number);
                event
            }
            Next::Snapshot => match desk.ask(|scene| scene.snapshot()).await {
                Some(snapshot) => {
                    let number = snapshot.seq;
                    after = Some(number);
                    // It may be megabytes: the link does not wait for that.
                    let written = spawn_blocking(move || encode(number, &Event::Snapshot(snapshot)));
                    let Ok(event) = written.await else { return };
                    event
                }
                // The link is over: what can still be said is how.
                None => {
                    if let Some(event) = stream.last_event() {
                        let _ = subscriber.send(event).await;
                    }
                    return;
                }
            },
            Next::Nothing => tokio::select! {
                () = subscriber.closed() => return,
                changed = timeout(KEEP_ALIVE, last.changed()) => match changed {
                    Ok(_) => continue,
                    Err(_) => Bytes::from_static(b":\n\n"),
                },
            },
            Next::Over => return,
        };
        if subscriber.send(event).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(stream: &Stream, after: u64) -> Option<Bytes> {
        match stream.next(after) {
            Next::Event(number, event) => {
                assert_eq!(number, after + 1);
                Some(event)
            }
            Next::Snapshot | Next::Nothing | Next::Over => None,
        }
    }

    #[test]
    fn a_subscriber_goes_on_where_it_was() {
        let stream = Stream::new(0);
        assert!(matches!(stream.next(0), Next::Nothing));
        stream.tell(Bytes::from_static(b"one"));
        stream.tell(Bytes::from_static(b"two"));
        assert_eq!(told(&stream, 0).as_deref(), Some(&b"one"[..]));
        assert_eq!(told(&stream, 1).as_deref(), Some(&b"two"[..]));
        assert!(matches!(stream.next(2), Next::Nothing));
        assert!(matches!(stream.next(3), Next::Snapshot), "a number of another session");
        stream.end(Bytes::from_static(b"end"));
        assert_eq!(told(&stream, 2).as_deref(), Some(&b"end"[..]));
        assert!(matches!(stream.next(3), Next::Over));
    }

    #[test]
    fn what_is_gone_is_made_up_for_by_a_snapshot() {
        let stream = Stream::new(0);
        let large = Bytes::from(vec![b'x'; KEPT / 4]);
        for _ in 0..6 {
            stream.tell(large.clone());
        }
        assert!(matches!(stream.next(1), Next::Snapshot));
        assert_eq!(told(&stream, 2).map(|event| event.len()), Some(KEPT / 4));
        stream.begin_anew();
        for number in 0..=6 {
            assert!(matches!(stream.next(number), Next::Snapshot), "{number}");
        }
        assert!(matches!(stream.next(stream.last()), Next::Nothing));
        stream.tell(large);
        assert!(told(&stream, 7).is_some());
    }

    #[test]
    fn a_number_of_an_earlier_session_of_the_same_name_is_none_of_this_one() {
        let stream = Stream::new(1000);
        for _ in 0..5 {
            stream.tell(Bytes::from_static(b"x"));
        }
        for number in [0, 3, 5, 999, 1006] {
            assert!(matches!(stream.next(number), Next::Snapshot), "{number}");
        }
        assert!(told(&stream, 1000).is_some() && matches!(stream.next(1005), Next::Nothing));
    }

    #[test]
    fn an_event_larger_than_what_is_kept_is_told_once() {
        let stream = Stream::new(0);
        stream.tell(Bytes::from(vec![b'x'; KEPT + 1]));
        assert!(told(&stream, 0).is_some());
    }

    #[test]
    fn seats_are_given_back() {
        let stream = Arc::new(Stream::new(0));
        let seats: Vec<_> = std::iter::from_fn(|| stream.seat()).collect();
        assert_eq!(seats.len(), SEATS);
        drop(seats);
        assert!(stream.is_deserted() && stream.seat().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn deserted_is_who_nobody_came_back_to() {
        let stream = Arc::new(Stream::new(0));
        let seat = stream.seat();
        let mut deserted = std::pin::pin!(stream.deserted());
        let brief = LINGER - Duration::from_millis(1);
        assert!(timeout(LINGER * 3, &mut deserted).await.is_err());
        drop(seat);
        assert!(timeout(brief, &mut deserted).await.is_err());
        let back = stream.seat();
        assert!(timeout(LINGER * 3, &mut deserted).await.is_err());
        drop(back);
        assert!(timeout(LINGER + brief, &mut deserted).await.is_ok());
    }
}
