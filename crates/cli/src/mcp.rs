//! `rescind mcp`: an MCP server by which an agent sees and stops what it has started.
//!
//! An example of a server on the library: a tool is an async function of its arguments, a `Context` and what the server
//! knows. Each can be cancelled itself: whatever a tool awaits is dropped then.

mod lineage;
mod reach;
mod readable;
mod receipt;
mod row;
mod stop;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use rescind::{
    mcp::{NoArguments, Server, Tool},
    peer::{AnyError, Context, transport},
};
use rescind_feed::Request;
use rescind_proto::cause::{MAX_REASON, cut};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::{mpsc, watch};

use crate::{
    cancel::receipt::{self as orders, Learnt, News, Plan},
    completion::Completion,
    failure::Failure,
    fleet::{self, Pages},
    stop::{Tally, stop_quietly},
};
use lineage::Lineage;
use reach::{Reach, Scope};
use readable::Readable;
use receipt::Receipt;
use row::InFlight;
use stop::Stopped;

/// How long `cancel` waits for the outcome.
const WAIT: Duration = Duration::from_secs(5);

/// How long `stop` waits if it is not told.
const WITHIN: Duration = Duration::from_secs(10);

/// The longest that `stop` waits.
const LONGEST: Duration = Duration::from_secs(600);

/// Serve tools over MCP, by which an agent lists, cancels and stops what it has started.
///
/// The tools are list_in_flight, cancel, receipt and stop. They reach the sessions (`rescind run`) that the agent has
/// started, itself or through programs that it started. The agent is the process that started this command, without the
/// `rescind run` in front of this command, and without launchers in between (`sh -c`, npx, uvx).
///
/// What is out of reach is not listed, and cancelling it fails as if it did not exist. Always out of reach is the session
/// of this server; and, unless --session names it, the session in which the agent itself is the server, with the prompt
/// that it works on.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Which sessions the tools reach
    #[arg(long, value_name = "WHICH", value_enum, default_value = "own")]
    reach: Which,

    /// Only this session, also if another agent has started it: its number, or the name of its entry in the client's
    /// configuration, also as CLIENT:NAME, which means every session of that name; may be repeated
    #[arg(long, value_name = "SESSION", conflicts_with = "reach")]
    session: Vec<String>,

    /// Only list and report; serve neither cancel nor stop
    #[arg(long)]
    read_only: bool,
}

/// The choices of --reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Those that the agent has started
    Own,
    /// All of this user, except those that this server works in
    All,
}

pub(crate) fn main(arguments: Arguments) -> Result<Completion, Failure> {
    let Arguments { reach, session, read_only } = arguments;
    let scope = match (session.is_empty(), reach) {
        (false, _) => Scope::Named(session),
        (true, Which::Own) => Scope::Own,
        (true, Which::All) => Scope::All,
    };
    fleet::block_on(async {
        let served = server(Reach::new(scope, Lineage::find()), read_only).serve(transport::stdio()).await;
        served.map_err(|error| Failure::new("rescind mcp", error, "start it again"))?;
        Ok(Completion::Whole)
    })
}

fn server(reach: Reach, is_read_only: bool) -> Server {
    let instructions = format!(
        "Lists and stops tool calls and other requests in flight behind `rescind run`: {}. Use it when something you \
         started takes too long or is no longer wanted.",
        reach.words()
    );
    let reach = Arc::new(reach);
    let list = Tool::new(
        "list_in_flight",
        "Lists the requests in flight within reach: tool calls, prompts; and those that were cancelled and are not known to \
         have stopped (`released`). `request` is the name for the other tools.",
        within(reach.clone(), list_in_flight),
    );
    let receipt = Tool::new(
        "receipt",
        "Says what is known of a cancelled request: whether its work is known to have stopped. It claims only what was \
         observed.",
        within(reach.clone(), receipt),
    );
    let observing = Server::new("rescind", env!("CARGO_PKG_VERSION"))
        .instructions(&instructions)
        .with_tool(list.title("List what is in flight").read_only_hint(true).open_world_hint(false))
        .with_tool(receipt.title("Receipt of a cancel").read_only_hint(true).open_world_hint(false));
    if is_read_only {
        return observing;
    }
    let cancel = Tool::new(
        "cancel",
        "Cancels one request, and returns its receipt, at the latest after 5 s.",
        within(reach.clone(), cancel),
    );
    let stop = Tool::new(
        "stop",
        "Cancels every request in flight within reach, waits for the receipts, and says of each whether it stopped. \
         Servers are not ended. Cancelling this call ends the waiting; cancels that were sent stay sent.",
        within(reach, stop),
    );
    observing
        .with_tool(cancel.title("Cancel a request").destructive_hint(true).open_world_hint(false))
        .with_tool(stop.title("Stop everything").destructive_hint(true).open_world_hint(false))
}

/// Gives a tool what it may reach.
fn within<A, F>(reach: Arc<Reach>, tool: impl Fn(A, Arc<Reach>, Context) -> F) -> impl Fn(A, Context) -> F {
    move |arguments, cx| tool(arguments, Arc::clone(&reach), cx)
}

