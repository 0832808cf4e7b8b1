//! One sign-in, from the server's challenge to tokens.

use std::{future::Future, pin::Pin, sync::Arc};

use http::Uri;

use crate::{
    Challenge, ClientChoice, Http, Invitation, Person, Record, Scopes, Secret, Settings, SignInError, address,
    client::Client,
    device,
    discovery::{self, Discovered},
    exchange::{self, Tokens},
    form::Form,
    record::Grant,
    redirect::{self, Arrival, Journey, Redirects, Verdict},
};

/// What a sign-in needs of its surroundings.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) server: Uri,
    pub(crate) settings: Settings,
    pub(crate) http: Arc<dyn Http>,
    /// The time in seconds since 1970.
    pub(crate) clock: fn() -> u64,
}

/// Completes when the person need not be asked any more.
pub(crate) type Spared<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send + 'a)>;

/// Signs in, as the person agrees to; `None` if the person was spared that during the wait. `known` is an earlier sign-in:
/// its client serves again and its scopes are kept. A browser that came back waits for the outcome.
pub(crate) async fn sign_in(
    world: &World,
    person: &dyn Person,
    challenge: &Challenge,
    known: Option<&Record>,
    mut spared: Spared<'_>,
) -> Result<Option<(Record, Option<Arrival>)>, SignInError> {
    let World { server, settings, http, .. } = world;
    let issuer = known.map(|known| &*known.issuer);
    let discovered = discovery::discover(&**http, server, challenge, issuer).await?;
    let scopes = scopes(&settings.scopes, challenge, &discovered, known);
    let is_of_it = |client: &&Client| address::is_issuer(&client.issuer, &discovered.authorization.issuer);
    let mut kept = known.map(|known| &known.client).filter(is_of_it).filter(|_| !settings.registers_anew).cloned();
    loop {
        let is_kept = kept.is_some();
        match attempt(world, person, &discovered, &scopes, kept.take(), spared.as_mut()).await {
            // It was forgotten there.
            Err(error) if is_kept && error.is_refusal("invalid_client") => {}
            Err(error) => return Err(error),
            Ok(None) => return Ok(None),
            Ok(Some((client, tokens, arrival))) => {
                return Ok(Some((record(world, &discovered, client, tokens, scopes)?, arrival)));
            }
        }
    }
}

/// The scopes to ask for: those that were set; else those of the challenge, else those that the server knows, and that of a
/// token which can be renewed, where the issuer knows it. What was granted before stays, where a server wants more.
fn scopes(set: &Scopes, challenge: &Challenge, discovered: &Discovered, known: Option<&Record>) -> Scopes {
    let named = match &challenge.scope {
        _ if !set.is_empty() => {
            set.union(&challenge.scope.clone().filter(|_| challenge.is_insufficient_scope()).unwrap_or_default())
        }
        Some(scope) => scope.clone(),
        None => discovered.resource.as_ref().map(|resource| resource.scopes.clone()).unwrap_or_default(),
    };
    let named = match set.is_empty() && discovered.authorization.knows_offline {
        true => named.union(&Scopes::parse(Scopes::OFFLINE)),
        false => named,
    };
    match known.filter(|_| challenge.is_insufficient_scope()) {
        Some(known) => named.union(&known.scopes),
        None => named,
    }
}

/// Signs in once, as this client if it will do.
async fn attempt(
    world: &World,
    person: &dyn Person,
    discovered: &Discovered,
    scopes: &Scopes,
    kept: Option<Client>,
    spared: Spared<'_>,
) -> Result<Option<(Client, Tokens, Option<Arrival>)>, SignInError> {
    let World { settings, http, .. } = world;
    let server = &discovered.authorization;
    let resource = discovered.resource.as_ref().map(|resource| &*resource.name);
    if settings.uses_device
        && let Some(device) = &server.device
    {
        let redirect = "http://127.0.0.1/callback";
        let client = client(world, discovered, redirect, scopes, kept).await?;
        let endpoints = (device, &server.token);
        return tokio::select! {
            tokens = device::sign_in(&**http, person, endpoints, &client, resource, scopes) => {
                Ok(Some((client, tokens?, None)))
            }
            () = spared => Ok(None),
        };
    }
    let listen = |error: std::io::Error| SignInError::Here(format!("cannot listen for the browser: {error}"));
    let redirects = listen_as(settings.redirect_port, kept.as_ref()).await.map_err(listen)?;
    let redirect = redirects.url();
    let client = client(world, discovered, &redirect, scopes, kept).await?;
    let (state, verifier, key) = (Secret::random()?, Secret::random()?, Secret::random()?);
    let query = Form::default()
        .with("response_type", "code")
        .with("client_id", &client.id)
        .with("redirect_uri", &redirect)
        .with("state", state.expose())
        .with("code_challenge", &verifier.s256())
        .with("code_challenge_method", "S256")
        .with_some("resource", resource)
        .with_some("scope", Some(&scopes.to_string()))
        // Without it such a scope means nothing (OpenID Connect, 11).
        .with_some("prompt", scopes.contains(Scopes::OFFLINE).then_some("consent"));
    let join = if server.authorization.query().is_some() { '&' } else { '?' };
    let page = format!("{}{join}{}", server.authorization, query.into_text());
    person.invite(&Invitation::Page { url: page.clone(), link: redirects.link(&key) });
    let back = async {
        tokio::select! {
            arrival = redirects.arrival(Journey { page, state: state.clone(), key }) => {
                Some((arrival.query.clone(), Some(arrival)))
            }
            query = pasted(person, &state) => Some((query, None)),
            () = spared => None,
        }
    };
    let Ok(back) = tokio::time::timeout(settings.patience, back).await else {
        return Err(SignInError::TooLate(settings.patience.as_secs() / 60));
    };
    let Some((query, arrival)) = back else { return Ok(None) };
    // Nothing listens any more. The browser waits for what comes of it.
    match exchange(world, discovered, &client, &redirect, (&query, &state, &verifier)).await {
        Ok(tokens) => Ok(Some((client, tokens, arrival))),
        Err(error) => {
            show(arrival, Some(&error)).await;
            Err(error)
        }
    }
}

