//! A person's sign-in at one server, for as long as a program runs: its token, and what becomes of one that is refused.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{HeaderValue, Method, StatusCode, Uri, header};

use crate::{
    Challenge, ClientChoice, Http, Person, Record, Scopes, Secret, SignInError, Vault, VaultError, address, exchange,
    flight::{Flight, Lasts},
    flow::{self, Spared, World},
    form::Form,
    record::Grant,
    web,
};

/// How often one request may be refused and sent again.
const MAX_ATTEMPTS: u32 = 3;

/// For so many seconds after a person has signed in, a token counts as just given: a server that refuses it would refuse
/// the next one, too.
const FRESH: u64 = 10 * 60;

/// For so many seconds a person is not asked again on behalf of a server that has refused such a token.
const REST: u64 = 60 * 60;

/// What a server is asked to see whether it wants a sign-in. It means nothing and does no harm.
const QUESTION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// How to sign in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which of several sign-ins at the same server.
    pub profile: String,
    /// As which client.
    pub client: ClientChoice,
    /// The scopes to ask for; none for those that the server names.
    pub scopes: Scopes,
    /// A client is registered again, even if one is kept.
    pub registers_anew: bool,
    /// The person types a code on another device, where the server offers that.
    pub uses_device: bool,
    /// The port that the browser comes back to; 0 for any.
    pub redirect_port: u16,
    /// How long the person may take.
    pub patience: Duration,
}

/// How much may be done about a request that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effort {
    /// A token may be renewed without the person.
    Quiet,
    /// The person may be asked.
    Person,
}

/// A request that a server has refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The token that it had.
    pub token: Option<Secret>,
    /// What the server wants.
    pub challenge: Challenge,
    /// What may be done about it.
    pub effort: Effort,
    /// How often the same request was refused before.
    pub attempt: u32,
}

/// A person's sign-in at one server. Clones share it.
#[derive(Clone)]
pub struct SignIn {
    inner: Arc<Inner>,
}

struct Inner {
    world: World,
    vault: Vault,
    person: Option<Arc<dyn Person>>,
    state: Mutex<State>,
    renewing: Flight<Result<(), SignInError>>,
    signing_in: Flight<Result<(), SignInError>>,
}

#[derive(Default)]
struct State {
    is_loaded: bool,
    record: Option<Record>,
    /// The last time that a person was asked in vain. The person is asked again only on an explicit request.
    failed: Option<Failed>,
}

/// What came of asking a person in vain.
struct Failed {
    error: SignInError,
    /// The sign-in that was kept then. After another one the person may be asked again.
    grant: Option<Grant>,
    /// Seconds since 1970.
    at: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            profile: "default".to_owned(),
            client: ClientChoice::default(),
            scopes: Scopes::default(),
            registers_anew: false,
            uses_device: false,
            redirect_port: 0,
            patience: Duration::from_secs(10 * 60),
        }
    }
}

impl SignIn {
    /// The sign-in at `server` that `vault` keeps, or may keep. Without `person` no one is ever asked.
    #[must_use]
    pub fn new(
        server: Uri,
        settings: Settings,
        http: Arc<dyn Http>,
        vault: Vault,
        person: Option<Arc<dyn Person>>,
    ) -> Self {
        Self::with_clock(server, settings, http, vault, person, system_clock)
    }

    /// As [`new`](Self::new), with a clock of the caller's: it gives the time in seconds since 1970.
    #[must_use]
    pub fn with_clock(
        server: Uri,
        settings: Settings,
        http: Arc<dyn Http>,
        vault: Vault,
        person: Option<Arc<dyn Person>>,
        clock: fn() -> u64,
    ) -> Self {
        let world = World { server, settings, http, clock };
        let (renewing, signing_in) = (Flight::new(), Flight::new());
        let state = Mutex::new(State::default());
        Self { inner: Arc::new(Inner { world, vault, person, state, renewing, signing_in }) }
    }

    /// The token for the next request, if there is one. One that is about to expire is renewed first. Call it on a tokio
    /// runtime, as the others.
    ///
    /// There is none for a server without https on another machine, whatever is kept.
    pub async fn token(&self) -> Option<Secret> {
        let record = self.inner.loaded().filter(|_| address::may_have_token(&self.inner.world.server))?;
        if !record.is_expired((self.inner.world.clock)()) || !record.can_be_renewed() {
            return Some(record.access);
        }
        // Whatever comes of it: the server has the last word.
        let _ = self.inner.renew(record.access).await;
        self.inner.loaded().map(|record| record.access)
    }

