//! Real clients start the servers of their own configuration files, after `rescind wrap` and through the shim; and read
//! what it has written. Without a network: every proxy leads nowhere.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rescind_wrap::{oddity::Form, strict::STRICT};
use serde_json::{Value, json};

use super::parts::{CLIENTS, PROGRAMS, clients, not_installed, peers, programs, text};
use super::play::{compares, read, say, skip};
use super::programs::{Bench, Ended};

const RESCIND: &str = env!("CARGO_BIN_EXE_rescind");

/// A client with a file of its own.
struct Client {
    /// Its name for `rescind wrap --client`.
    id: &'static str,
    /// Its file, from the user's home.
    file: &'static str,
    /// What is in the file, with this server's command.
    content: fn(&[String]) -> Value,
    /// Starts it: its program and the words before a subcommand.
    program: fn() -> Vec<String>,
    /// The subcommand that starts the servers; none does of a client without a word of it.
    list: &'static [&'static str],
    /// The subcommand that reads the file.
    reads: &'static [&'static str],
    /// What it says of a file that it does not take.
    complaint: &'static str,
    /// Whether that subcommand prints the commands that it has read.
    prints: bool,
    /// A file that it does not take.
    broken: &'static str,
    /// Whether it writes its file each time it runs.
    writes: bool,
}

fn members(server: &[String]) -> Value {
    json!({"mcpServers": {"marking": {"command": server[0], "args": server[1..]}}})
}

const GEMINI: Client = Client {
    id: "gemini",
    file: ".gemini/settings.json",
    content: members,
    program: || clients("@google/gemini-cli/bundle/gemini.js"),
    list: &["mcp", "list"],
    reads: &["extensions", "list"],
    complaint: "Invalid configuration",
    prints: false,
    broken: r#"{"mcpServers": {"a": {"command": "x", "argz": []}}}"#,
    writes: false,
};

const OPENCODE: Client = Client {
    id: "opencode",
    file: ".config/opencode/opencode.json",
    // Without the first member it would add that itself.
    content: |server| {
        json!({
            "$schema": "https://opencode.ai/config.json",
            "mcp": {"marking": {"type": "local", "command": server, "enabled": true}},
        })
    },
    program: || vec![text(&peers().join("node/clients/node_modules/opencode-linux-x64/bin/opencode"))],
    list: &["mcp", "list"],
    reads: &["debug", "config"],
    complaint: "Configuration is invalid",
    prints: true,
    broken: r#"{"mcp": {"a": {"type": "local", "command": "x"}}}"#,
    writes: false,
};

const MCPORTER: Client = Client {
    id: "mcporter",
    file: ".mcporter/mcporter.json",
    content: members,
    program: || programs("node_modules/mcporter/dist/cli.js"),
    list: &["list"],
    reads: &["config", "list", "--json"],
    complaint: "Invalid",
    prints: true,
    broken: r#"{"mcpServers": {"a": {"command": "x", "args": [5]}}}"#,
    writes: false,
};

const CLAUDE_CODE: Client = Client {
    id: "claude-code",
    file: ".claude.json",
    content: members,
    program: || vec![text(&peers().join("node/clients/node_modules/@anthropic-ai/claude-code-linux-x64/claude"))],
    list: &["mcp", "list"],
    reads: &["mcp", "list"],
    complaint: "invalid MCP server config",
    prints: false,
    broken: r#"{"mcpServers": {"a": {"command": 5}}}"#,
    writes: true,
};

const CODEX: Client = Client {
    id: "codex",
    file: ".codex/config.toml",
    content: |_| Value::Null,
    program: || {
        let package = "node/clients/node_modules/codex-linux-x64/vendor/x86_64-unknown-linux-musl";
        vec![text(&peers().join(package).join("codex/codex"))]
    },
    list: &[],
    reads: &["mcp", "list", "--json"],
    complaint: "Error:",
    prints: true,
    broken: "[mcp_servers.a]\ncommand = 5\n",
    writes: false,
};

