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
    /// The task is to be woken when the signal fires.
    task_waits: bool,
    cause: Option<C>,
    /// Absent until there is one: most handlers have none.
    hooks: Option<Box<Hooks<H>>>,
    /// The task that polls the handler.
    task: Option<Waker>,
}

#[derive(Debug)]
struct Hooks<H> {
    list: Vec<Option<H>>,
    /// Places of `list` that are empty.
    free: Vec<u32>,
}

impl<H> Hooks<H> {
    fn add(&mut self, hook: H) -> u32 {
        if let Some(place) = self.free.pop() {
            self.list[place as usize] = Some(hook);
            return place;
        }
        self.list.push(Some(hook));
        u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
    }
}

impl<C, H> Signal<C, H> {
    pub(crate) fn new() -> Self {
        let inner = Inner { stage: Stage::Calm, task_waits: false, cause: None, hooks: None, task: None };
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

    /// Fires, once; the caller wakes the task, if it waits, and runs the hooks, without any lock.
    pub(crate) fn fire(&self, cause: Option<C>) -> (Option<Waker>, impl Iterator<Item = H> + use<C, H>) {
        let (task, hooks) = {
            let mut inner = lock(&self.inner);
            if inner.stage > Stage::Calm {
                (None, None)
            } else {
                inner.stage = Stage::Fired;
                inner.cause = cause;
                self.stage.store(Stage::Fired as u8, Ordering::Release);
                // Woken, it leaves its waker anew before it could miss that it is forced.
                let task = if mem::take(&mut inner.task_waits) { inner.task.take() } else { None };
                (task, inner.hooks.take())
            }
        };
        (task, hooks.into_iter().flat_map(|hooks| hooks.list.into_iter().flatten()))
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
        Ok(inner.hooks().add(hook))
    }

    /// Has `waker` woken when the signal fires; `None` if it has. A waker of the handler's own task is there already;
    /// any other becomes a hook, whose number is given.
    pub(crate) fn wait(&self, waker: &Waker, hook: impl FnOnce(Waker) -> H) -> Option<Option<u32>> {
        let mut inner = lock(&self.inner);
        if inner.stage > Stage::Calm {
            return None;
        }
        if inner.task.as_ref().is_some_and(|task| task.will_wake(waker)) {
            inner.task_waits = true;
            return Some(None);
        }
        Some(Some(inner.hooks().add(hook(waker.clone()))))
    }

    /// Takes a hook back that is no longer needed.
    pub(crate) fn remove(&self, place: u32) -> Option<H> {
        let mut inner = lock(&self.inner);
        let hooks = inner.hooks.as_mut()?;
        let hook = hooks.list.get_mut(place as usize)?.take()?;
        hooks.free.push(place);
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

impl<C, H> Inner<C, H> {
    fn hooks(&mut self) -> &mut Hooks<H> {
        self.hooks.get_or_insert_with(|| Box::new(Hooks { list: Vec::new(), free: Vec::new() }))
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
