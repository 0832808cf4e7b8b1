//! The person that can be asked to sign in.

use std::{fmt, future::Future, pin::Pin};

/// What a person is asked to do.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invitation {
    /// Open a page in a browser of this machine.
    Page {
        /// The page of the authorization server. It holds the state of this sign-in: not for the arguments of a program,
        /// which others can see.
        url: String,
        /// A link that leads there once, and holds no secret.
        link: String,
    },
    /// Open a page on any device, and type a code there (RFC 8628).
    Device {
        /// The page.
        page: String,
        /// The code.
        code: String,
    },
}

/// A text that a person pastes. Never ready where pasting is not possible.
pub type Pasting<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;

/// A person, and how to reach it.
///
/// A function that takes the invitation is one who comes back by itself: it opens the [link](Invitation::Page), or shows it.
pub trait Person: Send + Sync {
    /// Asks. It does not wait for what comes of it.
    fn invite(&self, invitation: &Invitation);

    /// Shows that another process asks already, and that its answer is awaited.
    fn wait(&self) {}

    /// Shows that the pasted text is of no use.
    fn refuse(&self, _why: &str) {}

    /// Waits for the URL to which the person's browser was redirected, where it cannot reach this machine.
    fn pasted(&self) -> Pasting<'_> {
        Box::pin(std::future::pending())
    }
}

impl<F: Fn(&Invitation) + Send + Sync> Person for F {
    fn invite(&self, invitation: &Invitation) {
        self(invitation);
    }
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Page { .. } => "Page",
            Self::Device { .. } => "Device",
        })
    }
}