    /// Sees to it that a request which was refused may be sent again. However many are refused, one token is asked for; and
    /// however many processes wait for the person, one of them asks at a time, and its answer is that of all.
    ///
    /// If the server then refuses the token that the person has just signed in for, the person is not asked again within an
    /// hour, unless another process has obtained a sign-in since.
    ///
    /// Dropping the future ends the wait. Once no caller waits any more, the person is not asked any longer: nothing listens
    /// for the browser, and nothing is kept. A token that is being renewed is renewed to the end, since the old one may be
    /// void already.
    ///
    /// # Errors
    ///
    /// No other token could be had. The request must not be sent again.
    pub async fn renew(&self, refused: &Refused) -> Result<(), SignInError> {
        let inner = &self.inner;
        inner.require_encryption()?;
        let known = inner.reload()?;
        let now = (inner.world.clock)();
        let grant = known.as_ref().map(|known| known.grant);
        // In any case: a server that is never content, or whose tokens expire at once, must not make us ask for ever.
        if refused.attempt >= MAX_ATTEMPTS {
            return Err(inner.failed(SignInError::StillRefused, grant));
        }
        let wants_more = refused.challenge.is_insufficient_scope();
        let is_another = |known: &Record| refused.token.as_ref() != Some(&known.access) && !known.is_expired(now);
        if known.as_ref().is_some_and(is_another) {
            return Ok(());
        }
        let is_fresh = |grant: Grant| now < grant.at.saturating_add(FRESH);
        let is_given = refused.token.is_some() && grant.is_some_and(is_fresh);
        let covers = |known: &Record| refused.challenge.scope.as_ref().is_none_or(|scope| known.scopes.covers(scope));
        let is_vain = match wants_more {
            true => is_given && known.as_ref().is_some_and(covers),
            false => refused.attempt > 0 && is_given,
        };
        if is_vain {
            return Err(inner.failed(SignInError::StillRefused, grant));
        }
        if let Some(known) =
            known.as_ref().filter(|known| known.can_be_renewed() && !wants_more && refused.attempt == 0)
        {
            match inner.renew(known.access.clone()).await {
                Err(error) if ends_sign_in(&error) => {}
                renewed => return renewed,
            }
        }
        let Some(person) = inner.person.clone().filter(|_| refused.effort == Effort::Person) else {
            return Err(SignInError::Nobody);
        };
        if let Some(failed) = inner.state().failed.as_ref().filter(|failed| failed.stands(grant, now)) {
            return Err(failed.error.clone());
        }
        let (challenge, inner) = (refused.challenge.clone(), Arc::clone(inner));
        let ask = || {
            let inner = Arc::clone(&inner);
            async move { inner.ask_in_turn(&*person, &challenge).await }
        };
        let broke_off = || Err(SignInError::Here("the sign-in broke off".to_owned()));
        self.inner.signing_in.join(Lasts::WhileAwaited, ask).await.unwrap_or_else(broke_off)
    }

    /// Signs in, also where a sign-in is kept already.
    ///
    /// Dropping the future ends it: nothing listens for the person's browser, and nothing is kept.
    ///
    /// # Errors
    ///
    /// It did not succeed.
    pub async fn sign_in(&self) -> Result<Record, SignInError> {
        let inner = &self.inner;
        inner.require_encryption()?;
        let person = inner.person.clone().ok_or(SignInError::Nobody)?;
        let challenge = inner.challenge().await?;
        let mut never = pin!(std::future::pending());
        inner.ask(&*person, &challenge, never.as_mut()).await?.ok_or(SignInError::Nobody)
    }

    /// What is kept.
    ///
    /// # Errors
    ///
    /// It cannot be read, or others could.
    pub fn record(&self) -> Result<Option<Record>, VaultError> {
        self.inner.reload()
    }

    /// Forgets the sign-in, and has the server do so, too (RFC 7009). Gives what was kept, and whether the server agreed:
    /// `None` if that cannot be known.
    ///
    /// # Errors
    ///
    /// It cannot be read or removed. Nothing was changed.
    pub async fn sign_out(&self) -> Result<Option<(Record, Option<Result<(), SignInError>>)>, VaultError> {
        let inner = &self.inner;
        let (server, profile) = inner.place();
        let _lock = inner.vault.lock(&server, &profile).await?;
        let Some(record) = inner.vault.read(&server, &profile)? else { return Ok(None) };
        inner.vault.remove(&server, &profile)?;
        inner.set(None);
        let revoked = match &record.revocation_endpoint {
            Some(endpoint) => Some(inner.revoke(&record, endpoint).await),
            None => None,
        };
        Ok(Some((record, revoked)))
    }

