//! Tokens that are withdrawn, or come in, while the service runs.

use core::mem::discriminant;
use std::collections::BTreeSet;

use rescind_proto::time::Instant;

use super::{
    HttpServer, ReplyKey, SessionKey,
    door::{Access, Owner},
};

impl HttpServer {
    /// From now on these tokens are good. `access` is of the same kind as that of the settings; of another, nothing happens.
    ///
    /// Of an owner who has none any more, nothing is left: his sessions end, and what he has in flight is cancelled; where
    /// nothing was said yet, it is refused with 401. What is there of an owner who has another token goes on, and so does
    /// what was begun with an [`Access::Token`], since nobody knows whose that is.
    pub fn handle_access(&mut self, now: Instant, access: Access) {
        if discriminant(&access) != discriminant(&self.config.access) {
            return;
        }
        self.config.access = access;
        let Access::Owners(bearers) = &self.config.access else { return };
        let known: BTreeSet<Owner> = bearers.owners().cloned().collect();
        let is_gone = |owner: &Option<Owner>| owner.as_ref().is_some_and(|owner| !known.contains(owner));

        let replies: Vec<ReplyKey> =
            self.streams.values().filter(|stream| is_gone(&stream.owner)).filter_map(|stream| stream.reply).collect();
        let held = self.shared.take_held(|asker| is_gone(&asker.owner));
        for reply in replies.iter().copied().chain(held) {
            self.refuse(reply, Access::not_good());
        }
        let sessions = self.sessions.iter().filter(|(_, session)| is_gone(&session.owner));
        for session in sessions.map(|(key, _)| *key).collect::<Vec<SessionKey>>() {
            self.end_session(now, session);
        }
        for link in self.shared.links_of(|asker| is_gone(&asker.owner)) {
            // One that is asked which era the server speaks is asked for all; its owner comes to it no more.
            if !self.shared.is_asked(link) {
                self.end_link(now, link);
            }
        }
        // What is left shares a link with others.
        replies.into_iter().for_each(|reply| self.give_up_reply(now, reply));
        self.bound_unread(now);
    }
}
