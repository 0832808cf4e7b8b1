//! The event stream of one browser.
//!
//! The `id` of each piece holds the last event number of every running session, `4711:17,4712:3`. A browser that
//! reconnects sends it and resumes each session. A slow browser costs two pieces here and one event of each session; after
//! that, the shims wait.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rescind_feed::Event;
use rescind_operator::{Follow, FollowEvent, FoundSessions, SessionUpdate, ShimError};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::{past, sources::SessionSources, work};

/// How often a stream without events sends a comment line.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The last event number seen of each session.
type Numbers = BTreeMap<String, u64>;

/// The browser has disconnected.
struct BrowserGone;

/// The writing end of a browser's event stream.
struct BrowserStream {
    pieces: mpsc::Sender<Bytes>,
    /// Of the sessions that the browser shows as running.
    numbers: Numbers,
    fleet: Fleet,
}

/// What is known about the sessions apart from their own events.
#[derive(Debug, Default)]
struct Fleet {
    found: FoundSessions,
    /// Sessions that have answered, or failed to.
    known: BTreeSet<String>,
    /// Sessions that do not answer, and why.
    silent: BTreeMap<String, String>,
    /// No running sessions are looked for.
    recorded: bool,
    /// The last summary sent to the browser.
    sent: String,
}

/// The summary for the page.
#[derive(Serialize)]
struct FleetSummary<'a> {
    /// How many sessions were found but have not answered yet.
    pending: usize,
    silent: &'a BTreeMap<String, String>,
    unused: &'a [String],
    /// All that is shown is recorded: nothing can be stopped, ended or waited for.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    recorded: bool,
}

impl Fleet {
    /// Whether every session that runs has answered, or failed to.
    fn is_known(&self) -> bool {
        !self.sent.is_empty() && self.found.sessions.iter().all(|session| self.known.contains(session))
    }

    /// Returns the summary if it has changed.
    fn summary(&mut self) -> Option<&str> {
        let Self { found: FoundSessions { sessions, unused }, known, silent, recorded, sent } = self;
        known.retain(|session| sessions.contains(session));
        silent.retain(|session, _| sessions.contains(session));
        let pending = sessions.len() - known.len();
        let summary = FleetSummary { pending, silent, unused, recorded: *recorded };
        let summary = serde_json::to_string(&summary).unwrap_or_default();
        if summary == *sent {
            return None;
        }
        *sent = summary;
        Some(sent)
    }
}

#[derive(Serialize)]
struct PieceData<'a> {
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    /// It is of the history: the session had ended before.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    past: bool,
}

impl<'a> PieceData<'a> {
    fn of(session: &'a str) -> Self {
        Self { session, event: None, why: None, past: false }
    }
}

/// Opens the event stream of one browser, which resumes after the piece with the id `last_seen`.
pub(super) fn open(sources: Arc<SessionSources>, last_seen: &str) -> mpsc::Receiver<Bytes> {
    let (pieces, receiver) = mpsc::channel(1);
    let mut stream = BrowserStream::new(pieces.clone(), numbers(last_seen));
    tokio::spawn(async move {
        tokio::select! {
            () = pieces.closed() => {}
            _ = stream.run(&sources) => {}
        }
    });
    receiver
}

