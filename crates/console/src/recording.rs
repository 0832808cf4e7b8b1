//! A recording (`docs/recording.md`), shown as the session that it was.
//!
//! Two monitors read the messages, one for each link of the shim. The lines about the shim's own decisions add when a
//! request ended for its requester, and the receipts of cancels. Where both know something, the shim's line counts.
//!
//! The file is read once, line by line. Records of the last [`MAX_REQUESTS`] requests are kept; the text of their messages
//! is read again on demand.

mod child;
mod entry;
mod exchange;
mod har;
pub(crate) mod line;
pub(crate) mod lines;
mod otlp;
mod replay;
mod task;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader},
    path::Path,
};

use rescind_feed::{Changes, Details, End, Ended, Event, Implementation, Request, Session, Side, Snapshot, VERSION};

use entry::LinePosition;
use line::{HeaderLine, RecordedLine};
use lines::{LineRead, LineReader};
use replay::Replay;

/// The most requests kept: open ones, and those that ended last.
const MAX_REQUESTS: usize = 20_000;

/// The most requests in one event; in the first, the most open ones and the most ended ones.
const MAX_BATCH: usize = 1000;

/// The most bytes of a message that are shown.
const MAX_SHOWN: usize = 64 * 1024;

/// A whole recording. It is a source of events like a shim.
#[derive(Debug)]
pub struct Recording {
    file: File,
    session: Session,
    /// In the order of their arrival.
    requests: Vec<(Request, Vec<LinePosition>)>,
    in_flight: u64,
    left_out: u64,
    now: u64,
    end: End,
    remarks: Vec<String>,
}

/// Why a recording cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be opened or read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not a recording.
    #[error("is not a recording")]
    NotARecording,
    /// A newer program wrote it.
    #[error("is a recording of version {0}; this program reads version 1")]
    Version(u64),
}

impl Recording {
    /// Reads the recording at `path`. `name` becomes the name of its session.
    ///
    /// It reads the whole file, and needs memory for the kept requests and the longest line.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not a recording of a known version. Damaged lines are not an error: see
    /// [`remarks`](Self::remarks).
    pub fn open(path: &Path, name: &str) -> Result<Self, RecordingError> {
        let file = File::open(path)?;
        let mut lines = LineReader::new(BufReader::with_capacity(1 << 16, file.try_clone()?));
        let header = match lines.next()? {
            Some(LineRead::RecordedLine { text, .. }) => HeaderLine::read(text)?,
            Some(LineRead::TooLong) | None => return Err(RecordingError::NotARecording),
        };
        let mut replay = Replay::new(header.dialects(), MAX_REQUESTS);
        let mut damage = Damage::default();
        while let Some(read) = lines.next()? {
            match read {
                LineRead::RecordedLine { text, position, is_whole } => match RecordedLine::read(text) {
                    Some(line) => replay.receive(&line, position),
                    None if is_whole => damage.count(position.number),
                    None => damage.breaks_off = true,
                },
                LineRead::TooLong => damage.too_long += 1,
            }
        }
        Ok(Self::of(file, name, &header, replay, &damage))
    }

    fn of(file: File, name: &str, header: &HeaderLine, replay: Replay, damage: &Damage) -> Self {
        let session = Session {
            version: VERSION,
            name: name.to_owned(),
            program: header.program.clone(),
            pid: header.pid,
            ancestors: Vec::new(),
            server_pid: None,
            command: header.command.clone(),
            entry: header.entry.clone(),
            client_name: header.client_name.clone(),
            shared: None,
            folder: None,
            started: header.started(),
            client: replay.implementation(rescind_proto::side::Side::Client),
            server: replay.implementation(rescind_proto::side::Side::Server),
            connected: None,
            owner: None,
            signing_in: false,
            limits: BTreeMap::new(),
            held_up_by: None,
            unkept_children: replay.monitor(rescind_proto::side::Side::Server).unkept_children(),
            process_clock: None,
            turn_processes: Vec::new(),
            ending_turns: None,
            restarts: None,
            restarting: false,
            starting: None,
            hides_work: false,
            unkept_tasks: replay.monitor(rescind_proto::side::Side::Server).unkept_tasks(),
            unkept_released: 0,
        };
        let (end, left_out, now, in_flight) = (replay.end(), replay.left_out, replay.now, replay.in_flight());
        let mut remarks = damage.remarks();
        if header.redacted {
            remarks.push("its texts were replaced by `rescind redact`".to_owned());
        }
        if end == End::Unknown && !replay.is_complete {
            remarks
                .push("the recording is incomplete: the shim was killed or still runs, or its disk failed".to_owned());
        }
        if left_out > 0 {
            remarks
                .push(format!("only the last {MAX_REQUESTS} requests are shown; {left_out} earlier ones are left out"));
        }
        Self { file, session, requests: replay.into_requests(), in_flight, left_out, now, end, remarks }
    }

