//! Clients of one era of MCP before servers that know only the other, over every way through Rescind.
//!
//! `cargo test --workspace --test suite -- peers::eras --nocapture` prints what was seen as a table. With
//! `RESCIND_ALL_ERAS=1` in the environment it is every client before every server, those of one era included.

use std::env;
use std::fmt::Write as _;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::http_client::Client;
use super::parts::{not_installed, peers, text};
use super::play::{read, say, skip};
use super::programs::Bench;
use super::story::Story;
use super::way::Way;

/// Runs at once: they mostly wait.
const AT_ONCE: usize = 3;

/// What a client does, one after the other; the last ends it.
const SCENARIOS: [&str; 7] = ["progress", "silent", "ticking", "late-answer", "large", "subscription", "closing"];

/// A server, by the revisions that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// It speaks what the server of this client's SDK speaks.
    Of(Client),
    /// TypeScript 2.x, 2026-07-28 alone.
    ModernAlone,
}

impl Server {
    const ALL: [Self; 6] = [
        Self::Of(Client::TypeScript1),
        Self::Of(Client::Python1),
        Self::ModernAlone,
        Self::Of(Client::TypeScript2),
        Self::Of(Client::Python2),
        Self::Of(Client::Rmcp),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Of(Client::TypeScript1) => "TypeScript 1.x, sessions",
            Self::Of(Client::Python1) => "Python 1.x, sessions",
            Self::Of(Client::TypeScript2 | Client::TypeScript2Modern) => "TypeScript 2.x, both",
            Self::Of(Client::Python2 | Client::Python2Modern) => "Python 2.x, both",
            Self::Of(Client::Rmcp | Client::RmcpModern) => "rmcp 3.x, both",
            Self::ModernAlone => "TypeScript 2.x, 2026-07-28",
        }
    }

    fn command(self) -> Vec<String> {
        match self {
            Self::Of(client) => client.server(),
            Self::ModernAlone => {
                let script = text(&peers().join("node/mcp2/server.mjs"));
                vec!["node".to_owned(), script, "--modern".to_owned()]
            }
        }
    }

    fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Of(client) => client.needs(),
            Self::ModernAlone => Client::TypeScript2.needs(),
        }
    }

    /// Whether it knows nothing of the client's era.
    fn is_strange_to(self, client: Client) -> bool {
        match self {
            Self::Of(Client::TypeScript1 | Client::Python1) => client.is_modern(),
            Self::ModernAlone => !client.is_modern(),
            Self::Of(_) => false,
        }
    }

    /// Whether it tells when its list of tools changes.
    fn tells_changes(self) -> bool {
        matches!(self, Self::ModernAlone | Self::Of(Client::TypeScript1))
    }

    fn is_on_python(self) -> bool {
        matches!(self, Self::Of(Client::Python1 | Client::Python2))
    }
}

/// A client, a server and the way between.
#[derive(Clone, Copy, Debug)]
struct Case {
    client: Client,
    server: Server,
    way: Way,
}

/// What was seen, in the words of a table.
struct Seen {
    case: Case,
    cells: Vec<(&'static str, Result<(), String>)>,
    story: Story,
    said: String,
}

#[test]
fn a_client_of_one_era_works_and_cancels_before_a_server_of_the_other() {
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.is_there()).collect();
    let next = AtomicUsize::new(0);
    let work = || -> Vec<(usize, Seen)> {
        let mine = std::iter::from_fn(|| {
            let at = next.fetch_add(1, Ordering::Relaxed);
            Some((at, *cases.get(at)?))
        });
        mine.map(|(at, case)| (at, case.play())).collect()
    };
    let mut seen: Vec<(usize, Seen)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    seen.sort_by_key(|(at, _)| *at);
    if !seen.is_empty() {
        say(&table(&seen));
    }
    for (_, Seen { case, cells, story, said }) in &seen {
        for (what, cell) in cells {
            assert!(cell.is_ok(), "{what}: {cell:?}, {case:?}: {story:?}\n{said}");
        }
    }
}

