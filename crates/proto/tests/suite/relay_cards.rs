//! What becomes of a card, a question of the agent to a person, when the client stops the session's turn (D37, ACP-08,
//! ACP-39).

use core::time::Duration;

use rescind_proto::{
    cause::CauseCode,
    link::Clock,
    receipt::Outcome,
    relay::{ClockRule, End, RelayConfig, RelayEvent},
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;

use crate::both_ends::{greeted, result};

use Step::{Agent, AgentHears, AgentIsGone, Client, ClientHears, Pass, Stop};

/// One thing that happens. What a side hears is all that it has not read before.
#[derive(Clone)]
enum Step {
    Client(String),
    Agent(String),
    /// Milliseconds.
    Pass(u64),
    AgentHears(Vec<String>),
    ClientHears(Vec<String>),
    /// The operator stops the client's request 1.
    Stop,
    AgentIsGone,
}

fn request(id: &str, method: &str, session: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"sessionId":{session}}}}}"#)
}

fn prompt(id: &str, session: &str) -> String {
    request(id, "session/prompt", session)
}

/// A permission request.
fn card(id: &str, session: &str) -> String {
    request(id, "session/request_permission", session)
}

/// An elicitation.
fn form(id: &str, session: &str) -> String {
    request(id, "elicitation/create", session)
}

fn stop(session: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":{session}}}}}"#)
}

fn update(session: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{session},"update":{{}}}}}}"#)
}

fn drop_request(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#)
}

