//! A sign-in between a scripted server and a person in the test's hands.

use std::{cell::Cell, path::PathBuf, sync::Arc, time::Duration};

use rescind_sign_in::{
    Challenge, Effort, Invitation, Person, Record, Refused, Scopes, Secret, Settings, SignIn, SignInError, Vault,
};
use ring::digest::{SHA256, digest};
use tempfile::TempDir;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    browser::{Browser, Page},
    script::{SERVER, Script},
};

thread_local! {
    /// The time in seconds since 1970.
    static NOW: Cell<u64> = const { Cell::new(1_000_000) };
}

/// Everything runs on the test's own thread.
fn clock() -> u64 {
    NOW.get()
}

pub(crate) fn advance(seconds: u64) {
    NOW.set(NOW.get() + seconds);
}

pub(crate) struct Rig {
    pub(crate) script: Script,
    pub(crate) browser: Arc<Browser>,
    invitations: mpsc::UnboundedReceiver<Invitation>,
    folder: TempDir,
    server: &'static str,
    pub(crate) sign_in: SignIn,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::at(SERVER, settings)
    }

    /// A sign-in at a server of this URL.
    pub(crate) fn at(server: &'static str, settings: Settings) -> Self {
        let script = Script::default();
        let (browser, invitations) = Browser::new();
        let folder = tempfile::tempdir().unwrap();
        let person = Some(Arc::clone(&browser) as _);
        let sign_in = open(server, &script, folder.path().join("vault"), settings, person);
        Self { script, browser, invitations, folder, server, sign_in }
    }

    pub(crate) fn vault(&self) -> PathBuf {
        self.folder.path().join("vault")
    }

    /// Has the sign-in that is kept be one at a server of this URL.
    pub(crate) fn move_to(&mut self, server: &'static str) {
        let file = |server: &str| {
            let name = digest(&SHA256, format!("{server}\ndefault").as_bytes());
            let name: String = name.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
            self.vault().join(format!("{name}.json"))
        };
        let (old, new) = (file(self.server), file(server));
        std::fs::rename(&old, &new).unwrap();
        let text = std::fs::read_to_string(&new).unwrap().replace(self.server, server);
        std::fs::write(&new, text).unwrap();
        self.server = server;
        self.sign_in = self.another(Settings::default());
    }

    /// The same sign-in in another process.
    pub(crate) fn another(&self, settings: Settings) -> SignIn {
        open(self.server, &self.script, self.vault(), settings, Some(Arc::clone(&self.browser) as _))
    }

    /// The same where nobody can be asked.
    pub(crate) fn alone(&self) -> SignIn {
        open(self.server, &self.script, self.vault(), Settings::default(), None)
    }

    /// Begins to sign in, as `rescind login` does.
    pub(crate) fn begin(&self) -> JoinHandle<Result<Record, SignInError>> {
        let sign_in = self.sign_in.clone();
        tokio::task::spawn_local(async move { sign_in.sign_in().await })
    }

    /// The page that the person is sent to next.
    pub(crate) async fn page(&mut self) -> Page {
        Page::of(self.invitation().await)
    }

    pub(crate) async fn invitation(&mut self) -> Invitation {
        self.invitations.recv().await.unwrap()
    }

    /// Whether the person was asked since the last time.
    pub(crate) fn was_asked(&mut self) -> bool {
        self.asked_for().is_some()
    }

    /// The page that the person was sent to since the last time, if he was.
    pub(crate) fn asked_for(&mut self) -> Option<Page> {
        self.invitations.try_recv().ok().map(Page::of)
    }

    /// Begins to see to a token for a request that had none, as whoever has this sign-in.
    pub(crate) fn wanting(&self, sign_in: &SignIn) -> JoinHandle<Result<(), SignInError>> {
        let sign_in = sign_in.clone();
        tokio::task::spawn_local(async move { sign_in.renew(&Refused { token: None, ..refused("") }).await })
    }

    /// Signs in.
    pub(crate) async fn signed_in(&mut self) -> Record {
        let begun = self.begin();
        let page = self.page().await;
        let shown = page.agree(&self.script).await;
        assert!(shown.contains("You are signed in."), "{shown}");
        begun.await.unwrap().unwrap()
    }

    /// Signs in where that must not succeed, with a browser that comes back so; gives why not.
    pub(crate) async fn refused(&mut self, back: impl AsyncFnOnce(&Script, &Page) -> String) -> String {
        let begun = self.begin();
        let page = self.page().await;
        let shown = back(&self.script, &page).await;
        assert!(!shown.contains("You are signed in."), "{shown}");
        let error = begun.await.unwrap().unwrap_err().to_string();
        assert!(!page.is_open().await);
        self.assert_nothing_kept();
        error
    }

    pub(crate) fn assert_nothing_kept(&self) {
        assert!(self.sign_in.record().unwrap().is_none());
    }

    /// The token for the next request.
    pub(crate) async fn token(&self) -> Option<String> {
        self.sign_in.token().await.map(|token| token.expose().to_owned())
    }
}

fn open(server: &str, script: &Script, vault: PathBuf, settings: Settings, person: Option<Arc<dyn Person>>) -> SignIn {
    let http = Arc::new(script.clone());
    SignIn::with_clock(server.parse().unwrap(), settings, http, Vault::new(vault), person, clock)
}

/// A request that was refused with this token.
pub(crate) fn refused(token: &str) -> Refused {
    Refused {
        token: Some(Secret::new(token.to_owned())),
        challenge: Challenge::default(),
        effort: Effort::Person,
        attempt: 0,
    }
}

/// One whose token may do too little.
pub(crate) fn insufficient(token: &str, scope: &str) -> Refused {
    let challenge = Challenge {
        scope: Some(Scopes::parse(scope)),
        error: Some("insufficient_scope".into()),
        ..Challenge::default()
    };
    Refused { challenge, ..refused(token) }
}

/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a test with tasks of its own thread.
pub(crate) async fn here<T>(test: impl Future<Output = T>) -> T {
    let test = tokio::task::LocalSet::new().run_until(tokio::time::timeout(PATIENCE, test)).await;
    test.expect("the test has ended in time")
}
