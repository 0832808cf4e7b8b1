//! Our calls: one small slot each, in which the driver leaves the answer and the caller its waker.
//!
//! A slot belongs to its [`Call`](super::Call) and outlives the engine's entry, which is gone as soon as the answer
//! has been read; the engine's key leads to the slot only while the slot still waits.

use std::{collections::HashMap, sync::Arc, task::Waker};

use rescind_proto::connection::{OutgoingKey, Settlement};

use super::{progress_report::ProgressReport, shared::running_request::RunningRequest, trace::CallSpan};

/// A caller's callback for progress.
pub(crate) type OnProgress = Box<dyn FnMut(ProgressReport) + Send>;

#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<CallSlot>,
    free: Vec<u32>,
    /// By the place of the engine's key.
    by_place: Vec<u32>,
    /// Requests that the engine has settled, and whose place was reused before their caller was woken.
    displaced: HashMap<OutgoingKey, u32>,
}

enum CallSlot {
    Free,
    Waiting(WaitingCall),
    /// The answer, not yet seen by its caller.
    Ended(Settlement),
}

/// A request that its caller does not know to be settled.
struct WaitingCall {
    key: OutgoingKey,
    waker: Option<Waker>,
    /// The caller has detached the request and gone: the slot is freed at its end.
    is_left: bool,
    rare: Option<Box<Rare>>,
}

impl CallSlot {
    const fn waiting(&self) -> Option<&WaitingCall> {
        match self {
            Self::Waiting(waiting) => Some(waiting),
            Self::Free | Self::Ended(_) => None,
        }
    }

    const fn waiting_mut(&mut self) -> Option<&mut WaitingCall> {
        match self {
            Self::Waiting(waiting) => Some(waiting),
            Self::Free | Self::Ended(_) => None,
        }
    }
}

/// Parts that few calls have.
#[derive(Default)]
pub(crate) struct Rare {
    pub(crate) on_progress: Option<OnProgress>,
    /// The request on another connection that this one serves, and where it is noted there.
    pub(crate) parent: Option<(Arc<RunningRequest>, u32)>,
    pub(crate) span: Option<Arc<CallSpan>>,
}

impl Slots {
    pub(crate) fn insert(&mut self, key: OutgoingKey, waker: Option<Waker>, rare: Option<Box<Rare>>) -> u32 {
        let slot = CallSlot::Waiting(WaitingCall { key, waker, is_left: false, rare });
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
        if let Some(known) = self.key(before)
            && known.place() == place
            && known != key
        {
            self.displaced.insert(known, before);
        }
        at
    }

    /// Takes the answer, if there is one, and frees the slot; else keeps the waker. A waker that was kept before goes to
    /// `old`, to be dropped without any lock.
    pub(crate) fn poll(&mut self, at: u32, waker: &Waker, old: &mut Option<Waker>) -> Option<Settlement> {
        match &mut self.slots[at as usize] {
            CallSlot::Waiting(WaitingCall { waker: Some(known), .. }) if known.will_wake(waker) => None,
            CallSlot::Waiting(waiting) => {
                *old = waiting.waker.replace(waker.clone());
                None
            }
            CallSlot::Ended(_) | CallSlot::Free => self.receive_end(at),
        }
    }

    /// Takes the answer, if there is one, and frees the slot.
    pub(crate) fn receive_end(&mut self, at: u32) -> Option<Settlement> {
        self.end(at)?;
        match self.free(at) {
            CallSlot::Ended(end) => Some(end),
            CallSlot::Waiting(_) | CallSlot::Free => None,
        }
    }

    /// The engine's key, until the request is settled as far as its caller knows.
    pub(crate) fn key(&self, at: u32) -> Option<OutgoingKey> {
        Some(self.slots.get(at as usize)?.waiting()?.key)
    }

    /// The answer, if its caller has not seen it.
    pub(crate) fn end(&self, at: u32) -> Option<&Settlement> {
        match &self.slots[at as usize] {
            CallSlot::Ended(end) => Some(end),
            CallSlot::Waiting(_) | CallSlot::Free => None,
        }
    }

