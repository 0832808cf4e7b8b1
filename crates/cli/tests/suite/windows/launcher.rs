//! Batch files as commands, as `npx` and `uvx` are.

use std::fs;

use super::world::World;

#[test]
fn a_batch_file_gets_awkward_arguments_whole() {
    let Some(world) = World::new() else { return };
    let script = format!("@echo off\r\n\"{}\" %*\r\n", world.program("reporting_server.exe"));
    fs::write(world.home().join("some launcher.cmd"), script).unwrap();
    let path = world.home().join("some launcher.cmd").display().to_string().replace('/', "\\");
    let awkward = ["two words", "a&b", "(paren)", "caret^", "", "trailing\\"];
    let mut command = vec![format!("Z:{path}"), world.port(), "server".to_owned()];
    command.extend(awkward.iter().map(|word| (*word).to_owned()));
    let mut client = world.client(&[], &command);
    let [server, ..] = world.family();
    assert_eq!(server.words, awkward);
    assert_eq!(client.receive()["id"], 0);
}
