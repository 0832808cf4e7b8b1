//! What becomes of a cancel, for the client that POSTed it (D41).

use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use rescind_proto::{id::RequestId, link::CancelFate, time::Instant};

use super::{HttpServer, LinkKey, ReplyKey};

/// The header of the response to a cancel that shows what is known of it.
pub(crate) const FATE: HeaderName = HeaderName::from_static("rescind-cancel");

/// How long that response waits until something is known.
pub(crate) const FATE_WITHIN: Duration = Duration::from_secs(1);

impl HttpServer {
    /// Records what is known of a cancel that this link was given, by the id that it named. Only the first outcome
    /// is sent to the client that POSTed the cancel.
    pub fn handle_cancel_fate(&mut self, link: LinkKey, id: &RequestId, fate: CancelFate) {
        if let Some(reply) = self.cancels.get(&(link, id.clone())).copied() {
            self.tell_fate(reply, fate);
        }
    }

    /// Has a response wait for what becomes of a cancel.
    pub(crate) fn await_fate(&mut self, now: Instant, reply_key: ReplyKey, link: LinkKey, id: RequestId) {
        let Some(reply) = self.replies.get_mut(&reply_key) else { return };
        let cancel = (link, id);
        reply.cancel = Some(Box::new(cancel.clone()));
        if let Some(earlier) = self.cancels.insert(cancel, reply_key) {
            self.tell_fate(earlier, CancelFate::Unknown);
        }
        self.timers.fates.arm(now, reply_key);
    }

    /// Answers the client that POSTed a cancel.
    pub(crate) fn tell_fate(&mut self, key: ReplyKey, fate: CancelFate) {
        self.forget_cancel(key);
        let Some(reply) = self.replies.get_mut(&key) else { return };
        reply.empty(StatusCode::ACCEPTED);
        reply.add_header(FATE, HeaderValue::from_static(fate.as_str()));
        self.report_reply(key);
    }

    /// Forgets which cancel a response waits for.
    pub(crate) fn forget_cancel(&mut self, key: ReplyKey) {
        let Some(cancel) = self.replies.get_mut(&key).and_then(|reply| reply.cancel.take()) else { return };
        self.forget_fate(key, &cancel);
    }

    /// Nobody waits any more to be told of this cancel, if it was this response.
    pub(crate) fn forget_fate(&mut self, key: ReplyKey, cancel: &(LinkKey, RequestId)) {
        if self.cancels.get(cancel) == Some(&key) {
            self.cancels.remove(cancel);
        }
    }

    /// Answers all that wait for cancels of this link: nothing more will be known of them.
    pub(crate) fn settle_fates(&mut self, link: LinkKey) {
        let of_link = self.cancels.iter().filter(|((of, _), _)| *of == link);
        let mut waiting: Vec<ReplyKey> = of_link.map(|(_, reply)| *reply).collect();
        waiting.sort_unstable();
        waiting.into_iter().for_each(|reply| self.tell_fate(reply, CancelFate::Unknown));
    }
}
