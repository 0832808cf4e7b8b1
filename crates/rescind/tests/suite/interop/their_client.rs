//! Our server, and a client on each SDK that does what we say: it asks for the `next` order, again and again.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rescind::peer::{CauseCode, Context, ErrorObject, Params, Peer};
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify, mpsc};

use super::{
    journal::{Entry, Journal, Teller, journal},
    program::Program,
    protocol::Protocol,
    sdk::{Sdk, each_sdk},
    table::{Behaviour, Report, Role, Seen},
};

const SETTLED: [&str; 3] = ["result", "error", "cancelled"];

each_sdk!(play);

/// Every behaviour, on one connection: after each of them it goes on.
async fn play(sdk: Sdk) {
    let mut report = Report::new(sdk);
    let Some(command) = sdk.command(Role::Client) else { return };
    let mut server = Server::accept(sdk, &command);
    report.note(Behaviour::TheirCancel, server.its_cancel_stops_our_work().await);
    report.note(Behaviour::TheirTimeout, server.its_timeout_stops_our_work().await);
    report.note(Behaviour::OurLateAnswer, server.our_late_answer_harms_nobody().await);
    report.note(Behaviour::OurWithdrawal, server.our_cancel_of_a_question_stops_it().await);
    report.note(Behaviour::OurQuestionFalls, server.our_question_falls_with_its_call().await);
    report.note(Behaviour::TheirTurn, server.our_question_falls_with_its_turn().await);
    server.end().await;
}

struct Server {
    sdk: Sdk,
    peer: Peer,
    client: Program,
    /// What our handlers tell.
    ours: Journal,
    orders: mpsc::Sender<Value>,
    /// How many were given.
    ordered: usize,
    /// Its requests that it gave up and that go on here.
    left_open: usize,
    release: Arc<Notify>,
    echoes: u32,
}

/// What our handlers share.
struct Desk {
    protocol: Protocol,
    teller: Teller,
    orders: Mutex<mpsc::Receiver<Value>>,
    asked: AtomicUsize,
    release: Arc<Notify>,
}

impl Server {
    fn accept(sdk: Sdk, command: &[String]) -> Self {
        let protocol = sdk.protocol();
        let (client, transport) = Program::start(command);
        let (ours, teller) = journal();
        let (give, orders) = mpsc::channel(1);
        let release = Arc::new(Notify::new());
        let desk = Desk {
            protocol,
            teller,
            orders: Mutex::new(orders),
            asked: AtomicUsize::new(0),
            release: Arc::clone(&release),
        };
        let desk = Arc::new(desk);
        let turns = Arc::clone(&desk);
        let (peer, driver) = Peer::builder(protocol.dialect())
            .framing(protocol.framing())
            .on_request(protocol.opening(), move || async move { Ok::<_, ErrorObject>(protocol.welcome()) })
            .on_request("tools/list", || async { Ok::<_, ErrorObject>(tools()) })
            .on_request(protocol.work_method(), move |params: Params<Value>, cx: Context| {
                let desk = Arc::clone(&desk);
                async move { desk.work(&params.0, cx).await.map(|words| protocol.worked(&words)) }
            })
            .on_request("session/prompt", move |params: Params<Value>, cx: Context| {
                let desk = Arc::clone(&turns);
                async move {
                    let work = params.0["prompt"][0]["text"].as_str().unwrap_or_default();
                    desk.perform(work, "prompt", &cx).await.map(|_| json!({ "stopReason": "end_turn" }))
                }
            })
            .accept(transport);
        driver.spawn();
        Self { sdk, peer, client, ours, orders: give, ordered: 0, left_open: 0, release, echoes: 0 }
    }

    async fn its_cancel_stops_our_work(&mut self) -> Seen {
        self.call("cancelled", "obeys", Value::Null).await;
        self.ours.until("cancelled", &["started"]).await;
        self.cancel("cancelled").await;
        self.settled("cancelled").await;
        self.echo().await;
        self.stopped("cancelled", Behaviour::TheirCancel, "tells nobody that it cancelled").await
    }

    async fn its_timeout_stops_our_work(&mut self) -> Seen {
        if self.sdk.protocol().confirms() {
            return Seen::Cannot;
        }
        self.call("timed out", "obeys", json!(300)).await;
        self.settled("timed out").await;
        self.echo().await;
        self.stopped("timed out", Behaviour::TheirTimeout, "tells nobody that its time was up").await
    }

    /// Our work was told to stop by its caller, or never began to.
    async fn stopped(&mut self, work: &str, behaviour: Behaviour, fault: &'static str) -> Seen {
        self.ours.until(&next(self.ordered), &["started"]).await;
        // From an SDK that does tell it, it may come after what the program has said since: it is awaited.
        if self.sdk.faults().iter().any(|(known, _)| *known == behaviour) {
            // One of them is `next`.
            let open = self.peer.in_flight().theirs.iter().filter(|request| request.cause.is_none()).count() - 1;
            if std::mem::replace(&mut self.left_open, open) < open {
                return Seen::Fault(fault);
            }
        }
        if self.ours.events(work).contains(&"started") {
            let stopped = self.ours.until(work, &["stopped"]).await;
            assert_eq!(stopped.more["cause"], CauseCode::Caller.as_str());
        }
        Seen::Ok
    }

    /// A committed transaction: it is answered as if no cancel came (MCP-C07).
    async fn our_late_answer_harms_nobody(&mut self) -> Seen {
        self.call("late", "shielded", Value::Null).await;
        self.ours.until("late", &["started"]).await;
        self.cancel("late").await;
        self.echo().await;
        self.release.notify_one();
        self.ours.until("late", &["finished"]).await;
        self.echo().await;
        self.settled("late").await;
        match self.client.journal.events("sdk")[..] {
            [] => Seen::Ok,
            _ => Seen::Fault("complains of an answer that crossed its cancel"),
        }
    }

