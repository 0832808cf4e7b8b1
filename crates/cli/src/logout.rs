//! `rescind logout URL`: forgets a sign-in, here and at the server.

use std::io::Write;

use clap::Args;
use rescind_sign_in::Settings;

use crate::{
    completion::Completion,
    failure::Failure,
    fleet::{self, report},
    screen::clean,
    sign_in::{SEE_FOLDER, SignInArguments, shown},
};

/// Forget the sign-in at an MCP server, and have the server forget it, too.
///
/// Exit code: 0 if nobody is signed in any more; 1 if the server did not forget it, so that the token is good until it
/// expires; 2 if this failed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: SignInArguments,
}

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    fleet::block_on(sign_out(&arguments.place))
}

async fn sign_out(place: &SignInArguments) -> Result<Completion, Failure> {
    let server = shown(&place.server()?);
    let signed_out = place.sign_in(Settings::default(), None)?.sign_out().await;
    let signed_out = signed_out.map_err(|error| Failure::new(&server, clean(&error.to_string()), SEE_FOLDER))?;
    let (said, completion) = match signed_out {
        None => (format!("nobody was signed in to {server}"), Completion::Whole),
        Some((_, Some(Ok(())))) => (format!("signed out of {server}"), Completion::Whole),
        Some((_, None)) => {
            report(&format!("warning: {server} offers no way to make a token void: it is good until it expires"));
            (format!("signed out of {server}"), Completion::Whole)
        }
        Some((_, Some(Err(error)))) => {
            let why = clean(&error.to_string());
            report(&format!("warning: the token could not be made void ({why}): it is good until it expires"));
            (format!("signed out of {server}"), Completion::Partial)
        }
    };
    let _ = writeln!(std::io::stdout(), "{said}");
    Ok(completion)
}
