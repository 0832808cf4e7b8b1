//! A protocol of one's own: a table says how it cancels, and everything else follows.
//!
//! `cargo run -p rescind --example custom_dialect`: both sides in one process.

#![expect(clippy::print_stdout, reason = "it speaks to whoever tries it")]

use std::{error::Error, sync::Arc};

use rescind::peer::{
    Context, Dialect, ErrorObject, Params, Peer,
    dialect::{CancelForm, CancelReply, ErrorText, Family, acp},
    filter::{Message, Pass},
    transport,
};
use serde_json::json;
use tokio::sync::Notify;

/// A print server's protocol: `job/abort {job, why}` stops a job, and the job is still answered, with error 7. What
/// is not said here is as in ACP.
static PRINTING: Dialect = Dialect {
    name: "printing",
    family: Family::Custom,
    cancel: CancelForm { method: "job/abort", id: "job", reason: Some("why") },
    aliases: &[],
    settlement: CancelReply::Answered(ErrorText { code: 7, message: "aborted" }),
    gave_up: ErrorText { code: 8, message: "the printer gave up" },
    cancel_results: &[],
    turn: None,
    uncancellable: &[],
    ..acp::V1
};

/// Shows what is about to be written.
fn show(who: &str, message: &Message<'_>) -> Pass {
    println!("{who} says {}", String::from_utf8_lossy(message.json()));
    Pass::Unchanged
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (near, far) = transport::memory();
    let printing = Arc::new(Notify::new());
    let tell = Arc::clone(&printing);
    let (_server, driver) = Peer::builder(&PRINTING)
        .on_request("job/print", move |Params(pages): Params<u32>, cx: Context| {
            let tell = Arc::clone(&tell);
            async move {
                println!("printing {pages} pages");
                tell.notify_one();
                cx.cancelled().await;
                println!("stopped: {:?}", cx.cause().and_then(|cause| cause.text().map(str::to_owned)));
                Err::<(), _>(ErrorObject::cancelled())
            }
        })
        .outgoing(|message| show("server", message))
        .accept(far);
    driver.spawn();
    let (client, driver) = Peer::builder(&PRINTING).outgoing(|message| show("client", message)).connect(near);
    driver.spawn();

    let job = client.request::<()>("job/print", &json!(400)).send();
    printing.notified().await;
    let receipt = job.cancel("out of paper").await;
    println!("receipt: {}", receipt.outcome);
    Ok(())
}
