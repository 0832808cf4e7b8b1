//! The head of an HTTP request: who may ask, and for what.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use rescind_proto::error_code;

use super::{
    Door,
    asker::Asker,
    credentials,
    holder::{Holder, client_of, holder_of},
    hosts::without_port,
    owner::Owner,
    pages,
    refusal::Refusal,
};
use crate::mirror::tools::Param;

/// The header that names a session.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The header that names a revision.
pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The header that repeats the method (2026-07-28).
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The header that repeats the tool, prompt or resource (2026-07-28).
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// An extension of a request on one of the last connections that there may be: only what is answered at once is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoCalls;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb<'a> {
    /// To take a message.
    Post,
    /// To listen, or to go on listening.
    Get,
    /// To end a session.
    Delete,
    /// To describe what a browser's page may ask for.
    Options,
    /// To fetch the page at this path of the server behind, which describes how to sign in.
    Discover(&'a str),
    /// To fetch the page that describes how to sign in here.
    Describe,
}

/// What the machine looks at of a head.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    pub(crate) verb: Verb<'a>,
    /// Who asks.
    pub(crate) asker: Asker,
    /// The holder for which is counted what the request makes the server hold.
    pub(crate) holder: Holder,
    /// The client whose handlers those of the request are.
    pub(crate) client: Holder,
    pub(crate) session: Option<&'a str>,
    pub(crate) version: Option<&'a str>,
    headers: &'a HeaderMap,
    pub(crate) takes_events: bool,
    /// It is taken if it is answered at once ([`NoCalls`]).
    pub(crate) must_be_brief: bool,
    pub(crate) origin: Option<&'a HeaderValue>,
}

impl<'a> Verb<'a> {
    /// Reads what a request asks for. Refuses what is for another server, from the page of another, or not served.
    pub(super) fn read(parts: &'a Parts, door: &Door<'_>) -> Result<Self, Refusal> {
        let Parts { method, uri, headers, .. } = parts;
        door.hosts.check(parts)?;
        if let Some(origin) = headers.get(header::ORIGIN) {
            check_origin(origin, door.origins)?;
        }
        let describes = door.access.is_page(uri.path(), door.path);
        let is_page = describes || door.passes_credentials && pages::is_page(uri.path());
        if let Some(path) = door.path.filter(|path| !is_page && *path != uri.path()) {
            let text = format!(
                "the endpoint is {path} here, and serves no other path; HttpServerConfig::path says which, or --path of rescind \
                 serve"
            );
            return Err(Refusal::new(StatusCode::NOT_FOUND, error_code::INVALID_REQUEST, text));
        }
        match *method {
            Method::GET if describes => Ok(Self::Describe),
            Method::GET if is_page => Ok(Self::Discover(uri.path())),
            Method::POST if !is_page => Ok(Self::Post),
            Method::GET => Ok(Self::Get),
            Method::DELETE if !is_page => Ok(Self::Delete),
            Method::OPTIONS => Ok(Self::Options),
            _ => Err(not_allowed("only POST, GET and DELETE are served")),
        }
    }
}

impl<'a> Head<'a> {
    /// Reads the rest of a head whose owner is established, and refuses one whose request could not be served.
    pub(super) fn read(
        parts: &'a Parts,
        verb: Verb<'a>,
        owner: Option<Owner>,
        door: &Door<'_>,
    ) -> Result<Self, Refusal> {
        let Parts { headers, extensions, .. } = parts;
        if verb == Verb::Post {
            check_content(headers)?;
        }
        let takes_events = takes_events(headers);
        if verb == Verb::Get && !takes_events {
            let text = "a GET must accept text/event-stream";
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, error_code::INVALID_REQUEST, text));
        }
        let credentials = if door.passes_credentials { credentials::read(headers)? } else { None };
        let text = |name| only(headers, &name);
        Ok(Self {
            verb,
            holder: holder_of(owner.as_ref(), extensions, door.parts_addresses),
            client: client_of(owner.as_ref(), extensions, door.parts_addresses),
            asker: Asker { owner, credentials },
            session: text(SESSION),
            version: text(VERSION),
            headers,
            takes_events,
            must_be_brief: extensions.get::<NoCalls>().is_some(),
            origin: headers.get(header::ORIGIN),
        })
    }

    /// The event after which a client goes on listening.
    pub(crate) fn last_event(&self) -> Option<&'a str> {
        only(self.headers, &LAST_EVENT)
    }

    /// The method that the headers repeat.
    pub(crate) fn method(&self) -> Option<&'a str> {
        only(self.headers, &METHOD)
    }

    /// Whether the name that the headers repeat is this one.
    pub(crate) fn names(&self, wanted: &str) -> bool {
        only(self.headers, &NAME).is_some_and(|name| says(name, wanted))
    }

    /// Whether the headers repeat this argument. One that no header could hold is the server's to refuse.
    pub(crate) fn repeats(&self, param: &Param, arguments: &[u8]) -> bool {
        let given = only(self.headers, &param.header);
        match param.value(arguments) {
            Some(wanted) => given.is_some_and(|given| says(given, &wanted)),
            None => !param.is_absent(arguments) || !self.headers.contains_key(&param.header),
        }
    }
}

/// The value of a header. Of one that is given twice, others may read the other.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())?.to_str().ok()
}

/// Whether the value of a header is this text. A value in base64 is decoded first.
fn says(value: &str, wanted: &str) -> bool {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => BASE64_STANDARD.decode(encoded).is_ok_and(|decoded| decoded == wanted.as_bytes()),
        None => value == wanted,
    }
}

/// Whether `Accept` has a range with events in it. Without that header anything is taken.
fn takes_events(headers: &HeaderMap) -> bool {
    const EVENTS: [&[u8]; 3] = [b"text/event-stream", b"text/*", b"*/*"];

    let is_events = |range: &[u8]| EVENTS.iter().any(|known| media(range).eq_ignore_ascii_case(known));
    let mut lines = headers.get_all(header::ACCEPT).iter().peekable();
    lines.peek().is_none() || lines.any(|line| line.as_bytes().split(|byte| *byte == b',').any(is_events))
}

/// A media type or range without its parameters.
fn media(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

pub(crate) fn not_allowed(text: &str) -> Refusal {
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error_code::INVALID_REQUEST, text);
    refusal.with_header(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"))
}

fn check_origin(origin: &HeaderValue, origins: &[Box<str>]) -> Result<(), Refusal> {
    let origin = origin.to_str().unwrap_or_default();
    let host = origin.split_once("://").map(|(_, authority)| without_port(authority));
    let is_loopback = host.is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]"));
    if is_loopback || origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
        return Ok(());
    }
    let text = "pages of this origin may not use this server (Origin)";
    Err(Refusal::new(StatusCode::FORBIDDEN, error_code::INVALID_REQUEST, text))
}

fn check_content(headers: &HeaderMap) -> Result<(), Refusal> {
    let content = headers.get(header::CONTENT_TYPE);
    if content.is_none_or(|content| media(content.as_bytes()).eq_ignore_ascii_case(b"application/json")) {
        return Ok(());
    }
    let text = "the body must be application/json";
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error_code::INVALID_REQUEST, text))
}
