//! A call in several rounds (2026-07-28) with an SDK that knows them, in both roles.

use rescind::{
    mcp::{Client, NoArguments, Revision, Server, Tool},
    peer::{Context, ErrorObject, Params},
};
use serde_json::{Value, json};

use super::{
    program::{Program, bounded},
    sdk::Sdk,
    table::Role,
};

const ELICIT: &str = "elicitation/create";

/// The SDK's program for these tests, in its role.
fn program(role: Role) -> Option<Vec<String>> {
    let mut command = Sdk::McpTypeScript2Modern.command(role)?;
    command.truncate(2);
    command[1] = command[1].replace("server.mjs", "rounds.mjs").replace("led.mjs", "rounds.mjs");
    command.push(if role == Role::Server { "server" } else { "client" }.to_owned());
    Some(command)
}

#[tokio::test]
async fn their_server_asks_and_our_client_answers_until_it_has_its_result() {
    bounded(async {
        let Some(command) = program(Role::Server) else { return };
        let (server, transport) = Program::start(&command);
        let builder = Client::peer_builder().on_request(ELICIT, |Params(asked): Params<Value>| async move {
            let word = asked["message"].as_str().unwrap_or_default().to_uppercase();
            Ok::<_, ErrorObject>(json!({ "action": "accept", "content": { "word": word } }))
        });
        let (peer, driver) = builder.connect(transport);
        let driven = driver.spawn();
        let client = Client::new(peer, "rescind", "0").capability("elicitation", json!({}));
        assert_eq!(client.open().await.unwrap().revision, Revision::V2026_07_28);
        assert_eq!(client.call_tool("book", &json!({})).await.unwrap().text(), "NAME? of TOWN?");
        drop(client);
        driven.await.unwrap().unwrap();
        server.exited().await;
    })
    .await;
}

#[tokio::test]
async fn our_tool_asks_and_their_client_answers_until_it_has_its_result() {
    bounded(async {
        let Some(command) = program(Role::Client) else { return };
        let (mut client, transport) = Program::start(&command);
        let server = Server::new("rescind", "0").with_tool(Tool::with_schema(
            "book",
            "",
            json!({}),
            |NoArguments {}, cx: Context| async move {
                let form = |message: &str| {
                    let word = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
                    json!({ "message": message, "requestedSchema": word })
                };
                let name: Value = cx.ask(ELICIT, &form("name?")).await?;
                let (town, card) =
                    tokio::join!(cx.ask::<Value>(ELICIT, &form("town?")), cx.ask::<Value>(ELICIT, &form("card?")));
                let words = [name, town?, card?].map(|said| said["content"]["word"].as_str().unwrap_or("").to_owned());
                Ok::<_, ErrorObject>(words.join(" "))
            },
        ));
        let serving = tokio::spawn(server.serve(transport));
        let ended = client.journal.until("book", &["result", "error"]).await;
        assert_eq!(ended.more["value"], "NAME? TOWN? CARD?", "{ended:?}");
        client.exited().await;
        serving.await.unwrap().unwrap();
    })
    .await;
}
