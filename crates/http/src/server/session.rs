//! How sessions end, and links with all that they serve.

use http::StatusCode;
use rescind_proto::{dialect::mcp, holder::Holder, time::Instant};

use super::{
    HttpServer, LinkInput, LinkKey, SessionKey, Sessions,
    door::{Head, Refusal, not_allowed},
    link::{LinkUse, Urgency},
    streams::Reply,
};

impl HttpServer {
    /// A client ends its session.
    pub(crate) fn handle_delete(&mut self, now: Instant, reply: &mut Reply, head: &Head<'_>) -> Result<(), Refusal> {
        if head.version.and_then(mcp::stateless_by_version).is_some() {
            return Err(not_allowed("this revision has no sessions"));
        }
        let (session, _) = self.streams.named(now, head)?;
        self.end_session(now, session);
        reply.empty(StatusCode::NO_CONTENT);
        Ok(())
    }

    /// A client is gone, and does not come back: its sessions end.
    pub(crate) fn handle_client_gone(&mut self, now: Instant, client: &Holder) {
        let of_client = self.streams.sessions.0.iter().filter(|(_, session)| session.holder == *client);
        let left: Vec<SessionKey> = of_client.map(|(key, _)| *key).collect();
        left.into_iter().for_each(|session| self.end_session(now, session));
    }

    /// Ends a session: what is in flight is cancelled, and its streams end.
    pub(crate) fn end_session(&mut self, now: Instant, session: SessionKey) {
        let Some(link) = self.streams.sessions.get(&session).map(|session| session.link) else { return };
        match self.config.sessions {
            Sessions::OwnLink => self.end_link(now, link),
            Sessions::SharedLink => self.leave_joint(now, session),
        }
    }

    /// Ends a link with all that it serves: what is in flight is cancelled.
    pub(crate) fn end_link(&mut self, now: Instant, link: LinkKey) {
        self.programs.push(link, Urgency::Ordinary, LinkInput::End);
        self.close_link(now, link);
    }

    /// Takes nothing more for a link, and nothing more from it: whoever it serves is served no more.
    pub(crate) fn close_link(&mut self, now: Instant, key: LinkKey) {
        let Some(serves) = self.programs.close(key) else { return };
        self.streams.settle_fates(key);
        match serves {
            LinkUse::Session(session) => return self.streams.forget_session(now, session),
            LinkUse::Sessions => self.streams.forget_sessions(now),
            LinkUse::Stateless => {}
        }
        self.streams.end_of_link(now, key);
    }
}