/// Those of two eras, one SDK for each; all of them where that is wanted.
fn cases() -> Vec<Case> {
    let is_all = env::var_os("RESCIND_ALL_ERAS").is_some();
    let pairs = Client::ALL.into_iter().flat_map(|client| Server::ALL.map(|server| (client, server)));
    let all = pairs.flat_map(|(client, server)| Way::ALL.map(|way| Case { client, server, way }));
    all.filter(|case| case.is_possible() && (is_all || case.is_telling())).collect()
}

impl Case {
    /// The client on rmcp speaks only HTTP.
    fn is_possible(self) -> bool {
        self.way.begins_with_http() || !matches!(self.client, Client::Rmcp | Client::RmcpModern)
    }

    /// One of each kind: the TypeScript SDKs on every way, the others on one.
    fn is_telling(self) -> bool {
        let is_usual = match self.client {
            Client::TypeScript1 | Client::TypeScript2Modern => true,
            Client::Python2 | Client::Python2Modern => self.way == Way::Run,
            Client::Rmcp | Client::RmcpModern => self.way == Way::Serve,
            Client::TypeScript2 | Client::Python1 => false,
        };
        let is_first = !matches!((self.client, self.server), (Client::TypeScript2Modern, Server::Of(Client::Python1)))
            && !matches!((self.client, self.server), (Client::Python2Modern, Server::Of(Client::TypeScript1)))
            && !matches!((self.client, self.server), (Client::RmcpModern, Server::Of(Client::Python1)));
        is_usual && is_first && self.server.is_strange_to(self.client)
    }

    /// Whether the client and the server can play this, by themselves.
    fn plays(self, scenario: &str) -> bool {
        let Self { client, server, way } = self;
        match scenario {
            // On HTTP the Python SDK stops a handler that would answer anyway.
            "late-answer" => !(server.is_on_python() && way.ends_with_http()),
            // The tool there has no such argument.
            "large" => !(server.is_on_python() && matches!(client, Client::Rmcp | Client::RmcpModern)),
            "subscription" => server.tells_changes() && (client.is_modern() || client == Client::TypeScript1),
            // The Python SDK 1.x fails when its server ends while it leaves.
            "closing" => !(client == Client::Python1 && way == Way::Run),
            _ => true,
        }
    }

