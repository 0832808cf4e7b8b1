//! A local client, both machines, what lies between them, and programs behind the server. Everything that happens is
//! chosen by a seed.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use http::{request::Parts as Request, response::Parts as Response};
use rescind_http::{
    client::{FetchKey, HttpClient, HttpClientConfig, HttpClientEvent, HttpClientNotice},
    server::{
        BodyChunk, Hosts, HttpServer, HttpServerConfig, HttpServerEvent, LinkInput, LinkKey, ReplyBody, ReplyKey,
        Stateless,
    },
};
use rescind_proto::{id::RequestId, link::Departure, time::Instant};
use rescind_testkit::valid::{self, Protocol};
use serde_json::{Value, json};

use super::judge::{End, Judge, Tally};
use crate::rig::{LEGACY, MODERN, initialize};

/// What may go wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chaos {
    /// Connections break.
    pub(crate) breaks: bool,
    /// The server is started anew, and knows nothing.
    pub(crate) restarts: bool,
}

/// In which a cancel reaches its work where nothing breaks and a server takes it at once.
const LONGEST_CANCEL: Duration = Duration::from_secs(1);

pub(crate) struct World {
    dice: Dice,
    chaos: Chaos,
    is_resting: bool,
    now: Instant,
    client: HttpClient,
    server: HttpServer,
    sessions: u64,
    connections: BTreeMap<FetchKey, Connection>,
    /// Responses whose client is gone, which the server does not know yet.
    hang_ups: Vec<ReplyKey>,
    /// Requests on their way whose client is gone.
    orphans: Vec<(Request, Bytes)>,
    programs: BTreeMap<LinkKey, Program>,
    judge: Judge,
    next_call: u64,
    next_question: u64,
    /// Calls in the order in which they were made, with their ids; some ids are used again.
    open: Vec<(u64, Value)>,
}

/// One HTTP request and its response, on their way.
struct Connection {
    request: Option<(Request, Bytes)>,
    is_written: bool,
    reply: Option<ReplyKey>,
    has_head: bool,
    /// What is on its way to the client.
    down: VecDeque<Down>,
}

enum Down {
    Head(Response),
    Bytes(Bytes),
    End,
    Broken,
}

/// A program behind a link.
#[derive(Default)]
struct Program {
    has_session: bool,
    running: BTreeMap<u64, Running>,
    /// Cancels that came before their request (D9).
    early: BTreeSet<String>,
}

struct Running {
    id: Value,
    token: Value,
    progress: u64,
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.roll(of.len())])
    }
}

impl World {
    pub(crate) fn new(seed: u64, chaos: Chaos) -> Self {
        let mut config = HttpClientConfig::new("http://mcp.test/mcp").unwrap();
        // The fewer, the more wait.
        config.max_fetches = if seed.is_multiple_of(3) { 3 } else { 512 };
        config.seed = seed;
        let mut world = Self {
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            chaos,
            is_resting: false,
            now: Instant::ORIGIN,
            client: HttpClient::new(config),
            server: HttpServer::new(server_config()),
            sessions: 0,
            connections: BTreeMap::new(),
            hang_ups: Vec::new(),
            orphans: Vec::new(),
            programs: BTreeMap::new(),
            judge: Judge::default(),
            next_call: 1,
            next_question: 1,
            open: Vec::new(),
        };
        world.serve();
        world.say(&initialize(LEGACY));
        world.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        // Mostly the session is open before anything goes wrong.
        for _ in 0..if seed.is_multiple_of(8) { 0 } else { 4 } {
            world.flow();
        }
        world
    }

    pub(crate) fn step(&mut self) {
        match self.dice.roll(32) {
            0..=2 => self.call(),
            3 | 4 => self.cancel(),
            5..=7 => self.hear(1),
            8..=11 => self.write_some(),
            12..=15 => self.arrive_some(),
            16..=19 => self.produce_some(),
            20..=24 => self.deliver_some(),
            25..=28 => self.work(),
            29 => self.break_some(),
            30 => self.pass(),
            _ => self.restart(),
        }
        self.check();
    }

    /// Nothing breaks any more, programs answer all that they have, and the local client says nothing.
    pub(crate) fn come_to_rest(&mut self) {
        self.is_resting = true;
        if !self.chaos.breaks {
            self.let_cancels_arrive();
        }
        for round in 0.. {
            let (waiting, in_vain) = (self.judge.waiting(), self.judge.running_in_vain());
            if waiting.is_empty() && in_vain.is_empty() {
                return;
            }
            assert!(round < 2_000, "calls {waiting:?} are not answered, calls {in_vain:?} run in vain");
            self.flow();
            self.work();
            self.hear(usize::MAX);
            self.now = self.now + Duration::from_millis(250);
            self.time_out();
            self.check();
        }
    }

