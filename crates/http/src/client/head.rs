//! The HTTP requests that are sent.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use rescind_proto::frame::{self, Frame};

use super::{
    FetchKey, HttpClient,
    errand::{Errand, OneWay, OneWayKind, Role},
    fetch::Aim,
    headers::{self, Origin},
};
use crate::mirror::tools::Tools;

impl HttpClient {
    /// Writes a fetch as the HTTP request that it is now.
    pub(crate) fn build(&mut self, key: FetchKey) -> Request<Bytes> {
        let (errand, fetch) = self.errands.fetch(key).expect("what is queued exists");
        let (origin, method) = (fetch.target.origin(), errand.method(&fetch.aim));
        let mut fields = HeaderMap::new();
        fields.insert(header::USER_AGENT, headers::AGENT);
        // What the user has set may be a secret that is shared with this origin alone.
        if origin == self.origin {
            if !self.config.headers.contains_key(header::AUTHORIZATION) {
                let is_of_now = matches!(fetch.aim, Aim::Get) || errand.one_way().is_some_and(OneWay::is_end);
                let credentials = if is_of_now { &self.credentials } else { &errand.credentials };
                fields.extend(credentials.clone().map(|value| (header::AUTHORIZATION, value)));
            }
            if self.config.headers.contains_key(header::USER_AGENT) {
                fields.remove(header::USER_AGENT);
            }
            fields.extend(self.config.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        let is_of_session = self.session.is_of(&origin, &self.origin);
        let (body, in_session) = match fetch.aim {
            Aim::Send => {
                errand.fill(&origin, &self.tools, &mut fields);
                (errand.body.clone(), !errand.is_stateless() && !errand.is_handshake())
            }
            Aim::Get => {
                let cursor = errand.stream.last_id.clone().filter(|_| is_of_session);
                fields.extend(cursor.map(|id| (headers::LAST_EVENT, id)));
                (Bytes::new(), true)
            }
            Aim::Probe(_) => (Bytes::new(), false),
        };
        if method == Method::POST {
            fields.insert(header::ACCEPT, headers::ANY);
            fields.insert(header::CONTENT_TYPE, headers::JSON);
        } else if method == Method::GET {
            fields.insert(header::ACCEPT, headers::EVENTS);
        }
        if in_session {
            fields.extend(self.session.version.clone().map(|version| (headers::VERSION, version)));
        }
        let id = self.session.id.clone().filter(|_| in_session && is_of_session);
        let session = id.is_some().then_some(self.session.generation);
        fields.extend(id.map(|id| (headers::SESSION, id)));
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = fetch.target.0.clone();
        *request.headers_mut() = fields;
        if let Some(fetch) = self.errands.fetch_mut(key) {
            fetch.session = session;
        }
        request
    }
}

impl Errand {
    /// Adds the headers of what it sends, to this origin, that do not come from the session as it is now.
    fn fill(&self, origin: &Origin, tools: &Tools, fields: &mut HeaderMap) {
        match &self.role {
            Role::OneWay(one_way) => {
                if let OneWayKind::End { session, origin: own, version } = &one_way.kind {
                    fields.extend((own == origin).then(|| (headers::SESSION, session.clone())));
                    fields.extend(version.clone().map(|version| (headers::VERSION, version)));
                }
                let Some(version) = &one_way.stateless else { return };
                fields.insert(headers::VERSION, version.clone());
                let method = HeaderValue::from_str(&one_way.method).ok();
                let method = method.filter(|_| one_way.kind == OneWayKind::Other);
                fields.extend(method.map(|method| (headers::METHOD, method)));
            }
            Role::Calls | Role::Listen | Role::Reopen | Role::Survey { .. } => {
                if self.is_stateless()
                    && let Ok(Frame::Request(request)) = frame::parse(&self.body)
                {
                    let version = request.params.meta.and_then(headers::version_in);
                    fields.extend(version.map(|version| (headers::VERSION, version)));
                    headers::mirror(&request, tools, fields);
                }
            }
        }
    }
}
