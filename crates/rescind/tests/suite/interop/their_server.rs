//! Our client, and a server on each SDK.

use std::time::Duration;

use rescind::peer::{Answer, Call, CauseCode, Context, Counters, ErrorObject, Outcome, Params, Peer, StopHandle};
use serde_json::{Value, json};

use super::{
    journal::{Journal, Teller, journal},
    program::{Program, pass},
    protocol::Protocol,
    sdk::{Sdk, each_sdk},
    table::{Behaviour, Report, Role, Seen},
};

const REASON: &str = "user pressed Stop";

each_sdk!(play);

/// Every behaviour, on one connection: after each of them it goes on.
async fn play(sdk: Sdk) {
    let mut report = Report::new(sdk);
    let Some(command) = sdk.command(Role::Server) else { return };
    let mut client = Client::connect(sdk.protocol(), &command).await;
    report.note(Behaviour::OurCancel, client.our_cancel_stops_its_work().await);
    report.note(Behaviour::OurTimeout, client.our_timeout_stops_its_work().await);
    report.note(Behaviour::TheirLateAnswer, client.its_late_answer_harms_nobody().await);
    report.note(Behaviour::TheirQuestionFalls, client.its_question_falls_with_our_call().await);
    report.note(Behaviour::TheirWithdrawal, client.its_cancel_of_a_question_stops_us().await);
    report.note(Behaviour::OurTurn, client.its_question_falls_with_our_turn().await);
    client.end().await;
    report.note(Behaviour::Ids, super::ids::three_ids(sdk, &command).await);
}

struct Client {
    protocol: Protocol,
    peer: Peer,
    server: Program,
    /// What our handlers tell.
    ours: Journal,
    barriers: u32,
}

impl Client {
    async fn connect(protocol: Protocol, command: &[String]) -> Self {
        let (server, transport) = Program::start(command);
        let (ours, teller) = journal();
        let (peer, driver) = Peer::builder(protocol.dialect())
            .framing(protocol.framing())
            .on_request(protocol.ask_method(), move |params: Params<Value>, cx: Context| {
                ponder(protocol, params.0, cx, teller.clone())
            })
            .connect(transport);
        driver.spawn();
        peer.request::<Value>(protocol.opening(), &protocol.hello()).await.unwrap();
        if let Some((method, params)) = protocol.initialized() {
            peer.try_notify(method, &params).unwrap();
        }
        Self { protocol, peer, server, ours, barriers: 0 }
    }

    async fn our_cancel_stops_its_work(&mut self) -> Seen {
        let (call, stop) = self.start("cancelled", "obeys", json!({})).await;
        drop(call.cancel(REASON));
        self.stopped("cancelled", &stop).await
    }

    /// A minute of our clock, gone at once.
    async fn our_timeout_stops_its_work(&mut self) -> Seen {
        let minute = Duration::from_secs(60);
        let call = self.call("timed out", "obeys", json!({})).response_timeout(minute).send();
        self.server.journal.until("timed out", &["started"]).await;
        let stop = call.handle();
        pass(minute).await;
        let error = call.await.unwrap_err();
        assert!(matches!(error, rescind::peer::CallError::TimedOut { after, .. } if after == minute), "{error}");
        self.stopped("timed out", &stop).await
    }

    /// The work has stopped, for the reason that was given, where protocol and SDK have a place for it.
    async fn stopped(&mut self, work: &str, stop: &StopHandle) -> Seen {
        let stopped = self.server.journal.until(work, &["stopped"]).await;
        if let (false, Some(reason)) = (self.protocol.confirms(), stopped.more["reason"].as_str()) {
            assert_eq!(reason, if work == "timed out" { "request timed out" } else { REASON });
        }
        self.barrier().await;
        assert_eq!(self.server.journal.events(work).last(), Some(&"stopped"));
        self.settled(stop)
    }

    /// What the receipt says: an MCP server that was asked to stop is silent, any other answers.
    fn settled(&self, stop: &StopHandle) -> Seen {
        let outcome = stop.receipt().unwrap().outcome;
        match (self.protocol.confirms(), outcome) {
            (false, Outcome::Sent) | (true, Outcome::Confirmed { .. }) => Seen::Ok,
            (false, Outcome::AnsweredAfter { answer: Answer::Error, .. }) => {
                Seen::Fault("answers a cancelled request with an error")
            }
            _ => panic!("{outcome:?}"),
        }
    }

