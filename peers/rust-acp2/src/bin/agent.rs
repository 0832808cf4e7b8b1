//! An agent of ACP v2 on agent-client-protocol: `agent TURN TERMINAL [--fixed]`.
//!
//! A prompt begins two works: its turn, which writes into the pipe TURN, and a terminal in the background, which
//! writes into the pipe TERMINAL. Each writes until it is cancelled. With `--fixed` the terminal does not grant that.

use std::{
    env,
    fs::OpenOptions,
    io::Write,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use agent_client_protocol::{
    Agent, Client, Error, Result, Stdio, on_receive_notification, on_receive_request,
    v2::{ConnectionTo, Responder, schema},
};
use futures::executor::block_on;

const TERMINAL: &str = "terminal-1";

/// A thread that writes into a pipe until it is ended.
struct Work {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Work {
    fn begin(pipe: String) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut pipe = OpenOptions::new().write(true).open(pipe).expect("there is a pipe");
            while !ended.load(Ordering::Relaxed) && pipe.write_all(b"beat\n").is_ok() {
                thread::sleep(Duration::from_millis(10));
            }
        });
        Self { is_over, thread }
    }

    /// Returns once its pipe is closed.
    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only writes");
    }
}

/// What works for the one session.
#[derive(Default)]
struct Works {
    turn: Option<Work>,
    terminal: Option<Work>,
}

impl Works {
    fn background(&self) -> Vec<schema::BackgroundWork> {
        let listed = self.terminal.iter();
        listed.map(|_| schema::BackgroundWork::Terminal(schema::BackgroundTerminal::new(TERMINAL))).collect()
    }

    /// The state of the session, a whole snapshot.
    fn state(&self, stop_reason: Option<schema::StopReason>) -> schema::SessionUpdate {
        let background = self.background();
        schema::SessionUpdate::StateUpdate(match self.turn {
            Some(_) => schema::StateUpdate::Running(schema::RunningStateUpdate::new().background(background)),
            None => {
                let idle = schema::IdleStateUpdate::new().stop_reason(stop_reason);
                schema::StateUpdate::Idle(idle.background(background))
            }
        })
    }
}

fn report(client: &ConnectionTo<Client>, session: &schema::SessionId, update: schema::SessionUpdate) -> Result<()> {
    client.send_notification(schema::UpdateSessionNotification::new(session.clone(), update))
}

fn terminal() -> schema::TerminalUpdate {
    schema::TerminalUpdate::new(TERMINAL)
}

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let [turn, in_background] = [(); 2].map(|()| arguments.next().expect("two pipes"));
    let is_fixed = arguments.next().is_some();
    let works = Arc::new(Mutex::new(Works::default()));
    let [prompted, cancelled, cancelled_terminal] = [(); 3].map(|()| Arc::clone(&works));

    let agent = Agent
        .v2()
        .on_receive_request(
            async |hello: schema::InitializeRequest,
                   responder: Responder<schema::InitializeResponse>,
                   _: ConnectionTo<Client>| {
                let info = schema::Implementation::new("rescind-peer-acp2", "0.0.0");
                let capabilities = schema::AgentCapabilities::new().session(schema::SessionCapabilities::new());
                let answer = schema::InitializeResponse::new(hello.protocol_version, info);
                responder.respond(answer.capabilities(capabilities))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async |_: schema::NewSessionRequest,
                   responder: Responder<schema::NewSessionResponse>,
                   _: ConnectionTo<Client>| {
                responder.respond(schema::NewSessionResponse::new("session-1"))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |prompt: schema::PromptRequest,
                        responder: Responder<schema::PromptResponse>,
                        client: ConnectionTo<Client>| {
                let mut works = prompted.lock().unwrap_or_else(PoisonError::into_inner);
                if works.turn.is_some() || works.terminal.is_some() {
                    return responder.respond_with_error(Error::invalid_request());
                }
                works.turn = Some(Work::begin(turn.clone()));
                works.terminal = Some(Work::begin(in_background.clone()));
                responder.respond(schema::PromptResponse::new("message-1"))?;
                let mut grant = schema::TerminalCapabilities::new();
                if !is_fixed {
                    grant = grant.cancel(schema::TerminalCancelCapabilities::new());
                }
                let terminal = terminal().command("work".to_owned()).capabilities(grant);
                report(&client, &prompt.session_id, schema::SessionUpdate::TerminalUpdate(terminal))?;
                report(&client, &prompt.session_id, works.state(None))
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancel: schema::CancelSessionNotification, client: ConnectionTo<Client>| {
                let mut works = cancelled.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(turn) = works.turn.take() else { return Ok(()) };
                turn.end();
                report(&client, &cancel.session_id, works.state(Some(schema::StopReason::Cancelled)))
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |cancel: schema::CancelTerminalRequest,
                        responder: Responder<schema::CancelTerminalResponse>,
                        client: ConnectionTo<Client>| {
                let mut works = cancelled_terminal.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(work) = works.terminal.take_if(|_| !is_fixed) else {
                    return responder.respond_with_error(Error::invalid_params());
                };
                responder.respond(schema::CancelTerminalResponse::new())?;
                work.end();
                let exit = schema::TerminalExitStatus::new().signal("TERM".to_owned());
                let ended = schema::SessionUpdate::TerminalUpdate(terminal().exit_status(exit));
                report(&client, &cancel.session_id, ended)?;
                report(&client, &cancel.session_id, works.state(None))
            },
            on_receive_request!(),
        );
    block_on(agent.connect_to(Stdio::new()))
}
