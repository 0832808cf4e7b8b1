//! Marks of what passes on the wire: requests, their cancels and their answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rescind::peer::{Builder, filter::Pass};
use serde_json::Value;

use super::{
    BUILD_AND_SEARCH,
    mark::{Event, Piece},
};
use crate::marks::Marks;

/// A passive observer of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    marks: Arc<Marks>,
    /// Outgoing requests by the JSON text of their id.
    requests: Arc<Mutex<HashMap<String, Piece>>>,
}

impl Wire {
    pub(crate) fn new(marks: &Arc<Marks>) -> Self {
        Self { marks: Arc::clone(marks), requests: Arc::default() }
    }

    /// Lets it see every message, in both directions.
    pub(crate) fn observe(&self, builder: Builder) -> Builder {
        let (outgoing, incoming) = (self.clone(), self.clone());
        builder
            .outgoing(move |message| {
                outgoing.sent(&serde_json::from_slice(message.json()).unwrap_or_default());
                Pass::Unchanged
            })
            .incoming(move |message| {
                incoming.received(&serde_json::from_slice(message.json()).unwrap_or_default());
                Pass::Unchanged
            })
    }

    fn sent(&self, message: &Value) {
        let Some(method) = message["method"].as_str() else { return };
        let params = &message["params"];
        if let Some(id) = message.get("id") {
            if let Some(piece) = asked_for(method, params) {
                self.requests().insert(id.to_string(), piece);
                self.marks.mark(piece, Event::Asked);
            }
            return;
        }
        let cancelled = match method {
            "session/cancel" => Some(Piece::Prompt),
            "notifications/cancelled" | "$/cancel_request" => {
                self.requests().get(&params["requestId"].to_string()).copied()
            }
            _ => None,
        };
        if let Some(piece) = cancelled {
            self.marks.mark(piece, Event::Cancelling { method: method.to_owned() });
        }
    }

    fn received(&self, message: &Value) {
        if message.get("method").is_some() {
            return;
        }
        let Some(piece) = self.requests().get(&message["id"].to_string()).copied() else { return };
        let answer = message.get("result").or_else(|| message.get("error")).cloned().unwrap_or_default();
        self.marks.mark(piece, Event::Answered { answer });
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<String, Piece>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the piece of work that a request asks for, if it is part of the demo.
fn asked_for(method: &str, params: &Value) -> Option<Piece> {
    match (method, params["name"].as_str()) {
        ("session/prompt", _) if params["prompt"][0]["text"] == BUILD_AND_SEARCH => Some(Piece::Prompt),
        ("session/request_permission", _) => Some(Piece::Permission),
        ("tools/call", Some("build")) => Some(Piece::Build),
        ("tools/call", Some("search")) => Some(Piece::Search),
        _ => None,
    }
}
