//! `wrap --shared NAME`, and what `doctor` says of servers that clients share.

use std::{fs, path::Path};

use serde_json::Value;

use super::{CURSOR, Home, RESCIND};

const CODEX: &str = ".codex/config.toml";
const ZED: &str = ".config/zed/settings.json";

const IN_CURSOR: &str = r#"{"mcpServers": {
  "github": {"command": "npx", "args": ["-y", "gh"], "env": {"TOKEN": "secret"}},
  "memory": {"command": "npx", "args": ["-y", "memory"]}
}}
"#;
const IN_CODEX: &str =
    "[mcp_servers.GitHub] # mine\ncommand = \"npx\"\nargs = [\"-y\", \"gh\"]\nenv = { TOKEN = \"secret\" }\n";
const IN_ZED: &str = "{\"context_servers\": {\"memory\": {\"command\": \"npx\", \"args\": [\"-y\", \"memory\"]}}}\n";

const FILES: [(&str, &str); 3] = [(CURSOR, IN_CURSOR), (CODEX, IN_CODEX), (ZED, IN_ZED)];

fn home() -> Home {
    let home = Home::new();
    FILES.iter().for_each(|(file, text)| _ = home.put(Path::new(file), text.as_bytes()));
    home
}

fn read(home: &Home, file: &str) -> String {
    fs::read_to_string(home.path().join(file)).unwrap()
}

fn expect_as_before(home: &Home) {
    FILES.iter().for_each(|(file, text)| assert_eq!(read(home, file), *text, "{file}"));
}

#[test]
fn one_word_has_an_entry_shared_in_every_client_and_unwrap_gives_back_the_bytes() {
    let home = home();
    let said = home.says(&["wrap", "--shared", "Git-Hub", "--dry-run", "--no-advice"]);
    assert!(said.contains("wrap    github") && said.contains("wrap    GitHub") && !said.contains("memory"), "{said}");
    let said = home.says(&["wrap", "--shared", "github", "--yes", "--no-advice"]);
    assert!(said.contains("wrapped 2 servers in 2 files"), "{said}");
    let shared = "\"--shared=github\", \"--shared-env=TOKEN\", \"npx\", \"-y\", \"gh\"";
    let of = |name: &str, client: &str| format!("\"run\", \"--name={name}\", \"--client-name={client}\", {shared}");
    assert!(read(&home, CURSOR).contains(&of("github", "cursor")), "{}", read(&home, CURSOR));
    assert!(read(&home, CODEX).contains(&of("GitHub", "codex")), "{}", read(&home, CODEX));
    assert_eq!(read(&home, ZED), IN_ZED);
    let said = home.says(&["wrap", "--shared", "github", "--yes"]);
    assert!(said.contains("nothing to wrap"), "{said}");
    home.says(&["unwrap", "--all", "--yes"]);
    expect_as_before(&home);
}

#[test]
fn what_is_shared_stays_so_whatever_else_is_wrapped_and_changed() {
    let home = home();
    home.says(&["wrap", "--shared", "github", "--yes"]);
    home.says(&["wrap", "--all", "--yes", "--no-advice"]);
    let is_shared = |file: &str| read(&home, file).contains("--shared=github");
    assert!(is_shared(CURSOR) && is_shared(CODEX) && !read(&home, ZED).contains("--shared"));
    home.says(&["wrap", "--all", "--yes", "--", "--timeout", "5m"]);
    assert!(is_shared(CURSOR) && is_shared(CODEX) && read(&home, CODEX).contains("\"--timeout\", \"5m\""));
    home.says(&["wrap", "--all", "--yes", "--no-flags"]);
    assert!(is_shared(CURSOR) && !read(&home, CODEX).contains("--timeout"));
    home.says(&["unwrap", "--all", "--yes"]);
    expect_as_before(&home);
}

#[test]
fn servers_that_have_a_shim_change_its_flags() {
    let home = home();
    home.says(&["wrap", "--all", "--yes", "--", "--timeout", "5m"]);
    let said = home.says(&["wrap", "--shared", "memory", "--shared", "GITHUB", "--yes"]);
    assert!(said.contains("change  memory               --timeout 5m → --shared=memory --timeout 5m"), "{said}");
    assert!(said.contains("changed the flags of 4 servers"), "{said}");
    let with_both = home.says(&["wrap", "--shared", "memory", "--yes", "--", "--timeout", "4m"]);
    assert!(with_both.contains("--shared=memory --timeout 5m → --shared=memory --timeout 4m"), "{with_both}");
    home.says(&["unwrap", "--all", "--yes"]);
    expect_as_before(&home);
    home.says(&["wrap", "--all", "--shared", "memory", "--yes"]);
    assert_eq!(read(&home, CURSOR).matches("--shared=memory").count(), 1);
    assert_eq!((read(&home, CURSOR).matches(RESCIND).count(), read(&home, ZED).matches("--shared=").count()), (2, 1));
}

