//! Where the person's browser comes back to: a port of this machine, for one sign-in (RFC 8252, 7.3).
//!
//! What anybody else sends there is answered and ends nothing. The right redirect ends the listening, before anything is done
//! with it.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};

use crate::{Secret, SignInError, error::excerpt, flight::Task, form};

/// The path that the browser comes back to.
const CALLBACK: &str = "/callback";

/// The path of the link that leads to the authorization server.
const START: &str = "/start";

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// Connections at once: browsers open some that they never use. One more takes the place of the oldest.
const MAX_OPEN: usize = 32;

/// Time for a connection to send its request, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The wait after a connection that the system could not give.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// A port of this machine. Nothing listens there once it is dropped.
#[derive(Debug)]
pub(crate) struct Redirects {
    listener: TcpListener,
    port: u16,
}

/// What the browser is to come back with, and where it is sent first.
pub(crate) struct Journey {
    /// The page of the authorization server.
    pub(crate) page: String,
    /// What the redirect has to show.
    pub(crate) state: Secret,
    /// The key of the link that leads to the page, once.
    pub(crate) key: Secret,
}

/// A redirect with the right state. The browser waits for a page.
pub(crate) struct Arrival {
    /// It has the code.
    pub(crate) query: Secret,
    stream: TcpStream,
}

/// The content of a redirect with the right state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A code, to be exchanged for tokens.
    Code(Secret),
    /// It has neither a code nor an error, or not the right state.
    NotOurs,
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Start,
    Callback(Secret),
    Nothing,
}

impl Redirects {
    /// Listens on this port, or on any free one for 0.
    pub(crate) async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// The URL that the browser is sent back to.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}{CALLBACK}", self.port)
    }

    /// The link that leads to the page of the authorization server.
    pub(crate) fn link(&self, key: &Secret) -> String {
        format!("http://127.0.0.1:{}{START}?{}", self.port, key.expose())
    }

    /// Waits for the browser. Dropping the future closes the port and every connection.
    pub(crate) async fn arrival(self, journey: Journey) -> Arrival {
        let shared = Arc::new(Shared { journey, was_opened: AtomicBool::new(false), arrived: Mutex::default() });
        let mut open = JoinSet::new();
        let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        oldest_first.retain(|one| !one.is_finished());
                        if oldest_first.len() >= MAX_OPEN
                            && let Some(oldest) = oldest_first.pop_front()
                        {
                            oldest.abort();
                        }
                        let shared = Arc::clone(&shared);
                        let meeting: Task = Box::pin(async move {
                            let met = tokio::time::timeout(PATIENCE, shared.meet(stream)).await;
                            if let Ok(Ok(Some(arrival))) = met {
                                *shared.arrived.lock().unwrap_or_else(PoisonError::into_inner) = Some(arrival);
                            }
                        });
                        oldest_first.push_back(open.spawn(meeting));
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_BACKOFF).await,
                },
                Some(_) = open.join_next() => {
                    let arrived = shared.arrived.lock().unwrap_or_else(PoisonError::into_inner).take();
                    if let Some(arrival) = arrived {
                        return arrival;
                    }
                }
            }
        }
    }
}

/// What the connections of one sign-in share.
struct Shared {
    journey: Journey,
    /// The link was used.
    was_opened: AtomicBool,
    arrived: Mutex<Option<Arrival>>,
}

impl Shared {
    /// Answers one connection; gives it back if it is the redirect that was awaited.
    async fn meet(&self, mut stream: TcpStream) -> io::Result<Option<Arrival>> {
        let head = read_head(&mut stream).await?;
        let (status, headers, text) = match asked(&head, &self.journey.key) {
            Asked::Start if !self.was_opened.swap(true, Ordering::Relaxed) => {
                ("302 Found", format!("location: {}\r\n", self.journey.page), "This way.")
            }
            Asked::Start => ("410 Gone", String::new(), "This link was used already."),
            Asked::Callback(query) => {
                let is_awaited = !matches!(judge(query.expose(), &self.journey.state, "", false), Ok(Verdict::NotOurs));
                if is_awaited {
                    return Ok(Some(Arrival { query, stream }));
                }
                ("400 Bad Request", String::new(), "This is not the sign-in that is under way.")
            }
            Asked::Nothing => ("404 Not Found", String::new(), "There is nothing here."),
        };
        respond(&mut stream, status, &headers, text).await?;
        Ok(None)
    }
}

impl Arrival {
    /// Shows the person the outcome. It does not matter if the browser has gone.
    pub(crate) async fn show(mut self, text: &str) {
        let _ = tokio::time::timeout(PATIENCE, respond(&mut self.stream, "200 OK", "", text)).await;
    }
}

