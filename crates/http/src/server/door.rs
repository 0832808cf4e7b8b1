//! The door: who may ask, and as whom. It knows requests by their heads, and knows nothing of links, sessions and streams.

mod access;
mod asker;
mod bearers;
mod caller;
mod credentials;
mod head;
mod holder;
mod hosts;
mod issuer;
mod owner;
mod pages;
mod refusal;
pub(crate) mod strict;
mod token;

use http::request::Parts;
use rescind_proto::time::Instant;

pub(crate) use asker::Asker;
pub(crate) use credentials::{Credentials, MAX_CREDENTIALS};
pub(crate) use head::{Head, METHOD, NAME, NoCalls, SESSION, VERSION, Verb, not_allowed};
pub(crate) use holder::{Holder, Shares, is_told_apart};
pub(crate) use issuer::keyring::{Keyring, MAX_KEYRING};
pub(crate) use owner::MAX_OWNER;
pub(crate) use refusal::Refusal;

pub use access::Access;
pub use bearers::{Bearers, BearersError, LineFault};
pub use caller::{Caller, Extension};
pub use holder::{ClientAddress, ClientConnection};
pub use hosts::{Hosts, LocalAddress};
pub use issuer::key_set::{KeySet, KeySetError};
pub use issuer::{Issuer, IssuerError};
pub use owner::Owner;
pub use token::TokenDigest;

/// Whom a server admits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door<'a> {
    /// The only path that is served; `None` for every path.
    pub(crate) path: Option<&'a str>,
    pub(crate) hosts: &'a Hosts,
    /// Origins whose pages may ask, beside those of loopback.
    pub(crate) origins: &'a [Box<str>],
    pub(crate) access: &'a Access,
    /// The server behind judges `Authorization`.
    pub(crate) passes_credentials: bool,
    /// Addresses distinguish clients.
    pub(crate) parts_addresses: bool,
}

/// The door's decision about a request.
#[derive(Debug)]
pub(crate) enum Judgement<'a> {
    Admitted(Head<'a>),
    Refused(Refusal),
    /// The key that has signed its token may still come. The request is to be judged again then.
    WaitsForKeys,
}

impl Door<'_> {
    /// Judges a request by its head. Unless it `may_wait`, it is judged by the keys that are known.
    pub(crate) fn judge<'a>(
        &self,
        now: Instant,
        parts: &'a Parts,
        keyring: &mut Keyring,
        may_wait: bool,
    ) -> Judgement<'a> {
        self.admit(now, parts, keyring, may_wait).unwrap_or_else(Judgement::Refused)
    }

    fn admit<'a>(
        &self,
        now: Instant,
        parts: &'a Parts,
        keyring: &mut Keyring,
        may_wait: bool,
    ) -> Result<Judgement<'a>, Refusal> {
        // What needs no key is judged before keys are waited for.
        let verb = Verb::read(parts, self)?;
        let owner = match verb {
            // A browser sends no credentials with its question whether it may ask, and a client has none before it has read
            // how to sign in.
            Verb::Options | Verb::Describe => None,
            Verb::Post | Verb::Get | Verb::Delete | Verb::Discover(_) => {
                if may_wait && self.access.awaits_key(now, &parts.headers, keyring) {
                    return Ok(Judgement::WaitsForKeys);
                }
                self.access.check(&parts.headers, keyring)?
            }
        };
        Head::read(parts, verb, owner, self).map(Judgement::Admitted)
    }
}
