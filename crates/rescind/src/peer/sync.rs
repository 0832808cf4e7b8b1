//! State that threads share without the connection's lock: the wake-up of the driver, and the signal that stops a handler.
//!
//! Standard library only, so that `loom/` can run every interleaving of it.

#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, Ordering},
};
use std::{
    mem,
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, Ordering},
};

/// Wakes the one driver of a connection. Code that changes something for the driver notifies it; the driver sleeps
/// only if nothing changed since its turn began.
///
/// The race: the driver looks, finds nothing, and is about to sleep when a caller changes something and notifies it.
/// The driver enters [`WAITING`](Self::WAITING) only if it is still [`AWAKE`](Self::AWAKE), after its waker is in
/// place; so a notification either finds the waker or keeps the driver from sleeping. Notifying an awake driver costs
/// one swap and wakes nothing.
#[derive(Debug)]
pub(crate) struct DriverNotify {
    state: AtomicU8,
    driver: Mutex<Option<Waker>>,
}

impl DriverNotify {
    const AWAKE: u8 = 0;
    const WAITING: u8 = 1;
    const NOTIFIED: u8 = 2;

    pub(crate) fn new() -> Self {
        Self { state: AtomicU8::new(Self::AWAKE), driver: Mutex::new(None) }
    }

    /// Tells the driver that there is something to do, and returns `true` if that woke it. Call it after the change, not
    /// before.
    pub(crate) fn notify(&self) -> bool {
        if self.state.swap(Self::NOTIFIED, Ordering::AcqRel) != Self::WAITING {
            return false;
        }
        let driver = lock(&self.driver).take();
        driver.map(Waker::wake).is_some()
    }

    /// Begins a turn: the driver is about to look at everything, which covers all notifications up to now.
    pub(crate) fn begin_turn(&self) {
        self.state.swap(Self::AWAKE, Ordering::AcqRel);
    }

    /// Ends a turn that found nothing more to do. Ready if the driver was notified since [`begin_turn`](Self::begin_turn).
    pub(crate) fn poll_notified(&self, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut driver = lock(&self.driver);
            match &mut *driver {
                Some(waker) if waker.will_wake(cx.waker()) => {}
                slot => *slot = Some(cx.waker().clone()),
            }
        }
        match self.state.compare_exchange(Self::AWAKE, Self::WAITING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Poll::Pending,
            Err(_) => Poll::Ready(()),
        }
    }
}

/// A stage of a handler on its way to its end (D22). Each comes at most once, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum StopStage {
    /// It was not asked to stop.
    Calm,
    /// Its token has fired.
    Fired,
    /// Its grace is over: its future must be dropped.
    Forced,
    /// Its future is gone.
    Over,
}

/// The signal that stops a handler and everything that depends on it.
///
/// Hooks are actions for that moment: cancel a token, cancel a call, signal a process. Every hook is returned exactly
/// once: to the code that fires the signal, or to the code that adds the hook too late.
///
/// `S` is state of the handler that few have, and that the same lock guards.
#[derive(Debug)]
pub(crate) struct Signal<C, H, S = ()> {
    /// May be read without the lock; state that depends on it is changed under the lock.
    stage: AtomicU8,
    /// The task must be woken when the signal fires. Guarded by the lock; here because alignment leaves room for it.
    task_waits: AtomicBool,
    inner: Mutex<Inner<C, H, S>>,
}

#[derive(Debug)]
struct Inner<C, H, S> {
    /// Absent at first: most handlers need none of it.
    rare: Option<Box<Rare<C, H, S>>>,
    /// The task that polls the handler.
    task: Option<Waker>,
}

/// Parts that few handlers have before their end.
#[derive(Debug)]
struct Rare<C, H, S> {
    /// The cause of the stop.
    cause: Option<C>,
    hooks: Vec<Option<H>>,
    /// Places of `hooks` that are empty.
    free: Vec<u32>,
    state: S,
}

impl<C, H, S> Rare<C, H, S> {
    fn add(&mut self, hook: H) -> u32 {
        if let Some(place) = self.free.pop() {
            self.hooks[place as usize] = Some(hook);
            return place;
        }
        self.hooks.push(Some(hook));
        u32::try_from(self.hooks.len() - 1).unwrap_or(u32::MAX)
    }
}

impl<C, H, S: Default> Signal<C, H, S> {
    pub(crate) fn new() -> Self {
        Self {
            stage: AtomicU8::new(StopStage::Calm as u8),
            task_waits: AtomicBool::new(false),
            inner: Mutex::new(Inner { rare: None, task: None }),
        }
    }

    /// Whether the token has fired.
    pub(crate) fn is_fired(&self) -> bool {
        self.has_come_to(StopStage::Fired)
    }

    /// Whether the handler's future must be dropped.
    pub(crate) fn is_forced(&self) -> bool {
        self.has_come_to(StopStage::Forced)
    }

