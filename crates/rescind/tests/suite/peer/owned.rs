//! What a handler owns is gone before it is reported stopped (case 72).

use std::{process::Stdio, time::Duration};

use rescind::peer::{
    CauseCode, Context, ErrorObject,
    dialect::{acp, mcp},
    route,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
    sync::mpsc,
};

use crate::{
    in_time::in_time,
    rig::{DIALECTS, builder, cancel, request, result, serve, watch, with_work},
};

/// A shell whose standard output is open as long as anything of its group lives.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).stdout(Stdio::piped()).stdin(Stdio::null());
    command
}

/// A server whose handler waits for a child process, and hands the child's output to the test.
async fn with_child(
    script: &'static str,
    spare: bool,
    grace: Duration,
) -> (crate::rig::Wire, mpsc::UnboundedReceiver<tokio::process::ChildStdout>) {
    let (give, outputs) = mpsc::unbounded_channel();
    let run = route(move |cx: Context| {
        let give = give.clone();
        async move {
            let mut child = cx.command(shell(script))?;
            let _ = give.send(child.stdout.take().expect("piped"));
            let status = child.wait().await?;
            if cx.is_cancelled() {
                return Err(Failed::Cancelled);
            }
            Ok::<_, Failed>(json!({ "code": status.code() }))
        }
    })
    .grace(grace);
    let run = if spare { run.spare_processes() } else { run };
    let (wire, _served) = serve(builder(&acp::V1).on_request("run", run)).await;
    (wire, outputs)
}

enum Failed {
    Cancelled,
    Io(std::io::Error),
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Failed> for ErrorObject {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Cancelled => Self::cancelled(),
            Failed::Io(error) => Self::internal(error.to_string()),
        }
    }
}

async fn first_line(output: &mut tokio::process::ChildStdout) -> String {
    let mut line = String::new();
    while !line.ends_with('\n') {
        line.push(char::from(output.read_u8().await.unwrap()));
    }
    line
}

/// Case 72.
#[tokio::test]
async fn a_child_process_and_what_it_started_get_sigterm_when_the_token_fires() {
    let script = "trap 'echo term; exit 3' TERM; sleep 1000 & echo ready; wait";
    let (mut wire, mut outputs) = with_child(script, false, Duration::from_secs(3600)).await;
    wire.say(&request(1, "run", json!({}))).await;
    let mut output = outputs.recv().await.unwrap();
    assert_eq!(first_line(&mut output).await, "ready\n");
    wire.say(&cancel(&acp::V1, 1)).await;
    let mut rest = String::new();
    output.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "term\n", "the group is gone, its leader by SIGTERM");
    assert_eq!(wire.hear().await["error"]["code"], -32800);
}

/// Case 72.
#[tokio::test]
async fn a_child_process_that_ignores_sigterm_is_killed_with_its_group_before_the_request_is_answered() {
    for spare in [false, true] {
        let script = "trap '' TERM; sleep 1000 & echo ready; while :; do wait; done";
        let (mut wire, mut outputs) = with_child(script, spare, Duration::from_millis(50)).await;
        wire.say(&request(1, "run", json!({}))).await;
        let mut output = outputs.recv().await.unwrap();
        assert_eq!(first_line(&mut output).await, "ready\n");
        wire.say(&cancel(&acp::V1, 1)).await;
        assert_eq!(wire.hear().await["error"]["code"], -32800);
        // Answered means gone: nothing can still hold the pipe for longer than the kernel needs to close it.
        let mut rest = String::new();
        output.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "");
    }
}

/// Case 72.
#[tokio::test]
async fn what_a_child_process_left_behind_is_killed_when_it_ends() {
    let script = "sleep 1000 & echo ready";
    let (mut wire, mut outputs) = with_child(script, false, Duration::from_secs(3600)).await;
    wire.say(&request(1, "run", json!({}))).await;
    assert_eq!(wire.hear().await, result(&json!(1), json!({ "code": 0 })));
    let mut output = outputs.recv().await.unwrap();
    let mut text = String::new();
    output.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "ready\n");
}

