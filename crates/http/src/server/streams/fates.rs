//! What becomes of a cancel, for the client that POSTed it (D41).

use http::{HeaderName, HeaderValue, StatusCode};
use rescind_proto::{id::RequestId, link::CancelFate};

use super::{Streams, reply::Reply};
use crate::server::keys::{LinkKey, ReplyKey};

/// The header of the response to a cancel that shows what is known of it.
const FATE: HeaderName = HeaderName::from_static("rescind-cancel");

impl Streams {
    /// Records what is known of a cancel, by the id that it named. Only the first outcome is sent to the client that POSTed
    /// the cancel.
    pub(crate) fn handle_fate(&mut self, link: LinkKey, id: &RequestId, fate: CancelFate) {
        if let Some(reply) = self.cancels.get(&(link, id.clone())).copied() {
            self.tell_fate(reply, fate);
        }
    }

    /// Has a response wait for what becomes of a cancel.
    pub(crate) fn await_fate(&mut self, key: ReplyKey, reply: &mut Reply, link: LinkKey, id: RequestId) {
        let cancel = (link, id);
        reply.cancel = Some(Box::new(cancel.clone()));
        if let Some(earlier) = self.cancels.insert(cancel, key) {
            self.tell_fate(earlier, CancelFate::Unknown);
        }
    }

    /// Answers the client that POSTed a cancel, if it waits for that.
    pub(crate) fn tell_fate(&mut self, key: ReplyKey, fate: CancelFate) {
        let Some(reply) = self.replies.get_mut(&key) else { return };
        let Some(cancel) = reply.cancel.take() else { return };
        reply.tell_fate(fate);
        reply.report(key, &mut self.events);
        self.forget_fate(key, &cancel);
    }

    /// Nobody waits any more to be told of this cancel, if it was this response.
    pub(super) fn forget_fate(&mut self, key: ReplyKey, cancel: &(LinkKey, RequestId)) {
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

impl Reply {
    /// Answers the client that POSTed a cancel.
    pub(crate) fn tell_fate(&mut self, fate: CancelFate) {
        self.empty(StatusCode::ACCEPTED);
        self.add_header(FATE, HeaderValue::from_static(fate.as_str()));
    }
}
