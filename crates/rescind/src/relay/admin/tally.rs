//! The relay's counts as counters of the feed.

use std::collections::BTreeMap;

use rescind_feed as feed;
use rescind_proto::{
    relay::{Histogram, Relay, Tally, WordCounts},
    side::{Side, Sides},
};

pub(super) fn counters(relay: &Relay) -> feed::Counters {
    let Tally { requests, answered, answered_here, silent, gone, .. } = relay.tally();
    let Tally { cancels, outcomes, unheeded, late, timeouts, .. } = relay.tally();
    let Tally { limited, stuck, dropped, cancel_to_settled, cancel_to_answer, .. } = relay.tally();
    let settled = [("answered", *answered), ("answered_here", *answered_here), ("silent", *silent), ("gone", *gone)];
    feed::Counters {
        requests: by_side(*requests),
        in_flight: by_side(Sides::from_fn(|side| relay.in_flight(side) as u64)),
        settled: settled.into_iter().map(|(how, count)| (how.to_owned(), count)).collect(),
        cancels: by_word(cancels),
        outcomes: by_word(outcomes),
        unheeded: by_word(unheeded),
        late: by_word(late),
        timeouts: by_word(timeouts),
        limited: by_limit(limited),
        stuck: *stuck,
        released: relay.summaries(Side::Client).filter(|summary| summary.is_released).count() as u64,
        children: relay.children().fold(BTreeMap::new(), |mut counts, child| {
            *counts.entry(child.state.as_str().to_owned()).or_default() += 1;
            counts
        }),
        tasks: relay.tasks().fold(BTreeMap::new(), |mut counts, task| {
            *counts.entry(task.status.as_str().to_owned()).or_default() += 1;
            counts
        }),
        unkept_tasks: relay.unkept_tasks(),
        dropped: *dropped,
        violations: violations(relay),
        cancel_to_settled: histogram(cancel_to_settled),
        cancel_to_answer: histogram(cancel_to_answer),
    }
}

fn by_side(counts: Sides<u64>) -> BTreeMap<String, u64> {
    Side::BOTH.into_iter().map(|side| (side.as_str().to_owned(), counts[side])).collect()
}

fn by_word(counts: &WordCounts) -> BTreeMap<String, u64> {
    counts.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
}

/// Requests that limits refused, by limit.
pub(super) fn by_limit(limited: &BTreeMap<Box<str>, u64>) -> BTreeMap<String, u64> {
    limited.iter().map(|(limit, count)| (limit.to_string(), *count)).collect()
}

fn violations(relay: &Relay) -> BTreeMap<String, u64> {
    let of = |side: Side| {
        let broken = relay.tally().violations[side].iter();
        broken.map(move |(rule, count)| (format!("{} {}", side.as_str(), rule.number()), *count))
    };
    Side::BOTH.into_iter().flat_map(of).collect()
}

fn histogram(histogram: &Histogram) -> feed::Histogram {
    feed::Histogram {
        bounds: Histogram::BOUNDS.to_vec(),
        counts: histogram.counts.to_vec(),
        sum: histogram.sum.as_micros().try_into().unwrap_or(u64::MAX),
    }
}
