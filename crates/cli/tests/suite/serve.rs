//! `rescind serve` on real processes: clients and servers in the test's hands.

mod cancel;
mod connected;
pub(crate) mod departures;
mod hundred;
mod issuer;
mod lifecycle;
mod limits;
mod network;
mod owners;
mod places;
mod pool;
mod refusing;
mod remote;
mod shared;
mod sign_in;
mod silence;
mod sockets;
mod stderr;
mod tasks;
mod upstream;

use rescind_testkit::puppet::{Connection, Server, Service, Session};

use crate::shim::{
    PROGRAM,
    words::{request, request_with, result},
};

pub(crate) const LEGACY: &str = "2025-11-25";

/// What a request of 2026-07-28 has in its params.
pub(crate) const MODERN: &str = concat!(
    r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}}"#
);

/// Its headers.
pub(crate) const MIRRORS: [(&str, &str); 2] = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];

pub(crate) fn serve() -> Service {
    Service::start(PROGRAM, [] as [&str; 0])
}

/// A client's request in its session, and what its server sees of it.
pub(crate) fn ask(service: &Service, session: &mut Session, id: &str) -> Connection {
    let mut connection = service.connect();
    let request = request(id, "tools/call");
    connection.post(&session.headers(), &request);
    session.server.expect(&request);
    connection
}

/// A notification of a session's client, which is accepted.
pub(crate) fn tell(service: &Service, session: &Session, message: &str) {
    let (_, head) = service.post(&session.headers(), message);
    assert_eq!(head.status, 202);
}

/// A request outside a session, under the id that its server knows it by.
pub(crate) fn ask_modern(service: &Service, server: &mut Server, id: &str, known: &str) -> Connection {
    let mut connection = service.connect();
    connection.post(&MIRRORS, &request_with(id, "tools/list", MODERN));
    server.expect(&request_with(known, "tools/list", MODERN));
    connection
}

/// The server that all stateless requests share, once it has said that it speaks 2026-07-28; the first of them is asked
/// with id 1 and known as 2.
pub(crate) fn open_modern(service: &Service) -> (Server, Connection) {
    let mut connection = service.connect();
    connection.post(&MIRRORS, &request_with("1", "tools/list", MODERN));
    let mut server = service.take_asked();
    server.send(&result("1", r#"{"supportedVersions":["2026-07-28"]}"#));
    server.expect(&request_with("2", "tools/list", MODERN));
    (server, connection)
}
