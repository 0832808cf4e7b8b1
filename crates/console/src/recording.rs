//! A recording (`docs/recording.md`), shown as the session that it was.
//!
//! Two monitors read the messages, one for each link of the shim, and the lines about what the shim decided say the
//! rest: when a request was over for whom, and what is known of a cancel. Those are the shim's own word, and nothing
//! here knows better.
//!
//! The file is read once, line by line, and only what was of each request is kept, of the last [`KEPT`] requests; what
//! their messages said is read again when somebody asks.

mod entry;
mod line;
mod lines;
mod replay;
#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io::{self, BufReader},
    os::unix::fs::FileExt,
    path::Path,
};

use rescind_feed::{Changes, Details, End, Ended, Event, Implementation, Request, Session, Side, Snapshot, VERSION};

use entry::Place;
use line::{Heading, Line};
use lines::{Lines, Read};
use replay::Replay;

/// Requests that are kept: the last that ended, and before all those that never did.
const KEPT: usize = 20_000;

/// Requests in one event, and of each kind in the first.
const BATCH: usize = 1000;

/// Bytes of a message that are shown.
const SHOWN: usize = 64 * 1024;

/// A recording that was read whole: a source of events as a shim is, all of them past.
#[derive(Debug)]
pub struct Recording {
    file: File,
    session: Session,
    /// In the order in which they were opened.
    requests: Vec<(Request, Vec<Place>)>,
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
    /// It is something else.
    #[error("is no recording")]
    NotARecording,
    /// A newer program has written it.
    #[error("is a recording of version {0}, and only version 1 can be read")]
    Version(u64),
}

impl Recording {
    /// Reads `path` and calls it `name`, as in `SESSION/ID`.
    ///
    /// Takes as long as reading the file, and memory for the requests that are kept and the longest line.
    ///
    /// # Errors
    ///
    /// Where it cannot be read or is no recording of a known version. Damage within is no error: see
    /// [`remarks`](Self::remarks).
    pub fn open(path: &Path, name: &str) -> Result<Self, RecordingError> {
        let file = File::open(path)?;
        let mut lines = Lines::new(BufReader::with_capacity(1 << 16, file.try_clone()?));
        let heading = match lines.next()? {
            Some(Read::Line { text, .. }) => Heading::read(text)?,
            Some(Read::TooLong) | None => return Err(RecordingError::NotARecording),
        };
        let mut replay = Replay::new(heading.dialects(), KEPT);
        let mut damage = Damage::default();
        while let Some(read) = lines.next()? {
            match read {
                Read::Line { text, place, is_whole } => match Line::read(text) {
                    Some(line) => replay.take(&line, place),
                    None if is_whole => damage.count(place.number),
                    None => damage.breaks_off = true,
                },
                Read::TooLong => damage.too_long += 1,
            }
        }
        Ok(Self::of(file, name, &heading, replay, &damage))
    }

    fn of(file: File, name: &str, heading: &Heading, replay: Replay, damage: &Damage) -> Self {
        let session = Session {
            version: VERSION,
            name: name.to_owned(),
            program: heading.program.clone(),
            pid: heading.pid,
            ancestors: Vec::new(),
            server_pid: None,
            command: heading.command.clone(),
            started: heading.started(),
            client: replay.implementation(rescind_proto::side::Side::Client),
            server: replay.implementation(rescind_proto::side::Side::Server),
        };
        let (end, left_out, now, in_flight) = (replay.end(), replay.left_out, replay.now, replay.in_flight());
        let mut remarks = damage.remarks();
        if end == End::Unknown && !replay.is_complete {
            remarks.push("it is incomplete: the shim was killed, still runs, or its disk failed".to_owned());
        }
        if left_out > 0 {
            remarks.push(format!("the last {KEPT} requests are shown; {left_out} before them are left out"));
        }
        Self { file, session, requests: replay.into_requests(), in_flight, left_out, now, end, remarks }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.session.name
    }

    /// What whoever opens it should know: that lines are damaged, that it breaks off, that requests are left out.
    pub fn remarks(&self) -> impl Iterator<Item = &str> {
        self.remarks.iter().map(String::as_str)
    }

    /// What it tells: a snapshot, then changes with the requests that the snapshot has no room for, then its end.
    pub fn events(&self) -> impl Iterator<Item = Event> + Send {
        let all = || self.requests.iter().map(|(request, _)| request);
        let open = all().filter(|request| request.is_open()).count();
        let mut over_to_skip = (self.requests.len() - open).saturating_sub(BATCH);
        let mut open_to_take = BATCH;
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
        let batches = rest.len().div_ceil(BATCH) as u64;
        let mut brief = self.left_out;
        let changes = (0..batches).map(move |batch| {
            let from = batch as usize * BATCH;
            let requests = rest[from..rest.len().min(from + BATCH)].iter().map(|request| (*request).clone()).collect();
            let brief = core::mem::take(&mut brief);
            Event::Changes(Changes { seq: batch + 1, now, requests, brief, in_flight, session: None })
        });
        let ended = Event::Ended(Ended { seq: batches + 1, now, how: self.end });
        std::iter::once(Event::Snapshot(snapshot)).chain(changes).chain(std::iter::once(ended))
    }

    /// One request and the messages about it, read again from the file: the first hundred and the last.
    #[must_use]
    pub fn details(&self, key: &str) -> Option<Details> {
        let (request, places) = self.requests.iter().find(|(request, _)| request.key == key)?;
        let frames = places.iter().filter_map(|place| self.frame(*place)).collect();
        Some(Details { request: request.clone(), frames, kept_since: Some(0) })
    }

    /// The message of a line; none where the file has changed since.
    fn frame(&self, place: Place) -> Option<rescind_feed::FrameView> {
        let mut text = vec![0; place.length];
        self.file.read_exact_at(&mut text, place.offset).ok()?;
        let line = Line::read(&text)?;
        let from = match line.hop.as_deref()? {
            "from_client" => Side::Client,
            "from_server" => Side::Server,
            _ => return None,
        };
        let frame = line.frame()?;
        let body = without_framing(&frame);
        let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN + 4)]);
        let text = rescind_proto::cause::cut(&shown, SHOWN).to_owned();
        Some(rescind_feed::FrameView { at: line.t, from, text, length: body.len() as u64, by_shim: false })
    }
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

/// What could not be read.
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
            (1, Some(first)) => remarks.push(format!("line {first} is damaged and left out")),
            (lines, Some(first)) => {
                remarks.push(format!("{lines} lines are damaged and left out, the first is line {first}"))
            }
            (_, None) => {}
        }
        if self.too_long > 0 {
            remarks.push(format!("{} lines are longer than {} MiB and left out", self.too_long, lines::LONGEST >> 20));
        }
        if self.breaks_off {
            remarks.push("it breaks off in the middle of a line".to_owned());
        }
        remarks
    }
}

impl Replay {
    /// What is known of a side.
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
