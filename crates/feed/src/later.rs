//! A word of a later shim: kept as it is, so that no row is lost for it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest word that is kept whole, in bytes.
const MOST: usize = 31;

/// A word that this program does not know: a state, an outcome or a status of a later shim. It is shown as it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct LaterWord {
    text: [u8; MOST],
    length: u8,
}

impl LaterWord {
    /// The word: untrusted, cut at 31 bytes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.get(..usize::from(self.length)).and_then(|text| str::from_utf8(text).ok()).unwrap_or_default()
    }
}

impl From<&str> for LaterWord {
    fn from(word: &str) -> Self {
        let mut length = word.len().min(MOST);
        while !word.is_char_boundary(length) {
            length -= 1;
        }
        let mut text = [0; MOST];
        text[..length].copy_from_slice(&word.as_bytes()[..length]);
        Self { text, length: u8::try_from(length).unwrap_or_default() }
    }
}

impl fmt::Debug for LaterWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl From<String> for LaterWord {
    fn from(word: String) -> Self {
        word.as_str().into()
    }
}

impl From<LaterWord> for String {
    fn from(word: LaterWord) -> Self {
        word.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_kept_as_it_is_and_a_long_one_is_cut_between_characters() {
        assert_eq!(LaterWord::from("paused").as_str(), "paused");
        assert_eq!(serde_json::to_string(&LaterWord::from("paused")).unwrap(), "\"paused\"");
        let long = format!("{}é and more", "x".repeat(30));
        assert_eq!(LaterWord::from(&*long).as_str(), "x".repeat(30));
    }
}
