//! Signing in from a device without a browser (RFC 8628).

use std::time::Duration;

use http::Uri;

use crate::{
    Invitation, Person, Scopes, SignInError,
    client::{Client, DEVICE_GRANT},
    error::excerpt,
    exchange::{self, Tokens},
    form::Form,
};

/// Seconds between two questions where the server names none (RFC 8628, 3.2), and how many more after `slow_down` (3.5).
const INTERVAL: u64 = 5;

/// The longest pause and the longest life of a code that are believed, in seconds.
const LONGEST_PAUSE: u64 = 60;
const LONGEST_LIFE: u64 = 30 * 60;

/// Asks a person to type a code on another device, and waits until that is done.
pub(crate) async fn sign_in(
    http: &dyn crate::Http,
    person: &dyn Person,
    (device, token): (&Uri, &Uri),
    client: &Client,
    resource: Option<&str>,
    scopes: &Scopes,
) -> Result<Tokens, SignInError> {
    let form = Form::default().with_some("scope", Some(&scopes.to_string())).with_some("resource", resource);
    // A client with a secret shows it in the form or a header; one without has its id there all the same.
    let answer = exchange::submit(http, device, client, form).await?;
    let text = |name: &str| answer.as_ref().and_then(|answer| answer.text(name));
    let number = |name: &str| answer.as_ref().and_then(|answer| answer.number(name));
    let page = text("verification_uri").or_else(|| text("verification_url")).unwrap_or_default();
    let is_page = page.parse::<Uri>().is_ok_and(|page| matches!(page.scheme_str(), Some("http" | "https")));
    let (Some(device_code), Some(code), true) = (text("device_code"), text("user_code"), is_page) else {
        return Err(SignInError::page("answer of the authorization server", "there is no code for a device in it"));
    };
    person.invite(&Invitation::Device { page: excerpt(page), code: excerpt(code) });
    let life = number("expires_in").unwrap_or(LONGEST_LIFE).min(LONGEST_LIFE);
    let mut pause = number("interval").unwrap_or(INTERVAL).clamp(1, LONGEST_PAUSE);
    let asking = async {
        loop {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            let form = Form::default().with("grant_type", DEVICE_GRANT).with("device_code", device_code);
            let form = form.with_some("resource", resource);
            match exchange::ask(http, token, client, form).await {
                Err(error) if error.is_refusal("authorization_pending") => {}
                Err(error) if error.is_refusal("slow_down") => pause = (pause + INTERVAL).min(LONGEST_PAUSE),
                // It may be back the next time (RFC 8628, 3.5).
                Err(SignInError::Http { .. }) => pause = (pause * 2).min(LONGEST_PAUSE),
                Err(error) if error.is_refusal("access_denied") => return Err(SignInError::Denied),
                Err(error) if error.is_refusal("expired_token") => return Err(SignInError::TooLate(life / 60)),
                answer => return answer,
            }
        }
    };
    let too_late = Err(SignInError::TooLate(life / 60));
    tokio::time::timeout(Duration::from_secs(life), asking).await.unwrap_or(too_late)
}
