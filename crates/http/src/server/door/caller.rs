//! Who made an HTTP request, for its handler.

use core::{
    fmt,
    hash::{Hash, Hasher},
};
use std::sync::Arc;

use http::{Extensions, request::Parts};
use rescind::peer::{
    Context, ErrorObject,
    extract::{Extract, OnRequest},
    transport::Attachment,
};

use super::{holder::Holder, owner::Owner};

/// The caller of a request that came over HTTP: its owner, and the extensions of the HTTP request that carried it. There the
/// middleware of an application leaves what it knows: who has signed in, for instance.
///
/// A handler takes it as a parameter, or asks its context ([`Caller::of`]). Where nothing is known of the caller, because no
/// middleware has left anything and without [owners](crate::server::Access), it is empty.
///
/// A call in several rounds (2026-07-28) has the caller of its first one.
#[derive(Clone, Default)]
pub struct Caller {
    owner: Option<Owner>,
    extensions: Option<Arc<Extensions>>,
    /// The client that its handler is counted for, where several share a program.
    holder: Option<Holder>,
}

impl Caller {
    /// What is known; `None` if that is nothing.
    pub(crate) fn read(head: &Parts, owner: Option<&Owner>) -> Option<Self> {
        let extensions = (!head.extensions.is_empty()).then(|| Arc::new(head.extensions.clone()));
        (extensions.is_some() || owner.is_some()).then(|| Self { owner: owner.cloned(), extensions, holder: None })
    }

    /// The same, whose handler is counted for this client.
    pub(crate) fn counted_for(self, holder: Holder) -> Self {
        Self { holder: Some(holder), ..self }
    }

    /// As what goes with a request to its handler.
    pub(crate) fn into_attachment(self) -> Attachment {
        let holder = self.holder.clone();
        let attachment = Attachment::new(self);
        match holder {
            Some(holder) => attachment.counted_for(holder),
            None => attachment,
        }
    }

    /// The caller of the request that this handler works on; empty if it did not come over HTTP.
    #[must_use]
    pub fn of(context: &Context) -> Self {
        context.attachment::<Self>().cloned().unwrap_or_default()
    }

    /// The owner that the token of the request names ([`Access::Owners`](crate::server::Access), [`Access::Issuer`](crate::server::Access)).
    #[must_use]
    pub const fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// The extension of this type, if middleware has left one.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.extensions.as_ref()?.get()
    }
}

impl Extract<OnRequest> for Caller {
    fn extract(scope: &OnRequest) -> Result<Self, ErrorObject> {
        Ok(Self::of(&scope.context()))
    }
}

/// An extension of the HTTP request, as a parameter of a handler. A request without one is answered with an internal error
/// (-32603): the middleware that leaves it is missing.
///
/// ```
/// # use rescind::{mcp::Server, peer::AnyError};
/// use rescind_http::server::Extension;
///
/// #[derive(Clone)]
/// struct User(String);
///
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct Nothing {}
/// // Middleware in front of the endpoint: `request.extensions_mut().insert(User(name))`.
/// let who = |_: Nothing, Extension(user): Extension<User>| async move { Ok::<_, AnyError>(user.0) };
/// let server = Server::new("tools", "1.0").tool("who", "Says who has called", who);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<T>(
    /// The value.
    pub T,
);

impl<T: Clone + Send + Sync + 'static> Extract<OnRequest> for Extension<T> {
    fn extract(scope: &OnRequest) -> Result<Self, ErrorObject> {
        let caller = Caller::of(&scope.context());
        let missing = || ErrorObject::internal("the HTTP request has no extension of the type that its handler wants");
        caller.extension().cloned().map(Self).ok_or_else(missing)
    }
}

/// Two are equal if they are of one HTTP request.
impl PartialEq for Caller {
    fn eq(&self, other: &Self) -> bool {
        let extensions = |caller: &Self| caller.extensions.as_ref().map(Arc::as_ptr);
        self.owner == other.owner && self.holder == other.holder && extensions(self) == extensions(other)
    }
}

impl Eq for Caller {}

impl Hash for Caller {
    /// The machine decides nothing by the extensions.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.owner, &self.holder).hash(state);
    }
}

impl fmt::Debug for Caller {
    /// Extensions may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("owner", &self.owner).finish_non_exhaustive()
    }
}