    /// Programs answer nothing, and calls hold all connections that calls may have: what was cancelled ends all the same, by
    /// its cancel, and long before its response is let go.
    fn let_cancels_arrive(&mut self) {
        let until = self.now + LONGEST_CANCEL;
        while let in_vain = self.judge.running_in_vain()
            && !in_vain.is_empty()
        {
            assert!(self.now < until, "the cancels of calls {in_vain:?} wait for other calls");
            self.flow();
            self.now = self.now + Duration::from_millis(50);
            self.time_out();
            self.check();
        }
    }

    /// The local client leaves; after a while nothing is left anywhere. Returns what was seen.
    pub(crate) fn close(mut self) -> Tally {
        self.client.handle_close();
        self.check();
        for _ in 0..400 {
            self.flow();
            self.hear(usize::MAX);
            self.now = self.now + Duration::from_millis(250);
            self.time_out();
            self.check();
        }
        assert!(self.client.is_closed());
        assert_eq!(self.client.residue(), 0);
        assert_eq!(self.server.in_flight(), 0);
        assert!(self.programs.values().all(|program| program.running.is_empty()));
        self.judge.check_departures(self.chaos.breaks || self.chaos.restarts);
        self.judge.tally
    }

    /// Moves everything that is under way by one step.
    fn flow(&mut self) {
        for key in self.keys() {
            self.write(key);
            self.arrive(key);
            self.produce(key);
            while self.deliver(key) {}
        }
        self.settle_orphans();
    }

    fn keys(&self) -> Vec<FetchKey> {
        self.connections.keys().copied().collect()
    }

    fn say(&mut self, message: &str) {
        self.client.handle_message(self.now, message.as_bytes());
        self.check();
    }

