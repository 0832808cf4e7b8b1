//! In which order requests are handled when many come at once.
//!
//! A runtime of one thread handles what is ready in the order in which it came. Behind a client that calls on many
//! connections as fast as it is answered, another's cancel would wait for all of those, and for their answers. So while
//! there are others, connections on which request follows request take turns: of all their calls that are answered at
//! once, one is under way, and one more is let through for each look at the sockets. What comes on quiet connections passes
//! all that wait. A call that takes longer holds no other up.
//!
//! The place is kept until the answer is there, or for a millisecond: else the requests that were let through are answered
//! together, and a cancel waits for all those answers and for the child. A connection whose calls take longer than 250 µs
//! keeps no place. One is busy from its third request on: with more, the beginning of each flood was the slowest percent of
//! all cancels. The price is that a link finds less at once and writes oftener, so it is paid only while some connection is
//! quiet.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
    time::{Instant, timeout},
};

/// A request that comes so soon after the last answer on its connection follows it. While a client waits for an answer it
/// does not rest: behind a flood each of its own calls takes longer than this.
const SOON: Duration = Duration::from_millis(10);

/// Whoever has waited so long for an answer floods nothing, however soon the next request comes.
const PATIENT: Duration = Duration::from_millis(100);

/// So many requests that follow each other make a connection a busy one. It should be soon: until then a flood is none.
const MANY: u32 = 2;

/// A connection whose last request took longer holds no turn: its calls wait for something else than this thread.
const QUICK: Duration = Duration::from_micros(250);

/// A request that takes longer gives its turn away. The timers of the runtime are not finer.
const LONGEST: Duration = Duration::from_millis(1);

/// Turns of the connections of one socket.
#[derive(Debug)]
pub(super) struct Turns {
    origin: Instant,
    /// Whose turn it is.
    turn: Semaphore,
    /// Open connections that are not busy.
    quiet: AtomicUsize,
    /// With several threads there are several orders.
    is_one_thread: bool,
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct Seat {
    turns: Arc<Turns>,
    /// Its last answer, in microseconds since the origin; the origin itself if it took longer than [`PATIENT`].
    answered: AtomicU64,
    /// Requests that followed each other, up to [`MANY`].
    streak: AtomicU32,
    /// Its last request in turn took less than [`QUICK`].
    is_quick: AtomicBool,
    /// It only listens: no cancel can come on it, and it counts neither as quiet nor as busy.
    is_listening: AtomicBool,
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

    /// Microseconds since the origin.
    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Whether busy connections take turns: while another one is quiet.
    fn are_taken(&self) -> bool {
        self.is_one_thread && self.quiet.load(Ordering::Relaxed) > 0
    }

    /// A place for a new connection, which counts as a quiet one.
    pub(super) fn seat(self: &Arc<Self>) -> Seat {
        self.quiet.fetch_add(1, Ordering::Relaxed);
        Seat {
            turns: Arc::clone(self),
            answered: AtomicU64::new(0),
            streak: AtomicU32::new(0),
            is_quick: AtomicBool::new(true),
            is_listening: AtomicBool::new(false),
        }
    }
}

impl Seat {
    /// Handles a request that has come on this connection, when it is its turn.
    pub(super) async fn in_turn<T>(&self, handled: impl Future<Output = T>) -> T {
        if self.is_listening.swap(false, Ordering::Relaxed) {
            self.turns.quiet.fetch_add(1, Ordering::Relaxed);
        }
        let come = self.turns.now();
        let handled = pin!(handled);
        let done = if self.is_busy_with_another(come) && self.turns.are_taken() {
            // Few need the room that this takes, and all would have it.
            Box::pin(self.when_it_may(handled)).await
        } else {
            handled.await
        };
        let answered = self.turns.now();
        let is_soon = Duration::from_micros(answered - come) < PATIENT;
        self.answered.store(if is_soon { answered } else { 0 }, Ordering::Relaxed);
        done
    }