    async fn its_late_answer_harms_nobody(&mut self) -> Seen {
        let late = |counters: Counters| counters.late;
        let before = late(self.peer.counters());
        let (call, stop) = self.start("late", "late", json!({})).await;
        drop(stop.cancel(REASON));
        assert!(call.await.unwrap_err().is_cancelled());
        self.server.journal.until("late", &["told"]).await;
        let released = self.call("release", "release", json!({ "of": "late" })).await.unwrap();
        assert_eq!(self.protocol.read_worked(&released), "released");
        self.server.journal.until("late", &["answered"]).await;
        self.barrier().await;
        let outcome = stop.receipt().unwrap().outcome;
        let came = late(self.peer.counters()) - before;
        assert!(self.peer.in_flight().ours.iter().all(|call| call.cause.is_some()));
        match (came, outcome) {
            // The SDK withholds it.
            (0, Outcome::Sent) => Seen::Cannot,
            (1, Outcome::AnsweredAfter { answer: Answer::Result, .. }) => Seen::Ok,
            // From one that has answered the cancel already.
            (2, Outcome::AnsweredAfter { answer: Answer::Error, .. }) => Seen::Ok,
            _ => panic!("{came} late, {outcome:?}"),
        }
    }

    async fn its_question_falls_with_our_call(&mut self) -> Seen {
        if self.protocol == Protocol::McpModern {
            return Seen::Cannot;
        }
        self.cancel_while_it_asks("asks", "asked", false).await;
        if self.open_questions() > 0 {
            return Seen::Fault("leaves the question of a cancelled call open");
        }
        self.told_to_stop("asked").await;
        Seen::Ok
    }

    async fn its_cancel_of_a_question_stops_us(&mut self) -> Seen {
        if self.protocol == Protocol::McpModern {
            return Seen::Cannot;
        }
        let open = self.open_questions();
        self.cancel_while_it_asks("asks and links", "asked and linked", true).await;
        if self.open_questions() > open {
            return Seen::Cannot;
        }
        self.told_to_stop("asked and linked").await;
        Seen::Ok
    }

    /// What leaves is one `session/cancel`, and the outcome of the permission (D37).
    async fn its_question_falls_with_our_turn(&mut self) -> Seen {
        if self.protocol != Protocol::Acp {
            return Seen::Cannot;
        }
        let new = json!({ "cwd": "/", "mcpServers": [] });
        let session = self.peer.request::<Value>("session/new", &new).await.unwrap()["sessionId"].clone();
        let text = json!({ "work": "turn", "behaviour": "asks" }).to_string();
        let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        let turn = self.peer.request::<Value>("session/prompt", &prompt).send();
        self.ours.until("a dangerous thing", &["started"]).await;
        let stop = turn.handle();
        drop(turn);
        self.ours.until("a dangerous thing", &["stopped"]).await;
        self.server.journal.until("turn", &["stopped"]).await;
        self.barrier().await;
        self.settled(&stop)
    }

    async fn cancel_while_it_asks(&mut self, work: &str, question: &str, linked: bool) {
        let text = json!({ "work": question }).to_string();
        let (call, _) = self.start(work, "asks", json!({ "question": text, "linked": linked })).await;
        self.ours.until(question, &["started"]).await;
        drop(call.cancel(REASON));
        self.server.journal.until(work, &["told"]).await;
        self.barrier().await;
    }

    /// Questions to us that nobody has taken back.
    fn open_questions(&self) -> usize {
        self.peer.in_flight().theirs.iter().filter(|question| question.cause.is_none()).count()
    }

    async fn told_to_stop(&mut self, question: &str) {
        let stopped = self.ours.until(question, &["stopped"]).await;
        assert_eq!(stopped.more, CauseCode::Caller.as_str());
    }

    async fn end(self) {
        let Self { peer, server, .. } = self;
        peer.shutdown();
        peer.closed().await;
        drop(server);
    }

    fn call(&self, work: &str, behaviour: &str, mut call: Value) -> Call<Value> {
        call["work"] = work.into();
        self.peer.request(self.protocol.work_method(), &self.protocol.work(behaviour, call))
    }

    /// A call whose work has started.
    async fn start(&mut self, work: &str, behaviour: &str, call: Value) -> (Call<Value>, StopHandle) {
        let call = self.call(work, behaviour, call).send();
        let stop = call.handle();
        self.server.journal.until(work, &["started"]).await;
        (call, stop)
    }

    /// Work that ends at once, done and told of: whatever its server had said before is here.
    async fn barrier(&mut self) {
        for _ in 0..3 {
            self.barriers += 1;
            let work = format!("barrier {}", self.barriers);
            let result = self.call(&work, "obeys", json!({ "ticks": 0 })).await.unwrap();
            assert_eq!(self.protocol.read_worked(&result), "finished");
            self.server.journal.until(&work, &["finished"]).await;
        }
    }
}

/// Thinks about a question until it is taken back.
async fn ponder(protocol: Protocol, params: Value, cx: Context, teller: Teller) -> Result<(), ErrorObject> {
    let question = protocol.read_ask(&params);
    let work = question["work"].as_str().unwrap_or_default();
    teller.tell(work, "started", Value::Null);
    cx.cancelled().await;
    teller.tell(work, "stopped", cx.cause().unwrap().code.as_str().into());
    Err(ErrorObject::cancelled())
}
