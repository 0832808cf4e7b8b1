//! Servers of SDKs on HTTP, each before the client of its own SDK: one on stdio with `rescind run --url` between, and one
//! on HTTP with `rescind serve --upstream` between.

use std::fs::File;
use std::thread;

use super::http_client::{Behind, Client};
use super::http_run::is_there;
use super::play::read;
use super::programs::{Bench, Started};
use super::story::Story;

const RESCIND: &str = env!("CARGO_BIN_EXE_rescind");

/// How a client reaches the server.
#[derive(Clone, Copy, Debug)]
enum Way {
    Run,
    Serve,
}

#[test]
fn cancels_reach_the_http_servers_of_sdks_behind_run_and_behind_serve() {
    for client in Client::ALL.into_iter().filter(|client| is_there(*client, Behind::Serve)) {
        thread::scope(|scope| {
            scope.spawn(|| play(client, Way::Run));
            scope.spawn(|| play(client, Way::Serve));
        });
    }
}

fn play(client: Client, way: Way) {
    let scenarios = ["progress", "silent", "ticking", "large", "closing"];
    let bench = Bench::new(&[]);
    File::create(bench.file("marks")).unwrap();
    let mut server = bench.start("server", bench.command(&client.http_server()));
    let url = listening(&mut server);
    let mut between = None;
    let reached = match way {
        // In one word: `--url` alone would be the client's own flag.
        Way::Run => ["--", RESCIND, "run", &format!("--url={url}")].map(str::to_owned).to_vec(),
        Way::Serve => {
            let command = [RESCIND, "serve", "--listen", "127.0.0.1:0", "--upstream", &url].map(str::to_owned);
            let serve = between.insert(bench.start("serve", bench.command(&command)));
            vec!["--url".to_owned(), listening(serve)]
        }
    };
    // The client on rmcp speaks only HTTP.
    let speaker = match (way, client) {
        (Way::Run, Client::Rmcp) => Client::TypeScript2,
        (Way::Run, Client::RmcpModern) => Client::TypeScript2Modern,
        (Way::Run | Way::Serve, own) => own,
    };
    let command = [speaker.command(), scenarios.map(str::to_owned).to_vec(), reached].concat();
    let ended = bench.start("client", bench.command(&command)).wait();
    let story = || Story::new(true, &ended.stdout, &ended.stderr, &read(&bench.file("marks")));
    // The client has left politely, with a call in flight.
    let is_over = server.waits_for(|_| story().events("closing").contains(&"stopped").then_some(())).is_some();

    let story = story();
    let title = format!("{}, {way:?}: {story:?}", client.name());
    assert!(is_over, "the work goes on: {title}\n{}", between.map_or(String::new(), |between| between.said()));
    assert!(story.ended(), "{title}");
    assert_eq!(story.missed(), Vec::<&str>::new(), "{title}");
    for work in ["silent", "ticking"] {
        assert_eq!(story.events(work), ["started", "stopped"], "{title}");
        let outcomes = story.outcomes(work);
        assert!(matches!(&outcomes[..], [one] if !one.starts_with("result")), "{outcomes:?}; {title}");
        assert_eq!(story.late_progress(work), 0, "{title}");
        assert_eq!(story.outcomes(&format!("after {work}")), ["result echo"], "{title}");
    }
    assert_eq!(story.outcomes("progress"), ["result finished"], "{title}");
    // Where the result comes in the same read, the TypeScript SDK handles it first and drops the progress before it.
    assert!([1.0, 2.0, 3.0].starts_with(&story.heard("progress")), "{title}");
    assert_eq!(story.outcomes("large"), ["result 1048576 letters"], "{title}");
}

/// The URL of a service, once it has said the whole of it: some say a line in pieces.
fn listening(service: &mut Started) -> String {
    let whole = |line: &str| Some(line.strip_suffix('\n')?.strip_prefix("listening on ")?.to_owned());
    service.until(|said| said.split_inclusive('\n').find_map(whole))
}
