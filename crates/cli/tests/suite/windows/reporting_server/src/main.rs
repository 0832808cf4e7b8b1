//! A server for tests on Windows: each of its processes has a connection to the test, which closes when the process ends.
//!
//! Usage: `reporting_server PORT ROLE [WORD…]`. The role `server` reads requests; with the word `deaf` it hears neither the
//! end of its input nor CTRL+BREAK, with `crlf` its lines end as those of Windows do. It starts a `child`, and that a
//! `grandchild`; both wait. The role `client` starts the shim that its words name, sends it a call and waits. The role `shell`
//! runs the command that its words are, and reports its exit code; `exit` ends with the code that its word is.

use std::{
    env,
    io::{self, BufRead, Write},
    net::{Ipv4Addr, TcpStream},
    process::{Command, Stdio},
    thread,
};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [port, role, rest @ ..] = &words[..] else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut report = TcpStream::connect((Ipv4Addr::LOCALHOST, port.parse().map_err(io::Error::other)?))?;
    let is_deaf = rest.iter().any(|word| word == "deaf");
    if is_deaf {
        ignore_console_events();
    }
    writeln!(report, "{}", json!({"role": role, "words": rest}))?;
    let start = |role: &str| {
        let mut command = Command::new(env::current_exe()?);
        command.args([port, role]).args(rest).stdin(Stdio::null()).stdout(Stdio::null()).spawn()
    };
    match role.as_str() {
        "server" => {
            start("child")?;
            serve(&mut report, if rest.iter().any(|word| word == "crlf") { "\r\n" } else { "\n" })?;
            if is_deaf {
                wait();
            }
        }
        "client" => {
            let [shim, words @ ..] = rest else { return Err(io::ErrorKind::InvalidInput.into()) };
            let mut shim = Command::new(shim).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let mut input = shim.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
            for (id, method, params) in [(0, "initialize", json!({})), (1, "tools/call", json!({"name": "work"}))] {
                writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
            }
            wait();
        }
        "shell" => {
            let [program, words @ ..] = rest else { return Err(io::ErrorKind::InvalidInput.into()) };
            let status = Command::new(program).args(words).status()?;
            writeln!(report, "{}", json!({"code": status.code()}))?;
        }
        "exit" => std::process::exit(rest.first().and_then(|code| code.parse().ok()).unwrap_or(125)),
        "child" => {
            start("grandchild")?;
            wait();
        }
        _ => wait(),
    }
    Ok(())
}

fn wait() -> ! {
    loop {
        thread::park();
    }
}

/// Answers every request at once, but for calls of some tools:
///
/// - `work` is reported and never answered.
/// - `held` is answered once the end of the input was seen and reported, and the test has written a line.
/// - `mirror` answers with its arguments, and reports that it has.
/// - `exit` ends the process with the `code` of its arguments.
fn serve(report: &mut TcpStream, line_end: &str) -> io::Result<()> {
    let answer = |id: &Value, result: &Value| {
        let mut stdout = io::stdout().lock();
        write!(stdout, "{}{line_end}", json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        stdout.flush()
    };
    let mut lines = io::stdin().lock().lines();
    while let Some(line) = lines.next() {
        let message: Value = serde_json::from_str(&line?)?;
        let (method, id) = (message["method"].as_str().unwrap_or_default(), &message["id"]);
        let (tool, arguments) = (message["params"]["name"].as_str(), &message["params"]["arguments"]);
        match (method, tool) {
            ("notifications/cancelled", _) => {
                writeln!(report, "{}", json!({"cancelled": message["params"]["requestId"]}))?;
            }
            ("tools/call", Some("work")) => writeln!(report, "{}", json!({"works": id}))?,
            ("tools/call", Some("held")) => {
                writeln!(report, "{}", json!({"works": id}))?;
                while lines.next().is_some() {}
                writeln!(report, "{}", json!({"ended": "input"}))?;
                io::BufReader::new(&*report).read_line(&mut String::new())?;
                answer(id, &json!({}))?;
            }
            ("tools/call", Some("mirror")) => {
                answer(id, arguments)?;
                writeln!(report, "{}", json!({"mirrored": id}))?;
            }
            ("tools/call", Some("exit")) => {
                let code = arguments["code"].as_i64().and_then(|code| code.try_into().ok());
                std::process::exit(code.unwrap_or_default());
            }
            _ if id.is_null() => {}
            ("initialize", _) => {
                let info = json!({"name": "reporting", "version": "1"});
                let version = &message["params"]["protocolVersion"];
                let result = json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info});
                answer(id, &result)?;
            }
            _ => answer(id, &json!({}))?,
        }
    }
    Ok(())
}

/// From now on they do not end this process.
#[cfg(windows)]
fn ignore_console_events() {
    let (ready, is_ready) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut events = tokio::signal::windows::ctrl_break()?;
            let _ = ready.send(());
            while events.recv().await.is_some() {}
            io::Result::Ok(())
        })
    });
    let _ = is_ready.recv();
}

#[cfg(not(windows))]
fn ignore_console_events() {}
