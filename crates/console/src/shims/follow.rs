//! Every shim of the user in one stream: which there are, what they tell, and which are lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::{MissedTickBehavior, interval},
};

use super::{Directories, Look, Message, Shim, ShimError};

/// How often the directories are looked at, and a shim that did not answer is asked again.
const LOOK: Duration = Duration::from_secs(1);

/// How many shims are followed at once.
const MAX_SHIMS: usize = 256;

/// What the shims of a user tell, each from its snapshot on. Dropped, it follows none of them any more.
///
/// A slow reader holds the shims' streams back, one event for each of them; a shim whose stream is not read tells
/// everything anew later.
#[derive(Debug)]
pub struct Follow {
    news: mpsc::Receiver<News>,
    task: AbortHandle,
}

/// News of the user's sessions.
#[derive(Debug)]
pub enum News {
    /// The first, and again whenever it changes: what was found in the directories.
    Found(Found),
    /// One session.
    Of {
        /// Its name.
        session: String,
        /// What there is to tell.
        told: Told,
    },
}

/// What was found in the directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The sessions that have a socket and are followed. Each of them is told of, or lost, soon.
    pub sessions: Vec<String>,
    /// What is not used, and why.
    pub unused: Vec<String>,
}

/// What there is to tell of a session.
#[derive(Debug)]
pub enum Told {
    /// An event of its shim: `snapshot`, `changes` or `ended`.
    Event(Message),
    /// Its shim tells nothing more. It is asked again as long as its socket is there, and then begins with a snapshot.
    Lost(ShimError),
}

impl Follow {
    /// Follows the shims of `directories`, going on after the last numbers known of each, where they are given.
    ///
    /// A session that is in `numbers` and not in the directories is told of as lost.
    #[must_use]
    pub fn new(directories: Directories, numbers: BTreeMap<String, u64>) -> Self {
        let (sender, news) = mpsc::channel(1);
        let task = tokio::spawn(follow_all(directories, numbers, sender)).abort_handle();
        Self { news, task }
    }

    /// The next news. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<News> {
        self.news.recv().await
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow_all(directories: Directories, mut numbers: BTreeMap<String, u64>, news: mpsc::Sender<News>) {
    // Aborted with this task.
    let mut followers = JoinSet::new();
    let mut followed = BTreeSet::new();
    let mut known = None;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(done) = followers.join_next() => if let Ok(session) = done {
                followed.remove::<String>(&session);
            },
            _ = look.tick() => {
                let (mut found, mut begun) = (Found::default(), Vec::new());
                for shim in found.look(&directories) {
                    if followed.len() < MAX_SHIMS && followed.insert(shim.name().to_owned()) {
                        begun.push(shim.clone());
                    }
                    if followed.contains(shim.name()) {
                        found.sessions.push(shim.name().to_owned());
                    }
                }
                // Before the first word of any of them.
                if known.as_ref() != Some(&found) {
                    known = Some(found.clone());
                    let _ = news.send(News::Found(found)).await;
                }
                for shim in begun {
                    let since = numbers.remove(shim.name());
                    followers.spawn(follow(shim, since, news.clone()));
                }
                for (session, _) in std::mem::take(&mut numbers) {
                    let told = Told::Lost(ShimError::Gone(std::io::ErrorKind::NotFound.into()));
                    let _ = news.send(News::Of { session, told }).await;
                }
            }
        }
    }
}

impl Found {
    /// Looks for shims, and notes what is not used.
    fn look(&mut self, directories: &Directories) -> Vec<Shim> {
        let look = directories.look().unwrap_or_else(|one| Look { unusable: vec![one], ..Look::default() });
        let sockets = look.refused.iter().map(|(path, why)| format!("{}: {why}", path.display()));
        self.unused = look.unusable.iter().map(ToString::to_string).chain(sockets).collect();
        look.shims
    }
}

/// Passes on what a shim tells until it tells nothing more; gives its name back.
async fn follow(shim: Shim, since: Option<u64>, news: mpsc::Sender<News>) -> String {
    let session = shim.name().to_owned();
    let mut lost = match shim.events(since).await {
        Err(error) => Some(error),
        Ok(mut events) => loop {
            match events.next().await {
                Ok(Some(message)) => {
                    let last = message.kind == "ended";
                    // What newer shims tell besides is nothing that is known here.
                    if last || matches!(message.kind.as_str(), "snapshot" | "changes") {
                        let told = Told::Event(message);
                        let _ = news.send(News::Of { session: session.clone(), told }).await;
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
        let _ = news.send(News::Of { session: session.clone(), told: Told::Lost(error) }).await;
    }
    session
}
