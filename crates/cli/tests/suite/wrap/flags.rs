//! Flags of servers that have a shim: changed, taken off, and refused where `rescind run` would refuse them.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{CURSOR, Home, PLAIN, RESCIND, URLS};

const CODEX: &str = ".codex/config.toml";

/// Files as they are found, each with servers `a` and `b`: on one line and on many, with and without arguments, with
/// comments, dotted keys, tables in braces, and no newline at the end.
const FILES: [(&str, &str); 8] = [
    (CURSOR, PLAIN),
    (CURSOR, "{\"mcpServers\":{\"a\":{\"command\":\"a\"},\"b\":{\"args\":[\"1\"],\"command\":\"b\"}}}"),
    (
        CURSOR,
        "{\r\n  \"mcpServers\": {\r\n    \"a\": {\r\n      \"command\": \"a\", // mine\r\n      \"env\": {}\r\n    },\r\n    \
         \"b\": {\r\n      \"command\": \"b\",\r\n      \"args\": [\r\n        \"1\", // one\r\n        \"2\"\r\n      ],\r\n    \
         }\r\n  }\r\n}",
    ),
    (
        ".config/opencode/opencode.json",
        "{\"mcp\": {\"a\": {\"command\": [\"a\"]}, \"b\": {\"command\": [\n  \"b\",\n  \"1\"\n]}}}\n",
    ),
    (
        ".config/zed/settings.json",
        "{\"context_servers\": {\"a\": {\"command\": {\"path\": \"a\"}}, \"b\": {\"command\": \"b\", \"args\": []}}}\n",
    ),
    (CODEX, "[mcp_servers.a]\ncommand = \"a\" # mine\n\n[mcp_servers.b]\nargs = [ \"1\" ]\ncommand = 'b'"),
    (CODEX, "[mcp_servers]\na.command = \"a\"\nb = { command = \"b\", args = [] }"),
    (CODEX, "[mcp_servers.b]\ncommand = \"b\"\nargs = [\n  # the first\n  \"1\",\n]\n[mcp_servers.a]\ncommand = \"a\""),
];

fn read(home: &Home, file: &str) -> String {
    fs::read_to_string(home.path().join(file)).unwrap()
}

#[test]
fn flags_of_wrapped_servers_are_changed_and_unwrap_still_gives_the_same_bytes() {
    for (file, text) in FILES {
        let wrapped_with = |flags: &[&str]| {
            let home = Home::new();
            home.put(Path::new(file), text.as_bytes());
            home.says(&[&["wrap", "--all", "--yes", "--no-advice", "--"], flags].concat());
            read(&home, file)
        };
        let home = Home::new();
        home.put(Path::new(file), text.as_bytes());
        home.says(&["wrap", "--all", "--yes", "--no-advice"]);
        let steps: [&[&str]; 4] = [
            &["--timeout", "5m"],
            &["--timeout", "4m", "--restart", "--grace", "1s"],
            &["--restart"],
            &["--timeout", "tools/call=1m"],
        ];
        for flags in steps {
            let words = [&["wrap", "--all", "--yes", "--"], flags].concat();
            let said = home.says(&words);
            assert!(said.contains("changed the flags of 2 servers\n"), "{file}: {said}");
            let words_of = |text: &str| text.chars().filter(|found| !found.is_whitespace()).collect::<String>();
            assert_eq!(words_of(&read(&home, file)), words_of(&wrapped_with(flags)), "{text}");
            assert!(home.says(&words).contains("nothing to wrap"), "{file}: {flags:?}");
        }
        // Without flags those that are there stay.
        let before = read(&home, file);
        assert!(home.says(&["wrap", "--all", "--yes"]).contains("nothing to wrap"));
        assert_eq!(read(&home, file), before);
        let said = home.says(&["wrap", "--all", "--yes", "--no-flags"]);
        assert!(
            said.contains("--timeout tools/call=1m → no flags") && said.contains("changed the flags of 2 servers"),
            "{said}"
        );
        let without = read(&home, file).replace("--name=", "").replace("--client-name=", "");
        assert!(!without.contains("--"), "{}", read(&home, file));
        assert!(home.says(&["wrap", "--all", "--yes", "--no-flags"]).contains("nothing to wrap"));
        home.says(&["wrap", "--all", "--yes", "--", "--restart"]);
        home.says(&["unwrap", "--all", "--yes"]);
        assert_eq!(read(&home, file), text, "{file}");
    }
}

