//! What a person calls a session: its number, or the name of its entry in the client's configuration.

use std::path::Path;

use rescind_feed::Session;
use rescind_operator::{Shim, ShimError, ask_all};

use crate::{failure::Failure, screen::clean};

/// The most sessions of one name that an error lists.
const LISTED: usize = 8;

/// All sessions, with what each says of itself.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    answered: Vec<(Shim, Session)>,
    /// The numbers of those that did not answer.
    silent: Vec<String>,
}

/// Finds the session that this text means. Only if it is the number of none are the sessions asked what they are called.
///
/// Several of one name are an error: what is asked of one must not reach another.
pub(crate) async fn find(text: &str, shims: Vec<Shim>) -> Result<Shim, Failure> {
    match shims.iter().find(|shim| shim.name() == text) {
        Some(shim) => Ok(shim.clone()),
        None => Sessions::ask(shims).await.named(text),
    }
}

pub(crate) fn no_such_session(session: &str) -> Failure {
    let input = if session.is_empty() { "\"\"".into() } else { clean(session) };
    Failure::new(input, "no such session", "`rescind ps --sessions` lists all sessions")
}

impl Sessions {
    pub(crate) async fn ask(shims: Vec<Shim>) -> Self {
        let mut sessions = Self::default();
        for (shim, answer) in ask_all(shims, |shim| async move { shim.session().await }).await {
            match answer {
                Ok(session) => sessions.answered.push((shim, session)),
                Err(ShimError::Gone(_)) => {}
                Err(_) => sessions.silent.push(shim.name().to_owned()),
            }
        }
        sessions
    }

    /// Whether a session that answered has this name.
    pub(crate) fn has_named(&self, text: &str) -> bool {
        self.answered.iter().any(|(_, session)| session.is_called(text))
    }

    /// The one session of this name.
    pub(crate) fn named(&self, text: &str) -> Result<Shim, Failure> {
        let meant: Vec<_> = self.answered.iter().filter(|(_, session)| session.is_called(text)).collect();
        let silent = self.silent.join(", ");
        let name = clean(text);
        match (&*meant, self.silent.is_empty()) {
            ([], true) => Err(no_such_session(text)),
            ([], false) => {
                let cause = format_args!("no session that answered has this name, and {silent} could not be asked");
                Err(Failure::new(name, cause, "try again, or name a session by its number"))
            }
            ([(shim, _)], true) => Ok(shim.clone()),
            ([(shim, _)], false) => {
                let cause = format_args!("may be another session, too, since {silent} could not be asked");
                Err(Failure::new(name, cause, format_args!("the one that answered is {}", shim.name())))
            }
            ([(first, session), ..], _) => {
                let listed: Vec<_> = meant.iter().take(LISTED).map(|(shim, one)| told_apart(shim, one)).collect();
                let more = meant.len() - listed.len();
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let (count, listed) = (meant.len(), listed.join(", "));
                let cause = format!("is the name of {count} sessions: {listed}{more}; name one by its number");
                let is_one =
                    |text: &str| self.answered.iter().filter(|(_, session)| session.is_called(text)).count() == 1;
                let by_client = qualified(session).filter(|text| is_one(text));
                let other = by_client.map(|text| format!(", or by its client: {}", clean(&text))).unwrap_or_default();
                Err(Failure::new(name, cause, format_args!("as {} is{other}", first.name())))
            }
        }
    }

    /// The number of the session that is the server itself which this one shares.
    pub(crate) fn server_of(&self, sharer: &Session) -> Option<String> {
        let is_it =
            |one: &Session| is_shared_server(one) && one.shared == sharer.shared && one.command == sharer.command;
        let mut servers = self.answered.iter().filter(|(_, one)| is_it(one));
        // Of two that differ in what cannot be seen here, it could be either.
        let (shim, _) = servers.next()?;
        servers.next().is_none().then(|| shim.name().to_owned())
    }

    /// The longest name of a session that stands before a slash at the beginning of this text.
    pub(crate) fn before_slash(&self, text: &str) -> Option<String> {
        let names =
            self.answered.iter().flat_map(|(_, session)| session.entry.clone().into_iter().chain(qualified(session)));
        let stands = |name: &String| text.strip_prefix(&**name).is_some_and(|rest| rest.starts_with('/'));
        names.filter(stands).max_by_key(String::len)
    }
}

/// The name of its entry behind that of its client.
fn qualified(session: &Session) -> Option<String> {
    Some(format!("{}:{}", session.client_name.as_ref()?, session.entry.as_ref()?))
}

/// The number of a session, its client, and its folder.
fn told_apart(shim: &Shim, session: &Session) -> String {
    let shared = is_shared_server(session).then(|| "the server that sessions share".to_owned());
    let facts: Vec<String> = shared.into_iter().chain(client(session)).chain(folder(session)).collect();
    if facts.is_empty() { shim.name().to_owned() } else { format!("{} ({})", shim.name(), facts.join(", ")) }
}

/// Whether it is the server itself that sessions share.
fn is_shared_server(session: &Session) -> bool {
    session.shared.is_some() && !session.is_sharer()
}

/// The client whose configuration has the entry, for a person.
pub(crate) fn client(session: &Session) -> Option<String> {
    session.client_name.as_deref().map(clean)
}

/// The folder in which it was started, for a person.
pub(crate) fn folder(session: &Session) -> Option<String> {
    let folder = session.folder.as_deref()?;
    let home = std::env::var("HOME").ok().filter(|home| !home.is_empty() && home != "/");
    let below = home.and_then(|home| Path::new(folder).strip_prefix(home).ok().map(Path::to_owned));
    Some(clean(&match below {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => folder.to_owned(),
    }))
}
