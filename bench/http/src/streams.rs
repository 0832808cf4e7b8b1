//! Calls of `hang`: what an open stream holds in memory, and how long a cancel takes to reach the child.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rescind_bench::statistics::percentile;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout, timeout_at};

use crate::client::Connection;
use crate::gateway::Gateway;
use crate::marks::{Mark, Marks, now};
use crate::message::{Era, Requests};
use crate::report::Figures;

/// Streams that are open when memory is first looked at.
const FEW: usize = 10;
/// Streams that are opened at a time.
const BURST: usize = 64;
/// Connections that post cancels.
const POSTERS: usize = 16;
/// Between cancels.
const PACE: Duration = Duration::from_millis(1);
/// One call in so many is not cancelled, and must not be.
const KEPT: usize = 10;
/// How long nothing may happen before what has not happened is lost.
const SILENCE: Duration = Duration::from_secs(5);
/// How long cancels are awaited that nobody asked for, and streams that must end.
const AFTER: Duration = Duration::from_millis(500);
/// How long memory is left to settle.
const SETTLE: Duration = Duration::from_millis(200);

/// The streams, by the work of each.
struct Streams<'a> {
    address: SocketAddr,
    sessions: &'a [Rc<Requests>],
    open: Vec<Option<Connection>>,
    /// How many calls the child has read.
    called: usize,
}

impl Streams<'_> {
    /// Ids are those of other sessions, too, and in the modern era those of other clients.
    fn request(&self, work: usize) -> (&Rc<Requests>, i64) {
        (&self.sessions[work % self.sessions.len()], (work / self.sessions.len()) as i64 + (1 << 40))
    }

    /// Opens streams until there are `count`, all of them known to the child, if there is one.
    async fn open(&mut self, count: usize, mut marks: Option<&mut Marks>) -> io::Result<()> {
        while self.open.len() < count {
            let first = self.open.len();
            for work in first..count.min(first + BURST) {
                let mut connection = Connection::open(self.address).await?;
                let (requests, id) = self.request(work);
                connection.send(&requests.call(id, "hang", &work.to_string())).await?;
                self.open.push(Some(connection));
            }
            let Some(marks) = &mut marks else {
                for connection in self.open[first..].iter_mut().flatten() {
                    connection.head().await?;
                }
                continue;
            };
            while self.called < self.open.len() {
                match timeout(SILENCE, marks.next()).await.map_err(|_| self.missing())?? {
                    Mark::Called { .. } => self.called += 1,
                    Mark::Cancelled { .. } => return Err(io::Error::other("the child was sent a cancel of its own")),
                }
            }
        }
        Ok(())
    }

    fn missing(&self) -> io::Error {
        io::Error::other(format!("of {} streams {} have reached the child", self.open.len(), self.called))
    }
}

/// Opens `count` streams, and cancels most of them if there is a child to cancel.
pub(crate) async fn measure(
    gateway: &mut Gateway,
    sessions: &[Rc<Requests>],
    era: Era,
    (count, has_child): (usize, bool),
    figures: &mut Figures,
) -> io::Result<()> {
    let mut streams = Streams { address: gateway.address, sessions, open: Vec::new(), called: 0 };
    let few = FEW.min(count / 2);
    streams.open(few, has_child.then_some(&mut gateway.marks)).await?;
    tokio::time::sleep(SETTLE).await;
    let before = gateway.usage()?.gateway_kib;
    streams.open(count, has_child.then_some(&mut gateway.marks)).await?;
    tokio::time::sleep(SETTLE).await;
    let grown = gateway.usage()?.gateway_kib as f64 - before as f64;
    figures.insert("streams", count as f64);
    figures.insert("bytes each", grown * 1024.0 / (count - few) as f64);
    if !has_child {
        return Ok(());
    }

    let chosen: Vec<usize> = (0..count).filter(|&work| !is_kept(work)).collect();
    let left = Rc::new(RefCell::new(vec![0; count]));
    let watching = watch(&mut gateway.marks, count, chosen.len());
    let (refused, seen) = match era {
        Era::Modern => tokio::join!(hang_up(&mut streams, &chosen, &left), watching),
        Era::Legacy => tokio::join!(post(&streams, &chosen, &left), watching),
    };
    let (seen, left) = (seen?, left.take());
    let time = |work: usize| seen.cancels[work].first().map(|at| at.saturating_sub(left[work]));
    let times = chosen.iter().filter_map(|&work| time(work));
    let mut times: Vec<u32> = times.map(|time| u32::try_from(time).unwrap_or(u32::MAX)).collect();
    times.sort_unstable();
    if !times.is_empty() {
        figures.insert("cancel p50 µs", f64::from(percentile(&times, 50)) / 1e3);
        figures.insert("cancel p99 µs", f64::from(percentile(&times, 99)) / 1e3);
    }
    figures.insert("refused", refused? as f64);
    figures.extend(seen.faults().map(|(name, count)| (name, count as f64)));
    if era == Era::Legacy {
        figures.insert("unended", unended(&mut streams, &chosen).await as f64);
    }
    Ok(())
}

