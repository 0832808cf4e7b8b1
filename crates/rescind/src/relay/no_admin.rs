//! Stands for the admin socket in builds without the feature `admin`.

use std::task::{Context, Poll};

use rescind_proto::{
    relay::{End, Relay},
    side::Side,
    time::Instant,
};

use crate::process::{
    group::Group,
    turn_processes::{TurnProcess, TurnProcesses},
};

/// No socket.
#[derive(Debug, Default)]
pub(super) struct NoAdmin;

impl NoAdmin {
    pub(super) const fn poll(&mut self, _: Instant, _: &mut Relay) -> bool {
        false
    }

    pub(super) const fn receive_end_order(&mut self) -> bool {
        false
    }

    pub(super) const fn handle_input(&mut self, _: Instant, _: &Relay, _: Side, _: &[u8]) {}

    pub(super) const fn handle_replaced(&mut self, _: &Group) {}

    pub(super) const fn handle_turn_processes(&mut self, _: &TurnProcesses, _: &[TurnProcess]) {}

    pub(super) const fn handle_server_gone(&mut self) {}

    pub(super) const fn handle_restarted(&mut self, _: Instant, _: u64) {}

    pub(super) const fn handle_greeted(&mut self, _: Instant) {}

    pub(super) const fn handle_idle(&mut self, _: &Context<'_>, _: &Relay) {}

    pub(super) const fn handle_ends(&mut self, _: Instant, _: &mut Relay) {}

    pub(super) const fn poll_history(&mut self, _: &Context<'_>, _: Instant, _: &Relay) -> Poll<String> {
        Poll::Pending
    }

    pub(super) fn finish_history(&mut self) -> std::future::Ready<Option<String>> {
        std::future::ready(None)
    }

    pub(super) const fn handle_eof(&mut self, _: Instant, _: &mut Relay, _: &End) {}

    pub(super) fn close(self) -> std::future::Ready<()> {
        std::future::ready(())
    }
}
