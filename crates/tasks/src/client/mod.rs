//! Following the tasks of a server to their end, in either dialect.
//!
//! ```no_run
//! use rescind::mcp::Client;
//! use rescind_tasks::client::{TaskWatch, TaskClient};
//!
//! # async fn run(transport: rescind::peer::Transport) -> Result<(), Box<dyn std::error::Error>> {
//! let watch = TaskWatch::new();
//! let (peer, driver) = watch.listen(Client::builder()).connect(transport);
//! driver.spawn();
//! let client = Client::new(peer, "builder", "1.0.0");
//! client.open().await?;
//!
//! // One future, whether the server makes a task of it or not.
//! let tasks = TaskClient::of(&client).watching(&watch);
//! let build = tasks.call_tool("build", &serde_json::json!({ "target": "all" }));
//! let stop = build.handle();
//! tokio::spawn(async move {
//!     tokio::signal::ctrl_c().await?;
//!     // `tasks/cancel`, as soon as the task has an id.
//!     let receipt = stop.cancel("user pressed Stop").await;
//!     println!("{}", receipt.outcome);
//!     std::io::Result::Ok(())
//! });
//! println!("{:?}", build.await?);
//! # Ok(())
//! # }
//! ```
//!
//! A task outlives its connection. Whoever keeps the id ([`TaskStop::task`]) can [follow](TaskClient::follow) it from
//! another.

mod call;
mod course;
mod error;
mod slip;
mod state;
mod tasks;
mod unattended;
mod watch;

pub use call::TaskCall;
pub use course::Question;
pub use error::TaskCallError;
pub use slip::{TaskReceipt, TaskReceiptFuture, TaskStop};
pub use state::TaskState;
pub use tasks::{TaskClient, TaskPage};
pub use watch::TaskWatch;