/// Else its server would not get the variable.
#[test]
fn a_variable_that_an_entry_has_got_since_is_named_by_the_next_wrap_and_doctor_says_so() {
    let home = home();
    home.says(&["wrap", "--shared", "github", "--yes"]);
    let text = read(&home, CURSOR).replace("\"TOKEN\": \"secret\"", "\"TOKEN\": \"secret\", \"HOST\": \"x\"");
    home.put(Path::new(CURSOR), text.as_bytes());
    let done = home.run(&["doctor"]);
    let said = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("it is shared, and sets variables that its server does not get"), "{said}");
    home.says(&["wrap", "--all", "--yes"]);
    assert!(read(&home, CURSOR).contains("\"--shared-env=HOST\""), "{}", read(&home, CURSOR));
    // What a person has added stays.
    let text =
        read(&home, CURSOR).replace("\"--shared=github\"", "\"--shared=github\", \"--shared-env\", \"SSH_AUTH_SOCK\"");
    home.put(Path::new(CURSOR), text.as_bytes());
    assert!(home.says(&["wrap", "--all", "--yes"]).contains("nothing to wrap"));
}

#[test]
fn what_cannot_be_shared_is_left_with_the_reason() {
    let home = Home::new();
    home.put(
        Path::new(CURSOR),
        br#"{"mcpServers": {"remote": {"url": "https://example.com/mcp"},
            "filed": {"command": "a", "envFile": ".env"}, "plain": {"command": "b"}}}"#,
    );
    let before = read(&home, CURSOR);
    for (name, why) in [
        ("remote", "is at a URL, where it is one server already"),
        ("filed", "has its variables in a file; write them into `env` to share it"),
    ] {
        let said = home.says(&["wrap", "--shared", name, "--yes"]);
        assert!(said.contains(&format!("leave   {name:<20} {why}")) && said.contains("nothing to wrap"), "{said}");
    }
    let said = home.says(&["wrap", "--shared", "plain", "--yes", "--", "--restart"]);
    assert!(said.contains("cannot be shared: --restart is what a shared server has anyway"), "{said}");
    let (code, said) = home.complains(&["wrap", "--shared", "plan", "--yes"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("did you mean plain?"), "{said}");
    let (code, said) = home.complains(&["wrap", "--all", "--yes", "--", "--shared", "x"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("rescind wrap --shared NAME"), "{said}");
    assert_eq!(read(&home, CURSOR), before);
}

#[test]
fn doctor_says_who_shares_and_who_could() {
    let home = home();
    let lines = || {
        let said = String::from_utf8(home.run(&["doctor"]).stdout).unwrap();
        let after = said.split("\nServers that several clients have\n").nth(1).unwrap_or_default().to_owned();
        after.lines().take_while(|line| line.starts_with("  ")).map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let alone = |name: &str, clients: &str| {
        format!("  {name}: {clients} start one each; `rescind wrap --shared {name}` has them share one")
    };
    assert_eq!(lines(), [alone("GitHub", "Cursor, Codex"), alone("memory", "Cursor, Zed")]);
    home.says(&["wrap", "--client", "cursor", "--shared", "github", "--yes"]);
    assert_eq!(
        lines()[0],
        "  GitHub: one for Cursor; Codex starts its own, and `rescind wrap --shared GitHub` has it join"
    );
    home.says(&["wrap", "--shared", "github", "--yes"]);
    assert_eq!(lines(), ["  GitHub: one for Cursor, Codex".to_owned(), alone("memory", "Cursor, Zed")]);
    // With another token it is another server.
    home.put(Path::new(CODEX), read(&home, CODEX).replace("secret", "other").as_bytes());
    assert_eq!(lines()[..2], ["  GitHub: one for Codex", "  github: one for Cursor"]);
    let report: Value = serde_json::from_slice(&home.run(&["doctor", "--json"]).stdout).unwrap();
    assert_eq!(report["sharing"][2]["started_by"], serde_json::json!(["Cursor", "Zed"]), "{}", report["sharing"]);
}
