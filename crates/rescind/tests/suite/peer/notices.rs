//! Notifications to a peer that does not read.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rescind::peer::{CallError, CauseCode, Context, ErrorObject, Peer, dialect::lsp};
use serde_json::{Value, json};

use crate::rig::{builder, cancel, connect_small, request, secs, serve_small, watch};

/// What may wait in these tests, and what the pipe holds.
const MOST: usize = 64 * 1024;
const PIPE: usize = 1024;

fn text(number: usize) -> Value {
    json!({ "number": number, "text": "x".repeat(1000) })
}

/// Sends notifications, of a kilobyte each, until no more are taken; how many were.
async fn fill(peer: &Peer) -> usize {
    let mut sent = 0;
    let full = loop {
        match peer.try_notify("note", &text(sent)) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        // The driver writes what the pipe takes.
        tokio::task::yield_now().await;
        assert!(sent * 1000 < 2 * (MOST + PIPE), "{sent} notifications wait");
    };
    assert!(matches!(full, CallError::Overloaded), "{full:?}");
    sent
}

/// D13: in bytes, and in order; nothing that was taken is lost.
#[tokio::test(start_paused = true)]
async fn notifications_to_a_peer_that_does_not_read_are_bounded() {
    let server = builder(&lsp::LSP).configure(|config| config.max_backlog = MOST);
    let (mut wire, peer, _driver) = connect_small(server, PIPE).await;
    let sent = fill(&peer).await;
    assert!((MOST / 1100..(MOST + PIPE) / 1000 + 3).contains(&sent), "{sent} notifications were taken");
    // Each of them waits, and none has been sent when it is given up.
    let late: Vec<_> = (0..100)
        .map(|number| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.notify("note", &text(sent + number)).await })
        })
        .collect();
    let given_up = tokio::time::timeout(secs(1), peer.notify("never", &())).await;
    assert!(given_up.is_err());
    assert!(late.iter().all(|task| !task.is_finished()));
    for number in 0..sent + 100 {
        let heard = wire.hear().await;
        assert_eq!((&heard["method"], &heard["params"]["number"]), (&json!("note"), &json!(number)));
    }
    for task in late {
        task.await.unwrap().unwrap();
    }
    peer.try_notify("note", &()).unwrap();
    assert_eq!(wire.hear().await["method"], "note");
}

#[tokio::test(start_paused = true)]
async fn a_notification_that_waits_ends_with_the_connection() {
    let server = builder(&lsp::LSP).configure(|config| config.max_backlog = MOST);
    let (wire, peer, _driver) = connect_small(server, PIPE).await;
    fill(&peer).await;
    let waiting = tokio::spawn(async move { peer.notify("note", &()).await });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(wire);
    assert!(matches!(waiting.await.unwrap(), Err(CallError::Closed)));
}

/// Where a cancelled request is answered nothing is withheld for it, and its handler may go on reporting.
#[tokio::test(start_paused = true)]
async fn a_stop_reaches_a_handler_that_waits_for_its_peer_to_read() {
    let (mut watch, witness) = watch();
    let reports = Arc::new(AtomicUsize::new(0));
    let sent = Arc::clone(&reports);
    let server = builder(&lsp::LSP).configure(|config| config.max_backlog = MOST);
    let server = server.on_request("chatty", move |cx: Context| {
        let (witness, sent) = (witness.clone(), Arc::clone(&sent));
        async move {
            let guard = witness.guard(&cx);
            while cx.notify("note", &text(0)).await {
                sent.fetch_add(1, Ordering::SeqCst);
            }
            guard.fired(&cx);
            // It is stubborn, and still nothing is queued beyond the bound.
            for _ in 0..1000 {
                if cx.notify("note", &text(0)).await {
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            }
            Err::<(), _>(ErrorObject::cancelled())
        }
    });
    let (mut wire, _served) = serve_small(server, PIPE).await;
    wire.say(&request(1, "chatty", json!({}))).await;
    watch.started(1).await;
    // Each takes a kilobyte, and what the engine keeps of a frame.
    while reports.load(Ordering::SeqCst) * 1200 < MOST {
        tokio::task::yield_now().await;
    }
    wire.say(&cancel(&lsp::LSP, 1)).await;
    watch.stopped(1, CauseCode::Caller).await;
    let reports = reports.load(Ordering::SeqCst);
    assert!(reports * 1000 < MOST + 3 * PIPE + 2000, "{reports}");
    // What it was told was taken is written, and nothing else.
    let said = wire.so_far().await;
    assert_eq!(said.iter().filter(|message| message["method"] == "note").count(), reports);
}
