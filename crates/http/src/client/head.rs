//! The HTTP requests that are sent.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use rescind_proto::frame::{self, Frame};

use super::{
    FetchKey, HttpClient, StreamKey,
    fetch::{OneWay, OneWayKind, Role},
    headers::{self, Origin},
    stream::{CallKind, Purpose},
};

impl HttpClient {
    /// Writes a fetch as the HTTP request that it is now.
    pub(crate) fn build(&mut self, key: FetchKey) -> Request<Bytes> {
        let fetch = self.fetches.get(&key).expect("what is queued exists");
        let origin = fetch.target.origin();
        let mut fields = HeaderMap::new();
        fields.insert(header::USER_AGENT, headers::AGENT);
        // What the user has set may be a secret that is shared with this origin alone.
        if origin == self.origin {
            if !self.config.headers.contains_key(header::AUTHORIZATION) {
                fields.extend(self.credentials_of(&fetch.role).map(|value| (header::AUTHORIZATION, value.clone())));
            }
            if self.config.headers.contains_key(header::USER_AGENT) {
                fields.remove(header::USER_AGENT);
            }
            fields.extend(self.config.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        let (method, body, in_session) = match &fetch.role {
            Role::Post(stream) => {
                let (body, in_session) = self.fill_post(*stream, &mut fields);
                (Method::POST, body, in_session)
            }
            Role::Get(stream) => {
                let cursor = self.streams.get(stream).and_then(|stream| stream.cursor.last_id.clone());
                fields.extend(cursor.map(|id| (headers::LAST_EVENT, id)).filter(|_| self.is_session_of(&origin)));
                (Method::GET, Bytes::new(), true)
            }
            Role::OneWay(one_way) => {
                fill_one_way(one_way, &mut fields);
                (Method::POST, one_way.body.clone(), one_way.stateless.is_none())
            }
            Role::Probe(_) => (Method::GET, Bytes::new(), false),
            Role::End { session, origin: own, version, is_repeated: _ } => {
                if *own == origin {
                    fields.insert(headers::SESSION, session.clone());
                }
                fields.extend(version.clone().map(|version| (headers::VERSION, version)));
                (Method::DELETE, Bytes::new(), false)
            }
        };
        if method == Method::POST {
            fields.insert(header::ACCEPT, headers::ANY);
            fields.insert(header::CONTENT_TYPE, headers::JSON);
        } else if method == Method::GET {
            fields.insert(header::ACCEPT, headers::EVENTS);
        }
        let mut session = None;
        if in_session {
            fields.extend(self.session.version.clone().map(|version| (headers::VERSION, version)));
            if let Some(id) = self.session.id.clone().filter(|_| self.is_session_of(&origin)) {
                fields.insert(headers::SESSION, id);
                session = Some(self.session.generation);
            }
        }
        let mut request = Request::new(body);
        let fetch = self.fetches.get_mut(&key).expect("it was there");
        fetch.session = session;
        *request.method_mut() = method;
        *request.uri_mut() = fetch.target.0.clone();
        *request.headers_mut() = fields;
        request
    }

    /// The credentials of a fetch.
    fn credentials_of<'a>(&'a self, role: &'a Role) -> Option<&'a HeaderValue> {
        let stream = match role {
            Role::Post(stream) => stream,
            Role::Probe(probe) => &probe.stream,
            Role::OneWay(one_way) => return one_way.credentials.as_ref(),
            Role::Get(_) | Role::End { .. } => return self.credentials.as_ref(),
        };
        self.streams.get(stream)?.credentials.as_ref()
    }

    /// Whether the session was opened there: its id is sent to no other.
    fn is_session_of(&self, origin: &Origin) -> bool {
        self.session.origin.as_ref().unwrap_or(&self.origin) == origin
    }

    /// The body of a stream's requests, and whether they are sent in the session.
    fn fill_post(&self, key: StreamKey, fields: &mut HeaderMap) -> (Bytes, bool) {
        let Some(stream) = self.streams.get(&key) else { return (Bytes::new(), false) };
        if stream.is_stateless() {
            if let Ok(Frame::Request(request)) = frame::parse(&stream.body) {
                let version = request.params.meta.and_then(headers::version_in);
                fields.extend(version.map(|version| (headers::VERSION, version)));
                headers::mirror(&request, &self.tools, fields);
            }
            return (stream.body.clone(), false);
        }
        let opens = stream.purpose == Purpose::Reopen
            || stream.waiting.iter().any(|waiting| waiting.kind == CallKind::Handshake);
        (stream.body.clone(), !opens)
    }
}

fn fill_one_way(one_way: &OneWay, fields: &mut HeaderMap) {
    let Some(version) = &one_way.stateless else { return };
    fields.insert(headers::VERSION, version.clone());
    let method = HeaderValue::from_str(&one_way.method).ok().filter(|_| one_way.kind == OneWayKind::Other);
    fields.extend(method.map(|method| (headers::METHOD, method)));
}