    /// Whether the handler's future is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.has_come_to(StopStage::Over)
    }

    /// The cause for which it fired.
    pub(crate) fn cause(&self) -> Option<C>
    where
        C: Clone,
    {
        if self.is_fired() { lock(&self.inner).rare.as_ref()?.cause.clone() } else { None }
    }

    /// Fires, once, and returns the task to wake and the hooks to run, both without any lock.
    pub(crate) fn fire(&self, cause: Option<C>) -> (Option<Waker>, impl Iterator<Item = H> + use<C, H, S>) {
        let (task, hooks) = {
            let mut inner = lock(&self.inner);
            if self.is_fired() {
                (None, Vec::new())
            } else {
                let hooks = inner.rare.as_mut().map(|rare| mem::take(&mut rare.hooks)).unwrap_or_default();
                if cause.is_some() {
                    inner.rare().cause = cause;
                }
                self.come_to(StopStage::Fired);
                // The woken task leaves its waker again before it could miss `force`.
                let task = if self.task_waits.swap(false, Ordering::Relaxed) { inner.task.take() } else { None };
                (task, hooks)
            }
        };
        (task, hooks.into_iter().flatten())
    }

    /// Demands that the handler's future is dropped, and wakes the task that polls it.
    pub(crate) fn force(&self) {
        let task = {
            let mut inner = lock(&self.inner);
            self.come_to(StopStage::Forced);
            inner.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Notes that the handler's future is gone. Fire first.
    pub(crate) fn end(&self) {
        self.come_to(StopStage::Over);
    }

    /// Adds a hook and returns its number. If the signal has fired, the hook comes back, to be run at once.
    pub(crate) fn add(&self, hook: H) -> Result<u32, H> {
        let mut inner = lock(&self.inner);
        if self.is_fired() {
            return Err(hook);
        }
        Ok(inner.rare().add(hook))
    }

    /// Returns the first result of `find` over the hooks, or else its result for a new hook that is added; `None` once the
    /// signal has fired.
    pub(crate) fn find_or_add<T>(&self, find: impl Fn(&H) -> Option<T>, hook: impl FnOnce() -> H) -> Option<T> {
        let mut inner = lock(&self.inner);
        if self.is_fired() {
            return None;
        }
        let rare = inner.rare();
        let found = rare.hooks.iter().flatten().find_map(&find);
        found.or_else(|| {
            let place = rare.add(hook());
            rare.hooks[place as usize].as_ref().and_then(find)
        })
    }

    /// Wakes `waker` when the signal fires; `None` if it has fired. The waker of the handler's own task is known already;
    /// any other becomes a hook, whose number is returned.
    pub(crate) fn wait(&self, waker: &Waker, hook: impl FnOnce(Waker) -> H) -> Option<Option<u32>> {
        let mut inner = lock(&self.inner);
        if self.is_fired() {
            return None;
        }
        if inner.task.as_ref().is_some_and(|task| task.will_wake(waker)) {
            self.task_waits.store(true, Ordering::Relaxed);
            return Some(None);
        }
        Some(Some(inner.rare().add(hook(waker.clone()))))
    }

    /// Removes a hook that is no longer needed.
    pub(crate) fn remove(&self, place: u32) -> Option<H> {
        let mut inner = lock(&self.inner);
        let rare = inner.rare.as_mut()?;
        let hook = rare.hooks.get_mut(place as usize)?.take()?;
        rare.free.push(place);
        Some(hook)
    }

    /// Ready when the handler is [forced](Self::force); else the waker is kept as that of the handler's task.
    pub(crate) fn poll_forced(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = lock(&self.inner);
        if self.is_forced() {
            return Poll::Ready(());
        }
        match &mut inner.task {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            slot => *slot = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Changes the state, under the lock.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        change(&mut lock(&self.inner).rare().state)
    }

    /// Passes the state to `see`, under the lock, unless there is none.
    pub(crate) fn see<T>(&self, see: impl FnOnce(&mut S) -> T) -> Option<T> {
        lock(&self.inner).rare.as_mut().map(|rare| see(&mut rare.state))
    }

    /// Wakes the task that polls the handler.
    pub(crate) fn wake_task(&self) {
        let task = lock(&self.inner).task.clone();
        if let Some(task) = task {
            task.wake();
        }
    }

    fn has_come_to(&self, stage: StopStage) -> bool {
        self.stage.load(Ordering::Acquire) >= stage as u8
    }

    fn come_to(&self, stage: StopStage) {
        self.stage.fetch_max(stage as u8, Ordering::Release);
    }
}

impl<C, H, S: Default> Inner<C, H, S> {
    fn rare(&mut self) -> &mut Rare<C, H, S> {
        let rare = || Box::new(Rare { cause: None, hooks: Vec::new(), free: Vec::new(), state: S::default() });
        self.rare.get_or_insert_with(rare)
    }
}

#[cfg(not(loom))]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(loom)]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned: PoisonError<_>| poisoned.into_inner())
}
