//! The two sides of a link.

words! {
    /// One end of a link: the client started the session, the server serves it.
    ///
    /// In ACP the editor is the client and the agent the server; in LSP the editor
    /// and the language server.
    ///
    /// It never grows: there are two sides, and code for one is code for the other.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Side {
        /// Who started the session.
        Client = "client",
        /// Who serves it.
        Server = "server",
    }
}

impl Side {
    /// Both, client first.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// One value for each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sides<T> {
    /// The client's.
    pub client: T,
    /// The server's.
    pub server: T,
}

impl<T> Sides<T> {
    /// Makes the value of each side.
    pub fn from_fn(mut make: impl FnMut(Side) -> T) -> Self {
        Self { client: make(Side::Client), server: make(Side::Server) }
    }
}

impl<T> core::ops::Index<Side> for Sides<T> {
    type Output = T;

    fn index(&self, side: Side) -> &T {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

impl<T> core::ops::IndexMut<Side> for Sides<T> {
    fn index_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}
