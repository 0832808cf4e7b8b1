//! Mistakes that people make: each answer is one line with the remedy.

use std::{
    fs::{self, DirBuilder},
    io::{PipeWriter, pipe},
    net::TcpListener,
    os::unix::fs::DirBuilderExt,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::shim::PROGRAM;

/// What an answer consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// `error: …; REMEDY`.
    Line,
    /// `error: …`, and the line `hint: REMEDY`.
    Hint,
    /// One line that is no error.
    Note,
    /// `warning: …`, and the line `hint: REMEDY`.
    Warning,
}

/// What a person does, and what the answer must have.
#[derive(Debug)]
struct Mistake {
    words: Vec<String>,
    environment: Vec<(&'static str, String)>,
    answer: Answer,
    code: i32,
    remedy: String,
}

impl Mistake {
    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.environment.push((name, value.to_string()));
        self
    }
}

fn mistake(answer: Answer, code: i32, words: &str, remedy: &str) -> Mistake {
    // A word with spaces is written with underscores.
    let words = words.split(' ').filter(|word| !word.is_empty()).map(|word| word.replace('␣', " ")).collect();
    Mistake { words, environment: Vec::new(), answer, code, remedy: remedy.to_owned() }
}

/// One line, and the exit code of every command but `run`.
fn line(words: &str, remedy: &str) -> Mistake {
    mistake(Answer::Line, 2, words, remedy)
}

/// The same of `run`.
fn run(words: &str, remedy: &str) -> Mistake {
    mistake(Answer::Line, 125, words, remedy)
}

fn hint(code: i32, words: &str, remedy: &str) -> Mistake {
    mistake(Answer::Hint, code, words, remedy)
}

