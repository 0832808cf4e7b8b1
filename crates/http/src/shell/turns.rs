//! In which order requests are handled when many come at once.
//!
//! A runtime of one thread handles what is ready in the order in which it came. Behind a client that calls on many
//! connections as fast as it is answered, another's cancel would wait for all of those. So while there are others,
//! connections on which request follows request let one request through for each look at the sockets, and what comes on
//! quiet ones passes them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
    time::Instant,
};

/// A request that comes so soon after the last one of its connection follows it.
const SOON: Duration = Duration::from_millis(10);

/// So many requests that follow each other make a connection a busy one. A person's agent has fewer at once.
const MANY: u32 = 16;

/// Turns of the connections of one socket.
#[derive(Debug)]
pub(super) struct Turns {
    origin: Instant,
    /// Whose turn it is.
    turn: Semaphore,
    /// Open connections that are not busy.
    quiet: AtomicUsize,
    /// With several threads there is no one order.
    is_one_thread: bool,
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct Seat {
    turns: Arc<Turns>,
    /// When its last request came, in microseconds since the origin.
    last: AtomicU64,
    /// Requests that followed each other, up to [`MANY`].
    streak: AtomicU32,
}

impl Turns {
    /// Call it on a tokio runtime.
    pub(super) fn new() -> Self {
        Self {
            origin: Instant::now(),
            turn: Semaphore::new(1),
            quiet: AtomicUsize::new(0),
            is_one_thread: Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread,
        }
    }

    /// A place for a new connection, which counts as a quiet one.
    pub(super) fn seat(self: &Arc<Self>) -> Seat {
        self.quiet.fetch_add(1, Ordering::Relaxed);
        Seat { turns: Arc::clone(self), last: AtomicU64::new(0), streak: AtomicU32::new(0) }
    }
}

impl Seat {
    /// Waits until a request that has come on this connection is to be handled.
    pub(super) async fn take_turn(&self) {
        let turns = &self.turns;
        if !self.is_busy_with_another() || !turns.is_one_thread || turns.quiet.load(Ordering::Relaxed) == 0 {
            return;
        }
        let turn = turns.turn.acquire().await;
        // Meanwhile the runtime looks at the sockets, and handles what has come on them.
        tokio::task::yield_now().await;
        drop(turn);
    }

    /// Notes one more request, and whether the connection is busy with it.
    fn is_busy_with_another(&self) -> bool {
        let now = u64::try_from(self.turns.origin.elapsed().as_micros()).unwrap_or(u64::MAX);
        let since = Duration::from_micros(now.saturating_sub(self.last.swap(now, Ordering::Relaxed)));
        let before = self.streak.load(Ordering::Relaxed);
        let streak = if since < SOON { (before + 1).min(MANY) } else { 0 };
        self.streak.store(streak, Ordering::Relaxed);
        match (before == MANY, streak == MANY) {
            (false, true) => drop(self.turns.quiet.fetch_sub(1, Ordering::Relaxed)),
            (true, false) => drop(self.turns.quiet.fetch_add(1, Ordering::Relaxed)),
            (false, false) | (true, true) => {}
        }
        streak == MANY
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.streak.load(Ordering::Relaxed) < MANY {
            self.turns.quiet.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    async fn busy(turns: &Arc<Turns>) -> Arc<Seat> {
        let seat = turns.seat();
        for _ in 0..=MANY {
            seat.take_turn().await;
        }
        Arc::new(seat)
    }

    /// Requests on these connections come together; they are handled in the order that is returned.
    async fn order(connections: &[(&'static str, &Arc<Seat>)]) -> Vec<&'static str> {
        let handled = Arc::new(Mutex::new(Vec::new()));
        let requests = connections.iter().map(|&(name, seat)| {
            let (seat, handled) = (Arc::clone(seat), Arc::clone(&handled));
            tokio::spawn(async move {
                seat.take_turn().await;
                handled.lock().expect("no panic").push(name);
            })
        });
        for request in requests.collect::<Vec<_>>() {
            // The clock is paused: it jumps as soon as nobody gets on.
            tokio::time::timeout(SOON, request).await.expect("nobody waits for ever").expect("no panic");
        }
        Arc::into_inner(handled).and_then(|handled| handled.into_inner().ok()).expect("all are over")
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_on_a_quiet_connection_passes_those_that_never_rest() {
        let turns = Arc::new(Turns::new());
        let [first, second, third] = [busy(&turns).await, busy(&turns).await, busy(&turns).await];
        let quiet = Arc::new(turns.seat());
        let all = [("first", &first), ("second", &second), ("third", &third), ("quiet", &quiet)];
        for _ in 0..3 {
            assert_eq!(order(&all).await, ["quiet", "first", "second", "third"]);
        }
        tokio::time::advance(SOON).await;
        assert_eq!(order(&all).await, ["first", "second", "third", "quiet"], "all have rested");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_where_nobody_is_quiet() {
        let turns = Arc::new(Turns::new());
        let (first, second) = (busy(&turns).await, busy(&turns).await);
        let held = turns.turn.acquire().await.expect("open");
        assert_eq!(order(&[("first", &first), ("second", &second)]).await, ["first", "second"]);
        drop(turns.seat());
        assert_eq!(order(&[("first", &first)]).await, ["first"], "the quiet one has left");
        drop(held);
        tokio::time::advance(SOON).await;
        first.take_turn().await;
        assert_eq!(turns.quiet.load(Ordering::Relaxed), 1, "it has rested");
        drop((first, second));
        assert_eq!(turns.quiet.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn with_several_threads_there_are_no_turns() {
        let turns = Arc::new(Turns::new());
        let _held = turns.turn.acquire().await.expect("open");
        let (seat, _quiet) = (busy(&turns).await, turns.seat());
        seat.take_turn().await;
    }
}
