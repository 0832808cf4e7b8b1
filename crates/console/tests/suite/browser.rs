//! The page in a real Chromium, over scripted shims.
//!
//! Each case waits for what the page shows. Pictures of the main states are written to `target/screenshots`, or to
//! `RESCIND_SCREENSHOTS`. Without `chromium` and `chromedriver` nothing is tried, and with `RESCIND_REQUIRE_PEERS` that
//! fails.

mod busy;
mod cancel;
mod containers;
mod driver;
mod looks;
mod processes;
mod stage;
mod stop;
mod watch;