const fn is_kept(work: usize) -> bool {
    work % KEPT == KEPT - 1
}

/// The cancels that the child has read.
struct Seen {
    /// When, by the work that they name.
    cancels: Vec<Vec<u64>>,
    unknown: usize,
}

impl Seen {
    fn new(count: usize) -> Self {
        Self { cancels: vec![Vec::new(); count], unknown: 0 }
    }

    fn note(&mut self, work: Option<usize>, at: u64) {
        match work.and_then(|work| self.cancels.get_mut(work)) {
            Some(cancels) => cancels.push(at),
            None => self.unknown += 1,
        }
    }

    fn faults(&self) -> [(&'static str, usize); 3] {
        let (mut lost, mut twice, mut foreign) = (0, 0, self.unknown);
        for (work, cancels) in self.cancels.iter().enumerate() {
            match cancels.len() {
                count if is_kept(work) => foreign += count,
                0 => lost += 1,
                1 => {}
                _ => twice += 1,
            }
        }
        [("lost", lost), ("twice", twice), ("foreign", foreign)]
    }
}

/// Reads until `wanted` cancels were read or none has been for a while, and a little longer.
async fn watch(marks: &mut Marks, count: usize, wanted: usize) -> io::Result<Seen> {
    let (mut seen, mut read) = (Seen::new(count), 0);
    while let Ok(mark) = timeout(if read < wanted { SILENCE } else { AFTER }, marks.next()).await {
        // A gateway that has lost its child may call again.
        if let Mark::Cancelled { work, at } = mark? {
            seen.note(work, at);
            read += 1;
        }
    }
    Ok(seen)
}

async fn hang_up(streams: &mut Streams<'_>, chosen: &[usize], left: &Rc<RefCell<Vec<u64>>>) -> io::Result<usize> {
    let mut pace = interval(PACE);
    for &work in chosen {
        pace.tick().await;
        left.borrow_mut()[work] = now();
        streams.open[work] = None;
    }
    Ok(0)
}

/// How many posts were not accepted.
async fn post(streams: &Streams<'_>, chosen: &[usize], left: &Rc<RefCell<Vec<u64>>>) -> io::Result<usize> {
    let cancel = |&work: &usize| {
        let (requests, id) = streams.request(work);
        (work, requests.cancel(id))
    };
    let cancels: Vec<_> = chosen.iter().map(cancel).collect();
    let queue = Rc::new(RefCell::new(cancels.into_iter()));
    let pace = Rc::new(Mutex::new(interval(PACE)));
    let mut posting = JoinSet::new();
    for _ in 0..POSTERS {
        let mut connection = Connection::open(streams.address).await?;
        let (queue, pace, left) = (Rc::clone(&queue), Rc::clone(&pace), Rc::clone(left));
        posting.spawn_local(async move {
            let mut refused = 0;
            loop {
                pace.lock().await.tick().await;
                let Some((work, cancel)) = queue.borrow_mut().next() else { return Ok::<_, io::Error>(refused) };
                left.borrow_mut()[work] = now();
                connection.send(&cancel).await?;
                refused += usize::from(connection.receive().await?.status != 202);
            }
        });
    }
    let mut all = 0;
    while let Some(refused) = posting.join_next().await {
        all += refused.map_err(io::Error::other)??;
    }
    Ok(all)
}

/// How many of the cancelled streams stay open.
async fn unended(streams: &mut Streams<'_>, chosen: &[usize]) -> usize {
    let until = tokio::time::Instant::now() + AFTER;
    let mut count = 0;
    for &work in chosen {
        let Some(connection) = &mut streams.open[work] else { continue };
        // One that fails has ended, too.
        count += usize::from(timeout_at(until, connection.receive()).await.is_err());
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_cancelled_or_twice_or_for_another_is_found() {
        let mut seen = Seen::new(2 * KEPT);
        for work in (0..2 * KEPT).filter(|&work| work != 3 && work != KEPT - 1) {
            seen.note(Some(work), 1);
        }
        seen.note(Some(4), 2);
        seen.note(None, 3);
        assert_eq!(seen.faults(), [("lost", 1), ("twice", 1), ("foreign", 2)]);
    }
}
