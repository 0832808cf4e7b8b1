//! The envelope agrees with a full JSON parser, whatever shape a message has.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not find is a failure of the test")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rescind_proto::{
    frame::{self, Frame, Malformed, Params, Reason, ResponseBody, ResponseId},
    id::RequestId,
    json,
};
use serde_json::value::RawValue;

use crate::json_text;

/// The members of an object in their order, keys by their value.
fn members(text: &str) -> Option<Vec<(String, &str)>> {
    struct Ordered<'a>(Vec<(String, &'a str)>);

    impl<'de: 'a, 'a> serde::Deserialize<'de> for Ordered<'a> {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visit;

            impl<'de> serde::de::Visitor<'de> for Visit {
                type Value = Vec<(String, &'de str)>;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                    let mut members = Vec::new();
                    while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                        members.push((key, value.get()));
                    }
                    Ok(members)
                }
            }

            deserializer.deserialize_map(Visit).map(Ordered)
        }
    }

    serde_json::from_str::<Ordered<'_>>(text).ok().map(|Ordered(members)| members)
}

const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

fn check_params(params: &Params<'_>, raw: Option<&str>) {
    assert_eq!(params.raw, raw.map(str::as_bytes));
    let found = raw.and_then(members).unwrap_or_default();
    let last: BTreeMap<_, _> = found.iter().map(|(key, value)| (key.as_str(), value.as_bytes())).collect();
    let ours = [("_meta", params.meta), ("name", params.name), ("sessionId", params.session_id), ("task", params.task)];
    for (name, value) in ours {
        assert_eq!(value, last.get(name).copied(), "{name}");
        assert_eq!(value, raw.and_then(|raw| json::member(raw.as_bytes(), name)), "{name}");
    }
}

fn check(body: &str) {
    let members = members(body).expect("the generator writes objects");
    let value = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
    let names: Vec<_> = members.iter().map(|(key, _)| key.as_str()).filter(|key| ENVELOPE.contains(key)).collect();
    let repeated = names.iter().collect::<BTreeSet<_>>().len() < names.len();
    let parsed = frame::parse(body.as_bytes());
    if let Err(Malformed::Invalid { reason: Reason::RepeatedMember | Reason::EscapedMember, .. }) = parsed {
        assert!(repeated || body.contains("\\u00"));
        return;
    }
    assert!(!repeated);
    let id = value("id");
    match parsed {
        Ok(Frame::Request(request)) => {
            assert_eq!(&body[request.id_span], id.unwrap());
            assert_eq!(Some(&request.id), RequestId::from_json(id.unwrap().as_bytes()).as_ref());
            let mut written = Vec::new();
            request.id.write(&mut written);
            assert_eq!(written, id.unwrap().as_bytes());
            assert_eq!(request.method, serde_json::from_str::<String>(value("method").unwrap()).unwrap());
            check_params(&request.params, value("params"));
        }
        Ok(Frame::Notification(notification)) => {
            assert_eq!(id, None);
            assert_eq!(notification.method, serde_json::from_str::<String>(value("method").unwrap()).unwrap());
            check_params(&notification.params, value("params"));
        }
        Ok(Frame::Response(response)) => {
            match (response.id, id) {
                (None, None) => assert_eq!(response.id_span, 0..0),
                (Some(ResponseId::Exact(found)), Some(text)) => {
                    assert_eq!(Some(found), RequestId::from_json(text.as_bytes()));
                    assert_eq!(&body[response.id_span], text);
                }
                (Some(ResponseId::Loose(found)), Some(text)) => {
                    assert_eq!(serde_json::from_str::<f64>(text).unwrap(), found as f64);
                }
                pair => panic!("{pair:?}"),
            }
            match response.body {
                ResponseBody::Result(result) => assert_eq!(Some(result), value("result").map(str::as_bytes)),
                ResponseBody::Error(error) => assert_eq!(Some(error), value("error").map(str::as_bytes)),
            }
        }
        Ok(Frame::Batch(_)) => panic!("an object is no batch"),
        Err(Malformed::NotJson) => panic!("it is JSON"),
        Err(Malformed::Invalid { reason, .. }) => match reason {
            Reason::BadId => {
                assert!(RequestId::from_json(id.unwrap().as_bytes()).is_none());
            }
            Reason::BadMethod => assert!(!value("method").unwrap().starts_with('"')),
            Reason::MixedKinds => assert!(value("result").is_some() || value("error").is_some()),
            Reason::TwoOutcomes => assert!(value("result").is_some() && value("error").is_some()),
            Reason::NoKind => assert!(value("result").is_none() && value("method").is_none_or(|it| it == "null")),
            Reason::NoObject
            | Reason::EmptyBatch
            | Reason::NestedBatch
            | Reason::RepeatedMember
            | Reason::EscapedMember
            | Reason::BadError => panic!("{reason:?}"),
            _ => panic!("what is {reason:?}?"),
        },
    }
}

