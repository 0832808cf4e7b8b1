//! An endpoint with its application and the model that judges both.

use core::hash::{Hash, Hasher};
use std::sync::Arc;

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, Connection, HandlerEnd, Limit, Reply},
    side::Side,
    time::Instant,
};

use super::{
    endpoint_model::{End, EndpointModel},
    hop::{Cut, Hop},
    scene::Scene,
    text,
    world::{Broken, never, none},
};

/// One endpoint of a simulated link.
#[derive(Clone, Debug)]
pub struct Endpoint {
    role: Side,
    /// The machine.
    pub conn: Connection,
    /// What must be true of it.
    pub model: EndpointModel,
    /// Its output, as far as it has left.
    left: Hop,
    /// Its input, as far as it has arrived.
    arrived: Hop,
    scene: Arc<Scene>,
    plains: usize,
    /// The next message that arrives is vetoed.
    pub vetoes: bool,
}

/// Something that an application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// Makes a request with the method of this place in the scene.
    Make(u8),
    /// Cancels a request.
    Cancel(u8),
    /// Cancels a request and waits for the answer all the same.
    CancelAndWait(u8),
    /// A handler reports progress.
    Note(u8),
    /// A handler answers and goes on.
    Respond(u8),
    /// A handler ends.
    End(u8, End),
    /// An operator stops a handler.
    Stop(u8),
    /// Says something of no known method.
    Plain,
    /// Ends the connection in order.
    ShutDown,
}

impl Endpoint {
    /// An endpoint of the scene, before anything has happened.
    pub fn new(scene: &Arc<Scene>, role: Side) -> Self {
        Self {
            role,
            conn: Connection::new(scene.endpoint_config(role)),
            model: EndpointModel::new(Arc::clone(scene), role),
            left: Hop::default(),
            arrived: Hop::default(),
            scene: Arc::clone(scene),
            plains: 0,
            vetoes: false,
        }
    }

    /// What its application can do now.
    pub fn actions(&self, out: &mut Vec<Do>) {
        let (scene, model) = (&self.scene, &self.model);
        let may_ask = self.role == Side::Client || scene.dialects[self.role].no_server_requests.is_none();
        if may_ask && model.is_open() && model.calls.len() < scene.asks[self.role] {
            out.extend((0..scene.methods[self.role].len()).map(|method| Do::Make(method as u8)));
        }
        for (at, call) in model.calls.iter().enumerate() {
            if call.settled.is_none() {
                out.push(Do::Cancel(at as u8));
                if scene.patient && !call.given_up {
                    out.push(Do::CancelAndWait(at as u8));
                }
            }
        }
        for (at, work) in model.works.iter().enumerate().filter(|(_, work)| work.runs()) {
            let at = at as u8;
            if scene.progress && scene.dialects[self.role].progress.is_some() && work.notes == 0 {
                out.push(Do::Note(at));
            }
            if !work.replied {
                out.push(Do::Respond(at));
            }
            out.push(Do::End(at, if work.replied { End::Answered } else { End::Returned }));
            if work.fired {
                out.push(Do::End(at, End::Cancelled));
            }
            if scene.operator && !work.fired {
                out.push(Do::Stop(at));
                out.push(Do::End(at, End::GaveUp));
            }
            if work.dropped {
                out.push(Do::End(at, End::Dropped));
            }
        }
        if self.plains < scene.plains && !model.write_closed {
            out.push(Do::Plain);
        }
        if scene.ends && !model.shutting_down {
            out.push(Do::ShutDown);
        }
    }

