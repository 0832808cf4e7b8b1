//! Clients of every revision of MCP before servers of every other, over every way through Rescind.
//!
//! `cargo test --workspace --test suite -- peers::eras --nocapture` prints what was seen as a table: one pair of each kind
//! that need a bridge. With `RESCIND_ALL_ERAS=1` in the environment it is every client before every server.

mod cells;
mod pair;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use self::cells::{COLUMNS, Cell, death, judge};
use self::pair::Case;
use super::play::{read, say, skip};
use super::programs::Bench;
use super::story::Story;

/// Runs at once: they mostly wait.
const AT_ONCE: usize = 3;

/// What a client does, one after the other; the last ends it.
const SCENARIOS: [&str; 9] =
    ["progress", "silent", "ticking", "timeout", "late-answer", "large", "subscription", "task", "closing"];

/// What was seen, in the words of a table.
struct Seen {
    case: Case,
    /// By column.
    cells: BTreeMap<&'static str, Cell>,
    story: String,
}

impl Seen {
    /// What is wrong, and all that was seen.
    fn wrong(&self) -> Option<String> {
        let Self { case, cells, story } = self;
        let wrong: Vec<_> = cells.iter().filter(|(_, cell)| cell.is_err()).collect();
        (!wrong.is_empty()).then(|| format!("{case:?}: {wrong:?}: {story}"))
    }
}

#[test]
fn a_client_of_one_era_works_and_cancels_before_a_server_of_the_other() {
    let is_all = env::var_os("RESCIND_ALL_ERAS").is_some();
    let cases: Vec<Case> =
        Case::all().filter(|case| is_all || case.is_telling()).filter(|case| is_there(*case)).collect();
    let next = AtomicUsize::new(0);
    let work = || -> Vec<(usize, Seen)> {
        let mine = std::iter::from_fn(|| {
            let at = next.fetch_add(1, Ordering::Relaxed);
            Some((at, *cases.get(at)?))
        });
        mine.map(|(at, case)| (at, play(case))).collect()
    };
    let mut seen: Vec<(usize, Seen)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    seen.sort_by_key(|(at, _)| *at);
    if !seen.is_empty() {
        say(&table(&seen));
    }
    let wrong: Vec<String> = seen.iter().filter_map(|(_, seen)| seen.wrong()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn is_there(case: Case) -> bool {
    let Some(part) = case.missing() else { return true };
    assert!(env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{case:?}: {part}");
    skip(part);
    false
}

/// Plays all that the two can play on one connection, and then, on another, the death of the server.
fn play(case: Case) -> Seen {
    let Case { client, server, way } = case;
    let bench = Bench::new(&[]);
    File::create(bench.file("marks")).unwrap();
    let mut laid = way.lay(&bench, server.command(), &["--bridge"]);
    let marks = || read(&bench.file("marks"));
    let way = laid.words.clone();
    let run = |name, scenarios: Vec<String>| {
        let words = [client.command(), scenarios, way.clone()].concat();
        bench.start(name, bench.command(&words)).wait()
    };
    let played: Vec<&str> = SCENARIOS.into_iter().filter(|scenario| case.plays(scenario)).collect();
    let ended = run("client", played.iter().map(|&scenario| scenario.to_owned()).collect());
    let story = || Story::new(true, &ended.stdout, &ended.stderr, &marks());
    // The client has left politely, with a call in flight. A server on stdio may end with its work.
    let outlives = laid.server.as_mut().or(laid.between.as_mut());
    if let Some(outlives) = outlives.filter(|_| case.plays("closing")) {
        outlives.waits_for(|_| story().is_over("closing").then_some(()));
    }
    let bereaved = run("death", vec!["death".to_owned()]);
    let said = laid.said();
    for mut service in laid.between.into_iter().chain(laid.server) {
        let _ = service.child().kill();
        let _ = service.child().wait();
    }
    let (story, bereaved) = (story(), Story::new(true, &bereaved.stdout, &bereaved.stderr, &marks()));
    let cell = |scenario: &str| match scenario {
        "death" => Some(death(&bereaved)),
        "echo" => Some(judge(case, scenario, &story)),
        _ => played.contains(&scenario).then(|| judge(case, scenario, &story)),
    };
    let cells = COLUMNS.into_iter().filter_map(|(column, scenario)| Some((column, cell(scenario)?))).collect();
    Seen { case, cells, story: format!("{story:?}\n{bereaved:?}\n{said}") }
}

fn table(seen: &[(usize, Seen)]) -> String {
    let mut text = format!("\n{:15}{:12}{:15}{:12}{:17}", "client", "", "server", "", "way");
    COLUMNS.iter().for_each(|(column, _)| _ = write!(text, "{column:23}"));
    for (_, Seen { case, cells, .. }) in seen {
        let Case { client, server, way } = case;
        let ends = [client.name(), client.newest.name(), server.name(), server.revisions()];
        let _ = write!(text, "\n{:15}{:12}{:15}{:12}{:17}", ends[0], ends[1], ends[2], ends[3], way.to_string());
        for (column, _) in COLUMNS {
            let word = match cells.get(column) {
                None => "-",
                Some(Ok(word)) => word,
                Some(Err(_)) => "WRONG",
            };
            let _ = write!(text, "{word:23}");
        }
    }
    text.push('\n');
    text
}
