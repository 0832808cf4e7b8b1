//! Both machines of this crate, joined in memory: requests and responses overtake each other, connections break, servers
//! are started anew. A judge that knows nothing of HTTP sees what the local client says and hears, and what the programs
//! behind the server do.

mod judge;
mod world;

use judge::Tally;
pub(crate) use world::Chaos;
use world::World;

/// Runs so many worlds, each from its own seed, and returns what was seen.
pub(crate) fn run(worlds: u64, steps: usize, chaos: Chaos) -> Tally {
    let mut seen = Tally::default();
    for seed in 1..=worlds {
        let mut world = World::new(seed, chaos);
        for _ in 0..steps {
            world.step();
        }
        world.come_to_rest();
        seen.add(&world.close());
    }
    seen
}

#[test]
fn where_nothing_breaks_every_request_gets_its_own_answer() {
    let seen = run(300, 200, Chaos { breaks: false, restarts: false });
    let Tally { results, errors, cancelled, closed, progress, questions, .. } = seen;
    assert!(results > 1_000 && cancelled > 100 && closed > 100 && progress > 100 && questions > 30, "{seen:?}");
    assert!(seen.withdrawn > 100, "{seen:?}");
    assert_eq!((errors, seen.reopened), (0, 0));
}

#[test]
fn where_connections_break_every_request_is_answered_once_and_every_cancel_reaches_its_own() {
    let seen = run(400, 250, Chaos { breaks: true, restarts: false });
    let Tally { results, errors, cancelled, closed, resumed, .. } = seen;
    assert!(results > 1_000 && errors > 300 && cancelled > 100 && closed > 100 && resumed > 100, "{seen:?}");
    assert_eq!(seen.reopened, 0);
}

#[test]
fn where_servers_are_started_anew_no_request_runs_twice() {
    let seen = run(300, 250, Chaos { breaks: true, restarts: true });
    assert!(seen.results > 500 && seen.reopened > 100 && seen.cancelled > 30 && seen.returned > 30, "{seen:?}");
}