    fn call(&mut self) {
        let number = self.next_call;
        self.next_call += 1;
        let is_modern = self.dice.one_in(2);
        let id = match self.dice.roll(3) {
            // An id is used again once nobody waits for it (MCP-I03).
            0 if is_modern && let Some((_, id)) = self.reusable() => id,
            1 => json!(format!("c{number}")),
            _ => json!(number),
        };
        self.open.retain(|(_, known)| *known != id);
        self.open.push((number, id.clone()));
        self.judge.called(number, id.clone(), is_modern);
        let mut meta = json!({"progressToken": number});
        if is_modern {
            meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let params = json!({"name": "work", "arguments": {"call": number}, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.say(&message.to_string());
    }

    /// A call outside a session whose id may be used again.
    fn reusable(&mut self) -> Option<(u64, Value)> {
        let over: Vec<u64> =
            self.open.iter().map(|(number, _)| *number).filter(|number| self.judge.is_over(*number)).collect();
        let number = self.dice.pick(&over)?;
        // Within a session an id is never used again (MCP-I02), and what was one there may still be running.
        let id = self.judge.id_of(number);
        self.judge.is_modern(number).then_some((number, id))
    }

    fn cancel(&mut self) {
        let mut numbers: Vec<u64> = self.open.iter().map(|(number, _)| *number).collect();
        // Mostly one that it waits for.
        let is_any = self.dice.one_in(5);
        numbers.retain(|number| is_any || !self.judge.is_over(*number));
        let Some(number) = self.dice.pick(&numbers) else { return };
        let id = self.judge.id_of(number);
        let params = json!({"requestId": id, "reason": "enough"});
        if !self.judge.is_over(number) {
            self.judge.cancelled(number);
        }
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string());
    }

    /// The local client takes messages.
    fn hear(&mut self, most: usize) {
        for _ in 0..most {
            let Some(message) = self.client.poll_message() else { return };
            let message = std::str::from_utf8(&message.json).unwrap();
            valid::check(Protocol::JsonRpc, message).unwrap_or_else(|why| panic!("{why}: {message}"));
            let message: Value = serde_json::from_str(message).unwrap();
            if message["method"] == "notifications/progress" {
                let number = message["params"]["progressToken"].as_u64().unwrap();
                assert_eq!(message["params"]["message"], json!(number), "progress has the token of another call");
                self.judge.heard_progress(number, message["params"]["progress"].as_u64().unwrap());
            } else if message["method"] == "sampling/createMessage" {
                let question = message["params"]["question"].as_u64().unwrap();
                self.judge.heard_question(question);
                let result = json!({"question": question});
                self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string());
            } else if message["method"].is_null() && message["id"] != 0 {
                let known = self.open.iter().rev().find(|(_, id)| *id == message["id"]);
                let number = known.unwrap_or_else(|| panic!("an answer to nothing: {message}")).0;
                let must_be_real = !self.chaos.breaks && !self.chaos.restarts;
                self.judge.heard_answer(number, &message, must_be_real);
            }
        }
    }

    fn write_some(&mut self) {
        for _ in 0..3 {
            if let Some(key) = self.dice.pick(&self.keys()) {
                self.write(key);
            }
        }
    }

    /// A connection is open, and the request leaves.
    fn write(&mut self, key: FetchKey) {
        let Some(connection) = self.connections.get_mut(&key).filter(|connection| !connection.is_written) else {
            return;
        };
        connection.is_written = true;
        assert!(self.client.handle_written(self.now, key), "a request is withdrawn that was not aborted");
        self.check();
    }

    fn arrive_some(&mut self) {
        for _ in 0..3 {
            if let Some(key) = self.dice.pick(&self.keys()) {
                self.arrive(key);
            }
        }
        if self.dice.one_in(4) {
            self.settle_orphans();
        }
    }

    /// A request reaches the server.
    fn arrive(&mut self, key: FetchKey) {
        let Some(connection) = self.connections.get_mut(&key).filter(|connection| connection.is_written) else {
            return;
        };
        let Some((head, body)) = connection.request.take() else { return };
        connection.reply = Some(self.server.handle_request(self.now, &head, &body));
        self.serve();
    }

    /// The server learns of requests whose clients are gone.
    fn settle_orphans(&mut self) {
        for (head, body) in std::mem::take(&mut self.orphans) {
            let reply = self.server.handle_request(self.now, &head, &body);
            self.hang_ups.push(reply);
            self.serve();
        }
        for reply in std::mem::take(&mut self.hang_ups) {
            self.server.handle_hang_up(self.now, reply);
            self.serve();
        }
    }

    fn produce_some(&mut self) {
        for _ in 0..3 {
            if let Some(key) = self.dice.pick(&self.keys()) {
                self.produce(key);
            }
        }
    }

    /// The server writes what it has.
    fn produce(&mut self, key: FetchKey) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let Some(reply) = connection.reply else { return };
        if !connection.has_head {
            let Some(response) = self.server.poll_head(self.now, reply) else { return };
            let (head, body) = response.into_parts();
            connection.has_head = true;
            connection.down.push_back(Down::Head(head));
            if let ReplyBody::Whole(bytes) = body {
                connection.down.extend((!bytes.is_empty()).then_some(Down::Bytes(bytes)));
                connection.down.push_back(Down::End);
                connection.reply = None;
                return;
            }
        }
        loop {
            match self.server.poll_body(self.now, reply) {
                BodyChunk::Pending => return,
                BodyChunk::End => {
                    connection.down.push_back(Down::End);
                    connection.reply = None;
                    return;
                }
                BodyChunk::Bytes(mut bytes) => {
                    let cut = self.dice.roll(bytes.len() + 1);
                    let first = bytes.split_to(cut);
                    connection.down.extend([first, bytes].map(Down::Bytes));
                }
            }
        }
    }

    fn deliver_some(&mut self) {
        for _ in 0..3 {
            if let Some(key) = self.dice.pick(&self.keys()) {
                self.deliver(key);
            }
        }
    }

    /// The next of a response reaches the client; `true` if there was any.
    fn deliver(&mut self, key: FetchKey) -> bool {
        let Some(connection) = self.connections.get_mut(&key) else { return false };
        let Some(next) = connection.down.pop_front() else { return false };
        match next {
            Down::Head(head) => self.client.handle_head(self.now, key, &head),
            Down::Bytes(bytes) => self.client.handle_body(self.now, key, &bytes),
            Down::End => {
                self.connections.remove(&key);
                self.client.handle_body_end(self.now, key);
            }
            Down::Broken => {
                self.connections.remove(&key);
                self.client.handle_failed(self.now, key, "connection reset");
            }
        }
        self.check();
        true
    }

