//! The tool server of the second act: slow tools, each of which treats a cancel in its own way.
//!
//! It speaks MCP over stdin and stdout, without the library, and runs each call in a thread. The work marks its own
//! start and end, since no MCP message says that a cancelled call has stopped.

pub(crate) mod mark;
mod token;
pub(crate) mod tool;

use std::{
    collections::HashMap,
    io::{self, BufRead, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use mark::{By, Event, Mark};
use serde_json::{Value, json};
use token::Token;
use tool::Tool;

use crate::{marks::Marks, moment::Moment};

/// The name of the subcommand that calls [`serve`].
pub const SUBCOMMAND: &str = "__sample-server";

/// The MCP revision that it speaks.
pub(crate) const REVISION: &str = "2025-11-25";

/// The length of a step of work. Each step but the last reports progress if the call has a progress token and the
/// tool a last step.
const STEP: Duration = Duration::from_millis(100);

/// How long `crosses` keeps the second half of its answer if no cancel comes.
const CROSSING: Duration = Duration::from_secs(2);

const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// Serves until stdin ends. The caller should exit then, which ends the work that still runs. The tool `dies` exits the
/// process itself.
///
/// # Errors
///
/// Fails if the file that the environment names for marks cannot be opened.
pub fn serve() -> io::Result<()> {
    let marks = Marks::from_environment()?;
    let server = Arc::new(Server { marks, output: Mutex::new(io::stdout()), calls: Mutex::default() });
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if let Ok(message) = serde_json::from_str(&line) {
            server.handle(&message);
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Server {
    marks: Marks,
    output: Mutex<io::Stdout>,
    /// Calls in flight by the JSON text of their id, so that 5 and "5" differ.
    calls: Mutex<HashMap<String, Arc<Call>>>,
}

#[derive(Debug)]
struct Call {
    id: Value,
    tool: Tool,
    token: Token,
    progress_token: Option<Value>,
}

/// The way in which work ended.
enum Ended {
    Finished,
    Stopped,
}

impl Server {
    fn handle(self: &Arc<Self>, message: &Value) {
        let Some(method) = message["method"].as_str() else { return };
        let params = &message["params"];
        match (method, message.get("id")) {
            ("initialize", Some(id)) => self.answer(id, &initialized()),
            ("ping", Some(id)) => self.answer(id, &json!({})),
            ("tools/list", Some(id)) => self.answer(id, &json!({"tools": Tool::ALL.map(Tool::described)})),
            ("tools/call", Some(id)) => match params["name"].as_str().and_then(Tool::named) {
                Some(tool) => self.start(id, tool, params),
                None => self.refuse(id, INVALID_PARAMS, "no such tool"),
            },
            (_, Some(id)) => self.refuse(id, METHOD_NOT_FOUND, "no such method"),
            ("notifications/cancelled", None) => self.cancel(&params["requestId"]),
            (_, None) => {}
        }
    }

    fn start(self: &Arc<Self>, id: &Value, tool: Tool, params: &Value) {
        let progress_token = params["_meta"].get("progressToken").cloned();
        let call = Arc::new(Call { id: id.clone(), tool, token: Token::default(), progress_token });
        // Before the work begins, so that a cancel that follows at once finds its call.
        self.calls().insert(id.to_string(), Arc::clone(&call));
        let server = Arc::clone(self);
        thread::spawn(move || server.run(&call));
    }

    fn cancel(&self, id: &Value) {
        let Some(call) = self.calls().get(&id.to_string()).map(Arc::clone) else { return };
        self.mark(&call, Event::Told);
        call.token.cancel();
    }

    fn run(&self, call: &Call) {
        self.mark(call, Event::Started);
        let ended = self.work(call);
        match ended {
            // A cancelled call is not answered (MCP-C06).
            Ended::Stopped => self.mark(call, Event::Stopped { by: By::Cancel }),
            Ended::Finished => match call.tool {
                Tool::Dies => {
                    self.mark(call, Event::Exits { code: Tool::EXIT_CODE });
                    std::process::exit(Tool::EXIT_CODE);
                }
                Tool::Crosses => self.finish_in_halves(call),
                Tool::Quick | Tool::Obeys | Tool::Ignores | Tool::Sleepy => self.finish(call),
            },
        }
        self.calls().remove(&call.id.to_string());
    }

    /// Works to the last step, or until the token fires if the tool obeys it.
    fn work(&self, call: &Call) -> Ended {
        let start = Instant::now();
        for step in 1_u32.. {
            let due = start + STEP * step;
            if call.tool.obeys() {
                if call.token.fires_before(due) {
                    return Ended::Stopped;
                }
            } else {
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            if Some(step) == call.tool.steps() {
                break;
            }
            self.report(call, step);
        }
        Ended::Finished
    }

    fn report(&self, call: &Call, step: u32) {
        let (Some(token), Some(total)) = (&call.progress_token, call.tool.steps()) else { return };
        self.mark(call, Event::Progress { step });
        let params = json!({"progressToken": token, "progress": step, "total": total});
        self.write(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
    }

    /// Marks the end while it holds the output, so that what is requested after the mark is answered after this call.
    fn finish(&self, call: &Call) {
        let mut output = self.output();
        self.mark(call, Event::Finished);
        let _ = output.write_all(&line(&result(&call.id, &done(call.tool)))).and_then(|()| output.flush());
    }

    /// Writes half of the answer, and the rest once the cancel was read, so that the two always cross. Meanwhile nothing
    /// else can be written, as with any answer that fills the pipe.
    fn finish_in_halves(&self, call: &Call) {
        let answer = line(&result(&call.id, &done(call.tool)));
        let (first, second) = answer.split_at(answer.len() / 2);
        let mut output = self.output();
        self.mark(call, Event::Finished);
        let _ = output.write_all(first).and_then(|()| output.flush());
        self.mark(call, Event::Answering);
        call.token.fires_before(Instant::now() + CROSSING);
        let _ = output.write_all(second).and_then(|()| output.flush());
    }

    fn answer(&self, id: &Value, value: &Value) {
        self.write(&result(id, value));
    }

    fn refuse(&self, id: &Value, code: i32, message: &str) {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
    }

    /// Writes a message. Errors need no handling: a client that no longer reads ends stdin, which ends the server.
    fn write(&self, message: &Value) {
        let mut output = self.output();
        let _ = output.write_all(&line(message)).and_then(|()| output.flush());
    }

    fn mark(&self, call: &Call, event: Event) {
        let _ = self.marks.write(&Mark { at: Moment::now(), call: call.id.clone(), tool: call.tool, event });
    }

    fn output(&self) -> MutexGuard<'_, io::Stdout> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, Arc<Call>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn initialized() -> Value {
    json!({
        "protocolVersion": REVISION,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "rescind-sample-server", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn result(id: &Value, value: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": value})
}

fn done(tool: Tool) -> Value {
    json!({"content": [{"type": "text", "text": format!("{} is done", tool.name())}]})
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
