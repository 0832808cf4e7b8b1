//! What the HTTP machine does: named cases, everything reachable from small worlds, and walks.

#![expect(clippy::unwrap_used, reason = "what a helper does not find is a failure of the test")]

mod answers;
mod bad_input;
mod batches;
mod bounds;
mod cancels;
mod corpus;
mod credentials;
mod drive;
mod era;
mod explore;
mod fates;
mod heads;
mod ids;
mod issuer;
mod joined;
mod look_alikes;
#[cfg(debug_assertions)]
mod look_ups;
mod modern;
mod owner;
mod places;
mod questions;
mod restarts;
mod resuming;
mod rig;
mod sessions;
mod shared;
mod subscriptions;
mod task_owners;
mod unread;
mod walks;
mod withdrawals;
mod world;