    fn is_there(self) -> bool {
        let folders = [self.client.needs(), self.server.needs()].concat();
        let commands: &[&str] = if folders.iter().any(|folder| folder.starts_with("node")) { &["node"] } else { &[] };
        let Some(part) = not_installed(&folders, commands) else { return true };
        assert!(env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{self:?}: {part}");
        skip(part);
        false
    }

    fn play(self) -> Seen {
        let Self { client, server, way } = self;
        let bench = Bench::new(&[]);
        File::create(bench.file("marks")).unwrap();
        let mut laid = way.lay(&bench, server.command(), &["--bridge"]);
        let played: Vec<&str> = SCENARIOS.into_iter().filter(|scenario| self.plays(scenario)).collect();
        let scenarios = played.iter().map(|&scenario| scenario.to_owned()).collect();
        let ended =
            bench.start("client", bench.command(&[client.command(), scenarios, laid.words.clone()].concat())).wait();
        let story = || Story::new(true, &ended.stdout, &ended.stderr, &read(&bench.file("marks")));
        // The client has left politely, with a call in flight.
        let stopped = || story().events("closing").contains(&"stopped").then_some(());
        let outlives = laid.server.as_mut().or(laid.between.as_mut());
        // A server on stdio ends by itself at the end of its input.
        let is_over = outlives.is_none_or(|outlives| outlives.waits_for(|_| stopped()).is_some());
        let leaves = if is_over { Ok(()) } else { Err("the work of a client that has left goes on".to_owned()) };
        let said = laid.said();
        for mut service in laid.between.into_iter().chain(laid.server) {
            let _ = service.child().kill();
            let _ = service.child().wait();
        }
        let story = story();
        let mut cells = vec![("calls", calls(&story, client))];
        cells.extend(played.into_iter().map(|scenario| match scenario {
            "progress" => ("progress", progress(&story)),
            "silent" => ("cancel", cancelled(&story, "silent")),
            "ticking" => ("cancel after progress", cancelled(&story, "ticking")),
            "late-answer" => ("late answer", late(&story)),
            "large" => ("large", equal(story.outcomes("large"), &["result 1048576 letters"])),
            "subscription" => ("list change", equal(story.outcomes("subscription"), &["result changed"])),
            _ => ("leaves", leaves.clone()),
        }));
        Seen { case: self, cells, story, said }
    }
}

fn calls(story: &Story, client: Client) -> Result<(), String> {
    if !story.ended() {
        return Err("the client did not come to its end".to_owned());
    }
    let is_modern = story.revision().is_some_and(|revision| revision == "2026-07-28");
    // Clients on TypeScript 1.x do not say it on stdio.
    if story.revision().is_some() && is_modern != client.is_modern() {
        return Err(format!("it speaks {:?}", story.revision()));
    }
    equal(story.missed(), &[] as &[&str])
}

fn progress(story: &Story) -> Result<(), String> {
    equal(story.outcomes("progress"), &["result finished"])?;
    // Where the result comes in the same read, the TypeScript SDK handles it first and drops the progress before it.
    let heard = story.heard("progress");
    if [1.0, 2.0, 3.0].starts_with(&heard) { Ok(()) } else { Err(format!("progress {heard:?}")) }
}

/// The work has stopped, its caller heard nothing more of it, and the next call is answered.
fn cancelled(story: &Story, work: &str) -> Result<(), String> {
    equal(story.events(work), &["started", "stopped"])?;
    let outcomes = story.outcomes(work);
    if !matches!(&outcomes[..], [one] if !one.starts_with("result")) {
        return Err(format!("its caller saw {outcomes:?}"));
    }
    if story.late_progress(work) > 0 {
        return Err("its caller saw progress after the cancel".to_owned());
    }
    equal(story.outcomes(&format!("after {work}")), &["result echo"])
}

/// The server answers although it was told to stop: that reaches nobody.
fn late(story: &Story) -> Result<(), String> {
    equal(story.events("late"), &["started", "told", "answered"])?;
    let outcomes = story.outcomes("late");
    if !matches!(&outcomes[..], [one] if !one.starts_with("result")) {
        return Err(format!("its caller saw {outcomes:?}"));
    }
    equal(story.outcomes("after late"), &["result echo"])
}

fn equal<T: PartialEq<U> + std::fmt::Debug, U: std::fmt::Debug>(seen: Vec<T>, expected: &[U]) -> Result<(), String> {
    if seen[..] == *expected { Ok(()) } else { Err(format!("{seen:?}, expected {expected:?}")) }
}

fn table(seen: &[(usize, Seen)]) -> String {
    const COLUMNS: [&str; 8] =
        ["calls", "progress", "cancel", "cancel after progress", "late answer", "large", "list change", "leaves"];
    let mut text = format!("\n{:34}{:30}{:18}", "client", "server", "way");
    COLUMNS.iter().for_each(|column| _ = write!(text, "{column:23}"));
    for (_, Seen { case: Case { client, server, way }, cells, .. }) in seen {
        let _ = write!(text, "\n{:34}{:30}{:18}", client.name(), server.name(), way.to_string());
        for column in COLUMNS {
            let cell = cells.iter().find(|(name, _)| *name == column).map(|(_, cell)| cell.is_ok());
            let word = cell.map_or("-", |is_ok| if is_ok { "ok" } else { "WRONG" });
            let _ = write!(text, "{word:23}");
        }
    }
    text.push('\n');
    text
}
