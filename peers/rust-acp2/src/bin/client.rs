//! A client of ACP v2 on agent-client-protocol: `client COMMAND…` starts its agent with that command, sends one
//! prompt and prints each update of its session as a line of JSON. `cancel` on its stdin cancels the turn; the end of
//! its stdin ends the client.

use std::{env, io, thread};

use agent_client_protocol::{
    AcpAgent, Agent, Client, Error, Result, on_receive_notification,
    schema::ProtocolVersion,
    v2::{ConnectionTo, schema},
};
use futures::{StreamExt, channel::mpsc, executor::block_on};

fn main() -> Result<()> {
    let agent = AcpAgent::from_args(env::args().skip(1))?;
    let (order, mut orders) = mpsc::unbounded();
    thread::spawn(move || {
        let lines = io::stdin().lines().map_while(io::Result::ok);
        lines.for_each(|line| drop(order.unbounded_send(line)));
    });
    let client = Client.v2().on_receive_notification(
        async |told: schema::UpdateSessionNotification, _: ConnectionTo<Agent>| {
            println!("{}", serde_json::to_string(&told.update).map_err(Error::into_internal_error)?);
            Ok(())
        },
        on_receive_notification!(),
    );
    block_on(client.connect_with(agent, async move |agent: ConnectionTo<Agent>| {
        let info = schema::Implementation::new("rescind-peer-acp2", "0.0.0");
        agent.send_request(schema::InitializeRequest::new(ProtocolVersion::V2, info)).block_task().await?;
        let session = agent.build_session_cwd()?.start_session().block_task().await?.session;
        session.send_prompt("work").block_task().await?;
        while let Some(order) = orders.next().await {
            if order == "cancel" {
                session.cancel_active_work()?;
            }
        }
        Ok(())
    }))
}
