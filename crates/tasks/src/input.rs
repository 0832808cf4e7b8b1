//! The questions of a task to its client.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::json::Json;

/// A question of a task, with its answer once there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// The request to the client, raw.
    pub request: Json,
    /// Its answer, raw.
    pub response: Option<Json>,
}

/// The questions of a task by key. Answered ones stay until the task ends, since its work may not have read them yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Inputs(BTreeMap<String, Input>);

impl Inputs {
    /// Iterates over all questions, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Input)> {
        self.0.iter().map(|(key, input)| (&**key, input))
    }

    /// Iterates over the questions without an answer.
    pub fn pending(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.iter().filter(|(_, input)| input.response.is_none()).map(|(key, input)| (key, &input.request))
    }

    /// Returns the answer to the question of that key.
    #[must_use]
    pub fn response(&self, key: &str) -> Option<&Json> {
        self.0.get(key)?.response.as_ref()
    }

    /// Whether nothing was asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes of all questions and answers.
    #[must_use]
    pub fn size(&self) -> usize {
        let of = |input: &Input| input.request.size() + input.response.as_ref().map_or(0, Json::size);
        self.0.iter().map(|(key, input)| key.len() + of(input)).sum()
    }

    /// Adds questions. One with a known key replaces the earlier one.
    pub(crate) fn ask(&mut self, requests: &[(String, Json)]) {
        let asked = requests.iter().cloned().map(|(key, request)| (key, Input { request, response: None }));
        self.0.extend(asked);
    }

    /// Adds answers and returns whether any was accepted. Unknown keys and second answers are ignored.
    pub(crate) fn answer(&mut self, responses: &[(String, Json)]) -> bool {
        let mut answered = false;
        for (key, response) in responses {
            if let Some(input) = self.0.get_mut(key).filter(|input| input.response.is_none()) {
                input.response = Some(response.clone());
                answered = true;
            }
        }
        answered
    }
}
