//! `rescind end SESSION`: ends the server of a session, whatever is in flight in it.

use std::{
    io::{self, Write},
    time::Duration,
};

use clap::Args;
use rescind_feed::{End, EndOrder, Event, Session};
use rescind_operator::{ListingQuery, Shim, ShimError};
use tokio::time::{Instant, timeout_at};

use crate::{
    cancel::receipt::{self, Learnt},
    completion::Completion,
    failure::Failure,
    fleet::{self, Pages, SessionListing, many, report},
    ps::row,
    question,
    screen::clean,
    session_name::{self, Sessions},
    turns,
};

/// Time for a server to end: the ladder takes a second, and the rest is for a slow machine and a slow client.
pub(crate) const END_PATIENCE: Duration = Duration::from_secs(8);

/// End the server of a session, and with it all its work.
///
/// Shows what works in it, and asks. No request need be in flight: what was cancelled and works on unseen ends, too. The
/// server gets SIGTERM, and one second later SIGKILL, as do the processes that it has started. Its client gets an error for
/// each request in flight, and sees that the server has ended: most clients have to be told to start it again.
///
/// Prints how the server ended, once that was seen, and names the processes of its session that have left its process group
/// and still run: `rescind reap` ends them. A server on another machine (`run --url`) cannot be ended. One that sessions share
/// (`run --shared`) is a session of its own, and ends with that one for all of them: the next call of each starts it anew.
///
/// Exit code: 0 if the server was seen to end; 1 if it was not, or you declined; 2 if nothing was tried.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The session, as `rescind ps --sessions` lists it: the number before the slash, or the name of its entry in the
    /// client's configuration, also as CLIENT:NAME
    #[arg(value_name = "SESSION")]
    session: String,

    /// End it without asking
    #[arg(long, short)]
    yes: bool,
}

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    fleet::block_on(run(arguments))
}

async fn run(Arguments { session: text, yes }: &Arguments) -> Result<Completion, Failure> {
    // The name of an entry may have a slash.
    let is_number = |session: &str| session.chars().all(|c| c.is_ascii_digit() || c == '-');
    if let Some((session, _)) = text.split_once('/').filter(|(session, _)| is_number(session)) {
        let hint = format!("`rescind end {session}` ends all of session {session}; `rescind cancel` ends a request");
        return Err(Failure::new(clean(text), "is a request, and not a session", hint));
    }
    let shims = fleet::shims()?;
    let shim = session_name::find(text, shims.clone()).await?;
    let name = &shim.name().to_owned();
    let SessionListing { session, requests, more, .. } =
        match fleet::ask_also_released(&shim, ListingQuery::default(), Pages::First).await {
            Ok(listing) => listing,
            Err(ShimError::Gone(_)) => return Err(session_name::no_such_session(name)),
            Err(error) => {
                let hint = "look at the process of this number: it may be suspended or overloaded";
                return Err(Failure::new(name, clean(&error.to_string()), hint));
            }
        };
    if !is_here(&session) {
        let stop = format!("`rescind stop --session {name}` asks it to stop what is in flight");
        let shared = if session.is_sharer() { Sessions::ask(shims).await.server_of(&session) } else { None };
        let hint = shared.map_or(stop, |shared| format!("`rescind end {shared}` ends it for all who share it"));
        return Err(Failure::new(name, elsewhere(&session), hint));
    }
    if !yes {
        let released = requests.iter().filter(|request| request.is_released()).count();
        let in_flight = requests.len() - released + usize::try_from(more).unwrap_or(usize::MAX);
        let hint = "use --yes";
        question::require_terminal("rescind end", format_args!("end the server of session {name}"), hint)?;
        report(&line(name, &session, in_flight, released));
        if !question::ask("End this server?")? {
            report("nothing was ended");
            return Ok(Completion::Partial);
        }
    }
    let order = EndOrder { started: session.started };
    let learnt = end_server(&shim, &order, receipt::after(END_PATIENCE)).await;
    let completion = told(name, learnt);
    turns::left_by_sessions(std::slice::from_ref(name)).await.iter().for_each(|left| report(&left.line()));
    Ok(completion)
}

