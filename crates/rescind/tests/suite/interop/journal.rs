//! What work tells of itself, in order, whoever does it.

use serde_json::Value;
use tokio::sync::mpsc;

/// One thing that happened to a piece of work.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) work: String,
    pub(crate) event: String,
    /// What more was told of it.
    pub(crate) more: Value,
}

/// What was told so far, and what will be.
pub(crate) struct Journal {
    told: mpsc::UnboundedReceiver<Entry>,
    read: Vec<Entry>,
}

/// Tells a journal.
#[derive(Clone)]
pub(crate) struct Teller(mpsc::UnboundedSender<Entry>);

pub(crate) fn journal() -> (Journal, Teller) {
    let (tell, told) = mpsc::unbounded_channel();
    (Journal { told, read: Vec::new() }, Teller(tell))
}

impl Journal {
    /// Waits until one of these events happened to `work`, and gives the first that did.
    pub(crate) async fn until(&mut self, work: &str, events: &[&str]) -> Entry {
        let is_it = |entry: &&Entry| entry.work == work && events.contains(&entry.event.as_str());
        if let Some(entry) = self.read.iter().find(is_it) {
            return entry.clone();
        }
        loop {
            let Some(entry) = self.told.recv().await else {
                panic!("{events:?} of {work} never came: {:#?}", self.read);
            };
            self.read.push(entry.clone());
            if is_it(&&entry) {
                return entry;
            }
        }
    }

    /// What happened to `work` so far.
    pub(crate) fn events(&mut self, work: &str) -> Vec<&str> {
        while let Ok(entry) = self.told.try_recv() {
            self.read.push(entry);
        }
        self.read.iter().filter(|entry| entry.work == work).map(|entry| entry.event.as_str()).collect()
    }
}

impl Teller {
    #[expect(clippy::print_stderr, reason = "captured, and shown of a test that failed")]
    pub(crate) fn tell(&self, work: &str, event: &str, more: Value) {
        eprintln!("{work}: {event} {more}");
        let entry = Entry { work: work.to_owned(), event: event.to_owned(), more };
        // A journal that nobody reads any more has heard enough.
        drop(self.0.send(entry));
    }
}
