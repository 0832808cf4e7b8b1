//! Entries in many forms, files that are none, writers that share nothing, and limits.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::{CURSOR, Home, PLAIN, RESCIND};

/// The members of an entry, in the letters of a person.
const FORMS: [&str; 30] = [
    r#""command": "-x""#,
    r#""command": "-x", "args": []"#,
    r#""command": "-x", "args": ["-y", "--"]"#,
    r#""command": "--""#,
    r#""command": "--", "args": ["--", "a"]"#,
    r#""command": "--timeout", "args": ["5m", "server"]"#,
    r#""command": "--help""#,
    r#""command": "-", "args": [""]"#,
    r#""command": "npx""#,
    r#""command": "npx", "args": []"#,
    r#""command": "npx", "args": [ ]"#,
    r#""command": "npx", "args": null"#,
    r#""command": "npx", "args": ["--"]"#,
    r#""command": "npx", "args": ["--url", "https://a.example/mcp"]"#,
    r#""command": "npx", "args": ["", " ", "a b"]"#,
    r#""command": "", "args": ["a"]"#,
    r#""command": " ", "args": ["a"]"#,
    r#""command": "npx -y server""#,
    r#""command": "/opt/a b/server""#,
    r#""command": "./größe", "args": ["日本", "\u00e9", "\"", "\\"]"#,
    r#""args": ["-y", "a"], "command": "npx""#,
    r#""args": [], "command": "-x""#,
    r#""env": {"A": "1"}, "command": "npx", "cwd": "/tmp""#,
    r#""command": "-x", "env": {}"#,
    r#""command": ["-x", "a"]"#,
    r#""command": ["--"]"#,
    r#""command": ["npx"]"#,
    r#""command": {"path": "-x"}"#,
    r#""command": {"path": "npx", "args": ["a"], "env": null}"#,
    r#""command": "npx", "args": ["sh", "-c", "a; b"], "disabled": true"#,
];

/// Every form, each as an entry on one line and as one on many.
fn document() -> String {
    let forms = FORMS.iter().enumerate().flat_map(|(place, form)| {
        let lines = form.replace(", \"", ",\n      \"");
        [format!("    \"one{place}\": {{{form}}}"), format!("    \"many{place}\": {{\n      {lines}\n    }}")]
    });
    format!("{{\n  \"mcpServers\": {{\n{}\n  }}\n}}\n", forms.collect::<Vec<_>>().join(",\n"))
}

#[test]
fn every_form_of_an_entry_is_the_same_after_wrap_and_unwrap() {
    let home = Home::new();
    let text = document();
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    home.says(&["wrap", "--all", "--yes", "--", "--timeout", "5m"]);
    let said = home.says(&["wrap", "--all", "--yes"]);
    assert!(said.contains("nothing to wrap"), "{said}");
    let wrapped = fs::read_to_string(&path).unwrap();
    assert!(wrapped.matches(RESCIND).count() > FORMS.len() / 2, "{wrapped}");
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

/// A client that writes its file anew keeps what it understands, and chooses order and spaces itself.
#[test]
fn every_form_means_the_same_where_its_client_wrote_it_anew_in_between() {
    let home = Home::new();
    let text = document();
    let before: Value = serde_json::from_str(&text).unwrap();
    let write: [fn(&Value) -> String; 2] = [|anew| format!("{anew:#}"), ToString::to_string];
    for write in write {
        let path = home.put(Path::new(CURSOR), text.as_bytes());
        home.says(&["wrap", "--all", "--yes"]);
        let anew: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        fs::write(&path, write(&anew)).unwrap();
        home.says(&["unwrap", "--all", "--yes"]);
        let after: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(after, before);
    }
}

#[test]
fn an_empty_list_that_came_later_stays_whatever_was_there_before() {
    let home = Home::new();
    home.put(Path::new(CURSOR), br#"{"mcpServers": {"a": {"command": "b"}}}"#);
    home.says(&["wrap", "--all", "--yes"]);
    let text = r#"{"mcpServers": {"a": {"command": "b", "args": []}}}"#;
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    home.says(&["wrap", "--all", "--yes"]);
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(path).unwrap(), text);
}

#[test]
fn a_command_that_begins_with_a_hyphen_is_left_alone() {
    let home = Home::new();
    let text = r#"{"mcpServers": {
  "a": {"command": "-y", "args": ["npx", "server"]}, "b": {"command": ["--", "b"]}, "c": {"command": "c"}
}}"#;
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    let said = home.says(&["wrap", "--all", "--yes"]);
    assert!(said.contains("begins with `-`") && said.contains("wrapped 1 server in 1 file"), "{said}");
    let now: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        (&now["mcpServers"]["a"]["command"], &now["mcpServers"]["b"]["command"]),
        (&json!("-y"), &json!(["--", "b"]))
    );
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    // A shim that a person, or an older version, has put before one goes again.
    let before = json!({"mcpServers": {"a": {"command": "-x", "args": ["a"]}}});
    let by_hand = json!({"mcpServers": {"a": {"command": RESCIND, "args": ["run", "--", "-x", "a"]}}});
    fs::write(&path, by_hand.to_string()).unwrap();
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).unwrap(), before);
}

