//! `rescind mcp`, as an agent on the TypeScript SDK uses it, which checks each result against its tool's schema.

use serde_json::Value;

use super::parts::{not_installed, peers, text};
use super::play::skip;
use super::programs::Bench;

#[test]
fn an_agent_on_a_real_sdk_lists_cancels_and_stops() {
    if let Some(part) = not_installed(&["node/mcp1/node_modules"], &["node"]) {
        assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{part}");
        return skip(part);
    }
    let bench = Bench::new(&[]);
    let script = text(&peers().join("node/mcp1/agent.mjs"));
    let words =
        ["node".to_owned(), script, "agent".to_owned(), "--".to_owned(), env!("CARGO_BIN_EXE_rescind").to_owned()];
    let mut command = bench.command(&words);
    let marks = bench.file("work");
    command.env("RESCIND_SAMPLE_MARKS", &marks);
    let ended = bench.run("agent", command);
    assert_eq!(ended.exit, "code 0", "{}{}", ended.stdout, ended.stderr);
    let seen: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| seen.iter().filter(|line| line["saw"] == name).collect::<Vec<_>>();

    assert_eq!(of("tools")[0]["names"].to_string(), r#"["list_in_flight","receipt","cancel","stop"]"#);
    assert_eq!(of("tools")[0]["schemas"], 4);
    let listed = &of("list_in_flight")[0]["structured"]["requests"];
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["tool"]), (1, &Value::from("obeys")), "{listed}");
    assert!(listed[0]["progress"]["done"].is_number(), "{listed}");
    let receipts = of("receipt");
    assert!(receipts[0]["structured"].get("work").is_none(), "{receipts:?}");
    assert_eq!(receipts[1]["structured"]["reason"], "no longer wanted", "{receipts:?}");
    let cancels = of("cancel");
    assert_eq!(cancels[0]["structured"]["accepted"], true, "{cancels:?}");
    assert_eq!(cancels[1]["failed"], true, "{cancels:?}");
    // Also that which was cancelled before, since its server did not confirm that (D52).
    let stopped = of("stop")[0]["structured"]["requests"].as_array().unwrap();
    let work: Vec<_> = stopped.iter().map(|one| one["work"].as_str()).collect();
    assert_eq!(work, [Some("unknown"); 2], "{stopped:?}");
    assert_eq!(of("reports")[0]["some"], true);

    // The work itself says that it stopped, twice.
    let marks = std::fs::read_to_string(marks).unwrap();
    assert_eq!(marks.matches(r#""mark":"stopped""#).count(), 2, "{marks}");
}
