//! Stands in for the processes of turns where sessions have no mark (without the feature `admin`): none is ended.

use std::task::{Context, Poll};

use rescind_proto::{
    link::{ChildKey, RequestKey},
    receipt::Outcome,
    relay::Relay,
    time::Instant,
};

#[derive(Debug)]
pub(crate) enum TurnProcesses {}

#[derive(Debug)]
pub(crate) enum TurnProcess {}

impl TurnProcesses {
    pub(crate) const fn handle_restarted(&mut self, _: Instant) {
        match *self {}
    }

    pub(crate) const fn handle_greeted(&mut self, _: Instant) {
        match *self {}
    }

    pub(crate) const fn handle_receipt(&mut self, _: Instant, _: RequestKey, _: Outcome) {
        match *self {}
    }

    pub(crate) const fn handle_stopped_child(&mut self, _: Instant, _: ChildKey) {
        match *self {}
    }

    pub(crate) const fn deadline(&self) -> Option<Instant> {
        match *self {}
    }

    pub(crate) const fn poll(&mut self, _: &mut Context<'_>, _: Instant, _: &Relay) -> Poll<Vec<TurnProcess>> {
        match *self {}
    }

    pub(crate) async fn finish(self) {
        match self {}
    }
}
