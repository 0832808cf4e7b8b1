//! Names and values as a form or the query of a URL has them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};

/// All that is encoded: everything but what RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A form that is being written. It may hold secrets, and so has no `Debug`.
#[derive(Default)]
pub(crate) struct Form(String);

impl Form {
    /// Adds a value.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        self.0.push_str(&encoded(value));
        self
    }

    /// Adds a value, if there is one.
    #[must_use]
    pub(crate) fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value.filter(|value| !value.is_empty()) {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// A value, encoded.
pub(crate) fn encoded(value: &str) -> String {
    utf8_percent_encode(value, RESERVED).to_string()
}

/// The value of this name in a query; `None` if there is none, or more than one.
pub(crate) fn value(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(known, _)| *known == name).map(|(_, value)| value);
    let value = values.next().filter(|_| values.next().is_none())?.replace('+', " ");
    percent_decode(value.as_bytes()).decode_utf8().ok().map(|value| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let written = Form::default().with("a", "x y&z=é+").with_some("b", None).with_some("c", Some("1")).into_text();
        assert_eq!(written, "a=x%20y%26z%3D%C3%A9%2B&c=1");
        assert_eq!(value(&written, "a").as_deref(), Some("x y&z=é+"));
        assert_eq!(value("a=1+2", "a").as_deref(), Some("1 2"));
    }

    /// A reader of the first value and a reader of the last would not mean the same.
    #[test]
    fn a_value_that_stands_twice_is_none() {
        assert_eq!(value("code=a&code=b", "code"), None);
        assert_eq!(value("code", "code"), None);
        assert_eq!(value("a=%ff", "a"), None);
    }
}
