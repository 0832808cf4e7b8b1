//! A link on which everything passes as it is, and requests are only followed: of a protocol that is not known here (D57),
//! or of one whose requests cannot be cancelled by their id (D58).

use super::{
    Core, Relay, Step,
    exchange::{Exchange, Rare},
    link::{Part, Passed, Tag},
};
use crate::{
    error_code,
    frame::{Frame, Malformed, Request, Response},
    id::RequestId,
    link::RequestKey,
    message,
    side::Side,
    slab::Key,
    time::Instant,
};

impl Relay {
    /// Takes note of a message that may decide whether the link speaks a known protocol. If it does not, there are no two
    /// eras to join.
    #[cold]
    pub(super) fn open_link(&mut self, from: Side, body: &[u8], message: &Result<Frame<'_>, Malformed>) {
        self.core.negotiation.saw_opening(from, self.core.framing, body, message);
        if self.core.negotiation.is_opaque() {
            // It holds nothing: this is the first message that could have gone into it.
            self.bridge = None;
            self.set_departs();
        }
    }

    /// Takes in a message of an opaque link, whatever it is. It passes, and its tag is found here; `None` if it is the
    /// answer to a request of our own (D58).
    pub(super) fn handle_opaque(
        &mut self,
        now: Instant,
        from: Side,
        body: &[u8],
        message: &mut Result<Frame<'_>, Malformed>,
    ) -> Option<Passed> {
        let passed = match message {
            Ok(Frame::Request(request)) => {
                let mapped = self.map_named_request(from, body, request);
                let passed = self.handle_request(now, from, body, request);
                match mapped {
                    Some(_) if passed.as_ref().is_none_or(|passed| passed.splice.is_none()) => {
                        Some(Passed { splice: mapped, ..passed.unwrap_or(Passed::PLAIN) })
                    }
                    Some(_) | None => passed,
                }
            }
            Ok(Frame::Response(response)) => {
                let found = self.find_answered(from.other(), response.id.as_ref());
                if self.ends_own_cancel(now, from, found, response) {
                    return None;
                }
                self.opaque_answer(now, found, response)
            }
            Ok(Frame::Notification(notification)) => self.handle_thread_news(now, from, notification),
            Ok(Frame::Batch(_)) | Err(_) => None,
        };
        Some(passed.unwrap_or(Passed::PLAIN))
    }

    /// Follows a request of an opaque link, if it can be told from others. `None` if it passes without being followed.
    pub(super) fn follow_opaque(
        &mut self,
        now: Instant,
        from: Side,
        request: &Request<'_>,
        is_handshake: bool,
        (id, hash, previous): (RequestId, u64, Option<Key>),
    ) -> Option<Passed> {
        let dialect = self.core.spoken(from);
        // The server must not take its answer for that of a request of ours (D32).
        let is_ours = from == Side::Client && dialect.threads.is_some() && self.tables[from].is_own(hash, &id);
        let renamed = is_ours.then(|| self.tables[from].own_id(&id));
        if let Some(previous) = previous {
            let exchange = self.tables[from].get_mut(previous)?;
            if exchange.is_live() {
                // Served all the same by some (CDX-02).
                exchange.rare().duplicates += 1;
                return None;
            }
            self.tables[from].replace(previous);
        }
        let (table, config) = (&self.tables[from], &self.core.config);
        if id.is_null() || table.live() >= config.max_in_flight || table.kept > config.max_kept {
            return None;
        }
        let method = self.core.methods.intern(&request.method);
        let thread = dialect.threads.and_then(|form| self.core.thread_part(form, from, request)).map(Box::new);
        let parent = dialect.threads.and_then(|form| self.core.turn_of_card(form, from, &request.params));
        let has_rare = is_handshake || thread.is_some() || parent.is_some();
        let exchange = Exchange {
            renamed: renamed.clone(),
            rare: has_rare.then(|| Box::new(Rare { is_handshake, thread, parent, ..Rare::default() })),
            ..Exchange::new(id, dialect, dialect, now, method)
        };
        let followed = RequestKey { from, key: self.tables[from].insert(hash, exchange) };
        self.keep_arguments(followed, request.params.raw);
        let goes_on = self.with(now, followed, |step| step.open(None))?;
        self.report_part(followed);
        self.note_thread_request(now, followed);
        let splice = renamed.map(|own| (request.id_span.clone(), own));
        goes_on.then_some(Passed { splice, tag: Tag::Of(followed, Part::Request), urgent: false })
    }

    /// Finds the request that an answer on an opaque link ends. `None` if it passes without ending one.
    fn opaque_answer(
        &mut self,
        now: Instant,
        found: Option<(RequestKey, bool)>,
        response: &Response<'_>,
    ) -> Option<Passed> {
        let (request, is_exact) = found?;
        let exchange = self.tables[request.from].get_mut(request.key)?;
        if !is_exact || !exchange.up.may_be_answered() || !exchange.is_waiting() {
            return None;
        }
        if let Some(rare) = exchange.rare.as_deref_mut()
            && rare.duplicates > 0
        {
            // Which of them it answers cannot be known: the last answer ends what is followed under this id.
            rare.duplicates -= 1;
            return None;
        }
        let renamed = self.with(now, request, |step| step.answered(false, &response.body))??;
        self.thread_answered(now, request, &response.body);
        let splice = renamed.map(|id| (response.id_span.clone(), id));
        Some(Passed { splice, tag: Tag::Of(request, Part::Answer), urgent: false })
    }
}

impl Step<'_> {
    /// Answers what passed under the request's id while it was in flight: the server that owed the answers has ended.
    pub(super) fn answer_duplicates_gone(&mut self) {
        let duplicates = self.exchange.rare.as_deref_mut().map_or(0, |rare| core::mem::take(&mut rare.duplicates));
        let (text, data) = self.core.server_exit_error();
        for _ in 0..duplicates {
            self.core.write(self.request.from, Tag::Plain, |out| {
                message::error(Some(&self.exchange.id), error_code::UPSTREAM_GONE, &text, Some(&data), out);
            });
        }
    }
}

impl Core {
    /// Passes bytes on that belong to no message.
    pub(super) fn pass_bytes(&mut self, to: Side, bytes: &[u8]) {
        let link = &mut self.links[to];
        if !link.write_closed {
            link.outbox.push(Tag::Plain.into(), |out| out.extend_from_slice(bytes));
        }
    }
}
