//! To whom a message belongs goes through a relay with it, whatever the server's stream does meanwhile.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use rescind::relay::{self, Arrival, Credentials, EntryName, Link, LinkClient, LinkServer, MessageStream};
use rescind_proto::relay::RelayConfig;
use serde_json::Value;

/// A client whose arrivals are all there at once. It leaves when the server has so many of its messages, or never will.
struct Client {
    arrivals: VecDeque<Arrival>,
    messages: usize,
    sent: Sent,
    patience: u32,
}

impl MessageStream for Client {
    fn limit(&mut self, _max_message: usize) {}

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Arrival>>> {
        let next = self.arrivals.pop_front();
        if next.is_none() && self.patience > 0 && self.sent.lock().unwrap().len() < self.messages {
            self.patience -= 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(next))
    }

    fn poll_send(&mut self, _cx: &mut Context<'_>, _message: &[u8]) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What came to a server: who said it, as the message has it and as the stream was told.
type Sent = Arc<Mutex<Vec<(String, Credentials)>>>;

/// A server that takes a message only at some of the times when it is asked to.
struct Server {
    /// Its lowest bit: whether it takes the next one. Afterwards it takes everything.
    refusals: u32,
    present: Credentials,
    sent: Sent,
}

impl MessageStream for Server {
    fn limit(&mut self, _max_message: usize) {}

    fn handle_credentials(&mut self, credentials: Credentials) {
        self.present = credentials;
    }

    fn poll_next(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Arrival>>> {
        Poll::Pending
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        let refuses = self.refusals & 1 == 1;
        self.refusals >>= 1;
        if refuses {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let message: Value = serde_json::from_slice(message).unwrap();
        // The relay's own cancels are nobody's.
        if let Some(who) = message["params"]["who"].as_str() {
            self.sent.lock().unwrap().push((who.to_owned(), self.present.clone()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn of(who: &str) -> Credentials {
    if who.is_empty() { Credentials::default() } else { Credentials::new(who.to_owned().into()) }
}

/// Relays messages of these people, in this order, and returns who said what that came to the server.
async fn relayed(people: &[&str], refusals: u32) -> Vec<(String, Credentials)> {
    let mut arrivals = VecDeque::new();
    let mut last = "";
    for (at, who) in people.iter().enumerate() {
        if *who != last {
            arrivals.push_back(Arrival::Credentials(of(who)));
            last = who;
        }
        // Requests and notifications are not the same to a relay.
        let id = if at % 3 == 0 { String::new() } else { format!(r#""id":{at},"#) };
        let message = format!(r#"{{"jsonrpc":"2.0",{id}"method":"say","params":{{"who":"{who}"}}}}"#);
        arrivals.push_back(Arrival::Message(message.into()));
    }
    let sent = Sent::default();
    let server = Server { refusals, present: Credentials::default(), sent: Arc::clone(&sent) };
    let client = Client { arrivals, messages: people.len(), sent: Arc::clone(&sent), patience: 1000 };
    let link = Link {
        client: LinkClient::Messages(Box::new(client)),
        server: LinkServer::Messages { stream: Box::new(server), name: Vec::new() },
        entry: EntryName::default(),
        config: RelayConfig::default(),
        finish: None,
        recording: None,
        log: None,
        on_stuck: None,
        stderr_in_errors: true,
        #[cfg(feature = "admin")]
        on_stop: None,
        #[cfg(feature = "admin")]
        admin: Vec::new(),
        #[cfg(feature = "admin")]
        history: None,
        welcome: None,
    };
    relay::drive(link).await.unwrap();
    let sent = sent.lock().unwrap();
    sent.clone()
}

/// Every way in which a server can hesitate eight times, with people who take turns, also with one who has no name.
#[tokio::test]
async fn each_message_reaches_the_server_under_the_credentials_that_it_came_with() {
    for people in [["ann", "bob", "ann", "bob", "ann"], ["", "ann", "ann", "bob", ""], ["ann", "", "bob", "bob", "ann"]]
    {
        for refusals in 0..256 {
            let sent = relayed(&people, refusals).await;
            let expected: Vec<_> = people.iter().map(|who| ((*who).to_owned(), of(who))).collect();
            assert_eq!(sent, expected, "refusals {refusals:b}");
        }
    }
}

#[test]
fn credentials_are_not_shown() {
    assert!(!format!("{:?}", Arrival::Credentials(of("hidden"))).contains("hidden"));
}