    /// Whether a person is being asked, be it by another process whose answer is waited for.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.inner.signing_in.is_under_way()
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, record: Option<Record>) {
        let mut state = self.state();
        (state.record, state.is_loaded) = (record, true);
    }

    fn place(&self) -> (String, String) {
        (address::canonical(&self.world.server), self.world.settings.profile.clone())
    }

    /// What is kept, as it was when it was last read.
    fn loaded(&self) -> Option<Record> {
        let state = self.state();
        if state.is_loaded {
            return state.record.clone();
        }
        drop(state);
        self.reload().ok().flatten()
    }

    /// What is kept now: another process may have changed it.
    fn reload(&self) -> Result<Option<Record>, VaultError> {
        let (server, profile) = self.place();
        let record = self.vault.read(&server, &profile)?;
        self.set(record.clone());
        Ok(record)
    }

    /// Gets another token in place of `stale`, without the person.
    async fn renew(self: &Arc<Self>, stale: Secret) -> Result<(), SignInError> {
        let inner = Arc::clone(self);
        let broke_off = || Err(SignInError::Here("the renewal broke off".to_owned()));
        let renewed = self.renewing.join(Lasts::ToItsEnd, || async move { inner.exchange(&stale).await });
        renewed.await.unwrap_or_else(broke_off)
    }

    async fn exchange(&self, stale: &Secret) -> Result<(), SignInError> {
        let (server, profile) = self.place();
        let lock = self.vault.lock(&server, &profile).await?;
        let Some(record) = self.vault.read(&server, &profile)? else { return Err(SignInError::Nobody) };
        let now = (self.world.clock)();
        if record.access != *stale && !record.is_expired(now) {
            self.set(Some(record));
            return Ok(());
        }
        let refresh = record.refresh.clone().ok_or(SignInError::Nobody)?;
        let url = address::named_by(&self.world.server, &record.token_endpoint)
            .map_err(|fault| SignInError::page("sign-in that was kept", format!("its token_endpoint {fault}")))?;
        let form = Form::default()
            .with("grant_type", "refresh_token")
            .with("refresh_token", refresh.expose())
            .with_some("resource", record.resource.as_deref());
        let record = match exchange::ask(&*self.world.http, &url, &record.client, form).await {
            Ok(tokens) => record.renewed(tokens, (self.world.clock)()),
            Err(error) => {
                if ends_sign_in(&error) {
                    // It is not tried again; nor is a client that was forgotten there sent anyone's way.
                    let mut client = record.client.clone();
                    if let Some(registered) = client.registered.as_mut().filter(|_| error.is_refusal("invalid_client"))
                    {
                        registered.redirect.clear();
                    }
                    let record = Record { refresh: None, client, ..record };
                    self.vault.write(&lock, &record)?;
                    self.set(Some(record));
                }
                return Err(error);
            }
        };
        self.vault.write(&lock, &record)?;
        self.set(Some(record));
        Ok(())
    }

    /// Asks the person once no other process does, unless what that was given serves here, too.
    async fn ask_in_turn(&self, person: &dyn Person, challenge: &Challenge) -> Result<(), SignInError> {
        let (server, profile) = self.place();
        let known = self.vault.read(&server, &profile)?;
        let serves = |record: &Record| {
            let is_another = known.as_ref().is_none_or(|known| known.access != record.access);
            let wanted = challenge.scope.as_ref().filter(|_| challenge.is_insufficient_scope());
            let covers = wanted.is_none_or(|wanted| record.scopes.covers(wanted));
            is_another && covers && !record.is_expired((self.world.clock)())
        };
        let mut found = pin!(async { self.set(Some(self.vault.found(&server, &profile, serves).await)) });
        let turn = tokio::select! {
            () = &mut found => return Ok(()),
            turn = self.vault.turn(&server, &profile, || person.wait()) => turn?,
        };
        let turn = match turn {
            Ok(turn) => turn,
            Err(words) => {
                let grant = known.as_ref().map(|known| known.grant);
                return Err(self.failed(SignInError::Elsewhere(words), grant));
            }
        };
        // It may have been kept just before its process let the turn go.
        if self.reload()?.is_some_and(|record| serves(&record)) {
            return Ok(());
        }
        let asked = self.ask(person, challenge, found).await;
        if let Some(error) = asked.as_ref().err().filter(|error| was_asked(error)) {
            turn.tell(&error.to_string());
        }
        asked.map(drop)
    }

    /// Asks the person, and keeps the outcome; `None` if the person was spared that.
    async fn ask(
        &self,
        person: &dyn Person,
        challenge: &Challenge,
        spared: Spared<'_>,
    ) -> Result<Option<Record>, SignInError> {
        let (server, profile) = self.place();
        let known = self.vault.read(&server, &profile)?;
        let (record, arrival) = match flow::sign_in(&self.world, person, challenge, known.as_ref(), spared).await {
            Ok(Some(signed_in)) => signed_in,
            Ok(None) => return Ok(None),
            Err(error) if was_asked(&error) => return Err(self.failed(error, known.map(|known| known.grant))),
            Err(error) => return Err(error),
        };
        let kept = self.keep(&server, &profile, &record).await.map_err(SignInError::from);
        flow::show(arrival, kept.as_ref().err()).await;
        kept.map(|()| Some(record))
    }

    /// Records that the person was asked in vain while this was kept, and gives the error back.
    fn failed(&self, error: SignInError, grant: Option<Grant>) -> SignInError {
        self.state().failed = Some(Failed { error: error.clone(), grant, at: (self.world.clock)() });
        error
    }

    /// Refuses to sign in where others could read the token on its way.
    fn require_encryption(&self) -> Result<(), SignInError> {
        let server = &self.world.server;
        let origin = || address::origin(server);
        if address::may_have_token(server) { Ok(()) } else { Err(SignInError::NotEncrypted { origin: origin() }) }
    }

    /// Keeps what a person has signed in for.
    async fn keep(&self, server: &str, profile: &str, record: &Record) -> Result<(), VaultError> {
        let lock = self.vault.lock(server, profile).await?;
        self.vault.write(&lock, record)?;
        self.set(Some(record.clone()));
        Ok(())
    }

    /// What the server wants of somebody who is not signed in.
    async fn challenge(&self) -> Result<Challenge, SignInError> {
        let accepted = "application/json, text/event-stream";
        let mut request = web::request(Method::POST, &self.world.server, accepted, QUESTION.into());
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let reply = web::send(&*self.world.http, request).await?;
        match Challenge::read(&reply.headers) {
            Some(challenge) if reply.status == StatusCode::UNAUTHORIZED => Ok(challenge),
            _ => Err(SignInError::NotAsked),
        }
    }

    async fn revoke(&self, record: &Record, endpoint: &str) -> Result<(), SignInError> {
        let url = address::named_by(&self.world.server, endpoint)
            .map_err(|fault| SignInError::page("sign-in that was kept", format!("its revocation_endpoint {fault}")))?;
        let refresh = record.refresh.as_ref().map(|token| ("refresh_token", token));
        for (kind, token) in refresh.into_iter().chain([("access_token", &record.access)]) {
            let form = Form::default().with("token", token.expose()).with("token_type_hint", kind);
            exchange::submit(&*self.world.http, &url, &record.client, form).await?;
        }
        Ok(())
    }
}

