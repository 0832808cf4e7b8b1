//! Everything that one client does over HTTP before one server: two processes of it at once, of which one is killed with
//! calls in flight. Each pair of client and server is played once, for all tests.

use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::http_client::{Behind, Client, missing};
use super::http_table::table;
use super::http_wire::{Exchange, Wire};
use super::play::{BOUND, read, say, skip};
use super::programs::{Bench, Ended, Started};
use super::story::Story;

/// Runs at once: they mostly wait.
const AT_ONCE: usize = 3;

/// What both processes saw, and the work of both.
pub(crate) struct Run {
    pub(crate) client: Client,
    pub(crate) behind: Behind,
    /// Cancels its first call, whose id is that of the other's, plays one scenario after the other, and ends.
    pub(crate) one: Seen,
    /// Is killed.
    pub(crate) other: Seen,
    /// What the service said on stderr.
    stderr: String,
}

/// What one process saw, and its wire. The work is that of the whole run.
pub(crate) struct Seen {
    pub(crate) story: Story,
    pub(crate) wire: Vec<Exchange>,
    /// How its process ended.
    pub(crate) exit: String,
}

/// Every run that what is installed allows. The first test that looks plays them all, and prints the table.
///
/// Panics for a missing part if `RESCIND_REQUIRE_PEERS` is set.
pub(crate) fn runs() -> &'static [Run] {
    static RUNS: LazyLock<Vec<Run>> = LazyLock::new(|| {
        let pairs = Client::ALL.into_iter().flat_map(|client| Behind::ALL.map(|behind| (client, behind)));
        let pairs: Vec<_> = pairs.filter(|(client, behind)| is_there(*client, *behind)).collect();
        let (next, pairs) = (AtomicUsize::new(0), &pairs[..]);
        let work = || -> Vec<Run> {
            let mine = std::iter::from_fn(|| pairs.get(next.fetch_add(1, Ordering::Relaxed)));
            mine.map(|(client, behind)| Run::play(*client, *behind)).collect()
        };
        let mut runs: Vec<Run> = thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        runs.sort_by_key(|run| (run.client, run.behind));
        if !runs.is_empty() {
            say(&table(&runs));
        }
        runs
    });
    &RUNS
}

/// Whether a client and what it needs are installed; a line says so otherwise.
pub(crate) fn is_there(client: Client, behind: Behind) -> bool {
    let Some(part) = missing(client, behind) else { return true };
    assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{}: {part}", client.name());
    skip(part);
    false
}

impl Run {
    fn play(client: Client, behind: Behind) -> Self {
        let rig = Rig::start(client, behind);
        if client.is_modern() {
            rig.discover();
        }
        let mut scenarios = vec!["one", "progress", "silent", "ticking", "late-answer", "large", "large-event"];
        if !client.is_modern() || behind == Behind::Library {
            scenarios.push("asks");
        }
        if client.is_modern() {
            scenarios.push("subscription");
        }
        if client.comes_back() {
            scenarios.push("returns");
        }
        scenarios.push("closing");
        let players =
            [rig.start_client(client, "one", &scenarios), rig.start_client(client, "other", &["other", "hang-up"])];
        let ended = players.map(|(wire, player)| (wire, player.wait()));
        // Work that its client has left goes on, or stops.
        if !client.is_modern() {
            rig.until(|| ended[1].0.is_closed());
            rig.round_trip();
            let before = rig.ticks("hang-up ticking");
            rig.until(|| rig.ticks("hang-up ticking") >= before + 10 || rig.is_over("hang-up ticking"));
            rig.mark("hang-up", "released");
        }
        rig.until(|| rig.is_over("hang-up"));
        rig.until(|| !client.is_modern() || rig.is_over("hang-up ticking"));
        rig.until(|| rig.is_over("closing"));
        let marks = read(&rig.bench.file("marks"));
        let [one, other] = ended.map(|(wire, ended)| Seen::new(&wire, &ended, &marks));
        Self { client, behind, one, other, stderr: rig.stderr() }
    }

    /// The title of what a failed test prints.
    pub(crate) fn title(&self) -> String {
        format!("{} before {}", self.client.name(), self.behind)
    }
}

/// A client of both eras before a server that knows only sessions. `None` as [`runs`] leaves one out.
pub(crate) fn fall_back(client: Client) -> Option<Seen> {
    if !is_there(client, Behind::ServeLegacy) {
        return None;
    }
    let rig = Rig::start(client, Behind::ServeLegacy);
    let (wire, player) = rig.start_client(client, "one", &["silent"]);
    let ended = player.wait();
    Some(Seen::new(&wire, &ended, &read(&rig.bench.file("marks"))))
}

