//! One JSON object a line, written member by member.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rescind_proto::{
    id::RequestId,
    json::{write_integer, write_string},
    time::Instant,
};

/// An object being written. Dropping it closes it and ends the line.
#[derive(Debug)]
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    pub(super) fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Opens the line of an event.
    pub(super) fn event(out: &'a mut Vec<u8>, at: Instant, kind: &str) -> Self {
        let mut object = Self::open(out);
        object.number("t", micros(at.since_origin()));
        object.text("kind", kind);
        object
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        write_string(self.out, value);
    }

    pub(super) fn text_if(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    pub(super) fn number(&mut self, name: &str, value: i64) {
        self.name(name);
        write_integer(self.out, value);
    }

    /// A duration in milliseconds, to the microsecond.
    pub(super) fn millis(&mut self, name: &str, value: Duration) {
        self.name(name);
        let micros = micros(value);
        self.out.extend_from_slice(format!("{}.{:03}", micros / 1000, micros % 1000).as_bytes());
    }

    /// A time on the recording's clock, or `null`.
    pub(super) fn time(&mut self, name: &str, value: Option<Instant>) {
        match value {
            Some(value) => self.number(name, micros(value.since_origin())),
            None => {
                self.name(name);
                self.out.extend_from_slice(b"null");
            }
        }
    }

    pub(super) fn id(&mut self, name: &str, value: &RequestId) {
        self.name(name);
        value.write(self.out);
    }

    /// Bytes exactly: as a string under `name` where they are UTF-8, else under `base64`.
    pub(super) fn bytes(&mut self, name: &str, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text(name, text),
            Err(_) => self.text("base64", &STANDARD.encode(bytes)),
        }
    }

    pub(super) fn texts(&mut self, name: &str, values: impl IntoIterator<Item = String>) {
        self.name(name);
        self.out.push(b'[');
        for (place, value) in values.into_iter().enumerate() {
            if place > 0 {
                self.out.push(b',');
            }
            write_string(self.out, &value);
        }
        self.out.push(b']');
    }

    /// A small object of texts as a member.
    pub(super) fn object(&mut self, name: &str, members: [(&str, &str); 2]) {
        self.name(name);
        for ((name, value), before) in members.into_iter().zip([b'{', b',']) {
            self.out.push(before);
            write_string(self.out, name);
            self.out.push(b':');
            write_string(self.out, value);
        }
        self.out.push(b'}');
    }

    fn name(&mut self, name: &str) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        write_string(self.out, name);
        self.out.push(b':');
    }
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        self.out.extend_from_slice(b"}\n");
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
