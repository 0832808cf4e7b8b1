//! L0 and L1: lines back and forth without calls, the limits that an engine
//! is measured by.

use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt as _;

use super::Failure;
use super::lines::{Envelope, Lines};
use crate::payload;
use crate::watchdog;
use crate::wire::{End, Writer};
use crate::work::Verb;

/// How much of a line is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// L0: where it ends.
    Line,
    /// L1: its envelope; the answer is formatted.
    Envelope,
}

/// `count` round trips with up to `window` outstanding.
pub(crate) async fn echoes(
    [client, server]: [End; 2],
    depth: Depth,
    count: usize,
    window: usize,
) -> Result<Duration, Failure> {
    let serving = tokio::spawn(serve(server, depth));
    let began = Instant::now();
    ask(client, depth, count, window).await?;
    let took = began.elapsed();
    serving.await??;
    Ok(took)
}

async fn serve(End { mut reader, mut writer }: End, depth: Depth) -> Result<(), Failure> {
    let mut lines = Lines::new();
    let mut out = Vec::new();
    while lines.read(&mut reader).await? > 0 {
        match depth {
            Depth::Line => writer.write_all(lines.take_whole()).await?,
            Depth::Envelope => {
                while let Some(line) = lines.next() {
                    let Envelope { id: Some(id), method: Some("tools/call"), params: Some(params), .. } =
                        serde_json::from_slice(line)?
                    else {
                        return Err("not a call".into());
                    };
                    line_of(&mut out, id, r#","result":"#, params);
                }
                writer.write_all(&out).await?;
                out.clear();
            }
        }
    }
    Ok(())
}

async fn ask(End { mut reader, mut writer }: End, depth: Depth, count: usize, window: usize) -> Result<(), Failure> {
    let mut asking = Asking { depth, asked: 0, answered: 0, line: Vec::new(), out: Vec::new(), written: 0 };
    asking.ask(window.min(count));
    let mut lines = Lines::new();
    while asking.answered < count {
        // Both at once: neither end may wait for the other to read.
        tokio::select! {
            biased;
            written = write_some(&mut writer, &asking.out[asking.written..]), if asking.written < asking.out.len() => {
                asking.written += written?;
            }
            read = lines.read(&mut reader) => {
                if read? == 0 {
                    return Err("the other end has closed".into());
                }
                let before = asking.answered;
                while let Some(line) = lines.next() {
                    asking.take(line)?;
                }
                let answered = asking.answered - before;
                watchdog::progress();
                asking.ask(answered.min(count - asking.asked));
            }
        }
    }
    Ok(())
}

async fn write_some(writer: &mut Writer, bytes: &[u8]) -> std::io::Result<usize> {
    writer.write(bytes).await
}

/// The calling end; answers come in the order of the calls.
struct Asking {
    depth: Depth,
    asked: usize,
    answered: usize,
    /// The line that L0 sends and compares.
    line: Vec<u8>,
    out: Vec<u8>,
    written: usize,
}

const CALL: &str = r#","method":"tools/call","params":"#;
/// Ids of ten digits keep the line at its length.
const FIRST_ID: u64 = 1_000_000_000;

impl Asking {
    fn ask(&mut self, lines: usize) {
        let params = payload::raw(Verb::Echo);
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
        for _ in 0..lines {
            match self.depth {
                Depth::Line => {
                    if self.line.is_empty() {
                        line_of(&mut self.line, FIRST_ID, CALL, params);
                    }
                    self.out.extend_from_slice(&self.line);
                }
                Depth::Envelope => line_of(&mut self.out, FIRST_ID + self.asked as u64, CALL, params),
            }
            self.asked += 1;
        }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), Failure> {
        match self.depth {
            Depth::Line => super::compare(line, &self.line[..self.line.len() - 1])?,
            Depth::Envelope => {
                let Envelope { id: Some(id), result: Some(result), .. } = serde_json::from_slice(line)? else {
                    return Err("not an answer".into());
                };
                super::compare(&id, &(FIRST_ID + self.answered as u64))?;
                super::compare(result.get(), payload::raw(Verb::Echo).get())?;
            }
        }
        self.answered += 1;
        Ok(())
    }
}

/// One message; by hand, as `write!` costs as much again as the rest of L1.
fn line_of(out: &mut Vec<u8>, id: u64, member: &str, payload: &RawValue) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(itoa::Buffer::new().format(id).as_bytes());
    out.extend_from_slice(member.as_bytes());
    out.extend_from_slice(payload.get().as_bytes());
    out.extend_from_slice(b"}\n");
}
