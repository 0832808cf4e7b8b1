//! What the driver has to do.

use http::HeaderValue;

use super::{
    door::Owner,
    keys::{LinkKey, ReplyKey},
};

/// Something that the driver has to do.
///
/// It never grows: a driver of the server that left one out would leave a client waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpServerEvent {
    /// A link was opened: a program is wanted behind it.
    Opened {
        /// The link.
        link: LinkKey,
        /// Its session's id; `None` if sessions share it, or stateless requests.
        session: Option<Box<str>>,
        /// The credentials of its first messages, as the value of `Authorization`.
        credentials: Option<HeaderValue>,
        /// Its owner; `None` if owners share it, or there are none.
        owner: Option<Owner>,
    },
    /// A page of the server behind is wanted, for [`handle_page`](super::HttpServer::handle_page).
    PageWanted {
        /// The response that is to have it.
        reply: ReplyKey,
        /// Its path.
        path: Box<str>,
    },
    /// The keys of the [issuer](super::Access::Issuer) are wanted, for [`handle_keys`](super::HttpServer::handle_keys).
    KeysWanted,
    /// There is a head, or more of a body, for this response.
    ReplyReady(ReplyKey),
    /// There is input for this link.
    InputReady(LinkKey),
    /// A message was dropped: a notification for one of several clients that does not show which, or a malformed one.
    Dropped {
        /// Where it came from.
        link: LinkKey,
        /// Its method.
        method: Box<str>,
    },
}
