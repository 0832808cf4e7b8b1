//! One stream for a browser: its numbers and its bounds.
//!
//! A piece's `id` holds the last number of every session that runs, `4711:17,4712:3`, so that a browser that
//! reconnects with it goes on in each of them. Two pieces wait at most; who follows a session waits with the next one,
//! and the shim whose stream is not read gives a snapshot later. So a browser that reads slowly costs one event a
//! session.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

/// How many pieces wait for the browser.
const WAITING: usize = 2;

/// Where to go on: the last number seen of each session.
pub(super) type Numbers = BTreeMap<String, u64>;

/// Reads what a browser sends back, `4711:17,4712:3`. What makes no sense is left out: that session begins anew.
pub(super) fn numbers(id: &str) -> Numbers {
    let one = |entry: &str| {
        let (name, number) = entry.rsplit_once(':')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    id.split(',').filter_map(one).collect()
}

/// The writing end of a browser's stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pieces: mpsc::Sender<Bytes>,
    numbers: Arc<Mutex<Numbers>>,
}

/// The browser is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

#[derive(Serialize)]
struct Told<'a> {
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

impl Stream {
    pub(super) fn new(numbers: Numbers) -> (Self, mpsc::Receiver<Bytes>) {
        let (pieces, receiver) = mpsc::channel(WAITING);
        (Self { pieces, numbers: Arc::new(Mutex::new(numbers)) }, receiver)
    }

    /// Returns when the browser is gone.
    pub(super) async fn closed(&self) {
        self.pieces.closed().await;
    }

    /// Shows that the stream is alive.
    pub(super) async fn breathe(&self) -> Result<(), Closed> {
        self.pieces.send(Bytes::from_static(b":\n\n")).await.map_err(|_| Closed)
    }

    /// The last number of a session that the browser has seen.
    pub(super) fn number(&self, session: &str) -> Option<u64> {
        self.lock().get(session).copied()
    }

    /// The sessions that the browser takes for running.
    pub(super) fn sessions(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Tells an event of a session, whose last number is then `number`; none when it has ended.
    pub(super) async fn tell(
        &self,
        session: &str,
        kind: &str,
        event: &RawValue,
        number: Option<u64>,
    ) -> Result<(), Closed> {
        let told = Told { session, event: Some(event), why: None };
        self.send(kind, &told, |numbers| {
            match number {
                Some(number) => numbers.insert(session.to_owned(), number),
                None => numbers.remove(session),
            };
            true
        })
        .await
    }

    /// Tells that nothing more is known of a session, if the browser takes it for running.
    pub(super) async fn gone(&self, session: &str, why: &str) -> Result<(), Closed> {
        let told = Told { session, event: None, why: Some(why) };
        self.send("gone", &told, |numbers| numbers.remove(session).is_some()).await
    }

    /// Sends a piece if `keep` says so, once it has changed the numbers. They change in the order of the pieces.
    async fn send(&self, kind: &str, told: &Told<'_>, keep: impl FnOnce(&mut Numbers) -> bool) -> Result<(), Closed> {
        let place = self.pieces.reserve().await.map_err(|_| Closed)?;
        // A line break in JSON is white space, and the end of a line here.
        let data = serde_json::to_string(told).unwrap_or_default().replace(['\n', '\r'], " ");
        let mut numbers = self.lock();
        if keep(&mut numbers) {
            let mut piece = format!("event: {kind}\nid: ");
            for (n, (name, number)) in numbers.iter().enumerate() {
                let _ = write!(piece, "{}{name}:{number}", if n == 0 { "" } else { "," });
            }
            let _ = write!(piece, "\ndata: {data}\n\n");
            place.send(piece.into());
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[tokio::test]
    async fn a_piece_says_where_every_session_is() {
        let (stream, mut pieces) = Stream::new(Numbers::new());
        let mut next = async || String::from_utf8(pieces.recv().await.unwrap().to_vec()).unwrap();
        stream.tell("4711", "snapshot", &raw("{\"seq\":\n17}"), Some(17)).await.unwrap();
        assert_eq!(
            next().await,
            "event: snapshot\nid: 4711:17\ndata: {\"session\":\"4711\",\"event\":{\"seq\": 17}}\n\n"
        );
        stream.tell("4712", "changes", &raw("{}"), Some(3)).await.unwrap();
        assert_eq!(next().await, "event: changes\nid: 4711:17,4712:3\ndata: {\"session\":\"4712\",\"event\":{}}\n\n");
        stream.tell("4711", "ended", &raw("{}"), None).await.unwrap();
        assert_eq!(next().await, "event: ended\nid: 4712:3\ndata: {\"session\":\"4711\",\"event\":{}}\n\n");
        stream.gone("4711", "gone").await.unwrap();
        stream.gone("4712", "not answering").await.unwrap();
        assert_eq!(next().await, "event: gone\nid: \ndata: {\"session\":\"4712\",\"why\":\"not answering\"}\n\n");
    }

    #[test]
    fn what_a_browser_sends_back_may_be_anything() {
        let expected = Numbers::from([("4711".into(), 17), ("a:b".into(), 3)]);
        assert_eq!(numbers("4711:17,x,:,9:-1,a:b:3,1:99999999999999999999999"), expected);
        assert_eq!(numbers(""), Numbers::new());
    }
}
