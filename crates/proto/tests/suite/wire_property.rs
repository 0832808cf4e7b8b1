//! However a stream is cut, the same messages come out.

use proptest::{collection::vec, prelude::*};
use rescind_proto::{
    frame::{self, Frame, Malformed, ResponseId},
    framing::{Chunk, Decoder, Framing, Leftover, Overlong},
};

use crate::json_text;

#[derive(Debug, PartialEq, Eq, Clone)]
enum Got {
    Frame { raw: Vec<u8>, body: Vec<u8> },
    Other(String),
}

fn decode(decoder: &mut Decoder, input: &[u8], all: &mut Vec<Got>) {
    let mut input = input;
    while let Some(chunk) = decoder.decode(&mut input) {
        all.push(match chunk {
            Chunk::Frame(framed) => {
                let body = framed.body().to_vec();
                let raw = if all.len().is_multiple_of(2) { framed.raw().to_vec() } else { framed.into_raw() };
                Got::Frame { raw, body }
            }
            Chunk::Overlong(overlong) => Got::Other(format!("{overlong:?}")),
            Chunk::Broken(broken) => Got::Other(format!("{broken:?}")),
        });
    }
    assert!(input.is_empty());
}

/// Everything that comes out of `stream` when it arrives in these pieces.
fn cut(framing: Option<Framing>, limit: usize, stream: &[u8], pieces: &[usize]) -> (Vec<Got>, Option<Leftover>) {
    let mut decoder = Decoder::new(framing, limit);
    let mut all = Vec::new();
    let mut rest = stream;
    for piece in pieces {
        let (now, later) = rest.split_at(rest.len().min(*piece));
        decode(&mut decoder, now, &mut all);
        assert!(decoder.buffered() <= limit.max(9000) + 9000);
        rest = later;
    }
    decode(&mut decoder, rest, &mut all);
    (all, decoder.finish())
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![vec(1..4_usize, 0..400), vec(0..90_usize, 0..40)]
}

/// A body, or noise, as it may lie on a stream of this framing.
fn part(framing: Framing) -> impl Strategy<Value = Vec<u8>> {
    let framed = move |body: String| {
        let mut out = Vec::new();
        framing.write(&mut out, body.as_bytes());
        out
    };
    prop_oneof![
        6 => json_text::message().prop_map(framed),
        1 => proptest::sample::select(vec![
            &b"\n"[..], b"\r\n", b" \n", b"noise\n", b"A: b\r\n", b"Content-Length: 3\r\n", b"Content-Length: x\n", b"{}",
            b"Content-Length: 7\n\n{\"a\":1}", b"\r", b"\xff\n", b"xContent-Length: 2\r\n\r\n[]",
        ])
        .prop_map(<[u8]>::to_vec),
    ]
}

fn limit() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(1 << 20), 1 => 0..200_usize]
}

fn overlong(body: &str, pieces: &[usize]) -> Overlong {
    let mut stream = Vec::new();
    Framing::Headers.write(&mut stream, body.as_bytes());
    let mut decoder = Decoder::new(Some(Framing::Headers), 0);
    let mut rest = &stream[..];
    for piece in pieces.iter().chain(&[usize::MAX]) {
        let (mut now, later) = rest.split_at(rest.len().min(*piece));
        match decoder.decode(&mut now) {
            None => rest = later,
            Some(Chunk::Overlong(overlong)) => return overlong,
            Some(other) => panic!("{other:?}"),
        }
    }
    panic!("no message in {body}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn lines_are_the_same_however_they_are_cut(
        parts in vec(part(Framing::Line), 0..6), pieces in pieces(), limit in limit(),
    ) {
        let stream = parts.concat();
        let whole = cut(Some(Framing::Line), limit, &stream, &[]);
        prop_assert_eq!(&whole, &cut(Some(Framing::Line), limit, &stream, &pieces));
    }

    #[test]
    fn header_blocks_are_the_same_however_they_are_cut(
        parts in vec(part(Framing::Headers), 0..6), pieces in pieces(), limit in limit(),
    ) {
        let stream = parts.concat();
        let whole = cut(Some(Framing::Headers), limit, &stream, &[]);
        prop_assert_eq!(&whole, &cut(Some(Framing::Headers), limit, &stream, &pieces));
    }

    #[test]
    fn arbitrary_bytes_are_the_same_however_they_are_cut(
        stream in vec(prop_oneof![any::<u8>(), proptest::sample::select(b"\n\n\r{}Content-Length: 1".to_vec())], 0..300),
        pieces in pieces(), limit in limit(),
    ) {
        for framing in [None, Some(Framing::Line), Some(Framing::Headers)] {
            let whole = cut(framing, limit, &stream, &[]);
            prop_assert_eq!(&whole, &cut(framing, limit, &stream, &pieces));
        }
    }

    #[test]
    fn every_message_comes_out_as_it_was_written(
        bodies in vec(json_text::message(), 0..5), pieces in pieces(), framing in prop_oneof![Just(Framing::Line), Just(Framing::Headers)],
    ) {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for body in &bodies {
            let start = stream.len();
            framing.write(&mut stream, body.as_bytes());
            let body = if framing == Framing::Line { body.replace(['\n', '\r'], " ") } else { body.clone() };
            expected.push(Got::Frame { raw: stream[start..].to_vec(), body: body.into_bytes() });
        }
        prop_assert_eq!(cut(Some(framing), 1 << 20, &stream, &pieces), (expected, None));
    }

    #[test]
    fn an_overlong_message_is_read_as_the_envelope_reads_it(body in json_text::message(), pieces in pieces()) {
        let found = overlong(&body, &pieces);
        prop_assert_eq!(found.len, body.len() as u64);
        let short = |method: &str| (method.len() <= 40).then(|| method.to_owned());
        match frame::parse(body.as_bytes()) {
            Ok(Frame::Request(request)) => {
                prop_assert_eq!(found.kind, rescind_proto::kind::MessageKind::Request);
                prop_assert_eq!(found.id, Some(request.id));
                if let Some(method) = short(&request.method) {
                    prop_assert_eq!(found.method, Some(method));
                }
            }
            Ok(Frame::Notification(notification)) => {
                prop_assert_eq!(found.kind, rescind_proto::kind::MessageKind::Notification);
                prop_assert_eq!(found.id, None);
                if let Some(method) = short(&notification.method) {
                    prop_assert_eq!(found.method, Some(method));
                }
            }
            Ok(Frame::Response(response)) => {
                let id = match response.id {
                    Some(ResponseId::Exact(id)) => Some(id),
                    Some(ResponseId::Loose(_)) | None => None,
                };
                prop_assert_eq!((found.kind, found.id), (rescind_proto::kind::MessageKind::Response, id));
            }
            Err(Malformed::Invalid { kind, id, .. }) => prop_assert_eq!((found.kind, found.id), (kind, id)),
            other => panic!("{other:?}"),
        }
    }
}
