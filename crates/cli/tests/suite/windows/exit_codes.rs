//! The exit code of `rescind run`, and what it says of a command that does not start.

use std::{fs, process::Stdio};

use serde_json::json;

use super::world::World;

/// What `rescind run` says, and its exit code.
fn run(world: &World, words: &[&str]) -> (String, Option<i32>) {
    let words: Vec<&str> = ["run"].iter().chain(words).copied().collect();
    let output = world.rescind(&words);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (String::from_utf8_lossy(&output.stderr).replace("\r\n", "\n"), output.status.code())
}

#[test]
fn every_bit_of_the_servers_exit_code_is_passed_on() {
    let Some(world) = World::new() else { return };
    for code in [0, 1, 7, 255, 256, -1_073_741_510] {
        let server = [world.program("reporting_server.exe"), world.port(), "exit".to_owned(), code.to_string()];
        let mut started =
            world.shell(&[&["run".to_owned()], &server[..]].concat()).stdin(Stdio::null()).spawn().unwrap();
        let mut shell = world.reporter();
        assert_eq!(world.reporter().words, [code.to_string()]);
        assert_eq!(shell.next(), json!({"code": code}));
        started.wait().unwrap();
    }
}

#[test]
fn a_command_that_is_not_found_is_127_and_says_what_to_do() {
    let Some(world) = World::new() else { return };
    let missing = format!("{}\\no such server.exe", world.windows_home());
    for (command, input, hint) in [
        ("no-such-command", "no-such-command", "check the spelling and PATH, or give the command's full path"),
        ("C:\\no\\such.exe", "C:\\no\\such.exe", "check the path"),
        ("", "\"\"", "name the command; if a variable stands for it, the variable is empty"),
        (
            &missing,
            &format!("\"{missing}\""),
            "give the command and its arguments as separate words: npx -y some-mcp-server",
        ),
    ] {
        let said = (format!("error: {input}: command not found\nhint: {hint}\n"), Some(127));
        assert_eq!(run(&world, &[command]), said);
    }
}

#[test]
fn a_command_that_cannot_be_started_is_126_and_says_what_to_do() {
    let Some(world) = World::new() else { return };
    let folder = world.windows_home();
    assert_eq!(
        run(&world, &[&folder]),
        (format!("error: {folder}: is a directory\nhint: name a program in it\n"), Some(126))
    );
    let hint = "the command must be a program (.exe) or a batch file (.cmd, .bat); \
                a script needs its interpreter before it";
    for name in ["notes.txt", "server.js", "broken.exe"] {
        fs::write(world.home().join(name), "not a program").unwrap();
        let path = format!("{folder}\\{name}");
        assert_eq!(run(&world, &[&path]), (format!("error: {path}: is not a program\nhint: {hint}\n"), Some(126)));
    }
}

#[test]
fn an_argument_that_no_batch_file_takes_is_refused() {
    let Some(world) = World::new() else { return };
    fs::write(world.home().join("x.cmd"), "@echo off\r\necho started\r\n").unwrap();
    let path = format!("{}\\x.cmd", world.windows_home());
    for argument in ["a\nb", "a\r\nb"] {
        let (said, code) = run(&world, &[&path, argument]);
        let hint = "leave out the line break, or name the program that the batch file starts";
        assert_eq!(
            said,
            format!("error: {path}: a batch file cannot be given an argument with a line break\nhint: {hint}\n")
        );
        assert_eq!(code, Some(126));
    }
}

#[test]
fn a_usage_error_is_125() {
    let Some(world) = World::new() else { return };
    for words in [&[][..], &["--"], &["--no-such-flag", "--", "cmd"]] {
        let (said, code) = run(&world, words);
        assert_eq!(code, Some(125), "{words:?}: {said}");
        assert!(said.contains("error: "), "{said}");
    }
}
