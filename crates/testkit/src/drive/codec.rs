//! The framings: however a stream is cut, the same comes out of it.

use rescind_proto::framing::{Chunk, Decoder, Framing, Leftover};

/// Newline framing, and its detection.
///
/// # Panics
///
/// Where the cut changes what comes out, or memory is not bounded.
pub fn line_codec(bytes: &[u8]) {
    chop(bytes, Framing::Line);
}

/// Content-length framing, and its detection.
///
/// # Panics
///
/// Where the cut changes what comes out, or memory is not bounded.
pub fn headers_codec(bytes: &[u8]) {
    chop(bytes, Framing::Headers);
}

/// The first byte says whether the framing is told, the second how long a message may be, the third how many
/// bytes follow that say where to cut; the rest is the stream.
fn chop(bytes: &[u8], framing: Framing) {
    let [told, limit, cuts, rest @ ..] = bytes else { return };
    let framing = (told % 4 != 0).then_some(framing);
    let limit = usize::from(*limit) * 2 + 1;
    let (cuts, stream) = rest.split_at(rest.len().min(usize::from(*cuts)));
    let whole = decode(framing, limit, stream, &[]);
    assert_eq!(whole, decode(framing, limit, stream, cuts), "the cut changes what comes out");
    let bytewise: Vec<u8> = vec![1; stream.len().min(512)];
    assert_eq!(whole, decode(framing, limit, stream, &bytewise), "the cut changes what comes out");
}

#[derive(Debug, PartialEq, Eq)]
enum Got {
    Frame { raw: Vec<u8>, body: Vec<u8> },
    Other(String),
}

fn decode(framing: Option<Framing>, limit: usize, mut stream: &[u8], cuts: &[u8]) -> (Vec<Got>, Option<Leftover>) {
    let mut decoder = Decoder::new(framing, limit);
    let mut got = Vec::new();
    for &cut in cuts {
        let (piece, later) = stream.split_at(stream.len().min(usize::from(cut)));
        take(&mut decoder, piece, &mut got);
        // A message, a header block, and what either grows by.
        assert!(
            decoder.buffered() <= limit + 2 * rescind_proto::framing::MAX_BLOCK,
            "{} bytes held",
            decoder.buffered()
        );
        stream = later;
    }
    take(&mut decoder, stream, &mut got);
    (got, decoder.finish())
}

fn take(decoder: &mut Decoder, mut piece: &[u8], got: &mut Vec<Got>) {
    while let Some(chunk) = decoder.decode(&mut piece) {
        got.push(match chunk {
            Chunk::Frame(framed) => Got::Frame { body: framed.body().to_vec(), raw: framed.into_raw() },
            Chunk::Overlong(message) => Got::Other(format!("{message:?}")),
            Chunk::Broken(broken) => Got::Other(format!("{broken:?}")),
        });
    }
    assert!(piece.is_empty(), "bytes are left over");
}
