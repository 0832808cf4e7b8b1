//! `rescind demo`: both acts judge themselves by the marks of the work.

use serde_json::{Value, json};

use super::world::World;

#[test]
fn the_demo_goes_as_expected() {
    let Some(world) = World::new() else { return };
    let run = world.rescind(&["demo", "--json"]);
    let story: Value = serde_json::from_slice(&run.stdout).unwrap();
    for act in ["stop", "shim"] {
        assert_eq!(story[act]["unexpected"], json!([]), "{story:#}");
        assert_eq!(story[act]["end"]["leftBehind"], false, "{story:#}");
    }
    for row in story["stop"]["rows"].as_array().unwrap() {
        assert!(row["stoppedMs"].as_f64() >= story["stop"]["stopMs"].as_f64(), "{row:#}");
    }
    assert_eq!(run.status.code(), Some(0));
}

#[test]
fn the_picture_is_text_of_utf_8() {
    let Some(world) = World::new() else { return };
    let run = world.rescind(&["demo"]);
    let text = String::from_utf8(run.stdout).unwrap();
    assert_eq!(text.matches("All as expected").count(), 2, "{text}");
    assert!(text.contains("│ └ make") && !text.contains('\x1b'), "{text}");
}
