//! Turns the lines of a recording into requests.
//!
//! A request appears twice, as in the shim: on its requester's link under the requester's id, and on the other link under
//! the upstream id. The line that opens it names both.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
};

use rescind_feed::{Cancel, End, Progress, Request};
use rescind_proto::{
    dialect::Dialect,
    id::RequestId,
    link::{LateKind, RequestKey},
    monitor::{EarlyCancelLimits, Monitor, MonitorConfig, MonitorEvent, ObservedEnd},
    side::{Side, Sides},
    time::Instant,
};

use super::{
    child,
    entry::{LinePosition, RequestEntry, cancel, text},
    line::RecordedLine,
    task,
};

/// How many requests back to look for an earlier one with the same id.
const MAX_LOOK_BACK: usize = 1000;

/// The state after the lines read so far.
#[derive(Debug)]
pub(super) struct Replay {
    /// By the side of the shim.
    links: Sides<LinkReplay>,
    /// By the number of their `opened` line.
    entries: BTreeMap<u64, RequestEntry>,
    opened: Sides<u64>,
    next: u64,
    /// The newest request of each id and side.
    newest: HashMap<(Side, RequestId), u64>,
    /// Requests not seen on the other link yet, by their upstream ids.
    awaited: HashMap<(Side, RequestId), u64>,
    /// The position of the last message received, who sent it, and the requests in it.
    arrived: Option<LinePosition>,
    arrived_from: Side,
    just_arrived: Vec<RequestKey>,
    /// Settled requests, in the order in which they settled.
    settled: VecDeque<u64>,
    keep: usize,
    pub(super) left_out: u64,
    pub(super) now: u64,
    pub(super) is_complete: bool,
    end: End,
    has_server_ended: bool,
    /// What was learnt last of the cancels of tasks, by their ids.
    task_cancels: HashMap<RequestId, Cancel>,
}

/// One link of the shim.
#[derive(Debug)]
struct LinkReplay {
    monitor: Monitor,
    known: HashMap<RequestKey, u64>,
}

impl Replay {
    pub(super) fn new(dialects: Sides<Option<&'static Dialect>>, keep: usize) -> Self {
        let link = |side| {
            // As many as any shim holds.
            let early_cancels = EarlyCancelLimits::OWN_CLIENT;
            let dialect = dialects[side];
            // Nobody who wrote ids into a recording knows it.
            let seed = RandomState::new().hash_one(0);
            let monitor = Monitor::new(MonitorConfig { dialect, early_cancels, seed, ..MonitorConfig::default() });
            LinkReplay { monitor, known: HashMap::new() }
        };
        Self {
            links: Sides::from_fn(link),
            entries: BTreeMap::new(),
            opened: Sides::default(),
            next: 0,
            newest: HashMap::new(),
            awaited: HashMap::new(),
            arrived: None,
            arrived_from: Side::Client,
            just_arrived: Vec::new(),
            settled: VecDeque::new(),
            keep,
            left_out: 0,
            now: 0,
            is_complete: false,
            end: End::Unknown,
            has_server_ended: false,
            task_cancels: HashMap::new(),
        }
    }

    /// Handles the next line.
    pub(super) fn receive(&mut self, line: &RecordedLine<'_>, position: LinePosition) {
        self.now = self.now.max(line.t);
        match &*line.kind {
            "frame" => self.receive_frame(line, position),
            "opened" => self.open(line),
            "part_of" => self.join(line),
            "settled" => self.settle(line),
            "receipt" => self.receive_receipt(line),
            "stuck" => {
                if let Some(entry) = self.named(line) {
                    entry.is_stuck = true;
                }
            }
            "task" => {
                if let (Some(task), Some(entry)) = (line.task.as_deref(), self.named(line)) {
                    entry.task = Some(text(task));
                }
            }
            "server_ended" => {
                self.end = match (line.exit_code, line.signal) {
                    (Some(code), _) => End::ExitCode(code),
                    (None, Some(signal)) => End::Signal(signal),
                    (None, None) => End::Unknown,
                };
                self.has_server_ended = true;
                self.entries.values_mut().for_each(RequestEntry::end);
            }
            "end" => self.is_complete = true,
            _ => {}
        }
    }

    /// How the session ended. Known only if the recording is complete.
    pub(super) const fn end(&self) -> End {
        if self.is_complete { self.end } else { End::Unknown }
    }

    pub(super) fn in_flight(&self) -> u64 {
        let children = self.monitor(Side::Server).children().filter(|child| child.state.is_open());
        let tasks = self.monitor(Side::Server).tasks().filter(|task| !task.is_over && !self.has_server_ended);
        let requests = self.entries.values().filter(|entry| entry.settled.is_none());
        (requests.count() + children.count() + tasks.count()) as u64
    }

    pub(super) const fn monitor(&self, side: Side) -> &Monitor {
        match side {
            Side::Client => &self.links.client.monitor,
            Side::Server => &self.links.server.monitor,
        }
    }

