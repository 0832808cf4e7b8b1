//! What threads share without the connection's lock: the driver's bell, and the signal that stops a handler.
//!
//! Standard library only, so that `loom/` can run every interleaving of it.

#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU8, Ordering},
};
use std::{
    mem,
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU8, Ordering},
};

/// Calls the one driver of a connection. Whoever changed something for it rings; it sleeps only when nobody did.
///
/// The race: the driver looks, finds nothing, and is about to sleep when a caller changes something and rings.
/// The driver says [`RESTING`](Self::RESTING) only if it is still [`AWAKE`](Self::AWAKE), after its waker is in
/// place; so a ring either finds the waker, or keeps the driver from sleeping. A ring while the driver is awake
/// costs one swap and wakes nobody.
#[derive(Debug)]
pub(crate) struct Bell {
    state: AtomicU8,
    driver: Mutex<Option<Waker>>,
}

impl Bell {
    const AWAKE: u8 = 0;
    const RESTING: u8 = 1;
    const RUNG: u8 = 2;

    pub(crate) fn new() -> Self {
        Self { state: AtomicU8::new(Self::AWAKE), driver: Mutex::new(None) }
    }

    /// There is something to do. Ring after the change, not before.
    pub(crate) fn ring(&self) {
        if self.state.swap(Self::RUNG, Ordering::AcqRel) == Self::RESTING {
            let driver = lock(&self.driver).take();
            if let Some(driver) = driver {
                driver.wake();
            }
        }
    }

    /// The driver is awake and about to look at everything: rings up to now are answered by that.
    pub(crate) fn answer(&self) {
        self.state.swap(Self::AWAKE, Ordering::AcqRel);
    }

    /// The driver has found nothing more to do. Ready if somebody rang since [`answer`](Self::answer).
    pub(crate) fn poll_rung(&self, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut driver = lock(&self.driver);
            match &mut *driver {
                Some(waker) if waker.will_wake(cx.waker()) => {}
                slot => *slot = Some(cx.waker().clone()),
            }
        }
        match self.state.compare_exchange(Self::AWAKE, Self::RESTING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Poll::Pending,
            Err(_) => Poll::Ready(()),
        }
    }
}

/// How far a handler was told to stop (D22): each stage once, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Stage {
    /// It runs undisturbed.
    Calm,
    /// Its token has fired.
    Fired,
    /// Its grace is over: its future is to be dropped.
    Forced,
}

/// Tells a handler, and everything that hangs on it, to stop.
///
/// Hooks are what is to be done then: a token to cancel, a call to cancel, a process to signal. The signal hands
/// out every hook exactly once: to whoever fires it, or back to whoever adds one too late.
#[derive(Debug)]
pub(crate) struct Signal<C, H> {
    /// A copy of the stage, to be read without the lock.
    stage: AtomicU8,
    inner: Mutex<Inner<C, H>>,
}

#[derive(Debug)]
struct Inner<C, H> {
    stage: Stage,
    cause: Option<C>,
    hooks: Vec<Option<H>>,
    /// Places of `hooks` that are empty.
    free: Vec<u32>,
    /// The task that polls the handler.
    task: Option<Waker>,
}

impl<C, H> Signal<C, H> {
    pub(crate) fn new() -> Self {
        let inner = Inner { stage: Stage::Calm, cause: None, hooks: Vec::new(), free: Vec::new(), task: None };
        Self { stage: AtomicU8::new(Stage::Calm as u8), inner: Mutex::new(inner) }
    }

    /// Whether the token has fired.
    pub(crate) fn is_fired(&self) -> bool {
        self.stage.load(Ordering::Acquire) >= Stage::Fired as u8
    }

    /// Whether the handler's future is to be dropped.
    pub(crate) fn is_forced(&self) -> bool {
        self.stage.load(Ordering::Acquire) >= Stage::Forced as u8
    }

    /// Why it fired.
    pub(crate) fn cause(&self) -> Option<C>
    where
        C: Clone,
    {
        if self.is_fired() { lock(&self.inner).cause.clone() } else { None }
    }

    /// Fires, once; the caller runs the hooks, without any lock.
    #[must_use]
    pub(crate) fn fire(&self, cause: Option<C>) -> Vec<Option<H>> {
        let mut inner = lock(&self.inner);
        if inner.stage > Stage::Calm {
            return Vec::new();
        }
        inner.stage = Stage::Fired;
        inner.cause = cause;
        self.stage.store(Stage::Fired as u8, Ordering::Release);
        inner.free = Vec::new();
        mem::take(&mut inner.hooks)
    }

    /// Demands that the handler's future be dropped, and wakes the task that polls it.
    pub(crate) fn force(&self) {
        let task = {
            let mut inner = lock(&self.inner);
            inner.stage = Stage::Forced;
            self.stage.store(Stage::Forced as u8, Ordering::Release);
            inner.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Adds a hook, and gives its number; if the signal has fired the hook comes back, to be run at once.
    pub(crate) fn add(&self, hook: H) -> Result<u32, H> {
        let mut inner = lock(&self.inner);
        if inner.stage > Stage::Calm {
            return Err(hook);
        }
        if let Some(place) = inner.free.pop() {
            inner.hooks[place as usize] = Some(hook);
            return Ok(place);
        }
        inner.hooks.push(Some(hook));
        Ok(u32::try_from(inner.hooks.len() - 1).unwrap_or(u32::MAX))
    }

    /// Takes a hook back that is no longer needed.
    pub(crate) fn remove(&self, place: u32) -> Option<H> {
        let mut inner = lock(&self.inner);
        let hook = inner.hooks.get_mut(place as usize)?.take()?;
        inner.free.push(place);
        Some(hook)
    }

    /// Who is to be woken when the handler is [forced](Self::force); ready if it was already.
    pub(crate) fn poll_forced(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = lock(&self.inner);
        if inner.stage == Stage::Forced {
            return Poll::Ready(());
        }
        match &mut inner.task {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            slot => *slot = Some(cx.waker().clone()),
        }
        Poll::Pending
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
