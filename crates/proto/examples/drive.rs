//! A driver of two endpoints without I/O: a client's call runs out of time, and the server's handler is stopped.
//!
//! `cargo run -p rescind-proto --example drive`

use std::time::Duration;

use rescind_proto::{
    connection::{CallOptions, Connection, ConnectionConfig, ConnectionEvent, HandlerEnd, Limit, Settlement},
    side::Side,
    time::Instant,
};

fn main() {
    let mut client = Connection::new(ConnectionConfig::new(Side::Client));
    let mut server = Connection::new(ConnectionConfig::new(Side::Server));
    let mut now = Instant::ORIGIN;

    let options = CallOptions { total_timeout: Limit::After(Duration::from_secs(5)), ..CallOptions::default() };
    let call = client.request(now, "tools/call", br#"{"name":"sleep"}"#, &options).expect("the link is open");

    let (mut running, mut settled) = (Vec::new(), None);
    while settled.is_none() || !running.is_empty() {
        // Bytes: a driver with sockets writes what is pending, reports that, and hands over what it reads.
        carry(now, &mut client, &mut server);
        carry(now, &mut server, &mut client);

        // Events: a driver with threads or tasks starts a handler here, and reports its end when that has come.
        while let Some(event) = server.poll_event() {
            if let ConnectionEvent::Request(request) = event {
                running.push(request.key);
            } else if let ConnectionEvent::Cancelled { request, .. } = event {
                running.retain(|key| *key != request);
                server.ended(now, request, HandlerEnd::Cancelled);
            }
        }
        while let Some(event) = client.poll_event() {
            if let ConnectionEvent::Settled { request, how } = event {
                assert_eq!(request, call);
                settled = Some(how);
            }
        }

        // Timers: a driver with a clock waits for the earliest, or for bytes. Here nothing else is to come.
        let is_idle = client.pending().is_empty() && server.pending().is_empty();
        if let Some(due) = client.poll_timeout().filter(|_| is_idle && settled.is_none()) {
            now = due;
            client.handle_timeout(now);
            server.handle_timeout(now);
        }
    }
    assert!(matches!(settled, Some(Settlement::TimedOut { .. })));
    assert_eq!(now, Instant::after_origin(Duration::from_secs(5)));
}

/// Writes what is pending in one endpoint, and lets the other read it.
fn carry(now: Instant, from: &mut Connection, to: &mut Connection) {
    while !from.pending().is_empty() && to.wants_input() {
        let written = from.pending().len();
        to.handle_input(now, from.pending());
        from.handle_written(now, written);
    }
}
