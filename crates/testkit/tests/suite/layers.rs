//! Arrows between our crates point one way, what the engine depends on is a decision, and the door of HTTP knows nothing behind it.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::source::{rust_files, tokens};

/// Our crates, and which of ours each may use. Nothing may use the command.
const LAYERS: [(&str, &[&str]); 15] = [
    ("rescind-wire", &[]),
    ("rescind-parts", &["rescind-wire"]),
    ("rescind-proto", &["rescind-wire", "rescind-parts"]),
    ("rescind-feed", &[]),
    ("rescind-wrap", &[]),
    ("rescind-sign-in", &[]),
    ("rescind-ledger", &["rescind-feed"]),
    ("rescind", &["rescind-proto", "rescind-feed", "rescind-ledger"]),
    ("rescind-http", &["rescind-parts", "rescind-proto", "rescind", "rescind-sign-in"]),
    ("rescind-tasks", &["rescind-proto", "rescind"]),
    ("rescind-operator", &["rescind-feed", "rescind-ledger"]),
    ("rescind-console", &["rescind-proto", "rescind-feed", "rescind-ledger", "rescind-operator"]),
    ("rescind-demo", &["rescind-proto", "rescind"]),
    ("rescind-testkit", &["rescind-proto", "rescind-feed"]),
    (
        "rescind-cli",
        &[
            "rescind-proto",
            "rescind-feed",
            "rescind",
            "rescind-http",
            "rescind-operator",
            "rescind-console",
            "rescind-demo",
            "rescind-tasks",
            "rescind-testkit",
            "rescind-wrap",
            "rescind-ledger",
            "rescind-sign-in",
        ],
    ),
];

/// Any crate's tests may use the sample peers.
const FOR_TESTS: &str = "rescind-testkit";

/// What the engine and the crate below it are built on; a new entry is defended in the first lines of the engine.
const ENGINE_DEPENDENCIES: [(&str, &[&str]); 3] = [
    ("rescind-proto", &["hashbrown", "rescind-parts", "rescind-wire"]),
    ("rescind-parts", &["foldhash", "hashbrown", "rescind-wire"]),
    ("rescind-wire", &["fearless_simd", "itoa", "memchr", "simdutf8"]),
];

#[test]
fn arrows_between_crates_point_one_way() {
    assert_eq!(violations(&workspace()), Vec::<String>::new());
}

#[test]
fn the_door_of_the_http_server_knows_no_link_no_session_and_no_stream() {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../http/src/server");
    let files = [vec![server.join("door.rs")], rust_files(&server.join("door"))].concat();
    assert!(files.len() > 1, "no door at {}", server.display());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let known = ["HttpServer", "LinkKey", "SessionKey", "StreamKey", "ReplyKey"];
        let found: Vec<String> = tokens(&text).into_iter().filter(|token| known.contains(&token.as_str())).collect();
        assert!(found.is_empty(), "{} names {found:?}", file.display());
    }
}

#[test]
fn the_engine_depends_on_what_was_decided_and_nothing_else() {
    let metadata = workspace();
    for (package, decided) in ENGINE_DEPENDENCIES {
        let engine = packages(&metadata).find(|found| name(found) == package).unwrap();
        let mut found: Vec<&str> =
            dependencies(engine).filter(|dependency| !is_for_tests(dependency)).map(name).collect();
        found.sort_unstable();
        assert_eq!(found, decided, "{package}");
    }
}

#[test]
fn no_crate_may_use_the_command() {
    assert!(LAYERS.iter().all(|(_, allowed)| !allowed.contains(&"rescind-cli")));
}

#[test]
fn an_arrow_that_points_back_is_found() {
    for kind in [Value::Null, json!("build"), json!("dev")] {
        let found = violations(&one_package("rescind-proto", "rescind", &kind));
        assert_eq!(found, ["rescind-proto depends on rescind"], "kind {kind}");
    }
    let found = violations(&one_package("rescind", "rescind-cli", &Value::Null));
    assert_eq!(found, ["rescind depends on rescind-cli"]);
}

#[test]
fn only_tests_may_use_the_sample_peers() {
    let in_tests = one_package("rescind", FOR_TESTS, &json!("dev"));
    assert_eq!(violations(&in_tests), Vec::<String>::new());
    let in_earnest = one_package("rescind", FOR_TESTS, &Value::Null);
    assert_eq!(violations(&in_earnest), ["rescind depends on rescind-testkit"]);
}

#[test]
fn a_crate_without_a_layer_is_found() {
    let found = violations(&one_package("rescind-new", "rescind-proto", &Value::Null));
    assert_eq!(found, ["rescind-new has no layer: add it to LAYERS"]);
}

/// Every arrow of the workspace that points the wrong way, in words.
fn violations(metadata: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for package in packages(metadata) {
        let Some((_, allowed)) = LAYERS.iter().find(|(known, _)| *known == name(package)) else {
            found.push(format!("{} has no layer: add it to LAYERS", name(package)));
            continue;
        };
        for dependency in dependencies(package).filter(|dependency| is_ours(dependency)) {
            // Its own tests turn on what a crate leaves out by default.
            let excused = [FOR_TESTS, name(package)].contains(&name(dependency)) && is_for_tests(dependency);
            if !excused && !allowed.contains(&name(dependency)) {
                found.push(format!("{} depends on {}", name(package), name(dependency)));
            }
        }
    }
    found
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().expect("cargo metadata lists packages").iter()
}

fn dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    package["dependencies"].as_array().expect("a package lists dependencies").iter()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("a package has a name")
}

fn is_ours(dependency: &Value) -> bool {
    dependency["path"].is_string()
}

fn is_for_tests(dependency: &Value) -> bool {
    dependency["kind"] == "dev"
}

fn workspace() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// What `cargo metadata` would say of one package with one dependency of ours.
fn one_package(package: &str, dependency: &str, kind: &Value) -> Value {
    json!({"packages": [{
        "name": package,
        "dependencies": [{"name": dependency, "kind": kind, "path": "crates/it"}],
    }]})
}
