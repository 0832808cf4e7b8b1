//! Recordings of many sessions in one folder, on real processes.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use rescind_testkit::puppet::Rig;
use serde_json::Value;

use crate::shim::{
    self, PROGRAM,
    words::{greet_mcp, pass_to_server, request},
};

fn recordings(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn lines(file: &Path) -> Vec<Value> {
    fs::read_to_string(file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A path in the way a user names a folder that is to be made.
fn with_slash(path: &Path) -> String {
    format!("{}/", path.display())
}

#[test]
fn sessions_at_once_get_a_file_each_in_a_folder_that_the_first_one_makes() {
    let around = tempfile::tempdir().unwrap();
    let folder = around.path().join("recordings");
    let flag = with_slash(&folder);
    let start = || Rig::builder(PROGRAM).flags(["--record", &flag]).start();
    let mut rigs: Vec<Rig> = (0..4).map(|_| start()).collect();
    for (number, rig) in rigs.iter_mut().enumerate() {
        greet_mcp(rig, "2025-11-25");
        pass_to_server(rig, &request(&(100 + number).to_string(), "tools/list"));
    }
    for mut rig in rigs {
        rig.server.exit(0);
        rig.shim.expect_exit(0);
    }
    let found = recordings(&folder);
    assert_eq!((found.len(), mode(&folder)), (4, 0o700));
    let mut seen = Vec::new();
    for file in &found {
        assert_eq!(mode(file), 0o600, "{file:?}");
        let lines = lines(file);
        let name = file.file_name().unwrap().to_str().unwrap();
        let pid = lines[0]["pid"].to_string();
        assert!(name.ends_with(&format!("-{pid}.jsonl")) && name.starts_with("20"), "{name}");
        assert_eq!(lines.last().unwrap()["kind"], "end");
        let ids = lines.iter().filter(|line| line["kind"] == "opened").filter_map(|line| line["id"].as_u64());
        seen.extend(ids.filter(|id| *id >= 100));
    }
    seen.sort_unstable();
    assert_eq!(seen, [100, 101, 102, 103], "each session is in one file, and alone there");
}

#[test]
fn a_folder_that_exists_is_one_without_a_slash_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.jsonl"), "do not lose this").unwrap();
    let link = folder.path().with_extension("link");
    symlink(folder.path(), &link).unwrap();
    for path in [folder.path(), &link] {
        let said = shim::run_to_end(&["run", "--record", path.to_str().unwrap(), "true"]);
        assert_eq!(said, (String::new(), 0));
    }
    fs::remove_file(&link).unwrap();
    let found = recordings(folder.path());
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(fs::read_to_string(folder.path().join("mine.jsonl")).unwrap(), "do not lose this");
    assert!(found[0].to_str().unwrap().contains("-true-"), "{found:?}");
}

#[test]
fn options_of_a_server_are_not_in_the_name_of_its_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let said = shim::run_to_end(&["run", "--record", path, "env", "KEY=hunter2", "true", "--token", "hunter3"]);
    assert_eq!(said.1, 0, "{said:?}");
    let found = recordings(folder.path());
    let name = found[0].file_name().unwrap().to_str().unwrap();
    assert!(name.contains("-true-") && !name.contains("hunter"), "{name}");
}

#[test]
fn a_folder_that_cannot_be_used_says_what_to_do() {
    let around = tempfile::tempdir().unwrap();
    let file = around.path().join("file");
    fs::write(&file, "do not lose this").unwrap();
    let missing = around.path().join("no/such");
    let said = |path: &Path| shim::run_to_end(&["run", "--record", &with_slash(path), "true"]);
    let (of_missing, code) = said(&missing);
    let hint = format!("hint: first create its directory: mkdir -p {}\n", around.path().join("no").display());
    assert!(code == 125 && of_missing.ends_with(&hint), "{of_missing}");
    let (of_file, code) = said(&file);
    assert_eq!(code, 125, "{of_file}");
    assert!(of_file.contains("is not a folder") && of_file.contains("leave out the slash"), "{of_file}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "do not lose this");
}