#[test]
fn a_change_of_flags_is_shown_and_asked_about_and_only_of_what_is_selected() {
    let home = Home::new();
    let path = home.put(Path::new(CODEX), b"[mcp_servers.a]\ncommand = \"a\"\n\n[mcp_servers.b]\ncommand = \"b\"\n");
    let other = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    home.says(&["wrap", "--all", "--yes", "--", "--timeout", "5m"]);
    let (before, of_other) = (fs::read(&path).unwrap(), fs::read(&other).unwrap());
    let change = ["wrap", "--client", "codex", "--server", "b", "--dry-run", "--", "--timeout", "4m"];
    let said = home.says(&change);
    assert!(said.contains("change  b                    --timeout 5m → --timeout 4m"), "{said}");
    let (code, said) = home.complains(&["wrap", "--client", "codex", "--", "--timeout", "4m"]);
    assert_eq!((code, said.contains("cannot ask without a terminal")), (Some(2), true), "{said}");
    assert_eq!(fs::read(&path).unwrap(), before);
    let said = home.says(&["wrap", "--client", "codex", "--server", "b", "--yes", "--", "--timeout", "4m"]);
    assert!(
        said.contains("changed the flags of 1 server\n") && said.contains("note: a client that is running"),
        "{said}"
    );
    let now = fs::read_to_string(&path).unwrap();
    assert_eq!((now.matches("\"4m\"").count(), now.matches("\"5m\"").count()), (1, 1), "{now}");
    assert_eq!(fs::read(&other).unwrap(), of_other);
    let said = home.says(&["wrap", "--list"]);
    assert!(said.contains("b                    has a shim: --timeout 4m"), "{said}");
    // What has no shim yet gets one, in the same command.
    home.says(&["unwrap", "--client", "codex", "--server", "a", "--yes"]);
    let said = home.says(&["wrap", "--client", "codex", "--yes", "--limit-repeats", "9"]);
    assert!(said.contains("changed the flags of 1 server\n") && said.contains("wrapped 1 server in 1 file"), "{said}");
}

#[test]
fn flags_that_belong_to_their_entry_stay() {
    let home = Home::new();
    let servers = json!({"mcpServers": {
        "a": {"command": RESCIND, "args": ["run", "--timeout", "5m", "--", "a", "--restart"]},
        "b": {"command": RESCIND, "args": ["run", "--header-env", "A=B", "--timeout", "5m", "--header-env", "C=D", "--url", "https://a/mcp"]},
    }});
    let path = home.put(Path::new(CURSOR), servers.to_string().as_bytes());
    home.says(&["wrap", "--all", "--yes", "--", "--timeout", "4m"]);
    let now: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        now["mcpServers"]["a"]["args"],
        json!(["run", "--name=a", "--client-name=cursor", "--timeout", "4m", "--", "a", "--restart"])
    );
    let words = ["--header-env", "A=B", "--timeout", "4m", "--header-env", "C=D", "--url", "https://a/mcp"];
    let words = [&["run", "--name=b", "--client-name=cursor"], &words[..]].concat();
    assert_eq!(now["mcpServers"]["b"]["args"], json!(words));
}