/// What listens, and where its work is marked. Dropping it kills it.
struct Rig {
    bench: Bench,
    service: Started,
    address: SocketAddr,
}

impl Rig {
    fn start(client: Client, behind: Behind) -> Self {
        let bench = Bench::new(&[]);
        File::create(bench.file("marks")).unwrap();
        let mut service = bench.start("service", bench.command(&behind.command(client)));
        let address = service.until(|said| {
            let url = said.lines().find_map(|line| line.strip_prefix("listening on http://"))?;
            url.split('/').next()?.parse().ok()
        });
        Self { bench, service, address }
    }

    /// Starts a process of the client on a wire of its own.
    fn start_client(&self, client: Client, name: &str, scenarios: &[&str]) -> (Wire, Started) {
        let marks = scenarios.contains(&"returns").then(|| self.bench.file("marks"));
        let wire = Wire::lay(self.address, marks);
        let scenarios = scenarios.iter().map(|&scenario| scenario.to_owned()).collect();
        let command = [client.command(), scenarios, vec!["--url".to_owned(), wire.url()]].concat();
        let player = self.bench.start(name, self.bench.command(&command));
        (wire, player)
    }

    /// Whether the work has come to an end, or never begun.
    fn is_over(&self, work: &str) -> bool {
        let story = self.story();
        let events = story.events(work);
        events.is_empty() || events.iter().any(|event| matches!(*event, "stopped" | "finished"))
    }

    fn ticks(&self, work: &str) -> usize {
        self.story().ticks(work)
    }

    fn story(&self) -> Story {
        Story::new(true, "", "", &read(&self.bench.file("marks")))
    }

    fn mark(&self, work: &str, event: &str) {
        let mark = format!("{}\n", json!({ "work": work, "event": event }));
        let mut marks = File::options().append(true).open(self.bench.file("marks")).unwrap();
        marks.write_all(mark.as_bytes()).unwrap();
    }

    /// Has the service start its server and ask it for its era, so that no client gives up its own question meanwhile.
    fn discover(&self) {
        const MODERN: &str = concat!(
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"#,
            r#""io.modelcontextprotocol/clientCapabilities":{}}}"#
        );
        let question = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{MODERN}}}"#);
        let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: server/discover\r\n";
        let answer = self.ask(&format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}\
             content-length: {}\r\n\r\n{question}",
            question.len()
        ));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Asks the service something: what it was told before, it has seen then.
    fn round_trip(&self) {
        let answer = self.ask("GET /nothing HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }

    fn ask(&self, question: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Waits for what the work marks; a test that finds it missing says more than this could.
    fn until(&self, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() && begun.elapsed() < BOUND {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn stderr(&self) -> String {
        self.service.said()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let service = self.service.child();
        let _ = service.kill();
        let _ = service.wait();
    }
}

impl Seen {
    fn new(wire: &Wire, ended: &Ended, marks: &str) -> Self {
        let story = Story::new(true, &ended.stdout, &ended.stderr, marks);
        Self { story, wire: wire.exchanges(), exit: ended.exit.clone() }
    }

    /// The exchange in which that work was called for.
    pub(crate) fn call(&self, work: &str) -> Option<&Exchange> {
        self.wire.iter().find(|exchange| exchange.calls(work))
    }

    /// The exchange in which that call was cancelled by a message.
    pub(crate) fn cancel(&self, work: &str) -> Option<&Exchange> {
        let id = &self.call(work)?.message["id"];
        let cancels = |exchange: &&Exchange| exchange.method() == "notifications/cancelled";
        self.wire.iter().filter(cancels).find(|exchange| exchange.message["params"]["requestId"] == *id)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title())?;
        write!(f, "one {:?}other {:?}", self.one, self.other)?;
        writeln!(f, "work:")?;
        self.one.story.marks().try_for_each(|mark| writeln!(f, "  {mark}"))?;
        write!(f, "service:\n{}", self.stderr)
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ended with {}, saw:", self.exit)?;
        self.story.caller().iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        writeln!(f, "wire:")?;
        for Exchange { verb, in_session, last_event, message, sent_at, answer, is_answered } in &self.wire {
            let session = if *in_session { " in a session" } else { "" };
            let event = last_event.as_ref().map(|event| format!(" behind {event}")).unwrap_or_default();
            let message: String = message.to_string().chars().take(200).collect();
            let answer = match answer {
                Some((status, at)) if *is_answered => format!("{status} at {at}, whole"),
                Some((status, at)) => format!("{status} at {at}, no end"),
                None => "no answer".to_owned(),
            };
            writeln!(f, "  {sent_at} {verb}{session}{event} {message}: {answer}")?;
        }
        Ok(())
    }
}
