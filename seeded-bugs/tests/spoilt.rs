//! The bug in what is read of a line is found by the answers that are spoilt in every way.

use std::panic::catch_unwind;

use rescind_proto::bug::{self, SeededBug};

use crate::spoilt;

#[test]
fn the_generator_of_spoilt_answers_finds_the_bug() {
    spoilt::what_stands_behind_a_message_on_its_line_is_read_and_both_answers_arrive();
    let checks: [fn(); 2] = [
        spoilt::a_spoilt_answer_ends_the_request_that_it_names_and_no_other,
        spoilt::what_stands_behind_a_message_on_its_line_is_read_and_both_answers_arrive,
    ];
    for check in checks {
        assert!(catch_unwind(|| bug::with(SeededBug::GluedAnswerLost, check)).is_err());
    }
}
