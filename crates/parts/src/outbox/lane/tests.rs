use super::*;

/// A lane of so many frames, each this long.
fn lane(frames: usize, len: usize) -> Lane<()> {
    let mut lane = Lane::new();
    (0..frames).for_each(|_| _ = lane.push((), |out| out.resize(out.len() + len, 0), &mut 0));
    lane
}

fn pop(lane: &mut Lane<()>, frames: usize) {
    (0..frames).for_each(|_| lane.pop(&mut |(), _| ()));
    lane.reclaim();
}

/// Withdraws so many frames, from this number on.
fn withdraw(lane: &mut Lane<()>, from: u64, frames: u64) {
    (from..from + frames).for_each(|number| assert!(lane.withdraw(number).is_some()));
    lane.reclaim();
}

// Otherwise each byte that waits would be moved for every frame that leaves.
#[test]
fn bytes_that_have_left_are_dropped_once_they_are_more_than_those_that_wait() {
    let mut lane = lane(24, KEEP / 8);
    pop(&mut lane, 12);
    assert_eq!(lane.bulk.len(), 3 * KEEP, "they are half of all");
    pop(&mut lane, 1);
    assert_eq!(lane.bulk.len(), 11 * KEEP / 8);
}

#[test]
fn few_bytes_that_have_left_stay_however_few_wait() {
    let mut lane = lane(12, KEEP / 8);
    pop(&mut lane, 8);
    assert_eq!(lane.bulk.len(), 12 * KEEP / 8);
    pop(&mut lane, 1);
    assert_eq!(lane.bulk.len(), 3 * KEEP / 8);
}

#[test]
fn withdrawn_bytes_are_dropped_as_those_that_have_left() {
    let mut lane = lane(24, KEEP / 8);
    pop(&mut lane, 4);
    withdraw(&mut lane, 5, 8);
    assert_eq!(lane.bulk.len(), 3 * KEEP, "they are half of all");
    withdraw(&mut lane, 13, 1);
    assert_eq!(lane.bulk.len(), 11 * KEEP / 8);
    assert_eq!(lane.live(), 11);
}

#[test]
fn withdrawn_frames_are_dropped_once_they_are_more_than_those_that_wait() {
    let mut lane = lane(4 * KEEP_RECORDS, 1);
    withdraw(&mut lane, 1, 2 * KEEP_RECORDS as u64);
    assert_eq!(lane.frames.len(), 4 * KEEP_RECORDS, "they are half of all");
    withdraw(&mut lane, 2 * KEEP_RECORDS as u64 + 1, 1);
    assert_eq!(lane.frames.len(), 2 * KEEP_RECORDS - 1);
}

#[test]
fn few_withdrawn_frames_stay_however_few_wait() {
    let mut lane = lane(KEEP_RECORDS + 2, 1);
    withdraw(&mut lane, 1, KEEP_RECORDS as u64);
    assert_eq!(lane.frames.len(), KEEP_RECORDS + 2);
    withdraw(&mut lane, KEEP_RECORDS as u64 + 1, 1);
    assert_eq!(lane.frames.len(), 1);
}

#[test]
fn a_lane_that_has_emptied_keeps_some_memory_and_not_much() {
    let mut bytes = lane(1, 4 * KEEP);
    pop(&mut bytes, 1);
    assert!((KEEP / 2..=KEEP).contains(&bytes.bulk.capacity()));
    let mut records = lane(4 * KEEP_RECORDS, 0);
    pop(&mut records, 4 * KEEP_RECORDS);
    assert!((KEEP_RECORDS / 2..=KEEP_RECORDS).contains(&records.frames.capacity()));
}
