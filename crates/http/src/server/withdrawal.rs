//! Tokens that are withdrawn, or come in, while the service runs.

use core::mem::discriminant;
use std::collections::BTreeSet;

use rescind_proto::time::Instant;

use super::{
    HttpServer, ReplyKey,
    door::{Access, Owner},
    programs::Era,
};

impl HttpServer {
    /// From now on these tokens are good. `access` is of the same kind as that of the settings; of another, nothing happens.
    ///
    /// Of an owner without a token nothing is left: its sessions end, and what it has in flight is cancelled, or refused with
    /// 401 where the response has not begun. What belongs to an owner with another token goes on, and so does what was begun
    /// with an [`Access::Token`], since its owner is not known.
    pub fn handle_access(&mut self, now: Instant, access: Access) {
        if discriminant(&access) != discriminant(&self.config.access) {
            return;
        }
        self.config.access = access;
        let Access::Owners(bearers) = &self.config.access else { return };
        let known: BTreeSet<Owner> = bearers.owners().cloned().collect();
        let is_gone = |owner: &Option<Owner>| owner.as_ref().is_some_and(|owner| !known.contains(owner));

        let replies: Vec<ReplyKey> = self
            .streams
            .streams
            .values()
            .filter(|stream| is_gone(&stream.owner))
            .filter_map(|stream| stream.reply)
            .collect();
        let waiting = self.programs.waiting().into_iter();
        let waiting = waiting.flat_map(|held| held.extract_if(.., |held| is_gone(&held.asker.owner)));
        let held: Vec<ReplyKey> = waiting.map(|held| held.reply).collect();
        for reply in replies.iter().copied().chain(held) {
            self.streams.refuse(reply, Access::not_good());
        }
        for session in self.streams.sessions_that(|session| is_gone(&session.owner)) {
            self.end_session(now, session);
        }
        for link in self.programs.links_of(|asker| is_gone(&asker.owner)) {
            // One that is asked which era the server speaks is asked for all; its owner comes to it no more.
            if self.programs.era != Era::Asked(link) {
                self.end_link(now, link);
            }
        }
        // What is left shares a link with others.
        replies.into_iter().for_each(|reply| self.streams.give_up(now, reply));
        self.streams.bound_unread(now);
        self.retract_abandoned(now);
    }
}
