//! The measurements, for any library.

pub(crate) mod cancels;
pub(crate) mod idle;
pub(crate) mod scale;
pub(crate) mod small_buffers;
pub(crate) mod throughput;

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use futures::future::poll_fn;

use crate::contender::Failure;
use crate::work::Gauge;

/// Polls every one of `calls` until `gauge` reaches `target`, all their
/// handlers having begun.
///
/// # Errors
/// When a call ends before its handler was asked to end.
async fn drive<C>(calls: &mut [C], gauge: &Gauge, target: usize) -> Result<(), Failure>
where
    C: Future<Output = Result<(), Failure>> + Unpin,
{
    let mut reached = pin!(gauge.reach(target));
    poll_fn(|cx| {
        for call in &mut *calls {
            if let Poll::Ready(answer) = std::pin::Pin::new(call).poll(cx) {
                return Poll::Ready(answer.and(Err("a handler that should work has answered".into())));
            }
        }
        reached.as_mut().poll(cx).map(Ok)
    })
    .await
}
