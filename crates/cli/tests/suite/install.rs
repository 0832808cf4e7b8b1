//! A program that is started from a cache, as `npx` and `uvx` start it: where it stays, how it is updated, how a shim whose
//! program has moved is repaired, and what `rescind uninstall` leaves.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    shim::terminal::Terminal,
    wrap::{CURSOR, Home, PLAIN, RESCIND},
};

const NPX: &str = ".npm/_npx/5f7a/node_modules/@rescind/linux-x64/bin/rescind";
const UVX: &str = ".cache/uv/archive-v0/x9-a/bin/rescind";
/// The words that name the first server of a file of Cursor.
const NAMES: &str = "\"--name=a\", \"--client-name=cursor\"";
const COPY: &str = ".local/share/rescind/bin/rescind";

/// Puts the program at this path of a home. By a link, since one that is being written cannot be started.
fn put_program(home: &Home, path: &str) -> PathBuf {
    let path = home.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::hard_link(RESCIND, &path).unwrap();
    path
}

fn put_script(home: &Home, path: &str, text: &str) -> PathBuf {
    let path = home.put(Path::new(path), format!("#!/bin/sh\n{text}\n").as_bytes());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Runs a program there, and returns its exit code and all that it prints.
fn run(home: &Home, program: &Path, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(program);
    command.args(words).env_clear().env("HOME", home.path()).current_dir(home.path()).stdin(Stdio::null());
    let done = command.output().unwrap();
    let said = [done.stdout, done.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
    (done.status.code().unwrap_or(-1), said)
}

fn succeeds(home: &Home, program: &Path, words: &[&str]) -> String {
    let (code, said) = run(home, program, words);
    assert_eq!(code, 0, "{words:?}: {said}");
    said
}

/// Every file and folder below a folder: the bytes and the mode of each file.
fn everything(folder: &Path) -> BTreeMap<PathBuf, Option<(Vec<u8>, u32)>> {
    let mut all = BTreeMap::new();
    for one in fs::read_dir(folder).unwrap() {
        let path = one.unwrap().path();
        if path.is_dir() {
            all.extend(everything(&path));
            all.insert(path, None);
        } else {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            all.insert(path.clone(), Some((fs::read(&path).unwrap(), mode)));
        }
    }
    all
}

fn is_program(path: &Path) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes == fs::read(RESCIND).unwrap())
}

/// The command of the first server of a file, as its client would start it, with an `npx` that leaves a mark.
fn client_starts(home: &Home, file: &Path) -> (bool, String) {
    let mark = home.path().join("mark");
    put_script(home, "bin/npx", "echo started >\"$MARK\"");
    let file: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let entry = &file["mcpServers"]["a"];
    let words = entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let mut command = Command::new(entry["command"].as_str().unwrap());
    command.args(words).env_clear().env("HOME", home.path()).env("MARK", &mark).stdin(Stdio::null());
    command.env("PATH", format!("{}:/usr/bin:/bin", home.path().join("bin").display()));
    let said = match command.env("RESCIND_RUNTIME_DIR", home.path().join("run")).output() {
        Ok(done) => String::from_utf8(done.stderr).unwrap(),
        Err(error) => error.to_string(),
    };
    let is_started = mark.exists();
    for left in ["mark", "bin", "run"] {
        let left = home.path().join(left);
        let _ = fs::remove_dir_all(&left).or_else(|_| fs::remove_file(&left));
    }
    (is_started, said)
}

#[test]
fn a_program_from_a_cache_stays_when_the_cache_goes_and_uninstall_leaves_the_home_as_it_was() {
    for (cache, place, call) in [(NPX, "a cache of npx", "npx rescind"), (UVX, "a cache of uvx", "uvx rescind")] {
        let home = Home::beside_the_program();
        let file = home.put(Path::new(CURSOR), PLAIN.as_bytes());
        let codex = "[mcp_servers.c] # mine\ncommand = 'npx'\n";
        home.put(Path::new(".codex/config.toml"), codex.as_bytes());
        let before = everything(home.path());

        let program = put_program(&home, cache);
        let said = succeeds(&home, &program, &["wrap", "--all", "--yes"]);
        let copy = home.path().join(COPY);
        assert!(
            said.contains(&format!("rescind is in {place}: a copy that stays is put in {}", copy.display())),
            "{said}"
        );
        assert!(said.contains(&format!("which `{call} uninstall` removes")), "{said}");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(&format!("\"command\": \"{}\"", copy.display())), "{text}");
        assert!(!text.contains(program.to_str().unwrap()), "{text}");
        assert!(is_program(&copy));
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o7777, 0o755);

        let of_cache = home.path().join(cache.split('/').next().unwrap());
        fs::remove_dir_all(of_cache).unwrap();
        let (is_started, said) = client_starts(&home, &file);
        assert!(is_started, "{said}");

        let said = succeeds(&home, &copy, &["uninstall", "--yes"]);
        assert!(said.contains("unwrapped 3 servers in 2 files"), "{said}");
        assert_eq!(everything(home.path()), before);
    }
}