    /// A connection breaks: each side learns of it in its own time, and what was on its way may be lost.
    fn break_some(&mut self) {
        if !self.chaos.breaks || self.is_resting {
            return;
        }
        let Some(key) = self.dice.pick(&self.keys()) else { return };
        let Some(connection) = self.connections.get_mut(&key) else { return };
        if connection.down.iter().any(|down| matches!(down, Down::Broken)) {
            return;
        }
        let kept = self.dice.roll(connection.down.len() + 1);
        connection.down.truncate(kept);
        connection.down.push_back(Down::Broken);
        let (request, reply, is_written) = (connection.request.take(), connection.reply.take(), connection.is_written);
        connection.has_head = true;
        self.leave(request.filter(|_| is_written), reply);
    }

    /// The server's end of a connection whose client is gone.
    fn leave(&mut self, request: Option<(Request, Bytes)>, reply: Option<ReplyKey>) {
        self.hang_ups.extend(reply);
        if self.dice.one_in(2) {
            self.orphans.extend(request);
        }
    }

    /// Programs work: one of them a little, or all of them to the end.
    fn work(&mut self) {
        let links: Vec<LinkKey> = self.programs.keys().copied().collect();
        if self.is_resting {
            for link in links {
                let numbers: Vec<u64> = self.programs[&link].running.keys().copied().collect();
                numbers.into_iter().for_each(|number| self.answer(link, number));
            }
            return;
        }
        let Some(link) = self.dice.pick(&links) else { return };
        let program = &self.programs[&link];
        let numbers: Vec<u64> = program.running.keys().copied().collect();
        if program.has_session && self.dice.one_in(6) {
            let question = self.next_question;
            self.next_question += 1;
            let id = format!("q{question}");
            let params = json!({"question": question});
            self.program_says(
                link,
                &json!({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": params}),
            );
        }
        let Some(number) = self.dice.pick(&numbers) else { return };
        if self.dice.one_in(2) {
            return self.answer(link, number);
        }
        let running = self.programs.get_mut(&link).unwrap().running.get_mut(&number).unwrap();
        running.progress += 1;
        let params = json!({"progressToken": running.token, "progress": running.progress, "message": number});
        self.program_says(link, &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
    }

    fn answer(&mut self, link: LinkKey, number: u64) {
        let running = self.programs.get_mut(&link).unwrap().running.remove(&number).unwrap();
        self.judge.ended(number, End::Answered, true);
        self.program_says(link, &json!({"jsonrpc": "2.0", "id": running.id, "result": {"call": number}}));
    }

    fn program_says(&mut self, link: LinkKey, message: &Value) {
        self.server.handle_message(self.now, link, message.to_string().as_bytes());
        self.serve();
    }

    fn pass(&mut self) {
        let ms = [1, 20, 120, 700, 6_000][self.dice.roll(5)];
        self.now = self.now + Duration::from_millis(ms);
        self.time_out();
    }

    fn time_out(&mut self) {
        if self.client.poll_timeout().is_some_and(|due| due <= self.now) {
            self.client.handle_timeout(self.now);
            self.check();
        }
        if self.server.poll_timeout().is_some_and(|due| due <= self.now) {
            self.server.handle_timeout(self.now);
            self.serve();
        }
    }

    /// The server ends, with all programs, and another takes its place.
    fn restart(&mut self) {
        if !self.chaos.restarts || self.is_resting || !self.dice.one_in(6) {
            return;
        }
        for program in std::mem::take(&mut self.programs).into_values() {
            for number in program.running.into_keys() {
                self.judge.ended(number, End::Died, true);
            }
        }
        for connection in self.connections.values_mut() {
            let was_served = connection.reply.take().is_some();
            if (was_served || connection.has_head) && !connection.down.iter().any(|down| matches!(down, Down::End)) {
                connection.down.push_back(Down::Broken);
            }
        }
        self.hang_ups.clear();
        self.server = HttpServer::new(server_config());
        self.serve();
    }

    /// Does what the server wants done.
    fn serve(&mut self) {
        let mut links = Vec::new();
        while let Some(event) = self.server.poll_event() {
            match event {
                HttpServerEvent::Opened { link, session, .. } => {
                    self.programs.insert(link, Program { has_session: session.is_some(), ..Program::default() });
                }
                HttpServerEvent::InputReady(link) => links.push(link),
                HttpServerEvent::ReplyReady(_)
                | HttpServerEvent::PageWanted { .. }
                | HttpServerEvent::KeysWanted
                | HttpServerEvent::Dropped { .. } => {}
            }
        }
        if self.server.needs_session_id() {
            self.sessions += 1;
            self.server.supply_session_id(format!("s{}", self.sessions));
        }
        self.server.check_invariants();
        for link in links {
            while let Some(input) = self.server.poll_input(link) {
                self.program_hears(link, input);
            }
        }
    }

    fn program_hears(&mut self, link: LinkKey, input: LinkInput) {
        let message: Value = match input {
            LinkInput::Message(line) | LinkInput::Request(line, _) => serde_json::from_slice(&line).unwrap(),
            LinkInput::StreamClosed(id) => return self.stop(link, &id, End::StreamClosed),
            LinkInput::Credentials(_) => panic!("nobody signs in here"),
            LinkInput::End => {
                let program = self.programs.remove(&link).unwrap_or_default();
                for number in program.running.into_keys() {
                    self.judge.ended(number, End::Died, true);
                }
                self.server.handle_link_closed(self.now, link);
                return self.serve();
            }
        };
        match message["method"].as_str() {
            Some("initialize") => {
                let result =
                    json!({"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
                self.program_says(link, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
            }
            Some("tools/call") => {
                let number = message["params"]["arguments"]["call"].as_u64().unwrap();
                let program = self.programs.get_mut(&link).unwrap();
                let (id, token) = (message["id"].clone(), message["params"]["_meta"]["progressToken"].clone());
                if program.early.contains(&id.to_string()) {
                    return self.server.handle_settled(self.now, link, &request_id(&id));
                }
                program.running.insert(number, Running { id, token, progress: 0 });
                self.judge.started(number);
            }
            Some("notifications/cancelled") => {
                let id = request_id(&message["params"]["requestId"]);
                self.stop(link, &id, End::Cancelled);
            }
            Some(_) => {}
            None => self.judge.question_answered(message["result"]["question"].as_u64().unwrap()),
        }
    }

    fn stop(&mut self, link: LinkKey, id: &RequestId, end: End) {
        let Some(program) = self.programs.get_mut(&link) else { return };
        let found = program.running.iter().find(|(_, running)| request_id(&running.id) == *id);
        match found.map(|(number, _)| *number) {
            Some(number) => {
                program.running.remove(&number);
                self.judge.ended(number, end, self.chaos.breaks);
                if end == End::Cancelled {
                    self.server.handle_settled(self.now, link, id);
                    self.serve();
                }
            }
            None if end == End::Cancelled => drop(program.early.insert(id.to_string())),
            None => {}
        }
    }

    fn departed(&mut self, departure: &Departure) {
        // Another session goes on where one was lost.
        let Some(id) = departure.id() else { return };
        let named = self.open.iter().rev().find(|(_, known)| request_id(known) == *id);
        let Some((number, _)) = named else {
            // The handshake.
            return assert_eq!(*id, request_id(&json!(0)));
        };
        match departure {
            Departure::Request(_) => self.judge.left(*number),
            Departure::Cancel(_) => self.judge.cancel_left(*number),
            Departure::Returned(_) => self.judge.returned(*number),
            Departure::Withdrawn(_) => self.judge.withdrawn(*number, self.chaos.breaks || self.chaos.restarts),
            Departure::Session => {}
            _ => {}
        }
    }

    /// Does what the client wants done.
    fn check(&mut self) {
        while let Some(event) = self.client.poll_event() {
            self.judge.tally.reopened +=
                usize::from(event == HttpClientEvent::Notice(HttpClientNotice::SessionReopened));
            match event {
                HttpClientEvent::Abort(key) => {
                    if let Some(connection) = self.connections.remove(&key) {
                        self.leave(connection.request.filter(|_| connection.is_written), connection.reply);
                    }
                }
                HttpClientEvent::Departed(departure) => self.departed(&departure),
                HttpClientEvent::Notice(_) => {}
            }
        }
        while let Some((key, request)) = self.client.poll_request(self.now) {
            let (head, body) = request.into_parts();
            self.judge.tally.resumed += usize::from(head.headers.contains_key("last-event-id"));
            let is_written = body.is_empty();
            let connection = Connection {
                request: Some((head, body)),
                is_written,
                reply: None,
                has_head: false,
                down: VecDeque::new(),
            };
            self.connections.insert(key, connection);
        }
        self.client.check_invariants();
    }
}

fn server_config() -> HttpServerConfig {
    HttpServerConfig { stateless: Stateless::Served, hosts: Hosts::named(["mcp.test"]), ..HttpServerConfig::default() }
}

fn request_id(id: &Value) -> RequestId {
    RequestId::from_json(id.to_string().as_bytes()).unwrap()
}
