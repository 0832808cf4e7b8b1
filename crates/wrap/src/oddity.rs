//! What a file of JSON may have that strict JSON has not.

/// What a file has that strict JSON has not, and in which line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oddity {
    /// What it is.
    pub form: Form,
    /// The line, from 1.
    pub line: usize,
}

/// What a file may have that strict JSON has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// Nothing at all.
    Empty,
    /// A byte order mark before the text.
    ByteOrderMark,
    /// A comment.
    Comment,
    /// A comma after the last member of an object or list.
    TrailingComma,
}

impl Form {
    /// What a file with it has, in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "nothing in it",
            Self::ByteOrderMark => "a byte order mark",
            Self::Comment => "a comment",
            Self::TrailingComma => "a comma after the last member",
        }
    }
}