/// Whether a token can no longer be renewed, and the person has to sign in again.
fn ends_sign_in(error: &SignInError) -> bool {
    let codes = ["invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope"];
    matches!(error, SignInError::Nobody) || codes.iter().any(|code| error.is_refusal(code))
}

/// Whether a person was asked before this happened, and would be for nothing if it were tried again at once.
fn was_asked(error: &SignInError) -> bool {
    match error {
        SignInError::Denied
        | SignInError::Refused { .. }
        | SignInError::MixedUp { .. }
        | SignInError::Token(_)
        | SignInError::TooLate(_)
        | SignInError::Elsewhere(_) => true,
        SignInError::Http { .. }
        | SignInError::NoWay
        | SignInError::NotEncrypted { .. }
        | SignInError::NotAsked
        | SignInError::Page { .. }
        | SignInError::Client(_)
        | SignInError::Nobody
        | SignInError::StillRefused
        | SignInError::Here(_)
        | SignInError::Vault(_) => false,
    }
}

impl Failed {
    /// Whether the person would be asked in vain again, at `now`, while this is kept.
    fn stands(&self, grant: Option<Grant>, now: u64) -> bool {
        let is_over = matches!(self.error, SignInError::StillRefused) && now >= self.at.saturating_add(REST);
        self.grant == grant && !is_over
    }
}

fn system_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignIn").field("server", &address::origin(&self.inner.world.server)).finish_non_exhaustive()
    }
}