    /// The name of its session.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.session.name
    }

    /// Remarks for the user: damaged lines, a missing end, requests left out.
    pub fn remarks(&self) -> impl Iterator<Item = &str> {
        self.remarks.iter().map(String::as_str)
    }

    /// Its events: a snapshot, changes with the requests that do not fit into the snapshot, and the end.
    pub fn events(&self) -> impl Iterator<Item = Event> + Send {
        let all = || self.requests.iter().map(|(request, _)| request);
        let open = all().filter(|request| request.is_open()).count();
        let mut over_to_skip = (self.requests.len() - open).saturating_sub(MAX_BATCH);
        let mut open_to_take = MAX_BATCH;
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        for request in all() {
            let fits = if request.is_open() {
                open_to_take.checked_sub(1).inspect(|left| open_to_take = *left).is_some()
            } else {
                over_to_skip.checked_sub(1).inspect(|left| over_to_skip = *left).is_none()
            };
            if fits { &mut first } else { &mut rest }.push(request);
        }
        let (now, in_flight) = (self.now, self.in_flight);
        let requests = first.into_iter().cloned().collect();
        let snapshot = Snapshot { seq: 0, now, session: self.session.clone(), requests, in_flight };
        let batches = rest.len().div_ceil(MAX_BATCH) as u64;
        let mut brief = self.left_out;
        let changes = (0..batches).map(move |batch| {
            let from = batch as usize * MAX_BATCH;
            let requests =
                rest[from..rest.len().min(from + MAX_BATCH)].iter().map(|request| (*request).clone()).collect();
            let brief = core::mem::take(&mut brief);
            Event::Changes(Changes { seq: batch + 1, now, requests, brief, in_flight, session: None })
        });
        let ended = Event::Ended(Ended { seq: batches + 1, now, how: self.end });
        std::iter::once(Event::Snapshot(snapshot)).chain(changes).chain(std::iter::once(ended))
    }

    /// One request and the messages about it, read from the file: the first hundred and the last hundred.
    #[must_use]
    pub fn details(&self, key: &str) -> Option<Details> {
        let (request, places) = self.requests.iter().find(|(request, _)| request.key == key)?;
        let frames = places.iter().filter_map(|position| self.frame(*position)).collect();
        Some(Details { request: request.clone(), frames, kept_since: Some(0), arguments: None })
    }

    /// The message in a line; `None` if the file has changed since.
    fn frame(&self, position: LinePosition) -> Option<rescind_feed::FrameView> {
        let Message { at, from, body, length } = self.message(position)?;
        let shown = String::from_utf8_lossy(&body[..body.len().min(MAX_SHOWN + 4)]);
        let text = rescind_proto::cause::cut(&shown, MAX_SHOWN).to_owned();
        Some(rescind_feed::FrameView { at, from, text, length, by_shim: false })
    }

    /// The same, whole.
    fn message(&self, position: LinePosition) -> Option<Message> {
        let mut text = vec![0; position.length];
        read_exact_at(&self.file, &mut text, position.offset).ok()?;
        let line = RecordedLine::read(&text)?;
        let from = match line.hop.as_deref()? {
            "from_client" => Side::Client,
            "from_server" => Side::Server,
            _ => return None,
        };
        let frame = line.frame()?;
        let body = without_framing(&frame).to_vec();
        Some(Message { at: line.t, from, length: line.size.unwrap_or(body.len() as u64), body })
    }
}

/// A message of a recording.
#[derive(Debug)]
struct Message {
    at: u64,
    from: Side,
    /// Without its framing.
    body: Vec<u8>,
    /// Its length, as it was before the recording was redacted.
    length: u64,
}

/// A message without its header block or line break.
fn without_framing(frame: &[u8]) -> &[u8] {
    let has_header = frame.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-"));
    let header = frame.windows(4).position(|bytes| bytes == b"\r\n\r\n").filter(|_| has_header);
    match header {
        Some(at) => &frame[at + 4..],
        None => frame.trim_ascii_end(),
    }
}

/// Lines that could not be read.
#[derive(Debug, Default)]
struct Damage {
    first: Option<u64>,
    lines: u64,
    too_long: u64,
    breaks_off: bool,
}

impl Damage {
    fn count(&mut self, number: u64) {
        self.first.get_or_insert(number);
        self.lines += 1;
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        match (self.lines, self.first) {
            (1, Some(first)) => remarks.push(format!("line {first} is damaged, and left out")),
            (lines, Some(first)) => {
                remarks.push(format!("{lines} lines are damaged, and left out; the first is line {first}"))
            }
            (_, None) => {}
        }
        if self.too_long > 0 {
            remarks.push(format!(
                "{} lines are longer than {} MiB, and left out",
                self.too_long,
                lines::MAX_LINE >> 20
            ));
        }
        if self.breaks_off {
            remarks.push("the recording breaks off in the middle of a line".to_owned());
        }
        remarks
    }
}

impl Replay {
    /// What a side is, as far as it has introduced itself.
    fn implementation(&self, side: rescind_proto::side::Side) -> Implementation {
        let monitor = self.monitor(side);
        let called = monitor.implementation(side);
        Implementation {
            protocol: monitor.dialect().name.to_owned(),
            name: called.map(|implementation| implementation.name.to_string()),
            version: called.and_then(|implementation| implementation.version.as_deref()).map(str::to_owned),
        }
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, text: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, text, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut text: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !text.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, text, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => {
                text = &mut text[read..];
                offset += read as u64;
            }
        }
    }
    Ok(())
}
