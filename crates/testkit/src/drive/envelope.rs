//! The envelope beside a full JSON parser, on any bytes.
//!
//! What one of them takes for JSON the other must take, and read as it does. The
//! members of a batch are judged one by one.

use rescind_proto::{
    frame::{self, Frame, Malformed, Reason, ResponseBody, ResponseId},
    id::RequestId,
    kind::MessageKind,
};
use serde_json::value::RawValue;

use crate::valid::Members;

/// Members of an envelope whose repetition makes two readings possible (D6).
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Reads the bytes as one message, twice.
///
/// # Panics
///
/// Where the two readings differ.
pub fn envelope(bytes: &[u8]) {
    let parsed = frame::parse(bytes);
    let Ok(whole) = serde_json::from_slice::<&RawValue>(bytes) else {
        return match parsed {
            Ok(Frame::Batch(batch)) => {
                for member in batch.members().filter(|member| member.len() < bytes.len()) {
                    envelope(member);
                }
            }
            parsed => assert!(matches!(parsed, Err(Malformed::NotJson)), "it is not JSON"),
        };
    };
    assert!(!matches!(parsed, Err(Malformed::NotJson)), "it is JSON");
    compare_spans(bytes, &parsed);
    let text = whole.get();
    match &parsed {
        Ok(Frame::Batch(batch)) => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            let found: Vec<&[u8]> = batch.members().collect();
            assert_eq!(
                found,
                elements.iter().map(|raw| raw.get().as_bytes()).collect::<Vec<_>>(),
                "members of a batch"
            );
            assert_eq!(batch.len(), found.len());
            for member in found {
                assert!(!matches!(frame::parse_member(member), Ok(Frame::Batch(_))), "a batch inside a batch");
            }
        }
        Err(Malformed::Invalid { reason: Reason::NoObject, .. }) => assert!(!text.starts_with(['{', '['])),
        Err(Malformed::Invalid { reason: Reason::EmptyBatch, .. }) => {
            assert_eq!(serde_json::from_str::<Vec<&RawValue>>(text).map(|all| all.len()).ok(), Some(0));
        }
        Ok(_) | Err(_) => {
            // A key that no string can hold is not compared.
            if let Ok(members) = serde_json::from_str::<Members<'_>>(text) {
                compare_members(&parsed, &members);
            }
        }
    }
}

fn compare_members(parsed: &Result<Frame<'_>, Malformed>, members: &Members<'_>) {
    let of = |name: &str| members.get(name);
    let repeated = ENVELOPE.iter().any(|name| members.0.iter().filter(|(key, _)| key == name).count() > 1);
    let (id, method) = (of("id"), of("method"));
    if let Err(Malformed::Invalid { reason: Reason::RepeatedMember | Reason::EscapedMember, .. }) = parsed {
        return;
    }
    assert!(!repeated, "a repeated member is refused (D6)");
    match parsed {
        Ok(Frame::Request(request)) => {
            assert_eq!(Some(&request.id), id.and_then(|id| RequestId::from_json(id.as_bytes())).as_ref());
            assert_eq!(request.params.raw, of("params").map(str::as_bytes));
        }
        Ok(Frame::Notification(notification)) => {
            assert_eq!(id, None, "a notification has no id");
            assert_eq!(notification.params.raw, of("params").map(str::as_bytes));
        }
        Ok(Frame::Response(response)) => {
            assert_eq!(response.id.is_some(), id.is_some());
            let (name, value) = match response.body {
                ResponseBody::Result(value) => ("result", value),
                ResponseBody::Error(value) => ("error", value),
            };
            assert_eq!(Some(value), of(name).map(str::as_bytes));
            assert!(method.is_none_or(|method| method == "null"), "a response has no method");
        }
        Ok(Frame::Batch(_)) => panic!("an object is no batch"),
        Err(Malformed::NotJson) => panic!("it is JSON"),
        Err(Malformed::Invalid { reason, kind, .. }) => {
            assert!(*kind != MessageKind::Batch, "an object is no batch");
            match reason {
                Reason::BadId => assert!(id.is_some_and(|id| RequestId::from_json(id.as_bytes()).is_none())),
                Reason::TwoOutcomes => assert!(of("result").is_some() && of("error").is_some()),
                Reason::MixedKinds => assert!(of("result").is_some() || of("error").is_some()),
                Reason::NoKind | Reason::BadMethod => {}
                Reason::NoObject
                | Reason::EmptyBatch
                | Reason::NestedBatch
                | Reason::RepeatedMember
                | Reason::EscapedMember
                | Reason::BadError => panic!("an object is not {reason:?}"),
                _ => panic!("what is {reason:?}?"),
            }
        }
    }
}

/// The span of an id is where its text stands: replacing it by itself changes nothing (D33).
fn compare_spans(bytes: &[u8], parsed: &Result<Frame<'_>, Malformed>) {
    let (span, id) = match parsed {
        Ok(Frame::Request(request)) => (request.id_span.clone(), request.id.clone()),
        Ok(Frame::Response(response)) => match &response.id {
            Some(ResponseId::Exact(id)) => (response.id_span.clone(), id.clone()),
            Some(ResponseId::Loose(_)) | None => return,
        },
        Ok(Frame::Notification(_) | Frame::Batch(_)) | Err(_) => return,
    };
    assert_eq!(RequestId::from_json(&bytes[span.clone()]).as_ref(), Some(&id));
    let mut same = Vec::new();
    frame::splice(bytes, span, &id, &mut same);
    assert_eq!(same, bytes, "an id is echoed byte for byte (D6)");
}
