//! `rescind login URL`: signs in at an MCP server.

use std::{io::Write, sync::Arc};

use clap::Args;
use rescind_sign_in::{ClientChoice, Record, Scopes, Secret, Settings, SignInError};

use crate::{
    browser,
    completion::Completion,
    failure::Failure,
    fleet,
    interrupts::Interrupts,
    number,
    screen::clean,
    sign_in::{SEE_FOLDER, SignInArguments, Terminal, shown},
};

/// Sign in at an MCP server, for `rescind run --url`.
///
/// Opens the server's sign-in in the browser, and waits there for ten minutes. What the server gives is kept in a file that
/// only you can read, one for each server and profile, and renewed when it expires. Ctrl+C ends the sign-in, and nothing is
/// kept.
///
/// Exit code: 0 if you are signed in, otherwise 2.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: SignInArguments,

    /// Sign in as this client: an id that the authorization server knows, or the URL (https://…) of a client metadata
    /// document. By default a client is registered
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,

    /// The environment variable with the secret of that client
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    client_secret_env: Option<String>,

    /// Ask for this scope, instead of those that the server names. May be repeated
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// Open no browser: show a code for another device, where the server offers that, or else an address
    #[arg(long)]
    no_browser: bool,

    /// The port of this machine to which the browser comes back, for a client that is registered with one; by default any
    /// free port
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true, value_parser = number::port)]
    redirect_port: u16,
}

pub(crate) fn main(arguments: Arguments) -> Result<Completion, Failure> {
    let runtime = fleet::runtime()?;
    let signed_in = runtime.block_on(sign_in(arguments));
    // The thread that resolves a name need not be waited for.
    runtime.shutdown_background();
    let record = signed_in?;
    let issuer = clean(record.issuer());
    let _ = writeln!(std::io::stdout(), "signed in to {} at {issuer}", clean(record.server()));
    Ok(Completion::Whole)
}

async fn sign_in(arguments: Arguments) -> Result<Record, Failure> {
    let Arguments { place, client_id, client_secret_env, scope, no_browser, redirect_port } = arguments;
    let server = shown(&place.server()?);
    let secret = client_secret_env.map(|variable| read_secret(&variable)).transpose()?;
    let settings = Settings {
        client: client_id.map_or_else(ClientChoice::default, |id| ClientChoice::known(id, secret)),
        scopes: scope.iter().flat_map(|scopes| scopes.split(' ')).map(ToOwned::to_owned).collect::<Scopes>(),
        // One that was forgotten there could not be told from a person who does not come back.
        registers_anew: true,
        uses_device: no_browser,
        redirect_port,
        ..Settings::default()
    };
    let person = Terminal::new(!no_browser && browser::is_there());
    let sign_in = place.sign_in(settings, Some(Arc::new(person)))?;
    let mut interrupts = Interrupts::listen("rescind login")?;
    tokio::select! {
        signed_in = sign_in.sign_in() => signed_in.map_err(|error| {
            let hint = hint(&error);
            Failure::new(&server, clean(&error.to_string()), hint)
        }),
        () = interrupts.recv() => Err(Failure::new(&server, "the sign-in was given up", "nothing was kept")),
    }
}

fn read_secret(variable: &str) -> Result<Secret, Failure> {
    let shown = format!("--client-secret-env {}", clean(variable));
    let value = std::env::var(variable);
    let value = value.map_err(|error| Failure::new(shown, error, "set the environment variable to the secret"))?;
    Ok(Secret::new(value))
}

/// What a person can do.
fn hint(error: &SignInError) -> &'static str {
    match error {
        SignInError::NotAsked => "use it as it is: `rescind run --url URL`",
        SignInError::NoWay => {
            "give the server what it wants with `rescind run --url URL --header-env Authorization=VARIABLE`"
        }
        SignInError::Client(_) => "register a client with the provider, and name it with --client-id",
        SignInError::NotEncrypted { .. } => "use the URL of the server that begins with https://",
        SignInError::Denied | SignInError::TooLate(_) | SignInError::Elsewhere(_) => {
            "try again, and agree on the page that opens"
        }
        SignInError::MixedUp { .. } => "try again; if it happens again, somebody may be interfering: tell the provider",
        SignInError::Page { .. } => "this is for whoever runs the server to mend",
        SignInError::Vault(_) => SEE_FOLDER,
        SignInError::Refused { .. } => "check --client-id, --client-secret-env and --scope",
        SignInError::Http { .. } => "check the URL and the connection, and try again",
        SignInError::Token(_) | SignInError::Nobody | SignInError::StillRefused | SignInError::Here(_) | _ => {
            "try again"
        }
    }
}
