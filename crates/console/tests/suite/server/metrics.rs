//! What a scraper gets.

use std::collections::{BTreeMap, BTreeSet};

use rescind_feed::{Counters, Histogram};
use rescind_testkit::fake_shim::{FakeShim, session};

use super::rig::Rig;

#[test]
fn a_scraper_needs_the_key_and_gets_every_session() {
    let rig = Rig::new();
    let (_one, two) = (rig.shim("4711"), FakeShim::open(rig.sockets(), session("4712", &["evil\"\\\n{} 1"])));
    two.put_counters(Counters {
        requests: BTreeMap::from([("client".into(), 17), ("server".into(), 3)]),
        outcomes: BTreeMap::from([("sent".into(), 2)]),
        violations: BTreeMap::from([("server MCP-I02".into(), 1)]),
        cancel_to_settled: Histogram { bounds: vec![1_000, 10_000], counts: vec![1, 1, 1], sum: 31_000 },
        ..Counters::default()
    });
    let stopped = rig.shim("4713");
    stopped.freeze();
    assert_eq!(rig.read("/metrics", &[]).status, 403);
    assert_eq!(rig.read("/metrics", &["Authorization: Bearer 00000000000000000000000000000000"]).status, 403);
    assert_eq!(rig.read("/metrics", &[&format!("Authorization: Basic {}", rig.key)]).status, 403);
    let bearer = format!("Authorization: Bearer {}", rig.key);
    assert_eq!(rig.read("/events", &[&bearer]).status, 403, "the header opens nothing else");
    for (path, headers) in [("/metrics".to_owned(), vec![bearer.as_str()]), (rig.inside("metrics"), vec![])] {
        let answer = rig.read(&path, &headers);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let samples = parsed(&answer.body);
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let of = |name: &str, more: &[(String, String)]| {
            let mut labels = BTreeSet::from([label("session", "4712"), label("command", "evil\"\\\n{} 1")]);
            labels.extend(more.iter().cloned());
            samples.get(&(name.to_owned(), labels)).copied()
        };
        assert_eq!(samples.get(&("rescind_shims".into(), BTreeSet::new())), Some(&2.0));
        assert_eq!(samples.get(&("rescind_shim_unreachable".into(), BTreeSet::new())), Some(&1.0));
        assert_eq!(of("rescind_requests_total", &[label("side", "client")]), Some(17.0));
        assert_eq!(of("rescind_cancel_outcomes", &[label("outcome", "sent")]), Some(2.0));
        let broken = [label("side", "server"), label("rule", "MCP-I02")];
        assert_eq!(of("rescind_violations_total", &broken), Some(1.0));
        assert_eq!(of("rescind_cancel_settled_seconds_bucket", &[label("le", "0.01")]), Some(2.0));
        assert_eq!(of("rescind_cancel_settled_seconds_bucket", &[label("le", "+Inf")]), Some(3.0));
        assert_eq!(of("rescind_cancel_settled_seconds_sum", &[]), Some(0.031));
    }
}

type Samples = BTreeMap<(String, BTreeSet<(String, String)>), f64>;

/// Reads the text format as strictly as its description allows: families in one piece, each with help and type before
/// its samples, known suffixes only, no sample twice, buckets that grow.
fn parsed(text: &str) -> Samples {
    let mut samples = Samples::new();
    let (mut families, mut family, mut kind) = (BTreeSet::new(), String::new(), String::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap().to_owned();
            assert!(families.insert(family.clone()), "{family} comes twice");
            kind.clear();
        } else if let Some(types) = line.strip_prefix("# TYPE ") {
            let (name, of) = types.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert!(["counter", "gauge", "histogram"].contains(&of), "{line}");
            assert_eq!(name.ends_with("_total"), of == "counter", "{line}");
            of.clone_into(&mut kind);
        } else {
            let (name, labels, value) = sample(line);
            let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} in {family}"));
            let known: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(known.contains(&suffix), "{line}");
            assert_eq!(suffix == "_bucket", labels.iter().any(|(name, _)| name == "le"), "{line}");
            assert!(samples.insert((name, labels), value).is_none(), "{line} comes twice");
        }
    }
    samples
}

fn sample(line: &str) -> (String, BTreeSet<(String, String)>, f64) {
    let name: String = line.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    assert!(name.starts_with("rescind_"), "{line}");
    let mut rest = &line[name.len()..];
    let mut labels = BTreeSet::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap();
            assert!(label.chars().all(|c| c.is_ascii_lowercase()), "{line}");
            let (value, after) = value(after);
            assert!(labels.insert((label.to_owned(), value)), "{line}");
            match after.strip_prefix(',') {
                Some(after) => rest = after,
                None => {
                    rest = after.strip_prefix('}').unwrap();
                    break;
                }
            }
        }
    }
    (name, labels, rest.strip_prefix(' ').unwrap().parse().unwrap())
}

/// A label's value up to its quote, and what follows.
fn value(text: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, c @ ('\\' | '"'))) => value.push(c),
                other => panic!("{other:?} escaped"),
            },
            c => value.push(c),
        }
    }
    panic!("a value without an end: {text}");
}
