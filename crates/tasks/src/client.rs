//! Following the tasks of a server to their end, in either dialect.
//!
//! ```no_run
//! use rescind::mcp::Client;
//! use rescind_tasks::client::{TaskClient, TaskNotifications};
//!
//! # async fn run(transport: rescind::peer::Transport) -> Result<(), Box<dyn std::error::Error>> {
//! let notifications = TaskNotifications::new();
//! let (peer, driver) = notifications.register(Client::peer_builder()).connect(transport);
//! driver.spawn();
//! let client = Client::new(peer, "builder", "1.0.0");
//! client.open().await?;
//!
//! // One future, whether the call becomes a task or not.
//! let tasks = TaskClient::of(&client).notified_by(&notifications);
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
//! A task outlives its connection. Another connection can [follow](TaskClient::follow) it by its id
//! ([`TaskStopHandle::task`]).

mod call;
mod error;
mod flow;
mod notifications;
mod state;
mod stop;
mod tasks;

pub use call::TaskCall;
pub use error::TaskCallError;
pub use flow::Question;
pub use notifications::TaskNotifications;
pub use state::TaskState;
pub use stop::{TaskReceipt, TaskReceiptFuture, TaskStopHandle};
pub use tasks::{TaskClient, TaskPage};
