//! A home with a file of every client, odd as people have them: what `wrap` does to it is undone, also where each client
//! wrote its file anew in between, and also where `wrap` is killed.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Instant,
};

use rescind_wrap::client::{CLIENTS, Client};

use super::{Home, RESCIND, fraction};

/// The samples of each client, those first that it has in this round.
fn samples(client: &Client) -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wrap/tests/corpus");
    let files = fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path());
    // What has a shim already is not what it was once that is taken out.
    let is_of_client = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.split('.').next() == Some(client.id) && !name.contains("wrapped-already")
    };
    let mut files: Vec<_> = files.filter(is_of_client).collect();
    files.sort();
    files
}

/// A home with the sample of this number of each client, and a file where the client has several.
fn home(round: usize) -> (Home, BTreeMap<PathBuf, Vec<u8>>) {
    let home = Home::new();
    let mut files = BTreeMap::new();
    for client in CLIENTS {
        let samples = samples(client);
        let Some(sample) = samples.get(round % samples.len().max(1)) else { continue };
        let pattern = client.files[0].pattern(&home.folders(), |_| None);
        let bytes = fs::read(sample).unwrap();
        home.put(&pattern, &bytes);
        files.insert(pattern, bytes);
    }
    (home, files)
}

fn now(files: &BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
    files.keys().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// A file as its client writes it anew, and what it means; `None` where a client keeps the letters of a person.
fn anew(path: &Path, bytes: &[u8]) -> Option<(String, serde_json::Value)> {
    let text = std::str::from_utf8(bytes).unwrap().trim_start_matches('\u{feff}');
    if path.extension().is_some_and(|extension| extension == "yaml") {
        // As Goose does. A file of several documents is none to it.
        let value: serde_yaml::Value = serde_yaml::from_str(text).ok()?;
        // What has an anchor is written out.
        return Some((serde_yaml::to_string(&value).unwrap(), serde_json::to_value(value).unwrap()));
    }
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    Some((format!("{value:#}"), value))
}

#[test]
fn a_home_of_every_client_is_what_it_was_after_wrap_and_unwrap() {
    let rounds = CLIENTS.iter().map(|client| samples(client).len()).max().unwrap();
    assert!(CLIENTS.iter().filter(|client| !samples(client).is_empty()).count() >= 24);
    for round in 0..rounds {
        let (home, files) = home(round);
        let said = home.says(&["wrap", "--all", "--dry-run"]);
        assert!(said.contains("wrap    ") && now(&files) == files, "{said}");
        home.says(&["wrap", "--all", "--yes", "--", "--timeout", "5m"]);
        let wrapped = now(&files);
        let with_shim = wrapped.values().filter(|bytes| String::from_utf8_lossy(bytes).contains(RESCIND)).count();
        // Some samples have servers at a URL, or none.
        assert!(with_shim >= if round == 0 { 20 } else { 10 }, "round {round}: {with_shim} of {}", files.len());
        let said = home.says(&["wrap", "--all", "--yes"]);
        assert!(said.contains("nothing to wrap"), "{said}");
        let letters = |files: &BTreeMap<PathBuf, Vec<u8>>| -> Vec<String> {
            let of = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).split_whitespace().collect();
            files.values().map(of).collect()
        };
        let said = home.says(&["wrap", "--all", "--yes", "--", "--timeout", "4m", "--restart"]);
        assert!(said.contains("changed the flags of ") && now(&files) != wrapped, "{said}");
        home.says(&["wrap", "--all", "--yes", "--", "--timeout", "5m"]);
        assert_eq!(letters(&now(&files)), letters(&wrapped), "round {round}");
        home.says(&["unwrap", "--all", "--yes"]);
        for (path, before) in &files {
            assert!(fs::read(path).unwrap() == *before, "round {round}: {}", path.display());
        }

        // Each client has written its file anew in between.
        home.says(&["wrap", "--all", "--yes"]);
        for (path, bytes) in now(&files) {
            if let Some((text, _)) = anew(&path, &bytes) {
                fs::write(path, text).unwrap();
            }
        }
        home.says(&["unwrap", "--all", "--yes"]);
        for (path, before) in &files {
            let after = fs::read(path).unwrap();
            match anew(path, before) {
                Some((_, before)) => {
                    assert_eq!(anew(path, &after).unwrap().1, before, "round {round}: {}", path.display())
                }
                None => assert!(after == *before, "round {round}: {}", path.display()),
            }
        }
    }
}

