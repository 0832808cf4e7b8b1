//! One direction of a link, at its reading end: what has been written, cut wherever the pipe cut it.

/// Bytes that have left a machine and are not yet a whole line.
#[derive(Clone, Debug, Default, Hash)]
pub struct Hop {
    partial: Vec<u8>,
}

/// How much of what waits is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Everything.
    All,
    /// To the end of the frame that comes first.
    Frame,
    /// Half of the frame that comes first.
    Half,
    /// This many bytes, or everything.
    Bytes(u16),
}

/// Cuts that land anywhere.
pub const PIECES: [Cut; 3] = [Cut::Bytes(1), Cut::Bytes(9), Cut::Bytes(50)];

impl Cut {
    /// How what waits can be cut, if anything does: not at all, behind its first frame if there are more, and in these
    /// pieces.
    pub fn of(pending: &[u8], pieces: &[Self]) -> Vec<Self> {
        match pending.len() {
            0 => Vec::new(),
            all if Self::Frame.len(pending) < all => [&[Self::All, Self::Frame], pieces].concat(),
            _ => [&[Self::All], pieces].concat(),
        }
    }

    /// How many of these bytes.
    pub fn len(self, pending: &[u8]) -> usize {
        let frame = pending.iter().position(|&byte| byte == b'\n').map_or(pending.len(), |at| at + 1);
        match self {
            Self::All => pending.len(),
            Self::Frame => frame,
            Self::Half => frame.div_ceil(2),
            Self::Bytes(bytes) => pending.len().min(usize::from(bytes)),
        }
    }
}

impl Hop {
    /// Takes what was written, and gives the frames that are whole now.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut frames = Vec::new();
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
            let mut frame = core::mem::take(&mut self.partial);
            frame.extend_from_slice(&rest[..at]);
            frames.push(String::from_utf8_lossy(&frame).into_owned());
            rest = &rest[at + 1..];
        }
        self.partial.extend_from_slice(rest);
        frames
    }

    /// The frame of which some bytes, but not all, are out; `pending` is what follows them.
    pub fn begun(&self, pending: &[u8]) -> Option<String> {
        if self.partial.is_empty() {
            return None;
        }
        let mut frame = self.partial.clone();
        frame.extend(pending.iter().take_while(|&&byte| byte != b'\n'));
        Some(String::from_utf8_lossy(&frame).into_owned())
    }

    /// Whether a frame is half out.
    pub const fn is_cut(&self) -> bool {
        !self.partial.is_empty()
    }

    /// The reader is gone.
    pub fn clear(&mut self) {
        self.partial.clear();
    }
}