    /// Its application does something.
    ///
    /// # Errors
    ///
    /// The rule that is broken by what comes of it.
    pub fn act(&mut self, now: Instant, what: Do) -> Result<(), Broken> {
        let begun = self.begun();
        let begun = begun.as_deref();
        let Self { conn, model, scene, role, .. } = self;
        let dialect = scene.dialects[*role];
        match what {
            Do::Make(method) => {
                let method = scene.methods[*role][usize::from(method)];
                let options = CallOptions {
                    response_timeout: scene.clock.map_or(Limit::Never, Limit::After),
                    total_timeout: Limit::Never,
                    reset_on_progress: scene.resets,
                    parent: None,
                    deadline: None,
                    since: None,
                    is_watched: false,
                };
                let params = text::params(dialect, method, model.calls.len());
                match conn.request(now, method, params.as_bytes(), &options) {
                    Ok(key) => model.made(now, key, method),
                    Err(misuse) => return Err(Broken(format!("a request cannot be made: {misuse}"))),
                }
            }
            Do::Cancel(call) => {
                let key = model.calls[usize::from(call)].key;
                let expected = model.cancelled(usize::from(call), None, begun);
                expect("cancel", conn.cancel(now, key, Cause::new(CauseCode::Caller)), expected)?;
            }
            Do::CancelAndWait(call) => {
                let key = model.calls[usize::from(call)].key;
                let expected = model.cancelled(usize::from(call), Some(now + scene.grace), begun);
                let done = conn.cancel_and_wait(now, key, Cause::new(CauseCode::Caller), scene.grace);
                expect("cancel_and_wait", done, expected)?;
            }
            Do::Note(work) => {
                let (Some(form), Some(key)) = (dialect.progress, model.works[usize::from(work)].key) else {
                    return Ok(());
                };
                let params = text::progress_params(form, model.works[usize::from(work)].generation);
                let expected = model.noted(usize::from(work));
                expect("notify_for", conn.notify_for(now, key, form.method, params.as_bytes()), expected)?;
            }
            Do::Respond(work) => {
                let Some(key) = model.works[usize::from(work)].key else { return Ok(()) };
                let reply = format!(r#"{{"g":{}}}"#, model.works[usize::from(work)].generation);
                let expected = model.responded(now, usize::from(work), begun);
                expect("respond", conn.respond(now, key, Reply::Result(reply.as_bytes())), expected)?;
            }
            Do::End(work, end) => {
                let Some(key) = model.works[usize::from(work)].key else { return Ok(()) };
                let reply = format!(r#"{{"g":{}}}"#, model.works[usize::from(work)].generation);
                model.ended(now, usize::from(work), end, begun);
                let end = match end {
                    End::Returned => HandlerEnd::Returned(Reply::Result(reply.as_bytes())),
                    End::Cancelled => HandlerEnd::Cancelled,
                    End::GaveUp => HandlerEnd::GaveUp,
                    End::Dropped => HandlerEnd::Dropped,
                    End::Panicked => HandlerEnd::Panicked,
                    End::Answered => HandlerEnd::Answered,
                };
                conn.ended(now, key, end);
            }
            Do::Stop(work) => {
                let Some(key) = model.works[usize::from(work)].key else { return Ok(()) };
                let expected = model.stopped(now, usize::from(work));
                expect("stop", conn.stop(now, key, Cause::new(CauseCode::Operator)), expected)?;
            }
            Do::Plain => {
                let number = self.plains;
                model.said_plain(number);
                let params = format!(r#"{{"n":{number}}}"#);
                let said = conn.notify(now, text::PLAIN, params.as_bytes());
                self.plains += 1;
                said.map_err(|misuse| Broken(format!("a notification cannot be sent: {misuse}")))?;
            }
            Do::ShutDown => {
                model.shut_down(now, begun);
                conn.shutdown(now);
            }
        }
        self.poll(now)
    }

    /// Bytes arrive.
    ///
    /// # Errors
    ///
    /// The rule that is broken by what comes of it.
    pub fn input(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Broken> {
        let begun = self.begun();
        for frame in self.arrived.take(bytes) {
            if core::mem::take(&mut self.vetoes) {
                self.model.vetoed_in(&frame);
                self.conn.handle_vetoed(now, frame.as_bytes());
                continue;
            }
            self.model.received(now, &frame, begun.as_deref());
            if self.scene.filtered {
                self.conn.handle_message(now, frame.as_bytes());
            }
        }
        if !self.scene.filtered {
            self.conn.handle_input(now, bytes);
        }
        self.poll(now)
    }

    /// Some of what waits is written.
    ///
    /// # Errors
    ///
    /// The rule that is broken by it.
    pub fn write(&mut self, now: Instant, cut: Cut) -> Result<(Vec<u8>, Vec<String>), Broken> {
        if self.scene.filtered {
            return self.write_whole(now, cut);
        }
        let len = cut.len(self.conn.pending());
        let bytes = self.conn.pending()[..len].to_vec();
        self.conn.handle_written(now, len);
        let frames = self.left.take(&bytes);
        for frame in &frames {
            self.model.sent(now, frame)?;
        }
        self.poll(now)?;
        Ok((bytes, frames))
    }

    /// Whole frames are taken out, and pass the filter.
    fn write_whole(&mut self, now: Instant, cut: Cut) -> Result<(Vec<u8>, Vec<String>), Broken> {
        let (mut bytes, mut frames) = (Vec::new(), Vec::new());
        while let Some((frame, detached)) = self.conn.detach_frame() {
            bytes.extend_from_slice(&frame);
            let frame = String::from_utf8_lossy(&frame).trim_end().to_owned();
            self.model.sent(now, &frame)?;
            self.conn.handle_detached(now, detached, true);
            frames.push(frame);
            if cut != Cut::All {
                break;
            }
        }
        self.poll(now)?;
        Ok((bytes, frames))
    }

    /// The first frame that waits is kept back by a filter.
    ///
    /// # Errors
    ///
    /// The rule that is broken by it.
    pub fn keep_back(&mut self, now: Instant) -> Result<(), Broken> {
        let Some((frame, detached)) = self.conn.detach_frame() else { return Ok(()) };
        self.model.vetoed_out(now, String::from_utf8_lossy(&frame).trim_end())?;
        self.conn.handle_detached(now, detached, false);
        self.poll(now)
    }

    /// Timers that are due fire.
    ///
    /// # Errors
    ///
    /// The rule that is broken by what comes of it.
    pub fn pass(&mut self, now: Instant) -> Result<(), Broken> {
        let begun = self.begun();
        self.model.passed(now, begun.as_deref());
        self.conn.handle_timeout(now);
        self.poll(now)
    }

    /// The peer sends nothing more.
    ///
    /// # Errors
    ///
    /// The rule that is broken by what comes of it.
    pub fn input_ends(&mut self, now: Instant) -> Result<(), Broken> {
        let begun = self.begun();
        if let Some(last) = self.last_line() {
            self.model.received(now, &last, begun.as_deref());
            if self.scene.filtered {
                self.conn.handle_message(now, last.as_bytes());
            }
        }
        self.model.input_ends(now, begun.as_deref());
        self.conn.handle_eof(now);
        self.poll(now)
    }

    /// The link is dead.
    ///
    /// # Errors
    ///
    /// The rule that is broken by what comes of it.
    pub fn link_is_lost(&mut self, now: Instant) -> Result<(), Broken> {
        // A driver with filters has the last bytes itself, and drops them.
        let last = self.last_line().filter(|_| !self.scene.filtered);
        self.model.link_is_lost(now, last.as_deref());
        self.conn.handle_write_closed(now);
        self.left.clear();
        self.poll(now)
    }

    /// Whether a frame is half out.
    pub const fn is_cut(&self) -> bool {
        self.left.is_cut()
    }

    /// Handlers that were told to be dropped are; `everyone` makes the others return.
    ///
    /// # Errors
    ///
    /// The rule that is broken by what comes of it.
    pub fn end_handlers(&mut self, now: Instant, everyone: bool) -> Result<bool, Broken> {
        let mut any = false;
        for at in 0..self.model.works.len() {
            let work = &self.model.works[at];
            if work.runs() && (everyone || work.dropped) {
                let end = match (work.dropped, work.replied) {
                    (true, _) => End::Dropped,
                    (false, true) => End::Answered,
                    (false, false) => End::Returned,
                };
                self.act(now, Do::End(at as u8, end))?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Nothing is left when everything is over (invariant 6).
    ///
    /// # Errors
    ///
    /// What is left.
    pub fn check_empty(&self) -> Result<(), Broken> {
        none(self.model.calls.iter().find(|call| call.settled.is_none()), |call| {
            format!("our request {} never settles", call.generation)
        })?;
        let conn = &self.conn;
        let left = conn.incoming().count() + conn.outgoing().count() + conn.remembered();
        let timer = conn.poll_timeout();
        never(left > 0 || !conn.pending().is_empty() || conn.unsent() > 0 || timer.is_some(), || {
            format!("{left} entries and timer {timer:?} are left when everything is over (invariant 6)")
        })
    }

    /// Feeds machine, model and pipe into a hasher.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let Self { role: _, conn, model, left, arrived, scene: _, plains, vetoes } = self;
        conn.hash_state(now, state);
        model.hash_state(now, state);
        (left, arrived, plains, vetoes).hash(state);
    }

    /// A last line without its line break, which counts if it is whole.
    fn last_line(&self) -> Option<String> {
        self.arrived.begun(&[]).filter(|last| text::is_whole(last))
    }

    fn begun(&self) -> Option<String> {
        self.left.begun(self.conn.pending())
    }

    fn poll(&mut self, now: Instant) -> Result<(), Broken> {
        while let Some(event) = self.conn.poll_event() {
            self.model.heard(now, &event)?;
        }
        if !self.scene.wire_only {
            self.conn.check_invariants();
        }
        self.model.check_told(now)
    }
}

fn expect(what: &str, found: bool, expected: bool) -> Result<(), Broken> {
    never(found != expected, || format!("{what} says {found}"))
}
