//! What passes through, whole.

use serde_json::json;

use super::world::World;

#[test]
fn lines_that_end_as_windows_ends_them_are_messages() {
    let Some(world) = World::new() else { return };
    let mut client = world.client(&[], &world.server(&["crlf"]));
    let mut family = world.family();
    client.answer(0);
    client.call(1, "work", &json!({}));
    assert_eq!(family[0].next(), json!({"works": 1}));
    client.cancel(1);
    assert_eq!(family[0].next(), json!({"cancelled": 1}));
    client.call(2, "mirror", &json!({"text": "a"}));
    assert_eq!(client.answer(2).0["result"], json!({"text": "a"}));
}

#[test]
fn a_huge_message_passes_both_ways_to_a_client_that_reads_late() {
    let Some(world) = World::new() else { return };
    let mut client = world.client(&[], &world.server(&[]));
    let mut family = world.family();
    client.answer(0);
    let text = "\u{e9}x".repeat(8 << 20 >> 1);
    client.call(1, "mirror", &json!({"text": text}));
    // Nothing was read yet.
    assert_eq!(family[0].next(), json!({"mirrored": 1}));
    assert!(client.answer(1).0["result"] == json!({"text": text}));
}
