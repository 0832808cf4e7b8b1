//! A person with a browser, who does as the test says.

use std::sync::{Arc, Mutex};

use rescind_sign_in::{Invitation, Pasting, Person};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

use crate::script::{Script, value};

/// What a person is asked, as he is asked it.
pub(crate) struct Browser {
    invited: mpsc::UnboundedSender<Invitation>,
    pub(crate) pasted: Mutex<Vec<String>>,
    pub(crate) refused: Mutex<Vec<String>>,
}

/// The page that a person was sent to.
pub(crate) struct Page {
    /// What it was asked.
    pub(crate) query: String,
    /// Where the browser goes back to.
    pub(crate) back: String,
    pub(crate) link: String,
    pub(crate) url: String,
}

impl Browser {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Invitation>) {
        let (invited, invitations) = mpsc::unbounded_channel();
        (Arc::new(Self { invited, pasted: Mutex::default(), refused: Mutex::default() }), invitations)
    }
}

impl Person for Browser {
    fn invite(&self, invitation: &Invitation) {
        // Nobody looks where a test is about something else.
        let _ = self.invited.send(invitation.clone());
    }

    fn refuse(&self, why: &str) {
        self.refused.lock().unwrap().push(why.to_owned());
    }

    fn pasted(&self) -> Pasting<'_> {
        let next = self.pasted.lock().unwrap().pop();
        Box::pin(async move {
            match next {
                Some(text) => text,
                None => std::future::pending().await,
            }
        })
    }
}

impl Page {
    pub(crate) fn of(invitation: Invitation) -> Self {
        let Invitation::Page { url, link } = invitation else { panic!("{invitation:?}") };
        let query = url.split_once('?').unwrap().1.to_owned();
        let back = value(&query, "redirect_uri").unwrap();
        Self { query, back, link, url }
    }

    pub(crate) fn value(&self, name: &str) -> Option<String> {
        value(&self.query, name)
    }

    /// The URL that the browser is sent back to by a server that lets the person in.
    pub(crate) fn agreed(&self, script: &Script) -> String {
        format!("{}?code={}&state={}", self.back, script.code(&self.query), self.value("state").unwrap())
    }

    /// Lets the person in, and gives what the browser shows in the end.
    pub(crate) async fn agree(&self, script: &Script) -> String {
        visit(&self.agreed(script)).await
    }

    /// Goes back with this query and the right state.
    pub(crate) async fn back_with(&self, query: &str) -> String {
        visit(&format!("{}?{query}&state={}", self.back, self.value("state").unwrap())).await
    }

    /// Whether anything listens for the browser.
    pub(crate) async fn is_open(&self) -> bool {
        TcpStream::connect(authority(&self.back)).await.is_ok()
    }
}

/// Gets a page of this machine, and gives the whole response.
pub(crate) async fn visit(url: &str) -> String {
    let target = &url[url.find(authority(url)).unwrap() + authority(url).len()..];
    send(url, &format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await
}

/// Sends these bytes to where the URL is, and gives what comes back.
pub(crate) async fn send(url: &str, text: &str) -> String {
    let mut stream = TcpStream::connect(authority(url)).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    String::from_utf8(response).unwrap()
}

fn authority(url: &str) -> &str {
    url.strip_prefix("http://").unwrap().split('/').next().unwrap()
}
