//! Servers of SDKs on HTTP, each before the client of its own SDK: one on stdio with `rescind run --url` between, and one
//! on HTTP with `rescind serve --upstream` between.

use std::fs::File;
use std::thread;

use super::http_client::{Behind, Client};
use super::http_run::is_there;
use super::play::read;
use super::programs::Bench;
use super::story::Story;
use super::way::Way;

#[test]
fn cancels_reach_the_http_servers_of_sdks_behind_run_and_behind_serve() {
    for client in Client::ALL.into_iter().filter(|client| is_there(*client, Behind::Serve)) {
        thread::scope(|scope| {
            scope.spawn(|| play(client, Way::Url));
            scope.spawn(|| play(client, Way::Upstream));
        });
    }
}

fn play(client: Client, way: Way) {
    let scenarios = ["progress", "silent", "ticking", "large", "closing"];
    let bench = Bench::new(&[]);
    File::create(bench.file("marks")).unwrap();
    let mut laid = way.lay(&bench, client.server(), &[]);
    // The client on rmcp speaks only HTTP.
    let speaker = match (way, client) {
        (Way::Url, Client::Rmcp) => Client::TypeScript2,
        (Way::Url, Client::RmcpModern) => Client::TypeScript2Modern,
        (_, own) => own,
    };
    let command = [speaker.command(), scenarios.map(str::to_owned).to_vec(), laid.words.clone()].concat();
    let ended = bench.start("client", bench.command(&command)).wait();
    let story = || Story::new(true, &ended.stdout, &ended.stderr, &read(&bench.file("marks")));
    // The client has left politely, with a call in flight.
    let stopped = || story().events("closing").contains(&"stopped").then_some(());
    let is_over = laid.server.as_mut().is_some_and(|server| server.waits_for(|_| stopped()).is_some());

    let story = story();
    let title = format!("{}, {way:?}: {story:?}", client.name());
    assert!(is_over, "the work goes on: {title}\n{}", laid.said());
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
