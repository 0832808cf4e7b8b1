//! What who POSTs a cancel is told of it (D41).

use rescind_http::server::HttpServerConfig;
use rescind_proto::link::CancelFate;

use crate::rig::*;

const FATE: &str = "rescind-cancel";

#[test]
fn a_cancel_is_answered_once_something_is_known_of_it_and_says_what() {
    for fate in [CancelFate::Delivered, CancelFate::Seen, CancelFate::Stopped, CancelFate::NotFound] {
        let mut rig = Rig::new();
        let client = rig.session(LEGACY);
        rig.post_to(&client, &call("1"));
        rig.at(client.link);
        let told = rig.post_to(&client, &cancel("1"));
        assert_eq!(rig.read(told).status, 0, "nothing is known yet");
        rig.tell(client.link, "1", fate);
        // What is known later concerns nobody.
        rig.tell(client.link, "1", CancelFate::Unknown);
        let answer = rig.read(told);
        assert_eq!((answer.status, answer.header(FATE)), (202, Some(fate.as_str())));
        rig.leaves_nothing();
    }
}

#[test]
fn what_is_not_known_within_a_second_is_unknown() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    rig.post_to(&client, &call("1"));
    rig.at(client.link);
    let told = rig.post_to(&client, &cancel("1"));
    rig.pass_millis(999);
    assert_eq!(rig.read(told).status, 0);
    rig.pass_millis(1);
    let answer = rig.read(told);
    assert_eq!((answer.status, answer.header(FATE)), (202, Some("unknown")));
    rig.tell(client.link, "1", CancelFate::Delivered);
    rig.leaves_nothing();
}

#[test]
fn nothing_more_is_known_of_the_cancels_of_a_link_that_ends() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    rig.post_to(&client, &call("1"));
    rig.at(client.link);
    let told = rig.post_to(&client, &cancel("1"));
    rig.close(client.link);
    assert_eq!(rig.read(told).header(FATE), Some("unknown"));
    rig.leaves_nothing();
}

#[test]
fn a_second_cancel_does_not_take_the_answer_of_the_first() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    rig.post_to(&client, &call("1"));
    rig.at(client.link);
    let first = rig.post_to(&client, &cancel("1"));
    let second = rig.post_to(&client, &cancel("1"));
    assert_eq!(rig.read(first).header(FATE), Some("unknown"));
    rig.tell(client.link, "1", CancelFate::Delivered);
    assert_eq!(rig.read(second).header(FATE), Some("delivered"));
    rig.leaves_nothing();
}

#[test]
fn who_leaves_before_is_told_nothing_and_the_cancel_goes_on() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    rig.post_to(&client, &call("1"));
    rig.at(client.link);
    let told = rig.post_to(&client, &cancel("1"));
    rig.hang_up(told);
    assert_eq!(rig.at(client.link), [cancel("1")]);
    rig.leaves_nothing();
}

/// One that could be another's is passed on to nobody, and its sender hears that at once.
#[test]
fn a_cancel_by_an_ambiguous_id_is_refused() {
    let mut rig = Rig::with(HttpServerConfig::default());
    let client = rig.session(LEGACY);
    for _ in 0..2 {
        rig.post_to(&client, &call("1"));
    }
    rig.at(client.link);
    let told = rig.post_to(&client, &cancel("1"));
    let answer = rig.read(told);
    assert_eq!((answer.status, answer.header(FATE)), (202, Some("refused")));
    rig.leaves_nothing();
}
