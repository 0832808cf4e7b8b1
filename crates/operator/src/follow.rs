//! Follows every shim of the user: which there are, their events, and which are lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::{MissedTickBehavior, interval},
};

use super::{Directories, RawEvent, Shim, ShimError, ShimScan};

/// How often the directories are scanned, and shims that did not answer are asked again.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// The most shims followed at once.
const MAX_SHIMS: usize = 256;

/// The events of a user's shims, each beginning with a snapshot. Dropping it stops following.
///
/// A slow reader delays the shims' streams, with one event of each in memory. A shim whose stream is delayed too long
/// sends a new snapshot.
#[derive(Debug)]
pub struct Follow {
    events: mpsc::Receiver<FollowEvent>,
    task: AbortHandle,
}

/// A change of the user's sessions.
///
/// It never grows: whoever follows sessions must treat the list and each update, or shows what is no longer true.
#[derive(Debug)]
pub enum FollowEvent {
    /// The sessions found in the directories. Comes first, and again whenever it changes.
    Sessions(FoundSessions),
    /// An update of one session.
    Update {
        /// Its name.
        session: String,
        /// The update.
        update: SessionUpdate,
    },
}

/// The sessions found in the directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundSessions {
    /// Sessions that have a socket and are followed. An update of each follows soon.
    pub sessions: Vec<String>,
    /// Sockets and directories that are not used, and why.
    pub unused: Vec<String>,
}

/// An update of one session.
///
/// It never grows: an event that came and a link that was lost are all that following can bring.
#[derive(Debug)]
pub enum SessionUpdate {
    /// An event of its shim: `snapshot`, `changes` or `ended`.
    Event(RawEvent),
    /// Its shim sends no more events. It is asked again while its socket exists, and then begins with a snapshot.
    Lost(ShimError),
}

impl Follow {
    /// Follows the shims of `directories`. A session in `numbers` resumes after that event.
    ///
    /// A session that is in `numbers` but not in the directories is reported as lost.
    #[must_use]
    pub fn new(directories: Directories, numbers: BTreeMap<String, u64>) -> Self {
        let (sender, events) = mpsc::channel(1);
        let task = tokio::spawn(follow_all(directories, numbers, sender)).abort_handle();
        Self { events, task }
    }

    /// The next event. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<FollowEvent> {
        self.events.recv().await
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow_all(directories: Directories, mut numbers: BTreeMap<String, u64>, events: mpsc::Sender<FollowEvent>) {
    // Aborted together with this task.
    let mut followers = JoinSet::new();
    let mut followed = BTreeSet::new();
    let mut known = None;
    let mut scan = interval(SCAN_INTERVAL);
    scan.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(done) = followers.join_next() => if let Ok(session) = done {
                followed.remove::<String>(&session);
            },
            _ = scan.tick() => {
                let (mut found, mut begun) = (FoundSessions::default(), Vec::new());
                for shim in found.scan(&directories) {
                    if followed.len() < MAX_SHIMS && followed.insert(shim.name().to_owned()) {
                        begun.push(shim.clone());
                    }
                    if followed.contains(shim.name()) {
                        found.sessions.push(shim.name().to_owned());
                    }
                }
                // Before any update of a session.
                if known.as_ref() != Some(&found) {
                    known = Some(found.clone());
                    let _ = events.send(FollowEvent::Sessions(found)).await;
                }
                for shim in begun {
                    let since = numbers.remove(shim.name());
                    followers.spawn(follow(shim, since, events.clone()));
                }
                for (session, _) in std::mem::take(&mut numbers) {
                    let update = SessionUpdate::Lost(ShimError::Gone(std::io::ErrorKind::NotFound.into()));
                    let _ = events.send(FollowEvent::Update { session, update }).await;
                }
            }
        }
    }
}

impl FoundSessions {
    /// Finds shims, and records what is not used.
    fn scan(&mut self, directories: &Directories) -> Vec<Shim> {
        let scan = directories.scan().unwrap_or_else(|one| ShimScan { unusable: vec![one], ..ShimScan::default() });
        let sockets = scan.refused.iter().map(|(path, why)| format!("{}: {why}", path.display()));
        self.unused = scan.unusable.iter().map(ToString::to_string).chain(sockets).collect();
        scan.shims
    }
}

/// Passes on the events of a shim until there are no more. Returns its name.
async fn follow(shim: Shim, since: Option<u64>, output: mpsc::Sender<FollowEvent>) -> String {
    let session = shim.name().to_owned();
    let mut lost = match shim.events(since).await {
        Err(error) => Some(error),
        Ok(mut events) => loop {
            match events.next().await {
                Ok(Some(message)) => {
                    let last = message.kind == "ended";
                    // Events of other kinds are from newer shims, and unknown here.
                    if last || matches!(message.kind.as_str(), "snapshot" | "changes") {
                        let update = SessionUpdate::Event(message);
                        let _ = output.send(FollowEvent::Update { session: session.clone(), update }).await;
                    }
                    if last {
                        break None;
                    }
                }
                Ok(None) => break Some(ShimError::Gone(std::io::ErrorKind::UnexpectedEof.into())),
                Err(error) => break Some(error),
            }
        },
    };
    if let Some(error) = lost.take() {
        let _ = output.send(FollowEvent::Update { session: session.clone(), update: SessionUpdate::Lost(error) }).await;
    }
    session
}
