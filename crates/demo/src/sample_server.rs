//! A slow tool server, to be cancelled: small, by hand, and truthful.
//!
//! It speaks MCP over stdin and stdout, with a thread for each call. Each
//! `Tool` treats a cancel in its own way. What the work does, the work itself
//! marks, beside the protocol: in MCP no frame says that a cancelled call
//! has stopped.

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

/// The protocol revision that it speaks.
pub(crate) const REVISION: &str = "2025-11-25";

/// Work is done in steps of this length; after each but the last it reports progress, if it was asked to
/// and knows its end.
const STEP: Duration = Duration::from_millis(100);

/// How long `crosses` keeps the second half of its answer for a cancel that does not come.
const CROSSING: Duration = Duration::from_secs(2);

const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// Serves until stdin ends; work that still runs then ends with the process. The tool `dies` ends the process itself.
///
/// # Errors
///
/// The environment names a file for marks that cannot be written.
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
    /// Calls in flight by the JSON text of their id, so that 5 and "5" are two.
    calls: Mutex<HashMap<String, Arc<Call>>>,
}

#[derive(Debug)]
struct Call {
    id: Value,
    tool: Tool,
    token: Token,
    progress_token: Option<Value>,
}

/// How work ended.
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
        // Before the work begins: a cancel in the same read finds its call.
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
            // Who cancelled a call wants no answer (MCP-C06).
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

    /// Step by step to the end, or until the token fires if the tool looks at it.
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

    /// Whoever has seen the mark and asks for something gets it behind the answer.
    fn finish(&self, call: &Call) {
        let mut output = self.output();
        self.mark(call, Event::Finished);
        let _ = output.write_all(&line(&result(&call.id, &done(call.tool)))).and_then(|()| output.flush());
    }

    /// One half, and the other when the cancel has been read: so the two have crossed, each time.
    /// Nothing else can be written meanwhile, as behind any answer that fills the pipe.
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

    /// A client that no longer reads will end stdin, and that ends the server.
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
