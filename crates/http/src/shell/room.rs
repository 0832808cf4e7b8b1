//! The connections of one socket, and what each of them shows of its client: whether it is waited for.
//!
//! It shows at three places: a request comes to the service, its body has nothing more for now, and its answer has been
//! flushed to the socket. Only then may the connection be ended for another, so what was answered and not yet read is never
//! lost. The choice is made under the lock that a request takes when it comes: one that comes later on a connection which
//! was chosen is not handled, and is answered so.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::{
    body::Incoming,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_util::rt::TokioIo;
use rescind_proto::holder::Holder;
use tokio::{net::TcpStream, sync::Notify};

use super::body::ResponseBody;
use crate::server::{
    connections::{Admission, ConnectionKey, Connections},
    streams::MIN_PROGRESS,
};

/// Places for connections.
#[derive(Debug)]
pub(super) struct Room {
    places: Mutex<Places>,
    /// A connection was closed.
    closed: Notify,
}

#[derive(Debug)]
struct Places {
    connections: Connections,
    /// How each connection is asked to end.
    ends: HashMap<ConnectionKey, Arc<Notify>>,
}

/// The place of one connection. Dropping it reports that it is closed.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Room>,
    key: ConnectionKey,
    end: Arc<Notify>,
    stage: AtomicU8,
}

/// What the last request on a connection has come to; before the first, that it is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// None has come.
    Silent,
    /// Its answer is owed.
    Asked,
    /// Its answer was given, and perhaps not sent.
    Answered,
    /// The same, while not all of its body was read.
    Refused,
    /// Its answer was sent: the next one is awaited.
    Resting,
    /// The same, while not all of its body was read: the rest of it is awaited.
    Unread,
}

impl Stage {
    const ALL: [Self; 6] = [Self::Silent, Self::Asked, Self::Answered, Self::Refused, Self::Resting, Self::Unread];
}

impl Room {
    pub(super) fn new(bound: usize) -> Arc<Self> {
        let places = Places { connections: Connections::new(bound), ends: HashMap::new() };
        Arc::new(Self { places: Mutex::new(places), closed: Notify::new() })
    }

    /// A place for a connection from this address. If there are too many, others are ended for it, or it is itself.
    pub(super) fn open(self: &Arc<Self>, address: IpAddr, parts_addresses: bool) -> Arc<Place> {
        let mut places = self.lock();
        let key = places.connections.open(address, parts_addresses);
        let end = Arc::new(Notify::new());
        places.ends.insert(key, Arc::clone(&end));
        while let Some(excess) = places.connections.excess() {
            places.end(excess);
        }
        drop(places);
        Arc::new(Place { room: Arc::clone(self), key, end, stage: AtomicU8::new(Stage::Silent as u8) })
    }

    /// Ends a connection that waits, if there is one.
    pub(super) fn make_room(&self) {
        let mut places = self.lock();
        if let Some(key) = places.connections.make_room() {
            places.end(key);
        }
    }

    /// Waits until a connection is closed.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Waits until no more connections are open than there may be.
    pub(super) async fn fits(&self) {
        while self.lock().connections.is_overfull() {
            self.closed().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn end(&self, key: ConnectionKey) {
        if let Some(end) = self.ends.get(&key) {
            end.notify_one();
        }
    }
}

impl Place {
    /// Waits until this connection is to end, so that there is room for another.
    pub(super) async fn ended(&self) {
        self.end.notified().await;
    }

    pub(super) fn stage(&self) -> Stage {
        Stage::ALL[usize::from(self.stage.load(Ordering::Relaxed))]
    }

    /// Records that a request has come.
    pub(super) fn ask(&self) -> Admission {
        self.set(Stage::Asked);
        self.room.lock().connections.answer(self.key)
    }

    /// Records that its client is waited for.
    fn wait(&self, is_newest: bool) {
        self.room.lock().connections.wait(self.key, is_newest);
    }

    /// Records that all was sent that was to be.
    fn flushed(&self) {
        match self.stage() {
            Stage::Answered => self.set(Stage::Resting),
            Stage::Refused => self.set(Stage::Unread),
            Stage::Silent | Stage::Asked | Stage::Resting | Stage::Unread => return,
        }
        self.wait(true);
    }

    /// Reports that this connection is closed. Returns its holder, if that has no other.
    pub(super) fn close(&self) -> Option<Holder> {
        self.room.lock().connections.close(self.key)
    }

    fn set(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.room.lock();
        places.connections.close(self.key);
        places.ends.remove(&self.key);
        drop(places);
        self.room.closed.notify_one();
    }
}

/// The body of a request: whether its client is waited for.
#[derive(Debug)]
pub(super) struct Question {
    body: Incoming,
    place: Arc<Place>,
    is_waited_for: bool,
    has_ended: bool,
    /// Bytes that have come since it was waited for as the newest; `None` if it never was.
    progress: Option<usize>,
}

impl Question {
    pub(super) fn new(body: Incoming, place: Arc<Place>) -> Self {
        let has_ended = body.is_end_stream();
        Self { body, place, is_waited_for: false, has_ended, progress: None }
    }
}

impl Body for Question {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Self { body, place, is_waited_for, has_ended, progress } = self.get_mut();
        let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
            if !std::mem::replace(is_waited_for, true) {
                let is_newest = progress.is_none_or(|bytes| bytes >= MIN_PROGRESS);
                if is_newest {
                    *progress = Some(0);
                }
                place.wait(is_newest);
            }
            return Poll::Pending;
        };
        if std::mem::take(is_waited_for) && place.room.lock().connections.answer(place.key) == Admission::Nothing {
            // It is ended before more is taken in.
            return Poll::Pending;
        }
        *has_ended = frame.is_none() || body.is_end_stream();
        let come = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref).map_or(0, Bytes::len);
        *progress = progress.map(|bytes| bytes + come);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if !self.has_ended {
            self.place.set(Stage::Refused);
        }
    }
}

/// The body of an answer. Dropping it reports that all of it was given.
#[derive(Debug)]
pub(super) struct Answer {
    body: ResponseBody,
    place: Arc<Place>,
}

impl Answer {
    pub(super) const fn new(body: ResponseBody, place: Arc<Place>) -> Self {
        Self { body, place }
    }
}

impl Body for Answer {
    type Data = <ResponseBody as Body>::Data;
    type Error = <ResponseBody as Body>::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.place.stage() == Stage::Asked {
            self.place.set(Stage::Answered);
        }
    }
}

/// A socket that reports when all was sent.
#[derive(Debug)]
pub(super) struct Watched {
    socket: TokioIo<TcpStream>,
    place: Arc<Place>,
}

impl Watched {
    pub(super) fn new(socket: TcpStream, place: Arc<Place>) -> Self {
        Self { socket: TokioIo::new(socket), place }
    }

    pub(super) fn into_socket(self) -> TcpStream {
        self.socket.into_inner()
    }
}

impl Read for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl Write for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    /// hyper calls it whenever it has nothing left to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        if flushed.is_ready() {
            self.place.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, slices)
    }
}