/// A message is read if and only if a full parser reads it; members of a batch are judged by themselves.
fn agree(body: &[u8]) {
    let is_json = serde_json::from_slice::<&RawValue>(body).is_ok();
    match frame::parse(body) {
        Ok(Frame::Batch(batch)) => {
            for member in batch.members() {
                let is_json = serde_json::from_slice::<&RawValue>(member).is_ok();
                assert_eq!(
                    is_json,
                    !matches!(frame::parse_member(member), Err(Malformed::NotJson)),
                    "{}",
                    member.escape_ascii()
                );
            }
        }
        parsed => assert_eq!(is_json, !matches!(parsed, Err(Malformed::NotJson)), "{}", body.escape_ascii()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn messages_are_read_as_a_full_parser_reads_them(body in json_text::message()) {
        check(&body);
    }

    #[test]
    fn batches_have_the_elements_that_a_full_parser_finds(
        bodies in proptest::collection::vec(prop_oneof![json_text::message(), json_text::value()], 1..5),
    ) {
        let body = format!("[{}]", bodies.join(","));
        let Ok(Frame::Batch(batch)) = frame::parse(body.as_bytes()) else { panic!("{body}") };
        let expected: Vec<&RawValue> = serde_json::from_str(&body).unwrap();
        let found: Vec<_> = batch.members().collect();
        prop_assert_eq!(batch.len(), expected.len());
        prop_assert_eq!(found, expected.iter().map(|raw| raw.get().as_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn a_value_ends_where_a_full_parser_ends_it(value in json_text::value(), after in "[ ,}\\]]{0,80}") {
        let text = format!("{value}{after}");
        prop_assert_eq!(json::value_end(text.as_bytes(), 0), Some(value.len()));
    }

    #[test]
    fn json_with_one_byte_changed_is_read_if_and_only_if_a_full_parser_reads_it(
        body in json_text::message(),
        at in any::<proptest::sample::Index>(),
        byte in prop_oneof![any::<u8>(), proptest::sample::select(b"{}[]\",:\\ 1.-e\ntfnu'/\t".to_vec())],
        how in 0..3,
    ) {
        let mut body = body.into_bytes();
        let at = at.index(body.len());
        match how {
            0 => body[at] = byte,
            1 => body.insert(at, byte),
            _ => _ = body.remove(at),
        }
        agree(&body);
    }

    #[test]
    fn what_other_languages_take_for_json_is_never_read_as_a_message(
        (body, spoilt) in json_text::message().prop_flat_map(|body| {
            let places: Vec<usize> = body.bytes().enumerate().filter(|(_, byte)| b"{}[]\",:".contains(byte)).map(|(at, _)| at).collect();
            (Just(body), proptest::sample::select(places), proptest::sample::select(json_text::FOREIGN.to_vec()))
        })
        .prop_map(|(body, at, foreign)| (format!("{}{}{}", &body[..at], foreign, &body[at..]), foreign)),
    ) {
        agree(body.as_bytes());
        prop_assert!(body.contains(spoilt));
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read_but_never_panic(
        body in proptest::collection::vec(prop_oneof![any::<u8>(), proptest::sample::select(b"{}[]\",:\\ 1\n".to_vec())], 0..200),
    ) {
        let _ = frame::parse(&body);
        let _ = frame::parse_member(&body);
        let _ = json::value_end(&body, 0);
        let _ = json::unescape(&body);
        let _ = json::lookup(&body, &["a", "b"]);
        let _ = json::members(&body).map(Iterator::count);
        let _ = json::elements(&body).map(Iterator::count);
        let _ = RequestId::from_json(&body);
    }

    #[test]
    fn strings_have_the_value_that_a_full_parser_gives_them(quoted in json_text::string(), text in any::<String>()) {
        let value: String = serde_json::from_str(&quoted).unwrap();
        prop_assert_eq!(json::text(quoted.as_bytes()).unwrap(), value);
        let mut written = Vec::new();
        json::write_string(&mut written, &text);
        prop_assert_eq!(serde_json::from_slice::<String>(&written).unwrap(), text);
    }
}