    async fn our_cancel_of_a_question_stops_it(&mut self) -> Seen {
        if self.sdk.protocol() == Protocol::McpModern {
            return Seen::Cannot;
        }
        self.call("withdraws", "withdraws", Value::Null).await;
        self.client.journal.until("withdrawn", &["started"]).await;
        self.release.notify_one();
        let end = self.client.journal.until("withdrawn", &["stopped", "finished"]).await;
        self.settled("withdraws").await;
        self.echo().await;
        match end.event.as_str() {
            "stopped" => Seen::Ok,
            _ => Seen::Fault("reads nothing while it thinks about a question"),
        }
    }

    async fn our_question_falls_with_its_call(&mut self) -> Seen {
        if self.sdk == Sdk::McpPython1 || self.sdk.protocol() == Protocol::McpModern {
            return Seen::Cannot;
        }
        self.call("asks", "asks", Value::Null).await;
        self.client.journal.until("asked", &["started"]).await;
        self.cancel("asks").await;
        self.client.journal.until("asked", &["stopped"]).await;
        self.ours.until("asks", &["stopped"]).await;
        self.settled("asks").await;
        self.echo().await;
        Seen::Ok
    }

    async fn our_question_falls_with_its_turn(&mut self) -> Seen {
        if self.sdk != Sdk::AcpTypeScript {
            return Seen::Cannot;
        }
        self.call("turn", "prompt", Value::Null).await;
        self.client.journal.until("asked in a turn", &["started"]).await;
        self.cancel("turn").await;
        self.client.journal.until("asked in a turn", &["stopped"]).await;
        self.ours.until("turn", &["stopped"]).await;
        let turn = self.settled("turn").await;
        assert_eq!((turn.event.as_str(), &turn.more["value"]), ("result", &json!("cancelled")));
        self.echo().await;
        Seen::Ok
    }

    async fn end(self) {
        self.orders.send(json!({ "do": "end" })).await.unwrap();
        self.client.exited().await;
        self.peer.closed().await;
    }

    async fn call(&mut self, work: &str, behaviour: &str, timeout: Value) {
        self.order(json!({ "do": "call", "work": work, "behaviour": behaviour, "timeout_ms": timeout })).await;
    }

    async fn cancel(&mut self, work: &str) {
        self.order(json!({ "do": "cancel", "work": work })).await;
    }

    async fn order(&mut self, order: Value) {
        self.ordered += 1;
        self.orders.send(order).await.unwrap();
    }

    /// What its caller got, which it got once.
    async fn settled(&mut self, work: &str) -> Entry {
        self.client.journal.until(work, &SETTLED).await
    }

    /// A round trip from there to here and back: whatever it had said before is here.
    async fn echo(&mut self) {
        self.echoes += 1;
        let work = format!("echo {}", self.echoes);
        self.call(&work, "echo", Value::Null).await;
        let echo = self.settled(&work).await;
        assert_eq!(echo.more["value"], "echo", "{echo:?}");
    }
}

impl Desk {
    async fn work(&self, params: &Value, cx: Context) -> Result<String, ErrorObject> {
        let (behaviour, work) = self.protocol.read_work(params);
        if behaviour == "next" {
            self.teller.tell(&next(self.asked.fetch_add(1, Ordering::Relaxed)), "started", Value::Null);
            let order = self.orders.lock().await.recv().await;
            return Ok(order.ok_or_else(ErrorObject::cancelled)?.to_string());
        }
        self.perform(&work, &behaviour, &cx).await
    }

    async fn perform(&self, work: &str, behaviour: &str, cx: &Context) -> Result<String, ErrorObject> {
        self.teller.tell(work, "started", Value::Null);
        let done = self.behave(behaviour, cx).await;
        match (&done, cx.cause()) {
            (Err(_), Some(cause)) => {
                self.teller.tell(work, "stopped", json!({ "cause": cause.code.as_str(), "reason": cause.text() }));
            }
            _ => self.teller.tell(work, "finished", Value::Null),
        }
        done
    }

    async fn behave(&self, behaviour: &str, cx: &Context) -> Result<String, ErrorObject> {
        match behaviour {
            "echo" => {}
            "obeys" => {
                cx.cancelled().await;
                return Err(ErrorObject::cancelled());
            }
            "shielded" => {
                let _shield = cx.shield();
                self.release.notified().await;
            }
            "asks" => drop(self.ask(cx, "asked", 300).await?),
            "prompt" => drop(self.ask(cx, "asked in a turn", 300).await?),
            // Two seconds, so that a client that does not hear of the withdrawal comes to an end.
            "withdraws" => tokio::select! {
                answer = self.ask(cx, "withdrawn", 20) => drop(answer?),
                () = self.release.notified() => {}
            },
            other => return Err(ErrorObject::method_not_found(other)),
        }
        Ok(behaviour.to_owned())
    }

    /// Asks the client to work under this name.
    async fn ask(&self, cx: &Context, work: &str, ticks: u32) -> Result<Value, ErrorObject> {
        let question = json!({ "work": work, "behaviour": "obeys", "ticks": ticks });
        Ok(cx.peer().request(self.protocol.ask_method(), &self.protocol.ask(&question)).await?)
    }
}

/// The name of the request for an order, after so many of them.
fn next(ordered: usize) -> String {
    format!("next {ordered}")
}

/// Some clients look up each tool that they call.
fn tools() -> Value {
    let names = ["next", "echo", "obeys", "shielded", "asks", "withdraws"];
    let tools = names.map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
    json!({ "tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private" })
}
