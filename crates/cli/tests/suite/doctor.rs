//! `rescind doctor` in a home of its own.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::wrap::Home;

const RESCIND: &str = env!("CARGO_BIN_EXE_rescind");

/// What `rescind doctor --json` prints in a folder of a home, and its exit code.
fn report(home: &Home, folder: &str) -> (Value, Option<i32>) {
    let done = home.command(&["doctor", "--json"]).current_dir(home.path().join(folder)).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    (serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {said}")), done.status.code())
}

/// The server of this name in the report.
fn server<'a>(report: &'a Value, name: &str) -> &'a Value {
    let servers = report["files"].as_array().unwrap().iter().flat_map(|file| file["servers"].as_array().unwrap());
    servers.into_iter().find(|server| server["name"] == name).unwrap_or_else(|| panic!("{name}: {report:#}"))
}

fn script(home: &Home, path: &str, text: &str) -> String {
    let path = home.put(Path::new(path), format!("#!/bin/sh\n{text}\n").as_bytes());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn attention(server: &Value) -> &str {
    server["attention"].as_str().unwrap_or_default()
}

/// Every file below a folder.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for one in fs::read_dir(folder).unwrap() {
        let path = one.unwrap().path();
        if path.is_dir() {
            files.extend(tree(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    files
}

#[test]
fn each_server_is_told_with_its_shim_and_what_is_wrong_with_it() {
    let home = Home::new();
    let old = script(&home, "old/rescind", "echo rescind 0.0.9");
    let silent = script(&home, "silent/rescind", "exec sleep 600");
    let plain = home.put(Path::new("plain/rescind"), b"").to_str().unwrap().to_owned();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let command = |words: &[&str]| json!({"command": words[0], "args": words[1..]});
    let servers = json!({"mcpServers": {
        "bare": command(&["npx", "-y", "a"]),
        "remote": {"url": "https://example.com/mcp"},
        "this": command(&[RESCIND, "run", "npx"]),
        "old": command(&[&old, "run", "npx"]),
        "silent": command(&[&silent, "run", "npx"]),
        "plain": command(&[&plain, "run", "npx"]),
        "gone": command(&["/nowhere/rescind", "run", "npx"]),
        "word": command(&["rescind", "run", "npx"]),
        "twice": command(&[RESCIND, "run", RESCIND, "run", "npx"]),
        "hand": command(&["npx", "-y", "rescind", "run", "npx"]),
    }});
    home.put(Path::new(".cursor/mcp.json"), servers.to_string().as_bytes());
    let (report, code) = report(&home, "");
    let state = |name: &str| server(&report, name)["state"].as_str().unwrap().to_owned();
    let program = |name: &str| server(&report, name)["program"]["state"].as_str().unwrap().to_owned();
    assert_eq!([state("bare"), state("remote")], ["not_wrapped", "not_wrapped"]);
    assert_eq!(server(&report, "remote")["why"], "is at a URL");
    assert_eq!((state("this"), program("this")), ("wrapped".into(), "this".into()));
    assert_eq!([program("old"), program("silent")], ["other_version", "no_answer"]);
    assert_eq!([program("plain"), program("gone"), program("word")], ["not_executable", "missing", "missing"]);
    assert!(attention(server(&report, "old")).contains("is version 0.0.9"), "{report:#}");
    assert!(attention(server(&report, "word")).contains("there is no rescind on your PATH"), "{report:#}");
    assert_eq!((&server(&report, "twice")["shims"], state("hand")), (&json!(2), "wrapped_by_hand".into()));
    assert!(attention(server(&report, "twice")).contains("has 2 shims"), "{report:#}");
    assert_eq!([attention(server(&report, "bare")), attention(server(&report, "hand"))], ["", ""]);
    assert_eq!((code, &report["unreadable"]), (Some(1), &json!(0)));
    // People are told the same.
    let done = home.run(&["doctor"]);
    let said = String::from_utf8(done.stdout).unwrap();
    for words in ["not wrapped bare ", "attention   gone ", "/nowhere/rescind is not there", "wants attention: "] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn all_is_well_where_nothing_wants_attention() {
    let home = Home::new();
    home.put(Path::new(".cursor/mcp.json"), br#"{"mcpServers": {"a": {"command": "npx"}}}"#);
    let (report, code) = report(&home, "");
    // Where these tests are run, the program itself may be in a folder of builds.
    let itself = usize::from(!report["program"]["temporary"].is_null());
    assert_eq!((&report["attention"], code), (&json!(itself), Some(i32::from(itself > 0))));
}

#[test]
fn what_cannot_be_read_is_told_and_nothing_is_changed() {
    let home = Home::new();
    home.put(Path::new(".cursor/mcp.json"), br#"{"mcpServers": {"a": {"command": "npx"}}}"#);
    home.put(Path::new(".kiro/settings/mcp.json"), b"{ \"mcpServers\": \n{ \"a\" } }");
    home.put(Path::new(".cursor/.mcp.json.rescind-new"), b"");
    let before = tree(home.path());
    let (report, code) = report(&home, "");
    assert_eq!((&report["unreadable"], code), (&json!(1), Some(2)));
    let files = report["files"].as_array().unwrap();
    let file = |client: &str| files.iter().find(|file| file["client"] == client).unwrap();
    assert!(file("kiro")["problem"].as_str().unwrap().contains("line 2"), "{report:#}");
    assert!(file("cursor")["leftover"].as_str().unwrap().ends_with(".mcp.json.rescind-new"), "{report:#}");
    home.run(&["doctor"]);
    assert_eq!(tree(home.path()), before);
}

#[test]
fn project_files_are_found_up_to_the_root_of_the_repository_and_their_programs_are_not_run() {
    let home = Home::new();
    let mark = home.path().join("mark");
    let alien = script(&home, "work/repository/bin/rescind", &format!("echo >{}", mark.display()));
    let servers = |name: &str| json!({"mcpServers": {name: {"command": alien, "args": ["run", "npx"]}}}).to_string();
    home.put(Path::new("work/.mcp.json"), servers("above").as_bytes());
    home.put(Path::new("work/repository/.mcp.json"), servers("root").as_bytes());
    home.put(Path::new("work/repository/deep/.cursor/mcp.json"), servers("here").as_bytes());
    fs::create_dir_all(home.path().join("work/repository/.git")).unwrap();
    let (report, _) = report(&home, "work/repository/deep");
    let files: Vec<&Value> = report["files"].as_array().unwrap().iter().collect();
    assert_eq!(
        files.iter().map(|file| file["client"].as_str().unwrap()).collect::<Vec<_>>(),
        ["cursor", "claude-code"]
    );
    assert!(files.iter().all(|file| file["shared"] == true), "{report:#}");
    assert_eq!(server(&report, "root")["program"]["state"], "not_asked");
    assert!(!mark.exists(), "a program of a project file was run");
    // Named by a file of the user's own, it is.
    home.put(Path::new(".cursor/mcp.json"), servers("own").as_bytes());
    self::report(&home, "");
    assert!(mark.exists());
}

#[test]
fn what_has_no_file_to_change_is_listed() {
    let home = Home::new();
    home.put(
        Path::new(".config/Claude/Claude Extensions/ant.dir.files/manifest.json"),
        br#"{"name": "files", "display_name": "Files", "server": {"type": "node"}}"#,
    );
    let plugin = home.path().join(".claude/plugins/cache/market/linter/1.0.0");
    home.put(&plugin.join(".claude-plugin/plugin.json"), br#"{"name": "linter"}"#);
    home.put(&plugin.join(".mcp.json"), br#"{"mcpServers": {"lint": {"command": "npx"}}}"#);
    home.put(Path::new(".claude/plugins/cache/market/words/1.0.0/.claude-plugin/plugin.json"), br#"{"name": "words"}"#);
    home.put(Path::new(".claude/settings.json"), br#"{"deniedMcpServers": [{"serverName": "x"}]}"#);
    let (report, _) = report(&home, "");
    let outside: Vec<_> = report["outside"].as_array().unwrap().iter().filter(|one| one["kind"] != "managed").collect();
    let names: Vec<_> =
        outside.iter().map(|one| (one["kind"].as_str().unwrap(), one["name"].as_str().unwrap())).collect();
    assert_eq!(names, [("extension", "Files"), ("plugin", "linter"), ("list", "deniedMcpServers")]);
    assert_eq!(outside[1]["servers"], json!(["lint"]));
}

#[test]
fn clients_that_give_up_without_a_cancel_are_named_with_what_to_set() {
    let home = Home::new();
    home.put(Path::new(".config/zed/settings.json"), br#"{"context_servers": {"a": {"command": "npx", "args": []}}}"#);
    let (report, _) = report(&home, "");
    let [zed] = &report["patience"].as_array().unwrap()[..] else { panic!("{report:#}") };
    assert_eq!((&zed["client"], &zed["on_timeout"]), (&json!("zed"), &json!("nothing")));
    let said = String::from_utf8(home.run(&["doctor"]).stdout).unwrap();
    assert!(said.contains("then sends: nothing; stopped by its user, sends: cancel"), "{said}");
}

/// Since 0.171.0.
#[test]
fn codex_is_known_to_send_a_cancel_when_it_gives_up_and_when_it_is_stopped() {
    let home = Home::new();
    home.put(Path::new(".codex/config.toml"), b"[mcp_servers.a]\ncommand = \"npx\"\n");
    let (report, _) = report(&home, "");
    let [codex] = &report["patience"].as_array().unwrap()[..] else { panic!("{report:#}") };
    let told = (&codex["client"], &codex["on_timeout"], &codex["on_stop"]);
    assert_eq!(told, (&json!("codex"), &json!("cancel"), &json!("cancel")));
}

#[test]
fn a_journal_that_tells_of_a_file_that_is_gone_is_told_until_unwrap_forgets_it() {
    let home = Home::new();
    let path = home.put(Path::new(".cursor/mcp.json"), br#"{"mcpServers": {"a": {"command": "npx"}}}"#);
    home.says(&["wrap", "--all", "--yes"]);
    assert_eq!(report(&home, "").0["journal"]["gone"], json!([]));
    let real = fs::canonicalize(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(report(&home, "").0["journal"]["gone"], json!([real]));
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(report(&home, "").0["journal"]["gone"], json!([]));
    // A process that has it open is told, too.
    let lock = fs::File::open(home.path().join(".local/state/rescind/wrap.lock")).unwrap();
    assert_eq!(report(&home, "").0["journal"]["in_use"], false);
    lock.lock().unwrap();
    assert_eq!(report(&home, "").0["journal"]["in_use"], true);
}

#[test]
fn a_program_behind_a_link_is_this_one() {
    let home = Home::new();
    let link = home.put(Path::new("bin/keep"), b"").with_file_name("rescind");
    symlink(RESCIND, &link).unwrap();
    let servers = json!({"mcpServers": {"a": {"command": link, "args": ["run", "npx"]}}});
    home.put(Path::new(".cursor/mcp.json"), servers.to_string().as_bytes());
    assert_eq!(server(&report(&home, "").0, "a")["program"]["state"], "this");
}

/// As in `rescind doctor | true`.
#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let home = Home::new();
    home.put(Path::new(".cursor/mcp.json"), br#"{"mcpServers": {"a": {"command": "npx"}}}"#);
    for words in [&["doctor"][..], &["doctor", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = home.command(words).stdout(writer).output().unwrap();
        assert_eq!(String::from_utf8(done.stderr).unwrap(), "", "{words:?}");
        assert_eq!(done.status.code(), home.run(words).status.code(), "{words:?}");
    }
}

#[test]
fn the_last_three_lines_sum_up_with_what_to_do_first() {
    let bare = r#"{"mcpServers": {"a": {"command": "npx"}, "b": {"command": "npx"}, "c": {"url": "https://a/mcp"}}}"#;
    let gone = r#"{"mcpServers": {"a": {"command": "/nowhere/rescind", "args": ["run", "npx"]}}}"#;
    let broken = "{ \"mcpServers\": \n{ \"a\" } }";
    // A place that will stay, as far as can be told.
    let home = Home(tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let program = home.put(Path::new("bin/rescind"), b"");
    fs::remove_file(&program).unwrap();
    fs::hard_link(RESCIND, &program).unwrap();
    let wrapped = json!({"mcpServers": {"a": {"command": program, "args": ["run", "npx"]}}}).to_string();
    let cases: [(&str, &str, [&str; 3]); 6] = [
        (".unused", "", ["there is nothing to do", "all is well", "0 of 0 servers in 0 files have the shim"]),
        (
            ".kiro/settings/mcp.json",
            &wrapped,
            ["there is nothing to do", "all is well", "1 of 1 servers in 1 file have the shim"],
        ),
        (
            ".cursor/mcp.json",
            bare,
            [
                "next: `rescind wrap` puts the shim before 2 servers that have none",
                "all is well",
                "1 of 4 servers in 2 files have the shim",
            ],
        ),
        (
            ".codeium/windsurf/mcp_config.json",
            "\u{feff}{}",
            ["first: mend ", "wants attention: 1", "1 of 4 servers in 3 files have the shim"],
        ),
        (".factory/mcp.json", gone, ["first: a in ", "wants attention: 2", "2 of 5 servers in 4 files have the shim"]),
        (
            ".lmstudio/mcp.json",
            broken,
            ["first: mend ", "wants attention: 2, cannot be read: 1", "2 of 5 servers in 5 files have the shim"],
        ),
    ];
    for (file, text, expected) in cases {
        home.put(Path::new(file), text.as_bytes());
        let mut command = std::process::Command::new(&program);
        command.arg("doctor").env_clear().env("HOME", home.path()).current_dir(home.path());
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        let [.., empty, remedy, verdict, counts] = &lines[..] else { panic!("{said}") };
        assert_eq!((*empty, *verdict, *counts), ("", expected[1], expected[2]), "{said}");
        assert!(remedy.starts_with(expected[0]), "{said}");
    }
}
