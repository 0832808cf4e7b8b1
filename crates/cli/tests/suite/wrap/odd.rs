//! Files that are odd as found in the field: what is wrong with one is shown before anything is asked, and a client that has
//! written its file anew finds nothing of `wrap` in it after `unwrap`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use serde_json::Value;

use super::{CURSOR, Home, PLAIN};
use crate::shim::terminal::Terminal;

const CLAUDE_CODE: &str = ".claude.json";
const WINDSURF: &str = ".codeium/windsurf/mcp_config.json";
const GEMINI: &str = ".gemini/settings.json";
const VS_CODE: &str = ".config/Code/User/mcp.json";

/// A file, and what `wrap` and `doctor` say of it; of some nothing.
const ODD: [(&str, &str, Option<&str>); 11] = [
    // It reads this one.
    (CLAUDE_CODE, "\u{feff}{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}", None),
    (
        CLAUDE_CODE,
        "{\n  // mine\n  \"mcpServers\": {\"a\": {\"command\": \"a\"}}\n}",
        Some("has a comment in line 2, which Claude Code refuses"),
    ),
    (
        CLAUDE_CODE,
        "{\"mcpServers\": {\n  \"a\": {\"command\": \"a\"},\n}}",
        Some("has a comma after the last member in line 2, which Claude Code refuses"),
    ),
    (CLAUDE_CODE, "", Some("has nothing in it, which Claude Code refuses")),
    (
        WINDSURF,
        "\u{feff}{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}",
        Some("has a byte order mark in line 1, which Windsurf refuses"),
    ),
    // What is not known of a client is not claimed.
    (WINDSURF, "{\n  // mine\n  \"mcpServers\": {\"a\": {\"command\": \"a\"}}\n}", None),
    (VS_CODE, "{\n  // mine\n  \"servers\": {\"a\": {\"command\": \"a\"},}\n}", None),
    (CURSOR, "{\"mcpServers\": {\"a\": {\"command\": \"a\", \"args\": [\"// no comment\", \",]\"]}}}", None),
    (CURSOR, "", None),
    (CURSOR, " \n", None),
    (GEMINI, "\u{feff}{}\n", Some("has a byte order mark in line 1, which Gemini CLI refuses")),
];