/// What the client starts after `wrap` is the program that it started before, with the same arguments.
#[test]
fn a_wrapped_command_starts_its_own_program_with_its_own_arguments() {
    let home = Home::new();
    for name in ["größe ß", "run", "a=b"] {
        let program = home.put(&Path::new("bin").join(name), b"#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$MARK\"\n");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let entry = json!({"mcpServers": {"a": {"command": name, "args": ["--", "-y", "a b"]}}});
        let path = home.put(Path::new(CURSOR), entry.to_string().as_bytes());
        home.says(&["wrap", "--all", "--yes"]);
        let now: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let words = now["mcpServers"]["a"]["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let mark = home.path().join("mark");
        let mut command = home.command(&words.collect::<Vec<_>>());
        command.env("PATH", format!("{}:/usr/bin:/bin", home.path().join("bin").display()));
        command.env("RESCIND_RUNTIME_DIR", home.path().join("run"));
        let done = command.env("MARK", &mark).output().unwrap();
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(fs::read_to_string(&mark).unwrap(), "--\n-y\na b\n", "{name}");
        fs::remove_file(mark).unwrap();
    }
}

/// Puts something in the place of a file that is not one.
fn put_special(home: &Home, path: &str, kind: FileType) -> PathBuf {
    let path = home.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if kind == FileType::Directory {
        fs::create_dir(&path).unwrap();
    } else {
        mknodat(CWD, &path, kind, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }
    path
}

/// A pipe would be waited for without end: these return.
#[test]
fn what_is_not_a_file_is_said_and_waited_for_by_nobody() {
    let read = [
        CURSOR,
        ".claude/settings.json",
        ".claude/plugins/installed_plugins.json",
        ".config/Claude/Claude Extensions/a/manifest.json",
        ".local/state/rescind/wrapped.json",
        ".local/state/rescind/wrap.lock",
    ];
    for path in read {
        for kind in [FileType::Fifo, FileType::Socket, FileType::Directory] {
            let home = Home::new();
            let other = home.put(Path::new(".kiro/settings/mcp.json"), PLAIN.as_bytes());
            let special = put_special(&home, path, kind);
            home.run(&["doctor"]);
            let listed = home.run(&["wrap", "--list"]);
            let said = String::from_utf8([listed.stdout, listed.stderr].concat()).unwrap();
            assert!(said.contains("Kiro"), "{path} {kind:?}: {said}");
            assert_eq!(said.contains("it is not a regular file"), path == CURSOR, "{path} {kind:?}: {said}");
            home.run(&["wrap", "--all", "--yes"]);
            home.run(&["wrap", "--file", path, "--yes"]);
            let now = fs::symlink_metadata(&special).unwrap().file_type();
            assert!(now.is_fifo() || now.is_socket() || now.is_dir(), "{path} {kind:?}");
            serde_json::from_slice::<Value>(&fs::read(other).unwrap()).unwrap();
        }
    }
}

/// A write beyond the limit fails as any other does, and the file is what it was.
#[test]
fn a_limit_on_the_size_of_files_leaves_the_file_whole() {
    let home = Home::new();
    let servers: Vec<String> =
        (0..400).map(|one| format!("\"s{one}\": {{\"command\": \"c\", \"args\": []}}")).collect();
    let text = format!("{{\"mcpServers\": {{{}}}}}\n", servers.join(",\n"));
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    for blocks in [0, 1, 8] {
        let script = format!("ulimit -f {blocks}; exec \"$0\" wrap --all --yes");
        let mut command = home.command(&[]);
        let environment: Vec<_> =
            command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
        command = std::process::Command::new("/bin/sh");
        command.args(["-c", &script, RESCIND]).env_clear().envs(environment).current_dir(home.path());
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{blocks}: {:?} {said}", done.status);
        assert!(said.contains("File too large"), "{blocks}: {said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "something was left beside it");
    }
}

/// Writers with journals in different folders, some of them killed, take turns all the same.
#[test]
fn writers_that_share_no_state_folder_never_tear_a_file() {
    let home = Home::new();
    let count = 400;
    let servers: Vec<String> = (0..count).map(|one| format!("\"s{one}\": {{\"command\": \"c{one}\"}}")).collect();
    let text = format!("{{\"mcpServers\": {{{}}}}}\n", servers.join(",\n"));
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    let state = |one: usize| home.path().join(format!("state{}", one % 4));
    for round in 0..30 {
        let word = if round % 2 == 0 { "wrap" } else { "unwrap" };
        let mut children: Vec<_> = (0..4)
            .map(|one| {
                let server = format!("s{}", (round * 4 + one) % count);
                let mut command = home.command(&[word, "--server", &server, "--yes"]);
                command.env("XDG_STATE_HOME", state(one)).spawn().unwrap()
            })
            .collect();
        children[round % 4].kill().unwrap();
        for (one, child) in children.into_iter().enumerate() {
            let done = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(one == round % 4 || done.status.success() || said.contains("nothing"), "{said}");
        }
        let now: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(now["mcpServers"].as_object().unwrap().len(), count);
    }
    home.says(&["wrap", "--all", "--yes"]);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "something was left beside it");
}

#[test]
fn a_recording_of_wrapped_servers_is_a_folder() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let refused = |choice: &[&str], record: &[&str]| {
        let (code, said) = home.complains(&[&["wrap"], choice, &["--yes", "--"], record].concat());
        assert_eq!(code, Some(2), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), PLAIN);
        said
    };
    // Also for one server: each window of a client starts its own.
    for choice in [&["--all"][..], &["--server", "a"]] {
        for record in
            [&["--record", "/r.jsonl"][..], &["--record=/r.jsonl"], &["--timeout", "5m", "--record", "/r.jsonl"]]
        {
            let said = refused(choice, record);
            assert!(said.contains("error: --record /r.jsonl: is one file"), "{said}");
            assert!(said.contains("hint: name a folder") && said.contains("--record /r/\n"), "{said}");
        }
    }
    let said = refused(&["--all"], &["--record", "here/"]);
    assert!(said.contains("is relative") && said.contains("hint: give the whole path: --record /"), "{said}");
    let said = refused(&["--all"], &["--record", "/no/such/folder/"]);
    assert!(said.contains("hint: first create its directory: mkdir -p /no/such\n"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let new = format!("{}/new/", folder.path().display());
    home.says(&["wrap", "--server", "a", "--yes", "--", "--record", &new]);
    home.says(&["wrap", "--server", "b", "--yes", "--", "--record", "/dev/null"]);
    assert!(fs::read_to_string(&path).unwrap().contains(&new));
    assert!(!Path::new(&new).exists(), "it is made by the first session");
}

#[test]
fn an_entry_that_vs_code_debugs_is_left_alone() {
    let home = Home::new();
    let text = r#"{"servers": {
  "a": {"command": "node", "args": ["a.js"], "dev": {"watch": "*.js", "debug": {"type": "node"}}},
  "b": {"command": "node", "args": ["b.js"], "dev": {"watch": "*.js"}}
}}"#;
    let path = home.put(Path::new(".config/Code/User/mcp.json"), text.as_bytes());
    let said = home.says(&["wrap", "--all", "--yes"]);
    assert!(said.contains("has `dev.debug`") && said.contains("wrapped 1 server in 1 file"), "{said}");
    let now: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(now["servers"]["a"]["command"], "node");
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(path).unwrap(), text);
}

/// The key that has the servers says what a file is; its name says nothing of that.
#[test]
fn the_content_of_a_named_file_says_where_its_servers_are() {
    let home = Home::new();
    let names = ["mcp.json", "y.json", "settings.json", "opencode.json", "acp.json", "deep/.vscode/mcp.json"];
    let keys = ["mcpServers", "servers", "context_servers", "amp.mcpServers", "agent_servers", "mcp"];
    for name in names {
        for key in keys {
            let text = json!({key: {"a": {"command": "npx", "args": ["a"]}, "b": {"command": "b"}}}).to_string();
            let path = home.put(Path::new(name), text.as_bytes());
            let said = home.says(&["wrap", "--file", name, "--yes"]);
            assert!(said.contains("wrapped 2 servers in 1 file"), "{name} {key}: {said}");
            home.says(&["unwrap", "--file", name, "--yes"]);
            assert_eq!(fs::read_to_string(path).unwrap(), text, "{name} {key}");
        }
    }
}