/// What would end.
fn line(name: &str, session: &Session, in_flight: usize, released: usize) -> String {
    let mut words = vec![format!("{} in flight", if in_flight == 0 { "nothing".to_owned() } else { many(in_flight) })];
    if released > 0 {
        words.push(format!("{} not known to have stopped", many(released)));
    }
    if session.is_unseen() {
        words.push("what else it works on cannot be seen".to_owned());
    }
    if let Some(connected) = session.connected.filter(|connected| connected.sessions > 1) {
        words.push(format!("shared by {} clients", connected.sessions));
    }
    format!("  {name}  {}  {}", row::server(session), words.join("; "))
}

/// Prints how the server ended, as far as that was seen.
fn told(name: &str, learnt: Result<Learnt, String>) -> Completion {
    let (words, completion) = match learnt {
        Ok(Learnt::Ended(End::ExitCode(code))) => (format!("ended: exited with {code}"), Completion::Whole),
        Ok(Learnt::Ended(End::Signal(signal))) => (format!("ended: by signal {signal}"), Completion::Whole),
        Ok(Learnt::Unheard(why)) => (format!("its server was not seen to end: {why}"), Completion::Partial),
        Ok(_) => ("its session has ended; its server was not seen to end".to_owned(), Completion::Partial),
        Err(why) => (format!("its server may not have ended: {why}"), Completion::Partial),
    };
    // A closed stdout does not change what was done.
    let _ = writeln!(io::stdout(), "{name}: {words}");
    if completion == Completion::Partial {
        report(
            "hint: `rescind ps --processes` shows what runs, and `rescind reap` ends what an ended session has left",
        );
    }
    completion
}

/// Whether the server is this session's own and of this machine, so that it can be ended.
pub(crate) fn is_here(session: &Session) -> bool {
    let is_url = |word: &String| word.starts_with("http://") || word.starts_with("https://");
    if session.is_sharer() {
        return false;
    }
    session.server_pid.is_some() || !session.command.first().is_some_and(is_url)
}

/// Why the server cannot be ended, and what can be.
pub(crate) fn elsewhere(session: &Session) -> String {
    if session.is_sharer() {
        return "its server is shared, and ends when the last session has left it".to_owned();
    }
    let url = session.command.first().map(|url| clean(url)).unwrap_or_default();
    format!("its server is another machine's ({url}), where alone it can be ended")
}

/// Ends the server of a session, and waits until it has ended.
pub(crate) async fn end_server(shim: &Shim, order: &EndOrder, until: Instant) -> Result<Learnt, String> {
    let words = |error: ShimError| clean(&error.to_string());
    let followed = match shim.end_and_follow(order).await {
        Ok((_, Some(events))) => Ok(events),
        Ok((_, None)) => shim.events(None).await,
        Err(error) => Err(error),
    };
    let mut events = match followed {
        Err(ShimError::Gone(_)) => return Ok(Learnt::Unheard(receipt::GONE.to_owned())),
        events => events.map_err(words)?,
    };
    loop {
        let next = timeout_at(until, events.next()).await.map_err(|_| "it has not ended yet".to_owned())?;
        match next.and_then(|message| message.map(|message| message.event()).transpose()) {
            Ok(Some(Event::Ended(ended))) => return Ok(Learnt::Ended(ended.how)),
            Ok(Some(Event::Snapshot(_) | Event::Changes(_))) => {}
            Ok(Some(_)) => {}
            // It may have ended with the server of another session.
            Ok(None) | Err(ShimError::Gone(_)) => return Ok(Learnt::Unheard(receipt::GONE.to_owned())),
            Err(error) => return Err(words(error)),
        }
    }
}
