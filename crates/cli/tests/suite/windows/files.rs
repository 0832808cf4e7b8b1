//! Files that the command writes, and those of clients.

use std::{fs, process::Output};

use serde_json::{Value, json};

use super::world::World;

#[test]
fn a_recording_and_a_log_are_written_to_a_folder_with_spaces() {
    let Some(world) = World::new() else { return };
    fs::create_dir(world.home().join("two words")).unwrap();
    let path = |name: &str| format!("{}\\two words\\{name}", world.windows_home());
    let (record, log) = (path("a recording.jsonl"), path("a log.txt"));
    let flags = ["--record", &record, "--log", "info", "--log-file", &log];
    let mut client = world.client_of_a_shell(&flags, &world.server(&[]));
    let mut family = world.family();
    client.answer(0);
    client.call(1, "work", &json!({}));
    assert_eq!(family[0].next(), json!({"works": 1}));
    client.cancel(1);
    assert_eq!(family[0].next(), json!({"cancelled": 1}));
    client.end_input();
    assert_eq!(client.code(), Some(0));
    let read = |name: &str| fs::read_to_string(world.home().join("two words").join(name)).unwrap();
    let recording = read("a recording.jsonl");
    let lines: Vec<Value> = recording.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() > 5 && recording.contains("notifications/cancelled"), "{recording}");
    assert!(read("a log.txt").contains("cancel"), "{}", read("a log.txt"));
}

/// `rescind` with these words for a user whose folders are in the home.
fn with_folders(world: &World, words: &str) -> (String, Output) {
    let home = world.windows_home();
    let folders = ["USERPROFILE", "APPDATA", "LOCALAPPDATA"].map(|name| format!("set {name}={home}\\{name}"));
    let [user, application, local] = &folders;
    let run = format!("rescind {words}");
    let output = world.batch(&[user, application, local, &run]).output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output)
}

#[test]
fn servers_of_a_windows_client_are_wrapped_and_unwrapped() {
    let Some(world) = World::new() else { return };
    let folder = world.home().join("APPDATA/Claude");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("claude_desktop_config.json");
    let before = "{\r\n  \"mcpServers\": {\r\n    \"files\": {\r\n      \"command\": \"npx\",\r\n      \
                  \"args\": [\"-y\", \"some-server\", \"C:\\\\Users\\\\a b\"]\r\n    }\r\n  }\r\n}\r\n";
    fs::write(&file, before).unwrap();
    let (listed, output) = with_folders(&world, "wrap --list");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        listed.contains(&format!("{}\\APPDATA\\Claude", world.windows_home())) && listed.contains("files"),
        "{listed}{said}"
    );
    let (_, output) = with_folders(&world, "wrap --all --yes");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let wrapped = fs::read_to_string(&file).unwrap();
    let entry = serde_json::from_str::<Value>(&wrapped).unwrap()["mcpServers"]["files"].clone();
    let program = entry["command"].as_str().unwrap();
    assert!(program.eq_ignore_ascii_case(&world.program("rescind.exe")), "{wrapped}");
    assert!(wrapped.contains(&program.replace('\\', "\\\\")), "{wrapped}");
    assert_eq!(
        entry["args"],
        json!(["run", "--name=files", "--client-name=claude-desktop", "npx", "-y", "some-server", "C:\\Users\\a b"]),
        "{wrapped}"
    );
    let (report, output) = with_folders(&world, "doctor --json");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(serde_json::from_str::<Value>(&report).is_ok() && report.contains("files"), "{report}{said}");
    let (_, output) = with_folders(&world, "unwrap --all --yes");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}