/// At each moment every file is whole: the old one or the new one. The sleep only chooses the moment of the kill.
#[test]
fn killed_at_any_moment_every_file_of_every_client_is_whole() {
    let (home, files) = home(0);
    let begun = Instant::now();
    home.says(&["wrap", "--all", "--yes"]);
    let usual = begun.elapsed();
    let wrapped = now(&files);
    home.says(&["unwrap", "--all", "--yes"]);
    assert!(now(&files) == files);
    let (mut seed, mut killed, mut halves) = (13_u64, 0, 0);
    for round in 0..200 {
        let is_begun = now(&files) != files;
        let word = if is_begun && round % 2 == 1 { "unwrap" } else { "wrap" };
        let mut child = home.command(&[word, "--all", "--yes"]).spawn().unwrap();
        thread::sleep(fraction(usual, &mut seed));
        let _ = child.kill();
        killed += usize::from(child.wait().unwrap().code().is_none());
        let found = now(&files);
        for (path, bytes) in &found {
            let is_whole = *bytes == files[path] || *bytes == wrapped[path];
            assert!(is_whole, "round {round}: {}: {}", path.display(), String::from_utf8_lossy(bytes));
        }
        halves += usize::from(found != files && found != wrapped);
    }
    assert!(killed > 20 && halves > 5, "{killed} were killed, {halves} between two files");
    home.run(&["unwrap", "--all", "--yes"]);
    assert!(now(&files) == files);
}

/// A shim is known by its words, wherever its program was.
#[test]
fn what_a_program_that_is_gone_has_wrapped_is_repaired_or_unwrapped_by_another() {
    let (home, files) = home(0);
    let old = home.path().join("old/rescind");
    fs::create_dir(old.parent().unwrap()).unwrap();
    symlink(RESCIND, &old).unwrap();
    let usual = home.command(&["wrap", "--all", "--yes"]);
    let environment = usual.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let mut command = Command::new(&old);
    command.args(["wrap", "--all", "--yes"]).env_clear().envs(environment).current_dir(home.path());
    assert!(command.output().unwrap().status.success());
    fs::remove_file(&old).unwrap();
    let is_of_old = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).contains(old.to_str().unwrap());
    assert!(now(&files).values().filter(|bytes| is_of_old(bytes)).count() >= 20);
    home.says(&["unwrap", "--all", "--yes"]);
    assert!(now(&files) == files);

    // Or repaired.
    symlink(RESCIND, &old).unwrap();
    assert!(command.output().unwrap().status.success());
    fs::remove_file(&old).unwrap();
    home.says(&["wrap", "--all", "--yes"]);
    assert!(!now(&files).values().any(is_of_old));
    home.says(&["unwrap", "--all", "--yes"]);
    assert!(now(&files) == files);
}

/// Files of a project that others may share, by patterns, too.
#[test]
fn a_file_of_a_project_is_found_by_its_pattern_and_gets_the_bare_word() {
    let home = Home::new();
    let text = "name: x\nmcpServers:\n  - name: a\n    command: npx\n    args:\n      - -y\n";
    let path = home.put(Path::new(".continue/mcpServers/mine.yaml"), text.as_bytes());
    home.put(Path::new(".continue/mcpServers/notes.txt"), b"mcpServers");
    let folder = home.put(Path::new("work/.continue/mcpServers/mine.yaml"), text.as_bytes());
    // In the home it is the user's own.
    home.says(&["wrap", "--all", "--yes"]);
    assert!(fs::read_to_string(&path).unwrap().contains(RESCIND));
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let file = folder.to_str().unwrap();
    home.says(&["wrap", "--file", file, "--yes"]);
    let now = fs::read_to_string(&folder).unwrap();
    assert!(now.contains("    command: \"rescind\"\n    args:\n      - \"run\"\n      - \"--name=a\"\n      - \"--client-name=continue\"\n      - npx\n      - -y\n"), "{now}");
    home.says(&["unwrap", "--file", file, "--yes"]);
    assert_eq!(fs::read_to_string(folder).unwrap(), text);
}

/// What YAML cannot have changed safely is named with a way to do it by hand, and is left as it is.
#[test]
fn what_is_left_alone_in_yaml_is_said_with_a_way_by_hand() {
    let (home, _) = home(0);
    let path = home.folders().config.join("goose/config.yaml");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wrap/tests/corpus/goose.unclear.yaml");
    home.put(&path, &fs::read(sample).unwrap());
    let said = home.says(&["wrap", "--client", "goose", "--yes"]);
    for (server, why) in [
        ("merged", "a merge key (`<<`)"),
        ("whole", "is an alias"),
        ("arguments", "is an alias"),
        ("program", "has an anchor"),
        ("tagged", "a tag"),
        ("shared", "repeats it by an alias"),
        ("lines", "over several lines"),
        ("comma", "put it in quotes"),
        ("number", "not a list of strings"),
        ("question", "not one word and a colon"),
        ("nested", "each `-` at the start of a line"),
        ("line", "a whole shell line"),
    ] {
        let line = said
            .lines()
            .find(|line| line.split_whitespace().nth(1) == Some(server))
            .unwrap_or_else(|| panic!("{server}: {said}"));
        assert!(line.trim_start().starts_with("leave") && line.contains(why), "{line}");
    }
    assert!(said.contains("wrapped 2 servers in 1 file"), "{said}");
    let said = home.says(&["wrap", "--client", "goose", "--yes", "--urls"]);
    assert!(said.contains("nothing to wrap"), "{said}");
}
