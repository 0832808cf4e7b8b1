//! A language server: the beginning and the end of its session, and their order.

use std::{
    future::ready,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};

use super::{Exit, LSP, lifecycle::SessionState};
use crate::peer::{
    Builder, ErrorObject, IntoRoute, NotificationHandler, Peer, Transport,
    extract::Scope,
    handler::{Guard, HandlerOutput},
    route,
};

/// A language server.
///
/// It answers `initialize` and `shutdown` and ends at `exit`. Outside of the session it refuses requests (before with
/// -32002, after with -32600) and drops notifications. A request that the client cancelled is still answered, once: with
/// the result of its handler, or -32800 (LSP-01).
#[must_use = "nothing is served until `serve`"]
pub struct Server {
    builder: Builder,
    greeting: Value,
}

impl Server {
    /// Makes a server of this name and version, without capabilities.
    pub fn new(name: &str, version: &str) -> Self {
        let greeting = json!({ "capabilities": {}, "serverInfo": { "name": name, "version": version } });
        Self { builder: Peer::builder(&LSP), greeting }
    }

    /// Declares one of the `ServerCapabilities`.
    ///
    /// If the answer to `initialize` depends on its params, handle `initialize` like any other request; then this has no
    /// effect.
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.greeting["capabilities"][name] = value.into();
        self
    }

    /// Handles requests of this method; see [`Builder::on_request`].
    pub fn on_request<Args>(self, method: &str, handler: impl IntoRoute<Args>) -> Self {
        self.with(|builder| builder.on_request(method, handler))
    }

    /// Handles notifications of this method, in the order of the wire; see [`Builder::on_notification`].
    pub fn on_notification<Args>(self, method: &str, handler: impl NotificationHandler<Args>) -> Self {
        self.with(|builder| builder.on_notification(method, handler))
    }

    /// Changes everything else of the connection: observers, filters, limits.
    pub fn with(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Serves the client on the other side of `transport` until `exit` or the end of its input. Return the [`Exit`] from
    /// `main`.
    ///
    /// # Errors
    ///
    /// The link broke.
    pub async fn serve(self, transport: impl Into<Transport>) -> io::Result<Exit> {
        let session = Arc::<Mutex<SessionState>>::default();
        let served = self.into_builder(&session).serve(transport).await;
        served.map(|()| lock(&session).exit())
    }

    fn into_builder(self, session: &Arc<Mutex<SessionState>>) -> Builder {
        let Self { mut builder, greeting } = self;
        if !builder.service.requests.contains_key("initialize") {
            let greet = route(move || ready(Ok::<_, ErrorObject>(greeting.clone())));
            builder = builder.on_request("initialize", greet.never_blocks());
        }
        if !builder.service.requests.contains_key("shutdown") {
            let shutdown = route(|| ready(Ok::<_, ErrorObject>(())));
            builder = builder.on_request("shutdown", shutdown.never_blocks());
        }
        let mut builder = builder.on_notification("exit", |peer: Peer| peer.shutdown());
        let service = &mut builder.service;
        if let Some(initialize) = service.requests.remove("initialize") {
            let session = Arc::clone(session);
            let initialize = initialize.wrapped(move |_, handling| {
                let session = Arc::clone(&session);
                Box::pin(async move {
                    let outcome = handling.await;
                    lock(&session).initialized(matches!(outcome, HandlerOutput::Value(_)));
                    outcome
                })
            });
            service.requests.insert("initialize".into(), initialize);
        }
        let (requests, notices) = (Arc::clone(session), Arc::clone(session));
        let in_order: Guard = Arc::new(move |request| lock(&requests).request(request.method()));
        service.guard(&in_order);
        service.hears(move |method| lock(&notices).hears(method));
        builder
    }
}

fn lock(session: &Mutex<SessionState>) -> MutexGuard<'_, SessionState> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

debug_fields!(Server, greeting);
