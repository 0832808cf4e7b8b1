//! The person who is asked: at a terminal, or at a desktop where a client has started this command.

use std::{
    io::{self, BufRead, Read, Write},
    thread,
};

use rescind_sign_in::{Invitation, Pasting, Person};
use tokio::sync::{Mutex, mpsc};

use crate::{browser, fleet::report, screen::clean, stderr::say};

/// The longest line that is read.
const MAX_LINE: u64 = 64 << 10;

/// Opens the browser, and says so on stderr.
#[derive(Debug)]
pub(crate) struct Desktop {
    /// The server, as it is named to the person.
    pub(crate) server: String,
}

/// Says on stderr what to open, and reads on stdin what is pasted.
#[derive(Debug)]
pub(crate) struct Terminal {
    opens_browser: bool,
    lines: Mutex<mpsc::UnboundedReceiver<String>>,
}

impl Person for Desktop {
    fn invite(&self, invitation: &Invitation) {
        let Invitation::Page { link, .. } = invitation else { return };
        let server = &self.server;
        match browser::open(link) {
            true => say(&format!("note: {server} wants a sign-in: its page opens in the browser")),
            false => say(&format!("warning: {server} wants a sign-in, and no browser can be opened")),
        }
    }

    fn wait(&self) {
        let server = &self.server;
        say(&format!("note: {server} wants a sign-in, which another program has begun: this one waits for it"));
    }
}

impl Terminal {
    pub(crate) fn new(opens_browser: bool) -> Self {
        let (line, lines) = mpsc::unbounded_channel();
        // A line that is being read cannot be given up; the thread ends with the process.
        thread::spawn(move || {
            let mut text = String::new();
            while io::stdin().lock().take(MAX_LINE).read_line(&mut text).is_ok_and(|read| read > 0) {
                if line.send(std::mem::take(&mut text)).is_err() {
                    return;
                }
            }
        });
        Self { opens_browser, lines: Mutex::new(lines) }
    }
}

impl Person for Terminal {
    fn invite(&self, invitation: &Invitation) {
        let text = match invitation {
            Invitation::Page { link, .. } if self.opens_browser && browser::open(link) => {
                "The sign-in opens in your browser. If it does not, use --no-browser.".to_owned()
            }
            Invitation::Page { url, .. } => format!(
                "Open this address in a browser of this machine:\n\n  {}\n\nIf the browser is on another machine, it ends \
                 on a page that it cannot load: paste the address of that page here.",
                clean(url)
            ),
            Invitation::Device { page, code } => {
                format!("Open {} on any device, and type this code there: {}", clean(page), clean(code))
            }
            _ => return,
        };
        let _ = writeln!(io::stderr(), "{text}");
    }

    fn refuse(&self, why: &str) {
        report(&format!("warning: {why}"));
    }

    fn pasted(&self) -> Pasting<'_> {
        Box::pin(async {
            let line = self.lines.lock().await.recv().await;
            match line {
                Some(line) => line,
                None => std::future::pending().await,
            }
        })
    }
}
