//! The editor: this process, with the agent as its child.
//!
//! What has come decides when the next step is taken, never a sleep. All that is known comes through one pipe, which
//! every process has inherited: the marks of the work, the editor's own among them. Its end shows that no process is
//! left that holds it.

use std::{
    env,
    future::{Future, pending},
    io::{self, BufRead, BufReader, PipeReader},
    sync::Arc,
    thread,
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
    marks::{self, Marks, inherited},
    moment::Moment,
    program,
};

/// How long any one thing may take to come; nothing that works comes near it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the person says who presses Stop.
const REASON: &str = "user pressed Stop";

/// How many steps each piece takes that has any, before Stop is pressed.
const STEPS: usize = 4;

/// Everything that was observed, in order.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) marks: Vec<Mark>,
    /// Lines that are not what they should be.
    pub(super) unreadable: Vec<String>,
    /// When Stop was pressed.
    pub(super) stop: Option<Moment>,
    /// How long a second prompt took after that, through all hops.
    pub(super) went_on: Option<Duration>,
    /// Of the agent.
    pub(super) exit_code: Option<i32>,
    /// Whether every process that inherited the pipe has closed it.
    pub(super) is_alone: bool,
}

/// Why the script could not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    #[error("waited {PATIENCE:?} in vain for {0}")]
    InVain(&'static str),
    #[error("all have closed their marks before {0}")]
    Closed(&'static str),
    #[error("{0} failed: {1}")]
    Call(&'static str, #[source] CallError),
}

/// What the marks' pipe gives, line by line, until its end.
type Lines = mpsc::UnboundedReceiver<Vec<u8>>;

/// Starts this same program once, and by it the others.
pub(super) fn play() -> io::Result<(Seen, Result<(), Stopped>)> {
    let (pipe, marks_end) = io::pipe()?;
    let mut agent = program::hop(Role::Agent)?;
    agent.env(marks::VARIABLE, inherited(&marks_end)?);
    let marks = Arc::new(Marks::to(marks_end));
    let lines = lines_of(pipe);
    let runtime = hops::runtime()?;
    runtime.block_on(async {
        let (transport, child) = transport::child(agent)?;
        let (peer, driver) = editor(&marks).connect(transport);
        let driver = driver.spawn();
        let mut session = Session { marks, lines, seen: Seen::default() };
        let played = session.play(acp::Client::new(peer, "rescind-demo", VERSION)).await;
        if played.is_err() {
            driver.abort();
        }
        // Nothing came of it that the marks do not tell.
        let _ = time::timeout(PATIENCE, driver).await;
        let status = time::timeout(PATIENCE, child.wait()).await;
        Ok((session.finish(status.ok().and_then(Result::ok).and_then(|status| status.code())).await, played))
    })
}

/// Its side of the connection: a person who does not answer when asked for permission.
fn editor(marks: &Arc<Marks>) -> Builder {
    let marked = Arc::clone(marks);
    Wire::new(marks).observe(acp::Client::builder()).request("session/request_permission", move |cx: Context| {
        let work = marked.begin(Piece::Permission);
        async move { work.until_end(&cx, cx.unless_cancelled(pending::<Permission>())).await }
    })
}

struct Session {
    marks: Arc<Marks>,
    lines: Lines,
    seen: Seen,
}

impl Session {
    async fn play(&mut self, client: acp::Client) -> Result<(), Stopped> {
        within("the agent's handshake", client.initialize()).await?;
        let folder = env::current_dir().unwrap_or_else(|_| "/".into());
        let session = within("a session", client.new_session(&folder)).await?;
        let turn = client.prompt(&session, BUILD_AND_SEARCH).send();
        let stop = turn.handle();
        self.wait_for("work in every hop", Seen::is_busy).await?;

        self.seen.stop = Some(Moment::now());
        let receipt = stop.cancel_and_wait(REASON, PATIENCE);
        let _: StopReason = within("the end of the turn", turn).await?;
        let receipt = within("its receipt", async { Ok(receipt.await) }).await?;
        self.marks.mark(Piece::Prompt, Event::of_receipt(&receipt.outcome));
        self.wait_for("the end of all work, and the receipts", Seen::is_over).await?;

        // One stream each way in each hop: when this comes back, whatever was late has come.
        let asked = Moment::now();
        let _: StopReason = within("the end of another turn", client.prompt(&session, GO_ON)).await?;
        self.seen.went_on = Some(Moment::now().since(asked));
        within("the end of the session", client.close_session(&session)).await
    }

    async fn wait_for(&mut self, what: &'static str, is_there: impl Fn(&Seen) -> bool) -> Result<(), Stopped> {
        let come = async {
            while !is_there(&self.seen) {
                let line = self.lines.recv().await.ok_or(Stopped::Closed(what))?;
                self.seen.take(&line);
            }
            Ok(())
        };
        time::timeout(PATIENCE, come).await.unwrap_or(Err(Stopped::InVain(what)))
    }

    /// Waits for the end of every process.
    async fn finish(self, exit_code: Option<i32>) -> Seen {
        let Self { marks, mut lines, mut seen } = self;
        drop(marks);
        let rest = async {
            while let Some(line) = lines.recv().await {
                seen.take(&line);
            }
        };
        let is_alone = time::timeout(PATIENCE, rest).await.is_ok();
        Seen { exit_code, is_alone, ..seen }
    }
}

impl Seen {
    fn take(&mut self, line: &[u8]) {
        match serde_json::from_slice(line) {
            Ok(mark) => self.marks.push(mark),
            Err(_) => self.unreadable.push(String::from_utf8_lossy(line).into_owned()),
        }
    }

    pub(super) fn of(&self, piece: Piece) -> impl Iterator<Item = &Mark> {
        self.marks.iter().filter(move |mark| mark.piece == piece)
    }

    fn has(&self, piece: Piece, is_it: impl Fn(&Event) -> bool) -> bool {
        self.of(piece).any(|mark| is_it(&mark.event))
    }

    /// Every piece has begun, and those that take steps have taken a few.
    fn is_busy(&self) -> bool {
        let steps = |piece| self.of(piece).filter(|mark| mark.event == Event::Step).count();
        Piece::ALL.into_iter().all(|piece| self.has(piece, |event| *event == Event::Started))
            && [Piece::Make, Piece::Compiler, Piece::Search].into_iter().all(|piece| steps(piece) >= STEPS)
    }

    /// Every piece has ended, and every request has its receipt.
    fn is_over(&self) -> bool {
        let is_request = |piece| self.has(piece, |event| *event == Event::Asked);
        Piece::ALL.into_iter().all(|piece| {
            self.has(piece, |event| *event == Event::Stopped)
                && (!is_request(piece) || self.has(piece, |event| matches!(event, Event::Receipt { .. })))
        })
    }
}

async fn within<T>(what: &'static str, call: impl Future<Output = Result<T, CallError>>) -> Result<T, Stopped> {
    match time::timeout(PATIENCE, call).await {
        Ok(ended) => ended.map_err(|error| Stopped::Call(what, error)),
        Err(_) => Err(Stopped::InVain(what)),
    }
}

/// A thread that reads; it ends with the pipe.
fn lines_of(pipe: PipeReader) -> Lines {
    let (tell, lines) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    lines
}