#[test]
fn what_a_client_refuses_of_its_file_is_shown_before_anything_is_changed() {
    for (file, text, expected) in ODD {
        let home = Home::new();
        let path = home.put(Path::new(file), text.as_bytes());
        let said = home.says(&["wrap", "--dry-run"]);
        let listed = home.says(&["wrap", "--list"]);
        let doctor = String::from_utf8(home.run(&["doctor"]).stdout).unwrap();
        for told in [&said, &listed, &doctor] {
            assert_eq!(told.contains("refuses"), expected.is_some(), "{text:?}: {told}");
            assert!(
                expected.is_none_or(|expected| told.contains(&format!("this file {expected}"))),
                "{text:?}: {told}"
            );
        }
        assert_eq!(said.contains("this file has nothing in it"), text.trim().is_empty(), "{text:?}: {said}");
        // It is wrapped all the same, and stays as odd as it was.
        home.says(&["wrap", "--all", "--yes"]);
        home.says(&["unwrap", "--all", "--yes"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn what_cannot_be_changed_is_shown_before_the_question_and_not_asked_about() {
    let home = Home::new();
    home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let read_only = home.put(Path::new(".factory/mcp.json"), PLAIN.as_bytes());
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o444)).unwrap();
    home.put(Path::new(".kiro/settings/mcp.json"), b"{ \"mcpServers\": \n{ \"a\" } }");
    let terminal = Terminal::open();
    let mut command = home.command(&["wrap"]);
    command.stdin(terminal.end()).stdout(terminal.end()).stderr(terminal.end());
    let mut child = command.spawn().unwrap();
    let shown = terminal.shows_until("Put the shim before 2 servers in 1 file? [y/N] ");
    for words in [
        ".kiro/settings/mcp.json: it cannot be read: line 2",
        ".factory/mcp.json: it is read-only",
        "this file is left alone: it is read-only",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    terminal.type_in("y\n");
    terminal.shows_until("wrapped 2 servers in 1 file");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    // Where nothing else is to be done, that is said.
    let done = home.run(&["wrap", "--client", "droid", "--yes"]);
    let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("it is read-only") && said.contains("nothing to wrap"), "{said}");
    assert!(home.says(&["wrap", "--list", "--client", "droid"]).contains("left alone: it is read-only"));
}

/// Ways in which clients write a file of JSON anew.
const ANEW: [fn(&Value) -> String; 3] = [
    |anew| format!("{anew:#}"),
    ToString::to_string,
    // In another order, and with what the client adds.
    |anew| {
        let mut anew = anew.clone();
        for server in anew["mcpServers"].as_object_mut().unwrap().values_mut() {
            server["zz"] = false.into();
        }
        format!("{anew:#}\n")
    },
];

#[test]
fn no_list_of_arguments_is_left_where_a_client_has_written_its_file_anew() {
    let text = "{\"mcpServers\": {\"a\": {\"command\": \"a\"}, \"b\": {\"command\": \"b\", \"args\": []}, \"c\": {\"env\": {}, \"command\": \"c\"}}}";
    for write in ANEW {
        for flags in [&[][..], &["--", "--restart"]] {
            let home = Home::new();
            let path = home.put(Path::new(CURSOR), text.as_bytes());
            home.says(&[&["wrap", "--all", "--yes"], flags].concat());
            let anew: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            fs::write(&path, write(&anew)).unwrap();
            home.says(&["wrap", "--all", "--yes", "--", "--timeout", "1m"]);
            home.says(&["unwrap", "--all", "--yes"]);
            let now: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            let arguments = ["a", "b", "c"].map(|name| now["mcpServers"][name].get("args").map(ToString::to_string));
            assert_eq!(arguments, [None, Some("[]".to_owned()), None], "{now}");
        }
    }
}

/// Written anew by `toml` libraries, which keep comments, or by hand.
#[test]
fn no_list_of_arguments_is_left_in_toml_that_was_written_anew() {
    let home = Home::new();
    let path = home.put(Path::new(".codex/config.toml"), b"[mcp_servers.a]\ncommand = \"a\"\n");
    home.says(&["wrap", "--all", "--yes"]);
    let program = super::RESCIND;
    for (anew, expected) in [
        (
            format!("[mcp_servers.a]\nargs = [\"run\", \"a\"]\ncommand = \"{program}\"\n"),
            "[mcp_servers.a]\ncommand = \"a\"\n",
        ),
        (
            format!("[mcp_servers.a]\ncommand = \"{program}\"\nargs = [\n    \"run\",\n    \"a\",\n]\n"),
            "[mcp_servers.a]\ncommand = \"a\"\n",
        ),
        (
            format!("mcp_servers = {{ a = {{ args = [\"run\", \"a\"], command = \"{program}\" }} }}\n"),
            "mcp_servers = { a = { command = \"a\" } }\n",
        ),
        (
            format!("mcp_servers.a.args = [\"run\", \"a\"]\nmcp_servers.a.command = \"{program}\"\n"),
            "mcp_servers.a.command = \"a\"\n",
        ),
    ] {
        let journal = home.path().join(".local/state/rescind/wrapped.json");
        let kept = fs::read(&journal).unwrap();
        fs::write(&path, anew).unwrap();
        home.says(&["unwrap", "--all", "--yes"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        fs::write(journal, kept).unwrap();
    }
}

/// Many programs write a file by replacing it, and so a link to it.
#[test]
fn no_list_of_arguments_is_left_where_a_client_has_replaced_a_link_by_a_file() {
    let home = Home::new();
    let text = "{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}\n";
    let real = home.put(Path::new("dotfiles/cursor.json"), text.as_bytes());
    fs::create_dir(home.path().join(".cursor")).unwrap();
    let link = home.path().join(CURSOR);
    symlink("../dotfiles/cursor.json", &link).unwrap();
    home.says(&["wrap", "--all", "--yes"]);
    let wrapped = fs::read(&real).unwrap();
    fs::remove_file(&link).unwrap();
    fs::write(&link, &wrapped).unwrap();
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&link).unwrap(), text);
    // The file behind the link can still be given back, too.
    home.says(&["unwrap", "--file", "dotfiles/cursor.json", "--yes"]);
    assert_eq!(fs::read_to_string(&real).unwrap(), text);
}
