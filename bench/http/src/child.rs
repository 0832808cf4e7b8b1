//! The stdio server behind every gateway: `echo` is answered at once, `hang` never.
//!
//! It speaks both eras, and marks in a file which calls of `hang` it has read and when it has read their cancels.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use rescind_proto::frame::{self, Frame, Notification, Request};
use rescind_proto::json;

use crate::marks::Mark;

/// Free space kept for one read: what a pipe holds by default.
const READ: usize = 64 * 1024;

/// Serves standard input until it ends.
pub(crate) fn serve(marks: &Path) -> io::Result<()> {
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let marks = OpenOptions::new().append(true).open(marks)?;
    let mut child = Child { hung: HashMap::new(), marks, answers: Vec::new() };
    let (mut buffer, mut end) = (Vec::new(), 0);
    loop {
        buffer.resize(end + READ, 0);
        let read = input.read(&mut buffer[end..])?;
        if read == 0 {
            return Ok(());
        }
        let (mut start, scanned) = (0, end);
        end += read;
        for newline in memchr::memchr_iter(b'\n', &buffer[scanned..end]) {
            child.handle_line(&buffer[start..scanned + newline])?;
            start = scanned + newline + 1;
        }
        buffer.copy_within(start..end, 0);
        end -= start;
        output.write_all(&child.answers)?;
        child.answers.clear();
    }
}

struct Child {
    /// What each call of `hang` works on, by its id as written; kept, so that a second cancel is recognised.
    hung: HashMap<Vec<u8>, Option<usize>>,
    marks: File,
    answers: Vec<u8>,
}

impl Child {
    fn handle_line(&mut self, line: &[u8]) -> io::Result<()> {
        match frame::parse(line) {
            Ok(Frame::Request(request)) => self.handle_request(&line[request.id_span.clone()], &request),
            Ok(Frame::Notification(notification)) if notification.method == "notifications/cancelled" => {
                self.handle_cancel(&notification)
            }
            Ok(Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_)) | Err(_) => Ok(()),
        }
    }

    fn handle_request(&mut self, id: &[u8], request: &Request<'_>) -> io::Result<()> {
        let params = request.params.raw.unwrap_or_default();
        let work = || json::lookup(params, &["arguments", "work"]).unwrap_or(b"null");
        match &*request.method {
            "tools/call" if request.params.name == Some(br#""echo""#) => {
                self.answer(id, &[br#"{"resultType":"complete","content":[{"type":"text","text":"#, work(), b"}]}"]);
            }
            "tools/call" => {
                let work = str::from_utf8(work()).ok().and_then(|work| work.trim_matches('"').parse().ok());
                self.hung.insert(id.to_vec(), work);
                if let Some(work) = work {
                    self.marks.write_all(Mark::Called { work }.line().as_bytes())?;
                }
            }
            "initialize" => {
                let version = json::member(params, "protocolVersion").unwrap_or(br#""2025-11-25""#);
                self.answer(id, &[br#"{"protocolVersion":"#, version, b",", ABOUT, b"}"]);
            }
            "server/discover" => self.answer(id, &[DISCOVERED, ABOUT, b"}"]),
            "tools/list" => self.answer(id, &[TOOLS]),
            "ping" => self.answer(id, &[b"{}"]),
            _ => {
                for part in [br#"{"jsonrpc":"2.0","id":"#, id, UNKNOWN] {
                    self.answers.extend_from_slice(part);
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, id: &[u8], result: &[&[u8]]) {
        let around: [&[&[u8]]; 3] = [&[br#"{"jsonrpc":"2.0","id":"#, id, br#","result":"#], result, &[b"}\n"]];
        for part in around.into_iter().flatten() {
            self.answers.extend_from_slice(part);
        }
    }

    fn handle_cancel(&mut self, cancel: &Notification<'_>) -> io::Result<()> {
        let id = json::member(cancel.params.raw.unwrap_or_default(), "requestId").unwrap_or_default();
        let mark = Mark::Cancelled { work: self.hung.get(id).copied().flatten(), at: crate::marks::now() };
        self.marks.write_all(mark.line().as_bytes())
    }
}

const ABOUT: &[u8] = br#""capabilities":{"tools":{}},"serverInfo":{"name":"child","version":"1.0.0"},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"child","version":"1.0.0"}}"#;
const DISCOVERED: &[u8] =
    br#"{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":3600000,"cacheScope":"public","#;
const TOOLS: &[u8] = br#"{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}}]}"#;
const UNKNOWN: &[u8] = b",\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n";
