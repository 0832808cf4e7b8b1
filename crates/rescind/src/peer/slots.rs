//! Our calls: one small slot each, in which the driver leaves the answer and the caller its waker.
//!
//! A slot belongs to its [`Call`](super::Call) and outlives the engine's entry, which is gone as soon as the answer
//! has been read; the engine's key leads to the slot only while the slot still waits.

use std::{collections::HashMap, sync::Arc, task::Waker};

use rescind_proto::connection::{OutgoingKey, Settlement};

use super::{call::Progress, trace::CallSpan, work::Work};

/// What a caller wants done with progress.
pub(crate) type OnProgress = Box<dyn FnMut(Progress) + Send>;

#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By the place of the engine's key.
    by_place: Vec<u32>,
    /// Requests that the engine has settled, and whose place it gave to another before the driver told their caller.
    displaced: HashMap<OutgoingKey, u32>,
}

struct Slot {
    key: Option<OutgoingKey>,
    waker: Option<Waker>,
    end: Option<Settlement>,
    /// The caller has gone and wants the request to go on: the slot is freed when it ends.
    is_left: bool,
    extras: Option<Box<Extras>>,
}

/// What few calls have.
#[derive(Default)]
pub(crate) struct Extras {
    pub(crate) on_progress: Option<OnProgress>,
    /// The request on another connection that this one serves, and where it is noted there.
    pub(crate) parent: Option<(Arc<Work>, u32)>,
    pub(crate) span: Option<Arc<CallSpan>>,
}

impl Slots {
    pub(crate) fn insert(&mut self, key: OutgoingKey, waker: Option<Waker>, extras: Option<Box<Extras>>) -> u32 {
        let slot = Slot { key: Some(key), waker, end: None, is_left: false, extras };
        let at = if let Some(at) = self.free.pop() {
            self.slots[at as usize] = slot;
            at
        } else {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        };
        let place = key.place();
        if self.by_place.len() <= place {
            self.by_place.resize(place + 1, u32::MAX);
        }
        let before = std::mem::replace(&mut self.by_place[place], at);
        if let Some(known) = self.slots.get(before as usize).and_then(|slot| slot.key)
            && known.place() == place
            && known != key
        {
            self.displaced.insert(known, before);
        }
        at
    }

    /// The answer, if there is one; else the waker is kept. The slot is free after the answer. A waker that was kept
    /// before goes to `old`, to be dropped without any lock.
    pub(crate) fn poll(&mut self, at: u32, waker: &Waker, old: &mut Option<Waker>) -> Option<Settlement> {
        let slot = &mut self.slots[at as usize];
        match slot.end.take() {
            Some(end) => {
                self.free.push(at);
                Some(end)
            }
            None => {
                match &mut slot.waker {
                    Some(known) if known.will_wake(waker) => {}
                    place => *old = place.replace(waker.clone()),
                }
                None
            }
        }
    }

    /// The engine's key, while the request is not settled as far as its caller knows.
    pub(crate) fn key(&self, at: u32) -> Option<OutgoingKey> {
        self.slots[at as usize].key
    }

    /// The answer that its caller has not seen.
    pub(crate) fn end(&self, at: u32) -> Option<&Settlement> {
        self.slots[at as usize].end.as_ref()
    }

    /// The caller goes; what hung on the call is given back, to be dropped without any lock.
    pub(crate) fn leave(&mut self, at: u32) -> (Option<OutgoingKey>, Option<Box<Extras>>, Option<Waker>) {
        let slot = &mut self.slots[at as usize];
        let left = (slot.key.take(), slot.extras.take(), slot.waker.take());
        if let Some(key) = left.0.filter(|_| !self.displaced.is_empty()) {
            self.displaced.remove(&key);
        }
        slot.end = None;
        self.free.push(at);
        left
    }

    /// The caller goes, and the request goes on without it.
    pub(crate) fn detach(&mut self, at: u32) -> Option<Waker> {
        let slot = &mut self.slots[at as usize];
        if slot.key.is_none() {
            slot.end = None;
            self.free.push(at);
        } else {
            slot.is_left = true;
        }
        slot.waker.take()
    }

    /// The call is nobody's child any more: where its parent noted it.
    pub(crate) fn orphan(&mut self, at: u32) -> Option<(Arc<Work>, u32)> {
        self.slots[at as usize].extras.as_mut()?.parent.take()
    }

    /// A request has ended: its caller's waker, and what hung on the call.
    pub(crate) fn settle(&mut self, key: OutgoingKey, how: Settlement) -> (Option<Waker>, Option<Box<Extras>>) {
        let Some(at) = self.find(key) else { return (None, None) };
        if !self.displaced.is_empty() {
            self.displaced.remove(&key);
        }
        let slot = &mut self.slots[at as usize];
        slot.key = None;
        let left = (slot.waker.take(), slot.extras.take());
        if let Some(span) = left.1.as_ref().and_then(|extras| extras.span.as_ref()) {
            span.settled(&how);
        }
        if slot.is_left {
            self.free.push(at);
        } else {
            slot.end = Some(how);
        }
        left
    }

    /// Takes the progress callback out, to be called without any lock.
    pub(crate) fn take_progress(&mut self, key: OutgoingKey) -> Option<OnProgress> {
        let at = self.find(key)?;
        self.slots[at as usize].extras.as_mut()?.on_progress.take()
    }

    /// Puts it back; given back itself if the call is over.
    pub(crate) fn put_progress(&mut self, key: OutgoingKey, on_progress: OnProgress) -> Option<OnProgress> {
        let extras = self.find(key).and_then(|at| self.slots[at as usize].extras.as_mut());
        match extras {
            Some(extras) => {
                extras.on_progress = Some(on_progress);
                None
            }
            None => Some(on_progress),
        }
    }

    fn find(&self, key: OutgoingKey) -> Option<u32> {
        let is = |at: &u32| self.slots.get(*at as usize).is_some_and(|slot| slot.key == Some(key));
        let at = self.by_place.get(key.place()).copied().filter(is);
        at.or_else(|| self.displaced.get(&key).copied().filter(is))
    }
}

#[cfg(test)]
mod tests {
    use rescind_proto::{
        connection::{CallOptions, Config, Connection, Event},
        side::Side,
        time::Instant,
    };

    use super::*;

    #[test]
    fn a_place_given_to_another_request_loses_no_answer() {
        let mut conn = Connection::new(Config::new(Side::Client));
        let now = Instant::ORIGIN;
        let ask = |conn: &mut Connection| conn.request(now, "x", b"", &CallOptions::default()).expect("it is open");
        let (mut slots, first) = (Slots::default(), ask(&mut conn));
        let old = slots.insert(first, None, None);
        let all = conn.pending().len();
        conn.handle_written(now, all);
        conn.handle_input(now, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
        // The engine has settled it; the driver has not told its caller when the next request is made.
        let second = ask(&mut conn);
        assert_eq!(first.place(), second.place());
        let new = slots.insert(second, None, None);
        while let Some(event) = conn.poll_event() {
            if let Event::Settled { key, how } = event {
                slots.settle(key, how);
            }
        }
        assert!(slots.poll(old, Waker::noop(), &mut None).is_some());
        assert!(slots.poll(new, Waker::noop(), &mut None).is_none());
    }
}
