//! agent-client-protocol as an agent, and as a client.

use std::time::Duration;

use agent_client_protocol::{ByteStreams, ConnectionTo, Responder, UntypedMessage, role::UntypedRole};
use rescind_peers_wrap::{
    Fate, Io, Pipe, Raw, Way, Work, both, connection, eventually, notification, request, row, seconds,
};
use rescind_proto::dialect::acp;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

const GRACE: Duration = Duration::from_secs(2);

type Boxed<T> = Compat<Box<T>>;

fn streams(
    (reader, writer): Io,
) -> ByteStreams<Boxed<dyn tokio::io::AsyncWrite + Send + Unpin>, Boxed<dyn tokio::io::AsyncRead + Send + Unpin>> {
    ByteStreams::new(writer.compat_write(), reader.compat())
}

/// The dialect is told: these scenes have no handshake.
fn settings(wrap: Pipe) -> Pipe {
    wrap.dialect(&acp::V1).grace(GRACE)
}

/// An agent whose `inline` handler awaits its work where it is called, and one whose work watches its marker.
fn serve(way: Way) -> (Work, Raw) {
    let (io, client) = connection(64 * 1024);
    let work = Work::default();
    let theirs = work.clone();
    let io = streams(way.server(io, settings));
    tokio::spawn(async move {
        let agent = UntypedRole.builder().on_receive_request(
            async move |asked: UntypedMessage, responder: Responder<Value>, _: ConnectionTo<UntypedRole>| {
                let work = theirs.clone();
                let name = asked.params()["work"].as_str().unwrap_or_default().to_owned();
                match asked.method() {
                    "inline" => responder.respond(work.run(&name).await.into()),
                    // Work that belongs to the program, and asks its marker alone.
                    _ => {
                        let marker = responder.cancellation();
                        tokio::spawn(async move {
                            let done = work.run_until(&name, marker.cancelled()).await;
                            responder.respond(done.into())
                        });
                        Ok(())
                    }
                }
            },
            agent_client_protocol::on_receive_request!(),
        );
        agent.connect_to(io).await
    });
    (work, client)
}

fn cancel(id: u32) -> Value {
    notification("$/cancel_request", json!({"requestId": id}))
}

/// No relay reaches a loop that does not read. It can answer the one who waits.
#[tokio::test(start_paused = true)]
async fn the_caller_of_a_handler_that_blocks_the_loop_is_answered() {
    let seen = both(async |way| {
        let (work, mut client) = serve(way);
        client.send(request(1, "inline", json!({"work": "long"}))).await;
        work.comes_to("long", Fate::Running).await;
        let cancelled = Instant::now();
        client.send(cancel(1)).await;
        let answered = match eventually(client.answer_to(1)).await {
            None => "no answer".into(),
            Some(answer) => format!("{} after {}", answer["error"]["code"], seconds(cancelled.elapsed())),
        };
        let work = match work.fate("long") {
            Some(Fate::Running) => "works on",
            _ => "ends",
        };
        format!("{answered}; {work}")
    })
    .await;
    row("ACP agent: a handler that awaits in line is cancelled", &seen);
    assert_eq!(seen[0], "no answer; works on");
    assert_eq!(seen[1], "-32800 after 2.0 s; works on");
}

#[tokio::test(start_paused = true)]
async fn the_caller_that_has_cancelled_waits_no_longer_than_the_grace() {
    let seen = both(async |way: Way| {
        let (io, mut agent) = connection(64 * 1024);
        let io = streams(way.client(io, settings));
        let (cancelled, heard) = tokio::sync::oneshot::channel();
        let client = UntypedRole.builder().connect_with(io, async move |cx: ConnectionTo<UntypedRole>| {
            let call = cx.send_request(UntypedMessage::new("anything", json!({}))?);
            heard.await.map_err(agent_client_protocol::Error::into_internal_error)?;
            call.cancel()?;
            let asked = Instant::now();
            let failed = call.block_task().await.err();
            Ok(format!("{} after {}", failed.map_or(0, |error| i32::from(error.code)), seconds(asked.elapsed())))
        });
        let silent = async {
            agent.receive().await;
            let _ = cancelled.send(());
            loop {
                agent.receive().await;
            }
        };
        tokio::select! {
            done = eventually(client) => done.map_or_else(|| "waits for ever".into(), |done| done.expect("it runs")),
            () = silent => unreachable!("it reads for ever"),
        }
    })
    .await;
    row("ACP client: cancel() of a request that the agent never answers", &seen);
    assert_eq!(seen[0], "waits for ever");
    assert_eq!(seen[1], "-32800 after 2.0 s");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_client_fires_the_markers() {
    let seen = both(async |way| {
        let (work, mut client) = serve(way);
        client.send(request(1, "own", json!({"work": "long"}))).await;
        work.comes_to("long", Fate::Running).await;
        drop(client);
        match eventually(work.comes_to("long", Fate::Stopped)).await {
            Some(()) => "stops",
            None => "works on for ever",
        }
    })
    .await;
    row("ACP agent: the client has gone; work that watches its marker", &seen);
    assert_eq!(seen[0], "works on for ever");
    assert_eq!(seen[1], "stops");
}
