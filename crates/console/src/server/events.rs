//! One stream for a browser.
//!
//! A piece's `id` holds the last number of every session that runs, `4711:17,4712:3`, so that a browser that reconnects
//! with it goes on in each of them. One piece waits for the browser and one is held here; then the shims wait. So a
//! browser that reads slowly costs two events, and one for each session.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rescind_feed::Event;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::sources::Sources;
use crate::{
    Recording,
    shims::{Follow, Found, News, ShimError, Told},
};

/// How often a stream with nothing to tell shows that it is alive.
const BREATH: Duration = Duration::from_secs(15);

/// Where to go on: the last number seen of each session.
type Numbers = BTreeMap<String, u64>;

/// The browser is gone.
struct Closed;

/// The writing end of a browser's stream.
struct Stream {
    pieces: mpsc::Sender<Bytes>,
    /// Of the sessions that the browser takes for running.
    numbers: Numbers,
    fleet: Fleet,
}

/// What is known of the sessions beyond what each tells of itself.
#[derive(Debug, Default)]
struct Fleet {
    found: Found,
    /// Those of which something is known, if only that they do not answer.
    known: BTreeSet<String>,
    /// Those that are there and do not answer, and why.
    silent: BTreeMap<String, String>,
    /// What the browser was told last.
    told: String,
}

/// What a page says of them.
#[derive(Serialize)]
struct Summary<'a> {
    /// How many were found of which nothing is known yet.
    pending: usize,
    silent: &'a BTreeMap<String, String>,
    unused: &'a [String],
}

impl Fleet {
    /// What is new to tell, if anything is.
    fn news(&mut self) -> Option<&str> {
        let Self { found: Found { sessions, unused }, known, silent, told } = self;
        known.retain(|session| sessions.contains(session));
        silent.retain(|session, _| sessions.contains(session));
        let summary = Summary { pending: sessions.len() - known.len(), silent, unused };
        let summary = serde_json::to_string(&summary).unwrap_or_default();
        if summary == *told {
            return None;
        }
        *told = summary;
        Some(told)
    }
}

#[derive(Serialize)]
struct Data<'a> {
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

/// Everything that happens from now on, in pieces for one browser, going on after `last_seen`, the id of a piece.
pub(super) fn open(sources: Arc<Sources>, last_seen: &str) -> mpsc::Receiver<Bytes> {
    let (pieces, receiver) = mpsc::channel(1);
    let mut stream = Stream::new(pieces.clone(), numbers(last_seen));
    tokio::spawn(async move {
        tokio::select! {
            () = pieces.closed() => {}
            _ = stream.run(&sources) => {}
        }
    });
    receiver
}

/// Reads what a browser sends back. What makes no sense is left out: that session begins anew.
fn numbers(id: &str) -> Numbers {
    let one = |entry: &str| {
        let (name, number) = entry.rsplit_once(':')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    id.split(',').filter_map(one).collect()
}

impl Stream {
    fn new(pieces: mpsc::Sender<Bytes>, numbers: Numbers) -> Self {
        // A browser that comes back knows these, and is told of them only what it missed.
        let known = numbers.keys().cloned().collect();
        Self { pieces, numbers, fleet: Fleet { known, ..Fleet::default() } }
    }

    async fn run(&mut self, sources: &Sources) -> Result<(), Closed> {
        for recording in &sources.recordings {
            self.play(recording).await?;
        }
        let mut follow = sources.directories.clone().map(|all| Follow::new(all, self.numbers.clone()));
        let mut breath = interval(BREATH);
        breath.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = breath.tick() => self.pieces.send(Bytes::from_static(b":\n\n")).await.map_err(|_| Closed)?,
                Some(news) = next(follow.as_mut()) => self.take(news).await?,
            }
        }
    }

    async fn take(&mut self, news: News) -> Result<(), Closed> {
        match news {
            News::Found(found) => self.fleet.found = found,
            News::Of { session, told } => {
                self.fleet.known.insert(session.clone());
                match &told {
                    Told::Event(_) | Told::Lost(ShimError::Gone(_)) => self.fleet.silent.remove(&session),
                    Told::Lost(error) => self.fleet.silent.insert(session.clone(), error.to_string()),
                };
                self.pass(session, told).await?;
            }
        }
        match self.fleet.news().map(|summary| format!("event: fleet\ndata: {summary}\n\n")) {
            Some(piece) => self.pieces.send(piece.into()).await.map_err(|_| Closed),
            None => Ok(()),
        }
    }

    async fn pass(&mut self, session: String, told: Told) -> Result<(), Closed> {
        let message = match told {
            Told::Event(message) => message,
            Told::Lost(error) => return self.lose(&session, &error.to_string()).await,
        };
        match message.number.filter(|_| message.kind != "ended") {
            Some(number) => self.numbers.insert(session.clone(), number),
            None => self.numbers.remove(&session),
        };
        match serde_json::from_str(&message.data) {
            Ok(event) => {
                let data = Data { session: &session, event: Some(event), why: None };
                self.send(&message.kind, &data).await
            }
            Err(error) => self.lose(&session, &format!("told something that cannot be read: {error}")).await,
        }
    }

    /// Tells that nothing more is known of a session, if the browser takes it for running.
    async fn lose(&mut self, session: &str, why: &str) -> Result<(), Closed> {
        match self.numbers.remove(session) {
            Some(_) => self.send("gone", &Data { session, event: None, why: Some(why) }).await,
            None => Ok(()),
        }
    }

    /// Tells everything that a recording holds. It has no numbers: a browser that comes back is told it anew.
    async fn play(&mut self, recording: &Recording) -> Result<(), Closed> {
        for event in recording.events() {
            let kind = match event {
                Event::Snapshot(_) => "snapshot",
                Event::Changes(_) => "changes",
                Event::Ended(_) => "ended",
            };
            if let Ok(event) = to_raw_value(&event) {
                self.send(kind, &Data { session: recording.name(), event: Some(&event), why: None }).await?;
            }
        }
        Ok(())
    }

    async fn send(&self, kind: &str, data: &Data<'_>) -> Result<(), Closed> {
        self.pieces.send(self.piece(kind, data).into()).await.map_err(|_| Closed)
    }

    fn piece(&self, kind: &str, data: &Data<'_>) -> String {
        let mut piece = format!("event: {kind}\nid: ");
        for (n, (name, number)) in self.numbers.iter().enumerate() {
            let _ = write!(piece, "{}{name}:{number}", if n == 0 { "" } else { "," });
        }
        // A line break in JSON is white space, and the end of a line here.
        let data = serde_json::to_string(data).unwrap_or_default().replace(['\n', '\r'], " ");
        let _ = write!(piece, "\ndata: {data}\n\n");
        piece
    }
}