    /// The requests, in the order of their opening, and then the children of ACP sessions and the tasks at work.
    pub(super) fn into_requests(self) -> Vec<(Request, Vec<LinePosition>)> {
        let LinkReplay { monitor, known } = &self.links[Side::Server];
        let name = |turn: RequestKey| Some(self.entries.get(known.get(&turn)?)?.key.clone());
        let children = monitor
            .children()
            .map(|view| (child::record(&view, view.turn.and_then(name), self.has_server_ended), Vec::new()));
        let tasks = monitor.tasks().enumerate().map(|(number, view)| {
            let cancel = self.task_cancels.get(&RequestId::string(&view.id)).cloned();
            (task::record(number, &view, cancel, self.has_server_ended), Vec::new())
        });
        let others: Vec<_> = children.chain(tasks).collect();
        self.entries.into_values().map(RequestEntry::into_record).chain(others).collect()
    }

    fn receive_frame(&mut self, line: &RecordedLine<'_>, position: LinePosition) {
        let Some(bytes) = line.frame() else { return };
        let (link, from) = match line.hop.as_deref() {
            Some("from_client") => (Side::Client, Side::Client),
            Some("to_client") => (Side::Client, Side::Server),
            Some("from_server") => (Side::Server, Side::Server),
            Some("to_server") => (Side::Server, Side::Client),
            Some(_) | None => return,
        };
        let arrived = (link == from).then_some(position);
        if arrived.is_some() {
            self.just_arrived.clear();
            self.arrived = arrived;
            self.arrived_from = from;
        }
        let at = Instant::after_origin(core::time::Duration::from_micros(self.now));
        self.links[link].monitor.handle_input(at, from, &bytes);
        while let Some(event) = self.links[link].monitor.poll_event() {
            self.receive_event(link, &event, arrived);
        }
    }

    fn receive_event(&mut self, link: Side, event: &MonitorEvent, arrived: Option<LinePosition>) {
        let request = match event {
            MonitorEvent::Opened { request, .. } if request.from == link => return self.just_arrived.push(*request),
            MonitorEvent::Opened { request, .. } => return self.reached(link, *request),
            MonitorEvent::Progress { request, .. }
            | MonitorEvent::Settled { request, .. }
            | MonitorEvent::Late { request, .. }
            | MonitorEvent::Task { request, .. } => *request,
            MonitorEvent::Cancel(seen) => match seen.request {
                Some(request) => request,
                None => return,
            },
            MonitorEvent::Receipt { .. }
            | MonitorEvent::Duplicate { .. }
            | MonitorEvent::Reused { .. }
            | MonitorEvent::Unasked { .. }
            | MonitorEvent::StrayProgress { .. }
            | MonitorEvent::Batch { .. }
            | MonitorEvent::Rejected { .. }
            | MonitorEvent::Dialect { .. }
            | MonitorEvent::Ended { .. } => return,
        };
        let LinkReplay { monitor, known } = &self.links[link];
        let Some(entry) = known.get(&request).and_then(|number| self.entries.get_mut(number)) else { return };
        if let Some(position) = arrived {
            entry.note(position);
        }
        // On its requester's link, the shim's own lines count.
        let Some(view) = monitor.request(request).filter(|_| request.from != link) else { return };
        let is_over = entry.settled.is_some();
        entry.progress = view.progress.map(|progress| Progress {
            at: progress.at.since_origin().as_micros() as u64,
            count: progress.count,
            progress: progress.done,
            total: progress.total,
            message: progress.message.as_deref().map(text),
        });
        entry.answer = view.answer;
        if let Some(task) = view.task {
            entry.task = Some(text(task));
        }
        // What arrives after the request has ended for its requester is late, whatever the other link says.
        let late = if let MonitorEvent::Late { what, again, .. } = event {
            (is_over || *again).then_some(*what)
        } else if let MonitorEvent::Progress { .. } = event {
            (is_over && view.over.is_none()).then_some(LateKind::Progress)
        } else if let MonitorEvent::Settled { how: ObservedEnd::Answered(_), .. } = event {
            is_over.then_some(LateKind::Result)
        } else {
            None
        };
        if let Some(late) = late {
            entry.late.at = self.now;
            match late {
                LateKind::Result | LateKind::Error => entry.late.answers += 1,
                LateKind::Progress | LateKind::Subscription => entry.late.notices += 1,
            }
        }
    }

    /// Handles an `opened` line: the request arrived in the message before it. Work that is followed without a request of its
    /// own (D55, D58) came to light by a message of the server.
    fn open(&mut self, line: &RecordedLine<'_>) {
        let (Some((from, id)), Some(upstream)) = (line.request(), line.upstream()) else { return };
        let number = self.next;
        self.next += 1;
        self.opened[from] += 1;
        let letter = match from {
            Side::Client => 'c',
            Side::Server => 's',
        };
        let is_work = from == Side::Client && self.arrived_from == Side::Server;
        let upstream = if is_work { id.clone() } else { upstream };
        let mut entry =
            RequestEntry::new(format!("{letter}{}", self.opened[from]), from, id.clone(), upstream.clone(), line);
        entry.is_work = is_work;
        entry.started_by = self.newest.get(&(from, id.clone())).copied().filter(|_| is_work);
        let LinkReplay { monitor, known } = &mut self.links[from];
        let mut arrived = self.just_arrived.iter().copied().filter_map(|key| monitor.request(key));
        if let Some(view) = arrived.rfind(|view| *view.id == id) {
            entry.name = view.name.as_deref().map(text);
            entry.near = Some(view.key);
            known.insert(view.key, number);
            self.arrived.into_iter().for_each(|position| entry.note(position));
        }
        self.newest.insert((from, id), number);
        if !is_work {
            self.awaited.insert((from, upstream), number);
        }
        self.entries.insert(number, entry);
        if self.entries.len() > self.keep {
            self.evict_one();
        }
    }