#[test]
fn a_server_at_a_url_gets_other_flags_and_its_url_back() {
    let home = Home::new();
    let text = URLS.replace("URL", "https://api.example.com/mcp");
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    home.says(&["wrap", "--all", "--yes", "--urls", "--force", "--", "--timeout", "5m"]);
    let said = home.says(&["wrap", "--all", "--yes", "--", "--restart"]);
    assert!(said.contains("changed the flags of 3 servers"), "{said}");
    let now: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let header = "Authorization=RESCIND_HEADER_AUTHORIZATION";
    let words = ["--restart", "--header-env", header, "--url", "https://api.example.com/mcp"];
    let words = [&["run", "--name=api", "--client-name=cursor"], &words[..]].concat();
    assert_eq!(now["mcpServers"]["api"]["args"], json!(words));
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_comment_between_flags_is_not_lost() {
    let home = Home::new();
    let text = format!(
        "{{\"mcpServers\": {{\"a\": {{\"command\": \"{RESCIND}\", \"args\": [\"run\", \"--timeout\", /* long */ \"5m\", \"a\"]}}}}}}"
    );
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    let (code, said) = home.complains(&["wrap", "--all", "--yes", "--", "--timeout", "4m"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("has a comment between the flags of its shim"), "{said}");
    assert_eq!(fs::read_to_string(path).unwrap(), text);
}

/// Later only the client would see it, and none of its servers would start.
#[test]
fn what_run_refuses_wrap_refuses_with_the_same_reason() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    let cases: [(&[&str], &str); 19] = [
        (&["--timeout", "banana"], "invalid value 'banana' for '--timeout <[METHOD[:TOOL]=]DURATION>': not a duration"),
        (&["--timeout=5"], "has no unit"),
        (&["--timeout", "0s"], "must be longer than zero"),
        (&["--timeout"], "a value is required for '--timeout"),
        (&["--timeout", "5m", "--grace"], "a value is required for '--grace"),
        (&["--total-timeout", "a=b=1s"], "has two `=`"),
        (&["--finish", "ever"], "or never"),
        (&["--on-stuck", "explode"], "invalid value 'explode' for '--on-stuck"),
        (&["--max-message", "1"], "invalid value '1' for '--max-message"),
        (&["--limit", "30"], "has no DURATION"),
        (&["--protocol", "mpc"], "invalid value 'mpc' for '--protocol"),
        (&["--log-file", "/x"], "required arguments were not provided: --log <LEVEL>"),
        (&["--header", "A: b"], "are for a server at a URL"),
        (&["--restart", "--protocol", "lsp"], "is for servers of MCP"),
        (&["--bridge", "--protocol", "mcp-2025-11-25"], "is for sides whose revisions are not named"),
        (&["--timout", "5m"], "unexpected argument '--timout' found"),
        (&["npx", "server"], "names a server of its own"),
        (&["--url", "https://a/mcp"], "names a server of its own"),
        (&["--help"], "is not for a server"),
    ];
    for (flags, why) in cases {
        let (code, said) = home.complains(&[&["wrap", "--all", "--yes", "--"], flags].concat());
        assert_eq!(code, Some(2), "{flags:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(why), "{flags:?}: {said}");
        assert_eq!(said.lines().count(), 2, "{flags:?}: {said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), PLAIN);
    }
    let (_, said) = home.complains(&["wrap", "--all", "--yes", "--", "--timout", "5m"]);
    assert!(said.contains("hint: did you mean --timeout?"), "{said}");
}

#[test]
fn names_of_clients_and_servers_are_forgiven_or_the_nearest_is_named() {
    let home = Home::new();
    home.put(Path::new(CURSOR), PLAIN.replace("\"a\":", "\"github\":").as_bytes());
    home.put(Path::new(".config/Claude/claude_desktop_config.json"), PLAIN.as_bytes());
    for (name, file) in [("Cursor", "Cursor  "), ("CURSOR", "Cursor  "), ("Claude Desktop", "Claude Desktop  ")] {
        let said = home.says(&["wrap", "--client", name, "--dry-run"]);
        assert!(said.starts_with(file), "{name}: {said}");
    }
    assert!(home.says(&["wrap", "--client", "claude_code", "--dry-run"]).contains("nothing to wrap"));
    for (name, near) in [("curser", "did you mean cursor?"), ("claude", "did you mean claude-desktop or claude-code?")]
    {
        let (code, said) = home.complains(&["wrap", "--client", name, "--dry-run"]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(near), "{name}: {said}");
    }
    let (_, said) = home.complains(&["wrap", "--client", "emacs", "--dry-run"]);
    assert!(said.contains("is none of claude-desktop, "), "{said}");
    let (_, said) = home.complains(&["unwrap", "--server", "gihub", "--dry-run"]);
    assert!(said.contains("hint: did you mean github?"), "{said}");
}
