//! Tasks and threads that belong to a request (D26, case 72).

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    current,
    shared::running_request::{RunningRequest, Spawned},
};

/// A future polled in the name of a request; its link is removed when it is gone, for whatever reason.
struct Linked<F> {
    /// Dropped before the link is removed: everything that the future owns is released by then.
    future: Option<Pin<Box<F>>>,
    unlink: Unlink,
}

/// A guard that removes a link when dropped.
struct Unlink {
    work: Arc<RunningRequest>,
    place: Option<usize>,
}

impl Drop for Unlink {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.work.unlink(place);
        }
    }
}

impl<F: Future> Future for Linked<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let _entered = current::enter(&this.unlink.work);
        match &mut this.future {
            Some(future) => future.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Linked<F> {
    fn drop(&mut self) {
        let _entered = current::enter(&self.unlink.work);
        self.future = None;
    }
}

pub(crate) fn spawn<F>(work: &Arc<RunningRequest>, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // The task is linked before it can end: its abort handle follows.
    let place = work.link(Spawned::Thread).ok();
    let unlink = Unlink { work: Arc::clone(work), place };
    let task = tokio::spawn(Linked { future: Some(Box::pin(future)), unlink });
    match place {
        Some(place) => work.relink(place, Spawned::Task(task.abort_handle())),
        None => task.abort(),
    }
    task
}

pub(crate) fn spawn_blocking<F, T>(work: &Arc<RunningRequest>, run: F) -> JoinHandle<T>
where
    F: FnOnce(CancellationToken) -> T + Send + 'static,
    T: Send + 'static,
{
    let unlink = Unlink { work: Arc::clone(work), place: work.link(Spawned::Thread).ok() };
    let token = work.token();
    tokio::task::spawn_blocking(move || {
        let _entered = current::enter(&unlink.work);
        run(token)
    })
}