fn allow(id: &str) -> String {
    result(id, r#"{"outcome":{"outcome":"selected","optionId":"allow"}}"#)
}

fn denied(id: &str) -> String {
    result(id, r#"{"outcome":{"outcome":"cancelled"}}"#)
}

fn dismissed(id: &str) -> String {
    result(id, r#"{"action":"cancel"}"#)
}

fn ended(id: &str) -> String {
    result(id, r#"{"stopReason":"cancelled"}"#)
}

fn acp(config: RelayConfig) -> RelayRig {
    greeted("1", "", config)
}

/// Plays the steps; what a side hears is compared, and whatever else it was sent by then shows in the next comparison.
fn play(name: &str, rig: &mut RelayRig, steps: Vec<Step>) {
    for (at, step) in steps.into_iter().enumerate() {
        match step {
            Client(line) => rig.from_client(&line),
            Agent(line) => rig.from_server(&line),
            Pass(millis) => rig.pass(Duration::from_millis(millis)),
            AgentHears(lines) => assert_eq!(rig.at_server(), lines, "{name}: step {at}"),
            ClientHears(lines) => assert_eq!(rig.at_client(), lines, "{name}: step {at}"),
            Stop => {
                let key = rig.key(Side::Client, "1").expect("it is in flight");
                assert!(rig.relay.stop(rig.now, key, None), "{name}: step {at}");
            }
            AgentIsGone => rig.end(Side::Server, &End::Closed),
        }
    }
}

/// The client says Allow to every card, late: the agent hears none of it. Then everything is forgotten.
fn nothing_authorises(name: &str, rig: &mut RelayRig, cards: &[&str]) {
    rig.at_client();
    rig.at_server();
    for id in cards {
        rig.from_client(&allow(id));
    }
    assert_eq!(rig.at_server(), [""; 0], "{name}: a late answer reaches the agent");
    rig.pass(Duration::from_secs(7200));
    assert_eq!(rig.relay.residue(), 0, "{name}");
}

const S: &str = r#""s""#;
const P: &str = r#""p""#;
const Q: &str = r#""q""#;

/// A turn in session "s", and in it the card "p", which the client has been shown.
fn shown() -> Vec<Step> {
    let (prompt, card) = (prompt("1", S), card(P, S));
    vec![Client(prompt.clone()), AgentHears(vec![prompt]), Agent(card.clone()), ClientHears(vec![card])]
}

/// The same, and the client has stopped the turn.
fn stopped() -> Vec<Step> {
    after(shown(), [Client(stop(S)), AgentHears(vec![stop(S)]), ClientHears(vec![])])
}

fn after(mut steps: Vec<Step>, more: impl IntoIterator<Item = Step>) -> Vec<Step> {
    steps.extend(more);
    steps
}

/// The agent is told "cancelled", the client that nobody waits for its answer.
fn closed(id: &str) -> [Step; 2] {
    [AgentHears(vec![denied(id)]), ClientHears(vec![drop_request(id)])]
}

/// The relay has had enough: the agent is told at the end of the second, and not before.
fn closes_after(millis: u64, id: &str) -> impl Iterator<Item = Step> {
    [Pass(millis - 1), AgentHears(vec![]), ClientHears(vec![]), Pass(1)].into_iter().chain(closed(id))
}

#[test]
fn a_card_does_not_outlive_the_clients_own_stop_in_any_order() {
    let forms: Vec<(&str, Vec<Step>)> = vec![
        ("the card is there before the stop", after(stopped(), closes_after(1000, P))),
        (
            "the card comes after the stop, and has its own second",
            vec![
                Client(prompt("1", S)),
                AgentHears(vec![prompt("1", S)]),
                Client(stop(S)),
                AgentHears(vec![stop(S)]),
                Pass(400),
                Agent(card(P, S)),
                ClientHears(vec![card(P, S)]),
            ]
            .into_iter()
            .chain(closes_after(1000, P))
            .collect(),
        ),
        (
            "repeated stops pass, and move nothing",
            after(
                stopped(),
                [Pass(400), Client(stop(S)), Pass(400), Client(stop(S)), AgentHears(vec![stop(S), stop(S)])]
                    .into_iter()
                    .chain(closes_after(200, P)),
            ),
        ),
        (
            "a repeated stop does not move the time of a card that came between them",
            after(
                stopped(),
                [
                    Pass(500),
                    Agent(card(Q, S)),
                    ClientHears(vec![card(Q, S)]),
                    Pass(250),
                    Client(stop(S)),
                    AgentHears(vec![stop(S)]),
                ]
                .into_iter()
                .chain(closes_after(250, P))
                .chain(closes_after(500, Q)),
            ),
        ),
        (
            "several cards, the oldest first",
            after(
                shown(),
                [
                    Agent(card(Q, S)),
                    ClientHears(vec![card(Q, S)]),
                    Client(stop(S)),
                    AgentHears(vec![stop(S)]),
                    Pass(1000),
                    AgentHears(vec![denied(P), denied(Q)]),
                    ClientHears(vec![drop_request(P), drop_request(Q)]),
                ],
            ),
        ),
        (
            "one of two is answered in time",
            after(
                shown(),
                [
                    Agent(card(Q, S)),
                    ClientHears(vec![card(Q, S)]),
                    Client(stop(S)),
                    Client(denied(Q)),
                    AgentHears(vec![stop(S), denied(Q)]),
                ]
                .into_iter()
                .chain(closes_after(1000, P)),
            ),
        ),
        (
            "an elicitation is dismissed in its own words",
            vec![
                Client(prompt("1", S)),
                AgentHears(vec![prompt("1", S)]),
                Agent(form(P, S)),
                ClientHears(vec![form(P, S)]),
                Client(stop(S)),
                AgentHears(vec![stop(S)]),
                Pass(999),
                AgentHears(vec![]),
                Pass(1),
                AgentHears(vec![dismissed(P)]),
                ClientHears(vec![drop_request(P)]),
            ],
        ),
        (
            "the turn ends before the second does",
            after(
                stopped(),
                [
                    Pass(300),
                    Agent(ended("1")),
                    ClientHears(vec![ended("1"), drop_request(P)]),
                    AgentHears(vec![denied(P)]),
                    Pass(700),
                    AgentHears(vec![]),
                    ClientHears(vec![]),
                ],
            ),
        ),
        (
            "the turn ends with an error",
            after(
                stopped(),
                [
                    Agent(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"aborted"}}"#.into()),
                    ClientHears(vec![
                        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"aborted"}}"#.into(),
                        drop_request(P),
                    ]),
                    AgentHears(vec![denied(P)]),
                ],
            ),
        ),
        (
            "the agent withdraws the card after the stop, and the client does not confirm",
            after(
                stopped(),
                [
                    Pass(500),
                    Agent(drop_request(P)),
                    ClientHears(vec![drop_request(P)]),
                    Pass(499),
                    AgentHears(vec![]),
                    Pass(1),
                    AgentHears(vec![denied(P)]),
                    ClientHears(vec![]),
                ],
            ),
        ),
        (
            "the agent withdraws the card before the stop, and the client does not confirm",
            after(
                shown(),
                [
                    Agent(drop_request(P)),
                    ClientHears(vec![drop_request(P)]),
                    Pass(500),
                    Client(stop(S)),
                    AgentHears(vec![stop(S)]),
                    Pass(999),
                    AgentHears(vec![]),
                    Pass(1),
                    AgentHears(vec![denied(P)]),
                    ClientHears(vec![]),
                ],
            ),
        ),
        (
            "no turn is known",
            vec![Agent(card(P, S)), ClientHears(vec![card(P, S)]), Client(stop(S)), AgentHears(vec![stop(S)])]
                .into_iter()
                .chain(closes_after(1000, P))
                .collect(),
        ),
        (
            "the turn has ended before the stop, and its card has not",
            after(
                shown(),
                [Agent(ended("1")), ClientHears(vec![ended("1")]), Client(stop(S)), AgentHears(vec![stop(S)])],
            )
            .into_iter()
            .chain(closes_after(1000, P))
            .collect(),
        ),
        (
            "the client withdraws the turn's request as well",
            after(
                stopped(),
                [Pass(100), Client(drop_request("1")), AgentHears(vec![])].into_iter().chain(closes_after(900, P)),
            ),
        ),
        (
            "updates of the turn go on",
            after(
                stopped(),
                [Pass(500), Agent(update(S)), ClientHears(vec![update(S)])].into_iter().chain(closes_after(500, P)),
            ),
        ),
        (
            "a load of the session that is cancelled meanwhile is no turn",
            after(
                stopped(),
                [
                    Client(request("2", "session/load", S)),
                    AgentHears(vec![request("2", "session/load", S)]),
                    Client(drop_request("2")),
                    AgentHears(vec![drop_request("2")]),
                    Agent(result("2", "{}")),
                    ClientHears(vec![result("2", "{}")]),
                ]
                .into_iter()
                .chain(closes_after(1000, P)),
            ),
        ),
        (
            "the client has not been given the card yet",
            vec![
                Client(prompt("1", S)),
                AgentHears(vec![prompt("1", S)]),
                Agent(card(P, S)),
                Client(stop(S)),
                AgentHears(vec![stop(S)]),
                Pass(1000),
                AgentHears(vec![denied(P)]),
                ClientHears(vec![]),
            ],
        ),
        (
            "the turn is mute: a card of its last moments closes together with the answer of ours",
            vec![
                Client(prompt("1", S)),
                AgentHears(vec![prompt("1", S)]),
                Client(stop(S)),
                AgentHears(vec![stop(S)]),
                Pass(29_500),
                Agent(card(P, S)),
                ClientHears(vec![card(P, S)]),
                Pass(500),
                AgentHears(vec![denied(P)]),
                ClientHears(vec![drop_request(P), ended("1")]),
            ],
        ),
        (
            "the turn is answered by us: a card that comes after that is shown to nobody",
            vec![
                Client(prompt("1", S)),
                AgentHears(vec![prompt("1", S)]),
                Client(stop(S)),
                AgentHears(vec![stop(S)]),
                Pass(30_000),
                ClientHears(vec![ended("1")]),
                Agent(card(P, S)),
                AgentHears(vec![denied(P)]),
                ClientHears(vec![]),
            ],
        ),
        (
            "a session is its value, not its spelling",
            vec![
                Client(prompt("1", r#""a/b""#)),
                AgentHears(vec![prompt("1", r#""a/b""#)]),
                Agent(card(P, r#""a\/b""#)),
                ClientHears(vec![card(P, r#""a\/b""#)]),
                Client(stop(r#""\u0061/b""#)),
                AgentHears(vec![stop(r#""\u0061/b""#)]),
            ]
            .into_iter()
            .chain(closes_after(1000, P))
            .collect(),
        ),
        (
            "a turn in another spelling ends the card",
            vec![
                Client(prompt("1", r#""\u0061\/b""#)),
                AgentHears(vec![prompt("1", r#""\u0061\/b""#)]),
                Agent(card(P, r#""a/b""#)),
                ClientHears(vec![card(P, r#""a/b""#)]),
                Client(stop(r#""a\/b""#)),
                AgentHears(vec![stop(r#""a\/b""#)]),
                Agent(ended("1")),
                ClientHears(vec![ended("1"), drop_request(P)]),
                AgentHears(vec![denied(P)]),
            ],
        ),
        (
            "a child that is stopped itself (ACP-34)",
            vec![
                Client(prompt("1", S)),
                AgentHears(vec![prompt("1", S)]),
                Agent(card(P, r#""child""#)),
                ClientHears(vec![card(P, r#""child""#)]),
                Client(stop(r#""child""#)),
                AgentHears(vec![stop(r#""child""#)]),
            ]
            .into_iter()
            .chain(closes_after(1000, P))
            .collect(),
        ),
        (
            "the client sends its turn's request by hand, and we cancel it",
            after(shown(), [Client(drop_request("1")), AgentHears(vec![stop(S), denied(P)])])
                .into_iter()
                .chain([ClientHears(vec![drop_request(P)])])
                .collect(),
        ),
        (
            "a card that crosses our own cancel of the turn is shown to nobody",
            vec![
                Client(prompt("1", S)),
                AgentHears(vec![prompt("1", S)]),
                Client(drop_request("1")),
                AgentHears(vec![stop(S)]),
                Agent(card(P, S)),
                AgentHears(vec![denied(P)]),
                ClientHears(vec![]),
            ],
        ),
        (
            "a card that crosses the operator's stop is shown to nobody",
            vec![
                Client(prompt("1", S)),
                AgentHears(vec![prompt("1", S)]),
                Stop,
                AgentHears(vec![stop(S)]),
                Agent(form(P, S)),
                AgentHears(vec![dismissed(P)]),
                ClientHears(vec![]),
            ],
        ),
        (
            "a card that crosses our own cancel, which the client has repeated",
            vec![
                Client(prompt("1", S)),
                AgentHears(vec![prompt("1", S)]),
                Client(drop_request("1")),
                Client(stop(S)),
                AgentHears(vec![stop(S), stop(S)]),
                Agent(card(P, S)),
                AgentHears(vec![denied(P)]),
                ClientHears(vec![]),
            ],
        ),
    ];
    for (name, steps) in forms {
        let mut rig = acp(RelayConfig::default());
        play(name, &mut rig, steps);
        // A turn that still runs is ended by its agent.
        rig.from_server(&ended("1"));
        nothing_authorises(name, &mut rig, &[P, Q]);
    }
}

#[test]
fn a_card_of_nobody_who_was_stopped_stays_with_its_client() {
    let child = r#""s/child""#;
    let begun = || vec![Client(prompt("1", S)), AgentHears(vec![prompt("1", S)])];
    let shows = |session: &str| [Agent(card(P, session)), ClientHears(vec![card(P, session)])];
    let stops = |session: &str| [Client(stop(session)), AgentHears(vec![stop(session)])];
    let forms: Vec<(&str, Vec<Step>)> = vec![
        ("nobody is stopped", shown()),
        (
            "a child of the stopped session runs on (ACP-39)",
            begun().into_iter().chain(shows(child)).chain(stops(S)).collect(),
        ),
        (
            "a child asks after its parent was stopped",
            begun().into_iter().chain(stops(S)).chain(shows(child)).collect(),
        ),
        (
            "a child asks after its parent's turn has ended",
            begun()
                .into_iter()
                .chain(shows(child))
                .chain(stops(S))
                .chain([Agent(ended("1")), ClientHears(vec![ended("1")])])
                .collect(),
        ),
        (
            "a child asks after its parent's turn was answered by us",
            begun()
                .into_iter()
                .chain(stops(S))
                .chain([Pass(30_000), ClientHears(vec![ended("1")])])
                .chain(shows(child))
                .collect(),
        ),
        (
            "a child asks after we have cancelled its parent's turn",
            begun()
                .into_iter()
                .chain([Client(drop_request("1")), AgentHears(vec![stop(S)])])
                .chain(shows(child))
                .collect(),
        ),
        ("a child is stopped, its parent not", begun().into_iter().chain(shows(S)).chain(stops(child)).collect()),
        ("another session is stopped", begun().into_iter().chain(shows(S)).chain(stops(r#""other""#)).collect()),
        ("a session whose name differs in case", begun().into_iter().chain(shows(S)).chain(stops(r#""S""#)).collect()),
        ("a session that is a number", begun().into_iter().chain(shows(r#""5""#)).chain(stops("5")).collect()),
        (
            "a stop that names nobody",
            begun()
                .into_iter()
                .chain(shows(S))
                .chain([Client(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{}}"#.into())])
                .chain([AgentHears(vec![r#"{"jsonrpc":"2.0","method":"session/cancel","params":{}}"#.into()])])
                .collect(),
        ),
        (
            "the agent says that the session is cancelled",
            begun().into_iter().chain(shows(S)).chain([Agent(stop(S)), ClientHears(vec![stop(S)])]).collect(),
        ),
        ("a stop of an idle session is over when its next card comes", stops(S).into_iter().chain(shows(S)).collect()),
        (
            "the stopped turn has ended, and the next one asks",
            begun()
                .into_iter()
                .chain(stops(S))
                .chain([Agent(ended("1")), ClientHears(vec![ended("1")])])
                .chain([Client(prompt("2", S)), AgentHears(vec![prompt("2", S)])])
                .chain(shows(S))
                .collect(),
        ),
        (
            "a turn that was answered by us, and then by its agent, is no longer mute",
            begun()
                .into_iter()
                .chain(stops(S))
                .chain([Pass(30_000), ClientHears(vec![ended("1")])])
                .chain([Agent(ended("1")), ClientHears(vec![])])
                .chain(shows(S))
                .collect(),
        ),
        (
            "a turn that ends by itself leaves its card to its agent",
            begun().into_iter().chain(shows(S)).chain([Agent(ended("1")), ClientHears(vec![ended("1")])]).collect(),
        ),
    ];
    for (name, steps) in forms {
        let mut rig = acp(RelayConfig::default());
        play(name, &mut rig, steps);
        rig.pass(Duration::from_secs(20));
        assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]), "{name}");
        rig.from_client(&allow(P));
        assert_eq!(rig.at_server(), [allow(P)], "{name}");
    }
}

/// News of a child, in this state.
fn news(parent: &str, child: &str, state: &str) -> String {
    let update = format!(r#"{{"sessionUpdate":"subagent_update","sessionId":{child},"state":{state}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{parent},"update":{update}}}}}"#)
}

const CHILD: &str = r#""child""#;
const CANCELLED: &str = r#"{"state":"idle","stopReason":"cancelled"}"#;

/// A stopped session, a child of which has shown a card.
fn child_asks() -> Vec<Step> {
    vec![
        Client(prompt("1", S)),
        AgentHears(vec![prompt("1", S)]),
        Agent(card(P, CHILD)),
        ClientHears(vec![card(P, CHILD)]),
        Client(stop(S)),
        AgentHears(vec![stop(S)]),
    ]
}

fn told(news: &str) -> [Step; 2] {
    [Agent(news.to_owned()), ClientHears(vec![news.to_owned()])]
}

/// ACP-39: from then on it counts as one that was stopped itself.
#[test]
fn the_cards_of_a_child_have_their_second_when_it_says_that_it_was_cancelled() {
    let over = || news(S, CHILD, CANCELLED);
    let forms: Vec<(&str, Vec<Step>)> = vec![
        ("while its parent's turn goes on", after(child_asks(), told(&over()))),
        (
            "after its parent's turn has ended",
            after(child_asks(), [Agent(ended("1")), ClientHears(vec![ended("1")])].into_iter().chain(told(&over()))),
        ),
        (
            "after its parent's turn was answered by us",
            after(child_asks(), [Pass(30_000), ClientHears(vec![ended("1")])].into_iter().chain(told(&over()))),
        ),
        (
            "its parent was never stopped",
            vec![Agent(card(P, CHILD)), ClientHears(vec![card(P, CHILD)])].into_iter().chain(told(&over())).collect(),
        ),
        (
            "a child of a child: its parent tells of it",
            after(child_asks(), told(&news(r#""another child""#, CHILD, CANCELLED))),
        ),
        ("in another spelling", after(child_asks(), told(&news(S, r#""\u0063hild""#, CANCELLED)))),
        (
            "with more members, and a reason in escapes",
            after(
                child_asks(),
                told(&news(S, CHILD, r#"{"_meta":{},"stopReason":"c\u0061ncelled","state":"\u0069dle"}"#)),
            ),
        ),
    ];
    for (name, steps) in forms {
        for repeats in [false, true] {
            let mut rig = acp(RelayConfig::default());
            play(name, &mut rig, steps.clone());
            let again: Vec<Step> =
                if repeats { [Pass(500)].into_iter().chain(told(&over())).collect() } else { Vec::new() };
            let left = if repeats { 500 } else { 1000 };
            play(name, &mut rig, after(again, closes_after(left, P)));
            rig.from_server(&ended("1"));
            nothing_authorises(name, &mut rig, &[P]);
        }
    }
    let mut rig = acp(RelayConfig::default());
    play(
        "both of its cards",
        &mut rig,
        after(child_asks(), [Agent(form(Q, CHILD)), ClientHears(vec![form(Q, CHILD)])]),
    );
    play("both of its cards", &mut rig, told(&over()).into_iter().chain([Pass(1000)]).collect());
    play(
        "both",
        &mut rig,
        vec![AgentHears(vec![denied(P), dismissed(Q)]), ClientHears(vec![drop_request(P), drop_request(Q)])],
    );
}

#[test]
fn no_other_news_of_a_child_ends_its_cards() {
    let states = [
        "null",
        "{}",
        r#"{"state":"running"}"#,
        r#"{"state":"running","stopReason":"cancelled"}"#,
        r#"{"state":"idle"}"#,
        r#"{"state":"idle","stopReason":null}"#,
        r#"{"state":"idle","stopReason":"end_turn"}"#,
        r#"{"state":"idle","error":{"message":"cancelled"}}"#,
        r#"{"state":"unknown"}"#,
        r#"{"state":"requires_action"}"#,
        r#"{"state":["idle"],"stopReason":["cancelled"]}"#,
        r#"{"stopReason":"cancelled"}"#,
        r#""idle""#,
    ];
    let mut others: Vec<String> = states.iter().map(|state| news(S, CHILD, state)).collect();
    let over = news(S, CHILD, CANCELLED);
    others.extend([
        news(S, r#""Child""#, CANCELLED),
        news(S, S, CANCELLED).replace(
            r#""update":{"sessionUpdate":"subagent_update","sessionId":"s","#,
            r#""update":{"sessionUpdate":"subagent_update","#,
        ),
        over.replace("subagent_update", "tool_call_update"),
        over.replace("session/update", "_session/update"),
    ]);
    for other in others {
        let mut rig = acp(RelayConfig::default());
        play(&other, &mut rig, after(child_asks(), told(&other)));
        rig.pass(Duration::from_secs(20));
        assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]), "{other}");
        rig.from_client(&allow(P));
        assert_eq!(rig.at_server(), [allow(P)], "{other}");
    }
    // The client says nothing of children, and in v2 the agent withdraws each card itself (ACP-53).
    for (version, by_client) in [("1", true), ("2", false)] {
        let mut rig = greeted(version, "", RelayConfig::default());
        play(version, &mut rig, child_asks());
        if by_client {
            rig.from_client(&over);
            assert_eq!(rig.at_server(), [&*over]);
        } else {
            rig.from_server(&over);
            assert_eq!(rig.at_client(), [&*over]);
        }
        rig.pass(Duration::from_secs(2));
        assert_eq!(rig.at_server(), [""; 0]);
    }
}

#[test]
fn a_card_of_a_childs_next_work_is_its_own() {
    let mut rig = acp(RelayConfig::default());
    let steps = told(&news(S, CHILD, CANCELLED)).into_iter().chain(closes_after(1000, P));
    play("next", &mut rig, after(child_asks(), steps));
    let steps = [Agent(card(Q, CHILD)), ClientHears(vec![card(Q, CHILD)]), Pass(20_000), AgentHears(vec![])];
    play("next", &mut rig, steps.into());
    rig.from_client(&allow(Q));
    assert_eq!(rig.at_server(), [allow(Q)]);
}

#[test]
fn an_answer_within_the_second_is_the_clients_own() {
    let answers = [
        denied(P),
        allow(P),
        result(P, r#"{"outcome":{"outcome":"selected","optionId":"reject"}}"#),
        r#"{"jsonrpc":"2.0","id":"p","error":{"code":-32800,"message":"Request cancelled"}}"#.to_owned(),
    ];
    for answer in answers {
        for millis in [0, 1, 999] {
            let mut rig = acp(RelayConfig::default());
            let steps = [Pass(millis), Client(answer.clone()), AgentHears(vec![answer.clone()])];
            play(&answer, &mut rig, after(stopped(), steps));
            rig.pass(Duration::from_secs(2));
            assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]), "{answer}: it has been answered");
        }
        // It came first, and waits to be read by the agent.
        let mut rig = acp(RelayConfig::default());
        play(&answer, &mut rig, after(stopped(), [Client(answer.clone()), Pass(2000), ClientHears(vec![])]));
        assert_eq!(rig.at_server(), [&*answer]);
    }
}

#[test]
fn an_answer_that_races_the_end_of_the_second_is_taken_once() {
    for answer_first in [true, false] {
        let mut rig = acp(RelayConfig::default());
        play("race", &mut rig, after(stopped(), [Pass(999)]));
        let due = rig.now + Duration::from_millis(1);
        assert_eq!(rig.relay.poll_timeout(), Some(due));
        rig.now = due;
        if answer_first {
            rig.from_client(&allow(P));
            rig.relay.handle_timeout(due);
            assert_eq!((rig.at_server(), rig.at_client()), (vec![allow(P)], vec![]));
        } else {
            rig.relay.handle_timeout(due);
            assert_eq!(rig.at_client(), [drop_request(P)]);
            rig.from_client(&allow(P));
            assert_eq!(rig.at_server(), [denied(P)]);
        }
        rig.from_server(&ended("1"));
        nothing_authorises("race", &mut rig, &[P]);
    }
}

#[test]
fn no_clock_of_ours_moves_the_second() {
    let clock = |clock, millis| ClockRule { clock, method: None, name: None, limit: Duration::from_millis(millis) };
    let of_cards =
        |limit: u64| ClockRule { method: Some("session/request_permission".into()), ..clock(Clock::Total, limit) };
    let settings = [
        ("a response clock of the turn", vec![clock(Clock::Response, 200)], 5000),
        ("a total clock of the turn", vec![clock(Clock::Total, 200)], 5000),
        ("a total clock of the card that runs out later", vec![of_cards(60_000)], 5000),
        ("a short grace", vec![], 10),
        ("a long grace", vec![], 60_000),
        ("no grace", vec![], 0),
    ];
    for (name, clocks, grace) in settings {
        let config = RelayConfig { clocks, grace: Duration::from_millis(grace), ..RelayConfig::default() };
        let mut rig = acp(config);
        play(name, &mut rig, after(stopped(), closes_after(1000, P)));
        rig.from_server(&ended("1"));
        nothing_authorises(name, &mut rig, &[P]);
    }
}

#[test]
fn a_card_whose_own_grace_or_clock_ends_first_is_answered_once() {
    let total = ClockRule {
        clock: Clock::Total,
        method: Some("session/request_permission".into()),
        name: None,
        limit: Duration::from_millis(100),
    };
    for (clocks, withdraws) in [(vec![], true), (vec![total], false)] {
        let mut rig = acp(RelayConfig { clocks, grace: Duration::from_millis(100), ..RelayConfig::default() });
        play("first", &mut rig, stopped());
        if withdraws {
            rig.from_server(&drop_request(P));
        }
        rig.pass(Duration::from_millis(100));
        assert_eq!(rig.at_client(), [drop_request(P)]);
        assert_eq!(rig.at_server().len(), 1);
        rig.pass(Duration::from_secs(2));
        assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]));
        rig.from_server(&ended("1"));
        nothing_authorises("first", &mut rig, &[P]);
    }
}

#[test]
fn a_turn_whose_clock_runs_out_takes_its_card_along() {
    let limit = Duration::from_millis(200);
    let clocks = vec![ClockRule { clock: Clock::Total, method: None, name: None, limit }];
    let mut rig = acp(RelayConfig { clocks, ..RelayConfig::default() });
    play("timeout", &mut rig, shown());
    rig.pass(limit);
    assert_eq!(rig.at_server(), [stop(S), denied(P)]);
    rig.at_client();
    rig.from_server(&card(Q, S));
    assert_eq!((rig.at_server(), rig.at_client()), (vec![denied(Q)], vec![]), "one that comes late is shown to nobody");
    rig.from_server(&ended("1"));
    nothing_authorises("timeout", &mut rig, &[P, Q]);
}

#[test]
fn a_closed_card_is_reported_as_a_child_of_the_clients_stop() {
    let mut rig = acp(RelayConfig::default());
    play("report", &mut rig, after(stopped(), [Pass(1000)]));
    let receipt = rig.receipt(Side::Server, P).unwrap();
    assert_eq!((receipt.cause.code, receipt.cause.root), (CauseCode::Parent, Some(CauseCode::Caller)));
    assert_eq!(receipt.outcome, Outcome::Asked);
    let is_notice = |event: &&RelayEvent| matches!(event, RelayEvent::Cancel(notice) if notice.from == Side::Server);
    assert_eq!(rig.events.iter().filter(is_notice).count(), 1);
    rig.from_client(&allow(P));
    assert!(rig.events.iter().any(|event| matches!(event, RelayEvent::Late { from: Side::Client, .. })));
}

#[test]
fn an_agent_that_is_gone_has_no_cards() {
    let mut rig = acp(RelayConfig::default());
    play("gone", &mut rig, after(stopped(), [AgentIsGone]));
    rig.at_client();
    rig.pass(Duration::from_secs(2));
    assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]));
    nothing_authorises("gone", &mut rig, &[P]);
}

/// The agent alone declares the cancels of the proposal: the client cannot be told (ACP-20).
#[test]
fn a_client_that_cannot_be_told_loses_its_card_all_the_same() {
    let mut rig = RelayRig::new(RelayConfig::default());
    rig.from_client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    rig.at_server();
    let declared = r#"{"protocolVersion":1,"agentCapabilities":{"cancellation":{"request":true}}}"#;
    rig.from_server(&result("0", declared));
    rig.at_client();
    play("gate", &mut rig, after(stopped(), [Pass(1000), AgentHears(vec![denied(P)]), ClientHears(vec![])]));
    rig.from_server(&ended("1"));
    nothing_authorises("gate", &mut rig, &[P]);
}

/// There the agent withdraws each card of the work that it stops, and others may belong to work that goes on.
#[test]
fn in_version_2_the_agent_says_which_cards_are_over() {
    let mut rig = greeted("2", "", RelayConfig::default());
    play("v2", &mut rig, stopped());
    rig.pass(Duration::from_secs(20));
    assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]), "ACP-51, ACP-53");
    rig.from_client(&allow(P));
    assert_eq!(rig.at_server(), [allow(P)]);
}
