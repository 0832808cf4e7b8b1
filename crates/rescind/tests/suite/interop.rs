//! Real SDKs in real processes at the other end of a `Peer`, in both roles; `peers/README.md` says what is there.
//!
//! Each behaviour is observed by what the work itself tells, theirs through marks on stderr, ours through a journal.
//! What an SDK is known to do wrong is expected as it is ([`sdk::Sdk::faults`]): one that was fixed fails its test.
//! The last test to end prints the table of all.

mod acp_two;
mod ids;
mod journal;
mod json_server;
mod program;
mod protocol;
mod rounds;
mod sdk;
mod table;
mod their_client;
mod their_server;
