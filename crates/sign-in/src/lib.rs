//! Signing in to MCP servers, as a client: OAuth 2.1 as the revisions of MCP ask it.
//!
//! A document from outside counts only once it was checked against the question: the server that a token is for, the
//! issuer that gives it, the state of the person's redirect. Nothing is kept before all of that is right.
//!
//! The crate sends no bytes itself: [`Http`] does, and [`Person`] is who can be asked. With its feature `sign-in`, the crate
//! `rescind-http` does all of that for a client: `HttpTransport::signing_in(config, vault, person)`.
//!
//! A sign-in lasts as long as a caller waits for it; a renewal goes on to its end, since it may have made the old refresh
//! token void. It runs under the lock of its file and reads the file again there: another process may have been faster. One
//! process asks the person at a time, and all look at the file meanwhile, each 250 ms: there is no other channel between
//! them.
//!
//! No crate for OAuth: `oauth2` 5.0 with what it brings adds 172 kB to a small program that is packed, three times what was
//! left for it, and discovery, registration, issuers, the redirect and the vault are not in it. Documents are read without
//! derived readers, which were a third of this crate's size.

#![warn(missing_docs)]

mod address;
mod authorization_server;
mod challenge;
mod client;
mod device;
mod discovery;
mod document;
mod error;
mod exchange;
mod flight;
mod flow;
mod form;
mod person;
mod record;
mod redirect;
mod resource;
mod scopes;
mod secret;
mod sign_in;
mod vault;
mod web;

pub use self::{
    challenge::Challenge,
    client::ClientChoice,
    error::SignInError,
    person::{Invitation, Pasting, Person},
    record::Record,
    scopes::Scopes,
    secret::Secret,
    sign_in::{Effort, Refused, Settings, SignIn},
    vault::{Vault, VaultError},
    web::{Http, HttpError, MAX_BODY, Reply, Sending},
};
