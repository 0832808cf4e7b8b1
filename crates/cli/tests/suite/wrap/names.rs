//! `wrap` tells each shim what its entry is called, and of which client it is.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{CURSOR, Home, PLAIN, RESCIND};

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Odd names, and whether a command can carry them.
fn odd() -> [(String, bool); 16] {
    let plain = ["my server", "it's \"mine\"", "検索 – ü", "-x", "--", "--url", "a=b", "a/b:c", "C:\\x", " "];
    let long = "n".repeat(300);
    let [a, b, c, d, e, f, g, h, i, j] = plain.map(|name| (name.to_owned(), true));
    let odd = ["", "a\nb", "${HOME}", "$HOME", "{env:HOME}"].map(|name| (name.to_owned(), false));
    let [k, l, m, n, o] = odd;
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, (long, true)]
}

#[test]
fn entries_of_odd_names_are_wrapped_and_are_what_they_were_after_that() {
    let home = Home::new();
    let servers: serde_json::Map<String, Value> =
        odd().iter().map(|(name, _)| (name.clone(), json!({"command": "npx", "args": ["-y", "a"]}))).collect();
    let text = format!("{:#}\n", json!({ "mcpServers": servers }));
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    home.says(&["wrap", "--all", "--yes", "--", "--timeout", "5m"]);
    let now = read(&path);
    for (name, is_carried) in odd() {
        let words: Vec<&str> =
            now["mcpServers"][&name]["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let flag = format!("--name={name}");
        let flags = if is_carried { vec![flag.as_str()] } else { Vec::new() };
        let expected = [&["run"], &*flags, &["--client-name=cursor", "--timeout", "5m", "npx", "-y", "a"]].concat();
        assert_eq!(words, expected, "{name:?}");
    }
    assert!(home.says(&["wrap", "--all", "--yes"]).contains("nothing to wrap"));
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

/// As an older release has written it.
fn older(text: &str) -> String {
    text.replacen(
        "\"npx\", \"args\": [",
        &format!("\"{RESCIND}\", \"args\": [\"run\", \"--timeout\", \"5m\", \"npx\", "),
        1,
    )
    .replacen("\"command\": \"b\"", &format!("\"command\": \"{RESCIND}\", \"args\": [\"run\", \"b\"]"), 1)
}

#[test]
fn entries_that_an_older_release_has_wrapped_are_unwrapped() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), older(PLAIN).as_bytes());
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(
        read(&path),
        json!({"mcpServers": {
            "a": {"command": "npx", "args": ["-y", "a"]},
            "b": {"command": "b", "args": []},
        }})
    );
}

#[test]
fn entries_that_an_older_release_has_wrapped_are_told_their_names_and_keep_their_flags() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), older(PLAIN).as_bytes());
    let said = home.says(&["wrap", "--all", "--dry-run"]);
    assert!(
        said.contains("  name    a                    has a shim, which is told its name and its client"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), older(PLAIN));
    let said = home.says(&["wrap", "--all", "--yes"]);
    assert!(said.contains("named 2 shims in 1 file"), "{said}");
    let names = |name: &str| format!("\"run\", \"--name={name}\", \"--client-name=cursor\"");
    let expected = older(PLAIN).replacen("\"run\"", &names("a"), 1).replacen(
        "\"run\", \"b\"",
        &format!("{}, \"b\"", names("b")),
        1,
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    assert!(home.says(&["wrap", "--all", "--yes"]).contains("nothing to wrap"));
}

/// The journal knows that `b` had no arguments: so it is unwrapped, whatever name its shim was told since.
#[test]
fn a_renamed_entry_is_told_its_new_name_and_unwraps_to_the_same_bytes() {
    let home = Home::new();
    let lines = PLAIN.replace("{\"command\": \"b\"}", "{\n    \"command\": \"b\"\n  }");
    for text in [PLAIN, &*lines] {
        let path = home.put(Path::new(CURSOR), text.as_bytes());
        home.says(&["wrap", "--all", "--yes"]);
        let renamed = fs::read_to_string(&path).unwrap().replacen("--name=b", "--name=older", 1);
        fs::write(&path, renamed).unwrap();
        let said = home.says(&["wrap", "--all", "--yes"]);
        assert!(said.contains("named 1 shim in 1 file"), "{said}");
        assert_eq!(read(&path)["mcpServers"]["b"]["args"], json!(["run", "--name=b", "--client-name=cursor", "b"]));
        home.says(&["unwrap", "--all", "--yes"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_shim_before_a_url_is_told_its_names_and_gives_the_url_back() {
    let home = Home::new();
    let text = "{\"mcpServers\": {\"api\": {\"url\": \"http://localhost:1/mcp\", \"headers\": {\"X-Key\": \"k\"}}}}\n";
    let path = home.put(Path::new(CURSOR), text.as_bytes());
    home.says(&["wrap", "--all", "--yes", "--urls"]);
    let wrapped = fs::read_to_string(&path).unwrap();
    let older = wrapped.replacen("\"--name=api\", \"--client-name=cursor\", ", "", 1);
    assert!(older.len() < wrapped.len(), "{wrapped}");
    fs::write(&path, &older).unwrap();
    let said = home.says(&["wrap", "--all", "--yes", "--urls"]);
    assert!(said.contains("named 1 shim in 1 file"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), wrapped);
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_name_that_a_person_gives_counts_and_stays() {
    let home = Home::new();
    let path = home.put(Path::new(CURSOR), PLAIN.as_bytes());
    home.says(&["wrap", "--server", "a", "--yes", "--", "--name=mine"]);
    let words = read(&path)["mcpServers"]["a"]["args"].clone();
    assert_eq!(words, json!(["run", "--name=a", "--client-name=cursor", "--name=mine", "npx", "-y", "a"]));
    assert!(home.says(&["wrap", "--server", "a", "--yes"]).contains("nothing to wrap"));
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), PLAIN);
}
