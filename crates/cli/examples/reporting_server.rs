//! A server for tests on Windows: each of its processes has a connection to the test, which closes when the process ends.
//!
//! Usage: `reporting_server PORT ROLE [WORD…]`. The role `server` reads requests; with the word `deaf` it hears neither the
//! end of its input nor CTRL+BREAK. It starts a `child`, and that a `grandchild`; both wait.

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
            serve(&mut report)?;
            if is_deaf {
                wait();
            }
        }
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

/// Answers every request at once, but for those of the tool `work`, which it reports and never answers.
fn serve(report: &mut TcpStream) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let (method, id) = (message["method"].as_str().unwrap_or_default(), &message["id"]);
        match method {
            "notifications/cancelled" => writeln!(report, "{}", json!({"cancelled": message["params"]["requestId"]}))?,
            "tools/call" if message["params"]["name"] == "work" => writeln!(report, "{}", json!({"works": id}))?,
            _ if id.is_null() => {}
            "initialize" => {
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

fn answer(id: &Value, result: &Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
    stdout.flush()
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
