//! What the codecs make of single streams.

use rescind_proto::{
    frame,
    framing::{Chunk, Decoder, Fault, Framing, Leftover, MAX_BLOCK, Overlong, write_header},
    id::RequestId,
    kind::MessageKind,
};

/// A chunk that outlives its decoder.
#[derive(Debug, PartialEq, Eq)]
enum Got {
    Frame(String),
    Overlong(Overlong),
    Broken(Fault, String),
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn decode(decoder: &mut Decoder, input: &[u8]) -> Vec<Got> {
    let mut input = input;
    let mut all = Vec::new();
    while let Some(chunk) = decoder.decode(&mut input) {
        all.push(match chunk {
            Chunk::Frame(framed) => Got::Frame(text(framed.body())),
            Chunk::Overlong(overlong) => Got::Overlong(overlong),
            Chunk::Broken(broken) => Got::Broken(broken.fault, text(broken.raw)),
        });
    }
    assert!(input.is_empty());
    all
}

fn frame(body: &str) -> Got {
    Got::Frame(body.into())
}

fn lines() -> Decoder {
    Decoder::new(Some(Framing::Line), 1024)
}

fn headers() -> Decoder {
    Decoder::new(Some(Framing::Headers), 1024)
}

#[test]
fn a_line_is_a_message() {
    assert_eq!(decode(&mut lines(), b"{\"a\":1}\n[2]\r\n"), [frame("{\"a\":1}"), frame("[2]")]);
}

#[test]
fn blank_lines_are_dropped() {
    assert_eq!(decode(&mut lines(), b"\n\r\n  \t\n1\n\n \n2\n"), [frame("1"), frame("2")]);
}

#[test]
fn what_is_passed_on_is_what_came() {
    let mut decoder = lines();
    let mut input = &b" {} \r\nrest"[..];
    let Some(Chunk::Frame(framed)) = decoder.decode(&mut input) else { panic!() };
    assert_eq!((framed.raw(), framed.body()), (&b" {} \r\n"[..], &b" {} "[..]));
    assert_eq!(frame::span_of(framed.raw(), framed.body()), Some(0..4));
}

#[test]
fn a_whole_line_is_handed_out_where_it_lies() {
    let mut decoder = lines();
    let stream = b"{}\n".to_vec();
    let mut input = &stream[..];
    let Some(Chunk::Frame(framed)) = decoder.decode(&mut input) else { panic!() };
    assert_eq!(framed.raw().as_ptr(), stream.as_ptr());
}

#[test]
fn a_gathered_line_is_given_away_without_a_copy() {
    let mut decoder = lines();
    assert_eq!(decode(&mut decoder, b"{\"a\":"), []);
    assert_eq!(decoder.buffered(), 5);
    let mut input = &b"1}\n2\n"[..];
    let Some(Chunk::Frame(framed)) = decoder.decode(&mut input) else { panic!() };
    let lies_at = framed.raw().as_ptr();
    let raw = framed.into_raw();
    assert_eq!((raw.as_ptr(), &raw[..]), (lies_at, &b"{\"a\":1}\n"[..]));
    assert_eq!(decode(&mut decoder, input), [frame("2")]);
    assert_eq!(decoder.buffered(), 0);
}

#[test]
fn the_last_line_may_lack_its_break() {
    let mut decoder = lines();
    assert_eq!(decode(&mut decoder, b"1\n{\"half\":"), [frame("1")]);
    assert_eq!(decoder.finish(), Some(Leftover::Line(b"{\"half\":".to_vec())));
    assert_eq!(decoder.finish(), None);
    assert_eq!(decode(&mut decoder, b" \r"), []);
    assert_eq!(decoder.finish(), None);
}

#[test]
fn a_line_at_the_limit_passes_and_one_beyond_is_scanned() {
    let mut decoder = Decoder::new(Some(Framing::Line), 30);
    let fits = format!("{:<30}\n", r#"{"id":1,"method":"m"}"#);
    let long = format!("{:<31}\n", r#"{"id":1,"method":"m"}"#);
    assert_eq!(decode(&mut decoder, fits.as_bytes()).len(), 1);
    let expected =
        Overlong { id: Some(RequestId::integer(1)), method: Some("m".into()), kind: MessageKind::Request, len: 31 };
    assert_eq!(decode(&mut decoder, long.as_bytes()), [Got::Overlong(expected.clone())]);
    assert_eq!(decode(&mut decoder, &long.as_bytes()[..10]), []);
    assert_eq!(decode(&mut decoder, &long.as_bytes()[10..31]), []);
    assert_eq!(decoder.buffered(), 0);
    assert_eq!(decode(&mut decoder, b"\n1\n"), [Got::Overlong(expected), frame("1")]);
}

#[test]
fn an_overlong_message_is_held_in_constant_memory() {
    let mut decoder = Decoder::new(Some(Framing::Line), 100);
    assert_eq!(decode(&mut decoder, br#"{"jsonrpc":"2.0","result":{"text":""#), []);
    for _ in 0..1000 {
        assert_eq!(decode(&mut decoder, &[b'a'; 1000]), []);
        assert!(decoder.buffered() <= 100);
    }
    let [Got::Overlong(overlong)] = &decode(&mut decoder, b"\"},\"id\":\"x\"}\n")[..] else { panic!() };
    assert_eq!((overlong.kind, overlong.id.clone()), (MessageKind::Response, Some(RequestId::string("x"))));
    assert_eq!(overlong.len, 1_000_047);
}

fn overlong(body: &str) -> Overlong {
    let mut decoder = Decoder::new(Some(Framing::Line), 0);
    let mut all = decode(&mut decoder, format!("{body}\n").as_bytes());
    match all.pop() {
        Some(Got::Overlong(overlong)) if all.is_empty() => overlong,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_id_that_two_parsers_could_read_differently_is_not_learnt_from_an_overlong_message() {
    assert_eq!(overlong(r#"{"id":1,"id":1,"method":"m"}"#).id, None);
    assert_eq!(overlong(r#"{"id":1,"\u0069d":2,"method":"m"}"#).id, None);
    assert_eq!(overlong(r#"{"id":1,"params":{"id":2},"method":"m"}"#).id, Some(RequestId::integer(1)));
    assert_eq!(overlong(r#"{"id":true,"method":"m"}"#).id, None);
}

#[test]
fn long_ids_and_methods_are_not_learnt_from_an_overlong_message() {
    let long = |id: usize, method: usize| {
        overlong(&format!(r#"{{"id":"{}","method":"{}"}}"#, "i".repeat(id), "m".repeat(method)))
    };
    assert!(long(1022, 1).id.is_some() && long(1023, 1).id.is_none());
    assert!(long(1, 256).method.is_some() && long(1, 257).method.is_none());
    assert_eq!(long(5000, 5000).kind, MessageKind::Request);
}

#[test]
fn the_kind_of_an_overlong_message_is_told() {
    for (body, kind) in [
        (r#"{"id":1,"method":"m"}"#, MessageKind::Request),
        (r#"{"id":null,"method":"m"}"#, MessageKind::Request),
        (r#"{"method":"m"}"#, MessageKind::Notification),
        (r#"{"id":1,"result":null}"#, MessageKind::Response),
        (r#"{"error":{}}"#, MessageKind::Response),
        (r#"[{"id":1,"method":"m"}]"#, MessageKind::Batch),
        ("log line", MessageKind::Unknown),
        (r#"{"id":1"#, MessageKind::Unknown),
        (r#"{"id":1,"method":"m"} x"#, MessageKind::Unknown),
    ] {
        assert_eq!(overlong(body).kind, kind, "{body}");
    }
}

#[test]
fn a_header_block_announces_a_message() {
    let stream = b"Content-Length: 2\r\n\r\n{}content-length:3\nX-Other: y\n\n[1]";
    assert_eq!(decode(&mut headers(), stream), [frame("{}"), frame("[1]")]);
    let mut input = &stream[..];
    let mut decoder = headers();
    let Some(Chunk::Frame(framed)) = decoder.decode(&mut input) else { panic!() };
    assert_eq!(framed.raw().as_ptr(), stream.as_ptr());
    assert_eq!(framed.raw(), b"Content-Length: 2\r\n\r\n{}");
}

#[test]
fn a_written_header_is_read_back() {
    let mut out = Vec::new();
    write_header(&mut out, 2);
    assert_eq!(out, b"Content-Length: 2\r\n\r\n");
    Framing::Headers.write(&mut out, b"[\n1]");
    assert_eq!(decode(&mut headers(), b"Content-Length: 4\r\n\r\n[\n1]"), [frame("[\n1]")]);
}

#[test]
fn a_decoder_knows_whether_it_stands_between_two_messages() {
    for (mut decoder, framing) in [(lines(), Framing::Line), (headers(), Framing::Headers)] {
        // The last is over the limit.
        for words in [0, 0, 2000] {
            let mut message = Vec::new();
            framing.write(&mut message, format!(r#"{{"id":"{}"}}"#, "x".repeat(words)).as_bytes());
            assert!(decoder.is_between_messages(), "{framing:?}");
            for (at, byte) in message.iter().enumerate() {
                decode(&mut decoder, &[*byte]);
                assert_eq!(decoder.is_between_messages(), at + 1 == message.len(), "{framing:?} after {at}");
            }
        }
    }
}

#[test]
fn a_body_with_line_breaks_becomes_one_line() {
    let mut out = b"0\n".to_vec();
    Framing::Line.write(&mut out, b"{\r\n  \"a\": \"\\n\"\n}");
    assert_eq!(out, b"0\n{    \"a\": \"\\n\" }\n");
}

#[test]
fn empty_lines_between_messages_are_dropped() {
    let stream = b"\r\n\nContent-Length: 1\r\n\r\n1\r\n\r\nContent-Length: 1\r\n\r\n2\n";
    let mut decoder = headers();
    assert_eq!(decode(&mut decoder, stream), [frame("1"), frame("2")]);
    assert_eq!(decoder.finish(), None);
}

#[test]
fn noise_before_a_header_is_reported_and_passed_over() {
    let stream = b"Debugger listening on port 1\nand more\r\nContent-Length: 1\r\n\r\n1";
    assert_eq!(
        decode(&mut headers(), stream),
        [
            Got::Broken(Fault::NoHeader, "Debugger listening on port 1\n".into()),
            Got::Broken(Fault::NoHeader, "and more\r\n".into()),
            frame("1"),
        ]
    );
}

#[test]
fn a_header_glued_to_a_miscounted_body_is_found() {
    let stream = b"Content-Length: 2\r\n\r\n{\"a\":1}Content-Length: 1\r\n\r\n1";
    assert_eq!(
        decode(&mut headers(), stream),
        [frame("{\""), Got::Broken(Fault::NoHeader, "a\":1}".into()), frame("1")]
    );
}

#[test]
fn each_fault_of_a_block_is_named_and_the_next_block_is_read() {
    let after = "Content-Length: 1\r\n\r\n1";
    for (block, fault) in [
        ("X: y\r\n\r\n", Fault::NoLength),
        ("Content-Length: x\r\n", Fault::BadLength),
        ("Content-Length: -1\r\n", Fault::BadLength),
        ("Content-Length:\r\n", Fault::BadLength),
        ("Content-Length: 99999999999999999999999\r\n", Fault::BadLength),
        ("Content-Length: 9223372036854775807\r\n", Fault::BadLength),
        ("Content-Length: 4294967297\r\n", Fault::BadLength),
        ("Content-Length: 1\r\nContent-Length: 2\r\n", Fault::TwoLengths),
        ("Content-Length: 1\r\nno header\r\n", Fault::NoHeader),
        (": x\r\n", Fault::NoHeader),
    ] {
        let expected = [Got::Broken(fault, block.into()), frame("1")];
        assert_eq!(decode(&mut headers(), format!("{block}{after}").as_bytes()), expected, "{block}");
    }
}

#[test]
fn an_endless_header_block_is_given_up_and_the_next_length_found() {
    let noise = "x".repeat(3 * MAX_BLOCK);
    let all = decode(&mut headers(), format!("{noise}Content-Length: 1\r\n\r\n1").as_bytes());
    assert_eq!(all, [Got::Broken(Fault::TooLong, "x".repeat(MAX_BLOCK)), frame("1")]);
    let many = "A: b\r\n".repeat(MAX_BLOCK);
    let mut decoder = headers();
    let all = decode(&mut decoder, many.as_bytes());
    assert!(all.iter().all(|got| matches!(got, Got::Broken(Fault::TooLong, _))));
    assert!(decoder.buffered() <= MAX_BLOCK);
}

#[test]
fn a_line_too_long_for_a_header_is_dropped_in_constant_memory_however_it_is_cut() {
    let stream = format!("{}Content-Length: 1\r\n\r\n1", "x".repeat(5 * MAX_BLOCK));
    for piece in [1, 7, 63, 64, 65, 1000, MAX_BLOCK - 1, MAX_BLOCK, MAX_BLOCK + 1] {
        let mut decoder = headers();
        let mut all = Vec::new();
        for (at, input) in stream.as_bytes().chunks(piece).enumerate() {
            all.extend(decode(&mut decoder, input));
            assert!(decoder.buffered() <= if at * piece > MAX_BLOCK { 64 } else { MAX_BLOCK });
        }
        assert_eq!(all, [Got::Broken(Fault::TooLong, "x".repeat(MAX_BLOCK)), frame("1")], "{piece}");
    }
}

#[test]
fn a_body_beyond_the_limit_is_scanned() {
    let mut decoder = Decoder::new(Some(Framing::Headers), 10);
    let body = r#"{"id":"a","method":"m"}"#;
    let stream = format!("Content-Length: {}\r\n\r\n{body}Content-Length: 1\r\n\r\n1", body.len());
    let all = decode(&mut decoder, stream.as_bytes());
    let expected =
        Overlong { id: Some(RequestId::string("a")), method: Some("m".into()), kind: MessageKind::Request, len: 23 };
    assert_eq!(all, [Got::Overlong(expected), frame("1")]);
    assert_eq!(decode(&mut decoder, b"Content-Length: 4294967296\r\n\r\n{"), []);
    assert!(matches!(decoder.finish(), Some(Leftover::Overlong(overlong)) if overlong.len == 1));
}

#[test]
fn a_body_that_was_cut_is_left_over() {
    let mut decoder = headers();
    assert_eq!(decode(&mut decoder, b"Content-Length: 5\r\n\r\n{\"a"), []);
    assert_eq!(decoder.finish(), Some(Leftover::Half(b"Content-Length: 5\r\n\r\n{\"a".to_vec())));
    assert_eq!(decode(&mut decoder, b"Content-Length: 1\r\n\r\n1"), [frame("1")]);
}

#[test]
fn an_empty_body_is_an_empty_frame() {
    assert_eq!(decode(&mut headers(), b"Content-Length: 0\r\n\r\nContent-Length: 1\r\n\r\n1"), [frame(""), frame("1")]);
}

#[test]
fn the_framing_is_detected_from_the_first_bytes() {
    for (stream, framing, body) in [
        (&b"{}\n"[..], Framing::Line, "{}"),
        (b" \r\n [1]\n", Framing::Line, "[1]"),
        (b"log\n", Framing::Line, "log"),
        (b"Connecting\n", Framing::Line, "Connecting"),
        (b"\n content-length: 2\r\n\r\n{}", Framing::Headers, "{}"),
        (b"Content-Type: x\r\nContent-Length: 2\r\n\r\n{}", Framing::Headers, "{}"),
    ] {
        for cut in 0..stream.len() {
            let mut decoder = Decoder::new(None, 100);
            assert_eq!(decoder.framing(), None);
            let mut all = decode(&mut decoder, &stream[..cut]);
            all.extend(decode(&mut decoder, &stream[cut..]));
            assert_eq!((all, decoder.framing()), (vec![frame(body)], Some(framing)));
        }
    }
    let mut decoder = Decoder::new(None, 100);
    assert_eq!(decode(&mut decoder, b"Conte"), []);
    assert_eq!(decoder.finish(), Some(Leftover::Line(b"Conte".to_vec())));
}
