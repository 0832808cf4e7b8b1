//! A console with scripted shims behind it.

use std::{path::PathBuf, thread};

use rescind_console::{AccessKey, Console, ConsoleSettings, Recording};
use rescind_feed::{Cancel, Request, Settled, SettledHow, State};
use rescind_operator::Directories;
use rescind_testkit::fake_shim::{FakeShim, session};
use tempfile::TempDir;
use tokio::{runtime::Runtime, sync::oneshot};

use super::driver::Browser;

pub(crate) const SECOND: u64 = 1_000_000;

/// A directory of sockets and a console that shows it. Dropped, both are gone.
pub(crate) struct Stage {
    runtime: Option<Runtime>,
    directory: TempDir,
    link: String,
    page: String,
}

impl Stage {
    /// Opens one that shows what runs.
    pub(crate) fn open() -> Self {
        Self::with(Vec::new())
    }

    /// Opens one that shows recordings, if there are any, in place of what runs.
    pub(crate) fn with(recordings: Vec<Recording>) -> Self {
        Self::showing(recordings, None)
    }

    /// Opens one that shows what runs, and what the history in this folder has of what ran.
    pub(crate) fn remembering(history: PathBuf) -> Self {
        Self::showing(Vec::new(), Some(history))
    }

    fn showing(recordings: Vec<Recording>, history: Option<PathBuf>) -> Self {
        let directory = TempDir::new().expect("a directory");
        let key = AccessKey::random().expect("a key");
        let inside = key.reveal().to_owned();
        let runtime = Runtime::new().expect("a runtime");
        let (told, tells) = oneshot::channel();
        let shims = recordings.is_empty().then(|| Directories::at(directory.path().join("shims")));
        runtime.spawn(async move {
            let console =
                Console::open(ConsoleSettings { port: 0, key, directories: shims, recordings, history }).await;
            let console = console.expect("a console");
            let _ = told.send((console.link(), console.address().port()));
            console.serve().await;
        });
        let (link, port) = tells.blocking_recv().expect("a console");
        Self { runtime: Some(runtime), directory, link, page: format!("http://127.0.0.1:{port}/{inside}/") }
    }

    /// The link that opens the page once.
    pub(crate) fn link(&self) -> &str {
        &self.link
    }

    /// The page's own address.
    pub(crate) fn page(&self) -> &str {
        &self.page
    }

    /// A shim of an MCP server.
    pub(crate) fn shim(&self, name: &str, command: &[&str]) -> FakeShim {
        let mut facts = session(name, command);
        facts.client.name = Some("a-client".into());
        facts.server.name = Some("a-server".into());
        FakeShim::open(&self.sockets(), facts)
    }

    /// A shim of an ACP agent, whose protocol answers a cancelled request.
    pub(crate) fn agent(&self, name: &str) -> FakeShim {
        let mut facts = session(name, &["some-agent", "--acp"]);
        for implementation in [&mut facts.client, &mut facts.server] {
            implementation.protocol = "acp-v1".into();
        }
        facts.client.name = Some("an-editor".into());
        facts.server.name = Some("some-agent".into());
        FakeShim::open(&self.sockets(), facts)
    }

    pub(crate) fn sockets(&self) -> PathBuf {
        self.directory.path().join("shims")
    }

    /// The console ends, as when its terminal is closed.
    pub(crate) fn close(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.close();
    }
}

/// Runs a case with a stage and a browser on its page; says nothing where there is no browser.
pub(crate) fn on_stage(case: impl FnOnce(&Stage, &Browser)) {
    let Some(browser) = Browser::start() else { return };
    let stage = Stage::open();
    browser.go(stage.link());
    case(&stage, &browser);
    // The shims went with the case: that what is in the details is not there any more is no complaint.
    let mut complaints = browser.complaints();
    complaints.retain(|said| !(said.contains("/requests/") && said.contains("404 (Not Found)")));
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// Waits for the row of a request to hold these words, and gives its text.
pub(crate) fn row(browser: &Browser, session: &str, key: &str, words: &str) -> String {
    let found = browser.until(&format!(
        "((row) => row && row.innerText.includes({words:?}) && row.innerText)(document.querySelector('#rows tr[data-uid=\"{session}/{key}\"]'))"
    ));
    found.as_str().unwrap_or_default().to_owned()
}

/// Waits for the bar of a request to be in sight with this in its label.
pub(crate) fn bar(browser: &Browser, session: &str, key: &str, words: &str) {
    browser.until(&format!(
        "((bar) => bar && !bar.hidden && bar.offsetWidth > 0 && bar.querySelector('.label').textContent.includes({words:?}))(document.querySelector('.bar[data-uid=\"{session}/{key}\"]'))"
    ));
}

/// Opens a request's details and cancels it there, with a reason.
pub(crate) fn cancel(browser: &Browser, session: &str, key: &str, reason: &str) {
    row(browser, session, key, "Cancel…");
    browser.click(&format!("#rows tr[data-uid=\"{session}/{key}\"] .c-cancel button"));
    browser.until("document.activeElement.id === 'reason'");
    browser.write(reason);
    browser.click("#cancel-send");
}

/// The request as it is once it was cancelled at `at`, over for its requester at once, as MCP has it.
pub(crate) fn stopped(request: &mut Request, cancel: Cancel, at: u64) {
    request.cancel = Some(cancel.in_words(request.late.as_ref()));
    request.settled = Some(Settled { at, how: SettledHow::AnsweredHere, code: Some(-31_003) });
    request.state = State::Ended;
}

/// Does something while the test goes on.
pub(crate) fn meanwhile(what: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(what)
}
