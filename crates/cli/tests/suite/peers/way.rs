//! How a client reaches a server through Rescind.

use std::fmt;

use super::programs::{Bench, Started};

const RESCIND: &str = env!("CARGO_BIN_EXE_rescind");

/// A way from a client to a server: what either speaks, and what stands between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// stdio, `rescind run`, stdio.
    Run,
    /// stdio, `rescind run --url`, HTTP.
    Url,
    /// HTTP, `rescind serve`, stdio.
    Serve,
    /// HTTP, `rescind serve --upstream`, HTTP.
    Upstream,
}

/// A way that is laid: the client's last words, and what runs for it.
pub(crate) struct Laid {
    pub(crate) words: Vec<String>,
    /// The server, if it does not belong to the client.
    pub(crate) server: Option<Started>,
    /// What stands between, if it does not belong to the client.
    pub(crate) between: Option<Started>,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Run, Self::Url, Self::Serve, Self::Upstream];

    /// Whether the client speaks HTTP.
    pub(crate) const fn begins_with_http(self) -> bool {
        matches!(self, Self::Serve | Self::Upstream)
    }

    /// Whether the server speaks HTTP.
    pub(crate) const fn ends_with_http(self) -> bool {
        matches!(self, Self::Url | Self::Upstream)
    }

    /// Lays the way to the server that `server` is the command of, which `--http` puts on HTTP; with these flags.
    pub(crate) fn lay(self, bench: &Bench, server: Vec<String>, flags: &[&str]) -> Laid {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let start = |name: &str, command: Vec<String>| {
            let mut started = bench.start(name, bench.command(&command));
            let url = listening(&mut started);
            (started, url)
        };
        let (server, mut reached) = if self.ends_with_http() {
            let (server, url) = start("server", [server, words(&["--http"])].concat());
            // In one word: `--url` alone would be the client's own flag.
            let flag = if self == Self::Url { format!("--url={url}") } else { format!("--upstream={url}") };
            (Some(server), vec![flag])
        } else {
            (None, [words(&["--"]), server].concat())
        };
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        let command: &[&str] = if self.begins_with_http() { &serve } else { &["run"] };
        reached = [words(&[RESCIND]), words(command), words(flags), reached].concat();
        if !self.begins_with_http() {
            return Laid { words: [words(&["--"]), reached].concat(), server, between: None };
        }
        let (between, url) = start("serve", reached);
        Laid { words: words(&["--url", &url]), server, between: Some(between) }
    }
}

impl Laid {
    /// What the parts said on stderr.
    pub(crate) fn said(&self) -> String {
        self.server.iter().chain(&self.between).map(Started::said).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Url => "run --url",
            Self::Serve => "serve",
            Self::Upstream => "serve --upstream",
        })
    }
}

/// The URL of a service, once it has said the whole of it: some say a line in pieces.
fn listening(service: &mut Started) -> String {
    let whole = |line: &str| Some(line.strip_suffix('\n')?.strip_prefix("listening on ")?.to_owned());
    service.until(|said| said.split_inclusive('\n').find_map(whole))
}
