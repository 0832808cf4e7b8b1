//! A client that is welcomed before its server has started (D70): what becomes of it, and what is kept for the next start.

use std::task::{Context, Poll};

use rescind_proto::{relay::WelcomeNews, time::Instant};

use super::Drive;
use crate::process::ended_by::EndReason;

impl Drive {
    /// Handles news of a client that was welcomed early, and has what was learnt kept. Whether there were news.
    #[cold]
    pub(super) fn poll_welcome(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut moved = false;
        while let Some(news) = self.relay.poll_welcome_news() {
            moved = true;
            self.observer.handle_welcome(&news);
            if let WelcomeNews::Unfit(_) = news {
                self.terminate(now, EndReason::Unwelcome);
            }
        }
        let Some(welcome) = &mut self.server.welcome else { return moved };
        if let Some(document) = self.relay.poll_welcomes() {
            welcome.keep(document);
        }
        if let Poll::Ready(error) = welcome.poll(cx) {
            self.observer.handle_welcome_not_kept(&error);
        }
        moved
    }
}