/// Case 72.
#[tokio::test]
async fn a_request_is_answered_only_when_its_threads_have_returned() {
    let (says, mut said) = mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Arc::new(std::sync::Mutex::new(released));
    let server = builder(&acp::V1).max_running(2).on_request("threads", move |cx: Context| {
        let (says, released) = (says.clone(), std::sync::Arc::clone(&released));
        async move {
            let thread = cx.spawn_blocking(move |token| {
                let _ = says.send("started");
                let _ = released.lock().unwrap().recv();
                assert!(token.is_cancelled());
                let _ = says.send("returned");
            });
            cx.cancelled().await;
            drop(thread);
            Err::<(), _>(ErrorObject::cancelled())
        }
    });
    let (mut wire, _served) = serve(server).await;
    wire.say(&request(1, "threads", json!({}))).await;
    assert_eq!(said.recv().await, Some("started"));
    wire.say(&cancel(&acp::V1, 1)).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new(), "its thread still works");
    release.send(()).unwrap();
    assert_eq!(wire.hear().await["error"]["code"], -32800);
    assert_eq!(said.recv().await, Some("returned"));
}

/// Case 72.
#[tokio::test(start_paused = true)]
async fn a_stubborn_linked_task_is_aborted_before_the_request_is_answered() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let server = builder(dialect).on_request("links", move |cx: Context| {
            let guard = witness.guard(&cx);
            async move {
                cx.spawn(async move {
                    let _guard = guard;
                    std::future::pending::<()>().await;
                });
                std::future::pending::<Result<(), ErrorObject>>().await
            }
        });
        let (mut wire, _served) = serve(server).await;
        wire.say(&request(1, "links", json!({}))).await;
        watch.started(1).await;
        wire.say(&cancel(dialect, 1)).await;
        watch.gone(1).await;
        let said = wire.so_far().await;
        assert_eq!(said.len(), usize::from(!dialect.is_silent()), "{}", dialect.name);
    }
}

/// Case 72: the handler has an answer at once, while its task computes until the test lets it end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancelled_request_is_answered_only_when_its_linked_tasks_have_ended() {
    let (says, mut said) = mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Arc::new(std::sync::Mutex::new(released));
    let server = builder(&acp::V1).on_request("links", move |cx: Context| {
        let (says, released) = (says.clone(), std::sync::Arc::clone(&released));
        async move {
            let computes = says.clone();
            cx.spawn(async move {
                let _ = computes.send("computes");
                let _ = released.lock().unwrap().recv();
            });
            cx.cancelled().await;
            let _ = says.send("returns");
            Ok::<_, ErrorObject>(json!({ "partial": true }))
        }
    });
    let (mut wire, _served) = serve(server).await;
    wire.say(&request(1, "links", json!({}))).await;
    assert_eq!(in_time(said.recv()).await, Some("computes"));
    wire.say(&cancel(&acp::V1, 1)).await;
    assert_eq!(in_time(said.recv()).await, Some("returns"));
    assert_eq!(wire.so_far().await, Vec::<Value>::new(), "its task still computes");
    release.send(()).unwrap();
    assert_eq!(wire.hear().await, result(&json!(1), json!({ "partial": true })));
}

/// Case 72: the handler has an answer at once, and twenty processes that do not care for being asked to end. When the answer
/// comes, each has been killed and collected: its number is free.
#[tokio::test]
async fn a_cancelled_request_is_answered_only_when_its_processes_are_gone() {
    let (says, mut said) = mpsc::unbounded_channel();
    let server = builder(&acp::V1).on_request("run", move |cx: Context| {
        let says = says.clone();
        async move {
            let mut children = Vec::new();
            for _ in 0..20 {
                let mut child = cx.command(shell("trap '' TERM; echo ready; sleep 1000"))?;
                let mut output = child.stdout.take().expect("piped");
                assert_eq!(first_line(&mut output).await, "ready\n");
                let _ = says.send(child.id());
                children.push((child, output));
            }
            cx.cancelled().await;
            Ok::<_, Failed>(json!({ "partial": true }))
        }
    });
    let (mut wire, _served) = serve(server).await;
    wire.say(&request(1, "run", json!({}))).await;
    let mut processes = Vec::new();
    for _ in 0..20 {
        let process = in_time(said.recv()).await.unwrap();
        processes.push(rustix::process::Pid::from_raw(process.cast_signed()).unwrap());
    }
    wire.say(&cancel(&acp::V1, 1)).await;
    assert_eq!(wire.hear().await, result(&json!(1), json!({ "partial": true })));
    processes.retain(|process| rustix::process::test_kill_process(*process).is_ok());
    assert_eq!(processes, [], "they still live");
}

