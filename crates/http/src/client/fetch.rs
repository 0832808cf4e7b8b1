//! One HTTP request of ours and its response.

use http::{HeaderMap, StatusCode, header, response::Parts};
use rescind_parts::timer_queue::TimerKey;
use rescind_proto::time::Instant;

use super::{ErrandKey, FetchKey, event_reader::EventReader, headers::Target, queues::Queue, refusal::Refusal, words};

/// An HTTP request that carries an errand, and its response.
///
/// ```text
/// Queued ──► Handed ──► Written ──► a head ──► Whole, Events ──► its end
///              ▲           │          ├──────► Refusal ────────► its end: the errand is decided on
///              └─ SigningIn ◄─┘       └──────► Ignored ────────► its end
/// ```
///
/// It can end at each place: it breaks, its time is up, or its errand is taken back.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    /// Tells it from others of its errand; later ones have greater numbers.
    pub(crate) serial: u64,
    pub(crate) aim: Aim,
    pub(crate) target: Target,
    /// How many redirects led here.
    pub(crate) redirects: u32,
    pub(crate) phase: Phase,
    pub(crate) reader: Reader,
    /// The session whose id it carries.
    pub(crate) session: Option<u64>,
    /// Where it waits for its turn.
    pub(crate) queue: Queue,
    pub(crate) timer: TimerKey,
}

/// What a fetch is to do for its errand.
#[derive(Clone, Debug)]
pub(crate) enum Aim {
    /// Sends its messages, or ends a session.
    Send,
    /// Asks for its stream: to listen, or for what was missed of it.
    Get,
    /// Asks whether the server, which refused it so, speaks the transport of 2024-11-05.
    Probe(Box<Refusal>),
}

/// How far a fetch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits to be handed out.
    Queued,
    /// It was handed out, and nothing of its body was written.
    Handed,
    /// The server wants a token for it, and the driver sees to one. It counts as not sent.
    SigningIn,
    /// Its body is being written, since this time, or it has none.
    Written(Instant),
}

/// What is made of a response.
#[derive(Clone, Debug)]
pub(crate) enum Reader {
    /// It has not begun.
    NoHead,
    /// The whole body is a message, or several; else it is quoted as what was said in place of an answer.
    Whole(Box<Refusal>),
    /// A stream of events.
    Events(Box<EventReader>),
    /// It refuses a request.
    Refusal(Box<Refusal>),
    /// It is read to its end, unless that is too far, so that the connection can be used again.
    Ignored {
        /// Bytes that may still come.
        left: usize,
    },
}

impl Fetch {
    pub(crate) const fn new(aim: Aim, target: Target, queue: Queue) -> Self {
        let (phase, reader) = (Phase::Queued, Reader::NoHead);
        Self { serial: 0, aim, target, redirects: 0, phase, reader, session: None, queue, timer: TimerKey::NOT }
    }

    pub(crate) const fn key(&self, errand: ErrandKey) -> FetchKey {
        FetchKey { serial: self.serial, errand }
    }

    /// Whether the driver knows it.
    pub(crate) const fn is_handed(&self) -> bool {
        !matches!(self.phase, Phase::Queued)
    }

    pub(crate) const fn is_written(&self) -> bool {
        matches!(self.phase, Phase::Written(_))
    }

    /// What the head of a response that is not an answer says.
    pub(crate) fn refusal(&self, head: &Parts) -> Refusal {
        Refusal::new(head, self.session)
    }

    /// How the response to requests is read that begins with this head.
    pub(crate) fn reader_of_answer(&self, head: &Parts, max_message: usize) -> Reader {
        let content = ContentType::of(&head.headers);
        let is_encoded = head.headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity");
        let unusable = match content {
            _ if !head.status.is_success() => None,
            _ if is_encoded => Some("compressed the answer, which it was not asked to".to_owned()),
            ContentType::Events => return Reader::Events(Box::new(EventReader::new(max_message))),
            ContentType::Other(content) => Some(format!("answered with {content}, which is no message")),
            ContentType::Json | ContentType::Missing if head.status != StatusCode::ACCEPTED => {
                let unusable = Some("gave no answer to the request".to_owned());
                return Reader::Whole(Box::new(Refusal { unusable, ..self.refusal(head) }));
            }
            ContentType::Json | ContentType::Missing => {
                Some(format!("answered {}, and gave no answer to the request", words::status(head.status)))
            }
        };
        Reader::Refusal(Box::new(Refusal { unusable, ..self.refusal(head) }))
    }
}

/// What a response says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContentType {
    Json,
    Events,
    Missing,
    Other(String),
}

impl ContentType {
    pub(crate) fn of(fields: &HeaderMap) -> Self {
        let Some(value) = fields.get(header::CONTENT_TYPE) else { return Self::Missing };
        let text = String::from_utf8_lossy(value.as_bytes());
        let media = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match &*media {
            "application/json" => Self::Json,
            "text/event-stream" => Self::Events,
            media => Self::Other(words::excerpt(media.as_bytes())),
        }
    }
}