/// News, where anything is followed.
async fn next(follow: Option<&mut Follow>) -> Option<News> {
    match follow {
        Some(follow) => follow.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::Message;

    fn event(session: &str, kind: &str, number: u64, data: &str) -> News {
        let message = Message { kind: kind.into(), number: Some(number), data: data.into() };
        News::Of { session: session.into(), told: Told::Event(message) }
    }

    fn silent(session: &str) -> News {
        News::Of { session: session.into(), told: Told::Lost(ShimError::Silent) }
    }

    fn found(sessions: &[&str]) -> News {
        let sessions = sessions.iter().map(|name| (*name).to_owned()).collect();
        News::Found(Found { sessions, unused: Vec::new() })
    }

    fn stream(last_seen: &str) -> (Stream, mpsc::Receiver<Bytes>) {
        let (pieces, receiver) = mpsc::channel(16);
        (Stream::new(pieces, numbers(last_seen)), receiver)
    }

    #[tokio::test]
    async fn a_piece_says_where_every_session_is() {
        let (mut stream, mut pieces) = stream("");
        let news = [
            event("4711", "snapshot", 17, "{\"seq\":\n17}"),
            event("4712", "changes", 3, "{}"),
            event("4711", "ended", 18, "{}"),
            silent("4711"),
            silent("4712"),
        ];
        for news in news {
            let News::Of { session, told } = news else { continue };
            assert!(stream.pass(session, told).await.is_ok());
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

    /// Until every session that was found has answered or has not, a page must not say that there is none.
    #[tokio::test]
    async fn a_page_is_told_how_many_sessions_have_not_answered_yet_and_which_do_not() {
        let (mut stream, mut pieces) = stream("4713:9");
        let mut told = async |news: News| {
            assert!(stream.take(news).await.is_ok());
            let mut told = Vec::new();
            while let Ok(piece) = pieces.try_recv() {
                let text = String::from_utf8(piece.to_vec()).unwrap();
                told.extend(text.strip_prefix("event: fleet\ndata: ").map(|data| data.trim_end().to_owned()));
            }
            told
        };
        let summary = |pending, silent| format!(r#"{{"pending":{pending},"silent":{{{silent}}},"unused":[]}}"#);
        assert_eq!(told(found(&["4711", "4712", "4713"])).await, [summary(2, "")]);
        assert_eq!(told(event("4711", "snapshot", 1, "{}")).await, [summary(1, "")]);
        let one = r#""4712":"not answering""#;
        assert_eq!(told(silent("4712")).await, [summary(0, one)]);
        assert!(told(silent("4712")).await.is_empty());
        assert_eq!(told(event("4712", "snapshot", 1, "{}")).await, [summary(0, "")]);
        assert_eq!(told(silent("4711")).await, [summary(0, r#""4711":"not answering""#)]);
        assert_eq!(told(found(&["4712"])).await, [summary(0, "")]);
    }

    #[test]
    fn what_a_browser_sends_back_may_be_anything() {
        let expected = Numbers::from([("4711".into(), 17), ("a:b".into(), 3)]);
        assert_eq!(numbers("4711:17,x,:,9:-1,a:b:3,1:99999999999999999999999"), expected);
        assert_eq!(numbers(""), Numbers::new());
    }
}
