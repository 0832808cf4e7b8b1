//! `rescind wrap` and `unwrap` in a home of their own, with the files of every client in it.

mod advice;
mod clients;
mod flags;
mod forms;
mod names;
mod odd;
mod shared;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader, ErrorKind, Write},
    net::TcpListener,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rescind_wrap::client::{CLIENTS, Folders};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use tempfile::TempDir;

pub(crate) const RESCIND: &str = env!("CARGO_BIN_EXE_rescind");

/// A user's home.
pub(crate) struct Home(pub(crate) TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// One beside the program, which can be linked to there, and not in a folder of temporary files.
    pub(crate) fn beside_the_program() -> Self {
        Self(TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    /// One with a file of each client.
    fn with_all() -> (Self, BTreeMap<PathBuf, Vec<u8>>) {
        let home = Self::new();
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wrap/tests/corpus");
        let mut corpus: Vec<_> = fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
        corpus.sort();
        let mut files = BTreeMap::new();
        for client in CLIENTS {
            let of_client =
                |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{}.", client.id));
            let Some(sample) = corpus.iter().find(of_client) else { continue };
            let path = client.files[0].pattern(&home.folders(), |_| None);
            let bytes = fs::read(sample).unwrap();
            home.put(&path, &bytes);
            files.insert(path, bytes);
        }
        (home, files)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn folders(&self) -> Folders {
        let home = self.path().to_owned();
        Folders::of(|name| (name == "HOME").then(|| home.clone())).unwrap()
    }

    pub(crate) fn put(&self, path: &Path, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(RESCIND);
        command.args(words).env_clear().env("HOME", self.path()).current_dir(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs it, and returns what it says if it succeeds.
    pub(crate) fn says(&self, words: &[&str]) -> String {
        let done = self.run(words);
        let said = [done.stdout, done.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
        assert!(done.status.success(), "{words:?}: {:?}: {said}", done.status);
        said
    }

    /// Runs it, and returns its code and its complaint.
    pub(crate) fn complains(&self, words: &[&str]) -> (Option<i32>, String) {
        let done = self.run(words);
        assert!(!done.status.success(), "{words:?}");
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    }
}

pub(crate) const CURSOR: &str = ".cursor/mcp.json";
pub(crate) const PLAIN: &str =
    "{\"mcpServers\": {\"a\": {\"command\": \"npx\", \"args\": [\"-y\", \"a\"]}, \"b\": {\"command\": \"b\"}}}\n";

/// What tells the shim of `a` what it is called.
const NAMED_A: &str = "\"--name=a\", \"--client-name=cursor\"";

#[test]
fn every_server_of_every_client_is_wrapped_and_unwrapped() {
    let (home, files) = Home::with_all();
    assert!(files.len() >= 18, "{files:?}");
    let said = home.says(&["wrap", "--all", "--yes"]);
    assert!(said.contains(&format!("in {} files", files.len())), "{said}");
    for path in files.keys() {
        assert!(fs::read_to_string(path).unwrap().contains(RESCIND), "{}", path.display());
    }
    let said = home.says(&["wrap", "--all", "--yes"]);
    assert!(said.contains("nothing to wrap"), "{said}");
    let said = home.says(&["wrap", "--list"]);
    assert!(said.contains("Claude Desktop") && said.contains("has a shim"), "{said}");
    home.says(&["unwrap", "--all", "--yes"]);
    for (path, before) in &files {
        assert!(fs::read(path).unwrap() == *before, "{}", path.display());
    }
    let said = home.says(&["unwrap", "--all", "--yes"]);
    assert!(said.contains("nothing to unwrap"), "{said}");
}

#[test]
fn only_what_is_named_is_wrapped_with_its_flags() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let other = home.put(Path::new(".codeium/windsurf/mcp_config.json"), PLAIN.as_bytes());
    home.says(&["wrap", "--client", "cursor", "--server", "a", "--yes", "--", "--timeout", "5m"]);
    let expected = PLAIN.replacen(
        "\"npx\", \"args\": [",
        &format!("\"{RESCIND}\", \"args\": [\"run\", {NAMED_A}, \"--timeout\", \"5m\", \"npx\", "),
        1,
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    assert_eq!(fs::read_to_string(&other).unwrap(), PLAIN);
    // The rest comes later, and goes earlier.
    home.says(&["wrap", "--client", "cursor", "--yes"]);
    home.says(&["unwrap", "--server", "b", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), PLAIN);
}

#[test]
fn looking_changes_nothing_and_nobody_is_asked_without_a_terminal() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let said = home.says(&["wrap", "--dry-run"]);
    assert!(said.contains("wrap    a") && said.contains("npx -y a"), "{said}");
    home.says(&["wrap", "--list"]);
    let (code, said) = home.complains(&["wrap", "--all"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("cannot ask without a terminal"), "{said}");
    let (code, said) = home.complains(&["wrap", "--yes"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("without a question"), "{said}");
    let (code, said) = home.complains(&["wrap", "--server", "c", "--yes"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no file that was looked into has a server of this name"), "{said}");
    let (code, said) = home.complains(&["wrap", "--all", "--yes", "--", "--no-such-flag"]);
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(fs::read_to_string(path).unwrap(), PLAIN);
}

/// As `setfacl -m u:12345:r` has it: the owner may write, this user, the group and others may read.
#[rustfmt::skip]
const ACCESS: [u8; 44] = [
    2, 0, 0, 0,
    1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,
    2, 0, 4, 0, 0x39, 0x30, 0, 0,
    4, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,
    16, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,
    32, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,
];

#[test]
fn attributes_and_access_lists_of_a_file_stay() {
    // The file system of temporary files may have no attributes.
    let home = Home::beside_the_program();
    let path = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let given = [("user.note", &b"mine"[..]), ("system.posix_acl_access", &ACCESS)];
    for (name, value) in given {
        if let Err(error) = setxattr(&path, name, value, XattrFlags::empty()) {
            let _ = writeln!(io::stderr(), "skipped: attributes: {name}: {error}");
            return;
        }
    }
    let has = || {
        given.map(|(name, _)| {
            let mut value = [0; 64];
            let length = getxattr(&path, name, &mut value).unwrap();
            value[..length].to_vec()
        })
    };
    let before = has();
    for command in ["wrap", "unwrap"] {
        home.says(&[command, "--all", "--yes"]);
        assert_eq!(has(), before, "{command}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), PLAIN);
}

#[test]
fn a_file_that_others_may_share_is_left_alone_unless_it_is_named() {
    let home = Home::new();
    let shared = home.put(Path::new(".mcp.json"), PLAIN.as_bytes());
    let said = home.says(&["wrap", "--list"]);
    assert!(
        said.contains(".mcp.json\n  a file of a project") && said.contains("no file of: claude-desktop, claude-code,"),
        "{said}"
    );
    let said = home.says(&["wrap", "--all", "--yes"]);
    assert!(said.contains(".mcp.json is left alone, since others may share it"), "{said}");
    assert_eq!(fs::read_to_string(&shared).unwrap(), PLAIN);
    home.says(&["wrap", "--file", ".mcp.json", "--yes"]);
    let now = fs::read_to_string(&shared).unwrap();
    let named = "\"--name=a\", \"--client-name=claude-code\"";
    assert!(
        now.contains(&format!("\"command\": \"rescind\", \"args\": [\"run\", {named}, \"npx\", \"-y\", \"a\"]")),
        "{now}"
    );
    home.says(&["unwrap", "--file", ".mcp.json", "--yes"]);
    assert_eq!(fs::read_to_string(&shared).unwrap(), PLAIN);
}

#[test]
fn links_and_modes_stay() {
    let home = Home::new();
    let real = home.put(Path::new("dotfiles/cursor.json"), PLAIN.as_bytes());
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir(home.path().join(".cursor")).unwrap();
    let link = home.path().join(CURSOR);
    symlink("../dotfiles/cursor.json", &link).unwrap();
    home.says(&["wrap", "--all", "--yes"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o7777, 0o640);
    assert!(fs::read_to_string(&real).unwrap().contains(RESCIND));
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&real).unwrap(), PLAIN);
    assert_eq!(fs::read_dir(real.parent().unwrap()).unwrap().count(), 1, "something was left beside it");
}

#[test]
fn what_cannot_be_changed_is_said_and_the_rest_is_done() {
    let home = Home::new();
    let fine = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let broken = home.put(Path::new(".kiro/settings/mcp.json"), b"{ \"mcpServers\": \n{ \"a\" } }");
    let read_only = home.put(Path::new(".factory/mcp.json"), PLAIN.as_bytes());
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o444)).unwrap();
    let linked = home.put(Path::new(".lmstudio/mcp.json"), PLAIN.as_bytes());
    fs::hard_link(&linked, home.path().join("other-name")).unwrap();
    let (code, said) = home.complains(&["wrap", "--all", "--yes"]);
    assert_eq!(code, Some(1), "{said}");
    for words in ["line 2: ", "it is read-only", "it has 2 hard links", "wrapped 2 servers in 1 file\n"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(fs::read_to_string(fine).unwrap().contains(RESCIND));
    for left in [&read_only, &linked] {
        assert_eq!(fs::read_to_string(left).unwrap(), PLAIN);
    }
    assert_eq!(fs::read(broken).unwrap(), b"{ \"mcpServers\": \n{ \"a\" } }");
}

#[test]
fn a_command_that_a_list_names_exactly_is_left_alone() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let lists = r#"{"deniedMcpServers": [{"serverCommand": ["npx", "-y", "a"]}, {"serverName": "x"}]}"#;
    home.put(Path::new(".claude/settings.json"), lists.as_bytes());
    let said = home.says(&["wrap", "--all", "--yes"]);
    assert!(said.contains("by its exact command") && said.contains("wrapped 1 server in 1 file"), "{said}");
    assert!(fs::read_to_string(path).unwrap().contains("\"command\": \"npx\", \"args\": [\"-y\", \"a\"]"));
}

#[test]
fn a_file_that_was_changed_since_loses_only_our_words() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    home.says(&["wrap", "--all", "--yes"]);
    let now = fs::read_to_string(&path).unwrap();
    // Its client has written it anew, in a way of its own.
    let anew: serde_json::Value = serde_json::from_str(&now).unwrap();
    let mut anew = anew;
    anew["mcpServers"]["b"]["args"].as_array_mut().unwrap().push("--more".into());
    fs::write(&path, serde_json::to_string_pretty(&anew).unwrap()).unwrap();
    home.says(&["unwrap", "--all", "--yes"]);
    let after: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let expected = serde_json::json!({"mcpServers": {
        "a": {"command": "npx", "args": ["-y", "a"]},
        "b": {"command": "b", "args": ["--more"]},
    }});
    assert_eq!(after, expected);
}

const URLS: &str = r#"{"mcpServers": {
  "api": { "type": "http", "url": "URL", "headers": { "Authorization": "Bearer s3cret" } },
  "far": { "url": "https://mcp.example.com/mcp" },
  "b": { "command": "b" }
}}
"#;

#[test]
fn a_server_at_a_url_is_left_alone_unless_urls_are_asked_for() {
    let home = Home::new();
    let text = URLS.replace("URL", "https://api.example.com/mcp");
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    let said = home.says(&["wrap", "--all", "--yes"]);
    assert!(said.contains("is at a URL; --urls wraps it") && said.contains("wrapped 1 server in 1 file"), "{said}");
    let said = home.says(&["wrap", "--all", "--yes", "--urls"]);
    assert!(said.contains("may need a sign-in") && said.contains("wrapped 1 server in 1 file"), "{said}");
    let said = home.says(&["wrap", "--all", "--yes", "--urls"]);
    assert!(said.contains("nothing to wrap"), "{said}");
    let said = home.says(&["wrap", "--all", "--yes", "--urls", "--force"]);
    assert!(said.contains("wrapped 1 server in 1 file"), "{said}");
    let now: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let expected = serde_json::json!({
        "type": "stdio",
        "command": RESCIND,
        "args": ["run", "--name=api", "--client-name=cursor",
            "--header-env", "Authorization=RESCIND_HEADER_AUTHORIZATION", "--url", "https://api.example.com/mcp"],
        "env": {"RESCIND_HEADER_AUTHORIZATION": "Bearer s3cret"},
    });
    assert_eq!(now["mcpServers"]["api"], expected);
    // The journal is its owner's, and has no secret.
    let journal = home.path().join(".local/state/rescind/wrapped.json");
    assert_eq!(fs::metadata(&journal).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = fs::read_to_string(&journal).unwrap();
    assert!(kept.contains("far") && !kept.contains("s3cret") && !kept.contains("example.com"), "{kept}");
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_url_comes_back_byte_for_byte_where_the_file_was_changed_elsewhere() {
    let home = Home::new();
    let text = URLS.replace("URL", "https://api.example.com/mcp");
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    home.says(&["wrap", "--all", "--yes", "--urls", "--force"]);
    let more = |text: &str| text.replacen("{\n", "{\n  \"new\": { \"command\": \"c\", \"args\": [] },\n", 1);
    fs::write(&path, more(&fs::read_to_string(&path).unwrap())).unwrap();
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), more(&text));
    // Without the journal nothing is guessed.
    home.says(&["wrap", "--all", "--yes", "--urls"]);
    fs::remove_file(home.path().join(".local/state/rescind/wrapped.json")).unwrap();
    let wrapped = fs::read_to_string(&path).unwrap();
    let (code, said) = home.complains(&["unwrap", "--server", "api", "--yes"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the journal does not tell how it was before"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), wrapped);
}

#[test]
fn lists_that_name_urls_keep_urls_as_they_are() {
    let home = Home::new();
    let text = URLS.replace("URL", "https://api.example.com/mcp");
    let path = home.put(Path::new(".claude.json"), text.as_bytes());
    home.put(Path::new(".claude/settings.json"), br#"{"allowedMcpServers": [{"serverUrl": "https://*"}]}"#);
    let said = home.says(&["wrap", "--all", "--yes", "--urls", "--force"]);
    assert!(said.contains("allowed or denied by its URL"), "{said}");
    assert_eq!(fs::read_to_string(path).unwrap().matches("--url").count(), 0);
}

/// The command that stands in for a URL sends the header to that URL.
#[test]
fn what_stands_in_for_a_url_sends_its_headers_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let home = Home::new();
    let text = URLS.replace("URL", &format!("http://{}/mcp", listener.local_addr().unwrap()));
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    home.says(&["wrap", "--server", "api", "--yes", "--urls"]);
    let now: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let entry = &now["mcpServers"]["api"];
    let words: Vec<&str> = entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let mut command = home.command(&words);
    for (name, value) in entry["env"].as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    let runtime = home.path().join("run");
    let mut child = command.env("RESCIND_RUNTIME_DIR", runtime).stdin(Stdio::piped()).spawn().unwrap();
    let ping = b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\", \"params\": {}}\n";
    child.stdin.as_mut().unwrap().write_all(ping).unwrap();
    listener.set_nonblocking(true).unwrap();
    let connection = loop {
        match listener.accept() {
            Ok((connection, _)) => break connection,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        assert!(child.try_wait().unwrap().is_none(), "it has ended and called nobody");
        thread::sleep(Duration::from_millis(5));
    };
    connection.set_nonblocking(false).unwrap();
    let head: Vec<String> =
        BufReader::new(connection).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    assert!(head.iter().any(|line| line.eq_ignore_ascii_case("authorization: Bearer s3cret")), "{head:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_build_is_written_into_files_and_warned_of() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let said = home.says(&["wrap", "--all", "--yes"]);
    assert!(said.contains(&format!("{RESCIND} is in a folder of builds, and will not stay")), "{said}");
    assert!(fs::read_to_string(path).unwrap().contains(RESCIND));
}

/// A killed `wrap` leaves a whole file, the old one or the new one, and what it leaves beside the file does not stop the
/// next one. The sleep only chooses the moment of the kill: every moment must do.
#[test]
fn killed_at_any_moment_a_file_is_whole() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let begun = Instant::now();
    home.says(&["wrap", "--all", "--yes"]);
    let usual = begun.elapsed();
    let wrapped = fs::read(&path).unwrap();
    home.says(&["unwrap", "--all", "--yes"]);
    let (mut seed, mut seen) = (7_u64, BTreeMap::new());
    for round in 0..200 {
        let word = if fs::read(&path).unwrap() == PLAIN.as_bytes() { "wrap" } else { "unwrap" };
        let mut child = home.command(&[word, "--all", "--yes"]).spawn().unwrap();
        thread::sleep(fraction(usual, &mut seed));
        let _ = child.kill();
        let killed = child.wait().unwrap().code().is_none();
        let now = fs::read(&path).unwrap();
        let is_new = now == wrapped;
        assert!(is_new || now == PLAIN.as_bytes(), "round {round}: {}", String::from_utf8_lossy(&now));
        *seen.entry((killed, is_new)).or_insert(0) += 1;
    }
    assert!(seen.keys().any(|(killed, _)| *killed), "nothing was killed: {seen:?}");
    home.run(&["unwrap", "--all", "--yes"]);
    assert!(fs::read(&path).unwrap() == PLAIN.as_bytes());
    home.says(&["wrap", "--all", "--yes"]);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn of_two_at_once_both_do_their_part() {
    let many = |count: usize| {
        let servers: Vec<String> = (0..count).map(|one| format!("\"s{one}\": {{\"command\": \"c{one}\"}}")).collect();
        format!("{{\"mcpServers\": {{{}}}}}\n", servers.join(",\n"))
    };
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), many(40).as_bytes());
    let children: Vec<_> =
        (0..40).map(|one| home.command(&["wrap", "--server", &format!("s{one}"), "--yes"]).spawn().unwrap()).collect();
    for child in children {
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    assert_eq!(fs::read_to_string(&path).unwrap().matches(RESCIND).count(), 40);
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), many(40));
}

/// A client that keeps its settings in memory writes its file once while `wrap` or `unwrap` runs, at whatever moment: what it
/// wrote is never lost. The sleep only chooses the moment.
#[test]
fn what_a_client_writes_meanwhile_is_not_lost() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let begun = Instant::now();
    home.says(&["wrap", "--all", "--yes"]);
    let usual = begun.elapsed();
    let beside = path.with_extension("client");
    let mut settings: serde_json::Value = serde_json::from_str(PLAIN).unwrap();
    let mut seed = 5_u64;
    for round in 0..200 {
        let word = if round % 2 == 0 { "unwrap" } else { "wrap" };
        let child = home.command(&[word, "--all", "--yes"]).spawn().unwrap();
        settings["round"] = round.into();
        fs::write(&beside, serde_json::to_vec(&settings).unwrap()).unwrap();
        thread::sleep(fraction(usual, &mut seed));
        fs::rename(&beside, &path).unwrap();
        child.wait_with_output().unwrap();
        let now: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(now["round"], round, "{now}");
        // What it reads of it is what it knows from then on.
        settings = now;
    }
}

/// A part of a time, or a little more than all of it, as chance has it.
fn fraction(time: Duration, seed: &mut u64) -> Duration {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    time.mul_f64((*seed >> 40) as f64 / f64::from(1 << 24) * 1.2)
}