const COPILOT: Client = Client {
    id: "copilot",
    file: ".copilot/mcp-config.json",
    content: members,
    program: || vec![text(&peers().join("node/clients/node_modules/@github/copilot-linux-x64/copilot"))],
    list: &[],
    reads: &["mcp", "list", "--json"],
    // It leaves out what it does not take, and says nothing.
    complaint: "\"mcpServers\": {}",
    prints: true,
    broken: r#"{"mcpServers": {"a": {"type": "local", "command": 5, "args": [], "tools": ["*"]}}}"#,
    writes: false,
};

const DROID: Client = Client {
    id: "droid",
    file: ".factory/mcp.json",
    content: members,
    program: || vec![text(&peers().join("node/clients/node_modules/@factory/cli-linux-x64/bin/droid"))],
    list: &["mcp", "list"],
    reads: &["mcp", "list"],
    complaint: "No MCP servers configured",
    prints: false,
    broken: r#"{"mcpServers": {"a": "#,
    writes: false,
};

impl Client {
    /// Starts it with what is in this home, and waits for its end.
    fn run(&self, bench: &Bench, words: &[&str]) -> Ended {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut command = bench.command(&[(self.program)(), words].concat());
        alone(&mut command);
        bench.run(self.id, command)
    }

    fn put(&self, bench: &Bench, bytes: &[u8]) -> PathBuf {
        let path = bench.file(self.file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Whether it is here; if not, it says so, and panics where all have to be.
    fn is_installed(&self) -> bool {
        let program = (self.program)();
        let missing = not_installed(&[CLIENTS, PROGRAMS], &[]).or_else(|| {
            program.iter().find(|word| !Path::new(word).exists()).map(|word| format!("{word} is not there"))
        });
        let Some(part) = missing else { return true };
        assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{}: {part}", self.id);
        skip(part);
        false
    }
}

/// Takes from a command what leads out of its home and off this machine.
fn alone(command: &mut Command) {
    for name in [
        "XDG_CONFIG_HOME",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "MCPORTER_CONFIG",
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_DIR",
        "GEMINI_CLI_HOME",
        "COPILOT_HOME",
    ] {
        command.env_remove(name);
    }
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        command.env(name, "http://127.0.0.1:9");
    }
    command.env("GEMINI_CLI_TRUST_WORKSPACE", "true").env("GEMINI_TELEMETRY_ENABLED", "false");
    command.env("OPENCODE_DISABLE_AUTOUPDATE", "1").env("OPENCODE_DISABLE_MODELS_FETCH", "1");
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_AUTOUPDATER", "1");
    command.env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1").env("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1");
}

fn rescind(bench: &Bench, words: &[&str]) {
    run_program(bench, RESCIND, words);
}

/// Runs the program of this path, which has to succeed.
fn run_program(bench: &Bench, program: &str, words: &[&str]) {
    let words: Vec<String> = [&[program], words].concat().into_iter().map(ToOwned::to_owned).collect();
    let mut command = bench.command(&words);
    alone(&mut command);
    let ended = bench.run("rescind", command);
    assert_eq!(ended.exit, "code 0", "{words:?}: {}", ended.stderr);
}

/// The marks of the server since the last call.
fn marks(bench: &Bench) -> Vec<Value> {
    let file = bench.file("marks");
    let marks = read(&file).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let _ = fs::remove_file(file);
    marks
}

fn starts_its_server_through_the_shim(client: &Client) {
    if !client.is_installed() {
        return;
    }
    let bench = Bench::new(&[]);
    let node = programs("").swap_remove(0);
    let server = [node, text(&peers().join("node/clients/server.mjs").canonicalize().unwrap()), "listed".into()];
    let before = serde_json::to_vec_pretty(&(client.content)(&server)).unwrap();
    let path = client.put(&bench, &before);
    let shim = fs::canonicalize(RESCIND).unwrap();
    let ways = if compares() { &[false, true][..] } else { &[true] };
    for &is_wrapped in ways {
        if is_wrapped {
            rescind(&bench, &["wrap", "--client", client.id, "--yes"]);
        }
        let ended = client.run(&bench, client.list);
        let story = || format!("{}: {}\n{}\n{}", client.id, ended.exit, ended.stdout, ended.stderr);
        assert_eq!(ended.exit, "code 0", "{}", story());
        let marks = marks(&bench);
        assert!(!marks.is_empty(), "no server was started: {}", story());
        for mark in &marks {
            let is_shim = Path::new(mark["parent"].as_str().unwrap()) == shim;
            assert_eq!(is_shim, is_wrapped, "{mark}: {}", story());
            assert!(!is_wrapped || mark["words"][1] == "run", "{mark}");
        }
        say(&format!("\n{} {}, started by {}\n", client.id, client.list.join(" "), marks[0]["parent"]));
    }
    rescind(&bench, &["unwrap", "--client", client.id, "--yes"]);
    let after = fs::read(path).unwrap();
    match client.writes {
        false => assert!(after == before),
        true => {
            let members = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap()["mcpServers"].clone();
            assert_eq!(members(&after), members(&before));
        }
    }
}

/// As `npx rescind wrap` leaves them, once npx has emptied its cache.
#[test]
fn three_clients_start_their_servers_by_the_copy_of_a_program_whose_cache_is_gone() {
    let all = [&GEMINI, &OPENCODE, &MCPORTER];
    if !all.iter().all(|client| client.is_installed()) {
        return;
    }
    let bench = Bench::new(&[]);
    let node = programs("").swap_remove(0);
    let server = [node, text(&peers().join("node/clients/server.mjs").canonicalize().unwrap()), "listed".into()];
    let before = all.map(|client| {
        let bytes = serde_json::to_vec_pretty(&(client.content)(&server)).unwrap();
        (client.put(&bench, &bytes), bytes)
    });
    let cache = bench.file(".npm");
    let program = cache.join("_npx/5f7a/node_modules/@rescind/linux-x64/bin/rescind");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    // By another process: what this one is writing could not be started.
    assert!(Command::new("cp").args([Path::new(RESCIND), &program]).status().unwrap().success());
    run_program(&bench, &text(&program), &["wrap", "--all", "--yes"]);
    fs::remove_dir_all(cache).unwrap();
    let copy = bench.file("data/rescind/bin/rescind").canonicalize().unwrap();
    for client in all {
        let ended = client.run(&bench, client.list);
        let story = || format!("{}: {}\n{}\n{}", client.id, ended.exit, ended.stdout, ended.stderr);
        assert_eq!(ended.exit, "code 0", "{}", story());
        let marks = marks(&bench);
        assert!(!marks.is_empty(), "no server was started: {}", story());
        assert!(marks.iter().all(|mark| Path::new(mark["parent"].as_str().unwrap()) == copy), "{}", story());
    }
    run_program(&bench, &text(&copy), &["uninstall", "--yes"]);
    assert!(!copy.exists());
    for (path, bytes) in before {
        assert!(fs::read(&path).unwrap() == bytes, "{}", path.display());
    }
}

/// The files of the corpus that are this client's, as they are after `wrap`, with servers at a URL and without.
fn takes_what_was_written(client: &Client) {
    if !client.is_installed() {
        return;
    }
    let wrapped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wrap/tests/wrapped");
    let mut files: Vec<PathBuf> = [wrapped.clone(), wrapped.join("urls")]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()))
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{}.", client.id)))
        .filter(|path| read(path).contains("/opt/rescind"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let shims = |text: &str| text.matches("\"/opt/rescind").count();
    let taken = |bytes: &[u8]| {
        let bench = Bench::new(&[]);
        client.put(&bench, bytes);
        let ended = client.run(&bench, client.reads);
        let said = [ended.stdout, ended.stderr].concat();
        (ended.exit == "code 0" && !said.contains(client.complaint), format!("{}\n{said}", ended.exit))
    };
    for file in &files {
        let (is_taken, said) = taken(&fs::read(file).unwrap());
        assert!(is_taken, "{}: {said}", file.display());
        let written = shims(&read(file));
        assert!(written > 0, "{}", file.display());
        assert!(!client.prints || shims(&said) == written, "{}: {said}", file.display());
    }
    // And it does look: what nobody can start is refused.
    let (is_taken, said) = taken(client.broken.as_bytes());
    assert!(!is_taken, "{}: {said}", client.id);
    say(&format!("\n{} takes {} files of the corpus\n", client.id, files.len()));
}

/// Whether a client takes a server from a file in each form: as the table of what is refused has it.
fn refuses_what_is_said_of_it(client: &Client) {
    if !client.is_installed() {
        return;
    }
    let plain = match client.id {
        "opencode" => "{\n\"mcp\": {\"marking\": {\"type\": \"local\", \"command\": [\"/bin/true\"]}}\n}\n",
        _ => "{\n\"mcpServers\": {\"marking\": {\"command\": \"/bin/true\", \"args\": []}}\n}\n",
    };
    let forms = [
        (None, plain.to_owned()),
        (Some(Form::ByteOrderMark), format!("\u{feff}{plain}")),
        (Some(Form::Comment), plain.replacen('\n', "\n// mine\n", 1)),
        (Some(Form::TrailingComma), plain.replace("}}\n}", "}},\n}")),
    ];
    let said_to_be_refused = STRICT.iter().find(|one| one.client == client.id).map_or(&[][..], |one| one.refuses);
    for (form, text) in forms {
        let bench = Bench::new(&[]);
        client.put(&bench, text.as_bytes());
        let ended = client.run(&bench, if client.prints { client.reads } else { client.list });
        let is_refused = ![&*ended.stdout, &ended.stderr].concat().contains("marking");
        let expected = form.is_some_and(|form| said_to_be_refused.contains(&form));
        assert_eq!(is_refused, expected, "{} {form:?}: {}\n{}\n{}", client.id, ended.exit, ended.stdout, ended.stderr);
    }
}

#[test]
fn claude_code_refuses_the_forms_that_are_said_to_be_refused_and_no_others() {
    refuses_what_is_said_of_it(&CLAUDE_CODE);
}

#[test]
fn gemini_refuses_the_forms_that_are_said_to_be_refused_and_no_others() {
    refuses_what_is_said_of_it(&GEMINI);
}

#[test]
fn opencode_refuses_the_forms_that_are_said_to_be_refused_and_no_others() {
    refuses_what_is_said_of_it(&OPENCODE);
}

#[test]
fn droid_refuses_the_forms_that_are_said_to_be_refused_and_no_others() {
    refuses_what_is_said_of_it(&DROID);
}

#[test]
fn copilot_refuses_the_forms_that_are_said_to_be_refused_and_no_others() {
    refuses_what_is_said_of_it(&COPILOT);
}

#[test]
fn mcporter_refuses_the_forms_that_are_said_to_be_refused_and_no_others() {
    refuses_what_is_said_of_it(&MCPORTER);
}

#[test]
fn gemini_starts_its_server_through_the_shim() {
    starts_its_server_through_the_shim(&GEMINI);
}

#[test]
fn opencode_starts_its_server_through_the_shim() {
    starts_its_server_through_the_shim(&OPENCODE);
}

#[test]
fn mcporter_starts_its_server_through_the_shim() {
    starts_its_server_through_the_shim(&MCPORTER);
}

#[test]
fn claude_code_starts_its_server_through_the_shim() {
    starts_its_server_through_the_shim(&CLAUDE_CODE);
}

#[test]
fn droid_starts_its_server_through_the_shim() {
    starts_its_server_through_the_shim(&DROID);
}

#[test]
fn droid_takes_what_was_written() {
    takes_what_was_written(&DROID);
}

#[test]
fn copilot_takes_what_was_written() {
    takes_what_was_written(&COPILOT);
}

#[test]
fn claude_code_takes_what_was_written() {
    takes_what_was_written(&CLAUDE_CODE);
}

#[test]
fn codex_takes_what_was_written() {
    takes_what_was_written(&CODEX);
}

#[test]
fn gemini_takes_what_was_written() {
    takes_what_was_written(&GEMINI);
}

#[test]
fn opencode_takes_what_was_written() {
    takes_what_was_written(&OPENCODE);
}

#[test]
fn mcporter_takes_what_was_written() {
    takes_what_was_written(&MCPORTER);
}
