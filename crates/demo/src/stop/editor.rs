//! The editor: this process, with the agent as its child.
//!
//! Each step of the script waits for marks, never for time. All marks, the editor's own included, come through one pipe
//! that every process opens. It ends only when no process that has it open is left.

use std::{
    env,
    future::{Future, pending},
    io,
    sync::Arc,
    time::Duration,
};

use rescind::{
    acp::{self, Permission, StopReason},
    peer::{Builder, CallError, Context, transport},
};
use tokio::{sync::mpsc, time};

use crate::{
    hops::{
        self, BUILD_AND_SEARCH, GO_ON, Role, VERSION,
        mark::{Event, Mark, Piece},
        wire::Wire,
    },
    marks::{self, Marks},
    moment::Moment,
    pipe::{self, Entrance, Report},
};

/// How long each step may take. A step that works takes a small part of it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The reason that the editor gives for the cancel.
const REASON: &str = "user pressed Stop";

/// How many steps each piece that has steps takes before Stop is pressed.
const STEPS: usize = 4;

/// Everything that was observed, in order.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) marks: Vec<Mark>,
    /// Lines of the pipe that are not marks.
    pub(super) unreadable: Vec<String>,
    /// When Stop was pressed.
    pub(super) stop: Option<Moment>,
    /// How long a second prompt took after that, through all hops.
    pub(super) went_on: Option<Duration>,
    /// The agent's, if it exited in time and not by a signal.
    pub(super) exit_code: Option<i32>,
    /// Whether every process that had the pipe open has closed it.
    pub(super) is_alone: bool,
}