/// Reads a redirect: whether it is the awaited one, and its content.
///
/// # Errors
///
/// It is the awaited one, and is not from `issuer` (RFC 9207) or reports that access was denied.
pub(crate) fn judge(query: &str, state: &Secret, issuer: &str, names_itself: bool) -> Result<Verdict, SignInError> {
    let value = |name: &str| form::value(query, name).filter(|value| !value.is_empty());
    let (code, error) = (value("code"), value("error"));
    let is_awaited = value("state").is_some_and(|shown| state.is(&shown));
    if !is_awaited || (code.is_none() && error.is_none()) {
        return Ok(Verdict::NotOurs);
    }
    let is_from_it = match form::value(query, "iss") {
        // To the letter: what is the same place may be another issuer (RFC 9207, 2.4).
        Some(named) => named == issuer,
        // Absent, or there twice.
        None => !names_itself && !query.split('&').any(|pair| pair.starts_with("iss=")),
    };
    match (is_from_it, code, error) {
        (false, ..) => Err(SignInError::MixedUp { issuer: issuer.to_owned() }),
        (true, _, Some(error)) if error == "access_denied" => Err(SignInError::Denied),
        (true, _, Some(error)) => {
            let description = value("error_description").unwrap_or_default();
            Err(SignInError::Refused { error: excerpt(&error), description: excerpt(&description) })
        }
        (true, Some(code), None) => Ok(Verdict::Code(Secret::new(code))),
        (true, None, None) => Ok(Verdict::NotOurs),
    }
}

/// Reads up to the end of a head.
async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    loop {
        let mut part = [0; 1024];
        let read = stream.read(&mut part).await?;
        head.extend_from_slice(&part[..read]);
        if head.windows(4).any(|four| four == b"\r\n\r\n") {
            return Ok(head);
        }
        if read == 0 || head.len() > MAX_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

fn asked(head: &[u8], key: &Secret) -> Asked {
    let line = head.split(|byte| *byte == b'\r').next().and_then(|line| std::str::from_utf8(line).ok());
    let mut words = line.unwrap_or_default().split(' ');
    let (Some("GET"), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Asked::Nothing;
    };
    match target.split_once('?') {
        Some((CALLBACK, query)) => Asked::Callback(Secret::new(query.to_owned())),
        Some((START, shown)) if key.is(shown) => Asked::Start,
        _ => Asked::Nothing,
    }
}

async fn respond(stream: &mut TcpStream, status: &str, headers: &str, text: &str) -> io::Result<()> {
    let page = format!("<!doctype html>\n<meta charset=\"utf-8\">\n<title>Rescind</title>\n<p>{text}</p>\n");
    let response = format!(
        "HTTP/1.1 {status}\r\n{headers}content-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'\r\n\
         connection: close\r\n\r\n{page}",
        page.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://as.example";

    fn judged(query: &str, names_itself: bool) -> Result<Verdict, String> {
        judge(query, &Secret::new("s1".into()), ISSUER, names_itself).map_err(|error| error.to_string())
    }

    #[test]
    fn a_redirect_without_the_right_state_is_nobodys() {
        for query in
            ["", "code=c", "code=c&state=", "code=c&state=s2", "code=c&state=s1&state=s1", "state=s1", "error=x"]
        {
            assert_eq!(judged(query, false), Ok(Verdict::NotOurs), "{query}");
        }
        assert_eq!(judged("code=c%20d&state=s1", false), Ok(Verdict::Code(Secret::new("c d".into()))));
    }

    #[test]
    fn a_redirect_of_another_issuer_is_refused() {
        let good = "code=c&state=s1&iss=https%3A%2F%2Fas.example";
        assert!(judged(good, true).is_ok() && judged(good, false).is_ok());
        for (query, names_itself) in [
            ("code=c&state=s1&iss=https%3A%2F%2Fevil.example", false),
            ("code=c&state=s1&iss=https%3A%2F%2Fas.example&iss=https%3A%2F%2Fevil.example", false),
            // The same place, and not to the letter.
            ("code=c&state=s1&iss=https%3A%2F%2Fas.example%2F", false),
            ("code=c&state=s1&iss=https%3A%2F%2Fas.example%3A443", false),
            ("code=c&state=s1&iss=https%3A%2F%2FAS.example", false),
            ("code=c&state=s1&iss=", true),
            ("code=c&state=s1", true),
            ("error=access_denied&state=s1", true),
        ] {
            assert!(judged(query, names_itself).unwrap_err().contains("is not from"), "{query}");
        }
    }

    #[test]
    fn a_refusal_is_told_in_its_own_words() {
        assert_eq!(judged("error=access_denied&state=s1", false), Err("access was denied".into()));
        let refused = judged("error=invalid_scope&error_description=no%1b+x&state=s1&code=c", false).unwrap_err();
        assert_eq!(refused, "the authorization server refused: invalid_scope (no x)");
    }

    #[test]
    fn only_two_things_can_be_asked_for() {
        let key = Secret::new("k".into());
        for (line, expected) in [
            ("GET /start?k HTTP/1.1", Asked::Start),
            ("GET /callback?a=b HTTP/1.1", Asked::Callback(Secret::new("a=b".into()))),
            ("GET /start?x HTTP/1.1", Asked::Nothing),
            ("GET /start HTTP/1.1", Asked::Nothing),
            ("POST /callback?a=b HTTP/1.1", Asked::Nothing),
            ("GET /callback2?a=b HTTP/1.1", Asked::Nothing),
            ("GET /callback?a=b", Asked::Nothing),
            ("\u{0}", Asked::Nothing),
        ] {
            assert_eq!(asked(format!("{line}\r\n\r\n").as_bytes(), &key), expected, "{line}");
        }
    }
}
