//! `rescind whoami URL`: shows a sign-in, and nothing secret of it.

use std::{
    io::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Args;
use rescind_sign_in::{Record, Settings};
use serde_json::json;

use crate::{
    completion::Completion,
    failure::Failure,
    screen::{clean, inert},
    sign_in::{SignInArguments, shown},
};

/// Show who has signed in at an MCP server, for what, and until when. Tokens are not shown.
///
/// Exit code: 0 if somebody is signed in, 1 if nobody is, 2 if that cannot be told.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: SignInArguments,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    let Arguments { place, json } = arguments;
    let server = shown(&place.server()?);
    let kept = place.sign_in(Settings::default(), None)?.record();
    let hint = "see RESCIND_SIGN_IN_DIR, the folder in which sign-ins are kept";
    let kept = kept.map_err(|error| Failure::new(&server, clean(&error.to_string()), hint))?;
    let text = match (&kept, json) {
        (kept, true) => inert(&document(&server, &place.profile, kept.as_ref()).to_string()),
        (Some(record), false) => lines(record),
        (None, false) => {
            let hint = format!("sign in: {}", place.login());
            Failure::new(&server, "nobody is signed in", hint).report();
            return Ok(Completion::Partial);
        }
    };
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(Completion::whole_if(kept.is_some()))
}

fn document(server: &str, profile: &str, record: Option<&Record>) -> serde_json::Value {
    let Some(record) = record else { return json!({"server": server, "profile": profile, "signedIn": false}) };
    json!({
        "server": server,
        "profile": profile,
        "signedIn": true,
        "issuer": record.issuer(),
        "clientId": record.client_id(),
        "scopes": record.scopes().iter().collect::<Vec<_>>(),
        "expiresAt": record.expires_at().map(|at| humantime::format_rfc3339_seconds(time(at)).to_string()),
        "isExpired": record.expires_at().is_some_and(|at| time(at) <= SystemTime::now()),
        "canBeRenewed": record.can_be_renewed(),
    })
}

fn lines(record: &Record) -> String {
    let scopes = Some(record.scopes().to_string()).filter(|scopes| !scopes.is_empty());
    let rows = [
        ("server", record.server().to_owned()),
        ("profile", record.profile().to_owned()),
        ("issuer", record.issuer().to_owned()),
        ("client", record.client_id().to_owned()),
        ("scopes", scopes.unwrap_or_else(|| "not named".to_owned())),
        ("expires", expiry(record)),
    ];
    rows.map(|(name, value)| format!("{name:8} {}", clean(&value))).join("\n")
}

fn expiry(record: &Record) -> String {
    let renewal = if record.can_be_renewed() { "renewed by itself" } else { "then sign in again" };
    let Some(at) = record.expires_at().map(time) else { return format!("not named; {renewal}") };
    let past = if at <= SystemTime::now() { ", which is past" } else { "" };
    format!("{}{past}; {renewal}", humantime::format_rfc3339_seconds(at))
}

/// A time in seconds since 1970; one that is too late is the latest that can be shown.
fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799))
}
