//! The ids and methods of requests, for events that carry only a key.

use std::{collections::HashMap, sync::Arc};

use rescind_proto::{id::RequestId, link::RequestKey, relay::RelayEvent};

use super::{object::Object, record::write_request};

/// The id and method of each open request.
#[derive(Debug, Default)]
pub(super) struct RequestNames(HashMap<RequestKey, (RequestId, Arc<str>)>);

impl RequestNames {
    /// Adds the request that an event opens. Call it before the event is logged.
    pub(super) fn insert(&mut self, event: &RelayEvent) {
        if let RelayEvent::Opened { request, id, method, .. } = event {
            self.0.insert(*request, (id.clone(), method.clone()));
        }
    }

    /// Removes the request that an event settles. Call it after the event is logged.
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
