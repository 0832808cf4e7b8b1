//! The method and the params of a request or a notification, kept until they are handled.

use crate::frame::Params;

/// A method and its raw params, in one allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    bytes: Box<[u8]>,
    method: u32,
    has_params: bool,
    has_meta: bool,
}

impl Payload {
    pub(crate) fn new(method: &str, params: &Params<'_>) -> Self {
        let has_meta = params.meta.is_some();
        let params = params.raw;
        let mut bytes = Vec::with_capacity(method.len() + params.map_or(0, <[u8]>::len));
        bytes.extend_from_slice(method.as_bytes());
        bytes.extend_from_slice(params.unwrap_or_default());
        Self { bytes: bytes.into(), method: method.len() as u32, has_params: params.is_some(), has_meta }
    }

    /// Bytes that it holds.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the params have a `_meta`.
    pub(crate) const fn has_meta(&self) -> bool {
        self.has_meta
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.method as usize]).unwrap_or_default()
    }

    /// The raw params, if there are any.
    #[must_use]
    pub fn params(&self) -> Option<&[u8]> {
        self.has_params.then(|| &self.bytes[self.method as usize..])
    }
}

impl core::fmt::Debug for Payload {
    /// Params may hold secrets: only their length is shown.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}({} bytes)", self.method(), self.bytes.len() - self.method as usize)
    }
}
