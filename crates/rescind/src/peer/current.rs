//! The request that this thread handles right now (D26).
//!
//! It is set while a handler's future, or a task linked to it, is polled. A call made meanwhile, on any connection of the
//! process, is that request's child.

use std::{cell::RefCell, sync::Arc};

use super::{shared::running_request::RunningRequest, trace::EnteredRequest};

thread_local! {
    static CURRENT: RefCell<Option<Arc<RunningRequest>>> = const { RefCell::new(None) };
}

/// The request being handled, if this thread is handling one.
pub(crate) fn current() -> Option<Arc<RunningRequest>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Whether this thread is handling a request.
pub(crate) fn is_handling() -> bool {
    // A call may be dropped when its thread has ended.
    CURRENT.try_with(|current| current.borrow().is_some()).unwrap_or(false)
}

/// Makes `work` the current request until the guard is dropped, even by a panic.
pub(crate) fn enter(work: &Arc<RunningRequest>) -> Entered {
    Entered { before: CURRENT.replace(Some(Arc::clone(work))), _span: work.span.enter() }
}

#[must_use]
pub(crate) struct Entered {
    before: Option<Arc<RunningRequest>>,
    _span: EnteredRequest,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let inner = CURRENT.replace(self.before.take());
        drop(inner);
    }
}