/// Parses the id of a piece. Invalid entries are left out, so that session begins with a snapshot.
fn numbers(id: &str) -> Numbers {
    let one = |entry: &str| {
        let (name, number) = entry.rsplit_once(':')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    id.split(',').filter_map(one).collect()
}

impl BrowserStream {
    fn new(pieces: mpsc::Sender<Bytes>, numbers: Numbers) -> Self {
        // A browser that reconnects knows these sessions, and gets only what it missed.
        let known = numbers.keys().cloned().collect();
        Self { pieces, numbers, fleet: Fleet { known, ..Fleet::default() } }
    }

    async fn run(&mut self, sources: &SessionSources) -> Result<(), BrowserGone> {
        if sources.directories.is_none() {
            // Before the recordings, so that the page never offers to stop them.
            self.fleet.recorded = true;
            self.send_summary().await?;
        }
        for recording in &sources.recordings {
            self.play(PieceData::of(recording.name()), recording.events()).await?;
        }
        // A browser that reconnects has it.
        let mut history = sources.history.clone().filter(|_| self.numbers.is_empty());
        let mut follow = sources.directories.clone().map(|all| Follow::new(all, self.numbers.clone()));
        let mut keep_alive = interval(KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // After the sessions that run: they come first, and names are theirs.
            if self.fleet.is_known()
                && let Some(folder) = history.take()
            {
                let running = self.fleet.found.sessions.iter().cloned().collect();
                let read = tokio::task::spawn_blocking(move || past::sessions(&folder, running));
                for (name, events) in read.await.unwrap_or_default() {
                    self.play(PieceData { past: true, ..PieceData::of(&name) }, events).await?;
                }
            }
            tokio::select! {
                _ = keep_alive.tick() => self.pieces.send(Bytes::from_static(b":\n\n")).await.map_err(|_| BrowserGone)?,
                Some(event) = next(follow.as_mut()) => self.receive(event).await?,
            }
        }
    }

    async fn receive(&mut self, event: FollowEvent) -> Result<(), BrowserGone> {
        match event {
            FollowEvent::Sessions(found) => self.fleet.found = found,
            FollowEvent::Update { session, update } => {
                self.fleet.known.insert(session.clone());
                match &update {
                    SessionUpdate::Event(_) | SessionUpdate::Lost(ShimError::Gone(_)) => {
                        self.fleet.silent.remove(&session)
                    }
                    SessionUpdate::Lost(error) => self.fleet.silent.insert(session.clone(), error.to_string()),
                };
                self.receive_update(session, update).await?;
            }
        }
        self.send_summary().await
    }

    async fn send_summary(&mut self) -> Result<(), BrowserGone> {
        match self.fleet.summary().map(|summary| format!("event: fleet\ndata: {summary}\n\n")) {
            Some(piece) => self.pieces.send(piece.into()).await.map_err(|_| BrowserGone),
            None => Ok(()),
        }
    }

    async fn receive_update(&mut self, session: String, update: SessionUpdate) -> Result<(), BrowserGone> {
        let message = match update {
            SessionUpdate::Event(message) => message,
            SessionUpdate::Lost(error) => return self.lose(&session, &error.to_string()).await,
        };
        match message.number.filter(|_| message.kind != "ended") {
            Some(number) => self.numbers.insert(session.clone(), number),
            None => self.numbers.remove(&session),
        };
        match work::explained(&message.data) {
            Ok(event) => {
                let data = PieceData { event: Some(&event), ..PieceData::of(&session) };
                self.send(&message.kind, &data).await
            }
            Err(error) => self.lose(&session, &format!("sent an invalid event: {error}")).await,
        }
    }

    /// Reports a session as gone, if the browser shows it as running.
    async fn lose(&mut self, session: &str, why: &str) -> Result<(), BrowserGone> {
        match self.numbers.remove(session) {
            Some(_) => self.send("gone", &PieceData { why: Some(why), ..PieceData::of(session) }).await,
            None => Ok(()),
        }
    }

    /// Sends a whole session, such as a recording. It has no event numbers, so a browser that reconnects gets it again.
    async fn play(&self, session: PieceData<'_>, events: impl IntoIterator<Item = Event>) -> Result<(), BrowserGone> {
        for event in events {
            let kind = event.kind();
            let explained = serde_json::to_string(&event).and_then(|event| work::explained(&event));
            if let Ok(event) = explained {
                self.send(kind, &PieceData { event: Some(&event), ..session }).await?;
            }
        }
        Ok(())
    }

    async fn send(&self, kind: &str, data: &PieceData<'_>) -> Result<(), BrowserGone> {
        self.pieces.send(self.piece(kind, data).into()).await.map_err(|_| BrowserGone)
    }

    fn piece(&self, kind: &str, data: &PieceData<'_>) -> String {
        let mut piece = format!("event: {kind}\nid: ");
        for (n, (name, number)) in self.numbers.iter().enumerate() {
            let _ = write!(piece, "{}{name}:{number}", if n == 0 { "" } else { "," });
        }
        // A line break is white space in JSON, but would end the line here.
        let data = serde_json::to_string(data).unwrap_or_default().replace(['\n', '\r'], " ");
        let _ = write!(piece, "\ndata: {data}\n\n");
        piece
    }
}

/// The next event of the shims, if any are followed.
async fn next(follow: Option<&mut Follow>) -> Option<FollowEvent> {
    match follow {
        Some(follow) => follow.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rescind_operator::RawEvent;

    fn event(session: &str, kind: &str, number: u64, data: &str) -> FollowEvent {
        let message = RawEvent { kind: kind.into(), number: Some(number), data: data.into() };
        FollowEvent::Update { session: session.into(), update: SessionUpdate::Event(message) }
    }

    fn silent(session: &str) -> FollowEvent {
        FollowEvent::Update { session: session.into(), update: SessionUpdate::Lost(ShimError::NotAnswering) }
    }

    fn found(sessions: &[&str]) -> FollowEvent {
        let sessions = sessions.iter().map(|name| (*name).to_owned()).collect();
        FollowEvent::Sessions(FoundSessions { sessions, unused: Vec::new() })
    }

    fn stream(last_seen: &str) -> (BrowserStream, mpsc::Receiver<Bytes>) {
        let (pieces, receiver) = mpsc::channel(16);
        (BrowserStream::new(pieces, numbers(last_seen)), receiver)
    }

    #[tokio::test]
    async fn a_piece_says_where_every_session_is() {
        let (mut stream, mut pieces) = stream("");
        let events = [
            event("4711", "snapshot", 17, "{\"seq\":\n17}"),
            event("4712", "changes", 3, "{}"),
            event("4711", "ended", 18, "{}"),
            silent("4711"),
            silent("4712"),
        ];
        for event in events {
            let FollowEvent::Update { session, update } = event else { continue };
            assert!(stream.receive_update(session, update).await.is_ok());
        }
        let expected = [
            "event: snapshot\nid: 4711:17\ndata: {\"session\":\"4711\",\"event\":{\"seq\": 17}}\n\n",
            "event: changes\nid: 4711:17,4712:3\ndata: {\"session\":\"4712\",\"event\":{}}\n\n",
            "event: ended\nid: 4712:3\ndata: {\"session\":\"4711\",\"event\":{}}\n\n",
            "event: gone\nid: \ndata: {\"session\":\"4712\",\"why\":\"not answering\"}\n\n",
        ];
        for piece in expected {
            assert_eq!(pieces.recv().await.unwrap(), piece);
        }
        assert!(pieces.is_empty());
    }

    /// The page folds it, and does not ask for what the history does not keep.
    #[tokio::test]
    async fn a_session_of_the_history_says_so_in_each_of_its_pieces() {
        let (stream, mut pieces) = stream("");
        let ended = Event::Ended(rescind_feed::Ended { seq: 2, now: 7, how: rescind_feed::End::ExitCode(0) });
        let past = PieceData { past: true, ..PieceData::of("4711") };
        assert!(stream.play(past, [ended.clone()]).await.is_ok());
        let piece = String::from_utf8(pieces.recv().await.unwrap().to_vec()).unwrap();
        assert!(piece.starts_with("event: ended\n") && piece.ends_with(",\"past\":true}\n\n"), "{piece}");
        assert!(stream.play(PieceData::of("a recording"), [ended]).await.is_ok());
        let piece = String::from_utf8(pieces.recv().await.unwrap().to_vec()).unwrap();
        assert!(!piece.contains("past"), "{piece}");
    }

    /// Until every session has answered or failed to, the page must not say that there are none.
    #[tokio::test]
    async fn a_page_knows_how_many_sessions_have_not_answered_yet_and_which_do_not() {
        let (mut stream, mut pieces) = stream("4713:9");
        let mut summaries = async |event: FollowEvent| {
            assert!(stream.receive(event).await.is_ok());
            let mut sent = Vec::new();
            while let Ok(piece) = pieces.try_recv() {
                let text = String::from_utf8(piece.to_vec()).unwrap();
                sent.extend(text.strip_prefix("event: fleet\ndata: ").map(|data| data.trim_end().to_owned()));
            }
            sent
        };
        let summary = |pending, silent| format!(r#"{{"pending":{pending},"silent":{{{silent}}},"unused":[]}}"#);
        assert_eq!(summaries(found(&["4711", "4712", "4713"])).await, [summary(2, "")]);
        assert_eq!(summaries(event("4711", "snapshot", 1, "{}")).await, [summary(1, "")]);
        let one = r#""4712":"not answering""#;
        assert_eq!(summaries(silent("4712")).await, [summary(0, one)]);
        assert!(summaries(silent("4712")).await.is_empty());
        assert_eq!(summaries(event("4712", "snapshot", 1, "{}")).await, [summary(0, "")]);
        assert_eq!(summaries(silent("4711")).await, [summary(0, r#""4711":"not answering""#)]);
        assert_eq!(summaries(found(&["4712"])).await, [summary(0, "")]);
    }

    #[test]
    fn what_a_browser_sends_back_may_be_anything() {
        let expected = Numbers::from([("4711".into(), 17), ("a:b".into(), 3)]);
        assert_eq!(numbers("4711:17,x,:,9:-1,a:b:3,1:99999999999999999999999"), expected);
        assert_eq!(numbers(""), Numbers::new());
    }
}
