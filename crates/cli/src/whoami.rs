//! `rescind whoami [URL]`: shows a sign-in, or lists all, and nothing secret of them.

use std::{
    io::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Args;
use rescind_sign_in::{Record, Settings};
use serde_json::{Value, json};

use crate::{
    completion::Completion,
    failure::Failure,
    screen::{clean, inert},
    sign_in::{self, DEFAULT_PROFILE, SEE_FOLDER, SignInArguments, shown},
};

/// Show who has signed in at an MCP server, for what, and until when; without URL, list all servers at which you are
/// signed in. Tokens are not shown.
///
/// Exit code: 0 if somebody is signed in, 1 if nobody is, 2 if that cannot be told.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The MCP server
    #[arg(value_name = "URL")]
    url: Option<String>,

    /// Which of several sign-ins at the same server; by default `default`, and without URL all
    #[arg(long, value_name = "NAME", value_parser = sign_in::profile)]
    profile: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    let Arguments { url, profile, json } = arguments;
    let Some(url) = url else { return list(profile.as_deref(), *json) };
    let profile = profile.clone().unwrap_or_else(|| DEFAULT_PROFILE.to_owned());
    let place = SignInArguments { url: url.clone(), profile };
    let server = shown(&place.server()?);
    let kept = place.sign_in(Settings::default(), None)?.record();
    let kept = kept.map_err(|error| Failure::new(&server, clean(&error.to_string()), SEE_FOLDER))?;
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

/// Shows the sign-ins of a profile, or of all, a line each.
fn list(profile: Option<&str>, json: bool) -> Result<Completion, Failure> {
    let mut kept = sign_in::kept()?;
    kept.retain(|record| profile.is_none_or(|profile| record.profile() == profile));
    let text = if json {
        let documents = kept.iter().map(|one| document(&clean(one.server()), one.profile(), Some(one)));
        inert(&Value::from_iter(documents).to_string())
    } else if kept.is_empty() {
        let hint = "sign in: rescind login https://example.com/mcp";
        Failure::new("rescind whoami", "nobody is signed in anywhere", hint).report();
        return Ok(Completion::Partial);
    } else {
        kept.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(Completion::whole_if(!kept.is_empty()))
}

fn line(record: &Record) -> String {
    let profile = match record.profile() {
        DEFAULT_PROFILE => String::new(),
        profile => format!("  profile {profile}"),
    };
    clean(&format!("{}{profile}  expires: {}", record.server(), expiry(record)))
}

fn document(server: &str, profile: &str, record: Option<&Record>) -> Value {
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
