//! What a message seems to be.

/// What the bytes seem to be, as far as it could be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// A `method` and an `id`.
    Request,
    /// A `method` and no `id`.
    Notification,
    /// A `result` or an `error`, no `method`.
    Response,
    /// An array.
    Batch,
    /// None of these.
    Unknown,
}
