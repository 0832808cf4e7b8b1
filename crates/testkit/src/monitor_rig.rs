//! A monitor on a test bench: both sides of its link in the test's hands, time in its fingers.

use core::time::Duration;

use rescind_proto::{
    link::Verdict,
    monitor::{Monitor, MonitorConfig, MonitorEvent, ObservedEnd, ObservedRequest},
    receipt::Outcome,
    side::Side,
    time::Instant,
};

/// A monitor and a clock.
#[derive(Clone, Debug)]
pub struct MonitorRig {
    /// The machine.
    pub monitor: Monitor,
    /// The clock.
    pub now: Instant,
    /// Everything it has told so far.
    pub events: Vec<MonitorEvent>,
}

impl MonitorRig {
    /// A monitor with these settings.
    pub fn new(config: MonitorConfig) -> Self {
        Self { monitor: Monitor::new(config), now: Instant::ORIGIN, events: Vec::new() }
    }

    /// One message from the client.
    pub fn client(&mut self, body: &str) {
        self.send(Side::Client, body);
    }

    /// One message from the server.
    pub fn server(&mut self, body: &str) {
        self.send(Side::Server, body);
    }

    /// One message from `side`.
    pub fn send(&mut self, side: Side, body: &str) {
        self.monitor.handle_frame(self.now, side, body.as_bytes());
        self.collect();
    }

    /// `side` ends.
    pub fn end(&mut self, side: Side) {
        self.monitor.handle_eof(self.now, side);
        self.collect();
    }

    /// So many milliseconds pass.
    pub fn pass(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    /// Nothing happens, and the monitor is told so.
    pub fn idle(&mut self) {
        self.monitor.handle_timeout(self.now);
        self.collect();
    }

    /// The newest request that `from` calls `id`.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn request(&self, from: Side, id: &str) -> ObservedRequest<'_> {
        let all = self.monitor.requests(from).chain(self.monitor.remembered(from));
        let named = all.filter(|view| view.id.to_string() == id);
        named.max_by_key(|view| (view.over.is_none(), view.since)).unwrap_or_else(|| panic!("no request {id}"))
    }

    /// What is known of the cancel of that request.
    #[must_use]
    pub fn outcome(&self, from: Side, id: &str) -> Option<Outcome> {
        self.request(from, id).cancel.map(|receipt| receipt.outcome)
    }

    /// How that request ended; `None` while it is in flight.
    #[must_use]
    pub fn settled(&self, from: Side, id: &str) -> Option<ObservedEnd> {
        self.request(from, id).over.map(|(_, how)| how)
    }

    /// What each cancel was.
    #[must_use]
    pub fn verdicts(&self) -> Vec<Verdict> {
        let cancel =
            |event: &MonitorEvent| if let MonitorEvent::Cancel(seen) = event { Some(seen.verdict) } else { None };
        self.events.iter().filter_map(cancel).collect()
    }

    /// How many events `is` like this.
    #[must_use]
    pub fn count(&self, is: impl Fn(&MonitorEvent) -> bool) -> usize {
        self.events.iter().filter(|event| is(event)).count()
    }

    fn collect(&mut self) {
        self.events.extend(core::iter::from_fn(|| self.monitor.poll_event()));
    }
}
