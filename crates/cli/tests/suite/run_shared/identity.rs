//! Only sessions that mean the same server share one.

use std::{fs, process::Command};

use rescind_testkit::puppet::Sharing;

use super::{SHARED, Sharer, accept};
use crate::shim::{PROGRAM, run_to_end};

/// A session whose server first writes what it has of these variables, and where it is.
fn join(sharing: &Sharing, flags: &[&str], change: impl FnOnce(&mut Command)) -> Sharer {
    let script = "echo \"$TOKEN:$OTHER:$(pwd)\" >> \"$HOME/started\"";
    let mut command = sharing.command_after(PROGRAM, &[&SHARED, flags].concat(), script);
    command.env_remove("TOKEN").env_remove("OTHER");
    change(&mut command);
    Sharer::of(sharing, command)
}

fn started(sharing: &Sharing) -> Vec<String> {
    let home = fs::canonicalize(&sharing.home).unwrap().display().to_string();
    let text = fs::read_to_string(sharing.home.join("started")).unwrap();
    text.lines().map(|line| line.replace(&home, "~")).collect()
}

const TOKEN: [&str; 2] = ["--shared-env", "TOKEN"];

#[test]
fn sessions_with_different_tokens_never_share_and_one_line_says_so() {
    let sharing = Sharing::new();
    let mut one = join(&sharing, &TOKEN, |command| _ = command.env("TOKEN", "ann"));
    let mut first = accept(&sharing);
    one.open();
    let mut other = join(&sharing, &TOKEN, |command| _ = command.env("TOKEN", "bob"));
    let mut second = accept(&sharing);
    other.open();
    assert_eq!(
        other.shim.stderr.line(),
        "warning: --shared tools: a server of this name runs with another command, variables or folder: this session does \
         not share that one"
    );
    one.is_served(&mut first, "2");
    other.is_served(&mut second, "2");
    // The third has the token of the first.
    let mut third = join(&sharing, &TOKEN, |command| _ = command.env("TOKEN", "ann"));
    third.open();
    third.is_served(&mut first, "2");
    assert_eq!(started(&sharing), ["ann::~", "bob::~"]);
}

/// Not even if the session that starts it has one, and nobody has named it.
#[test]
fn a_server_gets_no_variable_that_it_is_not_told_apart_by() {
    let sharing = Sharing::new();
    let mut one = join(&sharing, &[], |command| _ = command.env("TOKEN", "ann"));
    let mut server = accept(&sharing);
    one.open();
    let mut other = join(&sharing, &[], |command| _ = command.env("TOKEN", "bob"));
    other.open();
    other.is_served(&mut server, "2");
    assert_eq!(started(&sharing), ["::~"]);
}

#[test]
fn the_rest_of_the_environment_and_how_the_name_is_spelt_make_no_difference() {
    let sharing = Sharing::new();
    let mut one = join(&sharing, &[], |command| _ = command.env("TERM", "dumb").env("OTHER", "1"));
    let mut server = accept(&sharing);
    one.open();
    let script = "echo \"$TOKEN:$OTHER:$(pwd)\" >> \"$HOME/started\"";
    let mut command = sharing.command_after(PROGRAM, &["--shared", "TOOLS", "--timeout", "5m"], script);
    command.env("TERM", "xterm").env("OTHER", "2");
    let mut other = Sharer::of(&sharing, command);
    other.open();
    other.is_served(&mut server, "2");
}

#[test]
fn another_command_is_another_server() {
    let sharing = Sharing::new();
    let mut one = Sharer::join(&sharing, &[]);
    let mut first = accept(&sharing);
    one.open();
    let mut other = join(&sharing, &[], |_| {});
    let mut second = accept(&sharing);
    other.open();
    one.is_served(&mut first, "2");
    other.is_served(&mut second, "2");
}

#[test]
fn the_folder_counts_where_it_is_asked_for_or_the_command_names_something_in_it() {
    let sharing = Sharing::new();
    let [a, b] = ["a", "b"].map(|name| sharing.home.join(name));
    [&a, &b].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let mut one = join(&sharing, &[], |command| _ = command.current_dir(&a));
    let mut server = accept(&sharing);
    one.open();
    let mut other = join(&sharing, &[], |command| _ = command.current_dir(&b));
    other.open();
    other.is_served(&mut server, "2");
    let mut asked = join(&sharing, &["--shared-folder"], |command| _ = command.current_dir(&a));
    let mut in_a = accept(&sharing);
    asked.open();
    asked.is_served(&mut in_a, "2");
    // An argument of the server that is there.
    let mut named = join(&sharing, &[], |command| {
        fs::write(b.join("here"), "").unwrap();
        command.arg("here").current_dir(&b);
    });
    let mut in_b = accept(&sharing);
    named.open();
    named.is_served(&mut in_b, "2");
    assert_eq!(started(&sharing), ["::~", "::~/a", "::~/b"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_remedy() {
    for (flags, said) in [
        (
            &["--shared", "", "true"][..],
            "error: --shared \"\": is no name\nhint: name the server, as in --shared github\n",
        ),
        (
            &["--shared", "x", "--url", "https://example.com/mcp"],
            "error: the argument '--shared <NAME>' cannot be used with '--url <URL>'; leave one of them out\n",
        ),
        (
            &["--shared", "x", "--restart", "true"],
            "error: --restart: is what a shared server has anyway\nhint: leave out --restart\n",
        ),
        (
            &["--shared", "x", "--protocol", "acp", "true"],
            "error: --shared: is for MCP servers\nhint: leave out --shared: an agent or a language server is of one client\n",
        ),
        (
            &["--shared", "x", "--protocol", "codex", "true"],
            "error: --shared: is for MCP servers\nhint: leave out --shared: an agent or a language server is of one client\n",
        ),
        (
            &["--shared", "x", "--on-stop", "end-processes", "true"],
            "error: --on-stop: cannot tell whose a process of a shared server is\nhint: leave out --on-stop: `rescind ps \
             --processes` lists them, and `rescind reap` ends them\n",
        ),
        (
            &["--shared", "x", "--on-stuck", "kill", "true"],
            "error: --on-stuck kill: would end the work of all who share the server\nhint: use --on-stuck report, and \
             `rescind end` for all of them\n",
        ),
        (
            &["--shared", "x", "--shared-env", "A=1", "true"],
            "error: --shared-env A=1: is not the name of a variable\nhint: name the variable only, as in --shared-env \
             GITHUB_TOKEN; its value is that of the environment\n",
        ),
        (
            &["--shared", "x", "--header", "A: b", "true"],
            "error: --header, --header-env: are for a server at a URL\nhint: give --url URL\n",
        ),
    ] {
        assert_eq!(run_to_end(&[&["run"], flags].concat()), (said.to_owned(), 125), "{flags:?}");
    }
    let (said, code) = run_to_end(&["run", "--shared", "x", "/nowhere/server"]);
    assert_eq!(code, 127, "{said}");
    assert!(said.starts_with("error: /nowhere/server: command not found\n"), "{said}");
    let (said, code) = run_to_end(&["run", "--shared-folder", "true"]);
    assert_eq!(code, 125, "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