#[test]
fn a_home_keeps_the_folders_that_it_had_when_the_copy_goes() {
    let home = Home::beside_the_program();
    home.put(Path::new(CURSOR), PLAIN.as_bytes());
    home.put(Path::new(".local/share/other/file"), b"");
    let before = everything(home.path());
    let program = put_program(&home, NPX);
    succeeds(&home, &program, &["wrap", "--all", "--yes"]);
    let said = succeeds(&home, &program, &["uninstall", "--yes"]);
    assert!(said.contains("is in a cache of npx, and goes with that"), "{said}");
    fs::remove_dir_all(home.path().join(".npm")).unwrap();
    assert_eq!(everything(home.path()), before);
    let program = put_program(&home, NPX);
    let said = succeeds(&home, &program, &["uninstall", "--yes"]);
    assert!(said.contains("nothing of rescind is left in your home"), "{said}");
}

#[test]
fn a_newer_program_takes_the_place_of_the_copy_and_an_older_one_does_not() {
    let home = Home::beside_the_program();
    let program = put_program(&home, NPX);
    let copy = put_script(&home, COPY, "echo rescind 0.0.9");
    // Nothing is to be wrapped, and it is updated all the same: it is what the files name.
    let (code, said) = run(&home, &program, &["wrap", "--all"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("would update the copy of rescind, and cannot ask without a terminal"), "{said}");
    let said = succeeds(&home, &program, &["wrap", "--all", "--yes"]);
    assert!(said.contains(&format!("the copy in {} is rescind 0.0.9: this one", copy.display())), "{said}");
    assert!(is_program(&copy));
    // Equal: nothing is said or done.
    let kept = fs::metadata(&copy).unwrap().modified().unwrap();
    let said = succeeds(&home, &program, &["wrap", "--all", "--yes"]);
    assert_eq!(said, "nothing to wrap\n");
    assert_eq!(fs::metadata(&copy).unwrap().modified().unwrap(), kept);

    fs::remove_file(&copy).unwrap();
    put_script(&home, COPY, "echo rescind 99.0.0");
    let file = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let said = succeeds(&home, &program, &["wrap", "--all", "--yes"]);
    assert!(said.contains("is rescind 99.0.0, newer than this"), "{said}");
    assert!(!is_program(&copy));
    assert!(fs::read_to_string(&file).unwrap().contains(copy.to_str().unwrap()));

    // What prints no version is damaged.
    for damaged in ["exit 1", "exec sleep 0"] {
        fs::remove_file(&copy).unwrap();
        put_script(&home, COPY, damaged);
        let said = succeeds(&home, &program, &["wrap", "--all", "--yes"]);
        assert!(said.contains("is another build or damaged: this one takes its place"), "{said}");
        assert!(is_program(&copy));
    }
}

/// A session between the test and a server that answers each line.
struct Session {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Session {
    fn start(home: &Home, program: &Path) -> Self {
        let server = "while read -r line; do echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}'; done";
        let mut command = Command::new(program);
        command.args(["run", "/bin/sh", "-c", server]).env_clear().env("HOME", home.path());
        command.env("RESCIND_RUNTIME_DIR", home.path().join("run")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    fn is_answered(&mut self) {
        let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
        self.child.stdin.as_mut().unwrap().write_all(ping).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert!(answer.contains("\"result\""), "{answer}");
    }

    fn ends(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn sessions_go_on_while_the_copy_that_they_run_is_updated_and_uninstalled() {
    let home = Home::beside_the_program();
    home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let copy = home.path().join(COPY);
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    // Another build, by another process: one that this process is writing could not be started.
    let script = format!("cat '{RESCIND}' >'{0}' && echo >>'{0}' && chmod 755 '{0}'", copy.display());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let mut old = Session::start(&home, &copy);
    old.is_answered();
    let program = put_program(&home, UVX);
    succeeds(&home, &program, &["wrap", "--all", "--yes"]);
    assert!(is_program(&copy));
    old.is_answered();
    let mut new = Session::start(&home, &copy);
    new.is_answered();
    let said = succeeds(&home, &program, &["uninstall", "--yes"]);
    assert!(said.contains("sessions that run go on until their clients end them"), "{said}");
    assert!(!copy.exists());
    old.is_answered();
    new.is_answered();
    old.ends();
    new.ends();
}

#[test]
fn a_place_that_cannot_be_used_is_explained_and_no_file_is_changed() {
    let refused = |prepare: &dyn Fn(&Home), limit: &str, words: &[&str]| {
        let home = Home::beside_the_program();
        let file = home.put(Path::new(CURSOR), PLAIN.as_bytes());
        prepare(&home);
        let program = put_program(&home, NPX);
        let shell = format!("{limit} exec \"$0\" wrap --all --yes");
        let (code, said) = run(&home, Path::new("/bin/sh"), &["-c", &shell, program.to_str().unwrap()]);
        assert_eq!(code, 2, "{said}");
        for words in words {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), PLAIN);
        let folder = home.path().join(COPY).with_file_name("");
        let left = fs::read_dir(folder).map_or(0, |names| names.count());
        assert!(left <= 1, "something is left beside the copy");
    };
    let a_folder = |home: &Home| fs::create_dir_all(home.path().join(COPY)).unwrap();
    refused(&a_folder, "", &["is a folder", "no file of a client was changed", "hint: move it away"]);
    let a_file = |home: &Home| drop(home.put(Path::new(".local/share"), b""));
    refused(&a_file, "", &["no file of a client was changed", "a file is where its folder belongs"]);
    let nothing = |_: &Home| {};
    refused(&nothing, "ulimit -f 100;", &["no file of a client was changed", "hint: make room for it"]);
}

/// The sleep only chooses the moment of the kill: every moment must do.
#[test]
fn killed_at_any_moment_the_copy_is_whole_or_not_there() {
    let home = Home::beside_the_program();
    let file = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let program = put_program(&home, NPX);
    let copy = home.path().join(COPY);
    let begun = Instant::now();
    succeeds(&home, &program, &["wrap", "--all", "--yes"]);
    let usual = begun.elapsed();
    for round in 0..24_u32 {
        succeeds(&home, &program, &["uninstall", "--yes"]);
        assert!(!copy.exists());
        let mut command = Command::new(&program);
        command.args(["wrap", "--all", "--yes"]).env_clear().env("HOME", home.path()).stderr(Stdio::null());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(usual.mul_f64(f64::from(round) / 20.0).min(Duration::from_secs(20)));
        let _ = child.kill();
        child.wait().unwrap();
        let is_named = fs::read_to_string(&file).unwrap().contains(COPY);
        assert!(is_program(&copy) || (!copy.exists() && !is_named), "round {round}");
    }
    succeeds(&home, &program, &["wrap", "--all", "--yes"]);
    assert!(is_program(&copy));
    assert_eq!(fs::read_dir(copy.parent().unwrap()).unwrap().count(), 1, "what a killed one left is still there");
}

#[test]
fn a_shim_whose_program_has_moved_is_reported_and_repaired_and_unwrap_still_gives_the_same_bytes() {
    let home = Home::beside_the_program();
    let text = PLAIN.replace(
        "\"b\": {\"command\": \"b\"}",
        "\"u\": {\"url\": \"https://a.example/mcp\"}, \"b\": {\"command\": \"b\"}",
    );
    let file = home.put(Path::new(CURSOR), text.as_bytes());
    let old = put_program(&home, "old/rescind");
    let flags = ["--urls", "--force", "--", "--timeout", "5m"];
    succeeds(&home, &old, &[&["wrap", "--all", "--yes"][..], &flags].concat());
    fs::create_dir(home.path().join("new")).unwrap();
    let new = home.path().join("new/rescind");
    fs::rename(&old, &new).unwrap();

    let (code, said) = run(&home, &new, &["doctor"]);
    assert_eq!(code, 1, "{said}");
    let remedy = format!("`rescind wrap` repairs it: {} is not there", old.display());
    // Once for each, and once as what to do first.
    assert_eq!(said.matches(&remedy).count(), 4, "{said}");
    let said = succeeds(&home, &new, &["wrap", "--all", "--yes"]);
    assert!(said.contains(&format!("repair  a                    {} is not there", old.display())), "{said}");
    assert!(said.contains("repaired 3 servers in 1 file"), "{said}");
    let now = fs::read_to_string(&file).unwrap();
    assert_eq!(now.matches(new.to_str().unwrap()).count(), 3, "{now}");
    assert_eq!(now.matches("\"5m\"").count(), 3, "{now}");
    assert_eq!(run(&home, &new, &["doctor"]).0, 0);
    succeeds(&home, &new, &["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

/// Three servers: a shim whose program is gone and that has neither names nor the flags that are wanted, one that knows its
/// name and has them, and one without a shim.
fn servers_with_much_to_do(gone: &str) -> String {
    format!(
        r#"{{"mcpServers": {{
  "a": {{"command": "{gone}", "args": ["run", "npx", "-y", "a"]}}, // older
  "b": {{"command": "{gone}", "args": ["run", "--name=b", "--client-name=cursor", "--timeout", "4m", "b"]}},
  "c": {{"command": "c"}}
}}}}
"#
    )
}

#[test]
fn one_run_repairs_a_shim_and_changes_its_flags_or_tells_it_its_names_and_says_each() {
    let home = Home::beside_the_program();
    let gone = home.path().join("gone/rescind").display().to_string();
    let before = servers_with_much_to_do(&gone);
    let program = put_program(&home, "bin/rescind").display().to_string();
    let repaired = before.replace(&gone, &program).replacen("\"run\", ", &format!("\"run\", {NAMES}, "), 1);

    let file = home.put(Path::new(CURSOR), before.as_bytes());
    let said = succeeds(&home, Path::new(&program), &["wrap", "--server", "a", "--server", "b", "--yes"]);
    for line in
        ["  repair  a ", "  name    a ", "  repair  b ", "repaired 2 servers in 1 file\n", "named 1 shim in 1 file\n"]
    {
        assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
    }
    assert!(!said.contains("wrapped"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), repaired);
    let said = succeeds(&home, Path::new(&program), &["wrap", "--server", "a", "--server", "b", "--yes"]);
    assert!(said.contains("nothing to wrap"), "{said}");

    fs::write(&file, &before).unwrap();
    let flags = ["--", "--timeout", "4m"];
    let words = [&["wrap", "--server", "a", "--server", "b", "--yes"][..], &flags].concat();
    let said = succeeds(&home, Path::new(&program), &words);
    for line in ["repaired 2 servers in 1 file\n", "changed the flags of 1 server\n"] {
        assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
    }
    let with_flags = repaired.replacen(NAMES, &format!("{NAMES}, \"--timeout\", \"4m\""), 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), with_flags);
}

#[test]
fn the_question_names_all_that_is_to_be_done() {
    let home = Home::beside_the_program();
    let gone = home.path().join("gone/rescind").display().to_string();
    let file = home.put(Path::new(CURSOR), servers_with_much_to_do(&gone).as_bytes());
    let program = put_program(&home, "bin/rescind");
    let terminal = Terminal::open();
    let mut command = Command::new(&program);
    command.arg("wrap").env_clear().env("HOME", home.path()).current_dir(home.path());
    command.stdin(terminal.end()).stdout(terminal.end()).stderr(terminal.end());
    let mut child = command.spawn().unwrap();
    terminal.shows_until(
        "Put the shim before 1 server; Tell 1 shim what their entries are called; Repair the shim of 2 servers in 1 file? \
         [y/N] ",
    );
    terminal.type_in("y\n");
    terminal.shows_until("wrapped 1 server in 1 file");
    assert!(child.wait().unwrap().success());
    let now = fs::read_to_string(&file).unwrap();
    assert_eq!((now.contains(&gone), now.matches(program.to_str().unwrap()).count()), (false, 3), "{now}");
}

#[test]
fn uninstall_finds_a_named_file_by_its_link_also_if_a_client_has_put_a_file_in_its_place() {
    let home = Home::beside_the_program();
    let program = put_program(&home, "bin/rescind");
    let file = home.put(Path::new("dotfiles/servers.json"), PLAIN.as_bytes());
    let link = home.path().join("elsewhere.json");
    symlink(&file, &link).unwrap();
    succeeds(&home, &program, &["wrap", "--file", "elsewhere.json", "--yes"]);
    let said = succeeds(&home, &program, &["uninstall", "--dry-run"]);
    assert_eq!(said.matches("  unwrap  a ").count(), 1, "{said}");
    // Its client replaces the link, not the file.
    let wrapped = fs::read(&link).unwrap();
    fs::remove_file(&link).unwrap();
    fs::write(&link, wrapped).unwrap();
    let said = succeeds(&home, &program, &["uninstall", "--yes"]);
    assert!(said.contains("unwrapped 4 servers in 2 files"), "{said}");
    for file in [file, link] {
        assert_eq!(fs::read_to_string(&file).unwrap(), PLAIN);
    }
}

#[test]
fn a_shim_in_a_cache_is_repaired_by_a_program_that_stays_and_no_other() {
    let home = Home::beside_the_program();
    let cached = put_program(&home, NPX);
    let entry = |program: &Path| {
        PLAIN.replacen(
            "\"npx\", \"args\": [",
            &format!("\"{}\", \"args\": [\"run\", {NAMES}, \"npx\", ", program.display()),
            1,
        )
    };
    let file = home.put(Path::new(CURSOR), entry(&cached).as_bytes());
    // A build would not stay either.
    let said = home.says(&["wrap", "--server", "a", "--yes"]);
    assert!(said.contains("nothing to wrap"), "{said}");
    let (_, said) = run(&home, &cached, &["doctor"]);
    assert!(
        said.contains("`npx rescind wrap` repairs it: ") && said.contains("is in a cache of npx, and will not stay"),
        "{said}"
    );
    // A cache is no reason to install anything: `wrap` leaves a copy.
    assert!(said.contains("\nfirst: a in ") && !said.contains("install rescind"), "{said}");
    let said = succeeds(&home, &cached, &["wrap", "--server", "a", "--yes"]);
    assert!(said.contains("repaired 1 server in 1 file"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), entry(&home.path().join(COPY)));
    // A link into a cache is one, too.
    let link = home.path().join("link/rescind");
    fs::create_dir(link.parent().unwrap()).unwrap();
    symlink(&cached, &link).unwrap();
    fs::write(&file, entry(&link)).unwrap();
    let said = succeeds(&home, &cached, &["wrap", "--server", "a", "--yes"]);
    assert!(said.contains("repaired 1 server in 1 file"), "{said}");
}

#[test]
fn uninstall_keeps_the_program_if_a_shim_cannot_be_taken_away() {
    let home = Home::beside_the_program();
    let file = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let other = home.put(Path::new(".factory/mcp.json"), PLAIN.as_bytes());
    let program = put_program(&home, NPX);
    let copy = home.path().join(COPY);
    succeeds(&home, &program, &["wrap", "--all", "--yes"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let (code, said) = run(&home, &program, &["uninstall", "--yes"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("it is read-only") && said.contains("the program and what it keeps stay"), "{said}");
    assert!(is_program(&copy) && home.path().join(".local/state/rescind/wrapped.json").exists());
    assert_eq!(fs::read_to_string(&other).unwrap(), PLAIN);
    // So does a file that has our name in it and cannot be read.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let wrapped = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{wrapped}}}")).unwrap();
    let (code, said) = run(&home, &program, &["uninstall", "--yes"]);
    assert_eq!(code, 1, "{said}");
    assert!(is_program(&copy));
    fs::write(&file, wrapped).unwrap();
    succeeds(&home, &program, &["uninstall", "--yes"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), PLAIN);
    assert!(!copy.exists());
}

#[test]
fn uninstall_takes_every_shim_away_that_stands_before_one_server() {
    let home = Home::beside_the_program();
    let program = put_program(&home, "bin/rescind");
    let shims = format!("\"{0}\", \"args\": [\"run\", \"{0}\", \"run\", \"npx\", ", program.display());
    let file = home.put(Path::new(CURSOR), PLAIN.replacen("\"npx\", \"args\": [", &shims, 1).as_bytes());
    succeeds(&home, &program, &["uninstall", "--yes"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), PLAIN);
}

#[test]
fn uninstall_asks_first_and_removes_only_what_rescind_keeps() {
    let home = Home::beside_the_program();
    let file = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let program = put_program(&home, NPX);
    succeeds(&home, &program, &["wrap", "--all", "--yes"]);
    let secret = home.put(Path::new(".local/state/rescind/sign-in/a.json"), b"{}");
    let history = home.put(Path::new(".local/state/rescind/history/a.jsonl"), b"{}\n");
    let told = home.put(Path::new(".local/state/rescind/told"), b"1 a warning\n");
    let recording = home.put(Path::new(".local/state/rescind/session.jsonl"), b"{}\n");
    let before = everything(home.path());
    let (code, said) = run(&home, &program, &["uninstall"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("cannot ask without a terminal"), "{said}");
    let said = succeeds(&home, &program, &["uninstall", "--dry-run"]);
    for words in [
        "unwrap  a ",
        &format!("remove  {}", home.path().join(COPY).display()),
        "sign-ins at servers",
        "the history of",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(everything(home.path()), before);
    let said = succeeds(&home, &program, &["uninstall", "--yes"]);
    assert!(said.contains(".local/state/rescind stays, with what else is in it"), "{said}");
    assert!(!secret.exists() && !history.exists() && !told.exists() && recording.exists());
    assert_eq!(fs::read_to_string(file).unwrap(), PLAIN);
}

#[test]
fn uninstall_finds_a_file_that_was_named_and_is_in_no_list() {
    let home = Home::beside_the_program();
    let program = put_program(&home, "bin/rescind");
    let texts =
        ["work/.mcp.json", "elsewhere/servers.json"].map(|path| (home.put(Path::new(path), PLAIN.as_bytes()), path));
    let before = everything(home.path());
    for (_, path) in &texts {
        succeeds(&home, &program, &["wrap", "--file", path, "--yes"]);
    }
    // One of two servers is unwrapped: the file is remembered for the other.
    succeeds(&home, &program, &["unwrap", "--file", "work/.mcp.json", "--server", "a", "--yes"]);
    let said = succeeds(&home, &program, &["uninstall", "--yes"]);
    assert!(said.contains("unwrapped 3 servers in 2 files"), "{said}");
    assert!(said.contains(&format!("the program itself is still there: {}", program.display())), "{said}");
    assert_eq!(everything(home.path()), before);
}

#[test]
fn what_removes_the_program_follows_how_it_was_installed() {
    let home = Home::beside_the_program();
    for (path, words) in [
        (".cargo/bin/rescind", "cargo uninstall rescind-cli"),
        ("lib/node_modules/rescind/node_modules/@rescind/linux-x64/bin/rescind", "npm uninstall -g rescind"),
        (".local/share/uv/tools/rescind/bin/rescind", "uv tool uninstall rescind"),
        ("brew/Cellar/rescind/0.1.0/bin/rescind", "brew uninstall rescind"),
        (UVX, "uv cache clean rescind"),
    ] {
        let program = put_program(&home, path);
        let said = succeeds(&home, &program, &["uninstall", "--dry-run"]);
        assert_eq!(said, format!("to remove the program itself: {words}\n"));
    }
}

#[test]
fn the_copy_follows_the_folder_of_a_users_data() {
    let (home, data) = (Home::beside_the_program(), Home::beside_the_program());
    let file = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let program = put_program(&home, NPX);
    let run = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).env_clear().env("HOME", home.path()).env("XDG_DATA_HOME", data.path());
        let done = command.current_dir(home.path()).stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    run(&["wrap", "--all", "--yes"]);
    let copy = data.path().join("rescind/bin/rescind");
    assert!(is_program(&copy) && fs::read_to_string(&file).unwrap().contains(copy.to_str().unwrap()));
    run(&["uninstall", "--yes"]);
    assert_eq!(everything(data.path()), BTreeMap::new());
    assert_eq!(fs::read_to_string(&file).unwrap(), PLAIN);
}

#[test]
fn what_a_person_is_to_type_is_what_starts_the_program_again() {
    let home = Home::beside_the_program();
    for (path, hint) in [
        (NPX, "`npx rescind wrap --list` shows all"),
        (UVX, "`uvx rescind wrap --list` shows all"),
        ("opt/rescind", "`rescind wrap --list` shows all"),
    ] {
        let program = put_program(&home, path);
        let (code, said) = run(&home, &program, &["wrap", "--server", "none", "--yes"]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(hint), "{said}");
    }
}

#[test]
fn each_shell_is_given_a_script_without_hidden_commands() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = home.says(&["completions", shell]);
        assert!(script.contains("uninstall") && !script.contains("__exec"), "{shell}");
    }
    let (code, said) = home.complains(&["completions", "tcsh"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("bash, zsh, fish or powershell"), "{said}");
}