/// Has a redirect's code exchanged for tokens, if the redirect is right.
async fn exchange(
    world: &World,
    discovered: &Discovered,
    client: &Client,
    redirect: &str,
    (query, state, verifier): (&Secret, &Secret, &Secret),
) -> Result<Tokens, SignInError> {
    let server = &discovered.authorization;
    let code = match redirect::judge(query.expose(), state, &server.issuer, server.names_itself)? {
        Verdict::Code(code) => code,
        Verdict::NotOurs => return Err(SignInError::MixedUp { issuer: server.issuer.clone() }),
    };
    let form = Form::default()
        .with("grant_type", "authorization_code")
        .with("code", code.expose())
        .with("redirect_uri", redirect)
        .with("code_verifier", verifier.expose())
        .with_some("resource", discovered.resource.as_ref().map(|resource| &*resource.name));
    exchange::ask(&*world.http, &server.token, client, form).await
}

/// Listens where a kept client may be sent back to, if that is still free.
async fn listen_as(port: u16, kept: Option<&Client>) -> std::io::Result<Redirects> {
    let registered = kept.and_then(|kept| kept.registered.as_ref()?.redirect.parse::<Uri>().ok()?.port_u16());
    if let Some(registered) = registered.filter(|_| port == 0)
        && let Ok(redirects) = Redirects::bind(registered).await
    {
        return Ok(redirects);
    }
    Redirects::bind(port).await
}

/// As whom to sign in: a kept client, if it may do what is wanted now.
async fn client(
    world: &World,
    discovered: &Discovered,
    redirect: &str,
    scopes: &Scopes,
    kept: Option<Client>,
) -> Result<Client, SignInError> {
    let server = &discovered.authorization;
    if let ClientChoice::Known { id, secret } = &world.settings.client {
        return Client::known(server, id, secret.as_ref());
    }
    let serves = |client: &Client| {
        let registered = client.registered.as_ref();
        registered.is_none_or(|registered| registered.redirect == redirect && registered.scopes.covers(scopes))
    };
    if let Some(client) = kept.filter(serves) {
        return Ok(client);
    }
    // So that the same client will do when the server wants more.
    let known = discovered.resource.as_ref().map(|resource| &resource.scopes);
    let scopes = known.map_or_else(|| scopes.clone(), |known| scopes.union(known));
    Client::register(&*world.http, server, redirect, &scopes).await
}

/// Waits for a person to paste the URL that the browser was sent to.
async fn pasted(person: &dyn Person, state: &Secret) -> Secret {
    loop {
        let text = person.pasted().await;
        let query = text.trim().split_once('?').map(|(_, query)| query.split('#').next().unwrap_or_default());
        match query {
            Some(query) if !matches!(redirect::judge(query, state, "", false), Ok(Verdict::NotOurs)) => {
                return Secret::new(query.to_owned());
            }
            _ => person.refuse("that is not the address that the browser was sent to in this sign-in"),
        }
    }
}

/// Shows the person's browser what has come of it in the end.
pub(crate) async fn show(arrival: Option<Arrival>, error: Option<&SignInError>) {
    let Some(arrival) = arrival else { return };
    let words = match error {
        None => "You are signed in. You can close this page.",
        Some(SignInError::Denied) => "Access was denied, so you are not signed in. You can close this page.",
        Some(_) => "You are not signed in: something went wrong. The program that opened this page says what.",
    };
    arrival.show(words).await;
}

fn record(
    world: &World,
    discovered: &Discovered,
    client: Client,
    tokens: Tokens,
    asked: Scopes,
) -> Result<Record, SignInError> {
    let (server, now) = (&discovered.authorization, (world.clock)());
    Ok(Record {
        server: address::canonical(&world.server),
        profile: world.settings.profile.clone(),
        issuer: server.issuer.clone(),
        resource: discovered.resource.as_ref().map(|resource| resource.name.clone()),
        token_endpoint: server.token.to_string(),
        revocation_endpoint: server.revocation.as_ref().map(ToString::to_string),
        client,
        access: tokens.access,
        refresh: tokens.refresh,
        expires_at: tokens.lasts.map(|lasts| now.saturating_add(lasts)),
        scopes: tokens.scopes.unwrap_or(asked),
        grant: Grant::new(now)?,
    })
}
