//! Connections, and the ways in which they end.

use std::{
    io,
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rescind::peer::{
    Dialect, Peer,
    dialect::{acp, mcp},
};
use serde_json::{Value, json};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use super::{
    PATIENCE, becomes,
    work::{METHOD, call, end_call, endpoint},
    world::{Dice, World},
};

/// To end a connection.
pub(crate) const WAYS: u64 = 8;

pub(crate) fn transport(end: UnixStream) -> tokio::net::UnixStream {
    end.set_nonblocking(true).unwrap();
    tokio::net::UnixStream::from_std(end).unwrap()
}

pub(crate) type Driven = JoinHandle<io::Result<()>>;

/// Two peers and what joins them.
pub(crate) struct Link {
    pub(crate) client: Peer,
    pub(crate) server: Peer,
    driven: [Driven; 2],
    /// The socket's ends once more, to break it by.
    ends: [UnixStream; 2],
}

impl Link {
    pub(crate) async fn open(dialect: &'static Dialect, world: &Arc<World>, elsewhere: Option<Peer>) -> Self {
        world.links.fetch_add(1, Ordering::Relaxed);
        let (a, b) = UnixStream::pair().unwrap();
        let ends = [a.try_clone().unwrap(), b.try_clone().unwrap()];
        let (client, driver) = endpoint(dialect, world, None).connect(transport(a));
        let at_client = driver.spawn();
        let (server, driver) = endpoint(dialect, world, elsewhere).accept(transport(b));
        let at_server = driver.spawn();
        if dialect.handshake_first.is_some() {
            client.request::<Value>("initialize", &json!({})).await.unwrap();
        }
        Self { client, server, driven: [at_client, at_server], ends }
    }

    /// Makes calls in both directions until `over`.
    pub(crate) async fn traffic(&self, world: &Arc<World>, dice: &mut Dice, over: &AtomicBool, most: u64) {
        let mut calls = JoinSet::new();
        for _ in 0..most {
            if over.load(Ordering::Relaxed) {
                break;
            }
            world.calls.fetch_add(1, Ordering::Relaxed);
            let is_upward = dice.below(4) == 0 && self.server.dialect() != &mcp::LATEST;
            let from = if is_upward { &self.server } else { &self.client };
            calls.spawn(call(from.clone(), Dice(dice.next())));
            match dice.below(8) {
                0 => sleep(dice.millis(4)).await,
                1 => tokio::task::yield_now().await,
                _ => {}
            }
            while calls.len() > 64 {
                calls.join_next().await.unwrap().unwrap();
            }
        }
        while let Some(ended) = calls.join_next().await {
            ended.unwrap();
        }
    }

    /// Ends it in one of the ways there are, in the midst of traffic, and sees that nothing of it is left.
    pub(crate) async fn end(self, world: &Arc<World>, dice: &mut Dice, ways: u64) {
        let Self { client, server, driven, ends } = self;
        let mut calls = JoinSet::new();
        for _ in 0..dice.below(40) {
            calls.spawn(call(client.clone(), Dice(dice.next())));
        }
        sleep(dice.millis(10)).await;
        let way = dice.below(ways);
        match way {
            0 => client.shutdown(),
            1 => server.shutdown(),
            2 => driven[0].abort(),
            3 => driven[1].abort(),
            4 => ends[0].shutdown(Shutdown::Both).unwrap(),
            5 => ends[0].shutdown(Shutdown::Write).unwrap(),
            6 => ends[1].shutdown(Shutdown::Write).unwrap(),
            _ => {}
        }
        drop(ends);
        // In the last way, its calls are its last handles.
        let client = (way != WAYS - 1).then_some(client);
        for (peer, name) in client.iter().map(|peer| (peer, "client")).chain([(&server, "server")]) {
            left(peer, name, way, world).await;
        }
        drop(client);
        drop(server);
        for driven in driven {
            drop(timeout(PATIENCE, driven).await.expect("a driver ends"));
        }
        while let Some(ended) = calls.join_next().await {
            ended.unwrap();
        }
    }
}

/// Calls that do not even fit into the socket of a peer that reads nothing.
pub(crate) async fn wedged(world: &Arc<World>, dice: &mut Dice) {
    let (near, _far) = UnixStream::pair().unwrap();
    let (client, driver) = endpoint(&acp::V1, world, None).connect(transport(near));
    let driven = driver.spawn();
    let mut calls = JoinSet::new();
    for _ in 0..dice.below(40) {
        world.calls.fetch_add(1, Ordering::Relaxed);
        let call = client.request(METHOD, &"x".repeat(64 << 10)).response_timeout(dice.millis(300));
        calls.spawn(end_call(call, dice.below(11), Dice(dice.next())));
    }
    sleep(dice.millis(30)).await;
    client.shutdown();
    left(&client, "client of a peer that reads nothing", 0, world).await;
    drop((client, timeout(PATIENCE, driven).await.expect("a driver ends")));
    while let Some(ended) = timeout(PATIENCE, calls.join_next()).await.expect("every call ends") {
        ended.unwrap();
    }
}

/// A peer that has ended has nothing in its tables; one whose driver was dropped, as soon as its handlers are.
pub(crate) async fn left(peer: &Peer, name: &str, way: u64, world: &World) {
    let ended = timeout(PATIENCE, peer.closed()).await;
    let here = &world.here;
    assert!(ended.is_ok(), "{name}, ended in way {way}, does not close; {here:?} handlers; {:#?}", peer.in_flight());
    let is_empty = || {
        let flight = peer.in_flight();
        flight.ours.is_empty() && flight.theirs.is_empty()
    };
    let is_aborted = way == 2 || way == 3;
    assert!(is_aborted || is_empty(), "{name}, ended in way {way}: {:#?}", peer.in_flight());
    becomes("nothing is in flight", is_empty, || format!("{name}, ended in way {way}: {:#?}", peer.in_flight())).await;
}