    /// Records that the answer is a stream of what nobody has asked for: until the next request nothing comes here.
    pub(super) fn listen(&self) {
        let is_busy = self.streak.swap(0, Ordering::Relaxed) == MANY;
        if !self.is_listening.swap(true, Ordering::Relaxed) && !is_busy {
            self.turns.quiet.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Handles a request of a busy connection in its turn.
    async fn when_it_may<T>(&self, mut handled: Pin<&mut impl Future<Output = T>>) -> T {
        let turn = self.turns.turn.acquire().await;
        // Meanwhile the runtime looks at the sockets, and handles what has come on them.
        tokio::task::yield_now().await;
        let begun = Instant::now();
        let quick =
            if self.is_quick.load(Ordering::Relaxed) { timeout(LONGEST, handled.as_mut()).await.ok() } else { None };
        drop(turn);
        let done = match quick {
            Some(done) => done,
            None => handled.await,
        };
        self.is_quick.store(begun.elapsed() < QUICK, Ordering::Relaxed);
        done
    }

    /// Notes one more request, and whether the connection is busy with it.
    fn is_busy_with_another(&self, now: u64) -> bool {
        let since = Duration::from_micros(now.saturating_sub(self.answered.load(Ordering::Relaxed)));
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
        if self.streak.load(Ordering::Relaxed) < MANY && !self.is_listening.load(Ordering::Relaxed) {
            self.turns.quiet.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        sync::Mutex,
        task::{Context, Waker},
    };

    use tokio::sync::Notify;

    use super::*;

    async fn busy(turns: &Arc<Turns>) -> Arc<Seat> {
        let seat = turns.seat();
        for _ in 0..=MANY {
            seat.in_turn(ready(())).await;
        }
        Arc::new(seat)
    }

    /// Requests on these connections come together; they are handled in the order that is returned.
    async fn order(connections: &[(&'static str, &Arc<Seat>)]) -> Vec<&'static str> {
        let handled = Arc::new(Mutex::new(Vec::new()));
        let requests = connections.iter().map(|&(name, seat)| {
            let (seat, handled) = (Arc::clone(seat), Arc::clone(&handled));
            tokio::spawn(async move { seat.in_turn(async { handled.lock().expect("no panic").push(name) }).await })
        });
        for request in requests.collect::<Vec<_>>() {
            // The clock is paused: it jumps as soon as no task gets on.
            tokio::time::timeout(SOON, request).await.expect("nobody waits for ever").expect("no panic");
        }
        Arc::into_inner(handled).and_then(|handled| handled.into_inner().ok()).expect("all are over")
    }

    type Call<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

    /// Lets calls go as far as they can, and no time pass: a task that yields would let the paused clock jump.
    fn go_on(calls: &mut Vec<Call<'_>>) {
        let cx = &mut Context::from_waker(Waker::noop());
        for _ in 0..4 {
            calls.retain_mut(|call| call.as_mut().poll(cx).is_pending());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_on_a_quiet_connection_passes_those_that_never_rest() {
        let turns = Arc::new(Turns::new());
        let [first, second, third] = [busy(&turns).await, busy(&turns).await, busy(&turns).await];
        for _ in 0..3 {
            let quiet = Arc::new(turns.seat());
            let all = [("first", &first), ("second", &second), ("third", &third), ("quiet", &quiet)];
            assert_eq!(order(&all).await, ["quiet", "first", "second", "third"]);
        }
        tokio::time::advance(SOON).await;
        let quiet = Arc::new(turns.seat());
        let all = [("first", &first), ("second", &second), ("third", &third), ("quiet", &quiet)];
        assert_eq!(order(&all).await, ["first", "second", "third", "quiet"], "all have rested");
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_of_a_flood_is_under_way_at_once_unless_it_takes_long() {
        let turns = Arc::new(Turns::new());
        let _quiet = turns.seat();
        let (under_way, answers) = (&AtomicUsize::new(0), &Notify::new());
        let mut calls: Vec<Call<'_>> = Vec::new();
        for _ in 0..4 {
            let seat = busy(&turns).await;
            calls.push(Box::pin(async move {
                let call = async {
                    under_way.fetch_add(1, Ordering::Relaxed);
                    answers.notified().await;
                };
                seat.in_turn(call).await;
            }));
        }
        let come = |calls: &mut Vec<Call<'_>>| {
            go_on(calls);
            under_way.load(Ordering::Relaxed)
        };
        assert_eq!(come(&mut calls), 1);
        answers.notify_one();
        assert_eq!(come(&mut calls), 2, "each answer lets one more go");
        tokio::time::advance(LONGEST).await;
        assert_eq!(come(&mut calls), 3, "one that takes long gives its turn away");
        tokio::time::advance(LONGEST).await;
        assert_eq!(come(&mut calls), 4);
        answers.notify_waiters();
        go_on(&mut calls);
        assert!(calls.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_calls_take_long_holds_no_turn() {
        let turns = Arc::new(Turns::new());
        let (seat, _quiet) = (busy(&turns).await, turns.seat());
        seat.in_turn(tokio::time::sleep(LONGEST)).await;
        let free = |turns: &Turns| turns.turn.available_permits();
        seat.in_turn(async { assert_eq!(free(&turns), 1) }).await;
        seat.in_turn(async { assert_eq!(free(&turns), 0, "the last one was quick") }).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_given_up_gives_its_turn_back() {
        let turns = Arc::new(Turns::new());
        let (seat, _quiet) = (busy(&turns).await, turns.seat());
        let mut calls: Vec<Call<'_>> = vec![Box::pin(seat.in_turn(pending()))];
        go_on(&mut calls);
        assert_eq!(turns.turn.available_permits(), 0);
        drop(calls);
        assert_eq!(turns.turn.available_permits(), 1);
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
        first.in_turn(ready(())).await;
        assert_eq!(turns.quiet.load(Ordering::Relaxed), 1, "it has rested");
        drop((first, second));
        assert_eq!(turns.quiet.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_for_its_answer_does_not_rest_unless_it_waits_long() {
        let turns = Arc::new(Turns::new());
        let seat = busy(&turns).await;
        let is_quiet = |turns: &Turns| turns.quiet.load(Ordering::Relaxed) == 1;
        seat.in_turn(tokio::time::sleep(2 * SOON)).await;
        seat.in_turn(async { assert!(!is_quiet(&turns), "it asks as soon as it is answered") }).await;
        seat.in_turn(tokio::time::sleep(PATIENT)).await;
        seat.in_turn(async { assert!(is_quiet(&turns), "its calls take long") }).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_only_listens_makes_nobody_wait() {
        let turns = Arc::new(Turns::new());
        let (busy, other) = (busy(&turns).await, turns.seat());
        let quiet = || turns.quiet.load(Ordering::Relaxed);
        for _ in 0..2 {
            other.listen();
            assert_eq!(quiet(), 0);
        }
        other.in_turn(ready(())).await;
        assert_eq!(quiet(), 1, "it asks again");
        other.listen();
        busy.listen();
        assert_eq!(quiet(), 0);
        drop(busy);
        drop(other);
        assert_eq!(quiet(), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn with_several_threads_there_are_no_turns() {
        let turns = Arc::new(Turns::new());
        let _held = turns.turn.acquire().await.expect("open");
        let (seat, _quiet) = (busy(&turns).await, turns.seat());
        seat.in_turn(ready(())).await;
    }
}
