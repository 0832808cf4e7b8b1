//! A post before a server takes what is written to it: it hands that on later, and gives back what was cancelled
//! before (D51).

use std::collections::VecDeque;

use rescind_proto::{id::RequestId, link::Departure};
use serde_json::Value;

/// What was taken and has not left: whole messages, without their framing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Post {
    taken: VecDeque<String>,
}

impl Post {
    /// Takes a message. Returns what has become of those that it cancels and that had not left.
    pub fn take(&mut self, message: String) -> Option<Departure> {
        let request = cancelled(&value(&message)).and_then(|id| {
            let at = self.taken.iter().rposition(|taken| request(&value(taken)).as_ref() == Some(&id))?;
            self.taken.remove(at);
            Some(id)
        });
        if request.is_none() {
            self.taken.push_back(message);
        }
        request.map(Departure::Withdrawn)
    }

    /// The first of what was taken leaves: the message, and its departures.
    pub fn hand_on(&mut self) -> Option<(String, Vec<Departure>)> {
        let message = self.taken.pop_front()?;
        let departures = departures(&message);
        Some((message, departures))
    }

    /// Whether a message with this text has not left.
    pub fn holds(&self, text: &str) -> bool {
        self.taken.iter().any(|taken| taken.contains(text))
    }

    /// Whether all that was taken has left.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

/// What departs with a message.
pub fn departures(message: &str) -> Vec<Departure> {
    let whole = value(message);
    let members = whole.as_array().cloned().unwrap_or_else(|| vec![whole]);
    let departure =
        |member| request(member).map(Departure::Request).or_else(|| cancelled(member).map(Departure::Cancel));
    members.iter().filter_map(departure).collect()
}

fn value(message: &str) -> Value {
    serde_json::from_str(message).unwrap_or_default()
}

fn id(value: Option<&Value>) -> Option<RequestId> {
    RequestId::from_json(value?.to_string().as_bytes())
}

fn request(message: &Value) -> Option<RequestId> {
    message.get("method")?;
    id(message.get("id"))
}

fn cancelled(message: &Value) -> Option<RequestId> {
    let is_cancel = message.get("method")? == "notifications/cancelled";
    id(message.get("params")?.get("requestId")).filter(|_| is_cancel)
}
