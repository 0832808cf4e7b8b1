//! Every session into one stream: what there is, what comes and what goes.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use rescind_feed::Event;
use serde_json::value::{RawValue, to_raw_value};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use super::{
    events::{Closed, Numbers, Stream},
    sources::Sources,
};
use crate::{
    Recording,
    shims::{Message, Shim, ShimError},
};

/// How often the directory of sockets is looked at, and a shim that did not answer is asked again.
const LOOK: Duration = Duration::from_secs(1);

/// How often a stream with nothing to tell shows that it is alive.
const BREATH: Duration = Duration::from_secs(15);

/// How many shims one browser follows.
const MAX_SHIMS: usize = 256;

/// Everything that happens from now on, in pieces for one browser, going on after `numbers`.
pub(super) fn open(sources: Arc<Sources>, numbers: Numbers) -> mpsc::Receiver<Bytes> {
    let (stream, pieces) = Stream::new(numbers);
    tokio::spawn(async move {
        tokio::select! {
            () = stream.closed() => {}
            _ = follow_all(&sources, &stream) => {}
        }
    });
    pieces
}

async fn follow_all(sources: &Arc<Sources>, stream: &Stream) -> Result<(), Closed> {
    // Dropped with this future, and then nobody follows any more.
    let mut followers = JoinSet::new();
    for n in 0..sources.recordings.len() {
        let (sources, stream) = (Arc::clone(sources), stream.clone());
        followers.spawn(async move {
            let recording = &sources.recordings[n];
            play(recording, &stream).await?;
            Ok::<_, Closed>(recording.name().to_owned())
        });
    }
    let mut followed = BTreeSet::new();
    let (mut look, mut breath) = (interval(LOOK), interval(BREATH));
    for interval in [&mut look, &mut breath] {
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        tokio::select! {
            _ = breath.tick() => stream.breathe().await?,
            Some(done) = followers.join_next() => if let Ok(done) = done {
                followed.remove(&done?);
            },
            _ = look.tick() => {
                // A directory that cannot be used is said by whoever started the console.
                let shims = sources.look().unwrap_or_default().shims;
                for gone in stream.sessions() {
                    if !followed.contains(&gone) && !shims.iter().any(|shim| shim.name() == gone) {
                        stream.gone(&gone, "gone").await?;
                    }
                }
                for shim in shims {
                    if followed.len() < MAX_SHIMS && followed.insert(shim.name().to_owned()) {
                        let stream = stream.clone();
                        followers.spawn(async move {
                            follow(&shim, &stream).await?;
                            Ok(shim.name().to_owned())
                        });
                    }
                }
            }
        }
    }
}

/// Passes on what a shim tells, until it tells nothing more.
async fn follow(shim: &Shim, stream: &Stream) -> Result<(), Closed> {
    let mut events = match shim.events(stream.number(shim.name())).await {
        Ok(events) => events,
        Err(error) => return stream.gone(shim.name(), &error.to_string()).await,
    };
    loop {
        let passed = match events.next().await {
            Ok(Some(message)) => pass(shim.name(), &message, stream).await?,
            Ok(None) => return stream.gone(shim.name(), "gone").await,
            Err(error) => Err(error),
        };
        match passed {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return stream.gone(shim.name(), &error.to_string()).await,
        }
    }
}

/// Passes one event on; whether more can follow.
async fn pass(session: &str, message: &Message, stream: &Stream) -> Result<Result<bool, ShimError>, Closed> {
    let number = match (message.kind.as_str(), message.number) {
        ("snapshot" | "changes", Some(number)) => Some(number),
        ("ended", _) => None,
        // Of a newer shim.
        _ => return Ok(Ok(true)),
    };
    match serde_json::from_str::<&RawValue>(&message.data) {
        Ok(event) => stream.tell(session, &message.kind, event, number).await?,
        Err(error) => return Ok(Err(ShimError::Unreadable(error.to_string()))),
    }
    Ok(Ok(number.is_some()))
}

/// Tells everything that a recording holds. It has no numbers: a browser that comes back is told it anew.
async fn play(recording: &Recording, stream: &Stream) -> Result<(), Closed> {
    for event in recording.events() {
        let kind = match event {
            Event::Snapshot(_) => "snapshot",
            Event::Changes(_) => "changes",
            Event::Ended(_) => "ended",
        };
        if let Ok(event) = to_raw_value(&event) {
            stream.tell(recording.name(), kind, &event, None).await?;
        }
    }
    Ok(())
}
