//! What a message seems to be.

/// What the bytes seem to be, as far as it could be told.
///
/// It never grows: JSON-RPC has these messages, and one that does not say which it is.
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