/// A reason why the script could not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScriptError {
    #[error("timed out after {TIMEOUT:?} waiting for {0}")]
    TimedOut(&'static str),
    #[error("every process closed the pipe of marks while the script waited for {0}")]
    Closed(&'static str),
    #[error("{0} failed: {1}")]
    Call(&'static str, #[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What comes through the pipe of marks, until its end.
type Reports = mpsc::UnboundedReceiver<Report>;

/// Starts the agent, which starts the others, and plays the script.
pub(super) fn play() -> io::Result<(Seen, Result<(), ScriptError>)> {
    let (sender, reports) = mpsc::unbounded_channel();
    // Sending fails only once the session is over.
    let entrance = pipe::open(move |report| drop(sender.send(report)))?;
    let mut agent = hops::command(Role::Agent)?;
    agent.env(marks::VARIABLE, entrance.path());
    let marks = Arc::new(Marks::to(entrance.writer()?));
    let runtime = hops::runtime()?;
    runtime.block_on(async {
        let (transport, child) = transport::child(agent)?;
        let (peer, driver) = editor(&marks).connect(transport);
        let driver = driver.spawn();
        let mut session = Session { marks, entrance, reports, seen: Seen::default() };
        let played = session.play(acp::Client::new(peer, "rescind-demo", VERSION)).await;
        if played.is_err() {
            driver.abort();
        }
        // Its outcome does not matter: the marks show what happened.
        let _ = time::timeout(TIMEOUT, driver).await;
        let status = time::timeout(TIMEOUT, child.wait()).await;
        Ok((session.finish(status.ok().and_then(Result::ok).and_then(|status| status.code())).await, played))
    })
}

/// The editor's side of the connection. Its person never answers a request for permission.
fn editor(marks: &Arc<Marks>) -> Builder {
    let marked = Arc::clone(marks);
    Wire::new(marks).observe(acp::Client::peer_builder()).on_request(
        "session/request_permission",
        move |cx: Context| {
            let work = marked.begin(Piece::Permission);
            async move { work.until_end(&cx, cx.unless_cancelled(pending::<Permission>())).await }
        },
    )
}

struct Session {
    marks: Arc<Marks>,
    entrance: Entrance,
    reports: Reports,
    seen: Seen,
}

impl Session {
    async fn play(&mut self, client: acp::Client) -> Result<(), ScriptError> {
        within("the agent's handshake", client.initialize()).await?;
        let folder = env::current_dir().unwrap_or_else(|_| "/".into());
        let session = within("a session", client.new_session(&folder)).await?;
        let turn = client.prompt(&session, BUILD_AND_SEARCH).send();
        let stop = turn.handle();
        self.wait_for("work in every hop", Seen::is_busy).await?;

        self.seen.stop = Some(Moment::now());
        let receipt = stop.cancel_and_wait(REASON, TIMEOUT);
        let _: StopReason = within("the end of the turn", turn).await?;
        let receipt = within("its receipt", async { Ok::<_, CallError>(receipt.await) }).await?;
        self.marks.mark(Piece::Prompt, Event::of_receipt(&receipt.outcome));
        self.wait_for("the end of all work, and the receipts", Seen::is_over).await?;

        // Each hop has one stream in each direction, so once this is answered, nothing late is still on its way.
        let asked = Moment::now();
        let _: StopReason = within("the end of another turn", client.prompt(&session, GO_ON)).await?;
        self.seen.went_on = Some(Moment::now().since(asked));
        within("the end of the session", client.close_session(&session)).await
    }

    async fn wait_for(&mut self, what: &'static str, has_come: impl Fn(&Seen) -> bool) -> Result<(), ScriptError> {
        let wait = async {
            while !has_come(&self.seen) {
                let report = self.reports.recv().await.ok_or(ScriptError::Closed(what))?;
                self.seen.add(report);
            }
            Ok(())
        };
        time::timeout(TIMEOUT, wait).await.unwrap_or(Err(ScriptError::TimedOut(what)))
    }

    /// Waits until every process has exited.
    async fn finish(self, exit_code: Option<i32>) -> Seen {
        let Self { marks, entrance, mut reports, mut seen } = self;
        drop((marks, entrance));
        let rest = async {
            while let Some(report) = reports.recv().await {
                seen.add(report);
            }
        };
        let is_alone = time::timeout(TIMEOUT, rest).await.is_ok();
        Seen { exit_code, is_alone, ..seen }
    }
}

impl Seen {
    fn add(&mut self, report: Report) {
        match report {
            Report::Line(line) => match serde_json::from_slice(&line) {
                Ok(mark) => self.marks.push(mark),
                Err(_) => self.unreadable.push(String::from_utf8_lossy(&line).into_owned()),
            },
            Report::Closed { last } => {
                if let Ok(Mark { piece, .. }) = serde_json::from_slice(&last)
                    && piece.is_process()
                {
                    self.marks.push(Mark { at: Moment::now(), piece, event: Event::Ended });
                }
            }
        }
    }

    pub(super) fn of(&self, piece: Piece) -> impl Iterator<Item = &Mark> {
        self.marks.iter().filter(move |mark| mark.piece == piece)
    }

    fn has(&self, piece: Piece, matches: impl Fn(&Event) -> bool) -> bool {
        self.of(piece).any(|mark| matches(&mark.event))
    }

    /// Whether every piece has started, and those with steps have taken a few.
    fn is_busy(&self) -> bool {
        let steps = |piece| self.of(piece).filter(|mark| mark.event == Event::Step).count();
        Piece::ALL.into_iter().all(|piece| self.has(piece, |event| *event == Event::Started))
            && [Piece::Make, Piece::Compiler, Piece::Search].into_iter().all(|piece| steps(piece) >= STEPS)
    }

    /// Whether every piece has ended and every request has its receipt.
    fn is_over(&self) -> bool {
        let is_request = |piece| self.has(piece, |event| *event == Event::Asked);
        Piece::ALL.into_iter().all(|piece| {
            self.has(piece, |event| matches!(event, Event::Stopped | Event::Ended))
                && (!is_request(piece) || self.has(piece, |event| matches!(event, Event::Receipt { .. })))
        })
    }
}

async fn within<T, E: std::error::Error + Send + Sync + 'static>(
    what: &'static str,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, ScriptError> {
    match time::timeout(TIMEOUT, call).await {
        Ok(ended) => ended.map_err(|error| ScriptError::Call(what, error.into())),
        Err(_) => Err(ScriptError::TimedOut(what)),
    }
}