/// A home without anything, in which one session runs.
struct Home {
    folder: tempfile::TempDir,
    session: Child,
    /// A port that is in use.
    port: TcpListener,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in [("run", 0o700), ("empty", 0o700), ("open", 0o755), ("bin", 0o700)] {
            DirBuilder::new().mode(mode).create(folder.path().join(name)).unwrap();
        }
        let mut command = Command::new(PROGRAM);
        command.args(["run", "/bin/cat"]).env("RESCIND_RUNTIME_DIR", folder.path().join("run"));
        let session = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let home = Self { folder, session, port: TcpListener::bind("127.0.0.1:0").unwrap() };
        let is_listed = || home.output(&["ps".into(), "--sessions".into()], &[]).stdout.starts_with(b"ID");
        assert!((0..1000).any(|_| is_listed()), "no session");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[String], environment: &[(&'static str, String)]) -> Command {
        let mut command = Command::new(PROGRAM);
        // Without PATH no container engine is asked, and no server of this machine is found.
        command.args(words).env_clear().env("HOME", self.folder.path()).env("PATH", self.path("bin"));
        command.env("RESCIND_RUNTIME_DIR", self.path("run")).env("TERM", "xterm");
        for (name, value) in environment {
            match value.is_empty() {
                true => command.env_remove(name),
                false => command.env(name, value),
            };
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn output(&self, words: &[String], environment: &[(&'static str, String)]) -> Output {
        self.command(words, environment).output().unwrap()
    }

    /// What is wrong with the answer to a mistake.
    fn complaint(&self, mistake: &Mistake) -> Option<String> {
        let Mistake { words, environment, answer, code, remedy } = mistake;
        let done = self.output(words, environment);
        let said = String::from_utf8(done.stderr).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        let has_shape = match (answer, &*lines) {
            (Answer::Line, [line]) => line.starts_with("error: ") && line.contains(remedy),
            (Answer::Note, [line]) => !line.starts_with("error: ") && line.contains(remedy),
            (Answer::Hint, [error, hint]) => {
                error.starts_with("error: ") && hint.starts_with("hint: ") && hint.contains(remedy)
            }
            (Answer::Warning, [warning, hint]) => {
                warning.starts_with("warning: ") && hint.starts_with("hint: ") && hint.contains(remedy)
            }
            _ => false,
        };
        let is_right = has_shape && done.status.code() == Some(*code) && done.stdout.is_empty();
        (!is_right)
            .then(|| format!("{words:?} {environment:?}: {:?}, not {code} with {remedy:?}:\n{said}", done.status))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Its client goes away, and with it the server.
        drop(self.session.stdin.take());
        let _ = self.session.wait();
    }
}

fn mistakes(home: &Home) -> Vec<Mistake> {
    let live = home.session.id();
    let port = home.port.local_addr().unwrap().port();
    let folder = home.path("empty").display().to_string();
    let mut all = vec![
        // `run` was forgotten, or mistyped.
        line("npx -y some-server --flag", "rescind run npx -y some-server --flag"),
        line("rnu", "did you mean: rescind run"),
        line("rnu npx -y some-server", "did you mean: rescind run npx -y some-server"),
        line("python server.py", "rescind run python server.py"),
        line("./server", "rescind run ./server"),
        line("/opt/bin/server --stdio", "rescind run /opt/bin/server --stdio"),
        line("some-server sh -c exec␣it's", r"rescind run some-server sh -c 'exec it'\''s'"),
        line("https://example.com/mcp", "rescind run --url https://example.com/mcp"),
        line("deno server.ts", "rescind run deno server.ts"),
        line("bun server.ts", "rescind run bun server.ts"),
        line("start npx", "rescind run npx"),
        // Flags in the wrong place.
        line("--timeout 5m npx some-server", "rescind run --timeout 5m npx some-server"),
        line("--timeout 5m run npx some-server", "rescind run --timeout 5m npx some-server"),
        line("--url https://example.com/mcp", "rescind run --url https://example.com/mcp"),
        line("--listen 127.0.0.1:8000 npx some-server", "rescind serve --listen 127.0.0.1:8000 npx some-server"),
        line("--json ps", "rescind ps --json"),
        run("run --listen 127.0.0.1:8000 npx", "a flag of `rescind serve`"),
        line("ps --within 3s", "a flag of `rescind stop`"),
        // `run` without what it needs, or with too much.
        run("run", "rescind run npx -y some-mcp-server"),
        run("run --unlisted", "rescind run npx -y some-mcp-server"),
        run("run --url", "--url https://example.com/mcp"),
        hint(125, "run --url example.com/mcp", "https://example.com/mcp"),
        run("run --url https://example.com/mcp npx some-server", "leave one of them out"),
        hint(127, "run https://example.com/mcp", "rescind run --url URL"),
        hint(127, "run no-such-server", "PATH"),
        hint(127, "run npx␣-y␣some-server", "separate words"),
        hint(127, "run help", "rescind run --help"),
        hint(126, &format!("run {folder}"), "name a program in it"),
        // Mistyped flags.
        run("run --timout 5m npx", "did you mean '--timeout'?"),
        run("run -timeout 5m npx", "did you mean '--timeout'?"),
        run("run --max_message 1MiB npx", "did you mean '--max-message'?"),
        run("run --recrod a.jsonl npx", "did you mean '--record'?"),
        run("run --nonsense npx", "rescind run --help"),
        line("ps --sesions", "did you mean '--sessions'?"),
        line("--versoin", "rescind --version"),
        // Values.
        run("run --timeout 60 npx", "write 60s for seconds, 60m for minutes"),
        run("run --timeout tools/call=60 npx", "write 60s"),
        run("run --timeout", "--timeout 5m"),
        run("run --timeout=soon npx", "write 500ms, 10s, 2m or 1h"),
        run("run --timeout -5s npx", "must not be negative; write 500ms"),
        run("run --timeout 0s npx", "leave the flag out"),
        run("run --grace 5 npx", "write 5s"),
        run("run --finish ever npx", "or never"),
        run("run --max-message 3 npx", "from 256 bytes to 4GiB"),
        run("run --max-message 64Mb npx", "such as 512KiB, 64MiB or 1GiB"),
        run("run --max-in-flight many npx", "a whole number from 1 to"),
        run("run --limit 30 npx", "write N/DURATION"),
        run("run --limit 30/1 npx", "write 1s"),
        run("run --limit-errors x npx", "a whole number from 1 to"),
        run("run --on-stuck kil npx", "did you mean kill?"),
        run("run --log lots npx", "write error, warn, info, debug or trace"),
        run("run --protocol smtp npx", "use auto, mcp, acp"),
        run("run --protocol missing.json npx", "check the path"),
        run("run --record", "--record recordings/"),
        run("run --unlisted --unlisted npx", "give it once"),
        hint(125, "run --header X:␣y npx", "--url"),
        // `serve`.
        line("serve", "rescind serve --listen 127.0.0.1:8000 npx -y some-mcp-server"),
        line("serve --listen 127.0.0.1:8000", "rescind serve --listen 127.0.0.1:8000 npx"),
        line("serve npx some-server", "rescind serve --listen 127.0.0.1:8000 npx some-server"),
        line("serve 127.0.0.1:9 npx some-server", "rescind serve --listen 127.0.0.1:9 npx some-server"),
        line("serve --listen 8000 npx", "write 127.0.0.1:8000"),
        line("serve --listen localhost:8000 npx", "write 127.0.0.1:8000"),
        line("serve --listen example npx", "write it as 127.0.0.1:8000"),
        hint(2, &format!("serve --listen 127.0.0.1:{port} /bin/cat"), "choose another address or port"),
        // Requests and sessions that are not there, or not named.
        hint(2, "cancel", "rescind ps"),
        hint(1, "cancel 4711/1", "rescind ps --sessions"),
        hint(1, "cancel 17", "rescind ps"),
        hint(1, &format!("cancel {live}/99"), "rescind ps"),
        hint(2, &format!("cancel --session {live}"), "--all"),
        line("cancel /1", "write SESSION/ID"),
        line("cancel 1/1 --wait 5", "write 5s"),
        line("stop 4711", "rescind stop --session 4711"),
        line("stop 4711/2", "rescind cancel 4711/2"),
        hint(1, "stop --session 4711", "rescind ps --sessions"),
        hint(1, "stop --session ../x", "rescind ps --sessions"),
        line("stop --within 10", "write 10s"),
        line("stop --kill unknown", "rescind stop --kill=unknown"),
        line("stop --kill=all", "write working or unknown"),
        line("end", "rescind end 4711"),
        hint(2, "end 4711", "rescind ps --sessions"),
        hint(2, "end 4711/2", "rescind cancel"),
        hint(2, "end a␣b", "rescind ps --sessions"),
        hint(2, &format!("end {live}"), "--yes"),
        line("ps 4711", "rescind ps --session 4711"),
        hint(2, "ps --session 4711", "rescind ps --sessions"),
        line("ps --state runing", "did you mean running?"),
        line("ps --processes --watch", "leave one of them out"),
        hint(2, "reap 4711", "rescind ps --orphans"),
        hint(2, &format!("reap {live}"), &format!("rescind end {live}")),
        line("mcp --reach everything", "write own or all"),
        // The page.
        line("console --port 99999", "from 1 to 65535"),
        hint(2, &format!("console --no-open --port {port}"), "choose another port"),
        hint(2, "console missing.jsonl", "rescind run --record"),
        // Signing in.
        line("login", "rescind login https://example.com/mcp"),
        hint(2, "login example.com", "https://example.com/mcp"),
        line("logout", "rescind whoami"),
        hint(1, "whoami", "rescind login https://example.com/mcp"),
        hint(1, "whoami https://example.com/mcp", "rescind login https://example.com/mcp"),
        // Help and commands of other programs.
        line("help rnu", "rescind run --help"),
        line("/?", "rescind --help"),
        line("-?", "rescind --help"),
        line("ps help", "rescind ps --help"),
        line("stop /?", "rescind stop --help"),
        line("demo --verbose", "rescind demo --help"),
        line("unwrap everything", "rescind unwrap --server everything"),
        // Surroundings.
        mistake(Answer::Warning, 0, "run /bin/cat", "mkdir -p").with("RESCIND_RUNTIME_DIR", "absent/run"),
        hint(2, "ps", "chmod 700").with("RESCIND_RUNTIME_DIR", home.path("open").display()),
        hint(2, "end nobody", "rescind ps --sessions")
            .with("RESCIND_RUNTIME_DIR", "")
            .with("XDG_RUNTIME_DIR", "/absent"),
        hint(2, "wrap --list", "set it to your home directory").with("HOME", ""),
        hint(2, "whoami", "set it to your home directory").with("HOME", ""),
    ];
    for (word, remedy) in [
        ("version", "rescind --version"),
        ("update", "npm, uv, brew or cargo"),
        ("list", "rescind ps"),
        ("ls", "rescind ps"),
        ("status", "rescind ps"),
        ("kill", "rescind stop"),
        ("log", "rescind run --log"),
        ("logs", "rescind run --log"),
        ("install", "rescind wrap"),
        ("config", "rescind wrap"),
        ("restart", "rescind end SESSION"),
        ("dashboard", "rescind console"),
        ("proxy", "rescind run"),
    ] {
        all.push(line(word, remedy));
    }
    // Where there are no sessions.
    for (words, code) in [("ps", 0), ("stop", 0), ("cancel --all", 1)] {
        let empty = |remedy| mistake(Answer::Note, code, words, remedy).with("RESCIND_RUNTIME_DIR", &folder);
        all.push(empty("`rescind wrap`"));
        all.push(empty("those of alice are listed without sudo").with("SUDO_USER", "alice"));
    }
    all
}

#[test]
fn each_mistake_is_answered_on_one_line_with_the_remedy() {
    let home = Home::new();
    let all = mistakes(&home);
    assert!(all.len() >= 52, "{}", all.len());
    let home = &home;
    let complaints = thread::scope(|scope| {
        let of = |part: &[Mistake]| part.iter().filter_map(|one| home.complaint(one)).collect::<Vec<String>>();
        let parts: Vec<_> = all.chunks(all.len().div_ceil(8)).map(|part| scope.spawn(move || of(part))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Whoever has wrapped servers need not be told to do that.
#[test]
fn without_sessions_the_remedy_depends_on_what_is_wrapped() {
    let home = Home::new();
    let environment = [("RESCIND_RUNTIME_DIR", home.path("empty").display().to_string())];
    let said = || String::from_utf8(home.output(&["ps".into()], &environment).stderr).unwrap();
    assert!(
        said().contains(": wrap your clients' servers with `rescind wrap`, and restart the clients; "),
        "{}",
        said()
    );
    fs::create_dir(home.path(".cursor")).unwrap();
    let file = home.path(".cursor/mcp.json");
    fs::write(&file, r#"{"mcpServers": {"a": {"command": "rescind", "args": ["run", "npx"]}}}"#).unwrap();
    assert!(
        said().contains(": restart your clients, so that they start their servers through rescind; "),
        "{}",
        said()
    );
    fs::write(&file, "not JSON").unwrap();
    assert!(said().contains(": restart your clients, or wrap their servers with `rescind wrap`; "), "{}", said());
}

/// As before `| true` and `| head -1`.
#[test]
fn a_reader_that_goes_away_is_no_mistake_and_changes_no_exit_code() {
    let home = Home::new();
    let live = home.session.id();
    for words in [
        "--help",
        "--version",
        "help run",
        "run --help",
        "run /bin/cat",
        "serve --help",
        "ps",
        "ps --json",
        "ps --sessions",
        "ps --recent",
        "ps --processes",
        "ps --processes --json",
        "ps --orphans",
        "stop",
        "stop --json",
        "stop --dry-run",
        "cancel 1/1",
        "cancel --all",
        "end 1 --yes",
        "reap --dry-run",
        "reap --yes",
        "console --help",
        "mcp",
        "login",
        "logout https://example.com/mcp",
        "whoami",
        "whoami --json",
        "whoami https://example.com/mcp --json",
        "wrap --list",
        "wrap --dry-run --all",
        "unwrap --list",
        "unwrap --all --yes",
        "demo --help",
        &format!("ps --sessions --session {live}"),
    ] {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let read = home.output(&words, &[]);
        let unread = home.command(&words, &[]).stdout(closed()).stderr(Stdio::piped()).spawn().unwrap();
        let unread = unread.wait_with_output().unwrap();
        let said = String::from_utf8(unread.stderr).unwrap();
        assert_eq!(unread.status.code(), read.status.code(), "{words:?}: {said}");
        assert_eq!(said, String::from_utf8(read.stderr).unwrap(), "{words:?}");
    }
}

/// The end of a pipe whose reader has gone.
fn closed() -> PipeWriter {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer
}

/// A person who watches through `head` reads some of it.
#[test]
fn what_goes_on_ends_when_its_reader_goes_away() {
    let home = Home::new();
    let (reader, writer) = pipe().unwrap();
    let words: Vec<String> = ["ps", "--watch", "--json"].map(str::to_owned).to_vec();
    let mut watching = home.command(&words, &[]).stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(reader));
    lines.next().unwrap().unwrap();
    drop(lines);
    // Something happens that it would print.
    let session = Pid::from_child(&home.session);
    kill_process(session, Signal::TERM).unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(0));
}