/// D22: a shielded handler runs to its end, and is answered as if no cancel came where that is lawful.
#[tokio::test(start_paused = true)]
async fn a_shielded_handler_is_left_alone() {
    for dialect in DIALECTS {
        for whole in [true, false] {
            let (go, wait) = tokio::sync::watch::channel(false);
            let handler = move |cx: Context| {
                let mut wait = wait.clone();
                async move {
                    let shield = cx.shield();
                    let _ = wait.wait_for(|go| *go).await;
                    assert!(!cx.is_cancelled());
                    drop(shield);
                    Ok::<_, ErrorObject>(json!({ "committed": true }))
                }
            };
            let handler = if whole { route(handler).shielded() } else { route(handler) };
            let (mut wire, _served) = serve(builder(dialect).on_request("commit", handler)).await;
            wire.say(&request(1, "commit", json!({}))).await;
            assert_eq!(wire.so_far().await, Vec::<Value>::new());
            wire.say(&cancel(dialect, 1)).await;
            assert_eq!(wire.so_far().await, Vec::<Value>::new());
            go.send(true).unwrap();
            let mut said = wire.so_far().await;
            if said.is_empty() {
                said = wire.so_far().await;
            }
            let withheld = dialect.name == mcp::LATEST.name;
            let expected = if withheld { vec![] } else { vec![result(&json!(1), json!({ "committed": true }))] };
            assert_eq!(said, expected, "{}", dialect.name);
        }
    }
}

/// D22: a route may say that its handlers are never dropped.
#[tokio::test(start_paused = true)]
async fn a_route_that_is_never_dropped_outlives_every_grace() {
    let (mut watch, witness) = watch();
    let slow = route(move |cx: Context| {
        let witness = witness.clone();
        async move {
            let guard = witness.guard(&cx);
            cx.cancelled().await;
            guard.fired(&cx);
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Err::<(), _>(ErrorObject::cancelled())
        }
    })
    .never_dropped();
    let (mut wire, _served) = serve(builder(&acp::V1).on_request("slow", slow)).await;
    wire.say(&request(1, "slow", json!({}))).await;
    watch.started(1).await;
    let start = tokio::time::Instant::now();
    wire.say(&cancel(&acp::V1, 1)).await;
    watch.stopped(1, CauseCode::Caller).await;
    assert!(start.elapsed() >= Duration::from_secs(3600));
    assert_eq!(wire.hear().await["error"]["code"], -32800);
}

/// Case 20, 44: the end of input stops everything; what ignores that is dropped after the short grace.
#[tokio::test(start_paused = true)]
async fn the_end_of_input_stops_every_handler_at_once() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let (mut wire, served) = serve(with_work(builder(dialect), &witness)).await;
        wire.say_all(&[request(1, "work", json!({})), request(2, "stubborn", json!({}))]).await;
        watch.started(1).await;
        watch.started(2).await;
        let start = tokio::time::Instant::now();
        let said = tokio::spawn(wire.close());
        watch.stopped(1, CauseCode::Disconnect).await;
        watch.gone(2).await;
        assert!(start.elapsed() <= Duration::from_millis(1010), "the short grace");
        served.await.unwrap().unwrap();
        assert_eq!(said.await.unwrap().len(), 2, "{}: nobody asked for silence", dialect.name);
    }
}

/// D27.
#[tokio::test(start_paused = true)]
async fn requests_may_finish_after_the_end_of_input_where_that_was_allowed() {
    let server = builder(&mcp::LATEST).drain_on_eof(Duration::from_secs(10)).on_request("slow", || async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok::<_, ErrorObject>(json!({ "done": true }))
    });
    let (mut wire, served) = serve(server).await;
    wire.say(&request(1, "slow", json!({}))).await;
    assert_eq!(wire.close().await, [result(&json!(1), json!({ "done": true }))]);
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_handler_writes_to_its_child_process_and_reads_both_its_outputs() {
    let run = route(|cx: Context| async move {
        let mut command = shell("cat; echo done >&2");
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = cx.command(command)?;
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(b"said").await?;
        drop(stdin);
        let (mut out, mut err) = (String::new(), String::new());
        child.stdout.take().expect("piped").read_to_string(&mut out).await?;
        child.stderr.take().expect("piped").read_to_string(&mut err).await?;
        Ok::<_, Failed>(json!({ "out": out, "err": err, "code": child.wait().await?.code() }))
    });
    let (mut wire, _served) = serve(builder(&acp::V1).on_request("run", run)).await;
    wire.say(&request(1, "run", json!({}))).await;
    assert_eq!(wire.hear().await["result"], json!({ "out": "said", "err": "done\n", "code": 0 }));
}