    /// Frees the slot of a caller that goes; the parts of the call that it returns are to be dropped without any lock.
    pub(crate) fn leave(&mut self, at: u32) -> (Option<OutgoingKey>, Option<Box<Rare>>, Option<Waker>) {
        let CallSlot::Waiting(WaitingCall { key, waker, rare, .. }) = self.free(at) else { return (None, None, None) };
        if !self.displaced.is_empty() {
            self.displaced.remove(&key);
        }
        (Some(key), rare, waker)
    }

    /// Detaches the request from its caller, which goes.
    pub(crate) fn detach(&mut self, at: u32) -> Option<Waker> {
        if let Some(waiting) = self.slots[at as usize].waiting_mut() {
            waiting.is_left = true;
            return waiting.waker.take();
        }
        self.free(at);
        None
    }

    /// Removes the call's parent, and returns the place at which the parent noted the call.
    pub(crate) fn orphan(&mut self, at: u32) -> Option<(Arc<RunningRequest>, u32)> {
        self.slots[at as usize].waiting_mut()?.rare.as_mut()?.parent.take()
    }

    /// Settles a request, and returns its caller's waker and the extra parts of the call.
    pub(crate) fn settle(&mut self, key: OutgoingKey, how: Settlement) -> (Option<Waker>, Option<Box<Rare>>) {
        let Some(at) = self.find(key) else { return (None, None) };
        if !self.displaced.is_empty() {
            self.displaced.remove(&key);
        }
        let slot = &mut self.slots[at as usize];
        let rare = slot.waiting().and_then(|waiting| waiting.rare.as_ref());
        if let Some(span) = rare.and_then(|rare| rare.span.as_ref()) {
            span.settled(&how);
        }
        let CallSlot::Waiting(WaitingCall { waker, is_left, rare, .. }) = std::mem::replace(slot, CallSlot::Ended(how))
        else {
            return (None, None);
        };
        if is_left {
            self.free(at);
        }
        (waker, rare)
    }

    /// Takes the progress callback out, to be called without any lock.
    pub(crate) fn detach_progress(&mut self, key: OutgoingKey) -> Option<OnProgress> {
        let at = self.find(key)?;
        self.slots[at as usize].waiting_mut()?.rare.as_mut()?.on_progress.take()
    }

    /// Puts the callback back; returns it if the call is over.
    pub(crate) fn attach_progress(&mut self, key: OutgoingKey, on_progress: OnProgress) -> Option<OnProgress> {
        let waiting = self.find(key).and_then(|at| self.slots[at as usize].waiting_mut());
        match waiting.and_then(|waiting| waiting.rare.as_mut()) {
            Some(rare) => {
                rare.on_progress = Some(on_progress);
                None
            }
            None => Some(on_progress),
        }
    }

    fn free(&mut self, at: u32) -> CallSlot {
        self.free.push(at);
        std::mem::replace(&mut self.slots[at as usize], CallSlot::Free)
    }

    fn find(&self, key: OutgoingKey) -> Option<u32> {
        let is = |at: &u32| self.key(*at) == Some(key);
        let at = self.by_place.get(key.place()).copied().filter(is);
        at.or_else(|| self.displaced.get(&key).copied().filter(is))
    }
}

#[cfg(test)]
mod tests {
    use rescind_proto::{
        connection::{CallOptions, Connection, ConnectionConfig, ConnectionEvent},
        side::Side,
        time::Instant,
    };

    use super::*;

    #[test]
    fn a_place_given_to_another_request_loses_no_answer() {
        let mut conn = Connection::new(ConnectionConfig::new(Side::Client));
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
            if let ConnectionEvent::Settled { request: key, how } = event {
                slots.settle(key, how);
            }
        }
        assert!(slots.poll(old, Waker::noop(), &mut None).is_some());
        assert!(slots.poll(new, Waker::noop(), &mut None).is_none());
    }
}
