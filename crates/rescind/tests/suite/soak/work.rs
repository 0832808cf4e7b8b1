//! What handlers do, and what becomes of calls.

use std::{
    process::Stdio,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rescind::peer::{Builder, Call, Context, Dialect, ErrorObject, Framing, Params, Peer, dialect::mcp};
use serde_json::{Value, json};
use tokio::{
    process::Command,
    runtime::Handle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    PATIENCE,
    world::{Dice, World},
};

pub(crate) const METHOD: &str = "work";

/// What a request asks its handler for.
pub(crate) type Task = (u64, u8);

pub(crate) fn endpoint(dialect: &'static Dialect, world: &Arc<World>, elsewhere: Option<Peer>) -> Builder {
    let world = Arc::clone(world);
    let short = Duration::from_millis(20);
    Peer::builder(dialect)
        .framing(Framing::Line)
        .max_running(64)
        .grace(short)
        .short_grace(short)
        .linger(Duration::from_millis(200))
        .configure(|config| {
            config.early_cancels.hold = short;
            config.remember = (Duration::from_millis(50), Duration::from_millis(300));
            config.max_backlog = 256 << 10;
        })
        .on_request("initialize", || async { Ok::<_, ErrorObject>(json!({})) })
        .on_request(METHOD, move |Params((seed, depth)): Params<Task>, cx: Context| {
            world.handlers.fetch_add(1, Ordering::Relaxed);
            let here = world.enter();
            let (world, elsewhere) = (Arc::clone(&world), elsewhere.clone());
            async move {
                let _here = here;
                work(&world, elsewhere, cx, Dice(seed), depth).await
            }
        })
}

/// Ends by itself, by its token, or not at all; alone or with what it owns.
pub(crate) async fn work(
    world: &Arc<World>,
    elsewhere: Option<Peer>,
    cx: Context,
    mut dice: Dice,
    depth: u8,
) -> Result<Value, ErrorObject> {
    // The newest MCP knows no requests of a server (MCP-M03): nobody could stop them.
    let may_ask_back = cx.dialect() != &mcp::LATEST;
    let kinds = match (depth, &elsewhere) {
        (0, _) => 9,
        (_, Some(_)) if !may_ask_back => 11,
        (_, None) if !may_ask_back => 9,
        _ => 12,
    };
    match dice.below(kinds) {
        0 => {}
        1 => sleep(dice.millis(5)).await,
        2 => cx.cancelled().await,
        3 => std::future::pending().await,
        4 => {
            let here = world.enter();
            let task = cx.spawn(async move {
                let _here = here;
                std::future::pending::<()>().await;
            });
            if dice.below(2) == 0 {
                drop(task.await);
            }
        }
        5 => {
            let Ok(_permit) = world.processes.try_acquire() else { return Ok(json!("busy")) };
            let ignores = if dice.below(2) == 0 { "trap '' TERM; " } else { "" };
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{ignores}sleep 1000 & wait")]).env("RESCIND_SOAK", &world.mark);
            shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = cx.command(shell).map_err(|error| ErrorObject::internal(error.to_string()))?;
            world.children.fetch_add(1, Ordering::Relaxed);
            match dice.below(3) {
                0 => drop(child),
                1 => drop(child.wait().await),
                _ => sleep(dice.millis(5)).await,
            }
        }
        6 => {
            let Ok(_permit) = world.threads.try_acquire() else { return Ok(json!("busy")) };
            let (here, runtime) = (world.enter(), Handle::current());
            let thread = cx.spawn_blocking(move |token| {
                let _here = here;
                runtime.block_on(token.cancelled());
            });
            drop(thread.await);
        }
        7 => {
            let mut done = 0.0;
            while cx.progress(done, None, None).await && done < 50.0 {
                done += 1.0;
                tokio::task::yield_now().await;
            }
        }
        8 => return Ok(json!("x".repeat(64 << 10))),
        9 | 10 => {
            let next = elsewhere.unwrap_or_else(|| cx.peer());
            let nested = ask(&next, &mut dice, depth - 1).response_timeout(dice.millis(200));
            return Ok(nested.await?);
        }
        _ => {
            let both = (ask(&cx.peer(), &mut dice, depth - 1), ask(&cx.peer(), &mut dice, depth - 1));
            let linked = cx.spawn(both.0.response_timeout(dice.millis(200)));
            drop(both.1.response_timeout(dice.millis(200)).await);
            drop(linked.await);
        }
    }
    if cx.is_cancelled() && dice.below(2) == 0 { Err(ErrorObject::cancelled()) } else { Ok(json!({})) }
}

pub(crate) fn ask(peer: &Peer, dice: &mut Dice, depth: u8) -> Call<Value> {
    peer.request(METHOD, &(dice.next(), depth))
}

/// One call, made and ended in one of the ways there are; it does end.
pub(crate) async fn call(peer: Peer, mut dice: Dice) {
    let (way, dialect) = (dice.below(11), peer.dialect().name);
    let call = ask(&peer, &mut dice, 2).response_timeout(Duration::from_millis(1 + dice.below(300)));
    drop(peer);
    let ended = timeout(PATIENCE, end_call(call, way, dice)).await;
    assert!(ended.is_ok(), "{dialect}: a call that was ended in way {way} does not end");
}

pub(crate) async fn end_call(call: Call<Value>, way: u64, mut dice: Dice) {
    match way {
        0 => drop(call),
        1 => drop(call.send()),
        2 => {
            let call = call.send();
            sleep(dice.millis(10)).await;
            drop(call);
        }
        3 => drop(timeout(dice.millis(20), call).await),
        4 => {
            let (stop, call) = (call.handle(), tokio::spawn(call));
            sleep(dice.millis(10)).await;
            let receipt = stop.cancel("enough");
            drop(call.await.unwrap());
            drop(receipt.await);
        }
        5 => drop(call.send().cancel_and_wait("enough", dice.millis(30)).await),
        6 => {
            let token = CancellationToken::new();
            let call = tokio::spawn(call.token(token.clone()));
            sleep(dice.millis(10)).await;
            token.cancel();
            drop(call.await.unwrap());
        }
        7 => drop(call.detach()),
        8 => drop(call.progress(|_| ()).total_timeout(dice.millis(100)).await),
        9 => drop(call.send().cancel("at once").await),
        _ => drop(call.await),
    }
}
