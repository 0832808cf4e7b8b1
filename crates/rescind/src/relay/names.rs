//! What the requests in flight are called, for events that name them by key only.

use std::collections::HashMap;

use rescind_proto::{id::RequestId, link::RequestKey, relay::RelayEvent};

use super::{object::Object, record::write_request};

/// The id and method of each request whose start was seen and whose end was not.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<RequestKey, (RequestId, Box<str>)>);

impl Names {
    /// Learns from an event, before it is told to anybody.
    pub(super) fn learn(&mut self, event: &RelayEvent) {
        if let RelayEvent::Opened { request, id, method, .. } = event {
            self.0.insert(*request, (id.clone(), method.clone()));
        }
    }

    /// Forgets what an event has ended, after everybody was told.
    pub(super) fn forget(&mut self, event: &RelayEvent) {
        if let RelayEvent::Settled { request, .. } = event {
            self.0.remove(request);
        }
    }

    pub(super) fn of(&self, request: RequestKey) -> (Option<&RequestId>, Option<&str>) {
        self.0.get(&request).map(|(id, method)| (id, &**method)).unzip()
    }

    pub(super) fn write(&self, line: &mut Object<'_>, request: RequestKey) {
        let (id, method) = self.of(request);
        write_request(line, request.from, id, method);
    }
}