    /// Handles a request of the other side that was written to this link.
    fn reached(&mut self, link: Side, request: RequestKey) {
        let LinkReplay { monitor, .. } = &self.links[link];
        let Some(view) = monitor.request(request) else { return };
        let Some(number) = self.awaited.remove(&(request.from, view.id.clone())) else { return };
        let parent = view.parent.and_then(|parent| self.links[link].known.get(&parent)).copied();
        let parent = parent.and_then(|parent| Some(self.entries.get(&parent)?.key.clone()));
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.far = Some(request);
        // The shim's own line knows better.
        entry.parent = entry.parent.take().or(parent);
        self.links[link].known.insert(request, number);
    }

    /// Handles a `part_of` line.
    fn join(&mut self, line: &RecordedLine<'_>) {
        let parent = line.parent().and_then(|parent| self.entries.get(self.newest.get(&parent)?));
        let Some(parent) = parent.map(|parent| parent.key.clone()) else { return };
        if let Some(entry) = self.named(line).filter(|entry| entry.key != parent) {
            entry.parent = Some(parent);
        }
    }

    fn settle(&mut self, line: &RecordedLine<'_>) {
        let Some(number) = line.request().and_then(|request| self.newest.get(&request).copied()) else { return };
        let is_open = |number: &u64| self.entries.get(number).is_some_and(|entry| entry.settled.is_none());
        let started_by = self.entries.get(&number).and_then(|entry| entry.started_by);
        let number = started_by.filter(is_open).unwrap_or(number);
        let Some(entry) = self.entries.get_mut(&number).filter(|entry| entry.settled.is_none()) else { return };
        entry.settle(line);
        self.settled.push_back(number);
    }

    fn receive_receipt(&mut self, line: &RecordedLine<'_>) {
        let Some(request) = line.request() else { return };
        let is_that =
            |entry: &RequestEntry| entry.cancel.as_ref().is_some_and(|cancel| Some(cancel.asked) == line.asked);
        let Some(newest) = self.newest.get(&request).copied() else {
            return self.receive_task_receipt(&request.1, line);
        };
        let is_earlier = |entry: &RequestEntry| line.asked.is_some_and(|asked| asked < entry.since);
        let fits = |entry: &RequestEntry| entry.cancel.as_ref().map_or_else(|| !is_earlier(entry), |_| is_that(entry));
        // If the id was reused, the time of the cancel identifies the request.
        let number = if self.entries.get(&newest).is_some_and(fits) {
            newest
        } else {
            let mut back = self.entries.range(..=newest).rev().take(MAX_LOOK_BACK);
            let found = back.find(|(_, entry)| entry.from == request.0 && entry.id == request.1 && is_that(entry));
            found.map_or(newest, |(number, _)| *number)
        };
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let link = &self.links[entry.from.other()].monitor;
        let view = entry.far.and_then(|far| link.request(far));
        entry.receive_receipt(line, view.map_or_else(|| link.dialect(), |view| view.dialect));
    }

    /// A receipt that belongs to none of the requests may be a task's.
    fn receive_task_receipt(&mut self, id: &RequestId, line: &RecordedLine<'_>) {
        let link = &self.links[Side::Server].monitor;
        let is_task = link.tasks().any(|task| RequestId::string(&task.id) == *id);
        if let Some(cancel) = cancel(line, link.dialect()).filter(|_| is_task) {
            self.task_cancels.insert(id.clone(), cancel);
        }
    }

    fn named(&mut self, line: &RecordedLine<'_>) -> Option<&mut RequestEntry> {
        let number = self.newest.get(&line.request()?)?;
        self.entries.get_mut(number)
    }

    /// Evicts the request that settled first, or the oldest if none has settled.
    fn evict_one(&mut self) {
        let oldest = self.entries.keys().next().copied();
        let Some(number) = self.settled.pop_front().or(oldest) else { return };
        let Some(entry) = self.entries.remove(&number) else { return };
        self.left_out += 1;
        for (side, key) in [(entry.from, entry.near), (entry.from.other(), entry.far)] {
            if let Some(key) = key {
                self.links[side].known.remove(&key);
            }
        }
        for (map, id) in [(&mut self.newest, entry.id), (&mut self.awaited, entry.upstream)] {
            let named = (entry.from, id);
            if map.get(&named) == Some(&number) {
                map.remove(&named);
            }
        }
    }
}