/// The arguments of `receipt`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Named {
    /// The request, as list_in_flight has it: SESSION/ID
    request: String,
}

/// The arguments of `cancel`.
#[derive(Debug, Deserialize, JsonSchema)]
struct CancelArguments {
    /// The request, as list_in_flight has it: SESSION/ID
    request: String,
    /// The reason, for both sides of the request
    reason: Option<String>,
}

/// The arguments of `stop`.
#[derive(Debug, Deserialize, JsonSchema)]
struct StopArguments {
    /// How long to wait for receipts, in seconds; 10 if left out, 600 at most
    within_seconds: Option<f64>,
    /// The reason, for both sides of each request
    reason: Option<String>,
}

async fn list_in_flight(_: NoArguments, reach: Arc<Reach>, cx: Context) -> Result<Readable<InFlight>, AnyError> {
    let list = async {
        let sessions = reach.sessions().await?;
        let query = fleet::Selection::default().query();
        let answers = fleet::ask_shims_also_released(sessions.shims, &query, Pages::All).await;
        Ok::<_, Failure>(InFlight::of(answers, sessions.silent, reach.words()))
    };
    Ok(cx.unless_cancelled(list).await??)
}

async fn receipt(named: Named, reach: Arc<Reach>, cx: Context) -> Result<Readable<Receipt>, AnyError> {
    let found = cx.unless_cancelled(reach.find(&named.request)).await??;
    Ok(Receipt::of(&found, &found.chosen.request, None, []))
}

async fn cancel(order: CancelArguments, reach: Arc<Reach>, cx: Context) -> Result<Readable<Receipt>, AnyError> {
    let found = cx.unless_cancelled(reach.find(&order.request)).await??;
    let (until, reach) = (Some(orders::after(WAIT)), orders::Reach::Chosen);
    let plan = Plan { reason: cut_reason(order.reason), turn_only: false, until, reach };
    let (sender, mut news) = mpsc::channel::<News>(8);
    let chosen = found.chosen.clone();
    let ordered = async move { orders::cancel(&chosen.shim, 0, vec![chosen.clone()], &plan, &sender).await };
    let heard = async {
        let (mut last, mut is_accepted, mut receipts) = (found.chosen.request.clone(), None, 0_u32);
        let mut background = BTreeMap::new();
        while let Some(News { learnt, .. }) = news.recv().await {
            let request: Request = match learnt {
                // What becomes of children that are cancelled with it is in the words of its own receipt.
                Learnt::Receipt(request) if request.key != found.chosen.request.key => {
                    if request.child.is_none() {
                        background.insert(request.key.clone(), request);
                    }
                    continue;
                }
                Learnt::Receipt(request) => request,
                Learnt::NotCancelled(request) => {
                    is_accepted = Some(false);
                    request
                }
                Learnt::Failed(why) => return Err(format!("{}: {why}", found.name())),
                Learnt::Began(_) | Learnt::Unheard(_) | Learnt::Ended(_) => continue,
            };
            is_accepted.get_or_insert(true);
            receipts += 1;
            let words = request.cancel.as_ref().map(|cancel| cancel.words.clone());
            cx.progress(receipts.into(), None, words.as_deref()).await;
            last = request;
        }
        Ok((last, is_accepted.unwrap_or(false), background))
    };
    // Dropped here if this call is cancelled: what was sent stays sent, and its receipt is not awaited.
    let (heard, ()) = cx.unless_cancelled(async { tokio::join!(heard, ordered) }).await?;
    let (request, is_accepted, background) = heard?;
    Ok(Receipt::of(&found, &request, Some(is_accepted), background.values()))
}

async fn stop(order: StopArguments, reach: Arc<Reach>, cx: Context) -> Result<Readable<Stopped>, AnyError> {
    let within = order.within_seconds.map_or(Ok(WITHIN), Duration::try_from_secs_f64);
    let within = within.map_err(|error| format!("within_seconds: {error}"))?.min(LONGEST);
    let (tell, mut told) = watch::channel(Tally::default());
    let work = async {
        let sessions = reach.sessions().await?;
        let has_sessions = !sessions.shims.is_empty() || !sessions.silent.is_empty();
        let stopped = stop_quietly(sessions.shims, within, cut_reason(order.reason), tell).await;
        Ok::<_, Failure>(Stopped::of(stopped, sessions.silent, has_sessions))
    };
    let report = async {
        while told.changed().await.is_ok() {
            let Tally { over, all } = *told.borrow_and_update();
            cx.progress(over as f64, Some(all as f64), Some(&format!("{over} of {all} over"))).await;
        }
    };
    let (stopped, ()) = cx.unless_cancelled(async { tokio::join!(work, report) }).await?;
    Ok(stopped?)
}

fn cut_reason(reason: Option<String>) -> Option<String> {
    reason.map(|reason| cut(&reason, MAX_REASON).to_owned())
}
