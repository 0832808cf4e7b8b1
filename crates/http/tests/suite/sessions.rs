//! Sessions: how they begin, that they are apart, and how they end.

use crate::rig::*;

#[test]
fn a_session_that_ends_before_the_head_of_an_answer_ends_its_response() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    let delete = rig.delete(&client);
    assert_eq!(rig.whole(delete, 204), "");
    let answer = rig.read(key);
    assert!(answer.is_stream() && answer.has_ended && answer.events.is_empty(), "{answer:?}");
    rig.leaves_nothing();
}

#[test]
fn what_a_program_says_after_the_end_of_its_session_is_heard_by_nobody() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let listening = rig.listen(&client);
    rig.read(listening);
    rig.delete(&client);
    for _ in 0..3 {
        rig.say(client.link, &note("late"));
        rig.answer(client.link, "1", "late");
    }
    assert!(rig.read(listening).has_ended);
    assert_eq!(rig.read(listening).messages(), [""; 0]);
    rig.leaves_nothing();
}
