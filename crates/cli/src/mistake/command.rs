//! A first word that is no command: a server's, a mistyped one, or one that other programs have.

use super::{HELP, Line, asks_for_help, is_url, nearest, shown};

/// Programs that start servers, although some are a slip away from a command of ours.
const LAUNCHERS: &[&str] = &[
    "npx",
    "npm",
    "node",
    "nodejs",
    "uvx",
    "uv",
    "python",
    "python3",
    "py",
    "pipx",
    "bun",
    "bunx",
    "deno",
    "tsx",
    "pnpm",
    "pnpx",
    "yarn",
    "docker",
    "podman",
    "nerdctl",
    "env",
    "sh",
    "bash",
    "zsh",
    "cmd",
    "powershell",
    "pwsh",
    "wsl",
    "java",
    "dotnet",
    "go",
    "cargo",
    "ruby",
    "php",
    "nix",
    "mise",
    "sudo",
    "codex",
    "claude",
    "gemini",
    "goose",
    "opencode",
    "kubectl",
    "ssh",
    "time",
    "timeout",
];

/// What programs that are alike call it, and what it is here.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["version", "ver"], "write: rescind --version"),
    (&["update", "upgrade", "self-update"], "update it with what has installed it: npm, uv, brew or cargo"),
    (
        &["list", "ls", "status", "sessions", "requests", "jobs", "show", "info"],
        "`rescind ps` lists what is in flight, and `rescind ps --sessions` all sessions",
    ),
    (&["top", "watch", "monitor", "follow", "tail"], "`rescind ps --watch` follows what is in flight"),
    (
        &["kill", "abort", "interrupt", "terminate", "halt"],
        "`rescind stop` stops what is in flight, `rescind cancel SESSION/ID` one request, `rescind end SESSION` a server",
    ),
    (&["quit", "exit", "close", "shutdown", "restart"], "`rescind end SESSION` ends the server of a session"),
    (
        &["log", "logs", "debug", "trace"],
        "`rescind run --log debug COMMAND` logs a session, and `rescind ps --history` lists what has ended",
    ),
    (&["recent", "history", "past"], "`rescind ps --history` lists what has ended"),
    (
        &["record", "recording", "recordings", "replay", "play", "view"],
        "`rescind run --record FOLDER/ COMMAND` records a session, and `rescind console FOLDER` shows it",
    ),
    (
        &["install", "setup", "init", "add", "enable", "config", "configure", "settings", "edit"],
        "`rescind wrap` puts it before the servers of your clients",
    ),
    (&["remove", "disable", "undo", "uninit"], "`rescind unwrap` takes it out of your clients' files"),
    (&["start", "exec", "launch", "proxy", "shim", "stdio"], "write: rescind run npx -y some-mcp-server"),
    (
        &["http", "listen", "gateway", "server", "expose"],
        "write: rescind serve --listen 127.0.0.1:8000 npx -y some-mcp-server",
    ),
    (&["ui", "gui", "web", "page", "open", "dashboard", "inspect", "inspector", "metrics"], "write: rescind console"),
    (&["check", "diagnose", "verify", "health", "test", "lint"], "write: rescind doctor"),
    (&["signin", "sign-in", "auth", "authenticate"], "write: rescind login https://example.com/mcp"),
    (&["signout", "sign-out", "deauth"], "write: rescind logout https://example.com/mcp"),
    (&["who", "user", "users", "account", "accounts"], "write: rescind whoami"),
    (
        &["clean", "cleanup", "prune", "gc", "orphans", "zombies"],
        "`rescind ps --orphans` lists what sessions have left, and `rescind reap` ends it",
    ),
    (&["example", "examples", "tour", "tutorial", "try"], "write: rescind demo"),
];

/// Says what to write in place of a line in which `word` is no command.
pub(super) fn unknown(line: Line<'_>, word: &str) -> String {
    let remedy = match line.words.first() {
        Some(first) if first != word => help_with(line, word),
        _ => remedy(line, word),
    };
    format!("rescind {word}: no such command; {remedy}")
}

/// `rescind help rnu`.
fn help_with(line: Line<'_>, word: &str) -> String {
    let meant = nearest::of(word, line.names());
    meant.map_or_else(|| HELP.to_owned(), |meant| format!("did you mean: rescind {meant} --help"))
}

fn remedy(line: Line<'_>, word: &str) -> String {
    let words = line.words;
    if asks_for_help(word) {
        return "write: rescind --help, or, for example, rescind run --help".to_owned();
    }
    if is_url(word) {
        let words = [&["run".to_owned(), "--url".to_owned()], words].concat();
        return format!("to reach that server: {}", shown(&words));
    }
    let lower = word.to_lowercase();
    if let Some((_, remedy)) = ELSEWHERE.iter().find(|(theirs, _)| theirs.contains(&&*lower)) {
        return (*remedy).to_owned();
    }
    let run = [&["run".to_owned()], words].concat();
    if LAUNCHERS.contains(&&*lower) || is_file(word) {
        return format!("to start that server: {}", shown(&run));
    }
    let Some(meant) = nearest::of(&lower, line.names()) else {
        return format!("{HELP}; to start a server: {}", shown(&run));
    };
    let corrected = [&[meant.to_owned()], words.get(1..).unwrap_or_default()].concat();
    if line.is_right(&corrected) {
        return format!("did you mean: {}", shown(&corrected));
    }
    format!("did you mean: rescind {meant}")
}

/// Whether it looks like a file, which can only be a server's.
fn is_file(word: &str) -> bool {
    const ENDS: [&str; 11] = [".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".exe", ".cmd", ".bat", ".jar", ".rb"];
    let lower = word.to_lowercase();
    word.contains(['/', '\\']) || ENDS.iter().any(|end| lower.ends_with(end))
}
