//! `server.json`, the entry for the registry of MCP servers.
//!
//! The rules are those of the schema 2025-12-11, as far as the entry uses them.

use serde_json::{Value, json};

use super::agent::file;

#[test]
fn the_entry_for_the_registry_follows_its_schema_and_names_the_packages_that_are_built() {
    let entry: Value = serde_json::from_slice(&std::fs::read(file("server.json")).unwrap()).unwrap();
    let known = ["$schema", "name", "title", "description", "version", "packages"];
    let members = entry.as_object().unwrap();
    assert!(
        members.keys().all(|member| known.contains(&member.as_str())),
        "not checked here, or not published: {entry}"
    );
    let text = |member: &str| entry[member].as_str().unwrap();
    assert!(text("$schema").ends_with("/2025-12-11/server.schema.json"));
    let (namespace, name) = text("name").split_once('/').unwrap();
    let allowed = |part: &str, marks: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
    };
    assert!(allowed(namespace, ".-") && allowed(name, "._-") && text("name").len() <= 200);
    for member in ["title", "description"] {
        assert!((1..=100).contains(&text(member).chars().count()), "{member}");
    }
    assert_eq!(text("version"), env!("CARGO_PKG_VERSION"));

    // The registry looks for the entry's name in the packages.
    let built = std::fs::read_to_string(file("packages/description.toml")).unwrap();
    assert!(built.contains(&format!("\nmcp_name = \"{}\"\n", text("name"))), "{built}");
    assert!(built.contains("\nname = \"rescind\"\n"), "{built}");
    let package = |of: &str, starts: &str| {
        json!({
            "registryType": of,
            "identifier": "rescind",
            "version": env!("CARGO_PKG_VERSION"),
            "runtimeHint": starts,
            "packageArguments": [{ "type": "positional", "value": "mcp" }],
            "transport": { "type": "stdio" },
        })
    };
    assert_eq!(entry["packages"], json!([package("npm", "npx"), package("pypi", "uvx")]));
}
